//! Families that are not transformers: arithmetic, memory traffic and host time per sample, fitted on published throughput.
//!
//! `step = m (b (F / rate + traffic / bandwidth) + host) + optimizer + reduction`; F and traffic are of forward and backward.
//! Rates are limited by the card's power: leaving that out doubles the error on unseen cards. A sibling of a measured net computes as its
//! FLOPs say, and moves as the elements say that its operators write.

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::machine::{Machine, PCIE_COPY_SHARE};
use crate::memory::adapter_parameters;
use crate::setting::Setting;
use gpuplan_hardware::GpuLink;
use gpuplan_workload::model::ConvolutionNorm;
use gpuplan_workload::model::pipeline::CLIP_TOKENS;
use gpuplan_workload::{Model, ModelKind, Shard, Training};

/// One family, fitted on single-GPU rows; a sample is an image, a sequence or an utterance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Family {
    /// FLOPs of forward and backward at the native size.
    flops: f64,
    /// Elements moved by memory-bound kernels.
    elements: f64,
    /// Host seconds of a micro-step.
    host_seconds: f64,
    /// Samples a second that one loader process delivers; infinite where no row shows a limit.
    loader_rate: f64,
    /// Native image side (0: not an image).
    side: f64,
    /// Forward FLOPs of the measured model at that side, so that a sibling can be scaled (catalogs/models.toml).
    forward_flops: f64,
    /// Elements kept for the backward pass, over elements moved.
    kept_share: f64,
}

/// Activations of convolutions kept over elements moved: ResNet-50 keeps 11.1M convolution and 11.1M normalisation
/// outputs of 204M elements moved.
const KEPT_SHARE: f64 = 0.109;
/// The same for diffusion UNets, judged: no row says.
const KEPT_SHARE_DIFFUSION: f64 = 0.03;
/// Elements that operators of ResNet-50 write for one image (catalogs/models.toml).
const RESNET_WRITTEN: f64 = 11.11e6;
/// A frozen base has no weight gradients: a third of the arithmetic, forward and backward.
fn computed(training: &Training) -> f64 {
    if training.task.has_adapters() { 2.0 * FORWARD_SHARE } else { 1.0 }
}

/// Bytes of activations that a rank keeps for the backward pass of a micro-batch: of a U-Net whose stages are known its own, of other networks
/// in proportion to what they move.
pub fn kept(c: &Constants, model: &Model, training: &Training, rates: &DeviceRates, setting: &Setting) -> f64 {
    if !training.task.has_backward() {
        return 0.0;
    }
    let batch = f64::from(setting.micro_batch);
    let u_net = model.pipeline.as_ref().and_then(|pipeline| pipeline.u_net.as_ref());
    let elements = match u_net.filter(|_| model.kind == ModelKind::Diffusion) {
        Some(u_net) => {
            let work = u_net.work(f64::from(training.sequence_length), f64::from(CLIP_TOKENS));
            batch
                * match (setting.recomputes_layers(), training.task.has_adapters()) {
                    (true, _) => work.inputs + work.largest,
                    (false, true) => work.kept_frozen,
                    (false, false) => work.kept,
                }
        }
        None => pass(c, model, training, rates, batch, training.kernels.channels_last).map_or(0.0, |pass| pass.kept),
    };
    rates.element_bytes * elements
}

/// Elements that a training step moves for each that is written, over those of a net with batch norms: AMP computes layer norms and what follows
/// them in 32 bits (prior 1.3 +- 0.3), and nets without norms have two operators of three (counted 11 of 19 passes, prior 0.6 +- 0.15).
/// This and the next by `benchmarks/images/fit.py`.
const LAYER_NORMS: f64 = 1.33;
const NO_NORMS: f64 = 0.60;
/// Rate of convolutions whose data lies channels-last in 16 bits over that of planar data, which is copied before matrix units read it
/// (prior 1.15 +- 0.2).
const CHANNELS_LAST_RATE: f64 = 1.08;
/// Blocks that the allocator holds beside live activations of samples of one size, over them: the allocator rounds up. Judged.
pub const RESERVED: f64 = 1.04;
/// A forward pass over forward and backward, which is what recomputing adds.
const FORWARD_SHARE: f64 = 1.0 / BOTH_WAYS;
/// Bytes of a weight as ranks gather it.
const GATHERED_BYTES: f64 = 2.0;
/// Optimizer traffic per parameter. Bytes; a prior.
const OPTIMIZER_BYTES: f64 = 32.0;

/// Why a family cannot be estimated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no throughput model for `{name}` ({kind:?})")]
pub struct UnknownFamily {
    pub name: String,
    pub kind: ModelKind,
}

/// FLOPs of a forward and a backward pass over those of the forward one: gradients of inputs and of weights take as many each.
const BOTH_WAYS: f64 = 3.0;

/// What a batch computes and moves, forward and backward, on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Seconds of convolutions and products.
    pub arithmetic: f64,
    /// Seconds of them at the peak of the units. What Winograd kernels save of it is never counted beyond.
    pub least: f64,
    /// Seconds in which memory moves what they and all other operators read and write.
    pub traffic: f64,
    /// Elements that the operators of the forward pass write.
    pub written: f64,
    /// Elements kept for the backward pass.
    pub kept: f64,
    /// Of the host.
    pub host: f64,
    /// Bytes a second that operators on activations reach.
    pub bandwidth: f64,
    /// Channels-last in 16 bits, where arithmetic and traffic of a convolution go on side by side.
    pub overlaps: bool,
}

impl Pass {
    /// A convolution takes the longer of its arithmetic and its traffic, and layers differ in which: over the layers of ResNet-50
    /// that adds up to the hypotenuse of both sums, within 1 % whichever is the larger. Planar data is copied before and after, so that one
    /// follows the other.
    fn parts(&self) -> (f64, f64) {
        if !self.overlaps {
            return (self.arithmetic, self.traffic);
        }
        overlapped(self.arithmetic, self.traffic)
    }

    /// The same with one forward pass more, where `computed` of forward and backward passes are.
    fn with_another_forward(self, computed: f64) -> Self {
        let more = 1.0 + FORWARD_SHARE / computed;
        Self {
            arithmetic: self.arithmetic * more,
            least: self.least * more,
            traffic: self.traffic * (1.0 + FORWARD_SHARE),
            host: self.host * (1.0 + FORWARD_SHARE),
            ..self
        }
    }
}

/// Whether the forward pass runs again in the backward pass, block by block.
fn recomputes(model: &Model, setting: &Setting) -> bool {
    model.kind == ModelKind::Diffusion && setting.recomputes_layers()
}

/// Both laid over each other, in their proportion.
pub fn overlapped(arithmetic: f64, traffic: f64) -> (f64, f64) {
    let part = arithmetic.hypot(traffic) / (arithmetic + traffic);
    (arithmetic * part, traffic * part)
}

/// `batch` samples. `channels_last`: as the framework lays out its data.
pub fn pass(
    c: &Constants,
    model: &Model,
    training: &Training,
    rates: &DeviceRates,
    batch: f64,
    channels_last: bool,
) -> Result<Pass, UnknownFamily> {
    let family = family(model, c)?;
    // Little's law: a multiprocessor holds so many bytes in flight, so bandwidth per multiprocessor has diminishing returns.
    let each = rates.memory_bandwidth / rates.multiprocessors;
    let bandwidth = rates.memory_bandwidth * c.convolution_bandwidth / (1.0 + each / c.multiprocessor_bandwidth);
    let overlaps = channels_last && !rates.is_single_precision && !rates.on_vector_units;
    let rate = convolution_rate(c, rates) * if overlaps { CHANNELS_LAST_RATE } else { 1.0 };
    let side = f64::from(training.sequence_length);
    let native = f64::from(model.sample_side);
    let square = |over: f64| if side > 0.0 && over > 0.0 { (side / over).powi(2) } else { 1.0 };
    // A sibling of the measured model does proportionally more work.
    let flops = if native > 0.0 && model.forward_flops_per_sample > 0.0 {
        square(native) * model.forward_flops_per_sample / family.forward_flops
    } else {
        square(family.side)
    };
    let (moved, written) = match model.forward_elements_per_sample.filter(|_| model.kind == ModelKind::Cnn) {
        Some(elements) => {
            let written = square(native) * elements / RESNET_WRITTEN;
            (written * moved_over_batch_norms(model.convolution_norm), written)
        }
        None => (flops, flops),
    };
    let computed = computed(training);
    Ok(Pass {
        arithmetic: batch * family.flops * flops * computed / rate,
        least: batch * BOTH_WAYS * family.forward_flops * flops * computed / rates.peak,
        traffic: batch * rates.element_bytes * family.elements * moved / bandwidth,
        written: batch * RESNET_WRITTEN * written,
        kept: batch * family.elements * moved * family.kept_share,
        host: family.host_seconds * rates.host_time,
        bandwidth,
        overlaps,
    })
}

/// Elements that a training step moves for each that is written, over those of a net with batch norms.
fn moved_over_batch_norms(norm: ConvolutionNorm) -> f64 {
    match norm {
        ConvolutionNorm::Batch => 1.0,
        ConvolutionNorm::Layer => LAYER_NORMS,
        ConvolutionNorm::None => NO_NORMS,
    }
}

/// Seconds of one optimizer step by part, and the memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisionStep {
    pub arithmetic: f64,
    pub traffic: f64,
    pub host: f64,
    pub input_wait: f64,
    pub reduction: f64,
    pub optimizer: f64,
    pub total: f64,
}

/// One optimizer step of a setting, whose ranks are all data-parallel.
pub fn step(
    c: &Constants,
    model: &Model,
    training: &Training,
    machine: &Machine,
    rates: &DeviceRates,
    setting: &Setting,
) -> Result<VisionStep, UnknownFamily> {
    let (micro_batch, micro_steps) = (f64::from(setting.micro_batch), setting.rank_batches());
    let once = pass(c, model, training, rates, micro_batch, training.kernels.channels_last)?;
    let pass = if recomputes(model, setting) { once.with_another_forward(computed(training)) } else { once };
    let (arithmetic, traffic) = pass.parts();
    let arithmetic = arithmetic.max(pass.least - traffic - pass.host);
    let busy = (arithmetic + traffic + pass.host) * micro_steps;
    let loading = micro_batch * micro_steps / family(model, c)?.loader_rate;
    let fed = fed(busy, loading);
    let adapters = training.lora.as_ref().filter(|_| training.task.has_adapters());
    let trained = adapters.map_or(model.parameters, |lora| adapter_parameters(model, lora, 0.0, 1.0));
    let optimizer = OPTIMIZER_BYTES * trained / pass.bandwidth;
    let synchronization = training.synchronization;
    let sent = synchronization.gradient_compression * f64::from(synchronization.local_steps);
    let gathered = if matches!(setting.layout.shard, Shard::Zero3 | Shard::Hsdp) {
        // Weights of every rank, for the forward and the backward pass; an all-reduce of as many bytes sends twice as much as a gather.
        let bytes = GATHERED_BYTES * model.parameters * 2.0 * micro_steps;
        reduction(bytes / 2.0 / REDUCED_BYTES, machine, setting.gpus(), c)
    } else {
        0.0
    };
    let reduction = reduction(trained, machine, setting.gpus(), c) / sent + gathered;
    Ok(VisionStep {
        arithmetic: arithmetic * micro_steps,
        traffic: traffic * micro_steps,
        host: pass.host * micro_steps,
        input_wait: fed - busy,
        reduction,
        optimizer,
        total: fed + optimizer + reduction,
    })
}

/// Seconds of work whose samples take `loading` to load beside it: the longer of the two, with a soft corner, since neither side
/// is always ahead of the other.
pub fn fed(busy: f64, loading: f64) -> f64 {
    (busy.powi(6) + loading.powi(6)).powf(1.0 / 6.0)
}

/// In single precision the faster of tensor cores and Winograd kernels on vector units, as cuDNN's benchmark mode picks: on
/// GeForce cards both have the same peak. What Winograd kernels save of 16-bit work on vector units is not counted beyond the peak.
fn convolution_rate(c: &Constants, rates: &DeviceRates) -> f64 {
    let winograd = rates.vector * c.convolution_vector_share;
    let tensor = rates.matmul * c.convolution_share;
    match (rates.on_vector_units, rates.is_single_precision) {
        (true, true) if rates.element_bytes < 4.0 => winograd.min(rates.peak),
        (true, true) => winograd,
        (true, false) => (rates.matmul * c.convolution_vector_share).min(rates.peak),
        (false, true) => tensor.max(winograd),
        (false, false) => tensor,
    }
}

fn family(model: &Model, c: &Constants) -> Result<Family, UnknownFamily> {
    match model.kind {
        ModelKind::Cnn => Ok(Family {
            flops: c.resnet_flops,
            elements: c.resnet_elements,
            host_seconds: c.resnet_host_seconds,
            loader_rate: c.resnet_loader_rate,
            side: 224.0,
            forward_flops: 8.178e9,
            kept_share: KEPT_SHARE,
        }),
        ModelKind::CnnDetection => Ok(Family {
            flops: c.ssd_flops,
            elements: c.ssd_elements,
            host_seconds: c.ssd_host_seconds,
            loader_rate: c.ssd_loader_rate,
            side: 300.0,
            forward_flops: 40.302e9,
            kept_share: KEPT_SHARE,
        }),
        // One GPU type, so the split between FLOPs and bytes is not identified.
        ModelKind::Diffusion => Ok(Family {
            flops: c.diffusion_flops,
            elements: c.diffusion_elements,
            host_seconds: c.diffusion_host_seconds,
            loader_rate: f64::INFINITY,
            side: 256.0,
            forward_flops: 804.257e9 / 4.0,
            kept_share: KEPT_SHARE_DIFFUSION,
        }),
        _ => Err(UnknownFamily { name: model.name.clone(), kind: model.kind }),
    }
}

/// Bytes of a gradient as ranks reduce it, in fp32.
const REDUCED_BYTES: f64 = 4.0;

/// Gradient all-reduce: rings inside a machine, then between machines.
fn reduction(parameters: f64, machine: &Machine, ranks: u32, c: &Constants) -> f64 {
    if ranks <= 1 {
        return 0.0;
    }
    let bytes = REDUCED_BYTES * parameters;
    let inside = f64::from(ranks.min(machine.gpus_per_node));
    // Fitted against what copies over PCIe reach, and against the sheet of NVLink.
    let (bus, factor) = match machine.link {
        GpuLink::Fast { bandwidth, .. } => (bandwidth.0, c.reduce_nvlink),
        GpuLink::Pcie { bandwidth } => (bandwidth.0 * PCIE_COPY_SHARE, c.reduce_pcie),
        GpuLink::Single => (f64::INFINITY, 1.0),
    };
    let mut seconds = factor * bytes * 2.0 * (inside - 1.0) / inside / bus + c.sync_seconds;
    let nodes = f64::from(ranks) / f64::from(machine.gpus_per_node);
    if nodes > 1.0 {
        // Fitted with machines of 8 x 200 Gb/s; a slower network scales it up.
        let network = machine.node_network.0.min(200e9) / 8.0;
        seconds += c.reduce_network * bytes * 2.0 * (nodes - 1.0) / nodes / network;
    }
    seconds
}

#[cfg(test)]
mod tests {
    use crate::answer::prepared_estimate;
    use crate::case::EstimateCase;
    use crate::constants::Constants;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;
    use serde_json::json;

    static IMAGES: &str = include_str!("../../../benchmarks/images/published.csv");

    /// Errors of training in the median, of nets and of transformers, on rows of which the constants of training have seen none.
    #[test]
    fn training_takes_about_as_long_as_was_published() {
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let (mut nets, mut transformers, mut said) = (Vec::new(), Vec::new(), String::new());
        let mut reader = csv::Reader::from_reader(IMAGES.as_bytes());
        for row in reader.records().map(Result::unwrap).filter(|row| &row[1] == "train") {
            let number = |index: usize| row[index].parse::<f64>().unwrap();
            let is_transformer = models.find(&row[3]).unwrap().to_model().kind.is_transformer();
            let (batch, gpus) = (number(8) as u32, number(5) as u32);
            let mut training = json!({"task": "train", "precision": row[6], "micro_batch": batch,
                "global_batch": batch * gpus, "recompute": "none"});
            if !is_transformer {
                training["sequence_length"] = json!(number(9) as u32);
                training["channels_last"] = json!(&row[7] == "channels-last");
            }
            let case = json!({"id": row[0], "model": {"name": row[3]}, "training": training,
                "hardware": {"gpu": row[4], "gpus": gpus, "gpus_per_node": gpus}});
            let case: EstimateCase = serde_json::from_value(case).unwrap();
            let prepared = case.prepare(&hardware, &models).unwrap();
            let made = prepared_estimate(Constants::embedded(), json!(row[0]), &prepared).unwrap();
            let ratio = made.samples_per_second.expected / number(10);
            said.push_str(&format!(
                "{} {} x {} {}: {:+.0} %\n",
                &row[3],
                &row[5],
                &row[4],
                &row[6],
                (ratio - 1.0) * 100.0
            ));
            if is_transformer { &mut transformers } else { &mut nets }.push((ratio - 1.0).abs());
        }
        for (kind, mut errors, most) in [("nets", nets, 0.20), ("transformers", transformers, 0.20)] {
            errors.sort_by(f64::total_cmp);
            let median = errors[errors.len() / 2];
            println!("{kind}: {} rows, median {:.1} %\n{said}", errors.len(), median * 100.0);
            assert!(median <= most, "{kind}: {median:.3}\n{said}");
        }
    }
}
