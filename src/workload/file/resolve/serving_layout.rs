//! What a served model runs with: its engine, how a copy is split over GPUs, and drafted tokens.

use crate::file::scalar::{choice, conflict, count, invalid, missing, whole};
use crate::file::{Scalar, ServingSection, WorkloadFileError};
use crate::model::{Model, ModelKind};
use crate::{Assumption, Disaggregation, ServingEngine, ServingLayout, Speculation, StoredFormat, Workers};

/// GPUs of one copy.
const MOST_GPUS: u32 = 1024;
/// Tokens drafted at once; what engines allow is far less (vLLM `num_speculative_tokens`).
const MOST_DRAFTED: u32 = 64;

pub(super) fn stated_engine(section: &ServingSection) -> Result<Option<ServingEngine>, WorkloadFileError> {
    choice("serving.engine", section.engine.as_deref())
}

/// vLLM where a model writes answers and nobody says more.
pub(super) fn engine(
    section: &ServingSection,
    weights: StoredFormat,
    answer_tokens: u32,
    hears: bool,
    assumed: &mut Vec<Assumption>,
) -> Result<ServingEngine, WorkloadFileError> {
    if let Some(engine) = stated_engine(section)? {
        if engine == ServingEngine::PyTorch && answer_tokens > 0 && !hears {
            let why = "PyTorch without an engine is estimated for models that answer in one pass, and for speech; try vllm, sglang or tensorrt-llm";
            return Err(invalid("serving.engine", why));
        }
        if engine == ServingEngine::FasterWhisper && !(hears && answer_tokens > 0) {
            let why = "faster-whisper runs speech alone; try vllm, sglang or tensorrt-llm";
            return Err(invalid("serving.engine", why));
        }
        if engine == ServingEngine::PyTorch && weights != StoredFormat::Bf16 {
            let why =
                "PyTorch is estimated in 16 bits; other formats are estimated as an engine runs them (`tensorrt`)";
            return Err(invalid("serving.engine", why));
        }
        return Ok(engine);
    }
    let engine = ServingEngine::default();
    if answer_tokens > 0 {
        assumed.push(Assumption::ServingEngine { engine });
    }
    Ok(engine)
}

/// How a copy of one kind is split, as the keys with this prefix say.
struct Stated<'a> {
    prefix: &'static str,
    tensor: Option<&'a Scalar>,
    pipeline: Option<&'a Scalar>,
    groups: Option<&'a Scalar>,
    expert_parallel: Option<bool>,
}

pub(super) fn layout(
    section: &ServingSection,
    model: &Model,
    answer_tokens: u32,
) -> Result<ServingLayout, WorkloadFileError> {
    let stated = Stated {
        prefix: "serving.",
        tensor: section.tensor_parallel.as_ref(),
        pipeline: section.pipeline_parallel.as_ref(),
        groups: section.attention_data_parallel.as_ref(),
        expert_parallel: section.expert_parallel,
    };
    stated.read(model, answer_tokens)
}

/// `None`: the same GPUs read prompts and write answers.
pub(super) fn disaggregation(
    section: &ServingSection,
    model: &Model,
    answer_tokens: u32,
    is_job: bool,
) -> Result<Option<Disaggregation>, WorkloadFileError> {
    let stated = Stated {
        prefix: "serving.prefill_",
        tensor: section.prefill_tensor_parallel.as_ref(),
        pipeline: None,
        groups: section.prefill_attention_data_parallel.as_ref(),
        expert_parallel: section.prefill_expert_parallel,
    };
    let prefill = stated.read(model, answer_tokens)?;
    let most = 1..=MOST_GPUS;
    let reading = whole("serving.prefill_workers", section.prefill_workers.as_ref(), most.clone())?;
    let writing = whole("serving.decode_workers", section.decode_workers.as_ref(), most)?;
    let workers = match (reading, writing) {
        (Some(prefill), Some(decode)) => Some(Workers { prefill, decode }),
        (None, None) => None,
        (Some(_), None) => return Err(missing("serving.decode_workers", "beside `prefill_workers`")),
        (None, Some(_)) => return Err(missing("serving.prefill_workers", "beside `decode_workers`")),
    };
    let says_how = workers.is_some() || prefill != ServingLayout::fixed_by_nobody();
    match section.disaggregated {
        Some(false) if says_how => Err(conflict("serving.disaggregated = false", "keys of prefill workers")),
        Some(true) | None if says_how || section.disaggregated == Some(true) => {
            let why = if answer_tokens == 0 {
                "no answers are written, so there is nothing to take apart"
            } else if model.encoder_layers > 0 {
                "an encoder and its decoder run on one GPU"
            } else if is_job {
                "a batch job has nobody who waits, so the same GPUs read prompts and write answers"
            } else if section.pipeline_parallel.is_some() {
                "copies with stages of layers are not taken apart; leave out `pipeline_parallel`"
            } else {
                return Ok(Some(Disaggregation { workers, prefill }));
            };
            Err(invalid("serving.disaggregated", why))
        }
        _ => Ok(None),
    }
}

impl Stated<'_> {
    fn read(&self, model: &Model, answer_tokens: u32) -> Result<ServingLayout, WorkloadFileError> {
        let key = |name: &str| format!("{}{name}", self.prefix);
        let parts = |name: &str, stated| whole(&key(name), stated, 1..=MOST_GPUS);
        let tensor = parts("tensor_parallel", self.tensor)?;
        let pipeline = parts("pipeline_parallel", self.pipeline)?;
        let groups = parts("attention_data_parallel", self.groups)?;
        let expert_parallel = self.expert_parallel.unwrap_or(false);
        let stated = [
            ("tensor_parallel", tensor.is_some()),
            ("pipeline_parallel", pipeline.is_some()),
            ("attention_data_parallel", groups.is_some()),
            ("expert_parallel", expert_parallel),
        ];
        let is_whole = answer_tokens == 0 || model.encoder_layers > 0;
        if let Some((name, _)) = stated.into_iter().find(|(_, is_stated)| *is_stated && is_whole) {
            let how = if answer_tokens == 0 { "answers in one pass, on one GPU" } else { "runs on one GPU" };
            return Err(invalid(&key(name), format!("`{}` {how}", model.name)));
        }
        if let Some(tensor) = tensor
            && !model.heads.is_multiple_of(tensor)
        {
            let why = format!("{tensor} does not divide the {} attention heads of `{}`", model.heads, model.name);
            return Err(invalid(&key("tensor_parallel"), why));
        }
        if let Some(pipeline) = pipeline.filter(|pipeline| *pipeline > model.layers) {
            let why = format!("{pipeline} stages are more than the {} layers of `{}`", model.layers, model.name);
            return Err(invalid(&key("pipeline_parallel"), why));
        }
        if expert_parallel && model.experts.is_none() {
            return Err(invalid(&key("expert_parallel"), format!("`{}` has no experts", model.name)));
        }
        if groups.is_some_and(|groups| groups > 1) && tensor.is_none() {
            return Err(missing(&key("tensor_parallel"), "the GPUs of each attention group; 1 where each is a group"));
        }
        Ok(ServingLayout { tensor, pipeline, attention_groups: groups.unwrap_or(1), expert_parallel })
    }
}

/// How many of the drafted tokens are accepted depends on what is written, so nothing is assumed.
pub(super) fn speculation(
    section: &ServingSection,
    model: &Model,
    answer_tokens: u32,
) -> Result<Option<Speculation>, WorkloadFileError> {
    let drafted = whole("serving.draft_tokens", section.draft_tokens.as_ref(), 1..=MOST_DRAFTED)?;
    let accepted = count("serving.accepted_tokens", section.accepted_tokens.as_ref())?;
    match (drafted, accepted) {
        (None, None) => Ok(None),
        (Some(_), None) => {
            let why = "state how many of the drafted tokens are accepted on average, such as 0.8 of 1";
            Err(missing("serving.accepted_tokens", why))
        }
        (None, Some(_)) => Err(missing("serving.draft_tokens", "beside `accepted_tokens`")),
        _ if answer_tokens == 0 || !matches!(model.kind, ModelKind::Decoder | ModelKind::Moe) => {
            Err(invalid("serving.draft_tokens", format!("`{}` generates no tokens here", model.name)))
        }
        (Some(drafted), Some(accepted)) if accepted <= f64::from(drafted) => {
            Ok(Some(Speculation { drafted, accepted }))
        }
        (Some(drafted), Some(accepted)) => {
            Err(invalid("serving.accepted_tokens", format!("{accepted} is more than the {drafted} that are drafted")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Models;
    use crate::file::WorkloadFile;

    fn serving(model: &str, keys: &str) -> Result<crate::Serving, WorkloadFileError> {
        let text = format!(
            "model.preset = \"{model}\"\n[serving]\nrequests = 5\nprompt_tokens = 100\nanswer_tokens = 50\n{keys}"
        );
        let made = WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)?;
        Ok(made.workload.serving.unwrap())
    }

    #[test]
    fn a_layout_is_fixed_and_the_rest_is_left_open() {
        let open = serving("deepseek-v3", "").unwrap();
        assert_eq!((open.engine, open.layout.tensor, open.layout.groups()), (ServingEngine::Vllm, None, 1));
        let keys = "engine = \"trtllm\"\ntensor_parallel = 1\nattention_data_parallel = 8\nexpert_parallel = true\ndraft_tokens = 1\naccepted_tokens = 0.8";
        let fixed = serving("deepseek-v3", keys).unwrap();
        assert_eq!((fixed.engine, fixed.layout.groups()), (ServingEngine::TensorRtLlm, 8));
        assert_eq!(fixed.speculation, Some(Speculation { drafted: 1, accepted: 0.8 }));
        assert!(fixed.layout.expert_parallel);
    }

    #[test]
    fn prompts_are_read_apart_where_a_key_says_so() {
        let service = |keys: &str| {
            let text = format!(
                "model.preset = \"llama-3.1-8b\"\n[serving]\nrequests_per_second = 5\nprompt_tokens = 100\nanswer_tokens = 50\n{keys}"
            );
            let made = WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap();
            made.workload.serving.unwrap().disaggregation
        };
        assert_eq!(service(""), None);
        assert_eq!(service("disaggregated = false"), None);
        assert_eq!(service("disaggregated = true").unwrap().workers, None);
        let apart = service("prefill_workers = 2\ndecode_workers = 3\nprefill_tensor_parallel = 2").unwrap();
        assert_eq!(apart.workers, Some(Workers { prefill: 2, decode: 3 }));
        assert_eq!(apart.prefill.tensor, Some(2));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_key() {
        for (model, keys, part) in [
            ("llama-3.1-8b", "tensor_parallel = 3", "does not divide the 32"),
            ("llama-3.1-8b", "pipeline_parallel = 64", "more than the 32 layers"),
            ("llama-3.1-8b", "expert_parallel = true", "has no experts"),
            ("llama-3.1-8b", "attention_data_parallel = 2", "`serving.tensor_parallel` is missing"),
            ("llama-3.1-8b", "draft_tokens = 3", "`serving.accepted_tokens` is missing"),
            ("llama-3.1-8b", "draft_tokens = 3\naccepted_tokens = 4", "more than the 3"),
            ("llama-3.1-8b", "engine = \"vlm\"", "did you mean `vllm`"),
            ("llama-3.1-8b", "engine = \"pytorch\"", "try vllm"),
            ("llama-3.1-8b", "disaggregated = true", "a batch job has nobody who waits"),
            ("llama-3.1-8b", "prefill_workers = 2", "`serving.decode_workers` is missing"),
            ("llama-3.1-8b", "prefill_tensor_parallel = 3", "`serving.prefill_tensor_parallel`"),
            ("llama-3.1-8b", "disaggregated = false\nprefill_tensor_parallel = 2", "exclude each other"),
        ] {
            let said = serving(model, keys).unwrap_err().to_string();
            assert!(said.contains(part), "{keys}: {said}");
        }
    }
}
