//! Rules from what was measured to what costs time: each with evidence, threshold, advice and what mending it would change.
//!
//! Every rule is a function of its own that says nothing below its threshold and nothing where its figures were not measured.

mod operators;
mod usage;

use gpuplan_workload::profile::{Cause, Finding, Mended, Profile, Rule};

/// A GPU that works less than this is not used well; the line that the plan draws, too. Judged.
pub const BUSY: f64 = 0.70;
/// What a GPU reaches that is fed: the rest is the start of steps, saving, logging. Judged.
const FED: f64 = 0.95;
/// A GPU that works less than this in spite of full memory. Judged.
const HARDLY_BUSY: f64 = 0.50;
/// Slowest over middle device. Judged: cards of one model differ by a few percent.
const STRAGGLES: f64 = 1.05;

/// What the catalog knows of the GPU, and the workload of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub has_tensor_cores: Option<bool>,
    pub has_bf16: Option<bool>,
    /// GPUs of this model are sold with a link faster than PCIe.
    pub has_fast_link: Option<bool>,
}

/// Everything worth saying, those that cost most first.
pub fn find(profile: &Profile, facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    if let Some(operators) = profile.operators.as_ref().filter(|operators| operators.span_seconds > 0.0) {
        let steps = profile.step.as_ref().map(|step| step.count);
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

/// A finding if `measured` is beyond `threshold`.
struct Draft {
    rule: Rule,
    measured: f64,
    threshold: f64,
    evidence: String,
    advice: &'static str,
    cause: Cause,
    mended: Mended,
}

impl Draft {
    fn above(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured > self.threshold).then(|| self.speak())
    }

    fn below(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured < self.threshold).then(|| self.speak())
    }

    fn speak(self) -> Finding {
        Finding {
            rule: self.rule,
            evidence: self.evidence,
            measured: self.measured,
            threshold: self.threshold,
            advice: self.advice.to_owned(),
            cause: self.cause,
            mended: self.mended,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
