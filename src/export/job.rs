//! `Job`: a plan as an engine has to know it, from the plan document and the catalog.

use serde_json::json;

use crate::framework::Framework;
use crate::stated::{data_keys, other_keys};
use crate::swept::Swept;
use crate::trained::{Recipe, recipe};
use crate::{ExportError, Target};
use gpuplan_hardware::{Gpu, InstanceType};
use gpuplan_plan::document::{
    CheckpointRecord, DocumentError, MachinesRecord, PlanDocument, PlanRecord, PurchaseTerms, WorkloadRecord,
};
use gpuplan_units::Usd;
use gpuplan_workload::file::TrainingSection;
use gpuplan_workload::{Layout, Optimizer, Overlap, Precision, Shard, Stacks, Training};

/// What whoever exports says beside the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    pub run: Option<String>,
    pub store: Option<String>,
    /// Name of the framework, where it is not the workload's.
    pub framework: Option<String>,
    pub image: Option<String>,
    /// Fewest machines that the job may start with.
    pub nodes_at_least: Option<u32>,
    pub command: Vec<String>,
}

/// Everything that a target writes down.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub plan: PlanRecord,
    /// Of the plan: how large checkpoints are, how often and how fast they are saved.
    pub checkpoint: CheckpointRecord,
    pub run: String,
    pub store: String,
    pub image: String,
    pub command: Vec<String>,
    /// Values above that nobody gave: to be edited before the job runs.
    pub to_edit: Vec<String>,
    pub framework: Framework,
    pub nodes_at_least: Option<u32>,
    pub training: TrainingSettings,
    /// The same for programs that know a model by its name.
    pub recipe: Recipe,
    pub budget_usd: Option<Usd>,
    /// The job many times; what else stands here is then that of one run.
    pub sweep: Option<Swept>,
    pub gpu: Gpu,
    pub instance: InstanceType,
}

/// What the workload says of its training, as far as frameworks have flags for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingSettings {
    pub precision: Precision,
    /// Tokens.
    pub sequence_length: u32,
    /// `None`: the framework's own choice.
    pub optimizer: Option<Optimizer>,
    pub is_compiled: bool,
    /// Traffic that the price takes for hidden.
    pub overlap: Overlap,
    pub overlaps_gradients: bool,
    /// Further keys of `[training]` and of `[data]` that were stated, and their values.
    pub other: Vec<(String, String)>,
}

/// How the machines are had, as far as engines tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityType {
    Spot,
    SpotOrOnDemand,
    /// On-demand, reserved or owned: nobody takes the machine away.
    NonPreemptible,
}

/// As `gpuplan launch`: a machine may live for so many times the hours that nine of ten such runs take.
const LIFE: f64 = 2.0;
/// Where no cloud says how long its notice is, a checkpoint may take so many times its expected time, and so many seconds more.
/// The agent itself reckons with 1.5 (docs/agent.md).
const SAVE_RATIO: f64 = 1.5;
const SAVE_MORE: f64 = 30.0;
/// Between the end of the agent's grace and the engine's kill. Seconds; judgement.
pub const MARGIN: u32 = 10;

impl Job {
    /// `plan` is one of `document`, on machines of type `instance` with `gpu`.
    pub fn new(
        document: &PlanDocument,
        plan: &PlanRecord,
        gpu: &Gpu,
        instance: &InstanceType,
        wishes: ExportOptions,
    ) -> Result<Self, ExportError> {
        // Each run of a sweep is a job of its own, with the cards of one run.
        let sweep = plan.sweep.as_ref().map(|sweep| Swept::new(sweep, plan)).transpose()?;
        let checkpoint = plan.checkpoint.clone().ok_or(ExportError::Service)?;
        let workload = &document.workload;
        let file = workload.workload_file()?;
        let named = file.training.framework.as_deref().unwrap_or_default();
        let framework = framework_of(wishes.framework.as_deref().unwrap_or(named), &plan.layout.degrees)?;
        let priced = priced_training(workload, &file.training)?;
        let mut to_edit = Vec::new();
        let mut or_edit = |given: Option<String>, placeholder: String, what: &str| {
            given.unwrap_or_else(|| {
                to_edit.push(format!("{placeholder} ({what})"));
                placeholder
            })
        };
        let store =
            or_edit(wishes.store, placeholder_store(&plan.machines.cloud), "--store: where checkpoints are kept");
        let image = wishes.image.clone().unwrap_or_else(|| "IMAGE".to_owned());
        let command = if wishes.command.is_empty() {
            let words = framework.placeholder();
            or_edit(None, words.join(" "), "-- COMMAND: your program");
            words.iter().map(|word| (*word).to_owned()).collect()
        } else {
            wishes.command
        };
        Ok(Self {
            run: wishes.run.unwrap_or_else(|| run_name(&workload.name)),
            store,
            image,
            command,
            to_edit,
            framework,
            nodes_at_least: wishes.nodes_at_least,
            training: TrainingSettings {
                precision: workload.precision,
                sequence_length: workload.sequence_length,
                optimizer: file.training.optimizer.as_deref().map(optimizer).transpose()?,
                is_compiled: file.training.compile.unwrap_or(false) || named.contains("compile"),
                overlap: priced.overlap(gpu.architecture.has_asynchronous_products()),
                overlaps_gradients: priced.framework.overlaps_gradients(),
                other: [other_keys(&json!(file.training)), data_keys(&json!(file.data))].concat(),
            },
            recipe: recipe(workload, &file),
            // That of a sweep is nobody's alone.
            budget_usd: file.limits.budget.as_deref().map(budget).transpose()?.filter(|_| sweep.is_none()),
            gpu: gpu.clone(),
            instance: instance.clone(),
            plan: sweep.as_ref().map_or_else(|| plan.clone(), |sweep| sweep.of_one_run(plan)),
            sweep,
            checkpoint,
        })
    }

    pub fn layout(&self) -> &Layout {
        &self.plan.layout.degrees
    }

    /// A further key of the workload, as it was stated: `attention`, `data.workers`.
    pub fn stated(&self, key: &str) -> Option<&str> {
        self.training.other.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub fn machines(&self) -> &MachinesRecord {
        &self.plan.machines
    }

    pub fn capacity_type(&self) -> CapacityType {
        capacity_type(self.machines())
    }

    pub fn micro_steps(&self) -> u32 {
        self.plan.layout.grad_accumulation.round().max(1.0) as u32
    }

    /// Sequences of an optimizer step as the micro-steps make it.
    pub fn global_batch(&self) -> u64 {
        u64::from(self.micro_steps()) * u64::from(self.plan.layout.micro_batch) * u64::from(self.layout().data)
    }

    /// Optimizer steps between two checkpoints.
    pub fn save_every_steps(&self) -> u64 {
        (self.checkpoint.interval_seconds.0 / self.plan.step.step_seconds.expected).round().max(1.0) as u64
    }

    /// Time that the agent gives the program to save and end. Seconds.
    pub fn grace_seconds(&self) -> u32 {
        let checkpoint = &self.checkpoint;
        let own = SAVE_RATIO * (checkpoint.stall_seconds.0 + checkpoint.upload_seconds.0) + SAVE_MORE;
        match &checkpoint.notice {
            // What the cloud gives, less what the engine needs to pass it on.
            Some(notice) => ((notice.seconds.0 - f64::from(MARGIN)) as u32).max(1),
            None => own.ceil() as u32,
        }
    }

    /// A machine is given up after so long.
    pub fn lifetime_hours(&self) -> u32 {
        (LIFE * self.plan.time.run_hours.p90).max(1.0).ceil() as u32
    }

    /// The hours that nine of ten such runs take.
    pub fn likely_hours(&self) -> u32 {
        self.plan.time.run_hours.p90.max(1.0).ceil() as u32
    }

    /// A name of letters, digits and `-` that starts and ends without `-`, as Kubernetes, SkyPilot and dstack want it.
    pub fn dns_name(&self, target: Target, most: usize) -> Result<String, ExportError> {
        dns_name(&self.run, target, most)
    }

    /// Refuses what a framework without tensor and pipeline parallelism cannot do.
    pub fn only_data_parallel(&self, framework: &'static str) -> Result<(), ExportError> {
        let layout = self.layout();
        if layout.tensor * layout.pipeline * layout.context * layout.expert == 1 {
            return Ok(());
        }
        Err(self.misfit(framework, "it cannot split layers; --framework megatron and --framework torchtitan can"))
    }

    pub fn misfit(&self, framework: &'static str, why: &'static str) -> ExportError {
        ExportError::Layout { framework, layout: self.layout().to_string(), why }
    }

    /// ZeRO stage of the layout's sharding.
    pub fn zero_stage(&self) -> u8 {
        match self.layout().shard {
            Shard::None => 0,
            Shard::Zero1 => 1,
            Shard::Zero2 => 2,
            Shard::Zero3 | Shard::Hsdp => 3,
        }
    }
}

pub fn capacity_type(machines: &MachinesRecord) -> CapacityType {
    match machines.purchase {
        PurchaseTerms::Spot => CapacityType::Spot,
        PurchaseTerms::SpotWithFallback => CapacityType::SpotOrOnDemand,
        _ => CapacityType::NonPreemptible,
    }
}

/// A run's name as Kubernetes, SkyPilot and dstack want it.
pub fn dns_name(run: &str, target: Target, most: usize) -> Result<String, ExportError> {
    let name: String =
        run.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let fits =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if fits && name.len() <= most {
        return Ok(name);
    }
    let rule = "it starts with a letter, ends with a letter or digit, and has at most 40 characters";
    Err(ExportError::Name { name: run.to_owned(), target, rule })
}

/// Each on a line of its own behind `before`.
pub fn prefixed_lines<'a>(before: &str, all: impl IntoIterator<Item = &'a String>) -> String {
    all.into_iter().flat_map(|line| [before, line, "\n"]).collect()
}

/// The training of the workload, as far as it decides what traffic is hidden.
fn priced_training(workload: &WorkloadRecord, stated: &TrainingSection) -> Result<Training, ExportError> {
    let mut training = Training::new(workload.task, workload.sequence_length);
    let named = stated.framework.as_deref().unwrap_or_default();
    training.framework =
        Stacks::embedded().framework(named).map_err(|error| malformed("training.framework", &error))?;
    training.framework_year = stated.framework_year;
    let attention = stated.attention.as_ref().map(|name| serde_json::from_value(json!(name))).transpose();
    training.kernels.attention = attention.map_err(|error| malformed("training.attention", &error))?;
    let overlap = stated.overlap.as_ref().map(|names| serde_json::from_value(json!(names))).transpose();
    training.synchronization.overlap = overlap.map_err(|error| malformed("training.overlap", &error))?;
    Ok(training)
}

/// As the workload file states it, with or without `$`.
fn budget(text: &str) -> Result<Usd, ExportError> {
    Usd::parse(text.trim_start_matches('$')).map_err(|error| malformed("limits.budget", &error))
}

fn optimizer(name: &str) -> Result<Optimizer, ExportError> {
    serde_json::from_value(json!(name)).map_err(|error| malformed("training.optimizer", &error))
}

fn malformed(key: &str, error: &dyn std::error::Error) -> ExportError {
    DocumentError::Malformed { detail: format!("`workload.file.{key}`: {error}") }.into()
}

/// By the name in the workload; without one a layout that splits layers is Megatron's, another plain PyTorch's.
fn framework_of(named: &str, layout: &Layout) -> Result<Framework, ExportError> {
    let splits_layers = layout.model_parallel() > 1 || layout.context > 1 || layout.expert > 1;
    match Stacks::embedded().find(named).map_or(named, |stack| stack.id.as_str()) {
        "" if splits_layers => Ok(Framework::Megatron),
        "" | "fsdp-compile" | "fsdp2" | "pytorch-eager" | "litgpt" | "torchtune" => Ok(Framework::Fsdp),
        "megatron-deepspeed" | "nemo" => Ok(Framework::Megatron),
        // Its scripts take the Trainer's arguments.
        "trl" => Ok(Framework::HfTrainer),
        other => other.parse(),
    }
}

/// Letters, digits, `.`, `_` and `-`, as a run's name in a store.
pub fn run_name(workload: &str) -> String {
    workload.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}

fn placeholder_store(cloud: &str) -> String {
    match cloud {
        "gcp" => "gs://BUCKET/runs",
        "azure" => "az://CONTAINER/runs",
        _ => "s3://BUCKET/runs",
    }
    .to_owned()
}
