//! How the machines of a plan bring samples to their GPUs, as rows for a person.

use crate::format;
use gpuplan_plan::Plan;
use gpuplan_plan::cures::Cure;
use gpuplan_units::{Hours, Usd};

/// What each cure of waiting GPUs would save.
pub fn rows(plan: &Plan) -> Vec<(&'static str, String)> {
    let row = |cure: &Cure| {
        let saved = if cure.saves_usd >= Usd::ZERO {
            format!("saves {}", format::usd(cure.saves_usd))
        } else {
            format!("costs {} more", format::usd(Usd::ZERO - cure.saves_usd))
        };
        (
            "cure",
            format!(
                "{}: {saved}, the run takes {} and waits {:.0} % of a step",
                cure.what,
                Hours(cure.run_hours),
                cure.waiting_share * 100.0
            ),
        )
    };
    plan.cures.iter().map(row).collect()
}
