//! `RuleCheck`: what a rule measured, the threshold beyond which it is a finding, and what rules share.

use gpuplan_workload::profile::{Cause, Finding, Mended, Rule};

/// A GPU that works less than this is not used well; the line that the plan draws, too. Judged.
pub const BUSY: f64 = 0.70;
/// What a GPU reaches that is fed: the rest is the start of steps, saving, logging. Judged.
pub const FED: f64 = 0.95;
/// A GPU that works less than this in spite of full memory. Judged.
pub const HARDLY_BUSY: f64 = 0.50;
/// Slowest over middle device. Judged: cards of one model differ by a few percent.
pub const STRAGGLES: f64 = 1.05;

/// What the catalog knows of the GPU, and the workload of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub has_tensor_cores: Option<bool>,
    pub has_bf16: Option<bool>,
    /// GPUs of this model are sold with a link faster than PCIe.
    pub has_fast_link: Option<bool>,
}

/// A finding if `measured` is beyond `threshold`.
pub struct RuleCheck {
    pub rule: Rule,
    pub measured: f64,
    pub threshold: f64,
    pub evidence: String,
    pub advice: &'static str,
    pub cause: Cause,
    pub mended: Mended,
}

impl RuleCheck {
    pub fn above(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured > self.threshold).then(|| self.finding())
    }

    pub fn below(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured < self.threshold).then(|| self.finding())
    }

    fn finding(self) -> Finding {
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

pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
