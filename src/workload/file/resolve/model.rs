//! The model of a workload file: a preset or a configuration, with single sizes replaced, or the sizes alone.

use crate::assumption::Assumption;
use crate::file::resolve::by_size::{self, sizes};
use crate::file::scalar::{choice, conflict, count, invalid, invalid_near, missing, shown, shown_name, whole};
use crate::file::{ModelSection, WorkloadFileError};
use crate::model::catalog::Models;
use crate::model::deviations::Deviations;
use crate::model::huggingface::fields::{CONTEXT, EXPERTS, HEAD_DIM, HEADS, LAYERS, VOCABULARY, WIDTH};
use crate::model::names::Spelling;
use crate::model::{Experts, MlpKind, Model, ModelKind, NormKind};
use gpuplan_units::quantity::short_count;

/// Stated parameters may differ from those counted from the sizes by this factor, not more.
const PARAMETERS_FACTOR: f64 = 2.0;

/// A model with what only the catalog knows.
pub(super) struct ResolvedModel {
    pub model: Model,
    /// Tokens of a native image, for image transformers.
    pub native_tokens: Option<u32>,
}

pub(super) fn resolve(
    section: &ModelSection,
    models: &Models,
    read_model: Option<Model>,
    assumed: &mut Vec<Assumption>,
) -> Result<ResolvedModel, WorkloadFileError> {
    if section.index.is_some() && section.config.is_none() {
        return Err(missing("model.config", "`model.index` needs the config.json that it belongs to"));
    }
    match (&section.preset, &section.config) {
        (Some(_), Some(_)) => Err(conflict("model.preset", "model.config")),
        (None, None) => {
            let parameters = count("model.parameters", section.parameters.as_ref())?;
            let by_size = by_size::model(section, parameters, models, assumed)?;
            let model = by_size.map_or_else(|| explicit(section, assumed), Ok)?;
            Ok(ResolvedModel { model, native_tokens: None })
        }
        (None, Some(path)) => {
            let unread = || missing("model.config", format!("`{}` was not read", shown(path)));
            let model = with_sizes(section, "model.config", read_model.ok_or_else(unread)?, assumed)?;
            let native_tokens = (model.kind == ModelKind::Vit && model.max_context > 0).then_some(model.max_context);
            Ok(ResolvedModel { model, native_tokens })
        }
        (Some(name), None) => {
            if let Some((first, _)) = name.split_once([',', ';', '|']) {
                let nearest = vec![shown(first.trim())];
                return Err(invalid_near("model.preset", "one model at a time", nearest));
            }
            let known = models.named(name).or_else(|| {
                let made_of = models.made_of(name).or_else(|| models.in_part(name))?;
                assumed.push(Assumption::ModelOfName { like: made_of.0.id.clone() });
                Some(made_of)
            });
            let Some((row, format)) = known else {
                let size = Spelling::parse(name).filter(|_| name.is_ascii()).and_then(|name| name.size_alone());
                if let Some(model) = by_size::model(section, size, models, assumed)? {
                    return Ok(ResolvedModel { model, native_tokens: None });
                }
                if let Some(model) = by_size::by_name(name, models, assumed)? {
                    let model = with_sizes(section, "model.preset", model, assumed)?;
                    return Ok(ResolvedModel { model, native_tokens: None });
                }
                return Err(unknown_model(name, models));
            };
            if row.only_operations {
                assumed.push(Assumption::ModelTraffic { model_kind: row.kind });
            }
            if row.unverified {
                assumed.push(Assumption::ModelUnverified { name: row.id.clone(), source: row.source.clone() });
            }
            let mut base = row.to_model();
            base.published = format.unwrap_or(base.published);
            let model = with_sizes(section, "model.preset", base, assumed)?;
            Ok(ResolvedModel { model, native_tokens: row.native_tokens() })
        }
    }
}

/// With what was probably meant.
pub(super) fn unknown_model(name: &str, models: &Models) -> WorkloadFileError {
    let name_shown = shown_name(name);
    match models.left_open(name)[..] {
        [] => {
            let suggestion = models.nearest(name).map(|row| row.id.clone());
            WorkloadFileError::UnknownModel { name: name_shown, suggestion, members: Vec::new() }
        }
        [one] => {
            WorkloadFileError::UnknownModel { name: name_shown, suggestion: Some(one.to_owned()), members: Vec::new() }
        }
        ref several => {
            let members = several.iter().map(|&member| member.to_owned()).collect();
            WorkloadFileError::UnknownModel { name: name_shown, suggestion: None, members }
        }
    }
}

/// `base` with the stated sizes in place of its own.
fn with_sizes(
    section: &ModelSection,
    source: &str,
    base: Model,
    assumed: &mut Vec<Assumption>,
) -> Result<Model, WorkloadFileError> {
    for (key, is_stated) in
        [("model.kind", section.kind.is_some()), ("model.flops_per_sample", section.flops_per_sample.is_some())]
    {
        if is_stated {
            return Err(conflict(source, key));
        }
    }
    let stated = sizes(section).into_iter().find(|(_, size)| size.is_some());
    let switches = [
        ("model.mlp", section.mlp.is_some()),
        ("model.norm", section.norm.is_some()),
        ("model.tied_embeddings", section.tied_embeddings.is_some()),
        ("model.parallel_residual", section.parallel_residual.is_some()),
    ];
    let stated = stated
        .map(|(key, _)| key)
        .or_else(|| switches.into_iter().find(|(_, is_stated)| *is_stated).map(|(key, _)| key));
    if let Some(key) = stated
        && !base.kind.is_transformer()
    {
        return Err(invalid(
            key,
            format!("`{}` is not built of transformer layers, so it has no such size", base.name),
        ));
    }
    if base.deviations.hybrid.is_some() && section.layers.is_some() {
        let why =
            format!("the layers of `{}` differ from each other, so their number alone says too little", base.name);
        return Err(invalid("model.layers", why));
    }
    let mut model = base.clone();
    replace(section, &mut model)?;
    let (before, after) = (base.counted_parameters(), model.counted_parameters());
    if let Some(parameters) = stated_parameters(section, &model)? {
        model.parameters = parameters;
    } else if after != before && before > 0.0 {
        model.parameters = base.parameters * after / before;
        assumed.push(Assumption::Parameters { parameters: model.parameters, replaces_own: true });
    }
    // Of a text tower the work is estimated, and the rest of its parameters is a table that is looked up in.
    let other_parameters = if model.text_tower.is_some() { 0.0 } else { model.deviations.other_parameters };
    let deviations = Deviations { other_parameters, ..model.deviations };
    let simplifications = deviations.simplifications(model.layers, model.parameters);
    assumed.extend(simplifications.map(|simplification| Assumption::Simplified { simplification }));
    Ok(model)
}

/// A model of sizes alone.
fn explicit(section: &ModelSection, assumed: &mut Vec<Assumption>) -> Result<Model, WorkloadFileError> {
    let kind = choice("model.kind", section.kind.as_deref())?;
    if kind.is_none() && sizes(section).iter().all(|(_, size)| size.is_none()) {
        return Err(missing("model.preset", "name a model, or state `config`, the sizes, or `parameters` alone"));
    }
    let kind = kind.unwrap_or_else(|| {
        let model_kind = if section.experts.is_some() { ModelKind::Moe } else { ModelKind::Decoder };
        assumed.push(Assumption::ModelKind { model_kind });
        model_kind
    });
    if !kind.is_transformer() {
        let why = "sizes describe only transformers; of another model state `parameters` and `flops_per_sample`";
        return Err(invalid("model.kind", why));
    }
    let is_encoder_decoder = matches!(kind, ModelKind::Encdec | ModelKind::MoeEncdec);
    for (key, size) in sizes(section).into_iter().take(6) {
        let is_needed = match key {
            "model.vocab" => kind != ModelKind::Vit,
            "model.encoder_layers" => is_encoder_decoder,
            _ => true,
        };
        if is_needed && size.is_none() {
            return Err(missing(key, "a model without `preset` or `config` needs its sizes"));
        }
    }
    let is_modern = matches!(kind, ModelKind::Decoder | ModelKind::Moe);
    // As in Llama, and as in BERT.
    let (mlp, norm) = if is_modern { (MlpKind::Glu, NormKind::Rms) } else { (MlpKind::Gelu, NormKind::Layer) };
    if section.mlp.is_none() {
        assumed.push(Assumption::Mlp { mlp });
    }
    if section.norm.is_none() {
        assumed.push(Assumption::Norm { norm });
    }
    if section.tied_embeddings.is_none() && kind != ModelKind::Vit {
        assumed.push(Assumption::TiedEmbeddings { tied: !is_modern });
    }
    let mut model = Model::blank(kind, mlp, norm, !is_modern);
    replace(section, &mut model)?;
    if section.kv_heads.is_none() {
        assumed.push(Assumption::KvHeads { heads: model.kv_heads });
    }
    if section.head_dim.is_none() {
        assumed.push(Assumption::HeadDim { elements: model.head_dim });
    }
    model.parameters = match stated_parameters(section, &model)? {
        Some(parameters) => parameters,
        None => {
            let counted = model.counted_parameters();
            assumed.push(Assumption::Parameters { parameters: counted, replaces_own: false });
            counted
        }
    };
    Ok(model)
}

fn replace(section: &ModelSection, model: &mut Model) -> Result<(), WorkloadFileError> {
    let base_head_dim = model.hidden.checked_div(model.heads).unwrap_or(0);
    let (had_all_heads, had_plain_heads) = (model.kv_heads == model.heads, model.head_dim == base_head_dim);
    let set = |size: &mut u32, stated: Option<u32>| *size = stated.unwrap_or(*size);
    set(&mut model.layers, whole("model.layers", section.layers.as_ref(), LAYERS)?);
    set(&mut model.encoder_layers, whole("model.encoder_layers", section.encoder_layers.as_ref(), LAYERS)?);
    set(&mut model.hidden, whole("model.hidden", section.hidden.as_ref(), WIDTH)?);
    set(&mut model.heads, whole("model.heads", section.heads.as_ref(), HEADS)?);
    set(&mut model.ffn_hidden, whole("model.ffn_hidden", section.ffn_hidden.as_ref(), WIDTH)?);
    set(&mut model.vocab, whole("model.vocab", section.vocab.as_ref(), VOCABULARY)?);
    set(&mut model.max_context, whole("model.max_context", section.max_context.as_ref(), CONTEXT)?);
    let head_dim = whole("model.head_dim", section.head_dim.as_ref(), HEAD_DIM)?;
    if head_dim.is_some() && model.latent.is_some() {
        return Err(invalid(
            "model.head_dim",
            format!("`{}` has latent attention, whose heads have their own widths", model.name),
        ));
    }
    if (section.heads.is_some() || section.hidden.is_some()) && had_plain_heads && head_dim.is_none() {
        if !model.hidden.is_multiple_of(model.heads) {
            let why = format!("{} is not a multiple of {} heads; state head_dim", model.hidden, model.heads);
            return Err(invalid("model.hidden", why));
        }
        model.head_dim = model.hidden / model.heads;
    }
    set(&mut model.head_dim, head_dim);
    if section.heads.is_some() && had_all_heads {
        model.kv_heads = model.heads;
    }
    set(&mut model.kv_heads, whole("model.kv_heads", section.kv_heads.as_ref(), HEADS)?);
    check_heads(model)?;
    model.mlp = choice("model.mlp", section.mlp.as_deref())?.unwrap_or(model.mlp);
    model.norm = choice("model.norm", section.norm.as_deref())?.unwrap_or(model.norm);
    model.tied_embeddings = section.tied_embeddings.unwrap_or(model.tied_embeddings);
    model.parallel_residual = section.parallel_residual.unwrap_or(model.parallel_residual);
    replace_experts(section, model)?;
    match model.experts {
        Some(experts) if experts.dense_layers > model.layers => Err(invalid(
            "model.dense_layers",
            format!("{} of {} layers cannot be dense", experts.dense_layers, model.layers),
        )),
        _ => Ok(()),
    }
}

fn check_heads(model: &Model) -> Result<(), WorkloadFileError> {
    // Families without heads have zeros.
    if model.heads.checked_rem(model.kv_heads).unwrap_or(0) != 0 {
        return Err(invalid("model.kv_heads", format!("{} does not divide {} heads", model.kv_heads, model.heads)));
    }
    if model.query_width() > f64::from(*WIDTH.end()) {
        return Err(invalid(
            "model.head_dim",
            format!("{} heads of {} are wider than {}", model.heads, model.head_dim, WIDTH.end()),
        ));
    }
    Ok(())
}

fn replace_experts(section: &ModelSection, model: &mut Model) -> Result<(), WorkloadFileError> {
    let has_kind = matches!(model.kind, ModelKind::Moe | ModelKind::MoeEncdec);
    let stated = sizes(section).into_iter().skip(8).take(5).find(|(_, size)| size.is_some());
    if stated.is_none() && (model.experts.is_some() || !has_kind) {
        return Ok(());
    }
    let base = model.experts;
    let required =
        |key: &'static str, value: Option<u32>| value.ok_or_else(|| missing(key, "a mixture of experts needs it"));
    let experts = whole("model.experts", section.experts.as_ref(), EXPERTS)?.or(base.map(|base| base.experts));
    let experts = required("model.experts", experts)?;
    let each = whole("model.experts_per_token", section.experts_per_token.as_ref(), EXPERTS)?
        .or(base.map(|base| base.experts_per_token));
    let experts_per_token = required("model.experts_per_token", each)?;
    if experts_per_token > experts {
        return Err(invalid(
            "model.experts_per_token",
            format!("{experts_per_token} is more than the {experts} experts there are"),
        ));
    }
    let width = whole("model.expert_ffn_hidden", section.expert_ffn_hidden.as_ref(), WIDTH)?;
    let shared = whole("model.shared_experts", section.shared_experts.as_ref(), 0..=*EXPERTS.end())?;
    let dense_layers = whole("model.dense_layers", section.dense_layers.as_ref(), 0..=model.layers)?;
    model.kind = match model.kind {
        ModelKind::Decoder | ModelKind::Moe => ModelKind::Moe,
        ModelKind::Encdec | ModelKind::MoeEncdec => ModelKind::MoeEncdec,
        _ => return Err(invalid(stated.map_or("model.experts", |(key, _)| key), "this kind of model has no experts")),
    };
    model.experts = Some(Experts {
        experts,
        experts_per_token,
        shared_experts: shared.or(base.map(|base| base.shared_experts)).unwrap_or(0),
        ffn_hidden: width.or(base.map(|base| base.ffn_hidden)).unwrap_or(model.ffn_hidden),
        dense_layers: dense_layers.or(base.map(|base| base.dense_layers)).unwrap_or(0),
    });
    Ok(())
}

/// Stated parameters, which must be near those of the sizes.
fn stated_parameters(section: &ModelSection, model: &Model) -> Result<Option<f64>, WorkloadFileError> {
    let Some(parameters) = count("model.parameters", section.parameters.as_ref())? else { return Ok(None) };
    let counted = model.counted_parameters();
    if parameters > PARAMETERS_FACTOR * counted || parameters < counted / PARAMETERS_FACTOR {
        let why = format!("{} does not match the sizes, which give {}", short_count(parameters), short_count(counted));
        return Err(invalid("model.parameters", why));
    }
    Ok(Some(parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(toml: &str) -> Result<(Model, Vec<Assumption>), WorkloadFileError> {
        let file = crate::file::WorkloadFile::parse(toml)?;
        let mut assumed = Vec::new();
        let network = resolve(&file.model, &Models::embedded().unwrap(), None, &mut assumed)?;
        Ok((network.model, assumed))
    }

    fn refused(toml: &str) -> String {
        resolved(toml).unwrap_err().to_string()
    }

    #[test]
    fn a_preset_takes_single_sizes() {
        let (whole, assumed) = resolved("model.preset = \"llama-3.1-8b\"").unwrap();
        assert!(assumed.is_empty(), "{assumed:?}");
        let (half, assumed) = resolved("model = { preset = \"llama-3.1-8b\", layers = 16 }").unwrap();
        assert_eq!((half.layers, half.hidden, half.kv_heads), (16, 4096, 8));
        assert!(half.parameters < 0.6 * whole.parameters && half.parameters > 0.5 * whole.parameters);
        assert_eq!(assumed, [Assumption::Parameters { parameters: half.parameters, replaces_own: true }]);
        assert_eq!(short_count(half.parameters), "4.54B");
        let (wide, _) = resolved("model = { preset = \"llama-3.1-8b\", heads = 16 }").unwrap();
        assert_eq!((wide.head_dim, wide.kv_heads), (256, 8));
        let (mixed, _) = resolved("model = { preset = \"llama-3.1-8b\", experts = 8, experts_per_token = 2 }").unwrap();
        assert_eq!((mixed.kind, mixed.experts.unwrap().ffn_hidden), (ModelKind::Moe, 14336));
    }

    #[test]
    fn sizes_alone_make_a_model() {
        let toml = "model = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn_hidden = 14336, vocab = \"128_256\", parameters = \"8.03B\" }";
        let (model, assumed) = resolved(toml).unwrap();
        assert_eq!((model.head_dim, model.kind, model.parameters), (128, ModelKind::Decoder, 8.03e9));
        assert_eq!(
            assumed,
            [
                Assumption::ModelKind { model_kind: ModelKind::Decoder },
                Assumption::Mlp { mlp: MlpKind::Glu },
                Assumption::Norm { norm: NormKind::Rms },
                Assumption::TiedEmbeddings { tied: false },
                Assumption::HeadDim { elements: 128 },
            ]
        );
        let moe = "model = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn_hidden = 14336, vocab = 32000, experts = 8, experts_per_token = 2 }";
        let (model, _) = resolved(moe).unwrap();
        assert!((model.parameters / 46.7e9 - 1.0).abs() < 0.01, "{}", model.parameters);
    }

    #[test]
    fn a_model_nearly_named_is_suggested() {
        let suggestion = |name: &str| match resolved(&format!("model.preset = \"{name}\"")) {
            Err(WorkloadFileError::UnknownModel { suggestion, .. }) => suggestion,
            other => panic!("{other:?}"),
        };
        assert_eq!(suggestion("llama-31-8b").as_deref(), Some("llama-3.1-8b"));
        assert_eq!(suggestion("resnet5").as_deref(), Some("resnet-50"));
        assert_eq!(suggestion(&"z".repeat(100_000)), None);
    }

    #[test]
    fn impossible_models_are_refused_by_key() {
        let sizes = "layers = 32, hidden = 4096, heads = 32, ffn_hidden = 14336, vocab = 32000";
        for (toml, message) in [
            (
                String::new(),
                "`model.preset` is missing: name a model, or state `config`, the sizes, or `parameters` alone",
            ),
            ("model.preset = \"llama-31-8b\"".to_owned(), "no model is called `llama-31-8b`"),
            (
                "model = { preset = \"gpt-2\", config = \"c.json\" }".to_owned(),
                "`model.preset` and `model.config` exclude each other",
            ),
            (
                "model = { preset = \"gpt-2\", kind = \"vit\" }".to_owned(),
                "`model.preset` and `model.kind` exclude each other",
            ),
            ("model.config = \"c.json\"".to_owned(), "`model.config` is missing: `c.json` was not read"),
            (
                "model = { preset = \"gpt-2\", layers = 0 }".to_owned(),
                "`model.layers`: `0` is not a whole number from 1 to 10000",
            ),
            ("model = { preset = \"gpt-2\", kv_heads = 5 }".to_owned(), "`model.kv_heads`: 5 does not divide 12 heads"),
            (
                "model = { preset = \"gpt-2\", hidden = 1001 }".to_owned(),
                "`model.hidden`: 1001 is not a multiple of 12 heads; state head_dim",
            ),
            (
                "model = { preset = \"deepseek-v3\", layers = 2 }".to_owned(),
                "`model.dense_layers`: 3 of 2 layers cannot be dense",
            ),
            (
                "model = { preset = \"gpt-2\", shared_experts = 1 }".to_owned(),
                "`model.experts` is missing: a mixture of experts needs it",
            ),
            (
                "model = { preset = \"resnet-50\", layers = 3 }".to_owned(),
                "`model.layers`: `resnet-50` is not built of transformer layers, so it has no such size",
            ),
            (
                "model = { preset = \"gpt-2\", parameters = \"7B\" }".to_owned(),
                "`model.parameters`: 7.00B does not match the sizes, which give 123.53M",
            ),
            (
                "model.layers = 3".to_owned(),
                "`model.hidden` is missing: a model without `preset` or `config` needs its sizes",
            ),
            (
                format!("model = {{ kind = \"cnn\", {sizes} }}"),
                "`model.kind`: sizes describe only transformers; of another model state `parameters` and `flops_per_sample`",
            ),
            (
                format!("model = {{ kind = \"encdec\", {sizes} }}"),
                "`model.encoder_layers` is missing: a model without `preset` or `config` needs its sizes",
            ),
            (
                format!("model = {{ experts = 4, experts_per_token = 8, {sizes} }}"),
                "`model.experts_per_token`: 8 is more than the 4 experts there are",
            ),
        ] {
            assert_eq!(refused(&toml), message, "{toml}");
        }
    }
}
