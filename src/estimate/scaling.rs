//! `Scaling`: how much of each GPU is left when several work together, beside the rule of thumb that people plan with.

use serde::Serialize;

use crate::estimate::subject::StepEstimate;

/// Efficiency of several GPUs over as many alone, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
    pub fn of(step: &StepEstimate) -> Option<Self> {
        let gpus = step.setting.gpus();
        let (_, rule_of_thumb) = *RULE.iter().find(|(least, _)| gpus >= *least)?;
        let time = &step.time;
        let parts = [
            ("gradients and weights between GPUs", time.data_parallel),
            ("tensor parallel traffic", time.tensor_parallel),
            ("expert exchange", time.expert_parallel),
            ("context exchange", time.context_parallel),
            ("the pipeline bubble", time.bubble),
            ("the slowest machine", time.jitter),
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
        let part = self.largest_loss.filter(|(_, share)| *share >= 0.005).map(|(name, share)| format!("{name} take {:.0} % of a step", share * 100.0));
        let counted = "the rule also holds loaders, stragglers and untuned stacks, which are counted apart";
        if self.efficiency > high {
            Some(format!("above it, since {}; {counted}", part.map_or("links hide behind the work".to_owned(), |part| format!("only {part}"))))
        } else if self.efficiency < low {
            Some(format!("below it, since {}", part.unwrap_or_default()))
        } else {
            None
        }
    }
}

/// Our figure and the rule, for people.
pub fn text(step: &StepEstimate) -> String {
    let Some(scaling) = Scaling::of(step) else { return "one GPU: nothing is lost between GPUs".to_owned() };
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
