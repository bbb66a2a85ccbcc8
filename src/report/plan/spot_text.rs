//! The part of a plan that is about spot machines, for a person: what is replayed, the cost as bars, and places to try.

use std::fmt::Write as _;

use crate::sentences;
use crate::text::format;
use crate::text::table::{Column, render_folding};
use crate::text::wrap::wrap;
use gpuplan_plan::Plan;
use gpuplan_plan::document::{Context, CostBar};
use gpuplan_plan::spot::{MOST_CERTAIN, PROBED_POOLS, SpotForecast};
use gpuplan_spot::evidence::gang_factor;
use gpuplan_spot::forecast::Forecast;
use gpuplan_units::Hours;

/// Length of the longest bar.
const BAR_CHARACTERS: f64 = 40.0;

/// What an availability rests on, and how long ago that was said.
fn said(basis: &str, age: Option<Hours>) -> String {
    age.map_or_else(|| basis.to_owned(), |age| format!("{basis}, said {} ago", format::duration(age)))
}

/// Lines of the recommendation, each with its name.
pub fn rows(plan: &Plan, context: &Context) -> Vec<(&'static str, String)> {
    let Some((spot, forecast)) = outlook(plan) else { return Vec::new() };
    let mut rows = Vec::new();
    if let Some(promise) = &spot.promise {
        rows.push(("promise", sentences::spot::promise(promise)));
    }
    let wait = forecast.wait_hours;
    rows.push((
        "spot",
        format!(
            "wait for the first machine {} (50 %) to {} (90 %), {:.1} interruptions; assumed up {:.0} % of the time: {}",
            Hours(wait.p50),
            Hours(wait.p90),
            forecast.interruptions,
            spot.availability * 100.0,
            said(spot.basis, spot.basis_age)
        ),
    ));
    if let Some(own) = &spot.own {
        rows.push(("", sentences::spot::own_launches(own)));
    }
    if plan.nodes > 1 {
        let share = gang_factor(plan.nodes) * 100.0;
        let counted = "counts of H100 machines on Google Cloud, October 2025";
        rows.push(("", format!("{} machines at once are up {share:.0} % as often as one ({counted})", plan.nodes)));
    }
    if let Some(fallback) = spot.fallback.map(|id| context.world.market.offer(id)) {
        let rate = format::rate(fallback.quote.rate);
        rows.push((
            "fallback",
            format!(
                "on-demand in {} at {rate} an hour: {:.0} % of the machine hours",
                fallback.place.region,
                forecast.on_demand_share() * 100.0
            ),
        ));
    }
    if plan.chance_by_deadline == Some(MOST_CERTAIN) {
        let said = format!(
            "no chance that rests on spot alone is put above {:.0} %: no more than {PROBED_POOLS} pools have been probed, one \
             machine each or sixteen",
            MOST_CERTAIN * 100.0
        );
        rows.push(("", said));
    }
    match spot.break_even {
        Some(share) if share <= 0.0 => {
            let said = "cheaper on average than on-demand in these replays, even where spot was hardly up lately";
            rows.push(("", said.to_owned()));
        }
        Some(share) => rows.push((
            "",
            format!(
                "in these replays on-demand is cheaper where spot was up less than {:.0} % of the time lately",
                share * 100.0
            ),
        )),
        None => {}
    }
    rows
}

fn outlook(plan: &Plan) -> Option<(&SpotForecast, &Forecast)> {
    let spot = plan.spot.as_deref()?;
    Some((spot, spot.forecast.as_ref()?))
}

/// The cost of the replays as bars, and the pools.
pub fn tables(plan: &Plan, context: &Context, width: u16) -> String {
    let Some((spot, forecast)) = outlook(plan) else { return String::new() };
    let mut out = String::new();
    let bars = CostBar::histogram(&forecast.costs);
    if !bars.is_empty() {
        let _ = writeln!(out, "{}", wrap(&format!("Machine cost in {} replays", forecast.costs.len()), width, "  "));
        let most = bars.iter().map(|bar| bar.share).fold(0.0, f64::max);
        let labels: Vec<String> = bars.iter().map(|bar| format::usd(bar.to_usd)).collect();
        let widest = labels.iter().map(String::len).max().unwrap_or(0);
        for (bar, label) in bars.iter().zip(labels) {
            let length = (bar.share / most * BAR_CHARACTERS).ceil() as usize;
            let _ = writeln!(out, "  to {label:>widest$} {:>3.0} % {}", bar.share * 100.0, "#".repeat(length));
        }
        out.push('\n');
    }
    let columns = [
        Column::left("places to try", 0),
        Column::left("machine", 90),
        Column::right("$/h", 0),
        Column::right("price seen", 80),
        Column::right("up", 0),
        Column::left("because of", 110),
    ];
    let rows = spot.pools.iter().map(|pool| {
        let offer = context.world.market.offer(pool.offer);
        let instance = context.world.hardware.instance(offer.instance);
        vec![
            format!("{} {}", instance.cloud, offer.place.zone_id.as_deref().unwrap_or(&offer.place.region)),
            instance.name.clone(),
            format::rate(offer.quote.rate),
            format::seen(&offer.quote, context.now),
            format!("{:.0} %", pool.availability * 100.0),
            said(pool.basis, pool.basis_age),
        ]
    });
    out.push_str(&render_folding(&columns, rows, width));
    out
}
