//! What the price of a plan assumes of the program, and what of that an export cannot switch on: it stands at the head of the file.

use serde_json::Value;

use crate::framework::Framework;
use crate::job::Job;
use gpuplan_workload::{Precision, Recompute, Shard};

/// Something that changes how long a step takes, or how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    MicroBatch,
    GradAccumulation,
    SequenceLength,
    Precision,
    Shard,
    Recompute,
    Compile,
    Optimizer,
    /// Steps between checkpoints.
    SaveInterval,
    /// Gradients are reduced while the backward pass computes others.
    GradientOverlap,
    /// Updated weights are gathered while the next forward pass runs.
    WeightOverlap,
    /// Tensor-parallel traffic runs beside the products that need it.
    TensorOverlap,
    /// Several short stages of a pipeline on each GPU.
    Interleaving,
    Attention,
    /// Processes of each GPU that read data.
    Workers,
    /// Another key of the workload's `[training]` or `[data]`.
    Other,
}

/// What the program has to set by itself, in words: all that the price assumes and the framework is not told.
pub fn left_to_program(job: &Job) -> Vec<String> {
    let told = job.framework.is_told(job);
    assumed(job).into_iter().filter(|(setting, _)| !told.contains(setting)).map(|(_, words)| words).collect()
}

/// All that the price assumes.
fn assumed(job: &Job) -> Vec<(Setting, String)> {
    let (layout, plan) = (job.layout(), &job.plan.layout);
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = vec![
        (Setting::MicroBatch, format!("micro batch {}", plan.micro_batch)),
        (Setting::GradAccumulation, format!("{} micro-steps", job.micro_steps())),
        (Setting::SequenceLength, format!("sequence length {}", job.training.sequence_length)),
        (Setting::Precision, format!("precision {}", word(serde_json::json!(job.training.precision)))),
        (Setting::Recompute, format!("recompute {}", word(serde_json::json!(plan.recompute)))),
        (Setting::SaveInterval, format!("a checkpoint every {} steps", job.save_every_steps())),
    ];
    if layout.data > 1 {
        let group = layout.shard_group.map_or_else(String::new, |group| format!(" in groups of {group}"));
        all.push((Setting::Shard, format!("shard {}{group}", word(serde_json::json!(layout.shard)))));
    }
    if job.training.is_compiled {
        all.push((Setting::Compile, "compile true".to_owned()));
    }
    if let Some(optimizer) = job.training.optimizer {
        all.push((Setting::Optimizer, format!("optimizer {}", word(serde_json::json!(optimizer)))));
    }
    if layout.copies() > 1 && job.training.overlaps_gradients {
        all.push((Setting::GradientOverlap, "gradients reduced during the backward pass".to_owned()));
    }
    all.extend(weight_overlap(job).map(|words| (Setting::WeightOverlap, words)));
    if layout.tensor > 1 && job.training.overlap.tensor_parallel {
        all.push((Setting::TensorOverlap, "overlap tensor-parallel".to_owned()));
    }
    if layout.virtual_pipeline > 1 {
        all.push((Setting::Interleaving, format!("{} stages of the pipeline on each GPU", layout.virtual_pipeline)));
    }
    all.extend(job.training.other.iter().map(|(key, value)| {
        let setting = match key.as_str() {
            "attention" => Setting::Attention,
            "data.workers" => Setting::Workers,
            _ => Setting::Other,
        };
        (setting, format!("{key} {value}"))
    }));
    all
}

/// That updated weights are gathered while the next forward pass runs, where the price assumes it.
pub fn weight_overlap(job: &Job) -> Option<String> {
    let layout = job.layout();
    let is_hidden = layout.copies() > 1 && layout.shard == Shard::Zero1 && job.training.overlap.weight_gather;
    is_hidden.then(|| "overlap weight-gather".to_owned())
}

impl Framework {
    /// What the flags, variables or configuration of an export tell the program. What a program of that framework does by itself is told.
    fn is_told(self, job: &Job) -> Vec<Setting> {
        use Setting as S;
        let sharded = matches!(job.layout().shard, Shard::Zero3 | Shard::Hsdp);
        let mut told = match self {
            Self::None => Vec::new(),
            // DDP and FSDP reduce beside the backward pass unless they are told otherwise.
            Self::Fsdp => vec![S::GradientOverlap],
            Self::Accelerate => vec![S::Precision, S::Shard, S::Compile],
            Self::Deepspeed => vec![S::MicroBatch, S::GradAccumulation, S::Precision, S::Shard, S::GradientOverlap],
            Self::HfTrainer => vec![
                S::MicroBatch,
                S::GradAccumulation,
                S::Precision,
                S::Shard,
                S::Recompute,
                S::Compile,
                S::Optimizer,
                S::SaveInterval,
                S::GradientOverlap,
                S::Workers,
            ],
            Self::Lightning => {
                vec![S::MicroBatch, S::GradAccumulation, S::Precision, S::Shard, S::GradientOverlap, S::Workers]
            }
            Self::Megatron => vec![
                S::MicroBatch,
                S::GradAccumulation,
                S::SequenceLength,
                S::Precision,
                S::Shard,
                S::Recompute,
                S::SaveInterval,
                S::GradientOverlap,
                S::WeightOverlap,
                S::TensorOverlap,
                S::Interleaving,
                S::Attention,
                S::Workers,
            ],
            Self::Torchtitan => vec![
                S::MicroBatch,
                S::GradAccumulation,
                S::SequenceLength,
                S::Precision,
                S::Shard,
                S::Recompute,
                S::Compile,
                S::SaveInterval,
                S::GradientOverlap,
            ],
        };
        match self {
            Self::Accelerate if sharded => told.extend([S::Recompute, S::GradientOverlap]),
            // Its keys of DeepSpeed have none for `overlap_comm`, which DeepSpeed leaves off below stage 3.
            Self::Accelerate if job.zero_stage() > 0 => told.push(S::GradAccumulation),
            Self::Accelerate => told.push(S::GradientOverlap),
            Self::Deepspeed if job.plan.layout.recompute == Recompute::Offload => told.push(S::Recompute),
            Self::Megatron if job.training.optimizer.is_some_and(crate::framework::megatron::knows) => {
                told.push(S::Optimizer);
            }
            // Its looped schedules take two stages a GPU unless layers are counted out.
            Self::Torchtitan if job.layout().virtual_pipeline == 2 => told.push(S::Interleaving),
            _ => {}
        }
        told.extend(by_itself(job));
        told
    }
}

/// What every program does where nothing says so: it computes in single precision, and recomputes nothing.
fn by_itself(job: &Job) -> impl Iterator<Item = Setting> {
    let is_single = job.training.precision == Precision::Fp32;
    let is_kept = job.plan.layout.recompute == Recompute::None;
    is_single.then_some(Setting::Precision).into_iter().chain(is_kept.then_some(Setting::Recompute))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExportOptions, Target, export};
    use gpuplan_hardware::{CloudId, Hardware};
    use gpuplan_plan::document::PlanDocument;
    use gpuplan_workload::Stacks;
    use gpuplan_workload::stack::{Column, Stack};

    const EIGHT_NODES: &str = include_str!("../../tests/fixtures/plans/eight-nodes.json");
    const ONE_NODE: &str = include_str!("../../tests/fixtures/plans/one-node.json");

    /// The recommended plan of a document after `change`, for a framework.
    fn job(document: &str, framework: &str, change: impl Fn(&mut Value)) -> Job {
        let mut document: Value = serde_json::from_str(document).unwrap();
        change(&mut document);
        let document = PlanDocument::read(&document.to_string()).unwrap();
        let plan = document.pick(None).unwrap();
        let hardware = Hardware::embedded().unwrap();
        let instance =
            hardware.find_instance(&CloudId::new(&plan.machines.cloud), &plan.machines.instance_type).unwrap();
        let instance = hardware.instance(instance);
        let wishes = ExportOptions { framework: Some(framework.to_owned()), ..ExportOptions::default() };
        Job::new(&document, plan, hardware.gpu(instance.node.gpu), instance, wishes).unwrap()
    }

    fn script(job: &Job) -> String {
        export(Target::Torchrun, job).unwrap()
    }

    fn shard(document: &mut Value, shard: &str, tensor: u32) {
        let layout = &mut document["recommendation"]["layout"];
        layout["shard"] = shard.into();
        layout["tensor"] = tensor.into();
        layout["data"] = (32 / tensor).into();
        layout["sequence_parallel"] = (tensor > 1).into();
    }

    #[test]
    fn megatron_hides_the_traffic_that_the_price_assumes_hidden() {
        let flags = ["--overlap-grad-reduce", "--overlap-param-gather", "--tp-comm-overlap"];
        let told = |change: &dyn Fn(&mut Value)| {
            let text = script(&job(EIGHT_NODES, "megatron", change));
            flags.map(|flag| text.contains(flag))
        };
        assert_eq!(told(&|plan| shard(plan, "zero1", 1)), [true, true, false]);
        assert_eq!(told(&|plan| shard(plan, "zero1", 4)), [true, true, true]);
        // Its parser waits for the gradients of whole copies too.
        assert_eq!(told(&|plan| shard(plan, "none", 1)), [true, false, false]);
        assert_eq!(told(&|plan| shard(plan, "zero3", 1)), [true, true, false]);
        let stated = |plan: &mut Value| {
            shard(plan, "zero1", 4);
            plan["workload"]["file"]["training"]["overlap"] = Value::Array(Vec::new());
        };
        assert_eq!(told(&stated), [true, false, false]);
    }

    #[test]
    fn megatron_has_the_connections_that_its_parser_asks_for() {
        let connections = |shard_: &str, tensor| {
            let text = script(&job(EIGHT_NODES, "megatron", |plan| shard(plan, shard_, tensor)));
            text.contains("export CUDA_DEVICE_MAX_CONNECTIONS=1\n")
        };
        assert!(connections("zero1", 4) && !connections("zero1", 1));
        // Megatron-FSDP refuses a single one.
        assert!(!connections("zero3", 4));
    }

    #[test]
    fn what_no_flag_says_stands_at_the_head() {
        let stated = |plan: &mut Value| {
            let training = &mut plan["workload"]["file"]["training"];
            training["attention"] = "eager".into();
            training["offload"] = "parameters".into();
            training["lora"] = serde_json::json!({ "rank": 16, "targets": ["q", "v"] });
            plan["recommendation"]["layout"]["recompute"] = "full".into();
        };
        for framework in Framework::ALL {
            let job = job(ONE_NODE, framework.word(), stated);
            let left = left_to_program(&job);
            let has = |words: &str| left.iter().any(|one| one == words);
            assert!(
                has("offload parameters") && has("lora.rank 16") && has("lora.targets q,v"),
                "{framework}: {left:?}"
            );
            let text = script(&job);
            assert!(
                text.contains("# SET in your program: ") && text.contains("offload parameters"),
                "{framework}: {text}"
            );
            let is_told = [
                "--recompute-granularity full",
                "activation-checkpoint:full",
                "--gradient_checkpointing True",
                "fsdp_activation_checkpointing: true",
            ];
            let is_told = is_told.iter().any(|flag| text.contains(flag));
            assert_ne!(has("recompute full"), is_told, "{framework}: {text}");
            let is_unfused = text.contains("--attention-backend unfused");
            assert_ne!(has("attention eager"), is_unfused, "{framework}: {text}");
        }
    }

    /// Processes that read data are a flag where the framework has one, and stand at the head elsewhere.
    #[test]
    fn workers_of_the_data_are_told_or_named() {
        let stated = |plan: &mut Value| {
            plan["workload"]["file"]["data"] = serde_json::json!({ "workers": 12, "decode": "gpu" });
        };
        let flags = ["--dataloader_num_workers 12", "--data.num_workers 12", "--num-workers 12"];
        for framework in Framework::ALL {
            let job = job(ONE_NODE, framework.word(), stated);
            let (text, left) = (script(&job), left_to_program(&job));
            let is_told = flags.iter().any(|flag| text.contains(flag));
            assert_ne!(left.contains(&"data.workers 12".to_owned()), is_told, "{framework}: {text}");
            assert!(left.contains(&"data.decode gpu".to_owned()), "{framework}: {left:?}");
        }
        for target in [Target::Axolotl, Target::LlamaFactory, Target::Trl] {
            let text = export(target, &job(ONE_NODE, "trl", stated)).unwrap();
            assert!(text.contains("dataloader_num_workers: 12") && text.contains("data.decode gpu"), "{text}");
            assert!(!text.contains("data.workers"), "{text}");
        }
    }

    /// The file that DeepSpeed reads says for which plan it is and what it does not switch on.
    #[test]
    fn the_file_of_deepspeed_has_its_head_too() {
        let job = job(ONE_NODE, "fsdp", |plan| plan["recommendation"]["layout"]["recompute"] = "full".into());
        let text = export(Target::Deepspeed, &job).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        let head: Vec<&str> = read["_comment"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(head[0].contains(&job.plan.id) && head.iter().any(|line| line.starts_with("layout ")), "{head:?}");
        let set = head.iter().find(|line| line.starts_with("SET in your program: ")).unwrap();
        assert!(set.contains("recompute full") && !set.contains("micro batch"), "{set}");
    }

    /// Configurations of programs say what they can, and name the rest.
    #[test]
    fn what_a_configuration_has_no_key_for_stands_at_its_head() {
        let trl = |change: &dyn Fn(&mut Value)| export(Target::Trl, &job(ONE_NODE, "trl", change)).unwrap();
        let set = |key: &'static str, value: Value| {
            move |plan: &mut Value| plan["workload"]["file"]["training"][key] = value.clone()
        };
        let eager = trl(&set("attention", "eager".into()));
        assert!(eager.contains("attn_implementation: eager") && !eager.contains("attention eager"), "{eager}");
        assert!(trl(&set("attention", "flash3".into())).contains("attention flash3"));
        let precise = trl(&|plan| plan["workload"]["precision"] = "fp32".into());
        assert!(precise.contains("bf16: false"), "it takes 16 bits by itself: {precise}");
        let gathered = |framework: &str, target| {
            let all = |plan: &mut Value| {
                plan["recommendation"]["layout"]["shard"] = "zero1".into();
                plan["workload"]["file"]["training"]["overlap"] = serde_json::json!(["weight-gather"]);
            };
            export(target, &job(ONE_NODE, framework, all)).unwrap()
        };
        assert!(gathered("trl", Target::Axolotl).contains("overlap weight-gather"));
        // The keys of Accelerate's file have none that lets DeepSpeed reduce beside the backward pass.
        let accelerate = gathered("accelerate", Target::Accelerate);
        assert!(accelerate.contains("gradients reduced during the backward pass"), "{accelerate}");
    }

    /// Columns in which the recipes of a stack do other than its parser: what a command gets that leaves the flag out.
    fn differing(stack: &Stack) -> Vec<&'static str> {
        fn differ<T: PartialEq>(cell: &gpuplan_workload::stack::Cell<T>) -> bool {
            let value = |column| cell.fact(column).map(|fact| &fact.value);
            value(Column::Recipe) != value(Column::Parser)
        }
        let parallel = |column| stack.sequence_parallel_by(column, 2);
        let all = [
            ("sequence_parallel", parallel(Column::Recipe) != parallel(Column::Parser)),
            ("splits_layers", differ(&stack.splits_layers)),
            ("attention", differ(&stack.attention)),
            ("shard", differ(&stack.shard)),
            ("gradient_format", differ(&stack.gradient_format)),
            ("zero1", differ(&stack.zero1)),
            ("recompute", differ(&stack.recompute)),
            ("cuda_graphs", differ(&stack.cuda_graphs)),
            ("fused_kernels", differ(&stack.fused_kernels)),
            ("compile", differ(&stack.compile)),
            ("lora_targets", differ(&stack.lora_targets)),
            ("adapters_in_fp32", differ(&stack.adapters_in_fp32)),
            ("overlap", differ(&stack.overlap)),
            ("prefetch", differ(&stack.prefetch)),
            ("gather_unit", differ(&stack.gather_unit)),
            ("copied_shards", differ(&stack.copied_shards)),
            ("gradient_overlap", differ(&stack.gradient_overlap)),
            ("gradient_bucket", differ(&stack.gradient_bucket)),
            ("selective_recompute", differ(&stack.selective_recompute)),
            ("expert_dispatch", differ(&stack.expert_dispatch)),
            ("scattered_stages", differ(&stack.scattered_stages)),
            ("interleaved", differ(&stack.interleaved)),
        ];
        let of_table = stack.evidence();
        assert!(
            of_table.iter().all(|value| all.iter().any(|(column, _)| *column == value.key)),
            "a column is not compared"
        );
        all.into_iter().filter(|(_, differs)| *differs).map(|(column, _)| column).collect()
    }

    /// An export writes the recipe of each of these, or names it at the head: a new one in the table needs a line in its framework.
    #[test]
    fn every_assumption_of_the_stack_table_is_written() {
        let written = [
            // Shards and recomputation are the plan's own; overlap is its configuration's.
            ("deepspeed", vec!["shard", "recompute", "overlap"]),
            ("megatron", vec!["sequence_parallel", "shard", "overlap", "interleaved"]),
            ("accelerate", vec![]),
            ("hf-trainer", vec![]),
            ("lightning", vec![]),
            // Gathers are issued ahead by FSDP2 itself; selective recomputation is the policy's own, and a flag up to 0.2.
            ("torchtitan", vec!["prefetch", "selective_recompute"]),
        ];
        for framework in Framework::ALL.iter().filter(|one| !matches!(one, Framework::None | Framework::Fsdp)) {
            let stack = Stacks::embedded().find(framework.word()).unwrap();
            let known = &written.iter().find(|(name, _)| *name == framework.word()).unwrap().1;
            assert_eq!(&differing(stack), known, "{framework}");
        }
        let split = script(&job(EIGHT_NODES, "megatron", |plan| shard(plan, "zero1", 4)));
        for flag in ["--sequence-parallel", "--use-distributed-optimizer", "--num-virtual-stages-per-pipeline-rank 4"] {
            assert!(split.contains(flag), "{flag}: {split}");
        }
        let mut file =
            job(ONE_NODE, "torchtitan", |plan| plan["recommendation"]["layout"]["recompute"] = "selective".into());
        assert!(!script(&file).contains("selective_ac_option"));
        file.command = vec!["train.toml".to_owned()];
        assert!(script(&file).contains("--activation_checkpoint.selective_ac_option op"), "{}", script(&file));
        let sharded = job(ONE_NODE, "deepspeed", |plan| plan["recommendation"]["layout"]["recompute"] = "full".into());
        assert!(script(&sharded).contains("\"overlap_comm\": true") && script(&sharded).contains("\"stage\": 3"));
        assert!(left_to_program(&sharded).contains(&"recompute full".to_owned()));
    }
}
