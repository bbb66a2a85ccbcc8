//! What a profile says of the GPU it was made on, against what the estimate has for the same run: a correction for every GPU.

use crate::explanation::Rejection;
use crate::training::search::best_setting;
use gpuplan_estimate::{Curve, Machine, MeasuredGpu, Setting, StepEstimate, Subject, TimeBreakdown, WorkClass};
use gpuplan_hardware::{GpuId, Hardware, NodeShape};
use gpuplan_units::Seconds;
use gpuplan_workload::Workload;
use gpuplan_workload::profile::{
    Cause, Deviation, Mended, OperatorClass, Operators, Profile, StepTimes, Term, TermDeviation,
};

/// Device memory as drivers tell it and as the catalog has it may differ by so much (a T4 with error correction: a tenth).
const MEMORY_TOLERANCE: f64 = 0.12;
/// Doubt about a class that was recognised by the names of kernels. Standard deviation of the logarithm. Judged.
const BY_NAME: f64 = 0.05;
/// The same where only whole steps are known. Judged: on the same GPU the step is what was measured, whichever class it was; how
/// much less that says of another GPU is the correction's own doubt.
const WHOLE_STEP: f64 = 0.03;
/// Classes smaller than this part of a step are not compared: their ratio would be noise. Judged.
const LEAST_SHARE: f64 = 0.02;

/// Why a profile says nothing about a plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnusableProfile {
    #[error("the profile names no GPU; make it on the machine with the GPU, or with `--gpus`")]
    NoGpu,
    #[error("the catalog has no GPU named `{0}` with this memory")]
    UnknownGpu(String),
    #[error("the profile has no steps, so nothing can be compared")]
    NoSteps,
    #[error("this workload does not run on {on}, where the profile says it was measured")]
    DoesNotRun { on: String, why: Rejection },
    #[error(
        "the profile took {measured:.3} s a step where {expected:.3} s are expected on {on}: another workload was measured"
    )]
    OtherWorkload { measured: f64, expected: f64, on: String },
}

/// The GPU of the catalog that a driver's name means.
pub fn catalog_gpu(name: &str, memory_bytes: Option<f64>, hardware: &Hardware) -> Option<GpuId> {
    let words: Vec<&str> = name.split_whitespace().collect();
    // Drivers put the vendor and the series before the name.
    let id = (0..words.len()).find_map(|skipped| hardware.find_gpu(&words[skipped..].join(" ")))?;
    let has_memory =
        memory_bytes.is_none_or(|bytes| (bytes / hardware.gpu(id).memory().0 - 1.0).abs() <= MEMORY_TOLERANCE);
    has_memory.then_some(id)
}

/// Share of the measured step that is left without what is the machine's fault alone: other machines do not share it.
fn without_faults(profile: &Profile) -> f64 {
    let faults = profile.findings.iter().filter(|finding| finding.cause == Cause::Machine);
    faults.fold(1.0, |left, finding| match finding.mended {
        Mended::Step { left: share } => left.min(share),
        _ => left,
    })
}

/// What a profile says of its GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledCorrection {
    /// Corrects the estimate; its `reasons` are still empty, since they are the notes in words.
    pub gpu: MeasuredGpu,
    pub notes: Vec<ProfileNote>,
}

/// What the comparison of a profile with the estimate found.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfileNote {
    /// A whole step on the profiled machines.
    Step { profile: String, on: String, measured: Seconds, estimated: Seconds },
    /// A share of the step is the fault of the profiled machine, and is not carried over to others.
    MachineFault { share: f64 },
    /// No trace tells the classes of work apart: each is taken as so many times as long.
    NoTrace { ratio: f64 },
    /// One class of work, of a step.
    WorkClass { class: WorkClass, measured: Seconds, estimated: Seconds },
    /// A class that is so far off that another work was measured; it is left out.
    TooFarOff { class: WorkClass, ratio: f64 },
}

/// The profiled machines in words, and what is estimated there without any measurement.
fn expected(
    workload: &Workload,
    hardware: &Hardware,
    shape: &NodeShape,
    nodes: u32,
) -> Result<(String, StepEstimate), UnusableProfile> {
    let gpu = hardware.gpu(shape.gpu);
    let subject = Subject::new(&workload.model, &workload.training, Machine::new(gpu, shape));
    let on = format!("{} x {}", shape.devices() * nodes, gpu.name);
    match best_setting(&subject, workload.training.global_batch.unwrap_or(1), nodes).0 {
        Ok(estimate) => Ok((on, estimate)),
        Err(misfit) => Err(UnusableProfile::DoesNotRun { on, why: Rejection::from(misfit) }),
    }
}

/// A measured step beside the estimated one, term by term, and the setting that was estimated. `nodes` of `shape` were profiled.
pub fn deviation(
    profile: &Profile,
    workload: &Workload,
    hardware: &Hardware,
    shape: &NodeShape,
    nodes: u32,
) -> Result<(Deviation, Setting), UnusableProfile> {
    let (on, expected) = expected(workload, hardware, shape, nodes)?;
    let step = profile.step.as_ref().ok_or(UnusableProfile::NoSteps)?;
    let time = &expected.time;
    // What runs inside a CUDA graph that is in the trace as a whole is of no class.
    let known = profile.operators.as_ref().filter(|found| found.devices > 0);
    let mut terms: Vec<TermDeviation> = known.map_or_else(Vec::new, |operators| {
        let measured = Terms::from_profile(operators, step);
        let pairs = [
            (Term::Products, measured.products, time.matmul + time.attention + time.head),
            (Term::Memory, measured.memory, time.elementwise + time.optimizer + time.dequantise),
            (Term::Launches, measured.launches, time.launch),
            (Term::Input, measured.input, time.input),
            (Term::Communication, measured.communication, communication(time)),
        ];
        let has_graphs = operators.seconds(OperatorClass::Graph) > LEAST_SHARE * operators.busy_seconds;
        let is_told = |term: Term| !has_graphs || !matches!(term, Term::Products | Term::Memory);
        let is_large = |one: f64, other: f64| one.max(other) >= LEAST_SHARE * step.median_seconds;
        let told = pairs.into_iter().filter(|(term, one, other)| is_told(*term) && is_large(*one, *other));
        told.map(|(term, measured_seconds, estimated_seconds)| {
            let about = profile.findings.iter().filter(|finding| finding.rule.slows() == Some(term));
            let because = about.map(|finding| finding.rule.word()).collect();
            TermDeviation { term, measured_seconds, estimated_seconds, because }
        })
        .collect()
    });
    let off = |term: &TermDeviation| (term.measured_seconds - term.estimated_seconds).abs();
    terms.sort_by(|one, other| off(other).total_cmp(&off(one)));
    let found = Deviation {
        on: format!("{on}, {}", expected.setting.layout),
        measured_seconds: step.median_seconds,
        estimated_seconds: time.total,
        terms,
        published: None,
    };
    Ok((found, expected.setting))
}

/// Seconds of a step by what they went to, as far as a trace tells.
struct Terms {
    products: f64,
    memory: f64,
    launches: f64,
    input: f64,
    communication: f64,
}

impl Terms {
    fn from_profile(operators: &Operators, step: &StepTimes) -> Self {
        let steps = step.count.max(operators.steps) as f64;
        // What input waits for is the program's own and is a finding, no property of the host's launches.
        let input = operators.input_wait_seconds.min(operators.gap_seconds);
        Self {
            products: operators.seconds(OperatorClass::Compute) / steps,
            memory: operators.seconds(OperatorClass::Memory) / steps,
            launches: (operators.host_bound_seconds - input).max(0.0) / steps,
            input: input / steps,
            communication: operators.exposed_communication_seconds / steps,
        }
    }
}

/// Traffic that nothing hides.
fn communication(time: &TimeBreakdown) -> f64 {
    time.tensor_parallel + time.expert_parallel + time.context_parallel + time.data_parallel
}

/// Compares a profile with the estimate of `workload` on the profiled machines: `nodes` of `shape`.
pub fn correction_from(
    profile: &Profile,
    workload: &Workload,
    hardware: &Hardware,
    shape: &NodeShape,
    nodes: u32,
) -> Result<ProfiledCorrection, UnusableProfile> {
    let gpu = hardware.gpu(shape.gpu);
    let (on, expected) = expected(workload, hardware, shape, nodes)?;
    let step = profile.step.as_ref().ok_or(UnusableProfile::NoSteps)?;
    let left = without_faults(profile);
    let spread = relative_spread(step);
    let (seconds, estimated) = (step.median_seconds * left, expected.time.total);
    let mut profile_notes = vec![ProfileNote::Step {
        profile: profile.of.clone(),
        on: on.clone(),
        measured: Seconds(step.median_seconds),
        estimated: Seconds(estimated),
    }];
    if left < 1.0 {
        profile_notes.push(ProfileNote::MachineFault { share: 1.0 - left });
    }
    let classes = profile.operators.as_ref().filter(|operators| operators.devices > 0);
    let curves: Vec<Curve> = match classes {
        Some(operators) => {
            let found = by_class(operators, step, &expected, left);
            profile_notes.extend(found.iter().map(|class| class.note.clone()));
            found.into_iter().filter_map(|class| class.curve).collect()
        }
        None => {
            let whole = |class| Some(Curve::flat(class, seconds / estimated, spread.hypot(WHOLE_STEP))?.of_run());
            profile_notes.push(ProfileNote::NoTrace { ratio: seconds / estimated });
            WorkClass::ALL.into_iter().filter_map(whole).collect()
        }
    };
    if curves.is_empty() {
        return Err(UnusableProfile::OtherWorkload { measured: seconds, expected: estimated, on });
    }
    let (id, architecture, reasons) = (gpu.id.clone(), gpu.architecture, Vec::new());
    Ok(ProfiledCorrection { gpu: MeasuredGpu { id, architecture, curves, host: None, reasons }, notes: profile_notes })
}

/// One class of work: what was found, and the curve that it gives.
struct ComparedClass {
    note: ProfileNote,
    /// `None` where another work was measured.
    curve: Option<Curve>,
}

/// Each class of work by itself, but those that are too small. `left`: the share of arithmetic that is not the machine's fault.
fn by_class(operators: &Operators, step: &StepTimes, expected: &StepEstimate, left: f64) -> Vec<ComparedClass> {
    let time = &expected.time;
    let spread = relative_spread(step);
    let measured = Terms::from_profile(operators, step);
    let pairs = [
        // A clock that is held down slows arithmetic, and memory hardly.
        (WorkClass::Compute, measured.products * left, time.matmul + time.attention + time.head),
        (WorkClass::Memory, measured.memory, time.elementwise + time.optimizer + time.dequantise),
        (WorkClass::Launch, measured.launches, time.launch),
        (WorkClass::Copy, measured.communication, communication(time)),
    ];
    let is_large = |seconds: f64, estimated: f64| seconds.min(estimated) >= LEAST_SHARE * time.total;
    let large = pairs.into_iter().filter(|(_, seconds, estimated)| is_large(*seconds, *estimated));
    let compared = large.map(|(class, seconds, estimated)| {
        let ratio = seconds / estimated;
        let curve = Curve::flat(class, ratio, spread.hypot(BY_NAME)).map(Curve::of_run);
        let note = if curve.is_some() {
            ProfileNote::WorkClass { class, measured: Seconds(seconds), estimated: Seconds(estimated) }
        } else {
            ProfileNote::TooFarOff { class, ratio }
        };
        ComparedClass { note, curve }
    });
    compared.collect()
}

/// How far steps differ from the median one.
fn relative_spread(step: &StepTimes) -> f64 {
    step.spread_seconds / step.median_seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::MeasuredLinks;
    use gpuplan_units::GpuCount;
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;
    use gpuplan_workload::profile::{ClassTime, Finding, ProfiledGpu, Rule};

    fn workload() -> Workload {
        let text = "model = { preset = \"llama-2-7b\" }\ntraining = { task = \"pretrain\", tokens = \"1B\", sequence_length = 4096, global_batch = 64, micro_batch = 1, precision = \"bf16\" }";
        WorkloadFile::parse(text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload
    }

    fn shape(hardware: &Hardware) -> NodeShape {
        let id = hardware.find_gpu("h100-sxm5-80").unwrap();
        let gpu = hardware.gpu(id);
        let link = hardware.gpu_link(gpu, &gpu.link, 8).unwrap();
        let gpus = GpuCount::whole(8);
        NodeShape { gpu: id, gpus, gpu_memory: gpu.memory(), link, measured: MeasuredLinks::default(), fabric: None }
    }

    fn profile(step_seconds: f64) -> Profile {
        let gpu = ProfiledGpu { name: "NVIDIA H100 80GB HBM3".to_owned(), count: 8, memory_bytes: None };
        Profile {
            gpu: Some(gpu),
            step: StepTimes::from_seconds(&[step_seconds; 5], None, "test"),
            ..Profile::new("train.py")
        }
    }

    /// What is estimated without any measurement.
    fn estimate() -> StepEstimate {
        let (hardware, workload) = (Hardware::embedded().unwrap(), workload());
        let shape = shape(&hardware);
        let subject = Subject::new(&workload.model, &workload.training, Machine::new(hardware.gpu(shape.gpu), &shape));
        best_setting(&subject, 64, 1).0.unwrap()
    }

    fn found(profile: &Profile) -> Result<MeasuredGpu, UnusableProfile> {
        let hardware = Hardware::embedded().unwrap();
        correction_from(profile, &workload(), &hardware, &shape(&hardware), 1).map(|found| found.gpu)
    }

    #[test]
    fn whole_steps_correct_every_class_alike() {
        let slower = found(&profile(estimate().time.total * 1.2)).unwrap();
        assert_eq!(slower.id, "h100-sxm5-80");
        assert_eq!(slower.curves.len(), 4);
        assert!(
            slower.curves.iter().all(|curve| (curve.time() - 1.2).abs() < 1e-9 && curve.overall().spread >= WHOLE_STEP)
        );
        assert!(matches!(found(&profile(estimate().time.total * 50.0)), Err(UnusableProfile::OtherWorkload { .. })));
        assert_eq!(found(&Profile { step: None, ..profile(1.0) }), Err(UnusableProfile::NoSteps));
    }

    #[test]
    fn a_trace_corrects_each_class_by_itself() {
        let time = estimate().time;
        let class = |class, seconds: f64| ClassTime { class, calls: 1, seconds: seconds * 5.0 };
        let classes = vec![
            class(OperatorClass::Compute, (time.matmul + time.attention + time.head) * 1.1),
            class(OperatorClass::Memory, (time.elementwise + time.optimizer) * 1.4),
        ];
        let operators = Operators { devices: 1, span_seconds: 5.0 * time.total, classes, ..Operators::default() };
        let found = found(&Profile { operators: Some(operators), ..profile(time.total) }).unwrap();
        let ratio =
            |class| found.curves.iter().find(|curve| curve.class == class).map(|curve| (curve.time() * 100.0).round());
        assert_eq!(
            (ratio(WorkClass::Compute), ratio(WorkClass::Memory), ratio(WorkClass::Launch)),
            (Some(110.0), Some(140.0), None)
        );
    }

    #[test]
    fn a_step_is_set_beside_its_estimate_term_by_term() {
        let time = estimate().time;
        let class = |class, seconds: f64| ClassTime { class, calls: 1, seconds: seconds * 6.0 };
        let classes = vec![
            class(OperatorClass::Compute, (time.matmul + time.attention + time.head) * 1.22),
            class(OperatorClass::Memory, time.elementwise + time.optimizer),
        ];
        // Six steps have five times from one to the next.
        let operators = Operators { devices: 1, steps: 6, gap_seconds: 6.0, classes, ..Operators::default() };
        let finding = Finding {
            rule: Rule::NoTensorCores,
            evidence: String::new(),
            measured: 0.0,
            threshold: 0.1,
            advice: String::new(),
            cause: Cause::Program,
            mended: Mended::Unknown,
        };
        let input = Operators { input_wait_seconds: 0.3 * time.total, ..operators };
        let profile = Profile { operators: Some(input), findings: vec![finding], ..profile(time.total * 1.3) };
        let hardware = Hardware::embedded().unwrap();
        let found = |profile: &Profile| deviation(profile, &workload(), &hardware, &shape(&hardware), 1).unwrap().0;
        let terms = found(&profile).terms;
        let ratio = |term| {
            let found = terms.iter().find(|found| found.term == term);
            found.map(|found| (found.measured_seconds / found.estimated_seconds * 100.0).round())
        };
        assert_eq!((ratio(Term::Products), ratio(Term::Memory)), (Some(122.0), Some(100.0)));
        assert_eq!(terms[0].term, Term::Products);
        assert_eq!(terms[0].because, ["no-tensor-cores"]);
        let input = terms.iter().find(|found| found.term == Term::Input).unwrap();
        assert!((input.measured_seconds / time.total - 0.05).abs() < 1e-9 && input.because.is_empty(), "{input:?}");
        // What runs in a graph that is there as a whole is neither products nor memory.
        let mut graphs = profile.clone();
        let operators = graphs.operators.as_mut().unwrap();
        operators.classes.push(class(OperatorClass::Graph, time.total));
        operators.busy_seconds = 6.0 * time.total;
        assert!(found(&graphs).terms.iter().all(|found| !matches!(found.term, Term::Products | Term::Memory)));
        assert_eq!(found(&Profile { operators: None, ..profile }).terms, []);
    }

    #[test]
    fn a_fault_of_the_machine_is_not_carried_over() {
        let hot = Finding {
            rule: Rule::ThrottledByHeat,
            evidence: String::new(),
            measured: 0.9,
            threshold: 0.2,
            advice: String::new(),
            cause: Cause::Machine,
            mended: Mended::Step { left: 0.75 },
        };
        let profile = Profile { findings: vec![hot], ..profile(estimate().time.total / 0.75) };
        assert!(found(&profile).unwrap().curves.iter().all(|curve| (curve.time() - 1.0).abs() < 1e-9));
    }

    #[test]
    fn names_of_drivers_are_found_in_the_catalog() {
        let hardware = Hardware::embedded().unwrap();
        let id = |name: &str, bytes| catalog_gpu(name, bytes, &hardware).map(|id| hardware.gpu(id).id.clone());
        assert_eq!(id("NVIDIA H100 80GB HBM3", Some(85e9)).as_deref(), Some("h100-sxm5-80"));
        assert_eq!(id("Tesla V100-SXM2-16GB", None).as_deref(), Some("v100-sxm2-16"));
        assert_eq!(id("NVIDIA A100-SXM4-80GB", Some(20e9)), None, "a slice");
        assert_eq!(id("Another", None), None);
    }
}
