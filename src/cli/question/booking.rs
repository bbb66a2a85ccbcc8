//! Capacity for a date: once a plan says how many machines it needs for how long, whoever sells ahead is asked for just that.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::question::live::{self, Outcome};
use crate::session::diagnostic::Diagnostic;
use crate::session::{Catalogs, Session};
use gpuplan_hardware::InstanceId;
use gpuplan_launch::block::hours_for;
use gpuplan_market::{Offer, Purchase, Span};
use gpuplan_plan::{Limits, Plan, PlanSet, PurchaseChoice};

/// Whether the question is about machines that are sold ahead.
pub fn is_about(limits: &Limits) -> bool {
    matches!(limits.offers.purchase, PurchaseChoice::CapacityBlock | PurchaseChoice::Calendar)
}

/// The same market as if any number of machines could be had for any time: what a plan on it needs is what to ask for.
pub fn opened(catalogs: &Catalogs) -> Catalogs {
    Catalogs { hardware: catalogs.hardware.clone(), market: catalogs.market.unbooked() }
}

/// The catalogs with the spans that the plans of the opened market need, in place of any other spans of the same machine types.
pub fn ask_for(
    open: &PlanSet,
    mut catalogs: Catalogs,
    limits: &Limits,
    session: &Session,
) -> Result<Catalogs, Diagnostic> {
    let spans = spans(open, &catalogs);
    if spans.is_empty() {
        return Ok(catalogs);
    }
    let mut clouds: Vec<_> = spans.keys().map(|id| catalogs.hardware.instance(*id).cloud.clone()).collect();
    clouds.dedup();
    let until = limits.deadline.and_then(|deadline| within(session.now, deadline.0));
    let wanted = live::Request { clouds, spans: spans.clone(), until, ..live::Request::default() };
    let answers = live::ask_clouds(&mut catalogs, session, &wanted)?;
    answers.warn(&session.printer);
    let is_asked = |offer: &Offer| spans.contains_key(&offer.instance) && is_sold_ahead(offer);
    // Blocks of another span say nothing of this one, and no date of a reservation is known before.
    let market = catalogs.market.only(|offer| !is_asked(offer) || offer.purchase == Purchase::Calendar);
    let is_answered = answers.sources.iter().any(|source| matches!(source.outcome, Outcome::Answered { .. }));
    let market = answers.merge_into(market, &catalogs.hardware);
    catalogs.market = market.only(|offer| !is_answered || !is_asked(offer) || offer.booking.is_some());
    Ok(catalogs)
}

/// Of each machine type what its best plan needs.
fn spans(open: &PlanSet, catalogs: &Catalogs) -> BTreeMap<InstanceId, Span> {
    let mut spans = BTreeMap::new();
    let plans = open.recommendation.iter().chain(&open.frontier).chain(&open.alternatives);
    for plan in plans.filter(|plan| is_sold_ahead(catalogs.market.offer(plan.offer))) {
        let offer = catalogs.market.offer(plan.offer);
        if let Some(span) = span(plan, offer.purchase) {
            spans.entry(plan.instance).or_insert(span);
        }
    }
    spans
}

fn span(plan: &Plan, purchase: Purchase) -> Option<Span> {
    let work = plan.run.hours.p90 - plan.run.booked_wait;
    Some(Span { machines: plan.nodes, hours: hours_for(purchase, work)? })
}

fn is_sold_ahead(offer: &Offer) -> bool {
    matches!(offer.purchase, Purchase::CapacityBlock | Purchase::Calendar) && offer.owned.is_none()
}

fn within(now: Timestamp, hours: f64) -> Option<Timestamp> {
    now.checked_add(SignedDuration::try_from_secs_f64(hours * 3600.0).ok()?).ok()
}
