//! What other public estimators reach on the same published runs.
//!
//! Recorded once with these settings: llm-analysis 0.2.2 with `flops_efficiency` 0.5 (what its README suggests), memory
//! efficiency 0.9 and the run's own sharding, recompute and flash attention; calculon at commit caa4b11 with its own A100
//! and H100 systems and the capacity check lifted; the constant rule takes the run's operations, recompute included, at
//! half of the peak. None of them was fitted to the runs. Calculon has no ZeRO-2 or ZeRO-3, grouped queries, gated MLP,
//! flash attention or vocabulary, so it can take the GPT-style rows alone.

use serde::Serialize;

use crate::published::Run;
use gpuplan_workload::{ModelKind, Precision, Task};

/// Mean absolute errors of iteration time on one source, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PeerErrors {
    pub source: &'static str,
    pub runs: usize,
    pub constant_hfu_50_mape_percent: f64,
    pub llm_analysis_mape_percent: f64,
    pub calculon_mape_percent: Option<f64>,
    /// How many of the runs calculon can take.
    pub calculon_runs: usize,
}

const fn errors(
    source: &'static str,
    runs: usize,
    constant: f64,
    llm_analysis: f64,
    calculon: Option<f64>,
    calculon_runs: usize,
) -> PeerErrors {
    PeerErrors {
        source,
        runs,
        constant_hfu_50_mape_percent: constant,
        llm_analysis_mape_percent: llm_analysis,
        calculon_mape_percent: calculon,
        calculon_runs,
    }
}

pub const BY_SOURCE: [PeerErrors; 6] = [
    errors("internevo", 46, 16.1, 12.3, None, 0),
    // Calculon's own validation set.
    errors("korthikanti22", 8, 11.4, 11.4, Some(3.7), 8),
    errors("llm-foundry", 209, 18.1, 17.9, None, 0),
    errors("megatron-sc21", 10, 7.5, 7.9, Some(8.3), 10),
    errors("vtrain-multi", 109, 24.4, 24.4, Some(12.9), 103),
    errors("vtrain-single", 234, 58.3, 58.3, Some(37.8), 234),
];

pub const ALL: PeerErrors = errors("all", 616, 34.1, 33.8, Some(29.0), 355);

/// Time lost by the layout that a peer picks: mean over sweeps and worst, in percent.
pub const CONSTANT_AND_LLM_ANALYSIS_REGRET: (f64, f64) = (23.4, 114.0);
pub const CALCULON_REGRET: (f64, f64) = (8.0, 101.0);

/// Whether the peers were asked for it: decoder pre-training in 16 bit on A100 or H100 without context parallelism.
pub fn asked(run: &Run) -> bool {
    let case = &run.case;
    BY_SOURCE.iter().any(|peers| peers.source == run.source)
        && case.model.kind == Some(ModelKind::Decoder)
        && case.training.task == Some(Task::Pretrain)
        && matches!(case.training.precision, Some(Precision::Bf16 | Precision::Fp16))
        && case.hardware.gpu.as_deref().is_some_and(|gpu| gpu.starts_with("a100") || gpu.starts_with("h100"))
        && case.layout.context.is_none_or(|context| context == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Published;

    #[test]
    fn the_peers_were_asked_for_these_very_runs() {
        let published = Published::embedded().unwrap();
        for peers in BY_SOURCE {
            let runs =
                published.runs.iter().filter(|run| run.source == peers.source && run.scores_time() && asked(run));
            assert_eq!(runs.count(), peers.runs, "{}", peers.source);
        }
        assert_eq!(BY_SOURCE.iter().map(|peers| peers.runs).sum::<usize>(), ALL.runs);
        assert_eq!(BY_SOURCE.iter().map(|peers| peers.calculon_runs).sum::<usize>(), ALL.calculon_runs);
    }
}
