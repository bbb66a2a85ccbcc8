//! Samples that a measured host cannot load fast enough: the part of a step that waits for them.

use crate::estimate::input::says_what_a_sample_costs;
use crate::estimate::{Loader, StepEstimate};
use crate::hardware::InstanceId;
use crate::plan::choose::World;
use crate::workload::Workload;

/// The step on `nodes` machines of a type, slowed by its loader where the host of such a machine was measured and the workload
/// says what a sample costs.
pub fn fed(world: World, workload: &Workload, instance: InstanceId, nodes: u32, step: StepEstimate) -> StepEstimate {
    let machine = world.hardware.instance(instance);
    let host = world.correction.host(world.hardware.gpu(machine.node.gpu));
    let Some((host, data)) = host.zip(workload.data.as_ref()) else { return step };
    let is_local = machine.local_nvme.is_some_and(|disk| disk >= data.size);
    let samples = step.setting.global_batch / f64::from(nodes);
    match host.loading_seconds(data, Loader { cores: machine.vcpus, is_local }, samples) {
        Some(seconds) => step.fed_in(seconds),
        None => step,
    }
}

/// What the measured hosts change, or why nothing.
pub fn said(world: World, workload: &Workload) -> Vec<String> {
    let hosts = world.correction.measured().iter().filter_map(|measured| Some((&measured.id, measured.host.as_ref()?)));
    let costs = workload.data.as_ref().is_some_and(says_what_a_sample_costs);
    hosts
        .map(|(gpu, host)| {
            let processor = host.processor.as_deref().unwrap_or("the host");
            let what = host.words();
            if costs {
                format!("loading: beside {gpu}, {processor}: {what}; counted on machines with that GPU, as far as [data] says what a sample costs")
            } else {
                format!(
                    "loading: beside {gpu}, {processor}: {what}; not counted, since the workload does not say what a sample costs \
                     (data.cpu_seconds_per_sample, or data.size with data.samples)"
                )
            }
        })
        .collect()
}
