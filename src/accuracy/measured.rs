//! `Measured`: what a source measured, in one unit a kind, and what a prediction says of it.

use crate::prediction::Prediction;
use crate::published::{Quality, Run};
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::{Measure, Task};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    StepSeconds(f64),
    /// Arithmetic rate of a GPU, by what the source counted.
    TeraflopsPerGpu {
        rate: f64,
        counted: CountedFlops,
    },
    TokensPerSecondPerGpu(f64),
    /// Of all GPUs.
    TokensPerSecond(f64),
    /// Of all GPUs.
    SamplesPerSecond(f64),
    /// Peak of a GPU; `summed` where a paper added up tensors instead of measuring.
    PeakMemory {
        bytes: Bytes,
        summed: bool,
    },
    Fits(bool),
    /// Whole runs, and samples in units that no prediction has: kept as facts.
    Unscored,
}

/// Which operations a published rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedFlops {
    /// 96 B s L h^2 (1 + s/6h + V/16Lh): forward, backward and full recompute (Narayanan et al. 2021, equation 3).
    WithRecompute,
    /// 6 N per token and causal attention.
    SixPerParameter,
    /// 72 B s L h^2 (1 + s/6h + V/12Lh): forward and backward (Korthikanti et al. 2022, appendix A).
    Model,
}

impl Measured {
    /// From the words of the table.
    pub fn read(metric: &str, value: &str, unit: &str, flops: &str) -> Result<Self, String> {
        if metric == "fits" {
            return Ok(Self::Fits(!matches!(value.to_uppercase().as_str(), "OOM" | "NO")));
        }
        let number: f64 = value.parse().map_err(|_| format!("value `{value}` is not a number"))?;
        if !(number.is_finite() && number > 0.0) {
            return Err(format!("value `{value}` is not positive"));
        }
        Ok(match metric {
            "iter_seconds" => Self::StepSeconds(number),
            "tokens/s/gpu" => Self::TokensPerSecondPerGpu(number),
            "tokens/s" => Self::TokensPerSecond(number),
            "samples/s" if matches!(unit, "mel-frames/s" | "audio-samples/s" | "tokens/s") => Self::Unscored,
            "samples/s" => Self::SamplesPerSecond(number),
            "TFLOP/s/GPU" => Self::TeraflopsPerGpu { rate: number, counted: CountedFlops::read(unit, flops) },
            "peak_mem_GB" => {
                let bytes = if unit.contains("GiB") { Bytes::from_gib(number) } else { Bytes::from_gb(number) };
                Self::PeakMemory { bytes, summed: unit.contains("params+opt") }
            }
            "run_minutes" | "run_hours" | "gpu_hours" => Self::Unscored,
            other => return Err(format!("metric `{other}` is unknown")),
        })
    }
}

impl CountedFlops {
    fn read(unit: &str, flops: &str) -> Self {
        let counted = flops.to_lowercase();
        if counted.contains("96") || unit.to_lowercase().contains("recompute") {
            Self::WithRecompute
        } else if counted.contains("6n") {
            Self::SixPerParameter
        } else {
            Self::Model
        }
    }
}

impl Run {
    /// Whether its time counts: not ambiguous, of a known sequence length, and of something that is predicted.
    pub fn scores_time(&self) -> bool {
        if self.quality == Quality::C || self.longest_example {
            return false;
        }
        match self.measured {
            Measured::StepSeconds(_) | Measured::TokensPerSecondPerGpu(_) | Measured::SamplesPerSecond(_) => true,
            Measured::TokensPerSecond(_) => {
                matches!(self.case.training.task, Some(Task::Inference | Task::InferencePrefill))
            }
            Measured::TeraflopsPerGpu { .. } => self.case.training.global_batch.is_some_and(|batch| batch > 0.0),
            Measured::PeakMemory { .. } | Measured::Fits(_) | Measured::Unscored => false,
        }
    }

    /// The measured peak, where it counts.
    pub fn scored_memory(&self) -> Option<Bytes> {
        let analytic = self.case.training.measure == Some(Measure::Analytic);
        match self.measured {
            Measured::PeakMemory { bytes, summed } if self.quality != Quality::C && !summed && !analytic => Some(bytes),
            _ => None,
        }
    }

    /// Predicted over measured time. A rate that is not positive counts as no time at all.
    pub fn time_ratio(&self, made: &Prediction) -> Option<Band> {
        let slower =
            |measured: f64, rate: Band| rate.map_decreasing(|rate| if rate > 0.0 { measured / rate } else { 0.0 });
        match self.measured {
            Measured::StepSeconds(seconds) => Some(made.step_seconds.map(|predicted| predicted / seconds)),
            Measured::TeraflopsPerGpu { rate, counted } => {
                let seconds = self.counted_flops(counted)? / (rate * 1e12 * self.gpus());
                Some(made.step_seconds.map(|predicted| predicted / seconds))
            }
            Measured::TokensPerSecondPerGpu(measured) => {
                made.tokens_per_second_per_gpu.map(|rate| slower(measured, rate))
            }
            Measured::TokensPerSecond(measured) => {
                made.tokens_per_second_per_gpu.map(|rate| slower(measured / self.gpus(), rate))
            }
            Measured::SamplesPerSecond(measured) => Some(slower(measured, made.samples_per_second)),
            Measured::PeakMemory { .. } | Measured::Fits(_) | Measured::Unscored => None,
        }
    }

    /// Measured time up to a factor that runs of one decision share: seconds, or the inverse of a rate.
    pub fn comparable_time(&self) -> Option<f64> {
        match self.measured {
            Measured::StepSeconds(seconds) => Some(seconds),
            Measured::TokensPerSecondPerGpu(rate)
            | Measured::TokensPerSecond(rate)
            | Measured::SamplesPerSecond(rate) => Some(1.0 / rate),
            Measured::TeraflopsPerGpu { .. } | Measured::PeakMemory { .. } | Measured::Fits(_) | Measured::Unscored => {
                None
            }
        }
    }

    fn gpus(&self) -> f64 {
        f64::from(self.case.hardware.gpus.unwrap_or(1).max(1))
    }

    /// Operations of an optimizer step, as the source counts them. `None` where it leaves out a size that it counts with.
    fn counted_flops(&self, counted: CountedFlops) -> Option<f64> {
        let (model, training) = (&self.case.model, &self.case.training);
        let (layers, hidden) = (f64::from(model.layers?), f64::from(model.hidden?));
        let sequence = f64::from(training.sequence_length?);
        let tokens = training.global_batch? * sequence;
        let attention = sequence / (6.0 * hidden);
        let vocab = || model.vocab.map(f64::from);
        Some(match counted {
            CountedFlops::WithRecompute => {
                96.0 * tokens * layers * hidden * hidden * (1.0 + attention + vocab()? / (16.0 * layers * hidden))
            }
            CountedFlops::SixPerParameter => tokens * (6.0 * model.params? + 6.0 * layers * hidden * sequence),
            CountedFlops::Model => {
                72.0 * tokens * layers * hidden * hidden * (1.0 + attention + vocab()? / (12.0 * layers * hidden))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_table_become_one_unit_a_kind() {
        let read = |metric, value, unit| Measured::read(metric, value, unit, "").unwrap();
        assert_eq!(
            read("peak_mem_GB", "2", "GiB active"),
            Measured::PeakMemory { bytes: Bytes::from_gib(2.0), summed: false }
        );
        assert_eq!(
            read("peak_mem_GB", "2", "GB/GPU (params+opt 1 + act 1)"),
            Measured::PeakMemory { bytes: Bytes::from_gb(2.0), summed: true }
        );
        assert_eq!(read("fits", "OOM", "fit fact"), Measured::Fits(false));
        assert_eq!(read("fits", "FITS", "fit fact"), Measured::Fits(true));
        assert_eq!(read("samples/s", "9", "mel-frames/s"), Measured::Unscored);
        assert_eq!(read("gpu_hours", "9", "GPU-hours"), Measured::Unscored);
        assert!(Measured::read("iter_seconds", "0", "s", "").is_err());
    }

    #[test]
    fn what_a_rate_counts_follows_its_own_words() {
        let counted = |unit, flops| CountedFlops::read(unit, flops);
        assert_eq!(counted("HW TFLOP/s/GPU incl. recompute", ""), CountedFlops::WithRecompute);
        assert_eq!(counted("TFLOP/s/GPU", "6N + attention"), CountedFlops::SixPerParameter);
        assert_eq!(counted("TFLOP/s/GPU", "72 B s L h^2"), CountedFlops::Model);
    }
}
