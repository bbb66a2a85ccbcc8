//! `Tally`: what the readers of all formats count into, and the figures it comes to.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::profile::{ClassTime, CopyKind, OperatorClass, OperatorTime, Operators, Products, StepTimes, median};
use crate::trace::classes::{self, Unit};
use crate::trace::device_steps::DeviceSteps;
use crate::trace::host::HostOperators;
use crate::trace::step_work::StepWork;
use crate::trace::timeline::{Launches, Span, Timeline, Totals};

/// Different names remembered; XLA and Triton give each fusion a name of its own.
const MOST_NAMES: usize = 20_000;
/// Devices of one trace.
const MOST_DEVICES: usize = 64;
/// Steps of one trace.
const MOST_STEPS: usize = 100_000;
/// Operators shown.
const TOP: usize = 12;
const NANOS: f64 = 1e-9;
/// Times beyond 126 years from the epoch are damage, and their differences would be beyond counting. Nanoseconds.
const FARTHEST: i64 = 4_000_000_000_000_000_000;

/// Work of a device as a trace has it. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    pub name: &'a str,
    pub device: i64,
    pub start: i64,
    pub end: i64,
    /// 0: unknown.
    pub correlation: u32,
    /// Of a copy; 0: unknown.
    pub bytes: f64,
}

/// A name met before: its class is looked up once.
#[derive(Clone, Debug)]
struct Operator {
    name: Box<str>,
    class: OperatorClass,
    unit: Unit,
    calls: u64,
    nanos: i64,
}

#[derive(Debug, Default)]
struct Device {
    timeline: Timeline,
    work_nanos: i64,
}

#[derive(Debug, Default)]
pub struct Tally {
    index: FxHashMap<Box<str>, usize>,
    operators: Vec<Operator>,
    devices: BTreeMap<i64, Device>,
    launches: Launches,
    copies: BTreeMap<String, CopyKind>,
    steps: BTreeMap<String, Vec<f64>>,
    device_steps: DeviceSteps,
    step_work: StepWork,
    /// When optimizers began, by where (the host, a device) and which.
    optimizers: BTreeMap<(Option<i64>, String), Vec<i64>>,
    pub host: HostOperators,
    pub products: Products,
    graphs: u64,
    input_wait_nanos: i64,
    synchronisations: u64,
    synchronisation_nanos: i64,
    /// Devices and names beyond what is remembered.
    left_out: u64,
}

/// The figures of a trace and what is to be said about them.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub operators: Operators,
    pub step: Option<StepTimes>,
    pub notes: Vec<String>,
}

impl Tally {
    pub fn device_work(&mut self, work: Work) {
        if work.end < work.start || work.start < -FARTHEST || work.end > FARTHEST {
            return;
        }
        let nanos = work.end - work.start;
        let Some((class, unit)) = self.count(work.name, 1, nanos) else { return };
        if class == OperatorClass::Graph {
            self.graphs += 1;
        }
        match unit {
            Unit::TensorCore => self.products.tensor_core_seconds += nanos as f64 * NANOS,
            Unit::Fp32 => self.products.fp32_seconds += nanos as f64 * NANOS,
            Unit::Unknown => {}
        }
        if class == OperatorClass::Copy {
            let kind = classes::copy_kind(work.name);
            let copy = self.copies.entry(kind.clone()).or_insert(CopyKind { kind, calls: 0, bytes: 0.0, seconds: 0.0 });
            copy.calls += 1;
            copy.bytes = (copy.bytes + work.bytes.max(0.0)).min(f64::MAX);
            copy.seconds += nanos as f64 * NANOS;
        }
        if self.devices.len() >= MOST_DEVICES && !self.devices.contains_key(&work.device) {
            self.left_out += 1;
            return;
        }
        self.step_work.add(work.device, work.start, nanos, class);
        let device = self.devices.entry(work.device).or_default();
        if class != OperatorClass::Communication {
            device.work_nanos = device.work_nanos.saturating_add(nanos);
        }
        let is_communication = class == OperatorClass::Communication;
        device.timeline.add(
            Span { start: work.start, end: work.end, correlation: work.correlation, is_communication },
            &mut self.launches,
        );
        self.host.forget();
    }

    /// A call of the host that gives the device something to do.
    pub fn launch(&mut self, correlation: u32, end: i64) {
        self.launches.add(correlation, end);
    }

    pub fn synchronisation(&mut self, nanos: i64) {
        self.synchronisations += 1;
        self.synchronisation_nanos = self.synchronisation_nanos.saturating_add(nanos.max(0));
    }

    pub fn input_wait(&mut self, nanos: i64) {
        self.input_wait_nanos = self.input_wait_nanos.saturating_add(nanos.max(0));
    }

    /// A whole step; `marks` names the kind of mark, since a trace may have several.
    pub fn step(&mut self, marks: &str, nanos: i64) {
        if !self.steps.contains_key(marks) {
            self.steps.insert(marks.to_owned(), Vec::new());
        }
        if let Some(steps) = self.steps.get_mut(marks).filter(|steps| nanos > 0 && steps.len() < MOST_STEPS) {
            steps.push(nanos as f64 * NANOS);
        }
    }

    /// A step as far as a device worked on it; `name` ends in its number.
    pub fn device_step(&mut self, device: i64, marks: &str, name: &str, start: i64, end: i64) {
        if (-FARTHEST..=FARTHEST).contains(&start) && (start..=FARTHEST).contains(&end) {
            self.device_steps.add(device, marks, name, start, end);
        }
    }

    /// The optimizer begins its work; `None`: on the host.
    pub fn optimizer(&mut self, device: Option<i64>, name: &str, start: i64) {
        let held: usize = self.optimizers.values().map(Vec::len).sum();
        if held < MOST_STEPS && (-FARTHEST..=FARTHEST).contains(&start) {
            self.optimizers.entry((device, name.to_owned())).or_default().push(start);
        }
    }

    /// `None`: too many names.
    fn count(&mut self, name: &str, calls: u64, nanos: i64) -> Option<(OperatorClass, Unit)> {
        let at = match self.index.get(name) {
            Some(at) => *at,
            None if self.operators.len() >= MOST_NAMES => {
                self.left_out += 1;
                return None;
            }
            None => {
                self.operators.push(Operator {
                    name: name.into(),
                    class: classes::class(name),
                    unit: classes::unit(name),
                    calls: 0,
                    nanos: 0,
                });
                self.index.insert(name.into(), self.operators.len() - 1);
                self.operators.len() - 1
            }
        };
        let operator = &mut self.operators[at];
        operator.calls += calls;
        operator.nanos = operator.nanos.saturating_add(nanos);
        Some((operator.class, operator.unit))
    }

    pub fn finish(mut self, format: &str) -> Counted {
        let mut notes = Vec::new();
        let mut launches = std::mem::take(&mut self.launches);
        let mut work = Vec::new();
        let mut totals = Vec::new();
        for (_, device) in std::mem::take(&mut self.devices) {
            work.push(device.work_nanos as f64);
            totals.push(device.timeline.finish(&mut launches));
        }
        let host = std::mem::take(&mut self.host);
        let mut host_span = None;
        if totals.is_empty() {
            notes.push("the trace has no work of a GPU: the times are those of operators on the host".to_owned());
            let found = host.self_times();
            host_span = Some((found.span, found.busy));
            for (name, calls, nanos) in found.operators {
                self.count(&name, calls, nanos);
            }
        }
        let late: u64 = totals.iter().map(|device| device.late).sum();
        if late > 0 {
            notes.push(format!("{late} spans came far out of order: they are in the times of the operators, not in those of the timeline"));
        }
        if self.left_out > 0 {
            notes.push(format!("{} events of too many devices or names are left out", self.left_out));
        }
        if launches.forgotten > 0 {
            notes.push(format!(
                "{} launches were too many to remember: gaps may be the host's that are not called so",
                launches.forgotten
            ));
        }
        if self.graphs > 0 {
            notes.push(format!(
                "{} launches of CUDA graphs are in the trace as wholes: what ran inside is not known; trace with `nsys profile --cuda-graph-trace=node`",
                self.graphs
            ));
        }
        let (step, steps) = self.step_times().unzip();
        let operators = Operators { steps: steps.unwrap_or(0), ..self.figures(format, &totals, &work, host_span) };
        Counted { operators, step, notes }
    }

    /// Marks of a device tell when it was done; a host that launches ahead is faster. Of the host's those of which there are most stand
    /// for the steps. With how many there are: from one mark to the next there are fewer.
    fn step_times(&self) -> Option<(StepTimes, u64)> {
        if let Some((marks, seconds)) = self.device_steps.seconds() {
            return Some((StepTimes::after_warm_up(&seconds, &marks)?, self.device_steps.count()));
        }
        match self.steps.iter().max_by_key(|(_, seconds)| seconds.len()) {
            Some((marks, seconds)) => {
                Some((StepTimes::after_warm_up(std::slice::from_ref(seconds), marks)?, seconds.len() as u64))
            }
            None => self.steps_of_optimizers(),
        }
    }

    /// Where nobody marked a step: from one step of the optimizer to the next, on a device if that has them.
    fn steps_of_optimizers(&self) -> Option<(StepTimes, u64)> {
        let ((device, name), starts) =
            self.optimizers.iter().max_by_key(|((device, _), starts)| (device.is_some(), starts.len()))?;
        let mut starts = starts.clone();
        starts.sort_unstable();
        let seconds: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * NANOS).collect();
        let place = if device.is_some() { " on the device" } else { "" };
        let times =
            StepTimes::after_warm_up(std::slice::from_ref(&seconds), &format!("one `{name}` to the next{place}"))?;
        Some((times, starts.len() as u64))
    }

    fn figures(self, format: &str, totals: &[Totals], work: &[f64], host_span: Option<(i64, i64)>) -> Operators {
        let devices = totals.len().max(1) as f64;
        let seconds = |nanos: i64| nanos as f64 * NANOS / devices;
        // Nothing adds up to -0.0, which JSON would show.
        let sum =
            |of: fn(&Totals) -> i64| totals.iter().map(|device| seconds(of(device))).fold(0.0, |sum, each| sum + each);
        let (span_seconds, busy_seconds) = match host_span {
            Some((span, busy)) => (seconds(span), seconds(busy)),
            None => (sum(Totals::span), sum(|device| device.busy)),
        };
        let classes = OperatorClass::ALL.map(|class| {
            let of = || self.operators.iter().filter(|operator| operator.class == class);
            let calls = of().map(|operator| operator.calls).sum();
            ClassTime { class, calls, seconds: of().map(|operator| seconds(operator.nanos)).sum() }
        });
        let mut operators = self.operators;
        operators.sort_by(|a, b| b.nanos.cmp(&a.nanos).then(a.name.cmp(&b.name)));
        let top = operators.iter().filter(|operator| operator.nanos > 0).take(TOP).map(|operator| OperatorTime {
            name: operator.name.to_string(),
            class: operator.class,
            calls: operator.calls,
            seconds: seconds(operator.nanos),
        });
        let mut products = self.products;
        products.tensor_core_seconds /= devices;
        products.fp32_seconds /= devices;
        products.small_seconds /= devices;
        products.unaligned_seconds /= devices;
        let slowest = work.iter().copied().fold(0.0, f64::max);
        let slowest_device =
            median(work).filter(|middle| work.len() > 1 && *middle > 0.0).map(|middle| slowest / middle);
        let steps = self.step_work.device().map(|device| self.device_steps.of(device)).unwrap_or_default();
        Operators {
            each_step: self.step_work.figures(&steps),
            format: format.to_owned(),
            devices: totals.len() as u32,
            steps: 0,
            span_seconds,
            busy_seconds,
            gap_seconds: (span_seconds - busy_seconds).max(0.0),
            host_bound_seconds: sum(|device| device.host_bound),
            classes: classes.into_iter().filter(|class| class.calls > 0).collect(),
            exposed_communication_seconds: sum(|device| device.exposed),
            copies: self
                .copies
                .into_values()
                .map(|copy| CopyKind { seconds: copy.seconds / devices, ..copy })
                .collect(),
            input_wait_seconds: self.input_wait_nanos as f64 * NANOS,
            synchronisations: self.synchronisations,
            synchronisation_seconds: self.synchronisation_nanos as f64 * NANOS,
            products,
            slowest_device,
            top: top.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str, device: i64, start: i64, end: i64) -> Work<'_> {
        Work { name, device, start, end, correlation: 0, bytes: 1e6 }
    }

    #[test]
    fn work_is_told_by_class_and_device() {
        let mut tally = Tally::default();
        for device in 0..2 {
            tally.device_work(work("ampere_bf16_s16816gemm_bf16", device, 0, 600 + device * 400));
            tally.device_work(work("vectorized_elementwise_kernel", device, 1000, 1200));
            tally.device_work(work("Memcpy HtoD (Pageable -> Device)", device, 1200, 1300));
        }
        tally.step("ProfilerStep", 1300);
        let counted = tally.finish("test");
        let found = counted.operators;
        assert_eq!(found.devices, 2);
        assert!((found.seconds(OperatorClass::Compute) - 800e-9).abs() < 1e-15);
        assert!((found.gap_seconds - 200e-9).abs() < 1e-15, "{}", found.gap_seconds);
        let [copy] = &found.copies[..] else { panic!("{:?}", found.copies) };
        assert_eq!((copy.kind.as_str(), copy.calls, copy.bytes), ("HtoD pageable", 2, 2e6));
        assert!((copy.seconds - 1e-7).abs() < 1e-15 && copy.is_pageable());
        assert!((found.slowest_device.unwrap() - 1300.0 / 1100.0).abs() < 1e-9);
        assert!((found.products.tensor_core_seconds - 800e-9).abs() < 1e-15);
        assert_eq!(found.top[0].name, "ampere_bf16_s16816gemm_bf16");
        assert_eq!(counted.step.unwrap().count, 1);
        assert!(counted.notes.is_empty());
    }

    #[test]
    fn a_step_that_warms_up_stands_by_itself() {
        let mut tally = Tally::default();
        for nanos in [9_000, 1_000, 1_010, 990] {
            tally.step("ProfilerStep", nanos);
        }
        let step = tally.finish("test").step.unwrap();
        assert_eq!((step.count, step.first_seconds), (3, Some(9e-6)));
        assert!((step.median_seconds - 1e-6).abs() < 1e-12);
        let mut even = Tally::default();
        for nanos in [1_500, 1_000, 1_010, 990] {
            even.step("ProfilerStep", nanos);
        }
        let step = even.finish("test").step.unwrap();
        assert_eq!((step.count, step.first_seconds), (4, None));
    }

    #[test]
    fn without_a_device_nothing_is_a_plain_zero() {
        let mut tally = Tally::default();
        tally.host.add(1, "aten::mm", 0, 10);
        let found = tally.finish("test").operators;
        for seconds in [found.host_bound_seconds, found.exposed_communication_seconds] {
            assert!(seconds == 0.0 && seconds.is_sign_positive());
        }
    }
}
