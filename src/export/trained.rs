//! `Recipe`: what a plan trains, for programs that know a model by its name.

use serde_json::json;

use gpuplan_plan::document::WorkloadRecord;
use gpuplan_workload::file::{Scalar, WorkloadFile};
use gpuplan_workload::{Models, Task};

/// What a plan trains, as far as programs have keys for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub model: String,
    pub task: Task,
    /// As a workload file calls it; empty for the next token.
    pub objective: String,
    pub rank: Option<u32>,
    /// Matrices with adapters by the names of transformers; empty: all linear ones.
    pub targets: Vec<String>,
    /// Frozen weights of 8 bits; those of `qlora` have 4.
    pub has_eight_bits: bool,
    /// Passes over the data, or optimizer steps, as they were stated.
    pub epochs: Option<String>,
    pub steps: Option<String>,
    pub packing: bool,
    /// How much is trained, where it was stated in tokens or samples: `tokens 50M`.
    pub amount: Option<String>,
}

impl Recipe {
    /// Whether the name is no place that a program could load weights from.
    pub fn model_is_open(&self) -> bool {
        !self.model.contains('/')
    }
}

/// What is trained, as it was stated or assumed.
pub fn recipe(workload: &WorkloadRecord, file: &WorkloadFile) -> Recipe {
    let stated = &file.training;
    let text = |number: &Option<Scalar>| number.as_ref().map(ToString::to_string);
    let has_adapters = matches!(workload.task, Task::Lora | Task::Qlora);
    // What nobody stated stands among the assumptions.
    let assumed = || workload.assumptions.iter().find_map(|remark| json!(remark).get("rank")?.as_u64());
    let rank = text(&stated.lora.rank).and_then(|rank| rank.parse().ok()).or_else(|| u32::try_from(assumed()?).ok());
    let targets = stated.lora.targets.clone().unwrap_or_default();
    let named = file.model.preset.clone().filter(|name| name.contains('/'));
    let published = || {
        let models = Models::embedded().ok()?;
        models.find(&workload.model)?.aliases.iter().find(|name| name.contains('/')).cloned()
    };
    Recipe {
        model: named.or_else(published).unwrap_or_else(|| workload.model.clone()),
        task: workload.task,
        objective: stated.objective.clone().unwrap_or_default(),
        rank: rank.filter(|_| has_adapters),
        targets: targets.iter().filter(|name| *name != "all-linear").map(|name| projection(name)).collect(),
        has_eight_bits: stated.base_weights.as_deref() == Some("int8"),
        epochs: text(&stated.epochs),
        steps: text(&stated.steps),
        packing: stated.packing.unwrap_or(false),
        amount: [("tokens", &stated.tokens), ("samples", &stated.samples)]
            .into_iter()
            .find_map(|(word, number)| Some(format!("{word} {}", number.as_ref()?))),
    }
}

/// `q` as transformers calls it.
fn projection(name: &str) -> String {
    if name.ends_with("_proj") { name.to_owned() } else { format!("{name}_proj") }
}
