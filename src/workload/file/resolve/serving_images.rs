//! How pictures are made of prompts: steps, guidance, resolution, and how many at once.

use crate::file::scalar::{invalid, missing, whole};
use crate::file::{ServingSection, WorkloadFileError};
use crate::model::pipeline::{Makes, Pipeline};
use crate::model::{Model, ModelKind};
use crate::{Assumption, Sampling};

/// Steps of a sampler; models are trained with a thousand (Ho et al. 2020, arXiv 2006.11239).
const MOST_STEPS: u32 = 1000;
/// Sides of pictures.
const SIDES: std::ops::RangeInclusive<u32> = 64..=8192;
/// Pictures of one pass.
const MOST_AT_ONCE: u32 = 1024;

/// Why a diffusion model is not planned; `None`: it makes pictures of prompts, or nobody says what it makes.
pub(super) fn refusal(model: &Model) -> Option<&'static str> {
    match model.pipeline.as_ref()?.makes {
        Makes::Pictures => None,
        Makes::Edits => Some("it starts from pictures, whose tokens the serving estimate does not count"),
        Makes::Videos => Some("it makes videos, whose decoder the serving estimate does not model"),
    }
}

/// `None`: the model makes no pictures. One that `hears` has batches too.
pub(super) fn sampling(
    section: &ServingSection,
    model: &Model,
    hears: bool,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<Sampling>, WorkloadFileError> {
    if model.kind != ModelKind::Diffusion {
        let stated = [
            ("serving.steps", section.steps.is_some()),
            ("serving.guidance", section.guidance.is_some()),
            ("serving.resolution", section.resolution.is_some()),
            ("serving.batch", section.batch.is_some() && !hears),
        ];
        return match stated.into_iter().find(|(_, is_stated)| *is_stated) {
            Some((key, _)) => {
                Err(invalid(key, format!("`{}` is no diffusion model, so this has no meaning", model.name)))
            }
            None => Ok(None),
        };
    }
    let unknown = Pipeline::default();
    let pipeline = model.pipeline.as_ref().unwrap_or(&unknown);
    let steps = match (whole("serving.steps", section.steps.as_ref(), 1..=MOST_STEPS)?, pipeline.steps) {
        (Some(steps), _) => steps,
        (None, Some(steps)) => {
            assumed.push(Assumption::ServingSteps { steps, source: pipeline.source.clone() });
            steps
        }
        (None, None) => {
            let why =
                format!("state the sampler's steps for a picture; nobody says how many `{}` usually takes", model.name);
            return Err(missing("serving.steps", why));
        }
    };
    let guidance = match (section.guidance, pipeline.guidance) {
        (Some(guidance), _) => guidance,
        (None, Some(guidance)) => {
            assumed.push(Assumption::ServingGuidance { guidance, source: pipeline.source.clone() });
            guidance
        }
        (None, None) => {
            let why = "state whether every step runs the network with and without the prompt (classifier-free guidance): true or false";
            return Err(missing("serving.guidance", why));
        }
    };
    let side = match whole("serving.resolution", section.resolution.as_ref(), SIDES)? {
        Some(side) => side,
        None => {
            let side = pipeline.side.unwrap_or(model.sample_side);
            if side == 0 {
                return Err(missing("serving.resolution", "state the side of the pictures, in pixels"));
            }
            assumed.push(Assumption::ServingResolution { side });
            side
        }
    };
    let batch = whole("serving.batch", section.batch.as_ref(), 1..=MOST_AT_ONCE)?;
    assumed.push(Assumption::ServingParts { text_encoders: pipeline.text_encoders.clone() });
    Ok(Some(Sampling { steps, guidance, side, batch }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Models;
    use crate::file::WorkloadFile;
    use crate::file::resolve::resolved::Resolved;

    fn resolved(model: &str, serving: &str) -> Result<Resolved, WorkloadFileError> {
        let text = format!("[model]\n{model}\n[serving]\nimages_per_second = 2\n{serving}");
        WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)
    }

    fn sampled(model: &str, serving: &str) -> Sampling {
        let made = resolved(&format!("preset = \"{model}\""), serving).unwrap();
        assert_eq!(made.workload.training.sequence_length, made.workload.serving.unwrap().images.unwrap().side);
        made.workload.serving.unwrap().images.unwrap()
    }

    #[test]
    fn what_a_model_usually_does_is_taken_and_told() {
        for (name, steps, guidance, side) in [
            ("black-forest-labs/FLUX.1-dev", 50, false, 1024),
            ("black-forest-labs/FLUX.1-schnell", 4, false, 1024),
            ("stabilityai/stable-diffusion-xl-base-1.0", 50, true, 1024),
            ("stabilityai/sdxl-turbo", 1, false, 512),
            ("stabilityai/stable-diffusion-3.5-large", 28, true, 1024),
            ("Qwen/Qwen-Image", 50, true, 1024),
        ] {
            assert_eq!(sampled(name, ""), Sampling { steps, guidance, side, batch: None }, "{name}");
        }
        let made = resolved("preset = \"flux.1-dev\"", "").unwrap();
        let source = "model card: 50 steps; guidance is distilled into the network".to_owned();
        assert!(made.assumed.contains(&Assumption::ServingSteps { steps: 50, source }), "{:?}", made.assumed);
    }

    #[test]
    fn what_is_stated_is_kept_and_not_told() {
        let asked = "steps = 28\nguidance = true\nresolution = 768\nbatch = 2";
        assert_eq!(sampled("flux.1-dev", asked), Sampling { steps: 28, guidance: true, side: 768, batch: Some(2) });
        let made = resolved("preset = \"flux.1-dev\"", asked).unwrap();
        assert!(!made.assumed.iter().any(|one| matches!(one, Assumption::ServingSteps { .. })));
    }

    #[test]
    fn what_nobody_knows_has_to_be_stated() {
        let own = "parameters = \"2B\"\nflops_per_sample = \"3e12\"\nkind = \"diffusion\"";
        for (model, serving, part) in [
            (own, "", "`serving.steps` is missing"),
            (own, "steps = 30", "`serving.guidance` is missing"),
            ("preset = \"wan2.1\"", "", "makes videos"),
            ("preset = \"black-forest-labs/FLUX.1-Kontext-dev\"", "", "starts from pictures"),
            ("preset = \"flux.1-dev\"", "steps = 0", "serving.steps"),
            ("preset = \"flux.1-dev\"", "resolution = 16", "serving.resolution"),
            ("preset = \"resnet-50\"", "steps = 30", "is no diffusion model"),
        ] {
            let said = resolved(model, serving).unwrap_err().to_string();
            assert!(said.contains(part), "{model} {serving}: {said}");
        }
        assert!(resolved(own, "steps = 30\nguidance = false").is_ok());
        let trained = resolved("preset = \"sdxl\"", "[training]\nsteps = 30").unwrap_err().to_string();
        assert!(trained.contains("--image-steps"), "{trained}");
    }
}
