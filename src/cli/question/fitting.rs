//! What to type where a training needs more memory than the GPUs that were asked for have: each was planned, and fits.

use crate::question::answer::Answered;
use crate::question::workload;
use crate::session::Session;
use gpuplan_hardware::GpuSelector;
use gpuplan_plan::{Limits, PlanSet, World};
use gpuplan_workload::file::{Scalar, WorkloadFile};
use gpuplan_workload::training::Task;

/// Shorter sequences that are tried, in tokens: those of public recipes for cards of 24 GB.
const SHORTER: [u32; 3] = [2048, 1024, 512];

/// More GPUs of the same kind that are tried.
const MORE: &str = "1..64";

/// The same work on the same GPUs with less memory, and as it is on more of them. Empty: nothing of this fits.
pub fn hints(answered: &Answered, file: &WorkloadFile, session: &Session) -> Vec<String> {
    let workload = &answered.resolved.workload;
    if workload.serving.is_some() {
        return Vec::new();
    }
    let lighter: &[&str] = match workload.training.task {
        Task::FullFineTune => &["lora", "qlora"],
        Task::Lora => &["qlora"],
        _ => &[],
    };
    let fits = |changed: &WorkloadFile| planned(answered, changed, &answered.limits, session).is_some();
    let task = lighter.iter().find(|task| {
        let mut changed = file.clone();
        changed.training.task = Some((**task).to_owned());
        fits(&changed)
    });
    let task = task.map(|task| format!("--task {task}, which fits on these GPUs"));
    let is_text = workload.model.kind.is_transformer();
    let mut shorter = SHORTER.iter().filter(|length| is_text && **length < workload.training.sequence_length);
    let sequence = || {
        let length = shorter.find(|length| {
            let mut changed = file.clone();
            changed.training.sequence_length = Some(Scalar::Whole(i64::from(**length)));
            fits(&changed)
        });
        length.map(|length| format!("--sequence-length {length}, if the samples are no longer: it fits on these GPUs"))
    };
    let same = task.or_else(sequence);
    same.into_iter().chain(more_gpus(answered, file, session)).collect()
}

/// The fewest of the GPUs that were asked for by name and number that carry the work as it is.
fn more_gpus(answered: &Answered, file: &WorkloadFile, session: &Session) -> Option<String> {
    let asked = answered.limits.offers.gpus.as_slice();
    let text = file.limits.gpus.as_deref().filter(|text| asked.len() == 1 && !text.contains(','))?;
    asked[0].count()?;
    let name = text.split(':').next()?;
    let mut limits = answered.limits.clone();
    limits.offers.gpus = vec![GpuSelector::parse(&format!("{name}:{MORE}"), &answered.catalogs.hardware).ok()?];
    let set = planned(answered, file, &limits, session)?;
    let plans = set.recommendation.iter().chain(&set.frontier).chain(&set.alternatives);
    let fewest = plans.map(gpuplan_plan::Plan::gpus).min()?;
    Some(format!("--gpus {name}:{fewest}, which carry the work as it is"))
}

/// `None`: nothing fits, or the model cannot be trained so.
fn planned(answered: &Answered, file: &WorkloadFile, limits: &Limits, session: &Session) -> Option<PlanSet> {
    let models = session.shared_models().ok()?;
    let resolved = workload::resolve(file, &models).ok()?;
    let catalogs = &answered.catalogs;
    let world = World { hardware: &catalogs.hardware, market: &catalogs.market, correction: &answered.correction };
    let set = gpuplan_plan::plan_from(world, &resolved.workload, limits, &session.stock);
    set.recommendation.is_some().then_some(set)
}
