//! `Correction`: what measurements on some GPU change in the estimate of this and of every other GPU, by class of work and size.
//!
//! The constants know a GPU's efficiency up to a doubt (`WorkClass::doubt`). A measurement of the same work on the same model removes most
//! of it. One on another model, or of work of another size, removes less: the part of a deviation that is carried over is the
//! correlation between the two (`WorkClass::correlation`, and `REACH` for the size). With a correlation of r and a measured log
//! ratio of x, the expected log ratio is r x, and its variance is `doubt^2 (1 - r^2) + (r spread)^2 + ((1 - r) x)^2`: what the
//! measurement cannot say, what it scattered, and the part of an unusual result that may or may not belong here as well.

use crate::device::DeviceRates;
use crate::loading::input::MeasuredHost;
use crate::machine::Machine;
use crate::measurements::curve::{Curve, CurveValue};
use crate::measurements::own_runs::OwnRuns;
use crate::measurements::work_class::WorkClass;
use crate::time::breakdown::TimeBreakdown;
use gpuplan_hardware::{Architecture, Gpu, GpuLink};
use gpuplan_units::BytesPerSecond;

/// How much the measured GPU has in common with the one that is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    Other,
    SameArchitecture,
    SameModel,
}

impl WorkClass {
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

/// What was measured on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredGpu {
    /// Id of the catalog.
    pub id: String,
    pub architecture: Architecture,
    /// One a class at most.
    pub curves: Vec<Curve>,
    /// The host beside it, as far as it was measured.
    pub host: Option<MeasuredHost>,
    /// What was found, for people: the plan's notes.
    pub reasons: Vec<String>,
}

/// Everything measured; of each class the nearest GPU counts, and of equally near ones the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    measured: Vec<MeasuredGpu>,
    own_runs: Option<OwnRuns>,
}

impl Correction {
    /// Nothing was measured: the constants alone.
    pub const NONE: Self = Self { measured: Vec::new(), own_runs: None };

    pub fn new(measured: Vec<MeasuredGpu>) -> Self {
        Self { measured, own_runs: None }
    }

    /// The same with what finished runs of the user say.
    #[must_use]
    pub fn with_own_runs(self, own_runs: Option<OwnRuns>) -> Self {
        Self { own_runs, ..self }
    }

    pub fn own_runs(&self) -> Option<&OwnRuns> {
        self.own_runs.as_ref()
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
    pub fn for_gpu(&self, gpu: &Gpu) -> Factors<'_> {
        let of = |class| Factor { class, found: self.nearest(class, gpu) };
        Factors {
            compute: of(WorkClass::Compute),
            memory: of(WorkClass::Memory),
            launch: of(WorkClass::Launch),
            copy: of(WorkClass::Copy),
        }
    }

    /// The host that was measured beside this model of GPU. Other models stand in other machines.
    pub fn host(&self, gpu: &Gpu) -> Option<&MeasuredHost> {
        self.measured
            .iter()
            .filter(|measured| measured.nearness(gpu) == Nearness::SameModel)
            .find_map(|measured| measured.host.as_ref())
    }

    fn nearest(&self, class: WorkClass, gpu: &Gpu) -> Option<(&Curve, Nearness)> {
        let mut best: Option<(&Curve, Nearness)> = None;
        for measured in &self.measured {
            let near = measured.nearness(gpu);
            for curve in measured.curves.iter().filter(|curve| curve.class == class) {
                if best.is_none_or(|(_, found)| near > found) {
                    best = Some((curve, near));
                }
            }
        }
        best
    }

    /// One sentence on what changed for this GPU; empty where nothing did.
    pub fn description_of(&self, gpu: &Gpu) -> Option<String> {
        let factors = self.for_gpu(gpu);
        let parts: Vec<String> =
            WorkClass::ALL.into_iter().filter_map(|class| factors.for_class(class).description()).collect();
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

/// Correction of one class on one GPU, by size of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor<'a> {
    class: WorkClass,
    /// `None`: nothing was measured of this class.
    found: Option<(&'a Curve, Nearness)>,
}

/// Correction of one class on one GPU at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Multiplies the seconds of the work.
    pub time: f64,
    /// Doubt that is left in them: standard deviation of the logarithm.
    pub deviation: f64,
    /// Correlation with what was measured; 0 where nothing was.
    pub correlation: f64,
    /// Part of the deviation that the measurement itself scattered.
    pub spread: f64,
}

/// Sizes differ by so much, as a natural logarithm, where a deviation at one says exp(-1) as much of the other: a factor of 22,000.
/// So a decade of size leaves 0.79 of the correlation and three decades half of it. Judged.
const REACH: f64 = 10.0;

impl Factor<'_> {
    fn unmeasured(class: WorkClass) -> Self {
        Self { class, found: None }
    }

    pub fn is_measured(&self) -> bool {
        self.found.is_some()
    }

    /// For work of this size: FLOPs of a product, bytes that a kernel or a message moves.
    pub fn at_size(&self, size: f64) -> Corrected {
        // No work is smaller than one operation.
        self.read(|curve| curve.interpolate(size.max(1.0)))
    }

    /// For work whose size is not known.
    pub fn overall(&self) -> Corrected {
        self.read(Curve::overall)
    }

    fn read(&self, of: impl Fn(&Curve) -> CurveValue) -> Corrected {
        let doubt = self.class.doubt();
        let Some((curve, nearness)) = self.found else {
            return Corrected { time: 1.0, deviation: doubt, correlation: 0.0, spread: 0.0 };
        };
        let reading = of(curve);
        let of_gpu = self.class.correlation(nearness) * (-reading.distance / REACH).exp();
        let r = curve.of_program + (1.0 - curve.of_program) * of_gpu;
        let (x, spread) = (reading.log_time, r * reading.spread);
        let variance = doubt.powi(2) * (1.0 - r * r) + spread.powi(2) + ((1.0 - r) * x).powi(2);
        Corrected { time: (r * x).exp(), deviation: variance.sqrt(), correlation: r, spread }
    }

    /// Such as `compute time x 1.31 at 17 GFLOP to x 1.05 at 1.1 TFLOP (+-5 %)`; `None` where nothing was measured.
    fn description(&self) -> Option<String> {
        let (curve, _) = self.found?;
        let overall = self.overall();
        let ends =
            curve.ends().map(|(small, large)| ((small, self.at_size(small).time), (large, self.at_size(large).time)));
        let time = match ends.filter(|((_, small), (_, large))| (small / large).ln().abs() >= TOLD_APART) {
            Some(((small, of_small), (large, of_large))) => {
                format!(
                    "x {of_small:.2} at {} to x {of_large:.2} at {}",
                    self.class.size(small),
                    self.class.size(large)
                )
            }
            None => format!("x {:.2}", overall.time),
        };
        Some(format!("{} time {time} (+-{:.0} %)", self.class.word(), overall.deviation * 100.0))
    }
}

/// Ends of a curve that differ by less are told as one figure. Natural logarithm.
pub const TOLD_APART: f64 = 0.03;

impl Corrected {
    /// The mean over operators, each with its part in the work. `None` without work.
    pub fn mean(operators: impl Iterator<Item = (Self, f64)>) -> Option<Self> {
        let mut sum = Self { time: 0.0, deviation: 0.0, correlation: 0.0, spread: 0.0 };
        let mut whole = 0.0;
        for (one, part) in operators {
            sum.time += part * one.time;
            sum.deviation += part * one.deviation;
            sum.correlation += part * one.correlation;
            sum.spread += part * one.spread;
            whole += part;
        }
        let of = |sum: f64| sum / whole;
        let mean = Self {
            time: of(sum.time),
            deviation: of(sum.deviation),
            correlation: of(sum.correlation),
            spread: of(sum.spread),
        };
        (whole > 0.0).then_some(mean)
    }
}

/// Corrections of every class on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors<'a> {
    pub compute: Factor<'a>,
    pub memory: Factor<'a>,
    pub launch: Factor<'a>,
    pub copy: Factor<'a>,
}

impl<'a> Factors<'a> {
    /// The constants alone.
    pub fn unmeasured() -> Self {
        let of = Factor::unmeasured;
        Self {
            compute: of(WorkClass::Compute),
            memory: of(WorkClass::Memory),
            launch: of(WorkClass::Launch),
            copy: of(WorkClass::Copy),
        }
    }

    pub fn for_class(&self, class: WorkClass) -> Factor<'a> {
        match class {
            WorkClass::Compute => self.compute,
            WorkClass::Memory => self.memory,
            WorkClass::Launch => self.launch,
            WorkClass::Copy => self.copy,
        }
    }

    /// The rates that the measurement stands for, for work whose sizes are not known.
    pub fn rates(&self, rates: DeviceRates) -> DeviceRates {
        let compute = self.compute.overall().time;
        DeviceRates {
            matmul: rates.matmul / compute,
            vector: rates.vector / compute,
            head: rates.head / compute,
            flash: rates.flash / compute,
            flash3: rates.flash3.map(|rate| rate / compute),
            flash2: rates.flash2.map(|rate| rate / compute),
            memory_bandwidth: rates.memory_bandwidth / self.memory.overall().time,
            host_time: rates.host_time * self.launch.overall().time,
            ..rates
        }
    }

    /// The machine with the link that the copy factor multiplies. A calibration of this GPU model was compared with the link of
    /// the sheet, so what the catalog has measured of such machines is already in the factor.
    #[must_use]
    pub fn measured_from<'m>(&self, machine: Machine<'m>) -> Machine<'m> {
        let is_own = self.copy.found.is_some_and(|(_, near)| near == Nearness::SameModel);
        Machine { link: if is_own { machine.sheet_link } else { machine.link }, ..machine }
    }

    /// The machine with the link that the measurement stands for, for messages whose sizes are not known.
    pub fn machine<'m>(&self, machine: Machine<'m>) -> Machine<'m> {
        let slower = |rate: BytesPerSecond| BytesPerSecond(rate.0 / self.copy.overall().time);
        let link = match machine.link {
            GpuLink::Single => GpuLink::Single,
            GpuLink::Fast { bandwidth, domain } => GpuLink::Fast { bandwidth: slower(bandwidth), domain },
            GpuLink::Pcie { bandwidth } => GpuLink::Pcie { bandwidth: slower(bandwidth) },
        };
        Machine { link, ..machine }
    }

    /// What the measurement does to the doubt about a whole step. `corrected` is the mean of a class at the sizes of the step;
    /// `over_link`: its GPUs reach each other without a network.
    pub fn certainty(
        &self,
        time: &TimeBreakdown,
        over_link: bool,
        corrected: impl Fn(WorkClass) -> Corrected,
    ) -> Certainty {
        let mut certainty =
            Certainty { compute_correlation: corrected(WorkClass::Compute).correlation, ..Certainty::default() };
        for class in WorkClass::ALL {
            let seconds = match class {
                WorkClass::Compute => time.matmul + time.attention + time.head,
                WorkClass::Memory => time.elementwise + time.optimizer + time.dequantise,
                WorkClass::Launch => time.launch,
                WorkClass::Copy if !over_link => 0.0,
                WorkClass::Copy => {
                    time.tensor_parallel + time.expert_parallel + time.context_parallel + time.data_parallel
                }
            };
            let share = if time.total > 0.0 { seconds / time.total } else { 0.0 };
            let corrected = corrected(class);
            certainty.replaced += (share * class.doubt()).powi(2);
            certainty.left += (share * corrected.deviation).powi(2);
            certainty.spread += (share * corrected.spread).powi(2);
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
mod tests;
