//! GPUs named on the command line, and the machine that they usually stand in.

use crate::session::diagnostic::Diagnostic;
use gpuplan_hardware::{Gpu, GpuId, GpuLink, GpuSelector, Hardware, MeasuredLinks, NodeShape};
use gpuplan_units::{BytesPerSecond, GpuCount};

/// The first chip that matches, and how many.
pub fn chip(text: &str, hardware: &Hardware) -> Result<(GpuId, u32), Diagnostic> {
    let selector = GpuSelector::parse(text, hardware)?;
    let matching =
        (0..hardware.gpus().len() as u16).map(GpuId).filter(|id| selector.matches_gpu(*id, hardware.gpu(*id)));
    let id = matching.into_iter().next().ok_or_else(|| {
        Diagnostic::usage(format!("no GPU matches `{text}`")).hint("`gpuplan catalog gpus` lists them")
    })?;
    let count = selector.count().map_or(1, |range| *range.start());
    if count > 65_536 {
        return Err(Diagnostic::usage(format!("{count} GPUs are more than any cluster has")));
    }
    Ok((id, count))
}

/// A part of one GPU alone in its machine, where the text asks for one, such as `H100:1/7`.
pub fn part(text: &str, id: GpuId, hardware: &Hardware) -> Result<Option<NodeShape>, Diagnostic> {
    let (gpu, measured) = (hardware.gpu(id), MeasuredLinks::default());
    let share = GpuSelector::parse(text, hardware)?.share();
    Ok(share.map(|gpus| {
        let gpu_memory = gpu.memory_of(gpus);
        NodeShape { gpu: id, gpus, gpu_memory, link: GpuLink::Single, measured, fabric: None }
    }))
}

/// The GPU's usual machine: up to eight (four in a rack domain) with its own link, joined by its usual network.
pub fn shape(id: GpuId, gpu: &Gpu, count: u32, hardware: &Hardware) -> Result<(NodeShape, u32), Diagnostic> {
    let most = if gpu.form_factor == "nvl72" { 4 } else { 8 };
    let devices = (1..=most.min(count)).rev().find(|devices| count.is_multiple_of(*devices)).unwrap_or(1);
    let link = hardware.gpu_link(gpu, &gpu.link, devices).map_err(Diagnostic::unexpected)?;
    let network: BytesPerSecond = gpuplan_estimate::machine::usual_network(gpu);
    let fabric = (count > devices).then_some(gpuplan_hardware::Fabric { bandwidth: network, rdma: true });
    let (gpus, measured) = (GpuCount::whole(devices as u16), MeasuredLinks::default());
    let shape = NodeShape { gpu: id, gpus, gpu_memory: gpu.memory(), link, measured, fabric };
    Ok((shape, count / devices))
}
