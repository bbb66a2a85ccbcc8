//! What follows from what was measured: utilisation and findings, written as the profile file.

use std::fs;
use std::path::Path;

use crate::question::gpus::shape;
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use gpuplan_accuracy::nearest::PublishedRuns;
use gpuplan_accuracy::published::Published;
use gpuplan_estimate::likeness::Likeness;
use gpuplan_estimate::{Machine, Setting, Subject};
use gpuplan_hardware::{GpuId, GpuLink, Hardware};
use gpuplan_plan::training::profile::{catalog_gpu, deviation};
use gpuplan_report::measure::nearest;
use gpuplan_telemetry::{Facts, find};
use gpuplan_workload::file::{Resolved, WorkloadFile};
use gpuplan_workload::profile::{Deviation, Profile};
use gpuplan_workload::{Layout, Recompute};

/// What follows from what was measured: utilisation where the workload is known, and the findings.
pub fn complete_profile(
    profile: &mut Profile,
    workload: Option<&Path>,
    hardware: &Hardware,
    session: &Session,
) -> Result<(), Diagnostic> {
    let gpu = profile.gpu.as_ref().and_then(|gpu| catalog_gpu(&gpu.name, gpu.memory_bytes, hardware));
    if let Some(path) = workload {
        let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
        let file = WorkloadFile::parse(&text)?;
        let resolved = workload::resolve(&file, &session.models()?)?;
        profile.workload = Some(file);
        profile.model_flops_utilization = utilization(profile, &resolved, gpu, hardware)?;
        profile.findings = find(profile, &facts(gpu, hardware));
        return compare(profile, &resolved, gpu, hardware, session);
    }
    profile.findings = find(profile, &facts(gpu, hardware));
    Ok(())
}

/// Sets the measured step beside the estimated one, and beside the published runs that are most like it.
fn compare(
    profile: &mut Profile,
    resolved: &Resolved,
    gpu: Option<GpuId>,
    hardware: &Hardware,
    session: &Session,
) -> Result<(), Diagnostic> {
    let (Some(id), Some(known)) = (gpu, &profile.gpu) else { return Ok(()) };
    if profile.step.is_none() {
        return Ok(());
    }
    let (shape, nodes) = shape(id, hardware.gpu(id), known.count, hardware)?;
    let job = &resolved.workload;
    match deviation(profile, job, hardware, &shape, nodes) {
        Ok((found, setting)) => {
            let published = Published::embedded().map_err(Diagnostic::unexpected)?;
            let runs = PublishedRuns::new(&published, hardware, &session.models()?);
            let likeness = Likeness::new(&job.model, &job.training, hardware.gpu(id), &setting);
            let words = nearest::sentence(&runs.nearest(&likeness));
            profile.deviation = Some(Deviation { published: Some(words), ..found });
        }
        Err(why) => profile.notes.push(format!("it is not compared with an estimate: {why}")),
    }
    Ok(())
}

/// Arithmetic of the model's own mathematics in a step over what the GPUs could do in that time.
fn utilization(
    profile: &Profile,
    resolved: &Resolved,
    gpu: Option<GpuId>,
    hardware: &Hardware,
) -> Result<Option<f64>, Diagnostic> {
    let (Some(step), Some(id), Some(known)) = (&profile.step, gpu, &profile.gpu) else { return Ok(None) };
    let (shape, _) = shape(id, hardware.gpu(id), known.count, hardware)?;
    let job = &resolved.workload;
    let subject = Subject::new(&job.model, &job.training, Machine::new(hardware.gpu(id), &shape));
    let batch = job.training.global_batch.unwrap_or(1) as f64;
    // The model's own mathematics do not depend on how it is spread or what is computed again.
    let setting =
        Setting { layout: Layout::default(), micro_batch: 1, global_batch: batch, recompute: Recompute::None };
    let flops = subject.model_flops_per_step(&setting);
    Ok(Some(flops / step.median_seconds / f64::from(known.count) / subject.rates.peak))
}

fn facts(gpu: Option<GpuId>, hardware: &Hardware) -> Facts {
    let Some(gpu) = gpu.map(|id| hardware.gpu(id)) else { return Facts::default() };
    let link = hardware.gpu_link(gpu, &gpu.link, 2).ok();
    Facts {
        has_tensor_cores: Some(gpu.architecture.has_tensor_cores()),
        has_bf16: Some(gpu.peak_tflops.bf16.is_some()),
        has_fast_link: link.map(GpuLink::is_fast),
    }
}

pub fn json(profile: &Profile) -> Result<String, Diagnostic> {
    profile.to_json().map_err(Diagnostic::unexpected)
}

pub fn write_profile(profile: &Profile, path: &Path) -> Result<(), Diagnostic> {
    let refuse = |error: std::io::Error| Diagnostic::usage(format!("cannot write {}: {error}", path.display()));
    fs::write(path, json(profile)?).map_err(refuse)
}
