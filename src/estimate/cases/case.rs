//! A case of `estimate --cases`: what a published run states, every key optional, and what is filled in for the rest.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::cases::defaults::{self, Request};
use crate::cases::training::CaseTraining;
use crate::cases::within::{note, positive, within};
use crate::machine::{Machine, host_copy, usual_network};
use gpuplan_hardware::{Gpu, GpuLink, Hardware, MeasuredLinks};
use gpuplan_units::{Bytes, BytesPerSecond};
use gpuplan_workload::catalog::ModelRow;
use gpuplan_workload::model::Experts;
use gpuplan_workload::{Layout, Measure, MlpKind, Model, ModelKind, Models, NormKind, Shard, Task, Training};

/// A training or inference run to estimate: a model, its hardware, and how it is trained. What is absent is chosen.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct EstimateCase {
    #[serde(default)]
    pub model: CaseModel,
    #[serde(default)]
    pub hardware: CaseHardware,
    #[serde(default)]
    pub training: CaseTraining,
    #[serde(default)]
    pub layout: CaseLayout,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CaseModel {
    pub name: Option<String>,
    pub kind: Option<ModelKind>,
    pub params: Option<f64>,
    pub layers: Option<u32>,
    pub encoder_layers: Option<u32>,
    /// Tokens that the encoder sees of a sample; else those of the named model, else as many as the decoder.
    pub encoder_tokens: Option<u32>,
    pub hidden: Option<u32>,
    pub heads: Option<u32>,
    pub kv_heads: Option<u32>,
    pub ffn_hidden: Option<u32>,
    pub vocab: Option<u32>,
    pub head_dim: Option<u32>,
    pub mlp: Option<MlpKind>,
    pub norm: Option<NormKind>,
    pub parallel_residual: Option<bool>,
    pub attention_softcap: Option<bool>,
    pub tied_embeddings: Option<bool>,
    pub experts: Option<u32>,
    pub experts_per_token: Option<u32>,
    pub shared_experts: Option<u32>,
    pub expert_ffn_hidden: Option<u32>,
    pub dense_layers: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CaseHardware {
    pub gpu: Option<String>,
    pub gpus: Option<u32>,
    pub gpus_per_node: Option<u32>,
    pub gpu_link: Option<String>,
    pub node_network_gbit_per_s: Option<f64>,
    pub gpu_memory_gb: Option<f64>,
    pub gpu_memory_gb_per_s: Option<f64>,
    pub gpu_power_watts: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CaseLayout {
    pub data: Option<u32>,
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    pub context: Option<u32>,
    pub expert: Option<u32>,
    pub virtual_pipeline: Option<u32>,
    pub shard: Option<Shard>,
    pub shard_group: Option<u32>,
    pub sequence_parallel: Option<bool>,
}

/// A case with everything the estimate needs, and what had to be assumed.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub model: Model,
    pub training: Training,
    pub gpu: Gpu,
    pub gpus_per_node: u32,
    pub link: GpuLink,
    pub network: Option<BytesPerSecond>,
    pub memory: Bytes,
    pub measure: Measure,
    pub request: Request,
    pub assumed: Vec<String>,
}

/// Sizes beyond these are a slip or an attack: a thousand times the largest published run.
const LARGEST_GPUS: u32 = 1 << 24;
const LARGEST_WIDTH: u32 = 1 << 22;

impl EstimateCase {
    /// Fills the gaps. The error is the text of `unsupported`.
    pub fn prepare(&self, hardware: &Hardware, models: &Models) -> Result<Prepared, String> {
        let mut assumed = Vec::new();
        let task = self.training.task.unwrap_or_else(|| note(&mut assumed, "task", "pretrain", Task::Pretrain));
        let (mut gpu, chip) = self.gpu(hardware)?;
        let model = self.model(models, &mut assumed)?;
        let gpus = within("gpus", self.hardware.gpus.unwrap_or(1), LARGEST_GPUS)?;
        let gpus_per_node =
            within("gpus_per_node", self.hardware.gpus_per_node.unwrap_or_else(|| gpus.min(8)), LARGEST_GPUS)?;
        let link = self.link(hardware, &gpu, gpus_per_node.min(gpus))?;
        let label_gb = self.hardware.gpu_memory_gb.map(|gb| positive("gpu_memory_gb", gb, 1e12)).transpose()?;
        let memory = match label_gb {
            // The number on the box: what software sees is the catalog's business when the box is the catalog's.
            Some(gb) if (gb / gpu.memory_label_gb - 1.0).abs() > 0.08 => Bytes::from_gb(gb),
            _ => chip,
        };
        if let Some(rate) = self.hardware.gpu_memory_gb_per_s {
            gpu.memory_bandwidth_gb_per_s = positive("gpu_memory_gb_per_s", rate, 1e12)?;
            // The measured stream rate is of the catalog's part, not of the stated one.
            gpu.stream_gb_per_s = None;
        }
        if let Some(watts) = self.hardware.gpu_power_watts {
            gpu.tdp_watts = positive("gpu_power_watts", watts, 1e12)?;
        }
        let training = self.training.resolve(task, &gpu, &model, self.native_tokens(models), &mut assumed)?;
        let request = self.request(gpus, &training, &mut assumed)?;
        let network = self.hardware.node_network_gbit_per_s;
        let network = network.map(|rate| positive("node_network_gbit_per_s", rate, 1e12)).transpose()?;
        Ok(Prepared {
            model,
            training,
            gpu,
            gpus_per_node,
            link,
            network: network.map(BytesPerSecond::from_gbit),
            memory,
            measure: self.training.measure.unwrap_or_default(),
            request,
            assumed,
        })
    }

    fn gpu(&self, hardware: &Hardware) -> Result<(Gpu, Bytes), String> {
        let name = self.hardware.gpu.as_deref().ok_or("hardware.gpu is missing")?;
        let id = hardware.find_gpu(name).ok_or_else(|| unknown_gpu(hardware, name))?;
        let gpu = hardware.gpu(id).clone();
        let memory = gpu.memory();
        Ok((gpu, memory))
    }

    fn link(&self, hardware: &Hardware, gpu: &Gpu, gpus_in_node: u32) -> Result<GpuLink, String> {
        let named = match self.hardware.gpu_link.as_deref() {
            None => gpu.link.as_str(),
            Some("pcie") => {
                return Ok(if gpus_in_node > 1 {
                    GpuLink::Pcie { bandwidth: gpu.pcie_bandwidth() }
                } else {
                    GpuLink::Single
                });
            }
            Some("pcie-slow") => {
                let bandwidth = BytesPerSecond(gpu.pcie_bandwidth().0 / 4.0);
                return Ok(if gpus_in_node > 1 { GpuLink::Pcie { bandwidth } } else { GpuLink::Single });
            }
            Some(stated) => stated,
        };
        hardware.gpu_link(gpu, named, gpus_in_node)
    }

    /// Patches and class token of a named image transformer.
    fn native_tokens(&self, models: &Models) -> Option<u32> {
        self.row(models)?.native_tokens()
    }

    /// The model that is named. Whoever states the shape names anything, so that only a name without one is looked up by its spelling.
    fn row<'a>(&self, models: &'a Models) -> Option<&'a ModelRow> {
        let CaseModel { name, kind, layers, hidden, .. } = &self.model;
        let name = name.as_deref()?;
        let has_shape = kind.is_some() && layers.is_some() && hidden.is_some();
        models.find(name).or_else(|| if has_shape { None } else { Some(models.named(name)?.0) })
    }

    fn model(&self, models: &Models, assumed: &mut Vec<String>) -> Result<Model, String> {
        let stated = &self.model;
        let parameters = stated.params.map(|count| positive("params", count, 1e16)).transpose()?;
        let name = stated.name.clone().unwrap_or_default();
        let preset = self.row(models).map(ModelRow::to_model);
        let kind = stated
            .kind
            .or(preset.as_ref().map(|model| model.kind))
            .ok_or("model.kind is missing and the name is unknown")?;
        if !kind.is_transformer() {
            let mut model = preset.ok_or_else(|| format!("no sizes for `{name}`"))?;
            model.kind = kind;
            return Ok(model);
        }
        let (Some(layers), Some(hidden)) = (stated.layers, stated.hidden) else {
            let preset = preset.ok_or_else(|| format!("`{name}` has neither layers and hidden nor a known name"))?;
            assumed.push(format!("model={}", preset.name));
            return self.as_stated(preset);
        };
        let (layers, hidden) = (within("layers", layers, 100_000)?, within("hidden", hidden, LARGEST_WIDTH)?);
        let heads = within("heads", stated.heads.unwrap_or_else(|| (hidden / 128).max(1)), LARGEST_WIDTH)?;
        let kv_heads = within("kv_heads", stated.kv_heads.unwrap_or(heads), heads)?;
        let ffn_hidden =
            within("ffn_hidden", stated.ffn_hidden.unwrap_or_else(|| hidden.saturating_mul(4)), LARGEST_WIDTH)?;
        let encdec = matches!(kind, ModelKind::Encdec | ModelKind::MoeEncdec);
        let counts_both = kind == ModelKind::MoeEncdec && stated.encoder_layers.is_none();
        let mut model = Model {
            name,
            kind,
            parameters: 0.0,
            layers: if counts_both { layers.div_ceil(2) } else { layers },
            hidden,
            heads,
            kv_heads,
            head_dim: within("head_dim", stated.head_dim.unwrap_or((hidden / heads).max(1)), LARGEST_WIDTH)?,
            ffn_hidden,
            vocab: stated.vocab.unwrap_or_else(|| note(assumed, "vocab", "50000", 50_000)).min(1 << 28),
            mlp: stated.mlp.unwrap_or(MlpKind::Gelu),
            norm: stated.norm.unwrap_or(NormKind::Layer),
            parallel_residual: stated.parallel_residual.unwrap_or(false),
            attention_softcap: stated.attention_softcap.unwrap_or(false),
            tied_embeddings: stated.tied_embeddings.unwrap_or(true),
            experts: self.experts(kind, ffn_hidden),
            latent: None,
            encoder_layers: match (encdec, stated.encoder_layers) {
                (false, _) => 0,
                (true, Some(stated)) => stated,
                // Switch counts encoder and decoder layers together, T5 each for itself.
                (true, None) if kind == ModelKind::MoeEncdec => layers / 2,
                (true, None) => layers,
            },
            encoder_tokens: stated
                .encoder_tokens
                .or(preset.as_ref().map(|model| model.encoder_tokens))
                .filter(|_| encdec)
                .unwrap_or(0)
                .min(1 << 24),
            stack: None,
            max_context: preset.as_ref().map_or(0, |model| model.max_context),
            ..Model::blank(kind, MlpKind::Gelu, NormKind::Layer, true)
        };
        self.infer_open_forms(&mut model, parameters);
        Ok(model)
    }

    /// A model of the catalog with what the case states otherwise of its shape: a vocabulary or a width of one's own.
    fn as_stated(&self, preset: Model) -> Result<Model, String> {
        let stated = &self.model;
        let size =
            |name, value: Option<u32>, preset| value.map_or(Ok(preset), |size| within(name, size, LARGEST_WIDTH));
        let heads = size("heads", stated.heads, preset.heads)?;
        let encoder_tokens = stated.encoder_tokens.filter(|_| preset.encoder_layers > 0);
        let layers = stated.layers.map_or(Ok(preset.layers), |layers| within("layers", layers, 100_000))?;
        let model = Model {
            layers,
            experts: preset.experts.map(|experts| self.experts_as_stated(experts, layers)).transpose()?,
            hidden: size("hidden", stated.hidden, preset.hidden)?,
            heads,
            kv_heads: stated.kv_heads.map_or(Ok(preset.kv_heads), |kv_heads| within("kv_heads", kv_heads, heads))?,
            head_dim: size("head_dim", stated.head_dim, preset.head_dim)?,
            ffn_hidden: size("ffn_hidden", stated.ffn_hidden, preset.ffn_hidden)?,
            vocab: stated.vocab.map_or(preset.vocab, |vocab| vocab.min(1 << 28)),
            tied_embeddings: stated.tied_embeddings.unwrap_or(preset.tied_embeddings),
            encoder_tokens: encoder_tokens.map_or(preset.encoder_tokens, |tokens| tokens.min(1 << 24)),
            ..preset.clone()
        };
        // What the catalog counts beside the shape stays.
        let parameters = preset.parameters + model.counted_parameters() - preset.counted_parameters();
        Ok(Model { parameters, ..model })
    }

    /// The same of the experts of a mixture. The first layers are the dense ones, so that fewer layers may leave no others.
    fn experts_as_stated(&self, preset: Experts, layers: u32) -> Result<Experts, String> {
        let stated = &self.model;
        let count =
            |name, value: Option<u32>, preset, most| value.map_or(Ok(preset), |count| within(name, count, most));
        let experts = count("experts", stated.experts, preset.experts, LARGEST_WIDTH)?;
        let dense_layers = stated.dense_layers.unwrap_or(preset.dense_layers.min(layers));
        if dense_layers > layers {
            return Err(format!("model.dense_layers: {dense_layers} of {layers} layers cannot be dense"));
        }
        Ok(Experts {
            experts,
            experts_per_token: count("experts_per_token", stated.experts_per_token, preset.experts_per_token, experts)?,
            shared_experts: stated.shared_experts.unwrap_or(preset.shared_experts),
            ffn_hidden: count("expert_ffn_hidden", stated.expert_ffn_hidden, preset.ffn_hidden, LARGEST_WIDTH)?,
            dense_layers,
        })
    }

    /// A mixture whose experts nobody counted: as many as the name says (`-4e`), else eight. A token's work is that of two
    /// experts: top-2 routing, or top-1 with the capacity factor 2 of Switch (Fedus et al. 2021, arXiv 2101.03961).
    fn experts(&self, kind: ModelKind, ffn_hidden: u32) -> Option<Experts> {
        let stated = &self.model;
        let named = stated.name.as_deref().and_then(|name| name.rsplit('-').next()?.strip_suffix('e')?.parse().ok());
        let open = matches!(kind, ModelKind::Moe | ModelKind::MoeEncdec).then(|| named.unwrap_or(8));
        stated.experts.or(open).filter(|experts| *experts > 1).map(|experts| Experts {
            experts,
            experts_per_token: stated.experts_per_token.unwrap_or(2).clamp(1, experts),
            shared_experts: stated.shared_experts.unwrap_or(0),
            ffn_hidden: stated.expert_ffn_hidden.unwrap_or(ffn_hidden),
            // Switch replaces every other feed-forward block.
            dense_layers: stated.dense_layers.unwrap_or(if kind == ModelKind::MoeEncdec {
                stated.layers.unwrap_or(0) / 4
            } else {
                0
            }),
        })
    }

    /// Gate and tied embeddings, where not stated, are whichever closed form is nearest to the stated parameter count.
    fn infer_open_forms(&self, model: &mut Model, parameters: Option<f64>) {
        let Some(parameters) = parameters else {
            model.parameters = model.counted_parameters();
            return;
        };
        model.parameters = parameters;
        let mut nearest = f64::INFINITY;
        let (mlp, tied) = (self.model.mlp, self.model.tied_embeddings);
        for form in [MlpKind::Gelu, MlpKind::Glu] {
            for ties in [true, false] {
                if mlp.is_some_and(|stated| stated != form) || tied.is_some_and(|stated| stated != ties) {
                    continue;
                }
                let candidate = Model { mlp: form, tied_embeddings: ties, ..model.clone() };
                // A gate usually comes with a width other than 4h.
                let odd = (form == MlpKind::Glu) == (model.ffn_hidden == model.hidden.saturating_mul(4));
                let distance = (candidate.counted_parameters() / parameters).ln().abs()
                    + if odd && mlp.is_none() { 0.1 } else { 0.0 };
                if distance < nearest {
                    nearest = distance;
                    (model.mlp, model.tied_embeddings) = (form, ties);
                }
            }
        }
    }

    fn request(&self, gpus: u32, training: &Training, assumed: &mut Vec<String>) -> Result<Request, String> {
        let stated = &self.layout;
        let degree = |name: &str, value: Option<u32>| within(name, value.unwrap_or(1), LARGEST_GPUS);
        let (tensor, pipeline, context) = (
            degree("tensor", stated.tensor)?,
            degree("pipeline", stated.pipeline)?,
            degree("context", stated.context)?,
        );
        let open = stated.data.is_none() && stated.tensor.is_none() && stated.pipeline.is_none() && gpus > 8;
        let split = u64::from(tensor) * u64::from(pipeline) * u64::from(context);
        let layout = Layout {
            data: within("data", stated.data.unwrap_or((u64::from(gpus) / split).max(1) as u32), LARGEST_GPUS)?,
            tensor,
            pipeline,
            context,
            expert: degree("expert", stated.expert)?,
            virtual_pipeline: degree("virtual_pipeline", stated.virtual_pipeline)?,
            shard: stated.shard.unwrap_or_default(),
            shard_group: stated.shard_group,
            sequence_parallel: stated
                .sequence_parallel
                .unwrap_or_else(|| defaults::sequence_parallel(training, tensor, assumed)),
        };
        let batch = self.training.global_batch;
        if let Some(batch) = batch.filter(|batch| !(batch.is_finite() && (1.0..1e12).contains(batch))) {
            return Err(format!("global_batch={batch} is not a number of sequences from 1 to 1e12; the nearest is 1"));
        }
        if stated.data.is_none() && !u64::from(gpus).is_multiple_of(split) {
            let nearest = u64::from(gpus).next_multiple_of(split);
            return Err(format!(
                "tensor x pipeline x context = {split} does not divide gpus={gpus}; the nearest is gpus={nearest}"
            ));
        }
        // Degrees that are all stated say how many GPUs there are.
        if stated.data.is_some() && layout.gpus() != u64::from(gpus) {
            assumed.push(format!("gpus={}", layout.gpus()));
        }
        Ok(Request {
            gpus,
            layout: (!open).then_some(layout),
            is_shard_open: stated.shard.is_none() && layout.copies() > 1 && (stated.data.is_some() || split > 1),
            virtual_pipeline: stated.virtual_pipeline,
            expert: stated.expert,
            micro_batch: self.training.micro_batch.map(|micro| within("micro_batch", micro, 1 << 24)).transpose()?,
            recompute: self.training.recompute,
            global_batch: batch,
            grad_accumulation: self
                .training
                .grad_accumulation
                .map(|steps| within("grad_accumulation", steps, 1 << 24))
                .transpose()?,
        })
    }
}

/// A family of chips (`h200`) has more than one set of sizes, so its members are named.
fn unknown_gpu(hardware: &Hardware, name: &str) -> String {
    let members = hardware.gpus().iter().filter(|gpu| gpu.family.eq_ignore_ascii_case(name)).map(|gpu| gpu.id.as_str());
    match members.collect::<Vec<_>>().as_slice() {
        [] => format!("unknown GPU `{name}`; `gpuplan catalog gpus` lists them"),
        members => format!("GPU `{name}` is a family; state one of {}", members.join(", ")),
    }
}

impl Prepared {
    pub fn machine(&self) -> Machine<'_> {
        Machine {
            gpu: &self.gpu,
            memory: self.memory,
            gpus_per_node: self.gpus_per_node,
            card_share: 1.0,
            link: self.link,
            sheet_link: self.link,
            host_copy: host_copy(&self.gpu, MeasuredLinks::default()),
            node_network: self.network.unwrap_or_else(|| usual_network(&self.gpu)),
            network_assumed: self.network.is_none(),
            has_fabric: true,
        }
    }
}
