//! Rules from what was measured to what costs time: each with evidence, threshold, advice and what mending it would change.
//!
//! Every rule is a function of its own that says nothing below its threshold and nothing where its figures were not measured.

mod operators;
mod rule_check;
mod usage;

use gpuplan_workload::profile::{Finding, Mended, Profile, Rule};

pub use crate::findings::rule_check::{BUSY, Facts};

/// Everything worth saying, those that cost most first.
pub fn find(profile: &Profile, facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    if let Some(operators) = profile.operators.as_ref().filter(|operators| operators.span_seconds > 0.0) {
        let steps = profile.step.as_ref().map(|step| step.count.max(operators.steps));
        found.extend(operators::findings(operators, steps, facts));
    }
    if let Some(usage) = &profile.usage {
        found.extend(usage::findings(usage, facts));
    }
    // The general word is needless where a cause was found.
    if found.iter().any(|finding| matches!(finding.rule, Rule::Loader | Rule::HostBound)) {
        found.retain(|finding| finding.rule != Rule::Idle);
    }
    let left = |finding: &Finding| match finding.mended {
        Mended::Step { left } => left,
        _ => 1.0,
    };
    found.sort_by(|a, b| left(a).total_cmp(&left(b)).then(a.rule.cmp(&b.rule)));
    found
}

#[cfg(test)]
mod tests;
