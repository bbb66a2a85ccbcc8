//! What to say where nothing fits, and what to type: where memory or the batch is in the way, each proposal was planned and fits.

use crate::question::answer::Answered;
use crate::question::workload;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::{Catalogs, Session};
use gpuplan_hardware::{CloudId, GpuSelector};
use gpuplan_plan::{Breadth, Limits, Objective, Plan, PlanSet, Rejected, Rejection, World};
use gpuplan_report::sentences::rejection;
use gpuplan_workload::Assumption;
use gpuplan_workload::file::{Scalar, WorkloadFile};
use gpuplan_workload::model::ModelKind;
use gpuplan_workload::training::Task;

/// Shorter sequences that are tried are powers of two down to this many tokens. Judgement.
const SHORTEST: u32 = 512;

/// Sides of pictures in pixels, and frames of a clip with them, that are tried in place of a diffusion model's own, the largest first; one
/// frame is a picture. Frames of the published models are a multiple of eight and one more. Judgement.
const SMALLER: [(Option<u32>, Option<u32>); 6] = [
    (Some(65), None),
    (None, Some(512)),
    (Some(33), Some(512)),
    (None, Some(256)),
    (Some(33), Some(256)),
    (Some(1), Some(512)),
];

/// Settings of a training of text that hold less memory and leave the work as it is: where activations wait for the backward pass, and how the
/// loss is computed.
const THRIFTIER: [(Option<&str>, Option<&str>); 3] =
    [(Some("offload"), None), (None, Some("fused-linear")), (Some("offload"), Some("fused-linear"))];

/// Counts of the same GPUs that are tried: powers of two, as machines and layouts divide. Judgement.
const MORE: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// Formats of fewer bits that a model is served in, the most exact first.
const FEWER_BITS: [&str; 2] = ["fp8", "int4"];

/// Exit 4 where money alone is in the way, else 3; both with what came nearest and what would let it in.
pub fn refused(answered: &Answered, file: &WorkloadFile, session: &Session) -> Diagnostic {
    let set = &answered.set;
    let (exit, message) = if set.only_policy {
        (Exit::OverBudget, "only policy.toml is in the way: without it there is a plan")
    } else if set.only_money {
        (Exit::OverBudget, "only the money limit is in the way: every plan that runs costs more")
    } else if has_price(answered) {
        (Exit::NoPlanFits, "no plan fits")
    } else if answered.limits.offers.clouds.is_empty() {
        (Exit::NoPlanFits, "no plan fits: no cloud is known to rent these GPUs")
    } else if answered.limits.offers.gpus.is_empty() {
        (Exit::NoPlanFits, "no plan fits: no price is known at the clouds that were asked for")
    } else {
        (Exit::NoPlanFits, "no plan fits: no price of these GPUs is known at the clouds that were asked for")
    };
    let mut diagnostic = Diagnostic::new(exit, message);
    if !has_price(answered) && answered.limits.offers.clouds.iter().any(has_price_source) {
        return diagnostic.hint("--live, which asks them for their prices");
    }
    for nearest in nearest(set).take(3) {
        let line = format!("\n  nearest: {}: {}", nearest.what, rejection::sentence(&nearest.why));
        diagnostic.message.push_str(&line);
    }
    diagnostic.hints = match nearest(set).next() {
        None => vec!["widen --gpus, --cloud or --region".to_owned()],
        Some(nearest) => {
            let planned = Trials { answered, file, session }.hints(&nearest.why);
            if planned.is_empty() { plain_hints(&nearest.why) } else { planned }
        }
    };
    diagnostic
}

/// What came closest; where the rules of the house alone are in the way, what broke them.
fn nearest(set: &PlanSet) -> impl Iterator<Item = &Rejected> {
    let candidates = if set.only_policy { &set.rejected } else { &set.nearest };
    candidates.iter().filter(|rejected| !set.only_policy || matches!(rejected.why, Rejection::Policy(_)))
}

/// What would let it in, as far as the reason itself says.
fn plain_hints(why: &Rejection) -> Vec<String> {
    if let Some(precision) = possible_precision(why) {
        return vec![format!("--precision {precision}"), "or GPUs with those units, such as `--gpus H100`".to_owned()];
    }
    // `-`: nothing that a person could type lets it in.
    vec![match rejection::fix(why).as_str() {
        "-" => "widen --gpus, --cloud or --deadline, or change the workload".to_owned(),
        fix => fix.to_owned(),
    }]
}

/// The number format that the GPUs have in place of the one that was asked for.
fn possible_precision(why: &Rejection) -> Option<&str> {
    let Rejection::Unsupported { detail } = why else { return None };
    detail.strip_prefix("precision=")?.split_once("the nearest is ").map(|(_, nearest)| nearest)
}

/// Whether the clouds that were named have a price for any of the GPUs that were named.
fn has_price(answered: &Answered) -> bool {
    let Catalogs { hardware, market, .. } = &answered.catalogs;
    let asked = &answered.limits.offers;
    market.offers().iter().any(|offer| {
        let instance = hardware.instance(offer.instance);
        let gpu = instance.node.gpu;
        let is_gpu = |asked: &GpuSelector| asked.matches_gpu(gpu, hardware.gpu(gpu));
        (asked.clouds.is_empty() || asked.clouds.contains(&instance.cloud))
            && (asked.gpus.is_empty() || asked.gpus.iter().any(is_gpu))
    })
}

/// Whether a cloud answers what its machines cost.
fn has_price_source(cloud: &CloudId) -> bool {
    gpuplan_clouds::sources(cloud).is_some_and(|sources| !sources.prices.is_empty())
}

/// Bytes of a weight of 16 bits, and of one of four: the fewest that anything is trained or served in here.
const SIXTEEN_BITS: f64 = 2.0;
const FOUR_BITS: f64 = 0.5;

/// Memory that was asked for: bytes of a GPU and the most GPUs; infinite where nobody said.
#[derive(Clone, Copy)]
struct Room {
    each: f64,
    gpus: f64,
}

impl Room {
    fn total(self) -> f64 {
        self.each * self.gpus
    }
}

/// Questions like the one that has no answer, which are planned before they are proposed.
struct Trials<'a> {
    answered: &'a Answered,
    file: &'a WorkloadFile,
    session: &'a Session,
}

impl Trials<'_> {
    /// The same work with less memory, on more GPUs or on others. Empty: nothing of this fits, or something else is in the way.
    fn hints(&self, why: &Rejection) -> Vec<String> {
        let limits = &self.answered.limits;
        let batch = match why {
            Rejection::OutOfMemory { .. } => None,
            Rejection::Indivisible { gpus, .. } => self.batch(self.file, limits, *gpus),
            Rejection::OtherGpu => return self.other_gpus().into_iter().collect(),
            Rejection::OtherCount { .. } => return self.other_count().into_iter().collect(),
            _ => return Vec::new(),
        };
        // What was assumed is looked at before what was stated.
        let is_memory = matches!(why, Rejection::OutOfMemory { .. });
        let room = self.room(why);
        let has_room = self.weights() <= room.total();
        let assumed = if is_memory && has_room && self.is_length_assumed() { self.shorter() } else { None };
        let same = batch.map(|flag| flag.trim().to_owned()).or_else(|| self.lighter(room));
        let same = same.or_else(|| if has_room { self.thriftier() } else { None });
        let same = if assumed.is_some() || !has_room {
            same
        } else {
            same.or_else(|| self.shorter()).or_else(|| self.smaller())
        };
        let is_lost = same.is_none() && assumed.is_none();
        let others = self.more_gpus(room).or_else(|| if is_lost { self.other_gpus() } else { None });
        assumed.into_iter().chain(same).chain(others).collect()
    }

    /// What spares the trials that cannot fit: the memory that was asked for.
    fn room(&self, why: &Rejection) -> Room {
        let each = match why {
            Rejection::OutOfMemory { available_bytes, .. } => available_bytes.0,
            _ => f64::INFINITY,
        };
        let gpus = self.counted().and_then(|(asked, _)| Some(f64::from(*asked.count()?.end())));
        Room { each, gpus: gpus.unwrap_or(f64::INFINITY) }
    }

    /// Bytes of the weights as they lie in memory at least, with nothing beside them.
    fn weights(&self) -> f64 {
        let workload = &self.answered.resolved.workload;
        let is_quantised = workload.serving.is_some() || workload.training.task == Task::Qlora;
        workload.model.parameters * if is_quantised { FOUR_BITS } else { SIXTEEN_BITS }
    }

    /// Adapters in place of all weights, or fewer bits a weight.
    fn lighter(&self, room: Room) -> Option<String> {
        let workload = &self.answered.resolved.workload;
        let words: &[&str] = match workload.training.task {
            _ if workload.serving.is_some() => &FEWER_BITS,
            Task::FullFineTune => &["lora", "qlora"],
            Task::Lora => &["qlora"],
            _ => &[],
        };
        let bytes = |word: &str| if word == "lora" { SIXTEEN_BITS } else { FOUR_BITS };
        let may_fit = |word: &&&str| workload.model.parameters * bytes(word) <= room.total();
        words.iter().filter(may_fit).find_map(|word| {
            let mut changed = self.file.clone();
            let flag = if workload.serving.is_some() {
                changed.serving.weights = Some((*word).to_owned());
                "weights"
            } else {
                changed.training.task = Some((*word).to_owned());
                "task"
            };
            let more = self.fits(&changed, &self.answered.limits)?;
            Some(format!("--{flag} {word}{more}, which fits on these GPUs"))
        })
    }

    /// Nobody said how long the samples are.
    fn is_length_assumed(&self) -> bool {
        let assumed = &self.answered.resolved.assumed;
        assumed.iter().any(|assumption| matches!(assumption, Assumption::SequenceLength { .. }))
    }

    fn is_text(&self) -> bool {
        let workload = &self.answered.resolved.workload;
        workload.model.kind.is_transformer() && workload.serving.is_none()
    }

    /// The same training with its activations in the memory of the host, or without whole logits.
    fn thriftier(&self) -> Option<String> {
        let section = &self.file.training;
        let is_open = self.is_text() && section.recompute.is_none() && section.loss.is_none();
        THRIFTIER.iter().filter(|_| is_open).find_map(|(recompute, loss)| {
            let mut changed = self.file.clone();
            let mut flags = Vec::new();
            if let Some(recompute) = recompute {
                changed.training.recompute = Some((*recompute).to_owned());
                flags.push(format!("--recompute {recompute}"));
            }
            if let Some(loss) = loss {
                changed.training.loss = Some((*loss).to_owned());
                flags.push(format!("--set training.loss={loss}"));
            }
            let more = self.fits(&changed, &self.answered.limits)?;
            Some(format!("{}{more}, which fits on these GPUs", flags.join(" ")))
        })
    }

    /// The longest power of two that fits.
    fn shorter(&self) -> Option<String> {
        let longest = self.answered.resolved.workload.training.sequence_length;
        let lengths: Vec<u32> =
            (0..u32::BITS).map(|power| 1 << power).filter(|length| (SHORTEST..longest).contains(length)).collect();
        let fits = |length: u32| {
            let mut changed = self.file.clone();
            changed.training.sequence_length = Some(Scalar::Whole(i64::from(length)));
            self.fits(&changed, &self.answered.limits)
        };
        // Memory grows with the length, so that halves find the longest.
        let (mut from, mut to, mut found) = (0, if self.is_text() { lengths.len() } else { 0 }, None);
        while from < to {
            let middle = from.midpoint(to);
            match fits(lengths[middle]) {
                Some(more) => (from, found) = (middle + 1, Some((lengths[middle], more))),
                None => to = middle,
            }
        }
        let (length, more) = found?;
        Some(format!("--sequence-length {length}{more}, if the samples are no longer: it fits on these GPUs"))
    }

    /// Smaller pictures and shorter clips for a diffusion model, over a base of fewer bits where that is needed too.
    fn smaller(&self) -> Option<String> {
        let workload = &self.answered.resolved.workload;
        let tasks: &[Option<&str>] = match workload.training.task {
            _ if workload.model.kind != ModelKind::Diffusion || workload.serving.is_some() => &[],
            Task::Lora => &[None, Some("qlora")],
            _ => &[None],
        };
        let (training, pipeline) = (&workload.training, workload.model.pipeline.as_ref());
        let clip = training.latents.frames.or(pipeline.map(|pipeline| pipeline.frames)).unwrap_or_default();
        let is_less = |frames: &Option<u32>, pixels: &Option<u32>| {
            frames.is_none_or(|frames| frames < clip) && pixels.is_none_or(|pixels| pixels < training.sequence_length)
        };
        let ways = tasks.iter().flat_map(|task| SMALLER.iter().map(move |(frames, pixels)| (task, frames, pixels)));
        ways.filter(|(_, frames, pixels)| is_less(frames, pixels)).find_map(|(task, frames, pixels)| {
            let mut changed = self.file.clone();
            let mut flags = Vec::new();
            if let Some(task) = task {
                changed.training.task = Some((*task).to_owned());
                flags.push(format!("--task {task}"));
            }
            if let Some(frames) = frames {
                changed.training.frames = Some(Scalar::Whole(i64::from(*frames)));
                flags.push(format!("--set training.frames={frames}"));
            }
            if let Some(pixels) = pixels {
                changed.training.sequence_length = Some(Scalar::Whole(i64::from(*pixels)));
                flags.push(format!("--sequence-length {pixels}"));
            }
            let more = self.fits(&changed, &self.answered.limits)?;
            let what = if *frames == Some(1) { "for pictures alone" } else { "if it may be trained on as little" };
            Some(format!("{}{more}, {what}: it fits on these GPUs", flags.join(" ")))
        })
    }

    /// The least of these counts of the GPUs that were asked for by name and number that carries the work as it is.
    fn more_gpus(&self, room: Room) -> Option<String> {
        let (asked, name) = self.counted()?;
        let most_asked = *asked.count()?.end();
        let may_fit = |count: &&u32| **count > most_asked && self.weights() <= f64::from(**count) * room.each;
        MORE.iter().filter(may_fit).find_map(|count| {
            let more = GpuSelector::parse(&format!("{name}:{count}"), &self.answered.catalogs.hardware).ok()?;
            let mut limits = self.answered.limits.clone();
            limits.offers.gpus = vec![more];
            let more = self.fits(self.file, &limits)?;
            Some(format!("--gpus {}{more} carries the work as it is", quoted(&format!("{name}:{count}"))))
        })
    }

    /// As many of the same GPUs as a service takes.
    fn other_count(&self) -> Option<String> {
        let (asked, name) = self.counted()?;
        let mut limits = self.answered.limits.clone();
        limits.offers.gpus = vec![asked.any_count()];
        let plan = self.plan(self.file, &limits).ok()?;
        Some(format!("--gpus {}", quoted(&format!("{name}:{}", plan.gpus()))))
    }

    /// The one choice of GPUs that has a count, and its text without it.
    fn counted(&self) -> Option<(&GpuSelector, String)> {
        let [asked] = self.answered.limits.offers.gpus.as_slice() else { return None };
        asked.count()?;
        let is_count = |part: &str| part.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | ' '));
        let parts: Vec<&str> = self.file.limits.gpus.as_deref()?.split(':').map(str::trim).collect();
        let name = parts.iter().enumerate().filter(|(at, part)| *at == 0 || !is_count(part)).map(|(_, part)| *part);
        Some((asked, name.collect::<Vec<&str>>().join(":")))
    }

    /// The cheapest plan where any GPU may be taken.
    fn other_gpus(&self) -> Option<String> {
        let mut limits = self.answered.limits.clone();
        if std::mem::take(&mut limits.offers.gpus).is_empty() {
            return None;
        }
        limits.objective = Objective::Cost;
        let plan = self.plan(self.file, &limits).ok()?;
        let hardware = &self.answered.catalogs.hardware;
        let family = &hardware.gpu(hardware.instance(plan.instance).node.gpu).family;
        Some(format!("--gpus {family}:{} carries the work as it is", plan.gpus()))
    }

    /// What else has to be typed so that something fits, which may be nothing. `None`: nothing fits.
    fn fits(&self, changed: &WorkloadFile, limits: &Limits) -> Option<String> {
        match self.plan(changed, limits) {
            Ok(_) => Some(String::new()),
            Err(Some(Rejection::Indivisible { gpus, .. })) => self.batch(changed, limits, gpus),
            Err(_) => None,
        }
    }

    /// The batch next to the one that was asked for or assumed, of which so many GPUs have equal parts.
    fn batch(&self, file: &WorkloadFile, limits: &Limits, gpus: u32) -> Option<String> {
        let models = self.session.shared_models().ok()?;
        let training = workload::resolve(file, &models).ok()?.workload.training;
        let asked = training.global_batch? / u64::from(training.objective.sequences());
        let gpus = u64::from(gpus);
        let below = asked / gpus * gpus;
        let mut near = [below, below + gpus];
        near.sort_by_key(|batch| batch.abs_diff(asked));
        near.into_iter().filter(|batch| *batch > 0).find_map(|batch| {
            let mut changed = file.clone();
            (changed.training.global_batch, changed.training.global_batch_tokens) =
                (Some(Scalar::Whole(i64::try_from(batch).ok()?)), None);
            self.plan(&changed, limits).ok().map(|_| format!(" --global-batch {batch}"))
        })
    }

    /// The recommended plan, or what is in the way of the nearest one.
    fn plan(&self, file: &WorkloadFile, limits: &Limits) -> Result<Plan, Option<Rejection>> {
        let Answered { catalogs, correction, .. } = self.answered;
        let models = self.session.shared_models().map_err(|_| None)?;
        let resolved = workload::resolve(file, &models).map_err(|_| None)?;
        let world = World { hardware: &catalogs.hardware, market: &catalogs.market, correction };
        let breadth = Breadth::Recommendation;
        let set = gpuplan_plan::plan_from(world, &resolved.workload, limits, &self.session.stock, breadth);
        set.recommendation.ok_or_else(|| set.nearest.into_iter().next().map(|nearest| nearest.why))
    }
}

/// A value with a space, as a shell takes it.
fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("'{value}'") } else { value.to_owned() }
}
