//! Targets for whatever says what a run is: workloads, jobs, models, measurements, and what its bucket holds.

use gpuplan::calibration::Calibration;
use gpuplan::estimate::answer::{CaseAnswer, answer};
use gpuplan::import::{self, Gpus, ImportError, JobRequest, Names};
use gpuplan::launch::RunSpec;
use gpuplan::runstore::{HandOff, Manifest, ManifestName};
use gpuplan::spot::trace::Trace;
use gpuplan::units::{Band, UsdPerHour};
use gpuplan::workload::file::{WorkloadFile, WorkloadFileError};
use gpuplan::workload::huggingface::read_config;
use gpuplan::workload::profile::Profile;
use gpuplan::workload::safetensors::Census;
use gpuplan::workload::{Amount, safetensors, trace};

use super::{HARDWARE, MODELS, assert_line, assert_same, text};

fn names() -> Names<'static> {
    Names::new(&HARDWARE, &MODELS)
}

/// TOML of a workload: it is written and read again, no flag laid over it is lost, and what is complete is possible.
pub fn workload(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let file = match WorkloadFile::parse(text) {
        Ok(file) => file,
        Err(WorkloadFileError::Syntax { line, .. }) => return assert_line(line, text),
        Err(error) => panic!("reading alone refuses nothing but the syntax: {error}"),
    };
    assert_reads_back(&file);
    assert_same(&file.clone().overlay(WorkloadFile::default()), &file, "nothing laid over a file changes it");
    let flags = WorkloadFile { phase: Vec::new(), ..file.clone() };
    assert_same(&WorkloadFile::default().overlay(flags.clone()), &flags, "every key that has a flag is laid over");
    for phase in file.phases().unwrap_or_default() {
        assert!(!phase.name.is_empty() && phase.file.phase.is_empty(), "{phase:?}");
        assert_reads_back(&phase.file);
    }
    let Ok(resolved) = file.resolve(&MODELS, None) else { return };
    let (Amount::Tokens(much) | Amount::Samples(much) | Amount::Steps(much)) = resolved.workload.amount;
    assert!(much.is_finite() && much > 0.0, "{much}");
    assert!(
        resolved.workload.model.parameters.is_finite() && resolved.workload.model.parameters > 0.0,
        "{:?}",
        resolved.workload.model
    );
    assert!(resolved.workload.training.sequence_length > 0 && !resolved.workload.name.is_empty());
    // A plan has the file in it, and is planned again from there.
    let json = serde_json::to_string(&file).expect("a workload file is plain data");
    assert_same(&serde_json::from_str::<WorkloadFile>(&json).expect("as it was written"), &file, &json);
}

fn assert_reads_back(file: &WorkloadFile) {
    let written = toml::to_string(file).unwrap_or_else(|error| panic!("{file:?} cannot be written: {error}"));
    assert_same(&WorkloadFile::parse(&written).expect("as it was written"), file, &written);
}

/// Job scripts of Slurm.
pub fn shell_job(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let read = import::slurm::read(text, names());
    assert_job(&read);
    // A comment changes nothing, however it ends (POSIX shell, "Token Recognition").
    let commented = format!("# see the wiki \\\n{text}");
    assert_same(&import::slurm::read(&commented, names()), &read, &commented);
}

/// Jobs of any kind, above all tasks of SkyPilot and objects of Kubernetes.
pub fn yaml_job(data: &[u8]) {
    if let Some(text) = text(data) {
        assert_job(&import::read(text, names()));
    }
}

fn assert_job(read: &Result<JobRequest, ImportError>) {
    let asked = match read {
        Ok(asked) => asked,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(
        asked.nodes.as_ref().is_none_or(|nodes| 0 < *nodes.start() && nodes.start() <= nodes.end()),
        "{:?}",
        asked.nodes
    );
    assert!(asked.hours.is_none_or(|hours| hours.0.is_finite() && hours.0 >= 0.0), "{:?}", asked.hours);
    for choice in &asked.choices {
        assert!(choice.gpus.is_none_or(|(Gpus::PerMachine(count) | Gpus::Together(count))| count > 0), "{choice:?}");
        assert!(choice.chips.as_ref().is_none_or(|chips| !chips.ids.is_empty()), "{choice:?}");
        for instance in HARDWARE.instances() {
            assert_ne!(asked.nodes_of(choice, instance), Some(0), "{choice:?} on {}", instance.name);
        }
    }
    assert_eq!(asked.lines(&HARDWARE).len(), asked.choices.len());
    assert_reads_back(&asked.workload);
}

/// `config.json` of Hugging Face, and the index or the header of its weights: sizes that a network can have.
pub fn huggingface_config(data: &[u8]) {
    match safetensors::census(data) {
        Ok(Census::Size(size)) => assert!(size.0.is_finite() && size.0 > 0.0, "{size:?}"),
        Ok(Census::Parameters(count)) => assert!(count.is_finite() && count >= 1.0, "{count}"),
        Err(_) => {}
    }
    let Ok(model) = read_config(data, "fuzz") else { return };
    assert!(model.parameters.is_finite() && model.parameters > 0.0, "{model:?}");
    if !model.kind.is_transformer() {
        let flops = model.forward_flops_per_sample;
        assert!(flops.is_finite() && flops > 0.0 && model.sample_side > 0, "{model:?}");
        return;
    }
    assert!(
        model.layers > 0 && model.hidden > 0 && model.heads > 0 && model.head_dim > 0 && model.ffn_hidden > 0,
        "{model:?}"
    );
    assert!(model.kv_heads > 0 && model.heads.is_multiple_of(model.kv_heads), "{model:?}");
    if let Some(experts) = model.experts {
        assert!(0 < experts.experts_per_token && experts.experts_per_token <= experts.experts, "{model:?}");
        assert!(experts.dense_layers <= model.layers, "{model:?}");
    }
}

/// A line of `estimate --cases`: it has an answer or a reason, and every figure of the answer is a band.
pub fn estimate_case(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match answer(text, &HARDWARE, &MODELS) {
        CaseAnswer::Unsupported { unsupported, .. } => assert!(!unsupported.is_empty()),
        CaseAnswer::Estimate(made) => {
            assert_band(made.step_seconds, "step_seconds");
            assert_band(made.samples_per_second, "samples_per_second");
            assert_band(made.model_tflops_per_gpu, "model_tflops_per_gpu");
            assert_band(made.peak_memory_bytes, "peak_memory_bytes");
            assert!(made.step_seconds.low > 0.0 && made.peak_memory_bytes.low > 0.0, "{made:?}");
        }
    }
}

fn assert_band(band: Band, what: &str) {
    let ends = format!("{what}: {band:?}");
    assert!(
        0.0 <= band.low && band.low <= band.expected && band.expected <= band.high && band.high.is_finite(),
        "{ends}"
    );
}

/// Availability of a pool over time: every tick is kept, whatever form the trace is written in.
pub fn availability_trace(data: &[u8]) {
    let Some(traces) = text(data).and_then(|text| Trace::parse_all(text, "named").ok()) else { return };
    assert!(!traces.is_empty());
    for trace in &traces {
        assert!(
            trace.gap.is_finite() && trace.gap >= 1.0 && !trace.obtainable.is_empty(),
            "{} {}",
            trace.source,
            trace.gap
        );
        assert!(trace.up(0).iter().all(|up| *up), "no machine can always be had");
        assert_eq!(
            trace.up(2).iter().filter(|up| **up).count(),
            trace.obtainable.iter().filter(|count| **count >= 2).count()
        );
    }
    let ticks: usize = traces.iter().map(|trace| trace.obtainable.len()).sum();
    if ticks < 10_000 {
        let lines = traces.iter().map(|trace| {
            let rle: Vec<(u32, usize)> = trace.obtainable.iter().map(|count| (*count, 1)).collect();
            serde_json::json!({ "source": trace.source, "gap_seconds": trace.gap, "rle": rle }).to_string() + "\n"
        });
        let again = Trace::parse_all(&lines.collect::<String>(), "named");
        assert_same(&again.expect("as it was written"), &traces, "one tick a run");
    }
}

/// Traces of profilers, packed or not: shares of a time lie within it, and a plan can read what they come to.
pub fn profiler_trace(data: &[u8]) {
    let Ok(read) = trace::read(data) else { return };
    let operators = &read.counted.operators;
    let sane = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    let parts = [
        operators.busy_seconds,
        operators.gap_seconds,
        operators.host_bound_seconds,
        operators.exposed_communication_seconds,
    ];
    assert!(
        sane(operators.span_seconds)
            && parts.into_iter().all(|part| sane(part) && part <= operators.span_seconds + 1e-6),
        "{operators:?}"
    );
    assert!(operators.classes.iter().all(|class| class.calls > 0 && sane(class.seconds)), "{:?}", operators.classes);
    assert!(operators.top.windows(2).all(|pair| pair[0].seconds >= pair[1].seconds), "{:?}", operators.top);
    let mut profile = Profile::new("a trace");
    (profile.gpu, profile.step, profile.operators) = (read.gpu, read.counted.step, Some(read.counted.operators));
    assert_profile_reads_back(&profile);
}

/// The file that `profile` writes.
pub fn profile(data: &[u8]) {
    if let Some(profile) = text(data).and_then(|text| Profile::parse(text).ok()) {
        assert_profile_reads_back(&profile);
    }
}

fn assert_profile_reads_back(profile: &Profile) {
    let json = profile.to_json().expect("a profile is plain data");
    assert_same(&Profile::parse(&json).unwrap_or_else(|error| panic!("{error}\n{json}")), profile, "as it was written");
}

/// The file that `bench` writes.
pub fn calibration(data: &[u8]) {
    let Some(read) = text(data).and_then(|text| Calibration::read(text).ok()) else { return };
    assert!((1..=1024).contains(&read.device.gpus) && read.results.iter().all(|one| one.statistics.is_sane()));
    assert_same(&Calibration::read(&read.json()).expect("as it was written"), &read, "as it was written");
}

/// A checkpoint's manifest: nothing that it lists lies outside the checkpoint folder or in another epoch.
pub fn manifest(data: &[u8]) {
    let name = ManifestName { step: 5, epoch: 2 };
    let Ok(manifest) = Manifest::read(data, name) else { return };
    assert_eq!(manifest.id(), name);
    for file in &manifest.files {
        let below = file.path.strip_prefix(&manifest.name).expect("below the entry of the checkpoint");
        assert!(below.is_empty() || below.starts_with('/'), "{file:?}");
        assert!(
            file.path.split('/').chain(file.key.split('/')).all(|part| !["", ".", ".."].contains(&part)),
            "{file:?}"
        );
        assert!(file.key.starts_with("data/e2/") && file.sha256.len() == 64, "{file:?}");
    }
    assert!(manifest.files.iter().all(|file| file.size <= manifest.bytes()));
    let written = serde_json::to_vec(&manifest).expect("a manifest is plain data");
    assert_eq!(Manifest::read(&written, name), Ok(manifest));
}

/// What else a run's bucket and a launch tell a machine: the hand-off and the specification of the run.
pub fn run_document(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(hand_off) = HandOff::read(text) {
        assert!(
            hand_off.node < hand_off.nodes && hand_off.rate_usd_per_hour != Some(UsdPerHour::default()),
            "{hand_off:?}"
        );
        assert!(
            hand_off.budget_usd.is_none() || hand_off.rate_usd_per_hour.is_some(),
            "a budget without a rate limits nothing"
        );
        let json = serde_json::to_string(&hand_off).expect("a hand-off is plain data");
        assert_eq!(HandOff::read(&json), Ok(hand_off));
    }
    if let Ok(spec) = RunSpec::read(text) {
        assert!(spec.places().next().is_some() && !spec.clouds().is_empty());
        let within = spec.budget_usd.is_none() || spec.block.is_some() || spec.worst_case() <= spec.budget_usd;
        assert!(within, "a budget bounds what a run may cost: {:?}", spec.worst_case());
        let written = spec.write().expect("a specification is plain data");
        assert_same(&RunSpec::read(&written).expect("as it was written"), &spec, &written);
    }
}
