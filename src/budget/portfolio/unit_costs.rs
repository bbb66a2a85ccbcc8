//! `UnitCosts`: what one time of a phase costs for what it brings: an epoch, a million tokens, a thousand samples or requests.

use schemars::JsonSchema;
use serde::Serialize;

use gpuplan_plan::document::WorkloadRecord;
use gpuplan_units::Usd;
use gpuplan_units::quantity::parse_count;
use gpuplan_workload::file::{Scalar, WorkloadFile};

/// Expected cost of one time, before tax and before commitments, by what the workload states; null: it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UnitCosts {
    /// Of one run of a sweep.
    pub experiment_usd: Option<Usd>,
    /// Of a pass over the data set.
    pub epoch_usd: Option<Usd>,
    /// Trained on; of a served model those of answers, or of prompts where it gives none.
    pub million_tokens_usd: Option<Usd>,
    pub thousand_samples_usd: Option<Usd>,
    pub thousand_requests_usd: Option<Usd>,
}

/// What one time of a phase does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Runs of a sweep; everything else is of all of them.
    pub experiments: Option<f64>,
    pub epochs: Option<f64>,
    pub tokens: Option<f64>,
    pub samples: Option<f64>,
    pub requests: Option<f64>,
}

fn count(stated: Option<&Scalar>) -> Option<f64> {
    parse_count(&stated?.to_string()).ok().filter(|count| count.is_finite() && *count > 0.0)
}

impl Work {
    /// As the workload states it. Samples and tokens beside epochs are those of the data set.
    pub fn from_workload(workload: &WorkloadRecord) -> Self {
        if let Some(serving) = &workload.serving {
            let rate = serving.requests_per_second.zip(serving.hours).map(|(rate, hours)| rate * hours.0 * 3600.0);
            let requests = serving.requests.or(rate).filter(|requests| *requests > 0.0);
            let each = if serving.answer_tokens > 0 { serving.answer_tokens } else { serving.prompt_tokens };
            return Self { requests, tokens: requests.map(|requests| requests * f64::from(each)), ..Self::default() };
        }
        workload.workload_file().map_or_else(|_| Self::default(), |file| Self::of_file(&file, workload.global_batch))
    }

    /// As the file of a training states it; `global_batch` is in samples, `None` where nobody knows.
    pub fn of_file(file: &WorkloadFile, global_batch: Option<u64>) -> Self {
        let (training, data) = (&file.training, &file.data);
        let epochs = count(training.epochs.as_ref());
        let passes = epochs.unwrap_or(1.0);
        let of_steps = count(training.steps.as_ref()).zip(global_batch).map(|(steps, batch)| steps * batch as f64);
        let of_data = |stated| count(stated).filter(|_| epochs.is_some());
        let samples = count(training.samples.as_ref()).or(of_data(data.samples.as_ref())).map(|count| count * passes);
        let tokens = count(training.tokens.as_ref()).or(of_data(data.tokens.as_ref())).map(|count| count * passes);
        // What a sweep states is of each of its runs.
        let experiments = count(file.sweep.runs.as_ref());
        let all = |of_one: Option<f64>| of_one.map(|count| count * experiments.unwrap_or(1.0));
        Self {
            experiments,
            epochs: all(epochs),
            tokens: all(tokens),
            samples: all(samples.or(of_steps)),
            requests: None,
        }
    }

    /// `None`: the workload states nothing to count by.
    pub fn costs(self, cost: Usd) -> Option<UnitCosts> {
        let for_each = |count: Option<f64>, unit: f64| Usd::from_dollars(cost.dollars() / (count? / unit));
        let costs = UnitCosts {
            experiment_usd: for_each(self.experiments, 1.0),
            epoch_usd: for_each(self.epochs, 1.0),
            million_tokens_usd: for_each(self.tokens, 1e6),
            thousand_samples_usd: for_each(self.samples, 1e3),
            thousand_requests_usd: for_each(self.requests, 1e3),
        };
        (costs != UnitCosts::default()).then_some(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_unit_costs_is_the_cost_by_what_was_done() {
        let work = Work { epochs: Some(3.0), tokens: Some(2e9), samples: Some(1.5e6), ..Work::default() };
        let costs = work.costs(Usd::parse("600").unwrap()).unwrap();
        let text = |cost: Option<Usd>| cost.map(|cost| cost.to_string());
        assert_eq!(text(costs.epoch_usd).as_deref(), Some("200.00"));
        assert_eq!(text(costs.million_tokens_usd).as_deref(), Some("0.30"));
        assert_eq!(text(costs.thousand_samples_usd).as_deref(), Some("0.40"));
        assert_eq!(costs.thousand_requests_usd, None);
        assert_eq!(Work::default().costs(Usd::parse("600").unwrap()), None, "unknown is not zero");
    }
}
