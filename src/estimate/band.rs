//! Bands by regime: 10th and 90th percentile of measured over predicted time when whole sources were held out of the fit.

use serde::Serialize;

use crate::estimate::constants::Fitted;
use crate::estimate::step::TimeBreakdown;
use crate::workload::{ModelKind, Precision, Training};

/// Kind of run, by what its error looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
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
    pub fn of(kind: ModelKind, training: &Training, pipeline: u32, time: &TimeBreakdown) -> Self {
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

    pub const ALL: [Self; 7] =
        [Self::Compute, Self::Pipeline, Self::Launch, Self::EncoderOrSinglePrecision, Self::Network, Self::Adapters, Self::Vision];

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

/// Ratios to multiply a predicted time with.
pub fn time_band(regime: Regime, doubts: Doubts) -> (f64, f64) {
    let (low, high) = regime.quantiles();
    let extra: f64 =
        [(doubts.framework, 0.10), (doubts.gpu, 0.10), (doubts.vendor, 0.35), (doubts.structure, 0.15), (doubts.experts, 0.30)]
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, width)| width * width)
            .sum();
    let widen = |ratio: f64| (ratio.ln().powi(2) + extra).sqrt();
    ((-widen(low)).exp(), widen(high).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_widens_and_never_narrows() {
        let (low, high) = time_band(Regime::Compute, Doubts::default());
        assert!(low < 1.0 && high > 1.0);
        let (lower, higher) =
            time_band(Regime::Compute, Doubts { framework: true, gpu: true, vendor: true, structure: true, experts: true });
        assert!(lower < low && higher > high);
    }
}
