//! `Window`: the newest samples of the machine, and what costs time by them. Pure: samples go in, findings come out.

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;

use gpuplan_runstore::status;
use gpuplan_telemetry::{Facts, Sample, Summary, find};
use gpuplan_workload::profile::{Finding, Profile, Rule};

/// Samples that findings rest on: five minutes at the usual pace of ten seconds. Judged: a checkpoint or an evaluation should
/// not look like a slow loader, and advice should come while most of the run is still to be paid.
pub const SAMPLES: usize = 30;

/// Of one agent, over all starts of its program.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Cores that the program may use.
    cores: u32,
    /// Between two samples. Seconds.
    pace: f64,
    samples: VecDeque<Sample>,
    holding: Vec<(Finding, Timestamp)>,
    told: BTreeSet<Rule>,
}

impl Window {
    pub fn new(cores: u32, pace: f64) -> Self {
        Self { cores, pace, ..Self::default() }
    }

    /// The program starts anew, so that earlier samples say nothing about it.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.holding.clear();
    }

    /// Takes up a sample. Gives what holds for the first time in the life of the agent.
    pub fn add(&mut self, sample: Sample, now: Timestamp) -> Vec<Finding> {
        // What comes before the first step is imports and compilation.
        if sample.step.is_some() && self.samples.back().is_some_and(|last| last.step.is_none()) {
            self.clear();
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let since = |rule| self.holding.iter().find(|(known, _)| known.rule == rule).map_or(now, |(_, since)| *since);
        self.holding = self
            .found()
            .into_iter()
            .map(|finding| (finding.rule, finding))
            .map(|(rule, finding)| (finding, since(rule)))
            .collect();
        let first = |(finding, _): &&(Finding, Timestamp)| self.told.insert(finding.rule);
        self.holding.iter().filter(first).map(|(finding, _)| finding.clone()).collect()
    }

    fn found(&self) -> Vec<Finding> {
        if self.samples.len() < SAMPLES {
            return Vec::new();
        }
        let mut summary = Summary::default();
        self.samples.iter().for_each(|sample| summary.add(sample, self.cores));
        let profile = Profile { usage: summary.usage(self.pace, self.cores, None), ..Profile::new("") };
        // The catalog of GPUs is not in the agent; rules that need it say nothing.
        find(&profile, &Facts::default())
    }

    /// What holds now, as a status says it, with the dearest first.
    pub fn findings(&self) -> Vec<status::Finding> {
        let shown = |(finding, since): &(Finding, Timestamp)| status::Finding {
            rule: finding.rule.word(),
            evidence: finding.evidence.clone(),
            advice: finding.advice.clone(),
            since: *since,
        };
        self.holding.iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_telemetry::{GpuSample, HostSample};

    /// A GPU with full memory, busy for that share of the time beside a host that idles.
    fn sample(busy: f64, step: Option<u64>) -> Sample {
        let gpu = GpuSample {
            busy: Some(busy),
            memory_used_bytes: Some(70e9),
            memory_total_bytes: Some(80e9),
            ..GpuSample::default()
        };
        Sample {
            gpus: vec![gpu],
            host: HostSample { cores_used: 1.0, ..HostSample::default() },
            step,
            ..Sample::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Rules told over samples of that kind, with the number of the sample.
    fn told(window: &mut Window, samples: usize, busy: f64, step: Option<u64>) -> Vec<(usize, Rule)> {
        let told = (1..=samples).map(|number| (number, window.add(sample(busy, step), at(number as i64))));
        told.flat_map(|(number, found)| found.into_iter().map(move |finding| (number, finding.rule))).collect()
    }

    #[test]
    fn a_finding_is_told_once_and_holds_as_long_as_the_window_says_so() {
        let mut window = Window::new(16, 10.0);
        assert_eq!(told(&mut window, 100, 0.6, Some(1)), [(SAMPLES, Rule::HostBound)]);
        let held = window.findings();
        assert_eq!((held.len(), held[0].rule.as_str(), held[0].since), (1, "host-bound", at(SAMPLES as i64)));
        assert!(held[0].evidence.contains("60 %") && held[0].advice.contains("gpuplan profile trace"), "{held:?}");
        assert_eq!(told(&mut window, 100, 0.99, Some(1)), []);
        assert_eq!(window.findings(), []);
        assert_eq!(told(&mut window, 100, 0.6, Some(1)), [], "it was told before");
        assert_eq!(window.findings().len(), 1);
    }

    #[test]
    fn what_comes_before_the_first_step_does_not_count() {
        let mut window = Window::new(16, 10.0);
        assert_eq!(told(&mut window, SAMPLES - 1, 0.0, None), []);
        assert_eq!(told(&mut window, 100, 0.99, Some(1)), []);
        // A program that never tells of a step is judged all the same.
        let mut silent = Window::new(16, 10.0);
        assert_eq!(told(&mut silent, 100, 0.6, None), [(SAMPLES, Rule::HostBound)]);
        silent.clear();
        assert_eq!((told(&mut silent, SAMPLES - 1, 0.6, None), silent.findings()), (Vec::new(), Vec::new()));
    }

    #[test]
    fn nothing_is_found_where_there_is_no_gpu() {
        let mut window = Window::new(16, 10.0);
        for second in 0..100 {
            assert_eq!(window.add(Sample { gpus: Vec::new(), ..sample(0.0, Some(1)) }, at(second)), []);
        }
    }
}
