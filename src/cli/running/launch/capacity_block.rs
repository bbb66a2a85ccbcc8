//! `--buy-capacity-block`: machines for a span of days, paid whether used or not: capacity blocks of AWS, reservations of Google in calendar mode. What a yes
//! means, the purchase, and the wait for its start.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::running::launch::run_spec::Chosen;
use crate::runs::launchers::{Launchers, exit_of, launchers_of_run};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_clouds::{aws, gcp};
use gpuplan_launch::block::{BlockOrder, BlockQuery, Seller, hours_for, last_minutes};
use gpuplan_launch::spec::Offered;
use gpuplan_launch::{Journal, LaunchError, Market, Pool, RunSpec};
use gpuplan_market::Purchase;
use gpuplan_report::text::format::usd;
use gpuplan_units::{Hours, UsdPerHour};

/// Between two looks at a journal in which somebody may have stopped the run, and two words while its block is awaited.
const LOOK: Duration = Duration::from_secs(5);

const WORD: Duration = Duration::from_mins(10);

const SECONDS_PER_HOUR: f64 = 3600.0;

/// The run on the block that can be had first, where the plan buys one; any other run as it was.
pub fn plan_block(spec: RunSpec, chosen: &Chosen, is_wanted: bool, session: &Session) -> Result<RunSpec, Diagnostic> {
    let offer = chosen.answered.catalogs.market.offer(chosen.plan.offer);
    let refused = |exit: Exit, why: String| Diagnostic::new(exit, why);
    let sold_by = match offer.purchase {
        Purchase::CapacityBlock => aws::CLOUD,
        Purchase::Calendar => gcp::CLOUD,
        Purchase::Reserved => {
            let why = "gpuplan plans on reserved terms and does not book them: book there yourself".to_owned();
            return Err(refused(Exit::Usage, why).hint("--purchase on-demand").hint("--purchase spot"));
        }
        _ if is_wanted => {
            let why = "--buy-capacity-block buys what a plan on machines that are sold ahead needs, and this plan is on other terms"
                .to_owned();
            return Err(refused(Exit::Usage, why).hint("--purchase capacity-block").hint("--purchase calendar"));
        }
        _ => return Ok(spec),
    };
    if chosen.cloud() != sold_by {
        return Err(refused(Exit::Usage, format!("{} does not sell {} machines", chosen.cloud(), offer.purchase))
            .hint("--purchase spot"));
    }
    let hours = hours_for(offer.purchase, chosen.plan.run.hours.p90 - chosen.plan.run.booked_wait)
        .ok_or_else(|| refused(Exit::NoPlanFits, format!("no {} is as long as this run may take", named(sold_by))))?;
    let pool = Pool {
        cloud: sold_by.to_owned(),
        region: offer.place.region.to_string(),
        zone_id: None,
        instance_type: chosen.answered.catalogs.hardware.instance(chosen.plan.instance).name.clone(),
        market: Market::CapacityBlock,
    };
    let wish = BlockQuery {
        region: pool.region.clone(),
        instance_type: pool.instance_type.clone(),
        machines: spec.nodes,
        hours,
        rate_usd_per_hour: offer.quote.rate,
    };
    let launchers = launchers_of_run(
        &RunSpec { on_demand: vec![Offered::new(pool.clone(), offer.quote.rate)], ..spec.clone() },
        session,
    )?;
    let (seller, runtime) = (seller(&launchers)?, runtime()?);
    let asking = || format!("asking for a {}", named(sold_by));
    let offers = with_progress(&session.printer, asking, || runtime.block_on(seller.offered(&wish)))
        .map_err(|error| block_error(&spec.run, &error))?;
    let Some(first) = offers.into_iter().next() else {
        let why = format!(
            "no {} of {hours} h for {} x {} is sold in {} now",
            named(sold_by),
            wish.machines,
            wish.instance_type,
            wish.region
        );
        return Err(refused(Exit::NoCapacity, why).hint("--purchase spot"));
    };
    let BlockQuery { region, instance_type, machines, .. } = wish;
    let order = BlockOrder { region, instance_type, machines, offer: first, reservation: None };
    let spec = on(spec, pool, order, last_minutes(offer.purchase))?;
    if !is_wanted {
        let bought = words(&spec).expect("a block was put into it");
        let why = format!("the plan needs a {}, which is bought only on request: {bought}", named(sold_by));
        return Err(refused(Exit::Usage, why)
            .hint("--buy-capacity-block buys it after you confirm")
            .hint("--purchase spot"));
    }
    Ok(spec)
}

/// Places, time and money of a run on a block.
fn on(spec: RunSpec, pool: Pool, order: BlockOrder, last_minutes: SignedDuration) -> Result<RunSpec, Diagnostic> {
    let offer = &order.offer;
    let span = offer.ends_at.duration_since(offer.starts_at).as_secs_f64().max(1.0);
    let machine_hours = span / SECONDS_PER_HOUR * f64::from(spec.nodes);
    // Rounded up, so that all machines together are no cheaper than what was paid.
    let rate = UsdPerHour::from_nanos((offer.upfront_usd.nanos() as f64 / machine_hours).ceil() as i64);
    let wait = (offer.starts_at.duration_since(spec.started_at).as_secs_f64() / SECONDS_PER_HOUR).max(0.0);
    if let Some(deadline) = spec.deadline_hours.filter(|deadline| wait + spec.work_hours > *deadline) {
        let why = format!(
            "the first block starts in {}, so {} of work end after the deadline in {}",
            Hours(wait),
            Hours(spec.work_hours),
            Hours(deadline)
        );
        return Err(Diagnostic::new(Exit::NoPlanFits, why).hint("--purchase spot"));
    }
    if let Some(budget) = spec.budget_usd.filter(|budget| offer.upfront_usd > *budget) {
        let why = format!("the block costs {} up front, and the budget is {}", usd(offer.upfront_usd), usd(budget));
        return Err(Diagnostic::new(Exit::OverBudget, why));
    }
    // It is paid whether used or not.
    let minimum_seconds = span as u32;
    let pool = Pool { zone_id: Some(offer.zone_id.clone()), ..pool };
    let last = (span - last_minutes.as_secs_f64()) / SECONDS_PER_HOUR;
    Ok(RunSpec {
        spot: Vec::new(),
        on_demand: vec![Offered { minimum_seconds, ..Offered::new(pool, rate) }],
        lifetime_hours: spec.lifetime_hours.min(last),
        deadline_hours: spec.deadline_hours.map(|deadline| deadline - wait),
        budget_usd: None,
        block: Some(order),
        ..spec
    })
}

/// What a cloud calls a span that it sells ahead.
fn named(cloud: &str) -> &'static str {
    if cloud == gcp::CLOUD { "reservation in calendar mode" } else { "capacity block" }
}

/// What a yes buys.
pub fn words(spec: &RunSpec) -> Option<String> {
    let BlockOrder { offer, .. } = spec.block.as_ref()?;
    Some(format!(
        "{} for {} machines in {} from {:.0} to {:.0}, whether they are used or not; gpuplan gives nothing of it back",
        usd(offer.upfront_usd),
        spec.nodes,
        offer.zone_id,
        offer.starts_at,
        offer.ends_at
    ))
}

/// The time of the run begins with its block.
pub fn begins_at(spec: &RunSpec, now: Timestamp) -> Timestamp {
    spec.block.as_ref().map_or(now, |block| block.offer.starts_at.max(now))
}

/// Buys the block, once. The journal has the run already, so a purchase whose answer is lost is found by its marks.
pub fn buy(
    spec: RunSpec,
    launchers: &Launchers,
    journal: &mut Journal,
    printer: &Printer,
) -> Result<RunSpec, Diagnostic> {
    let Some(order) = spec.block.clone() else { return Ok(spec) };
    let (seller, runtime) = (seller(launchers)?, runtime()?);
    let buying = || "buying the machines' time".to_owned();
    match with_progress(printer, buying, || runtime.block_on(seller.buy(&spec.run, &order))) {
        Ok(reservation) => {
            printer.note(&format!(
                "gpuplan: {reservation} is bought for {}, at {}",
                spec.run,
                usd(order.offer.upfront_usd)
            ));
            reserved(spec, reservation, journal)
        }
        Err(error @ LaunchError::Unclear { .. }) => {
            let why = format!("{}: whether the block was bought is unknown: {error}", spec.run);
            Err(Diagnostic::new(Exit::MayStillCost, why).hint(format!("gpuplan watch {}", spec.run)))
        }
        Err(error) => {
            journal.end(&spec.run, &gpuplan_launch::End::Stopped, Timestamp::now())?;
            Err(block_error(&spec.run, &error))
        }
    }
}

/// The reservation of a run that somebody began to buy, from its marks where the journal does not name it.
pub fn find_reservation(spec: RunSpec, launchers: &Launchers, journal: &mut Journal) -> Result<RunSpec, Diagnostic> {
    let Some(order) = spec.block.clone().filter(|order| order.reservation.is_none()) else { return Ok(spec) };
    let (seller, runtime) = (seller(launchers)?, runtime()?);
    match runtime.block_on(seller.bought(&spec.run, &order.region)).map_err(|error| block_error(&spec.run, &error))? {
        Some(reservation) => reserved(spec, reservation, journal),
        None => {
            let why = format!(
                "no capacity block in {} has the tag of {}; the list may be a minute late",
                order.region, spec.run
            );
            Err(Diagnostic::new(Exit::NoCapacity, why)
                .hint(format!("gpuplan watch {}", spec.run))
                .hint(format!("gpuplan stop {}", spec.run)))
        }
    }
}

fn reserved(spec: RunSpec, reservation: String, journal: &mut Journal) -> Result<RunSpec, Diagnostic> {
    let block = spec.block.clone().map(|order| BlockOrder { reservation: Some(reservation), ..order });
    let spec = RunSpec { block, ..spec };
    journal.amend(&spec)?;
    Ok(spec)
}

/// Until the block starts. False: the run was stopped meanwhile.
pub fn until_it_starts(spec: &RunSpec, journal: &Journal, printer: &Printer) -> Result<bool, Diagnostic> {
    let Some(block) = &spec.block else { return Ok(true) };
    let mut spoke: Option<Instant> = None;
    loop {
        let left = block.offer.starts_at.duration_since(Timestamp::now());
        if left <= SignedDuration::ZERO {
            return Ok(true);
        }
        if journal.has_ended(&spec.run)? {
            return Ok(false);
        }
        if spoke.is_none_or(|spoke| spoke.elapsed() >= WORD) {
            spoke = Some(Instant::now());
            let (at, left) = (block.offer.starts_at, Hours(left.as_secs_f64() / SECONDS_PER_HOUR));
            printer.note(&format!(
                "gpuplan: the block of {} starts at {at:.0}, in {left}; `gpuplan watch {}` leads it then, too",
                spec.run, spec.run
            ));
        }
        std::thread::sleep(LOOK.min(left.unsigned_abs()));
    }
}

fn seller(launchers: &Launchers) -> Result<&dyn Seller, Diagnostic> {
    launchers
        .iter()
        .find_map(|launcher| launcher.seller())
        .ok_or_else(|| Diagnostic::usage("this cloud does not sell capacity blocks"))
}

fn block_error(run: &str, error: &LaunchError) -> Diagnostic {
    Diagnostic::new(exit_of(error), format!("{run}: {error}")).hint("gpuplan doctor")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::launch::keep_alive::tests::spec;
    use gpuplan_launch::block::BlockOffer;
    use gpuplan_units::{Usd, billed_seconds};

    fn order(starts_in: i64) -> BlockOrder {
        let starts_at = spec().started_at + SignedDuration::from_hours(starts_in);
        let offer = BlockOffer {
            id: "cbo-1".to_owned(),
            zone_id: "use1-az1".to_owned(),
            starts_at,
            ends_at: starts_at + SignedDuration::from_hours(24),
            upfront_usd: Usd::parse("480").unwrap(),
        };
        let instance_type = "p5.48xlarge".to_owned();
        BlockOrder { region: "us-east-1".to_owned(), instance_type, machines: 2, offer, reservation: None }
    }

    fn on_block(spec: RunSpec, starts_in: i64) -> Result<RunSpec, Diagnostic> {
        let pool = Pool { zone_id: None, market: Market::CapacityBlock, ..spec.spot[0].pool.clone() };
        on(spec, pool, order(starts_in), last_minutes(Purchase::CapacityBlock))
    }

    #[test]
    fn a_run_on_a_block_costs_what_was_paid_and_ends_before_the_block() {
        let run =
            on_block(RunSpec { nodes: 2, lifetime_hours: 90.0, budget_usd: None, deadline_hours: None, ..spec() }, 5)
                .unwrap();
        assert_eq!(run.worst_case(), Some(Usd::parse("480").unwrap()));
        assert_eq!((run.spot.len(), run.on_demand.len(), run.lifetime_hours), (0, 1, 23.5));
        let place = &run.on_demand[0];
        assert_eq!((place.pool.zone_id.as_deref(), place.pool.market), (Some("use1-az1"), Market::CapacityBlock));
        assert_eq!(place.rate_usd_per_hour, UsdPerHour::parse("10").unwrap(), "480 over two machines and 24 hours");
        // A machine that is used for an hour costs its share of the whole.
        let hours = billed_seconds(3600.0, place.minimum_seconds) / 3600.0;
        assert!((hours - 24.0).abs() < 1e-9, "{hours}");
        assert_eq!(begins_at(&run, spec().started_at), order(5).offer.starts_at);
        assert!(words(&run).unwrap().starts_with("$480.00 for 2 machines in use1-az1"), "{:?}", words(&run));
    }

    #[test]
    fn a_block_that_starts_too_late_or_costs_too_much_is_refused() {
        let late = on_block(RunSpec { deadline_hours: Some(10.0), work_hours: 6.0, budget_usd: None, ..spec() }, 5)
            .unwrap_err();
        assert_eq!(late.exit, Exit::NoPlanFits);
        let dear =
            on_block(RunSpec { budget_usd: Usd::parse("479").ok(), deadline_hours: None, ..spec() }, 5).unwrap_err();
        assert_eq!(dear.exit, Exit::OverBudget);
    }
}
