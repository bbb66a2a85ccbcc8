//! What a diffusion model is trained on: frames of a video, and whether prompts and pictures are encoded before the training or in its steps.

use crate::Assumption;
use crate::file::scalar::{invalid, whole};
use crate::file::{TrainingSection, WorkloadFileError};
use crate::model::pipeline::{Makes, Pipeline};
use crate::model::{Model, ModelKind};
use crate::training::Latents;

/// Ten minutes at 24 frames a second: no published model makes as many.
const MOST_FRAMES: u32 = 14_400;

pub(super) fn read(
    section: &TrainingSection,
    model: &Model,
    assumed: &mut Vec<Assumption>,
) -> Result<Latents, WorkloadFileError> {
    if model.kind != ModelKind::Diffusion {
        let stated = [
            ("training.frames", section.frames.is_some()),
            ("training.cache_latents", section.cache_latents.is_some()),
        ];
        return match stated.into_iter().find(|(_, is_stated)| *is_stated) {
            Some((key, _)) => {
                Err(invalid(key, format!("`{}` is no diffusion model, so this has no meaning", model.name)))
            }
            None => Ok(Latents::default()),
        };
    }
    let transformer = model.pipeline.as_ref().filter(|pipeline| pipeline.is_transformer());
    let makes_videos = transformer.is_some_and(|pipeline| pipeline.frames > 0);
    let frames = whole("training.frames", section.frames.as_ref(), 1..=MOST_FRAMES)?;
    if frames.is_some() && !makes_videos {
        return Err(invalid(
            "training.frames",
            format!("`{}` makes pictures, or its layers are not known", model.name),
        ));
    }
    if let Some(pipeline) = transformer.filter(|_| frames.is_none() && makes_videos) {
        assumed.push(Assumption::Frames { frames: pipeline.frames });
    }
    match (section.cache_latents, transformer) {
        (Some(_), None) => {
            let why = format!(
                "the layers of `{}` are not known: its encoders run in every step, as in the runs it is estimated by",
                model.name
            );
            Err(invalid("training.cache_latents", why))
        }
        (Some(false), Some(pipeline)) => match refusal(pipeline) {
            Some(why) => Err(invalid("training.cache_latents", format!("`{}`: {why}", model.name))),
            None => Ok(Latents { frames, encoded_in_steps: true }),
        },
        (stated, known) => {
            if stated.is_none() && known.is_some() {
                assumed.push(Assumption::CachedLatents);
            }
            Ok(Latents { frames, encoded_in_steps: false })
        }
    }
}

/// Why encoding in the steps cannot be estimated.
fn refusal(pipeline: &Pipeline) -> Option<&'static str> {
    match pipeline.makes {
        Makes::Videos => Some("the encoder of videos is not modelled; cache them, as its trainers do"),
        Makes::Edits => Some("the encoder of the pictures that an edit starts from is not modelled"),
        Makes::Pictures => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Models;
    use crate::file::WorkloadFile;

    fn read(model: &str, training: &str) -> Result<Latents, String> {
        let text = format!("model.preset = \"{model}\"\n[training]\nsteps = 10\n{training}");
        let resolved = WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None);
        resolved.map(|resolved| resolved.workload.training.latents).map_err(|error| error.to_string())
    }

    #[test]
    fn frames_and_encoders_are_of_the_models_that_have_them() {
        let lora = "task = \"lora\"\n";
        let wan = read("wan2.1-t2v-14b", &format!("{lora}frames = 33")).unwrap();
        assert_eq!(wan, Latents { frames: Some(33), encoded_in_steps: false });
        assert!(read("flux.1-dev", &format!("{lora}cache_latents = false")).unwrap().encoded_in_steps);
        for (model, stated, part) in [
            ("flux.1-dev", "frames = 33", "makes pictures"),
            ("wan2.1-t2v-14b", "cache_latents = false", "the encoder of videos is not modelled"),
            ("flux.1-kontext-dev", "cache_latents = false", "that an edit starts from"),
            ("stable-diffusion-xl", "cache_latents = true", "its encoders run in every step"),
            ("llama-3.1-8b", "cache_latents = true", "is no diffusion model"),
        ] {
            let refused = read(model, &format!("{lora}{stated}")).unwrap_err();
            assert!(refused.contains(part), "{model} {stated}: {refused}");
        }
    }

    #[test]
    fn a_base_is_quantised_where_its_layers_are_known() {
        let quantised = |model: &str| read(model, "task = \"qlora\"\nbase_weights = \"nf4\"");
        assert!(quantised("flux.1-dev").is_ok());
        assert!(quantised("stable-diffusion-xl").is_err());
    }
}
