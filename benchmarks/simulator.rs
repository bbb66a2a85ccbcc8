//! How fast traces are replayed, in ticks a second on one core, and how long a table and a forecast take.
//!
//! `cargo bench --bench simulator`

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use gpuplan::spot::availability::{AvailabilityModel, Future};
use gpuplan::spot::forecast::forecast;
use gpuplan::spot::policy::semi_markov::Tables;
use gpuplan::spot::policy::{Limits, Policy, PoolTerms};
use gpuplan::spot::replay::{World, replay};
use gpuplan::spot::watch::{FIRST_PAUSE, Watch};
use gpuplan::units::draw::Draws;
use gpuplan::units::{Usd, UsdPerHour};

fn main() {
    divan::main();
}

/// 48 h of work in 60 h, decided every ten minutes.
fn limits() -> Limits {
    let (spot, on_demand) = (UsdPerHour::from_nanos(973_100_000), UsdPerHour::from_nanos(3_060_000_000));
    let pool = PoolTerms { spot, on_demand: None, switch_cost: Usd::ZERO, switch_changeover: 720.0 };
    Limits {
        work: 48.0 * 3600.0,
        deadline: 60.0 * 3600.0,
        tick: 600.0,
        changeover: 720.0,
        worst_changeover: 720.0,
        on_demand,
        pools: vec![pool],
        budget: None,
    }
}

/// Ticks a second of one policy on one core.
#[divan::bench(args = ["uniform-progress", "slack-reserve", "semi-markov"])]
fn replays(bencher: Bencher, name: &str) {
    let (limits, model) = (limits(), AvailabilityModel::prior());
    let policy = match name {
        "uniform-progress" => Policy::UniformProgress,
        "slack-reserve" => Policy::SlackReserve,
        _ => Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits))),
    };
    let mut future =
        Future::new(&model, &Watch::attempts(1, limits.tick, FIRST_PAUSE), 0, limits.tick, Draws::new(1, 0));
    let pools = [future.reach(1000)];
    let world = World::from_pools(&pools);
    let run = || replay(&policy, &limits, &world, 0, Watch::attempts(1, limits.tick, FIRST_PAUSE), false);
    let ticks = run().map_or(0, |outcome| outcome.ticks);
    bencher.counter(ItemsCount::new(ticks)).bench(run);
}

#[divan::bench]
fn table() -> Tables {
    Tables::new(&AvailabilityModel::prior(), &limits())
}

/// Table and draws together: what one plan waits for.
#[divan::bench]
fn one_forecast() {
    let (limits, model) = (limits(), AvailabilityModel::prior());
    let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
    divan::black_box(forecast(&policy, &limits, &model, Watch::attempts(1, limits.tick, FIRST_PAUSE), 0).is_ok());
}
