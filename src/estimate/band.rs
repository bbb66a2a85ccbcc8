//! Bands by regime: 10th and 90th percentile of measured over predicted time when whole sources were held out of the fit.

use schemars::JsonSchema;
use serde::Serialize;

use crate::constants::Fitted;
use crate::measurements::correction::Certainty;
use crate::measurements::own_runs::Experience;
use crate::time::breakdown::TimeBreakdown;
use gpuplan_workload::{ModelKind, Precision, Training};

/// Kind of run, by what its error looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    Compute,
    Pipeline,
    Launch,
    EncoderOrSinglePrecision,
    Network,
    Adapters,
    Vision,
}

impl Regime {
    /// The first that holds.
    pub fn classify(kind: ModelKind, training: &Training, pipeline: u32, time: &TimeBreakdown) -> Self {
        let single = matches!(training.precision, Precision::Fp32 | Precision::Tf32);
        if training.task.has_adapters() {
            Self::Adapters
        } else if time.launch_ratio > 0.8 {
            Self::Launch
        } else if single || matches!(kind, ModelKind::Encoder | ModelKind::Vit) {
            Self::EncoderOrSinglePrecision
        } else if time.exposed_ratio > 0.1 {
            Self::Network
        } else if pipeline > 1 {
            Self::Pipeline
        } else {
            Self::Compute
        }
    }

    pub const ALL: [Self; 7] = [
        Self::Compute,
        Self::Pipeline,
        Self::Launch,
        Self::EncoderOrSinglePrecision,
        Self::Network,
        Self::Adapters,
        Self::Vision,
    ];

    /// Word of the constants file and of JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Pipeline => "pipeline",
            Self::Launch => "launch",
            Self::EncoderOrSinglePrecision => "encoder-or-single-precision",
            Self::Network => "network",
            Self::Adapters => "adapters",
            Self::Vision => "vision",
        }
    }

    /// Measured over predicted time at 10 % and 90 %, groups of sources weighing the same; see `benchmarks/results`.
    fn quantiles(self) -> (f64, f64) {
        let bands = &Fitted::embedded().bands;
        bands.iter().find(|band| band.regime == self.word()).map_or(WIDEST, |band| (band.low, band.high))
    }
}

/// Band of a regime that no run has measured.
const WIDEST: (f64, f64) = (0.7, 1.6);

/// What the band cannot know from the regime alone; each adds its width (log scale) in quadrature. Guesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The framework has no fitted factors.
    pub framework: bool,
    /// Hardly any published run on this GPU's generation was in the fit.
    pub gpu: bool,
    /// Nor on any chip of its vendor.
    pub vendor: bool,
    /// Parallelism or model parts that no row covers (context parallel, fp8 recipes).
    pub structure: bool,
    /// Experts: products in groups, permuted tokens and uneven loads cost more than their arithmetic.
    pub experts: bool,
}

/// 90th percentile of the standard normal distribution: deviations in a band's half.
const NORMAL_90: f64 = 1.281_551_6;
/// A measurement of kernels cannot take more of a regime's band than this: the rest is composition, framework and code,
/// which kernels do not show. Judged.
const MOST_REPLACED: f64 = 0.6;

/// Ratios to multiply a predicted time with. A measurement replaces the doubt about efficiency by its own; finished runs of the same
/// user leave a part of all doubt.
pub fn time_band(regime: Regime, doubts: Doubts, certainty: Certainty, experience: Option<Experience>) -> (f64, f64) {
    let (low, high) = regime.quantiles();
    let unfitted = 1.0 - certainty.compute_correlation.powi(2);
    let extra: f64 = [
        (doubts.framework, 0.10_f64.powi(2)),
        (doubts.gpu, 0.10_f64.powi(2) * unfitted),
        (doubts.vendor, 0.35_f64.powi(2) * unfitted),
        (doubts.structure, 0.15_f64.powi(2)),
        (doubts.experts, 0.30_f64.powi(2)),
    ]
    .iter()
    .filter(|(on, _)| *on)
    .map(|(_, variance)| variance)
    .sum();
    let wide = |ratio: f64| {
        let regime = (ratio.ln() / NORMAL_90).powi(2);
        // The two are equal where nothing was measured; then nothing is taken or added.
        let change = (certainty.left - certainty.replaced).max(-MOST_REPLACED * regime);
        ((regime + change).max(certainty.spread) * NORMAL_90.powi(2) + extra).sqrt()
    };
    let (lower, upper) = (wide(low), wide(high));
    // How far own runs were off is judged by the band as a whole.
    let whole = f64::midpoint(lower.powi(2), upper.powi(2)) / NORMAL_90.powi(2);
    let left = experience.map_or(1.0, |known| (known.variance(whole) / whole).sqrt());
    ((-lower * left).exp(), (upper * left).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_widens_and_never_narrows() {
        let (low, high) = time_band(Regime::Compute, Doubts::default(), Certainty::default(), None);
        assert!(low < 1.0 && high > 1.0);
        let (lower, higher) = time_band(
            Regime::Compute,
            Doubts { framework: true, gpu: true, vendor: true, structure: true, experts: true },
            Certainty::default(),
            None,
        );
        assert!(lower < low && higher > high);
    }

    #[test]
    fn a_measurement_narrows_by_what_it_knows_and_no_further() {
        let width = |replaced, left| {
            let (low, high) = time_band(
                Regime::Compute,
                Doubts::default(),
                Certainty { replaced, left, spread: left / 2.0, compute_correlation: 0.9 },
                None,
            );
            (high / low).ln()
        };
        let plain = width(0.0, 0.0);
        assert!((width(0.004, 0.004) - plain).abs() < 1e-12);
        assert!(width(0.004, 0.001) < plain && width(0.004, 0.008) > plain);
        assert!(width(1e9, 0.0) > 0.6 * plain);
        assert!(width(1e9, 1.0) > 1.0);
    }
}
