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

/// What a job states of its layout. `None`: it does not say, or says it twice and differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatedLayout {
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    pub context: Option<u32>,
    pub expert: Option<u32>,
    pub shard: Option<Shard>,
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
        words.extend(self.shard.map(|shard| {
            let stage = match shard {
                Shard::None => "no ZeRO",
                Shard::Zero1 => "ZeRO-1",
                Shard::Zero2 => "ZeRO-2",
                Shard::Zero3 => "ZeRO-3",
                Shard::Hsdp => "HSDP",
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
        let shard = only(self, is_stage).and_then(|stage| match stage {
            0 => Some(Shard::None),
            1 => Some(Shard::Zero1),
            2 => Some(Shard::Zero2),
            3 => Some(Shard::Zero3),
            _ => None,
        });
        StatedLayout {
            // Megatron-LM's first versions had one degree: `model_parallel_size`.
            tensor: degree(&|one| !is_pipeline(one) && !is_context(one) && !is_expert(one)),
            pipeline: degree(&is_pipeline),
            context: degree(&is_context),
            expert: degree(&|one| is_expert(one) && !has(one, &["tensor"])),
            shard,
        }
    }

    /// The layout that it states is that of its plan: it was understood after all.
    pub fn take_stated_layout(&mut self) {
        self.assumed.retain(|one| !matches!(one, JobAssumption::LayoutOfPlan { .. }));
        let all = std::mem::take(&mut self.no_effect);
        let (layout, others) = all.into_iter().partition(|one| is_degree(one) || is_stage(one));
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
        assert_eq!(stated(&megatron), "TP4 PP2 CP1 EP8 ZeRO-1");
        assert_eq!(stated(&[("--model-parallel-size", "8"), ("--zero-stage", "3")]), "TP8 ZeRO-3");
        assert_eq!(stated(&[("sequence_parallel_size", "4")]), "CP4");
        for open in [
            &[("--tensor_model_parallel_size", "$TP")][..],
            &[("--tp", "2"), ("--tensor_parallel_size", "4")],
            &[("zero_optimization.stage", "auto"), ("--lr", "1")],
            &[("--tp", "0")],
        ] {
            assert_eq!(stated(open), "", "{open:?}");
        }
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
