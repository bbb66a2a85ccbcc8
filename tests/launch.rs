//! The controller of a launch: simulated with everything going wrong, failing over, gangs by hand.

mod failover;
mod faults;
mod gangs;
mod moves;
mod sight;
mod simulation;
mod stopping;
mod two_clouds;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use gpuplan::launch::events::{Order, Rentable, Terms};
use gpuplan::launch::launcher::{Machine, MachineId, MachineState, Market, Pool};
use gpuplan::launch::names::Launch;
use gpuplan::spot::AvailabilityModel;
use gpuplan::spot::policy::semi_markov::Tables;
use gpuplan::spot::policy::{Limits, Policy, PoolTerms};
use gpuplan::units::{Usd, UsdPerHour};

use crate::launch::simulation::{DEADLINE, LIFETIME, SETTLES, SILENCE, TICK, WORK, WORST_CHANGEOVER};

fn terms(nodes: u32, budget: Option<f64>) -> Terms {
    static TABLES: OnceLock<Arc<Tables>> = OnceLock::new();
    let pool = |zone: &str, market| Pool {
        cloud: "sim".to_owned(),
        region: "r".to_owned(),
        zone_id: Some(zone.to_owned()),
        instance_type: "p5.48xlarge".to_owned(),
        market,
    };
    let choice = |zone: &str, market, rate: &str| Rentable {
        pool: pool(zone, market),
        rate: UsdPerHour::parse(rate).unwrap(),
        minimum_seconds: 60,
        most: UsdPerHour::parse(rate).unwrap(),
        start: Usd::ZERO,
    };
    let spot = vec![choice("a", Market::Spot, "20"), choice("b", Market::Spot, "22"), choice("c", Market::Spot, "25")];
    let on_demand = vec![choice("a", Market::OnDemand, "60"), choice("b", Market::OnDemand, "60")];
    let all = |choice: &Rentable| UsdPerHour::from_nanos(choice.rate.nanos() * i64::from(nodes));
    let pools = spot.iter().map(|spot| PoolTerms {
        spot: all(spot),
        on_demand: None,
        switch_cost: Usd::ZERO,
        switch_changeover: 720.0,
    });
    // Without a budget, what one life of the dearest gang costs.
    let bound = Usd::from_dollars(budget.unwrap_or(60.0 * f64::from(nodes) * LIFETIME / 3600.0)).unwrap();
    let limits = Limits {
        work: WORK,
        deadline: DEADLINE,
        tick: TICK,
        changeover: 720.0,
        worst_changeover: WORST_CHANGEOVER,
        on_demand: all(&on_demand[0]),
        pools: pools.collect(),
        budget: Some(bound),
    };
    // They are dollars of one machine: a gang that asked first would leave the others with its own.
    let alone = || Arc::new(Tables::new(&AvailabilityModel::prior(), &Limits { budget: None, ..limits.clone() }));
    let policy = if nodes == 1 { Policy::SemiMarkov(TABLES.get_or_init(alone).clone()) } else { Policy::SlackReserve };
    Terms {
        launch: Launch { run: "run".to_owned(), at: 7, lead: 1 },
        nodes,
        spot,
        on_demand,
        limits,
        policy,
        first: None,
        bound: Some(bound),
        lifetime: LIFETIME,
        gang_limit: 900.0,
        silence: SILENCE,
        settles: SETTLES,
    }
}

/// The machine that an order asks for, as it runs.
fn made(order: &Order, id: String) -> Machine {
    Machine {
        id: MachineId(id),
        run: "run".to_owned(),
        epoch: order.epoch,
        node: order.node,
        token: order.token.clone(),
        pool: order.choice.pool.clone(),
        state: MachineState::Running,
        reason: None,
        was_taken: false,
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        owner: String::new(),
    }
}
