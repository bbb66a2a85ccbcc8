//! `Measured`: what a source measured, in one unit a kind.

use gpuplan_units::Bytes;

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
