//! What a plan on spot machines promises.

use gpuplan_plan::spot::promise::Promise;

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
