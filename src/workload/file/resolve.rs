//! From what was written to a complete `Workload`, with every default listed beside it.

mod batch;
mod by_size;
mod data;
mod latents;
mod model;
mod objective;
mod precision;
pub mod processing;
pub mod resolved;
mod serving;
mod serving_images;
mod serving_layout;
mod serving_load;
mod serving_speech;
mod task;
mod training;
#[cfg(test)]
mod unseen_names;

use crate::amount::{Amount, Checkpoint};
use crate::file::resolve::resolved::Resolved;
use crate::file::scalar::{bytes, conflict, count, invalid, invalid_near, missing, shown, stated_count};
use crate::file::{CheckpointSection, DataSection, SweepSection, TrainingSection, WorkloadFile, WorkloadFileError};
use crate::model::catalog::Models;
use crate::model::{Model, ModelKind};
use crate::training::sweep::MOST_RUNS;
use crate::{Assumption, Sweep, Task, Training, Workload};
use gpuplan_units::nearest::durations;
use gpuplan_units::{GpuCount, Hours, Seconds};

impl WorkloadFile {
    /// `read_model` is what the caller read from `model.config` (and `model.index`).
    pub fn resolve(&self, models: &Models, read_model: Option<Model>) -> Result<Resolved, WorkloadFileError> {
        if self.processing.is_some() {
            return Err(invalid(
                "processing",
                "this workload runs on machines without a GPU, which only `gpuplan plan` supports",
            ));
        }
        let mut assumed = Vec::new();
        let network = model::resolve(&self.model, models, read_model, &mut assumed)?;
        if !self.serving.is_empty() || serving::is_named_as_task(&self.training) {
            return serving::resolve(self, network, assumed);
        }
        let is_one_run = self.sweep == SweepSection::default();
        let gpus = batch::gpus_asked(self.limits.gpus.as_deref()).filter(|_| is_one_run);
        let training = training::resolve(&self.training, &network, models, gpus, &mut assumed)?;
        let amount = amount(&self.training, &self.data, network.model.kind)?;
        let amount = objective::sequences(amount, &training, &self.training, &self.data)?;
        let data = data::resolve(&self.data, training.sequence_length, &mut assumed)?;
        let checkpoint = checkpoint(&self.checkpoint, training.task, &mut assumed)?;
        let overhead = self.training.overhead.map(overhead).transpose()?;
        let sweep = sweep(&self.sweep, &mut assumed)?;
        if self.limits.max_nodes == Some(0) {
            return Err(invalid("limits.max_nodes", "at least one node is needed"));
        }
        let name = self.name_or(|| format!("{}-{}", network.model.name, training::task_word(training.task)))?;
        is_within_the_work(&self.training, &training, amount)?;
        let workload =
            Workload { name, model: network.model, training, amount, data, checkpoint, overhead, sweep, serving: None };
        Ok(Resolved { workload, assumed })
    }
}

/// How much is trained: exactly one of four ways to say it.
fn amount(training: &TrainingSection, data: &DataSection, kind: ModelKind) -> Result<Amount, WorkloadFileError> {
    let ways = [
        ("training.tokens", &training.tokens),
        ("training.samples", &training.samples),
        ("training.epochs", &training.epochs),
        ("training.steps", &training.steps),
    ];
    let mut stated = ways.into_iter().filter_map(|(key, way)| Some((key, way.as_ref()?)));
    let Some((key, way)) = stated.next() else {
        let key = if kind.counts_samples() { "training.epochs" } else { "training.tokens" };
        return Err(missing(key, "state how much to train: tokens, samples, epochs or steps"));
    };
    if let Some((second, _)) = stated.next() {
        return Err(conflict(key, second));
    }
    let much = stated_count(key, way)?;
    if much < 1.0 && key != "training.epochs" {
        return Err(invalid(key, format!("`{way}` is less than one; try 15M")));
    }
    match key {
        "training.tokens" if kind.counts_samples() => {
            Err(invalid(key, "this model is trained on samples, not on tokens"))
        }
        "training.tokens" => Ok(Amount::Tokens(much)),
        "training.samples" => Ok(Amount::Samples(much)),
        "training.steps" => Ok(Amount::Steps(much)),
        _ => epochs(much, data, kind),
    }
}

/// A batch that somebody states is no larger than all that is trained, or a single step would be more than the run.
fn is_within_the_work(section: &TrainingSection, training: &Training, amount: Amount) -> Result<(), WorkloadFileError> {
    let key = match (&section.global_batch, &section.global_batch_tokens) {
        (Some(_), _) => "training.global_batch",
        (None, Some(_)) => "training.global_batch_tokens",
        (None, None) => return Ok(()),
    };
    let samples = match amount {
        Amount::Tokens(tokens) => (tokens / f64::from(training.sequence_length.max(1))).max(1.0),
        Amount::Samples(samples) => samples,
        Amount::Steps(_) => return Ok(()),
    };
    let batch = training.global_batch.unwrap_or(1);
    if batch as f64 <= samples.ceil() {
        return Ok(());
    }
    Err(invalid(key, format!("a step of {batch} sequences is more than the whole run, which has {samples:.0}")))
}

/// Ten times the steps is more than any published project paid (benchmarks/unfitted: 3.2 times).
fn overhead(stated: f64) -> Result<f64, WorkloadFileError> {
    if (0.0..=10.0).contains(&stated) {
        return Ok(stated);
    }
    let detail =
        format!("`{stated}` is not from 0 to 10: time beside training steps over the time of the steps, such as 0.1");
    Err(invalid("training.overhead", detail))
}

fn epochs(epochs: f64, data: &DataSection, kind: ModelKind) -> Result<Amount, WorkloadFileError> {
    if epochs > 1e6 {
        return Err(invalid("training.epochs", format!("`{epochs}` is more than a million")));
    }
    let samples = count("data.samples", data.samples.as_ref())?;
    let tokens = count("data.tokens", data.tokens.as_ref())?;
    match (samples, tokens) {
        (Some(samples), _) => Ok(Amount::Samples(epochs * samples)),
        (None, Some(tokens)) if !kind.counts_samples() => Ok(Amount::Tokens(epochs * tokens)),
        _ => Err(missing("data.samples", "the length of an epoch depends on it")),
    }
}

fn sweep(section: &SweepSection, assumed: &mut Vec<Assumption>) -> Result<Option<Sweep>, WorkloadFileError> {
    let whole = |key: &str, number: f64| {
        let fits = number.fract() == 0.0 && (1.0..=f64::from(MOST_RUNS)).contains(&number);
        if fits {
            Ok(number as u32)
        } else {
            Err(invalid(key, format!("`{number}` is not a whole number from 1 to {MOST_RUNS}")))
        }
    };
    let (runs, parallel) =
        (count("sweep.runs", section.runs.as_ref())?, count("sweep.parallel", section.parallel.as_ref())?);
    let Some(runs) = runs else {
        return match (&section.parallel, &section.gpus_per_run) {
            (None, None) => Ok(None),
            _ => Err(missing("sweep.runs", "state how many runs the sweep has")),
        };
    };
    let runs = whole("sweep.runs", runs)?;
    let parallel = match parallel {
        Some(parallel) => whole("sweep.parallel", parallel)?,
        None => {
            assumed.push(Assumption::SweepParallel { runs });
            runs
        }
    };
    let gpus_per_run = match &section.gpus_per_run {
        Some(text) => {
            GpuCount::parse(&text.to_string()).map_err(|error| invalid("sweep.gpus_per_run", error.to_string()))?
        }
        None => {
            let gpus = GpuCount::whole(1);
            assumed.push(Assumption::SweepGpusPerRun { gpus });
            gpus
        }
    };
    if gpus_per_run.as_f64() > 1.0 && gpus_per_run.as_f64().fract() != 0.0 {
        return Err(invalid(
            "sweep.gpus_per_run",
            format!("`{gpus_per_run}` is neither whole GPUs nor a share of one; try 2 or 0.5"),
        ));
    }
    Ok(Some(Sweep { runs, parallel, gpus_per_run }))
}

fn checkpoint(
    section: &CheckpointSection,
    task: Task,
    assumed: &mut Vec<Assumption>,
) -> Result<Checkpoint, WorkloadFileError> {
    let size = section.size.as_deref().map(|text| bytes("checkpoint.size", text)).transpose()?;
    let interval = match section.interval.as_deref().map(str::trim) {
        Some("choose") => None,
        Some(text) => {
            let hours = Hours::parse(text).ok().filter(|hours| hours.0 > 0.0 && hours.0 <= 8766.0);
            let refuse = || {
                let detail = "is not a valid duration; try 30m or 2h (a year at most), or `choose`";
                invalid_near("checkpoint.interval", format!("`{}` {detail}", shown(text)), durations(text))
            };
            Some(Seconds::from(hours.ok_or_else(refuse)?))
        }
        None => {
            if task.has_optimizer() {
                assumed.push(Assumption::CheckpointInterval);
            }
            None
        }
    };
    Ok(Checkpoint { size, interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::Bytes;
    use gpuplan_units::quantity::parse_count;
    use proptest::prelude::*;

    const MODEL: &str = "[model]\npreset = \"llama-3.1-8b\"\n";
    const IMAGES: &str = "[model]\npreset = \"resnet-50\"\n";

    fn resolved(toml: &str) -> Result<Resolved, WorkloadFileError> {
        WorkloadFile::parse(toml)?.resolve(&Models::embedded().unwrap(), None)
    }

    #[test]
    fn the_amount_is_stated_in_exactly_one_way() {
        let amount = |rest: &str| {
            resolved(&format!("{MODEL}[training]\ntask = \"pretrain\"\n{rest}"))
                .map(|resolved| resolved.workload.amount)
        };
        assert_eq!(amount("tokens = \"300B\"").unwrap(), Amount::Tokens(3e11));
        assert_eq!(amount("samples = \"10M\"").unwrap(), Amount::Samples(1e7));
        assert_eq!(amount("steps = 1000").unwrap(), Amount::Steps(1000.0));
        assert_eq!(amount("epochs = 3\n[data]\nsamples = 52002").unwrap(), Amount::Samples(156_006.0));
        assert_eq!(amount("epochs = 2\n[data]\ntokens = \"1B\"").unwrap(), Amount::Tokens(2e9));
        assert_eq!(amount("tokens = 5\nsteps = 5").unwrap_err(), conflict("training.tokens", "training.steps"));
        assert!(matches!(amount("").unwrap_err(), WorkloadFileError::Missing { key, .. } if key == "training.tokens"));
        assert!(
            matches!(amount("epochs = 3").unwrap_err(), WorkloadFileError::Missing { key, .. } if key == "data.samples")
        );
        for wrong in [
            "tokens = 0",
            "tokens = -5",
            "tokens = nan",
            "tokens = inf",
            "tokens = \"many\"",
            "tokens = 1e30",
            "epochs = \"2M\"",
        ] {
            assert!(matches!(amount(wrong).unwrap_err(), WorkloadFileError::Invalid { .. }), "{wrong}");
        }
        assert!(matches!(resolved(&format!("{IMAGES}[training]\ntokens = 5")), Err(WorkloadFileError::Invalid { .. })));
        let tokens_for_images = format!("{IMAGES}[training]\nepochs = 5\n[data]\ntokens = 7");
        assert!(
            matches!(resolved(&tokens_for_images), Err(WorkloadFileError::Missing { key, .. }) if key == "data.samples")
        );
    }

    #[test]
    fn time_beside_steps_is_a_ratio() {
        let over = |stated: &str| {
            resolved(&format!("{MODEL}[training]\ntask = \"lora\"\nsteps = 10\n{stated}"))
                .map(|resolved| resolved.workload.time_over_steps())
        };
        assert_eq!((over(""), over("overhead = 0.25")), (Ok(1.0), Ok(1.25)));
        for wrong in ["overhead = -0.1", "overhead = 11", "overhead = nan", "overhead = inf"] {
            assert!(matches!(over(wrong), Err(WorkloadFileError::Invalid { key, .. }) if key == "training.overhead"));
        }
    }

    #[test]
    fn data_and_checkpoint_keep_their_units() {
        let with = |rest: &str| resolved(&format!("{rest}\n{MODEL}[training]\ntask = \"lora\"\nsteps = 10"));
        let full = with(
            "[data]\nsize = \"1.2TB\"\nplace = \"aws/us-east-1\"\ncpu_seconds_per_sample = 0.02\n[checkpoint]\nsize = \"110GB\"\ninterval = \"30m\"",
        );
        let workload = full.unwrap().workload;
        let data = workload.data.unwrap();
        assert_eq!(
            (data.size.0, data.place.as_deref(), data.cpu_per_sample),
            (1.2e12, Some("aws/us-east-1"), Some(Seconds(0.02)))
        );
        assert_eq!(workload.checkpoint, Checkpoint { size: Some(Bytes(110e9)), interval: Some(Seconds(1800.0)) });
        assert_eq!(
            with("checkpoint.interval = \"choose\"").map(|resolved| resolved.workload.checkpoint.interval),
            Ok(None)
        );
        assert_eq!(with("").map(|resolved| resolved.workload.data), Ok(None));
        for wrong in [
            "data.size = \"12\"",
            "data.size = \"0GB\"",
            "data.size = \"9999999PB\"",
            "data.place = \"aws\"",
            "data = { size = \"1GB\", place = \"a/b/c\" }",
            "data.cpu_seconds_per_sample = -1",
            "data.cpu_seconds_per_sample = 1e9",
            "checkpoint.interval = \"soon\"",
            "checkpoint.interval = 0",
            "checkpoint.size = \"-1GB\"",
            "limits.max_nodes = 0",
            "limits.max_nodes = -1",
        ] {
            let error = with(wrong).unwrap_err().to_string();
            let key = wrong.split(' ').next().unwrap_or_default();
            assert!(error.contains(key) || error.contains("data.") || error.starts_with("line 1,"), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_numbers_give_a_workload_or_an_error(
            length in any::<i64>(), batch in 0_i64..2_000_000_000, rank in -5_i64..100_000, tokens in any::<f64>(), micro in 0_u32..2_000_000,
        ) {
            let mut file = WorkloadFile::parse(MODEL).unwrap();
            file.training.task = Some("lora".to_owned());
            file.training.sequence_length = Some(crate::file::Scalar::Whole(length % 200_000));
            file.training.global_batch = Some(crate::file::Scalar::Whole(batch));
            file.training.micro_batch = Some(micro.into());
            file.training.lora.rank = Some(crate::file::Scalar::Whole(rank));
            file.training.tokens = Some(crate::file::Scalar::Real(tokens));
            if let Ok(resolved) = file.resolve(&Models::embedded().unwrap(), None) {
                let training = resolved.workload.training;
                prop_assert!(training.sequence_length > 0 && training.global_batch.unwrap() > 0);
                prop_assert!(parse_count(&tokens.to_string()).is_ok());
            }
        }
    }
}
