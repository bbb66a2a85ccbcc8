//! How the machines of a plan bring samples to their GPUs, as rows for a person.

use crate::sentences;
use crate::text::format;
use gpuplan_plan::Plan;
use gpuplan_plan::input::fix::InputFix;
use gpuplan_units::{Hours, Usd};

/// What each fix of waiting GPUs would save.
pub fn rows(plan: &Plan) -> Vec<(&'static str, String)> {
    let row = |fix: &InputFix| {
        let saved = if fix.saves_usd >= Usd::ZERO {
            format!("saves {}", format::usd(fix.saves_usd))
        } else {
            format!("costs {} more", format::usd(Usd::ZERO - fix.saves_usd))
        };
        (
            "cure",
            format!(
                "{}: {saved}, the run takes {} and waits {:.0} % of a step",
                sentences::input::change(&fix.change),
                Hours(fix.run_hours),
                fix.waiting_share * 100.0
            ),
        )
    };
    plan.input_fixes.iter().map(row).collect()
}
