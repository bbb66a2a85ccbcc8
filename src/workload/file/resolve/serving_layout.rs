//! What a served model runs with: its engine, how a copy is split over GPUs, and drafted tokens.

use crate::file::scalar::{choice, count, invalid, missing, whole};
use crate::file::{ServingSection, WorkloadFileError};
use crate::model::{Model, ModelKind};
use crate::{Assumption, ServingEngine, ServingLayout, Speculation};

/// GPUs of one copy.
const MOST_GPUS: u32 = 1024;
/// Tokens drafted at once; what engines allow is far less (vLLM `num_speculative_tokens`).
const MOST_DRAFTED: u32 = 64;

/// vLLM where a model writes answers and nobody says more.
pub(super) fn engine(
    section: &ServingSection,
    answer_tokens: u32,
    assumed: &mut Vec<Assumption>,
) -> Result<ServingEngine, WorkloadFileError> {
    if let Some(engine) = choice("serving.engine", section.engine.as_deref())? {
        return Ok(engine);
    }
    let engine = ServingEngine::default();
    if answer_tokens > 0 {
        assumed.push(Assumption::ServingEngine { engine });
    }
    Ok(engine)
}

pub(super) fn layout(
    section: &ServingSection,
    model: &Model,
    answer_tokens: u32,
) -> Result<ServingLayout, WorkloadFileError> {
    let parts = |key: &'static str, stated| whole(key, stated, 1..=MOST_GPUS);
    let tensor = parts("serving.tensor_parallel", section.tensor_parallel.as_ref())?;
    let pipeline = parts("serving.pipeline_parallel", section.pipeline_parallel.as_ref())?;
    let groups = parts("serving.attention_data_parallel", section.attention_data_parallel.as_ref())?;
    let expert_parallel = section.expert_parallel.unwrap_or(false);
    let stated = [
        ("serving.tensor_parallel", tensor.is_some()),
        ("serving.pipeline_parallel", pipeline.is_some()),
        ("serving.attention_data_parallel", groups.is_some()),
        ("serving.expert_parallel", expert_parallel),
    ];
    if let Some((key, _)) = stated.into_iter().find(|(_, is_stated)| *is_stated && answer_tokens == 0) {
        return Err(invalid(key, format!("`{}` answers in one pass, on one GPU", model.name)));
    }
    if let Some(tensor) = tensor
        && !model.heads.is_multiple_of(tensor)
    {
        let why = format!("{tensor} does not divide the {} attention heads of `{}`", model.heads, model.name);
        return Err(invalid("serving.tensor_parallel", why));
    }
    if let Some(pipeline) = pipeline.filter(|pipeline| *pipeline > model.layers) {
        let why = format!("{pipeline} stages are more than the {} layers of `{}`", model.layers, model.name);
        return Err(invalid("serving.pipeline_parallel", why));
    }
    if expert_parallel && model.experts.is_none() {
        return Err(invalid("serving.expert_parallel", format!("`{}` has no experts", model.name)));
    }
    if groups.is_some_and(|groups| groups > 1) && tensor.is_none() {
        return Err(missing("serving.tensor_parallel", "the GPUs of each attention group; 1 where each is a group"));
    }
    Ok(ServingLayout { tensor, pipeline, attention_groups: groups.unwrap_or(1), expert_parallel })
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
    fn what_cannot_be_is_refused_with_its_key() {
        for (model, keys, part) in [
            ("llama-3.1-8b", "tensor_parallel = 3", "does not divide the 32"),
            ("llama-3.1-8b", "pipeline_parallel = 64", "more than the 32 layers"),
            ("llama-3.1-8b", "expert_parallel = true", "has no experts"),
            ("llama-3.1-8b", "attention_data_parallel = 2", "`serving.tensor_parallel` is missing"),
            ("llama-3.1-8b", "draft_tokens = 3", "`serving.accepted_tokens` is missing"),
            ("llama-3.1-8b", "draft_tokens = 3\naccepted_tokens = 4", "more than the 3"),
            ("llama-3.1-8b", "engine = \"vlm\"", "did you mean `vllm`"),
        ] {
            let said = serving(model, keys).unwrap_err().to_string();
            assert!(said.contains(part), "{keys}: {said}");
        }
    }
}
