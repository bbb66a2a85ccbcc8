//! `Service`: a plan of a model that answers requests, as an engine of inference has to know it; below it the engines' words and the files.

pub mod commands;
pub mod dynamo;
pub mod engine;
pub mod flags;
pub mod kubernetes;
pub mod llm_d;

use crate::job::{ExportOptions, run_name};
use crate::{ExportError, Target};
use gpuplan_hardware::{Gpu, InstanceType};
use gpuplan_plan::document::{AskedServing, DocumentError, MachinesRecord, PlanDocument, PlanRecord, ServingRecord};
use gpuplan_workload::{Models, ServingEngine};

/// Where an engine listens.
pub const PORT: u16 = 8000;
/// The longest request that is taken is so many times the mean, and no shorter than this. Tokens; judgement.
const LONGEST_RATIO: u32 = 4;
const LONGEST_LEAST: u32 = 4096;

/// Everything that a file for a served model says.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    pub plan: PlanRecord,
    pub serving: ServingRecord,
    pub asked: AskedServing,
    pub run: String,
    /// Where the weights are: a name on the Hub, or a path.
    pub model: String,
    /// Flags that somebody adds to the engine's.
    pub more: Vec<String>,
    pub image: String,
    pub to_edit: Vec<String>,
    pub engine: ServingEngine,
    /// Groups of GPUs of a replica that attend to sequences of their own.
    pub attention_groups: u32,
    pub expert_parallel: bool,
    pub drafted_tokens: Option<String>,
    /// Whether the published files store the weights as they were priced.
    pub is_stored_so: bool,
    /// Of all weights.
    pub weight_bytes: f64,
    /// Tokens of the longest request.
    pub longest: u32,
    pub gpu: Gpu,
    pub instance: InstanceType,
}

impl Service {
    /// `plan` is one of `document`, on machines of type `instance` with `gpu`. The command is the model, and more flags of the engine.
    pub fn new(
        document: &PlanDocument,
        plan: &PlanRecord,
        gpu: &Gpu,
        instance: &InstanceType,
        wishes: ExportOptions,
    ) -> Result<Self, ExportError> {
        let missing = || DocumentError::Malformed { detail: "`workload.serving` is missing".to_owned() };
        let (serving, asked) = plan.serving.clone().zip(document.workload.serving).ok_or_else(missing)?;
        let file = document.workload.workload_file()?;
        let stated = &file.serving;
        let engine = engine::serving_engine(stated.engine.as_deref())?;
        let models = Models::embedded().map_err(|error| DocumentError::Malformed { detail: error.to_string() })?;
        let row = models.find(&document.workload.model);
        let mut to_edit = Vec::new();
        let mut words = wishes.command.into_iter();
        let given = words.next().or_else(|| file.model.preset.clone().filter(|name| name.contains('/')));
        let model = given.unwrap_or_else(|| {
            let published = row.and_then(|row| row.aliases.iter().find(|name| name.contains('/')));
            let model = published.cloned().unwrap_or_else(|| "MODEL".to_owned());
            to_edit.push(format!("{model} (-- MODEL: the weights that you serve)"));
            model
        });
        let context = row.map_or(0, |row| row.to_model().max_context);
        let mean = asked.prompt_tokens.saturating_add(asked.answer_tokens);
        let longest = mean.saturating_mul(LONGEST_RATIO).max(LONGEST_LEAST);
        Ok(Self {
            run: wishes.run.unwrap_or_else(|| run_name(&document.workload.name)),
            model,
            more: words.collect(),
            image: wishes.image.unwrap_or_else(|| engine::image(engine, gpu).to_owned()),
            to_edit,
            engine,
            attention_groups: count(stated.attention_data_parallel.as_ref()).unwrap_or(1),
            expert_parallel: stated.expert_parallel.unwrap_or(false),
            drafted_tokens: stated.draft_tokens.as_ref().map(ToString::to_string),
            is_stored_so: row.is_some_and(|row| row.weights == asked.weights),
            weight_bytes: document.workload.parameters.unwrap_or_default() * asked.weights.bytes(),
            longest: if context == 0 { longest } else { longest.min(context) },
            gpu: gpu.clone(),
            instance: instance.clone(),
            plan: plan.clone(),
            serving,
            asked,
        })
    }

    pub fn machines(&self) -> &MachinesRecord {
        &self.plan.machines
    }

    pub fn gpus_per_replica(&self) -> u32 {
        self.serving.serving.gpus_per_replica.max(1)
    }

    /// Machines that one replica spans.
    pub fn machines_per_replica(&self) -> u32 {
        self.gpus_per_replica().div_ceil(self.machines().gpus_per_node)
    }

    /// Replicas side by side on one machine.
    pub fn replicas_per_machine(&self) -> u32 {
        (self.machines().gpus_per_node / self.gpus_per_replica()).max(1)
    }

    /// Those that carry the load, and those that machines in reserve hold.
    pub fn replicas(&self) -> u32 {
        let spare = self.serving.serving.standby.as_ref().map_or(0, |standby| standby.spare_nodes);
        self.serving
            .replicas
            .saturating_add(spare.saturating_mul(self.replicas_per_machine()) / self.machines_per_replica())
    }

    /// Refuses what a target cannot start: another engine than the priced one, or replicas that span machines.
    pub fn fits(&self, target: Target, engines: &[ServingEngine], spans_machines: bool) -> Result<(), ExportError> {
        let unfit = |why: String| Err(ExportError::Unfit { target, why });
        if self.asked.images.is_some() {
            return unfit(
                "serves tokens: start what makes images, such as diffusers, on the machines yourself".to_owned(),
            );
        }
        if !engines.contains(&self.engine) {
            let (priced, own) = (engine::word(self.engine), engines.first().map_or("vllm", |own| engine::word(*own)));
            return unfit(format!("runs {own}, and the price is that of {priced}: plan again with --engine {own}"));
        }
        if self.machines_per_replica() > 1 && !spans_machines {
            return unfit(
                "starts a replica on one machine, and this one spans several: export to leaderworkerset".to_owned(),
            );
        }
        Ok(())
    }

    /// What the plan is, for the head of a file.
    pub fn comments(&self, how: &[String]) -> String {
        let (machines, asked, serving) = (self.machines(), &self.asked, &self.serving);
        let mut lines = vec![
            format!(
                "{}: {}, {} of {} x {}",
                self.run,
                self.plan.id,
                counted(self.replicas(), "replica"),
                self.gpus_per_replica(),
                self.gpu.name
            ),
            format!(
                "for {:.3} requests a second of {} + {} tokens on {} x {}: first token within {:.2} s in nine of ten, {:.0} ms a token",
                serving.serving.requests_per_second,
                asked.prompt_tokens,
                asked.answer_tokens,
                machines.nodes,
                machines.instance_type,
                serving.latency_seconds.ttft.p90,
                serving.latency_seconds.per_token.expected * 1e3
            ),
        ];
        lines.extend(self.to_edit.iter().map(|what| format!("EDIT {what}")));
        lines.extend(self.left_open().into_iter().map(|what| format!("SET {what}. The price assumes it")));
        crate::job::prefixed_lines("# ", lines.iter().chain(how))
    }

    /// What the price assumes and no flag says.
    pub fn left_open(&self) -> Vec<String> {
        let mut all = Vec::new();
        let stored = engine::stored_by_the_weights(self.asked.weights).filter(|_| !self.is_stored_so);
        if let Some(format) = stored {
            all.push(format!("a model whose weights are stored in {format}"));
        }
        if let Some(tokens) = &self.drafted_tokens {
            all.push(format!("drafting of {tokens} tokens, by the heads or the draft model that you have"));
        }
        all
    }
}

/// `1 replica`, `2 replicas`.
pub fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn count(stated: Option<&gpuplan_workload::file::Scalar>) -> Option<u32> {
    stated?.to_string().parse().ok().filter(|count| *count > 0)
}
