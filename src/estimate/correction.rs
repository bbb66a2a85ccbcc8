//! `Correction`: what measurements on some GPU change in the estimate of this and of every other GPU, by class of work.
//!
//! The constants know a GPU's efficiency up to a doubt (`DOUBT`). A measurement on the same model removes most of it, one on
//! another model less: the part of a deviation that is carried over is the correlation between the two (`Nearness`). With a
//! correlation of r and a measured log ratio of x, the expected log ratio is r x, and its variance is
//! `doubt^2 (1 - r^2) + (r spread)^2 + ((1 - r) x)^2`: what the measurement cannot say, what it scattered, and the part of an
//! unusual result that may or may not belong to the other GPU as well.

use serde::{Deserialize, Serialize};

use crate::estimate::device::DeviceRates;
use crate::estimate::machine::Machine;
use crate::estimate::step::TimeBreakdown;
use crate::hardware::{Architecture, Gpu, GpuLink};
use crate::units::BytesPerSecond;

/// Work that the same thing speeds up or slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkClass {
    /// Matrix products and attention: arithmetic units, clock and power.
    Compute,
    /// Element-wise kernels, loss, optimizer: memory of the GPU.
    Memory,
    /// Kernel launches and all else that the host does between kernels.
    Launch,
    /// Traffic over the link between the GPUs of a machine; the network of machines is no part of it.
    Copy,
}

impl WorkClass {
    pub const ALL: [Self; 4] = [Self::Compute, Self::Memory, Self::Launch, Self::Copy];

    pub fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
            Self::Copy => "copy",
        }
    }

    /// Standard deviation of the logarithm of a GPU's time for this class around the constants. Judged: whole steps on GPU
    /// models that the fit never saw are off by 7 to 15 % (`held_out_gpus` of the constants file), framework and composition
    /// included; published stream rates are 0.87 to 0.98 of their sheets; hosts differ by a factor of two.
    fn doubt(self) -> f64 {
        match self {
            Self::Compute | Self::Memory => 0.08,
            Self::Launch => 0.35,
            Self::Copy => 0.25,
        }
    }

    /// Correlation of this class's deviation on two GPUs. Judged. Two cards of one model still differ by silicon and cooling;
    /// launches belong to the host and copies to the board, so these say less about other models than arithmetic does.
    fn correlation(self, nearness: Nearness) -> f64 {
        match (nearness, self) {
            (Nearness::SameModel, _) => 0.9,
            (Nearness::SameArchitecture, Self::Compute | Self::Memory) => 0.6,
            (Nearness::SameArchitecture, _) => 0.4,
            (Nearness::Other, Self::Compute | Self::Memory) => 0.3,
            (Nearness::Other, _) => 0.2,
        }
    }
}

/// How much the measured GPU has in common with the one that is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    Other,
    SameArchitecture,
    SameModel,
}

/// Time of one class on the measured GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassRatio {
    pub class: WorkClass,
    /// Measured seconds over the seconds that the estimate (or a recorded reference) has for the same work; above 1 is slower.
    pub time: f64,
    /// Standard deviation of its logarithm, from repetitions and from one operator to the next.
    pub spread: f64,
    /// Part of the deviation that belongs to what ran and not to the GPU, so that it goes wherever that runs: 0 of a benchmark.
    #[serde(default)]
    pub of_program: f64,
}

/// `of_program` of a user's own run. Code bases that the fit never saw are off by 8.5 % on average (docs/estimate.md), a standard
/// deviation of 0.106, beside the 0.08 of a GPU model: 0.106^2 / (0.106^2 + 0.08^2). The other classes are judged alike.
const OF_PROGRAM: f64 = 0.64;

/// No GPU is this far from its estimate; such a ratio means that two different things were compared.
const LARGEST_RATIO: f64 = 5.0;

impl ClassRatio {
    /// `None` for what no measurement can give: not finite, not positive, or off by more than a factor of five.
    pub fn new(class: WorkClass, time: f64, spread: f64) -> Option<Self> {
        let is_sane = (1.0 / LARGEST_RATIO..=LARGEST_RATIO).contains(&time) && (0.0..=LARGEST_RATIO.ln()).contains(&spread);
        is_sane.then_some(Self { class, time, spread, of_program: 0.0 })
    }

    /// The same, measured on a user's own run.
    #[must_use]
    pub fn of_run(self) -> Self {
        Self { of_program: OF_PROGRAM, ..self }
    }
}

/// What was measured on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredGpu {
    /// Id of the catalog.
    pub id: String,
    pub architecture: Architecture,
    pub ratios: Vec<ClassRatio>,
    /// What was found, for people: the plan's notes.
    pub reasons: Vec<String>,
}

/// Everything measured; of each class the nearest GPU counts, and of equally near ones the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    measured: Vec<MeasuredGpu>,
}

impl Correction {
    /// Nothing was measured: the constants alone.
    pub const NONE: Self = Self { measured: Vec::new() };

    pub fn new(measured: Vec<MeasuredGpu>) -> Self {
        Self { measured }
    }

    /// What is added counts after what is there already, where both are equally near.
    pub fn push(&mut self, measured: MeasuredGpu) {
        self.measured.push(measured);
    }

    pub fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    pub fn measured(&self) -> &[MeasuredGpu] {
        &self.measured
    }

    /// What the measurements say of this GPU.
    pub fn on(&self, gpu: &Gpu) -> Factors {
        let of = |class| self.nearest(class, gpu).map_or_else(|| Factor::unmeasured(class), |(ratio, near)| Factor::new(ratio, near));
        Factors { compute: of(WorkClass::Compute), memory: of(WorkClass::Memory), launch: of(WorkClass::Launch), copy: of(WorkClass::Copy) }
    }

    fn nearest(&self, class: WorkClass, gpu: &Gpu) -> Option<(ClassRatio, Nearness)> {
        let mut best: Option<(ClassRatio, Nearness)> = None;
        for measured in &self.measured {
            let near = measured.nearness(gpu);
            for ratio in measured.ratios.iter().filter(|ratio| ratio.class == class) {
                if best.is_none_or(|(_, found)| near > found) {
                    best = Some((*ratio, near));
                }
            }
        }
        best
    }

    /// One sentence on what changed for this GPU; empty where nothing did.
    pub fn said_of(&self, gpu: &Gpu) -> Option<String> {
        let factors = self.on(gpu);
        let parts: Vec<String> = WorkClass::ALL
            .into_iter()
            .filter(|class| factors.of(*class).correlation > 0.0)
            .map(|class| {
                let factor = factors.of(class);
                format!("{} time x {:.2} (+-{:.0} %)", class.word(), factor.time, factor.deviation * 100.0)
            })
            .collect();
        // The last of the greatest is the first of the list.
        let near = self.measured.iter().rev().max_by_key(|measured| measured.nearness(gpu))?;
        let how = match near.nearness(gpu) {
            Nearness::SameModel => "measured on this model".to_owned(),
            Nearness::SameArchitecture => format!("carried over from {} of the same architecture", near.id),
            Nearness::Other => format!("carried over from {} of another architecture, so little of it", near.id),
        };
        (!parts.is_empty()).then(|| format!("{}: {}; {how}", gpu.name, parts.join(", ")))
    }
}

impl MeasuredGpu {
    fn nearness(&self, gpu: &Gpu) -> Nearness {
        if self.id == gpu.id {
            Nearness::SameModel
        } else if self.architecture == gpu.architecture {
            Nearness::SameArchitecture
        } else {
            Nearness::Other
        }
    }
}

/// Correction of one class on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor {
    /// Multiplies the seconds of the class.
    pub time: f64,
    /// Doubt that is left in them: standard deviation of the logarithm.
    pub deviation: f64,
    /// Correlation with what was measured; 0 where nothing was.
    pub correlation: f64,
    /// Part of the deviation that the measurement itself scattered.
    pub spread: f64,
}

impl Factor {
    fn unmeasured(class: WorkClass) -> Self {
        Self { time: 1.0, deviation: class.doubt(), correlation: 0.0, spread: 0.0 }
    }

    fn new(ratio: ClassRatio, nearness: Nearness) -> Self {
        let r = ratio.of_program + (1.0 - ratio.of_program) * ratio.class.correlation(nearness);
        let x = ratio.time.ln();
        let spread = r * ratio.spread;
        let variance = ratio.class.doubt().powi(2) * (1.0 - r * r) + spread.powi(2) + ((1.0 - r) * x).powi(2);
        Self { time: (r * x).exp(), deviation: variance.sqrt(), correlation: r, spread }
    }
}

/// Corrections of every class on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    pub compute: Factor,
    pub memory: Factor,
    pub launch: Factor,
    pub copy: Factor,
}

impl Factors {
    /// The constants alone.
    pub fn unmeasured() -> Self {
        let of = Factor::unmeasured;
        Self { compute: of(WorkClass::Compute), memory: of(WorkClass::Memory), launch: of(WorkClass::Launch), copy: of(WorkClass::Copy) }
    }

    pub fn of(&self, class: WorkClass) -> Factor {
        match class {
            WorkClass::Compute => self.compute,
            WorkClass::Memory => self.memory,
            WorkClass::Launch => self.launch,
            WorkClass::Copy => self.copy,
        }
    }

    /// The rates that the measurement stands for.
    pub fn rates(&self, rates: DeviceRates) -> DeviceRates {
        let compute = self.compute.time;
        DeviceRates {
            matmul: rates.matmul / compute,
            vector: rates.vector / compute,
            head: rates.head / compute,
            flash: rates.flash / compute,
            flash3: rates.flash3.map(|rate| rate / compute),
            eager: rates.eager / compute,
            memory_bandwidth: rates.memory_bandwidth / self.memory.time,
            host_time: rates.host_time * self.launch.time,
            ..rates
        }
    }

    /// The machine with the link that the measurement stands for.
    pub fn machine<'a>(&self, machine: Machine<'a>) -> Machine<'a> {
        let slower = |rate: BytesPerSecond| BytesPerSecond(rate.0 / self.copy.time);
        let link = match machine.link {
            GpuLink::Single => GpuLink::Single,
            GpuLink::Fast { bandwidth, domain } => GpuLink::Fast { bandwidth: slower(bandwidth), domain },
            GpuLink::Pcie { bandwidth } => GpuLink::Pcie { bandwidth: slower(bandwidth) },
        };
        Machine { link, ..machine }
    }

    /// What the measurement does to the doubt about a whole step. `over_link`: its GPUs reach each other without a network.
    pub fn certainty(&self, time: &TimeBreakdown, over_link: bool) -> Certainty {
        let mut certainty = Certainty { compute_correlation: self.compute.correlation, ..Certainty::default() };
        for class in WorkClass::ALL {
            let seconds = match class {
                WorkClass::Compute => time.matmul + time.attention + time.head,
                WorkClass::Memory => time.elementwise + time.optimizer + time.dequantise,
                WorkClass::Launch => time.launch,
                WorkClass::Copy if !over_link => 0.0,
                WorkClass::Copy => time.tensor_parallel + time.expert_parallel + time.context_parallel + time.data_parallel,
            };
            let share = if time.total > 0.0 { seconds / time.total } else { 0.0 };
            certainty.replaced += (share * class.doubt()).powi(2);
            certainty.left += (share * self.of(class).deviation).powi(2);
            certainty.spread += (share * self.of(class).spread).powi(2);
        }
        certainty
    }
}

/// Log variances of a step that a measurement takes away from the band and puts in their place. Without one they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Certainty {
    pub replaced: f64,
    pub left: f64,
    /// Part of `left` that the measurement scattered: no band is narrower.
    pub spread: f64,
    /// Of arithmetic: what was never fitted on this kind of GPU is doubted less by so much.
    pub compute_correlation: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::case::Case;
    use crate::estimate::{Setting, StepEstimate, Subject};
    use crate::hardware::Hardware;
    use crate::workload::{Layout, Models, Recompute, Shard};
    use proptest::prelude::*;

    fn slow_hopper(time: f64) -> Correction {
        Correction::new(vec![MeasuredGpu {
            id: "h100-sxm5-80".to_owned(),
            architecture: Architecture::Hopper,
            ratios: ClassRatio::new(WorkClass::Compute, time, 0.01).into_iter().collect(),
            reasons: Vec::new(),
        }])
    }

    fn factor(correction: &Correction, gpu: &str) -> Factor {
        let hardware = Hardware::embedded().unwrap();
        correction.on(hardware.gpu(hardware.find_gpu(gpu).unwrap())).compute
    }

    #[test]
    fn a_measurement_says_less_of_gpus_that_are_further_away() {
        let correction = slow_hopper(1.2);
        let [same, near, far] = ["h100-sxm5-80", "h200-sxm-141", "a100-sxm4-80"].map(|gpu| factor(&correction, gpu));
        assert!(same.time > near.time && near.time > far.time && far.time > 1.0, "{same:?} {near:?} {far:?}");
        assert!(same.deviation < near.deviation && near.deviation < far.deviation, "{same:?} {near:?} {far:?}");
        assert!(same.deviation < WorkClass::Compute.doubt());
        // Something that unusual on one architecture makes another one more doubtful, not less.
        assert!(far.deviation > WorkClass::Compute.doubt());
    }

    #[test]
    fn what_a_run_deviates_goes_with_the_program_more_than_with_the_gpu() {
        let factor = |ratio: ClassRatio, near| Factor::new(ratio, near);
        let bench = ClassRatio::new(WorkClass::Compute, 1.4, 0.01).unwrap();
        for near in [Nearness::Other, Nearness::SameArchitecture, Nearness::SameModel] {
            let (of_bench, of_run) = (factor(bench, near), factor(bench.of_run(), near));
            assert!(of_run.time > of_bench.time && of_run.time < 1.4 && of_run.deviation < of_bench.deviation, "{of_bench:?} {of_run:?}");
        }
        assert!(factor(bench.of_run(), Nearness::Other).time > 1.4_f64.powf(0.7));
    }

    #[test]
    fn nothing_measured_changes_nothing() {
        let hardware = Hardware::embedded().unwrap();
        for gpu in hardware.gpus() {
            assert_eq!(Correction::NONE.on(gpu), Factors::unmeasured());
            assert_eq!(Correction::NONE.said_of(gpu), None);
        }
        let certainty = Factors::unmeasured().certainty(&TimeBreakdown { matmul: 1.0, total: 2.0, ..TimeBreakdown::default() }, true);
        assert_eq!(certainty.replaced, certainty.left);
    }

    #[test]
    fn a_slower_measured_gpu_makes_a_longer_step_with_a_narrower_band() {
        let case = r#"{"id": "a", "model": {"name": "llama-2-7b"}, "training": {"task": "pretrain", "sequence_length": 4096},
            "hardware": {"gpu": "h100-sxm5-80", "gpus": 8}}"#;
        let case: Case = serde_json::from_str(case).unwrap();
        let prepared = case.prepare(&Hardware::embedded().unwrap(), &Models::embedded().unwrap()).unwrap();
        let layout = Layout { data: 8, shard: Shard::Zero3, ..Layout::default() };
        let setting = Setting { layout, micro_batch: 1, global_batch: 8.0, recompute: Recompute::None };
        let subject = Subject::new(&prepared.model, &prepared.training, prepared.machine());
        let step = |correction: &Correction| subject.corrected(correction).estimate(&setting).unwrap();
        let (plain, slow) = (step(&Correction::NONE), step(&slow_hopper(1.2)));
        assert_eq!(plain, subject.estimate(&setting).unwrap());
        let arithmetic = |step: &StepEstimate| step.time.matmul + step.time.attention;
        assert!((arithmetic(&slow) / arithmetic(&plain) / 1.2_f64.powf(0.9) - 1.0).abs() < 1e-9);
        assert!(slow.time.elementwise == plain.time.elementwise && slow.time.total > 1.08 * plain.time.total);
        let width = |step: &StepEstimate| step.step_seconds().high / step.step_seconds().low;
        assert!(width(&slow) < 0.97 * width(&plain), "{} {}", width(&slow), width(&plain));
        assert_eq!(slow.memory, plain.memory);
    }

    #[test]
    fn the_nearest_measurement_of_a_class_counts() {
        let mut correction = slow_hopper(1.2);
        let ratios = ClassRatio::new(WorkClass::Compute, 0.9, 0.01).into_iter().collect();
        correction.push(MeasuredGpu { id: "a100-sxm4-80".to_owned(), architecture: Architecture::Ampere, ratios, reasons: Vec::new() });
        assert!(factor(&correction, "a100-sxm4-80").time < 1.0);
        assert!(factor(&correction, "h200-sxm-141").time > 1.0);
    }

    proptest! {
        #[test]
        fn no_ratio_makes_time_vanish_or_doubt_fall_below_the_spread(time in any::<f64>(), spread in any::<f64>()) {
            if let Some(ratio) = ClassRatio::new(WorkClass::Memory, time, spread) {
                for near in [Nearness::SameModel, Nearness::SameArchitecture, Nearness::Other] {
                    let factor = Factor::new(ratio, near);
                    prop_assert!(factor.time > 0.1 && factor.time < 10.0);
                    prop_assert!(factor.deviation.is_finite() && factor.deviation >= factor.correlation * spread);
                }
            }
        }
    }
}
