//! How a training says that it is split over its GPUs: degrees of parallelism, and what its data-parallel ranks share.

use std::fmt;

use crate::shell::is_unknown;
use crate::{JobRequest, KeyValue};
use gpuplan_workload::Shard;
use gpuplan_workload::assumption::JobAssumption;

/// Keys that split a model over GPUs, so that fewer of them have a batch of their own.
const SPLITS: [&str; 21] = [
    "model_parallel_size",
    "context_parallel_size",
    "sequence_parallel_size",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "ulysses_parallel_size",
    "model_parallel_degree",
    "context_parallel_degree",
    "sequence_parallel_degree",
    "tensor_parallel_degree",
    "pipeline_parallel_degree",
    "tensor_parallelism",
    "pipeline_parallelism",
    "pipeline_stages",
    "tp_size",
    "pp_size",
    "cp_size",
    "sp_size",
    "tp",
    "pp",
    "cp",
];
/// Keys of DeepSpeed's stage: Megatron-DeepSpeed, its own configuration, Accelerate's.
const STAGES: [&str; 3] = ["zero_stage", "zero_optimization.stage", "deepspeed_config.zero_stage"];

/// Keys of how many parts a rank of a pipeline has: Megatron-LM's, NeMo's and verl's.
const PARTS: [&str; 3] =
    ["num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size", "virtual_pipeline_parallel_size"];
/// Megatron-LM's other way to say it: how many layers each part has.
const LAYERS_OF_A_PART: &str = "num_layers_per_virtual_pipeline_stage";

/// Keys that keep weights, gradients or states of the optimizer in the memory of the host: DeepSpeed's and Accelerate's, FSDP's of Accelerate and
/// torchtune, torchtitan's, Megatron-LM's, OpenRLHF's. Their memory could be estimated and the time of their copies is not known.
const OFFLOADS: [&str; 11] = [
    "offload_optimizer.device",
    "offload_param.device",
    "offload_optimizer_device",
    "offload_param_device",
    "fsdp_offload_params",
    "offload_params",
    "fsdp_cpu_offload",
    "enable_cpu_offload",
    "optimizer_cpu_offload",
    "adam_offload",
    "cpu_offload",
];
const NO_OFFLOADING: &str = "not taken over: how long copies to the host and back take is not estimated";

/// How the layers of a rank are cut into parts that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualStages {
    /// So many parts.
    Parts(u32),
    /// So many layers in each.
    LayersEach(u32),
}

impl VirtualStages {
    /// Parts of each of `pipeline` ranks. `None`: `layers` cannot be cut so.
    pub fn parts(self, layers: u32, pipeline: u32) -> Option<u32> {
        match self {
            Self::Parts(parts) => Some(parts),
            Self::LayersEach(each) => {
                let of_all = pipeline.checked_mul(each).filter(|all| *all > 0)?;
                layers.is_multiple_of(of_all).then(|| layers / of_all)
            }
        }
    }
}

/// What a job states of its layout. `None`: it does not say, or says it twice and differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedLayout {
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    pub context: Option<u32>,
    pub expert: Option<u32>,
    pub virtual_stages: Option<VirtualStages>,
    pub shard: Option<Shard>,
    /// Ranks that share weights under HSDP.
    pub shard_group: Option<u32>,
}

impl StatedLayout {
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for StatedLayout {
    /// `TP4 PP2 ZeRO-1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let degrees = [("TP", self.tensor), ("PP", self.pipeline), ("CP", self.context), ("EP", self.expert)];
        let mut words: Vec<String> =
            degrees.into_iter().filter_map(|(name, degree)| Some(format!("{name}{}", degree?))).collect();
        words.extend(self.virtual_stages.map(|stages| match stages {
            VirtualStages::Parts(parts) => format!("VPP{parts}"),
            VirtualStages::LayersEach(layers) => format!("VPP of {layers} layers"),
        }));
        words.extend(self.shard.map(|shard| {
            let stage = match shard {
                Shard::None => "no ZeRO",
                Shard::Zero1 => "ZeRO-1",
                Shard::Zero2 => "ZeRO-2",
                Shard::Zero3 => "ZeRO-3",
                Shard::Hsdp => match self.shard_group {
                    Some(ranks) => return format!("HSDP of {ranks}"),
                    None => "HSDP",
                },
            };
            stage.to_owned()
        }));
        f.write_str(&words.join(" "))
    }
}

/// Whether a key splits a model over GPUs.
fn is_degree(one: &KeyValue) -> bool {
    let key = one.plain_key();
    let is_key =
        |split: &str| key.strip_suffix(split).is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '_']));
    SPLITS.into_iter().any(is_key)
}

fn is_stage(one: &KeyValue) -> bool {
    STAGES.contains(&one.plain_key().as_str())
}

fn is_virtual(one: &KeyValue) -> bool {
    let key = one.plain_key();
    PARTS.iter().chain(&[LAYERS_OF_A_PART]).any(|known| key.ends_with(known))
}

/// Whether a key says what the ranks of FSDP share: `full_shard auto_wrap`, `HYBRID_SHARD`, numbers of torch's enumeration in Accelerate.
fn shard_of_fsdp(one: &KeyValue) -> Option<Shard> {
    let key = one.plain_key();
    let is_strategy = key.ends_with("sharding_strategy");
    if !is_strategy && key.rsplit('.').next() != Some("fsdp") {
        return None;
    }
    let lower = one.value.to_ascii_lowercase();
    let mut words = lower.split([' ', ',', '.']).map(|word| word.trim_start_matches('_'));
    words.find_map(|word| match word {
        "full_shard" | "optim_grads_params" => Some(Shard::Zero3),
        "shard_grad_op" | "optim_grads" => Some(Shard::Zero2),
        "optim" => Some(Shard::Zero1),
        "no_shard" => Some(Shard::None),
        "hybrid_shard" => Some(Shard::Hsdp),
        "1" if is_strategy => Some(Shard::Zero3),
        "2" if is_strategy => Some(Shard::Zero2),
        "3" if is_strategy => Some(Shard::None),
        "4" if is_strategy => Some(Shard::Hsdp),
        _ => None,
    })
}

/// Lightning's strategies by their registered names (lightning/pytorch/strategies, `register_strategies` of 2.6.6; DeepSpeed's stage is 2 by itself,
/// and FSDP shards everything).
fn shard_of_lightning(one: &KeyValue) -> Option<Shard> {
    if !matches!(one.plain_key().as_str(), "trainer.strategy" | "strategy") {
        return None;
    }
    match one.value.to_ascii_lowercase().as_str() {
        "ddp" | "ddp_find_unused_parameters_true" | "ddp_find_unused_parameters_false" => Some(Shard::None),
        "deepspeed_stage_1" => Some(Shard::Zero1),
        "deepspeed" | "deepspeed_stage_2" | "deepspeed_stage_2_offload" => Some(Shard::Zero2),
        "deepspeed_stage_3" | "deepspeed_stage_3_offload" | "fsdp" | "fsdp_native" => Some(Shard::Zero3),
        _ => None,
    }
}

/// What a rank shares by the words of any trainer.
fn shard_of(one: &KeyValue) -> Option<Shard> {
    shard_of_fsdp(one).or_else(|| shard_of_lightning(one))
}

/// torchtitan's two degrees of data parallelism, of which -1 is all that there are.
fn is_degree_of_data(one: &KeyValue) -> bool {
    let key = one.plain_key();
    key.ends_with("data_parallel_replicate_degree") || key.ends_with("data_parallel_shard_degree")
}

fn keeps_on_host(one: &KeyValue) -> bool {
    let key = one.plain_key();
    let is_key =
        OFFLOADS.iter().any(|known| key.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let is_off = matches!(one.value.to_ascii_lowercase().as_str(), "none" | "false" | "0" | "no" | "off");
    is_key && !is_off
}

/// `--fsdp "full_shard auto_wrap offload"`, `strategy: deepspeed_stage_3_offload`
fn has_offload_of_fsdp(one: &KeyValue) -> bool {
    (one.plain_key().rsplit('.').next() == Some("fsdp") && one.value.split([' ', ',']).any(|word| word == "offload"))
        || (shard_of_lightning(one).is_some() && one.value.ends_with("_offload"))
}

/// Whether a key splits a model over several GPUs, or over as many as only a run would tell.
pub fn is_split(one: &KeyValue) -> bool {
    is_degree(one) && (is_unknown(&one.value) || one.value.parse::<u32>().is_ok_and(|degree| degree > 1))
}

/// Says which degrees of parallelism a training states: unless its own machines are planned with them, the plan chooses its own layout.
pub fn name_degrees(asked: &mut JobRequest) {
    let is_training = asked.workload.serving.is_empty() && asked.not_planned.is_none();
    let is_many = |one: &&KeyValue| is_degree(one) && one.value.parse::<u32>().is_ok_and(|degree| degree > 1);
    let stated: Vec<String> =
        asked.no_effect.iter().filter(is_many).map(|one| format!("{} {}", one.plain_key(), one.value)).collect();
    if is_training && !stated.is_empty() {
        asked.assumed.push(JobAssumption::LayoutOfPlan { degrees: stated.join(", ") });
    }
    if is_training {
        let named = |one: KeyValue| KeyValue {
            value: format!("{} ({NO_OFFLOADING})", one.value).trim_start().to_owned(),
            ..one
        };
        // A word beside the strategy of FSDP leaves that as it is.
        asked.unread.extend(asked.no_effect.iter().filter(|one| has_offload_of_fsdp(one)).cloned().map(named));
        asked.unread.extend(asked.no_effect.extract_if(.., |one| keeps_on_host(one)).map(named));
    }
}

/// The one value of all keys that are meant.
fn only(asked: &JobRequest, is_meant: impl Fn(&KeyValue) -> bool) -> Option<u32> {
    let mut values = asked.no_effect.iter().filter(|one| is_meant(one)).map(|one| one.value.parse::<u32>().ok());
    let first = values.next()??;
    values.all(|other| other == Some(first)).then_some(first).filter(|degree| *degree < 1 << 16)
}

impl JobRequest {
    /// How its command splits the work over GPUs.
    pub fn stated_layout(&self) -> StatedLayout {
        let has = |one: &KeyValue, words: &[&str]| {
            let key = one.plain_key();
            key.split(['.', '_']).any(|word| words.contains(&word))
        };
        let is_pipeline = |one: &KeyValue| has(one, &["pipeline", "pp"]);
        let is_context = |one: &KeyValue| has(one, &["context", "sequence", "ulysses", "cp", "sp"]);
        let is_expert = |one: &KeyValue| has(one, &["expert", "moe", "ep"]);
        let degree = |is_kind: &dyn Fn(&KeyValue) -> bool| {
            // Stages that a GPU has several of, and matrices of experts alone, are other degrees.
            let is_meant = |one: &KeyValue| is_degree(one) && !has(one, &["virtual"]) && is_kind(one);
            only(self, is_meant).filter(|degree| *degree > 0)
        };
        let (shard, shard_group) = self.stated_shard();
        StatedLayout {
            // Megatron-LM's first versions had one degree: `model_parallel_size`.
            tensor: degree(&|one| !is_pipeline(one) && !is_context(one) && !is_expert(one)),
            pipeline: degree(&is_pipeline),
            context: degree(&is_context),
            expert: degree(&|one| is_expert(one) && !has(one, &["tensor"])),
            virtual_stages: self.stated_virtual_stages(),
            shard,
            shard_group,
        }
    }

    fn stated_virtual_stages(&self) -> Option<VirtualStages> {
        let above_zero = |found: Option<u32>| found.filter(|number| *number > 0);
        let ends = |one: &KeyValue, known: &str| one.plain_key().ends_with(known);
        let parts = only(self, |one| PARTS.iter().any(|known| ends(one, known)));
        let layers = only(self, |one| ends(one, LAYERS_OF_A_PART));
        match (above_zero(parts), above_zero(layers)) {
            (Some(parts), None) => Some(VirtualStages::Parts(parts)),
            (None, Some(layers)) => Some(VirtualStages::LayersEach(layers)),
            _ => None,
        }
    }

    /// What its data-parallel ranks share, and how many of them share weights under HSDP.
    fn stated_shard(&self) -> (Option<Shard>, Option<u32>) {
        let degree = |end: &str| {
            let found = self.no_effect.iter().find(|one| one.plain_key().ends_with(end))?;
            found.value.parse::<i64>().ok()
        };
        let (copies, ranks) = (degree("data_parallel_replicate_degree"), degree("data_parallel_shard_degree"));
        if copies.is_some_and(|copies| copies > 1) {
            return match ranks {
                Some(1) => (Some(Shard::None), None),
                Some(ranks) => (Some(Shard::Hsdp), u32::try_from(ranks).ok()),
                None => (None, None),
            };
        }
        let stage = only(self, is_stage).and_then(|stage| match stage {
            0 => Some(Shard::None),
            1 => Some(Shard::Zero1),
            2 => Some(Shard::Zero2),
            3 => Some(Shard::Zero3),
            _ => None,
        });
        let mut all = self.no_effect.iter().filter_map(shard_of).chain(stage);
        let first = all.next();
        (first.filter(|first| all.all(|other| other == *first)), None)
    }

    /// The layout that it states is that of its plan: it was understood after all.
    pub fn take_stated_layout(&mut self) {
        self.assumed.retain(|one| !matches!(one, JobAssumption::LayoutOfPlan { .. }));
        let all = std::mem::take(&mut self.no_effect);
        let (layout, others) = all.into_iter().partition(|one| {
            is_degree(one) || is_stage(one) || is_virtual(one) || is_degree_of_data(one) || shard_of(one).is_some()
        });
        self.no_effect = others;
        self.understood.extend::<Vec<KeyValue>>(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKind;

    fn stated(keys: &[(&str, &str)]) -> String {
        let mut asked = JobRequest::new(JobKind::Script);
        for (key, value) in keys {
            asked.note_without_effect(key, value);
        }
        asked.stated_layout().to_string()
    }

    #[test]
    fn each_key_is_the_degree_of_its_words() {
        let megatron = [
            ("--tensor-model-parallel-size", "4"),
            ("--pipeline-model-parallel-size", "2"),
            ("--virtual_pipeline_model_parallel_size", "8"),
            ("--context-parallel-size", "1"),
            ("--expert-model-parallel-size", "8"),
            ("--expert-tensor-parallel-size", "2"),
            ("zero_optimization.stage", "1"),
        ];
        assert_eq!(stated(&megatron), "TP4 PP2 CP1 EP8 VPP8 ZeRO-1");
        assert_eq!(stated(&[("--num-layers-per-virtual-pipeline-stage", "2")]), "VPP of 2 layers");
        assert_eq!(stated(&[("a.yaml: fsdp_config.fsdp_sharding_strategy", "HYBRID_SHARD")]), "HSDP");
        assert_eq!(
            stated(&[("fsdp_config.fsdp_sharding_strategy", "1"), ("--fsdp", "full_shard auto_wrap")]),
            "ZeRO-3"
        );
        let titan = |ranks| {
            stated(&[
                ("parallelism.data_parallel_replicate_degree", "2"),
                ("parallelism.data_parallel_shard_degree", ranks),
            ])
        };
        assert_eq!((titan("8"), titan("-1"), titan("1")), ("HSDP of 8".into(), "HSDP".into(), "no ZeRO".into()));
        assert_eq!(stated(&[("--model-parallel-size", "8"), ("--zero-stage", "3")]), "TP8 ZeRO-3");
        assert_eq!(stated(&[("sequence_parallel_size", "4")]), "CP4");
        for open in [
            &[("--tensor_model_parallel_size", "$TP")][..],
            &[("--tp", "2"), ("--tensor_parallel_size", "4")],
            &[("zero_optimization.stage", "auto"), ("--lr", "1")],
            &[("--tp", "0")],
            &[("--fsdp", "true"), ("--fsdp", "2")],
            &[("--fsdp", "full_shard"), ("fsdp_config.fsdp_sharding_strategy", "SHARD_GRAD_OP")],
        ] {
            assert_eq!(stated(open), "", "{open:?}");
        }
    }

    #[test]
    fn parts_of_a_rank_are_counted_or_follow_from_their_layers() {
        assert_eq!(VirtualStages::Parts(4).parts(80, 8), Some(4));
        assert_eq!(VirtualStages::LayersEach(5).parts(80, 8), Some(2));
        assert_eq!(VirtualStages::LayersEach(3).parts(80, 8), None);
        assert_eq!(VirtualStages::LayersEach(u32::MAX).parts(80, 8), None);
    }

    #[test]
    fn what_is_kept_on_the_host_is_no_part_of_any_plan() {
        let mut asked = JobRequest::new(JobKind::Script);
        let keys = [
            ("zero_optimization.offload_optimizer.device", "cpu"),
            ("deepspeed_config.offload_param_device", "none"),
            ("--fsdp", "full_shard offload"),
            ("--optimizer-cpu-offload", ""),
            ("fsdp_config.fsdp_offload_params", "false"),
        ];
        for (key, value) in keys {
            asked.note_without_effect(key, value);
        }
        name_degrees(&mut asked);
        let unread: Vec<&str> = asked.unread.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(unread, ["--fsdp", "zero_optimization.offload_optimizer.device", "--optimizer-cpu-offload"]);
        assert_eq!(asked.unread[1].value, format!("cpu ({NO_OFFLOADING})"));
        assert_eq!(asked.stated_layout().to_string(), "ZeRO-3");
    }

    #[test]
    fn what_its_plan_keeps_was_understood() {
        let mut asked = JobRequest::new(JobKind::Script);
        for (key, value) in [("--tp", "2"), ("--zero_stage", "1"), ("--lr", "1")] {
            asked.note_without_effect(key, value);
        }
        name_degrees(&mut asked);
        assert_eq!(asked.assumed.len(), 1);
        asked.take_stated_layout();
        let keys = |all: &[KeyValue]| all.iter().map(|one| one.key.clone()).collect::<Vec<_>>();
        assert_eq!(
            (keys(&asked.understood), keys(&asked.no_effect)),
            (vec!["--tp".into(), "--zero_stage".into()], vec!["--lr".into()])
        );
        assert!(asked.assumed.is_empty());
    }
}
