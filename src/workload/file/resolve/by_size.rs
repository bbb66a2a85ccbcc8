//! A model of which only the size is known, or only size and operations: what stands for the rest of it.

use crate::assumption::Assumption;
use crate::file::scalar::{Scalar, choice, count, invalid, missing, shown};
use crate::file::{ModelSection, WorkloadFileError};
use crate::model::catalog::{ModelRow, Models};
use crate::model::deviations::Deviations;
use crate::model::names::Spelling;
use crate::model::names::made_of::StatedSize;
use crate::model::{MlpKind, Model, ModelKind, NormKind};
use crate::serving::StoredFormat;
use gpuplan_units::quantity::short_count;

/// Parameters of a language model that is trained or served on GPUs.
const LEAST: f64 = 1e6;
const MOST: f64 = 1e14;

/// Sizes as they are stated, those that a model without a name needs first.
pub(super) fn sizes(section: &ModelSection) -> [(&'static str, &Option<Scalar>); 15] {
    [
        ("model.layers", &section.layers),
        ("model.hidden", &section.hidden),
        ("model.heads", &section.heads),
        ("model.ffn_hidden", &section.ffn_hidden),
        ("model.vocab", &section.vocab),
        ("model.encoder_layers", &section.encoder_layers),
        ("model.kv_heads", &section.kv_heads),
        ("model.head_dim", &section.head_dim),
        ("model.experts", &section.experts),
        ("model.experts_per_token", &section.experts_per_token),
        ("model.expert_ffn_hidden", &section.expert_ffn_hidden),
        ("model.shared_experts", &section.shared_experts),
        ("model.dense_layers", &section.dense_layers),
        ("model.parameters", &section.parameters),
        ("model.max_context", &section.max_context),
    ]
}

/// `None` where sizes are stated too, or no size at all.
pub(super) fn model(
    section: &ModelSection,
    parameters: Option<f64>,
    models: &Models,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<Model>, WorkloadFileError> {
    let flops = count("model.flops_per_sample", section.flops_per_sample.as_ref())?;
    let sized = sizes(section).into_iter().find(|(key, size)| *key != "model.parameters" && size.is_some());
    match (parameters, flops, sized) {
        (_, Some(_), Some((key, _))) => {
            Err(invalid("model.flops_per_sample", format!("it describes what is no transformer, which has no `{key}`")))
        }
        (None, Some(_), None) => Err(missing("model.parameters", "beside `flops_per_sample`")),
        (Some(parameters), Some(flops), None) => by_operations(section, parameters, flops, assumed).map(Some),
        (Some(parameters), None, None) if section.kind.as_deref().is_none_or(|kind| kind == "decoder") => {
            of_size(parameters, models, assumed).map(Some)
        }
        _ => Ok(None),
    }
}

/// A language model whose name tells its size and no model that is known: of its family and about this size where there is one.
pub(super) fn by_name(
    name: &str,
    models: &Models,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<Model>, WorkloadFileError> {
    // Letters of another alphabet are a slip too, of which a spelling has nothing left.
    let spelling = Spelling::parse(name).filter(|_| name.is_ascii());
    let Some(stated) = spelling.and_then(|name| name.stated_size()) else { return Ok(None) };
    let nearest = models.nearest(name);
    let is_slip = nearest.is_some_and(|row| is_slip(name, row));
    if !(LEAST..=MOST).contains(&stated.parameters) || is_slip || models.is_of_other_kind(name) {
        return Ok(None);
    }
    let kind = if stated.active.is_some() { ModelKind::Moe } else { ModelKind::Decoder };
    let relative = nearest.filter(|row| row.kind == kind && row.to_model().deviations.hybrid.is_none());
    let typed = shown(name.trim().rsplit('/').next().unwrap_or(name)).to_ascii_lowercase();
    let model = like(stated, relative, models, assumed)?;
    let published = Spelling::parse(name).and_then(|name| name.format()).unwrap_or(model.published);
    Ok(Some(Model { name: typed, published, ..model }))
}

fn is_slip(name: &str, row: &ModelRow) -> bool {
    let known = std::iter::once(&row.id).chain(&row.aliases);
    Spelling::parse(name).is_some_and(|name| known.into_iter().any(|known| name.is_slip_of(known)))
}

/// A dense language model: the shape of the one nearest in size.
fn of_size(parameters: f64, models: &Models, assumed: &mut Vec<Assumption>) -> Result<Model, WorkloadFileError> {
    if !(LEAST..=MOST).contains(&parameters) {
        let why = format!("{} is no size of a language model; try 7B", short_count(parameters));
        return Err(invalid("model.parameters", why));
    }
    let model = like(StatedSize { parameters, active: None }, None, models, assumed)?;
    Ok(Model { name: name(parameters), ..model })
}

/// A model without gates counts as farther off by so much, in the logarithm of sizes: a sixth. Judged.
const OLD: f64 = 0.15;

/// A language model of a size: the shape of the relative, or of the plain one nearest in size, with as many layers as the size takes.
fn like(
    stated: StatedSize,
    relative: Option<&ModelRow>,
    models: &Models,
    assumed: &mut Vec<Assumption>,
) -> Result<Model, WorkloadFileError> {
    let StatedSize { parameters, active } = stated;
    let distance = |row: &ModelRow| {
        let of_active = active.zip(row.active_parameters).map_or(0.0, |(active, own)| (own / active).ln().abs());
        // A model that nobody knows is one of today rather than one of 2022.
        let of_age = if row.to_model().mlp == MlpKind::Glu { 0.0 } else { OLD };
        (row.parameters / parameters).ln().abs() + of_active + of_age
    };
    let plain = models.rows().iter().filter(|row| {
        let is_of_kind = match active {
            Some(_) => row.kind == ModelKind::Moe && row.active_parameters.is_some(),
            None => row.kind == ModelKind::Decoder,
        };
        let model = row.to_model();
        is_of_kind && model.deviations == Deviations::default() && model.latent.is_none()
    });
    let like = relative.or_else(|| plain.min_by(|a, b| distance(a).total_cmp(&distance(b))));
    let like = like.ok_or_else(|| missing("model.preset", "the catalog has no plain language model"))?;
    let base = like.to_model();
    let beside = base.counted_parameters() - f64::from(base.layers) * base.layer_parameters();
    let layers = ((parameters - beside) / base.layer_parameters()).round().max(1.0) as u32;
    assumed.push(Assumption::ModelShape { like: like.id.clone(), layers });
    // How long a sequence it was made for is not known.
    Ok(Model { parameters, layers, max_context: 0, published: StoredFormat::Bf16, shape_is_guessed: true, ..base })
}

/// What is not built of transformer layers, by what it computes: traffic is in proportion, as in the networks that were measured.
fn by_operations(
    section: &ModelSection,
    parameters: f64,
    flops: f64,
    assumed: &mut Vec<Assumption>,
) -> Result<Model, WorkloadFileError> {
    let stated = choice("model.kind", section.kind.as_deref())?;
    let kind = stated.unwrap_or(ModelKind::Cnn);
    // Sides that the families were measured at, as `training.sequence_length` scales from them.
    let sample_side = match kind {
        ModelKind::Cnn => 224,
        ModelKind::CnnDetection => 300,
        ModelKind::Diffusion => 512,
        _ => {
            let why = "with `flops_per_sample` it is cnn, cnn-detection or diffusion; a transformer has sizes";
            return Err(invalid("model.kind", why));
        }
    };
    if flops <= 0.0 || parameters <= 0.0 {
        return Err(invalid("model.flops_per_sample", "parameters and operations are more than none"));
    }
    assumed.push(Assumption::ModelTraffic { model_kind: kind });
    Ok(Model {
        name: name(parameters),
        parameters,
        sample_side,
        forward_flops_per_sample: flops,
        shape_is_guessed: true,
        ..Model::blank(kind, MlpKind::Gelu, NormKind::Layer, false)
    })
}

/// `7b-model`.
fn name(parameters: f64) -> String {
    let (number, unit) = if parameters < 1e9 { (parameters / 1e6, "m") } else { (parameters / 1e9, "b") };
    format!("{}{unit}-model", (number * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WorkloadFile;

    fn resolved(model: &str) -> Result<(Model, Vec<Assumption>), WorkloadFileError> {
        let text = format!("model = {{ {model} }}\ntraining = {{ task = \"train\", samples = 10 }}");
        let made = WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)?;
        Ok((made.workload.model, made.assumed))
    }

    #[test]
    fn a_size_alone_takes_the_shape_of_a_published_model() {
        for (text, parameters, layers) in
            [("0.5B", 5e8, 12..30), ("7B", 7e9, 28..36), ("70B", 7e10, 70..90), ("405B", 4.05e11, 110..140)]
        {
            for key in ["parameters", "preset"] {
                let (model, assumed) = resolved(&format!("{key} = \"{text}\"")).unwrap();
                assert!(model.shape_is_guessed && model.kind == ModelKind::Decoder, "{text}");
                assert!((model.parameters / parameters - 1.0).abs() < 1e-9, "{text}");
                // One layer more or less is all that the counted size may be off.
                let off = (model.counted_parameters() - parameters).abs();
                assert!(off <= 0.6 * model.layer_parameters(), "{text}: {off}");
                assert!(layers.contains(&model.layers), "{text}: {}", model.layers);
                assert!(matches!(&assumed[0], Assumption::ModelShape { .. }), "{assumed:?}");
            }
        }
        assert!(resolved("parameters = 7").unwrap_err().to_string().contains("try 7B"));
        assert!(resolved("preset = \"llama-3.1-8x\"").is_err());
        // Sizes beside it make it a model of its own.
        assert!(resolved("parameters = \"7B\", layers = 3").unwrap_err().to_string().contains("model.hidden"));
    }

    #[test]
    fn a_size_in_an_unknown_name_takes_the_shape_of_its_family_or_of_any() {
        for (name, kind, parameters, family) in [
            ("acme/Kolibri-7B-Instruct", ModelKind::Decoder, 7e9, ""),
            ("google/gemma-9-27b-it", ModelKind::Decoder, 27e9, "gemma"),
            ("acme/Kolibri-80B-A3B", ModelKind::Moe, 80e9, ""),
        ] {
            let (model, assumed) = resolved(&format!("preset = \"{name}\"")).unwrap();
            assert_eq!((model.kind, model.parameters, model.shape_is_guessed), (kind, parameters, true), "{name}");
            assert!(model.name.starts_with(['k', 'g']) && (model.counted_parameters() / parameters - 1.0).abs() < 0.1);
            let shape = assumed.iter().find_map(|one| match one {
                Assumption::ModelShape { like, .. } => Some(like.as_str()),
                _ => None,
            });
            assert!(shape.is_some_and(|like| like.starts_with(family)), "{name}: {shape:?}");
        }
        let (model, assumed) = resolved("preset = \"NousResearch/Hermes-3-Llama-3.1-8B-AWQ\"").unwrap();
        assert_eq!((model.name.as_str(), model.published), ("llama-3.1-8b", StoredFormat::Int4));
        assert_eq!(assumed[0], Assumption::ModelOfName { like: "llama-3.1-8b".to_owned() });
        // A slip of the keyboard is asked about, and what names no size too.
        for name in [
            "llama-31-8b",
            "acme/kolibri",
            "acme/kolibri-t2v-14b",
            "ллама-3.1-8b",
            "лама 8b",
            "acme/FLUX.3-4B",
            "sana-9b",
        ] {
            let said = resolved(&format!("preset = \"{name}\"")).unwrap_err();
            assert!(matches!(said, WorkloadFileError::UnknownModel { .. }), "{name}: {said}");
        }
    }

    #[test]
    fn operations_describe_what_is_no_transformer() {
        let (model, assumed) = resolved("parameters = \"25.6M\", flops_per_sample = \"8.2G\"").unwrap();
        assert_eq!((model.kind, model.forward_flops_per_sample), (ModelKind::Cnn, 8.2e9));
        assert_eq!(assumed[0], Assumption::ModelTraffic { model_kind: ModelKind::Cnn });
        for (text, part) in [
            ("flops_per_sample = \"8G\"", "`model.parameters` is missing"),
            ("parameters = 5, flops_per_sample = \"8G\", layers = 3", "no `model.layers`"),
            ("parameters = \"5M\", flops_per_sample = \"8G\", kind = \"decoder\"", "a transformer has sizes"),
        ] {
            let said = resolved(text).unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
