//! Families that are not transformers: arithmetic, memory traffic and host time per sample, fitted on published throughput.
//!
//! `step = m (b (F / rate + traffic / bandwidth) + host) + optimizer + reduction`; F and traffic are of forward and backward.
//! Rates are limited by the card's power: leaving that out doubles the error on unseen cards.

use crate::constants::Constants;
use crate::device::DeviceRates;
use crate::machine::{Machine, PCIE_COPY_SHARE};
use crate::memory::adapter_parameters;
use crate::setting::Setting;
use gpuplan_hardware::GpuLink;
use gpuplan_workload::{Model, ModelKind, Training};

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
    /// Forward FLOPs a pixel of the measured model, so that a sibling can be scaled (catalogs/models.toml).
    forward_flops_per_pixel: f64,
    /// Elements kept for the backward pass, over elements moved.
    kept_share: f64,
}

/// Activations of convolutions kept over elements moved: ResNet-50 keeps 11.1M convolution and 11.1M normalisation
/// outputs of 204M elements moved.
const KEPT_SHARE: f64 = 0.109;
/// The same for diffusion UNets, judged: no row says.
const KEPT_SHARE_DIFFUSION: f64 = 0.03;
/// Optimizer traffic per parameter. Bytes; a prior.
const OPTIMIZER_BYTES: f64 = 32.0;

/// Why a family cannot be estimated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no throughput model for `{name}` ({kind:?})")]
pub struct UnknownFamily {
    pub name: String,
    pub kind: ModelKind,
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
    pub activation_bytes: f64,
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
    let family = family(model, c)?;
    let element_bytes = rates.element_bytes;
    // Little's law: a multiprocessor holds so many bytes in flight, so bandwidth per multiprocessor has diminishing returns.
    let each = rates.memory_bandwidth / rates.multiprocessors;
    let bandwidth = rates.memory_bandwidth * c.convolution_bandwidth / (1.0 + each / c.multiprocessor_bandwidth);
    let rate = convolution_rate(c, rates);
    let side = f64::from(training.sequence_length);
    let area = if side > 0.0 && family.side > 0.0 { (side / family.side).powi(2) } else { 1.0 };
    let scale = area * sibling_scale(model, &family);
    // A frozen base has no weight gradients: a third of the arithmetic, forward and backward.
    let computed = if training.task.has_adapters() { 2.0 / 3.0 } else { 1.0 };
    let arithmetic = micro_batch * family.flops * scale * computed / rate;
    let traffic = micro_batch * element_bytes * family.elements * scale / bandwidth;
    let host = family.host_seconds * rates.host_time;
    let busy = (arithmetic + traffic + host) * micro_steps;
    let loading = micro_batch * micro_steps / family.loader_rate;
    let fed = fed(busy, loading);
    let adapters = training.lora.as_ref().filter(|_| training.task.has_adapters());
    let trained = adapters.map_or(model.parameters, |lora| adapter_parameters(model, lora, 0.0, 1.0));
    let optimizer = OPTIMIZER_BYTES * trained / bandwidth;
    let synchronization = training.synchronization;
    let sent = synchronization.gradient_compression * f64::from(synchronization.local_steps);
    let reduction = reduction(trained, machine, setting.gpus(), c) / sent;
    Ok(VisionStep {
        arithmetic: arithmetic * micro_steps,
        traffic: traffic * micro_steps,
        host: host * micro_steps,
        input_wait: fed - busy,
        reduction,
        optimizer,
        total: fed + optimizer + reduction,
        activation_bytes: micro_batch * element_bytes * family.elements * scale * family.kept_share,
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
            forward_flops_per_pixel: 8.178e9 / (224.0 * 224.0),
            kept_share: KEPT_SHARE,
        }),
        ModelKind::CnnDetection => Ok(Family {
            flops: c.ssd_flops,
            elements: c.ssd_elements,
            host_seconds: c.ssd_host_seconds,
            loader_rate: c.ssd_loader_rate,
            side: 300.0,
            forward_flops_per_pixel: 40.302e9 / (300.0 * 300.0),
            kept_share: KEPT_SHARE,
        }),
        // One GPU type, so the split between FLOPs and bytes is not identified.
        ModelKind::Diffusion => Ok(Family {
            flops: c.diffusion_flops,
            elements: c.diffusion_elements,
            host_seconds: c.diffusion_host_seconds,
            loader_rate: f64::INFINITY,
            side: 256.0,
            forward_flops_per_pixel: 804.257e9 / (512.0 * 512.0),
            kept_share: KEPT_SHARE_DIFFUSION,
        }),
        _ => Err(UnknownFamily { name: model.name.clone(), kind: model.kind }),
    }
}

/// A sibling of the measured model does proportionally more work.
fn sibling_scale(model: &Model, family: &Family) -> f64 {
    let pixels = f64::from(model.sample_side).powi(2);
    if pixels > 0.0 && model.forward_flops_per_sample > 0.0 {
        model.forward_flops_per_sample / pixels / family.forward_flops_per_pixel
    } else {
        1.0
    }
}

/// Gradient all-reduce in fp32: rings inside a machine, then between machines.
fn reduction(parameters: f64, machine: &Machine, ranks: u32, c: &Constants) -> f64 {
    if ranks <= 1 {
        return 0.0;
    }
    let bytes = 4.0 * parameters;
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
