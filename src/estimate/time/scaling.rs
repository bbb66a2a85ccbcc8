//! `Scaling`: how much of each GPU is left when several work together, beside the rule of thumb that people plan with.

use schemars::JsonSchema;
use serde::Serialize;

use crate::subject::StepEstimate;

/// Efficiency of several GPUs over as many alone, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Scaling {
    pub gpus: u32,
    /// Part of a step that is not spent on what one GPU would not have: links, network, stages, slow machines.
    pub efficiency: f64,
    /// What people expect of so many GPUs, low and high.
    pub rule_of_thumb: (f64, f64),
    /// Where most of what is lost goes, and its part of a step.
    pub largest_loss: Option<(&'static str, f64)>,
}

/// 2 to 4 GPUs, 8 to 16, 32 and more: a rule of thumb without a source of its own. Counts between take the row below them.
const RULE: [(u32, (f64, f64)); 3] = [(32, (0.60, 0.75)), (8, (0.70, 0.85)), (2, (0.85, 0.95))];

impl Scaling {
    /// `None` for one GPU.
    pub fn from_step(step: &StepEstimate) -> Option<Self> {
        let gpus = step.setting.gpus();
        let (_, rule_of_thumb) = *RULE.iter().find(|(least, _)| gpus >= *least)?;
        let time = &step.time;
        let parts = [
            ("traffic of gradients and weights", time.data_parallel),
            ("tensor parallel traffic", time.tensor_parallel),
            ("expert exchange", time.expert_parallel),
            ("context exchange", time.context_parallel),
            ("the pipeline bubble", time.bubble),
            ("waiting for the slowest machine", time.jitter),
        ];
        // Waiting for samples is no loss of scale: one GPU with its part of the host waits too.
        let fed = time.total - time.input;
        let lost: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        let largest = parts.into_iter().filter(|(_, seconds)| *seconds > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
        let largest_loss = largest.map(|(name, seconds)| (name, seconds / fed));
        Some(Self { gpus, efficiency: (1.0 - lost / fed).max(0.0), rule_of_thumb, largest_loss })
    }

    /// Why the figure is outside the rule; `None` inside it.
    fn difference(&self) -> Option<String> {
        let (low, high) = self.rule_of_thumb;
        let (name, share) = self.largest_loss?;
        let part = format!("the largest loss, {name}, is {:.1} % of a step", share * 100.0);
        if self.efficiency > high {
            Some(format!(
                "above it: {part}, and the rule also holds loaders and untuned stacks, which are counted apart"
            ))
        } else if self.efficiency < low {
            Some(format!("below it: {part}"))
        } else {
            None
        }
    }
}

/// Our figure and the rule, for people.
pub fn text(step: &StepEstimate) -> String {
    let Some(scaling) = Scaling::from_step(step) else { return "one GPU: nothing is lost between GPUs".to_owned() };
    let (low, high) = scaling.rule_of_thumb;
    let why = scaling.difference().map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "{:.0} % of {} GPUs alone; rule of thumb {:.0} to {:.0} %{why}",
        scaling.efficiency * 100.0,
        scaling.gpus,
        low * 100.0,
        high * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::case::EstimateCase;
    use crate::{Setting, Subject};
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::{Layout, Models, Recompute};

    fn scaling(gpus: u32, gbit: u32) -> Option<Scaling> {
        let case = format!(
            r#"{{"id": "a", "model": {{"name": "llama-2-7b"}}, "training": {{"task": "pretrain", "sequence_length": 2048}},
            "hardware": {{"gpu": "a100-sxm4-80", "gpus": {gpus}, "gpus_per_node": 8, "node_network_gbit_per_s": {gbit}}}}}"#
        );
        let case: EstimateCase = serde_json::from_str(&case).unwrap();
        let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
        let layout = Layout { data: gpus, ..Layout::default() };
        let setting = Setting { layout, micro_batch: 1, global_batch: f64::from(gpus), recompute: Recompute::Full };
        Scaling::from_step(
            &Subject::new(&prepared.model, &prepared.training, prepared.machine()).estimate(&setting).unwrap(),
        )
    }

    #[test]
    fn the_rule_follows_the_count_and_a_thin_network_is_named() {
        assert_eq!(scaling(1, 800), None);
        let rules = [2, 4, 8, 16, 32, 256].map(|gpus| scaling(gpus, 800).unwrap().rule_of_thumb.0);
        assert_eq!(rules, [0.85, 0.85, 0.70, 0.70, 0.60, 0.60]);
        let (thin, wide) = (scaling(16, 10).unwrap(), scaling(16, 3200).unwrap());
        assert!(thin.efficiency < 0.2 && wide.efficiency > thin.efficiency, "{thin:?} {wide:?}");
        let why = thin.difference().unwrap();
        assert!(why.starts_with("below it: the largest loss, traffic of gradients and weights"), "{why}");
    }
}
