//! What of a run counts, and how a prediction of it compares with what was measured.

use crate::measured::{CountedFlops, Measured};
use crate::prediction::Prediction;
use crate::published::{Quality, Run};
use gpuplan_units::{Band, Bytes};
use gpuplan_workload::{Measure, Task};

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
