//! What to say where nothing fits, and what to type where a training needs more memory than the GPUs have: each was planned, and fits.

use crate::question::answer::{Answered, nothing_fits};
use crate::question::workload;
use crate::session::diagnostic::Diagnostic;
use crate::session::{Catalogs, Session};
use gpuplan_hardware::GpuSelector;
use gpuplan_plan::{Limits, Rejection, World};
use gpuplan_workload::file::{Scalar, WorkloadFile};
use gpuplan_workload::training::Task;

/// Shorter sequences that are tried, in tokens: halves of the 4,096 that are taken where nothing is said. Judgement.
const SHORTER: [u32; 3] = [2048, 1024, 512];

/// Counts of the same GPUs that are tried: powers of two, as machines and layouts divide. Judgement.
const MORE: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// The same as `nothing_fits`, with what was planned in its place and fits where memory is in the way, and whether there was a price at all.
pub fn refused(answered: &Answered, file: &WorkloadFile, session: &Session) -> Diagnostic {
    let mut diagnostic = nothing_fits(&answered.set);
    if !has_price(answered) {
        "no plan fits: no price of these GPUs is known at the clouds that were asked for"
            .clone_into(&mut diagnostic.message);
    }
    if !matches!(answered.set.nearest.first().map(|nearest| &nearest.why), Some(Rejection::OutOfMemory { .. })) {
        return diagnostic;
    }
    let hints = hints(answered, file, session);
    if !hints.is_empty() {
        diagnostic.hints = hints;
    }
    diagnostic
}

/// Whether the clouds that were named have a price for any of the GPUs that were named.
fn has_price(answered: &Answered) -> bool {
    let Catalogs { hardware, market, .. } = &answered.catalogs;
    let asked = &answered.limits.offers;
    asked.clouds.is_empty()
        || asked.gpus.is_empty()
        || market.offers().iter().any(|offer| {
            let instance = hardware.instance(offer.instance);
            let gpu = instance.node.gpu;
            asked.clouds.contains(&instance.cloud)
                && asked.gpus.iter().any(|asked| asked.matches_gpu(gpu, hardware.gpu(gpu)))
        })
}

/// The same work on the same GPUs with less memory, and as it is on more of them. Empty: nothing of this fits.
fn hints(answered: &Answered, file: &WorkloadFile, session: &Session) -> Vec<String> {
    let workload = &answered.resolved.workload;
    if workload.serving.is_some() {
        return Vec::new();
    }
    let lighter: &[&str] = match workload.training.task {
        Task::FullFineTune => &["lora", "qlora"],
        Task::Lora => &["qlora"],
        _ => &[],
    };
    let fits = |changed: &WorkloadFile| is_planned(answered, changed, &answered.limits, session);
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

/// The least of these counts of the GPUs that were asked for by name and number that carries the work as it is.
fn more_gpus(answered: &Answered, file: &WorkloadFile, session: &Session) -> Option<String> {
    let asked = answered.limits.offers.gpus.as_slice();
    let text = file.limits.gpus.as_deref().filter(|text| asked.len() == 1 && !text.contains(','))?;
    let most_asked = *asked[0].count()?.end();
    let name = text.split(':').next()?;
    let fewest = MORE.iter().filter(|count| **count > most_asked).find(|count| {
        let Ok(more) = GpuSelector::parse(&format!("{name}:{count}"), &answered.catalogs.hardware) else {
            return false;
        };
        let mut limits = answered.limits.clone();
        limits.offers.gpus = vec![more];
        is_planned(answered, file, &limits, session)
    })?;
    Some(format!("--gpus {name}:{fewest}, which carry the work as it is"))
}

/// Whether anything fits, and the model can be trained so at all.
fn is_planned(answered: &Answered, file: &WorkloadFile, limits: &Limits, session: &Session) -> bool {
    let Ok(models) = session.shared_models() else { return false };
    let Ok(resolved) = workload::resolve(file, &models) else { return false };
    let catalogs = &answered.catalogs;
    let world = World { hardware: &catalogs.hardware, market: &catalogs.market, correction: &answered.correction };
    gpuplan_plan::plan_from(world, &resolved.workload, limits, &session.stock).recommendation.is_some()
}
