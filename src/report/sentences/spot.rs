//! What a plan on spot machines promises, and what the user's own launches saw.

use gpuplan_market::own::Seen;
use gpuplan_plan::spot::promise::Promise;
use gpuplan_units::Hours;

/// The end, what it may cost, and under which conditions.
pub fn promise(promise: &Promise) -> String {
    let end = promise.end.map_or_else(
        || format!("within {}", promise.deadline),
        |end| format!("by {}", end.strftime("%Y-%m-%d %H:%M UTC")),
    );
    format!(
        "finishes {end} unless on-demand capacity for {} is unavailable for more than {:.0} minutes, or the job needs more than \
         {:.0} % more work than estimated. Expected cost ${:.2} (90 % of replayed cases at most ${:.2}). On-demand ceiling ${:.2}.",
        promise.instance_type,
        promise.outage.0 * 60.0,
        (promise.work_ratio - 1.0) * 100.0,
        promise.cost_expected.dollars(),
        promise.cost_p90.dollars(),
        promise.cost_ceiling.dollars(),
    )
}

/// What own launches saw of a pool.
pub fn own_launches(own: &Seen) -> String {
    let many = |count: u32, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    format!(
        "{}, {} and {} in {} of yours, the latest {} ago",
        many(own.starts, "start", "starts"),
        many(own.losses, "loss", "losses"),
        many(own.refusals, "refusal", "refusals"),
        Hours(own.hours_up + own.hours_down),
        Hours(own.age_hours),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_launches_are_counted_in_words() {
        let own = Seen { starts: 3, losses: 1, hours_up: 21.0, hours_down: 1.0, age_hours: 5.0, ..Seen::default() };
        assert_eq!(own_launches(&own), "3 starts, 1 loss and 0 refusals in 22 h of yours, the latest 5 h ago");
    }
}
