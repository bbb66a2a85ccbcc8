//! Samples that a measured host cannot load fast enough: the part of a step that waits for them.

use crate::estimate::input::says_what_a_sample_costs;
use crate::estimate::{Loader, StepEstimate};
use crate::hardware::InstanceId;
use crate::plan::choose::World;
use crate::plan::packing::Packing;
use crate::workload::Workload;

/// The step on `nodes` machines of a type, slowed by its loader where the host of such a machine was measured and the workload
/// says what a sample costs.
pub fn fed(world: World, workload: &Workload, instance: InstanceId, nodes: u32, step: StepEstimate) -> StepEstimate {
    let machine = world.hardware.instance(instance);
    let host = world.correction.host(world.hardware.gpu(machine.node.gpu));
    let Some((host, data)) = host.zip(workload.data.as_ref()) else { return step };
    let is_local = machine.local_nvme.is_some_and(|disk| disk >= data.size);
    // Runs beside each other share the host.
    let beside = f64::from(Packing::new(workload.sweep.as_ref(), machine.node.devices()).side_by_side);
    let samples = step.setting.global_batch * beside / f64::from(nodes);
    match host.loading_seconds(data, Loader { cores: machine.vcpus, is_local }, samples) {
        Some(seconds) => step.fed_in(seconds),
        None => step,
    }
}

/// What the host that was measured beside the GPU of this instance type changes, or why nothing.
pub fn said(world: World, workload: &Workload, instance: InstanceId) -> Option<String> {
    let gpu = world.hardware.gpu(world.hardware.instance(instance).node.gpu);
    let host = world.correction.host(gpu)?;
    let what = format!("loading: beside {}, {}: {}", gpu.name, host.processor.as_deref().unwrap_or("the host"), host.words());
    Some(if workload.data.as_ref().is_some_and(says_what_a_sample_costs) {
        format!("{what}; counted on machines with this GPU, as far as [data] says what a sample costs")
    } else {
        format!(
            "{what}; not counted, since the workload does not say what a sample costs (data.cpu_seconds_per_sample, or data.size with \
             data.samples)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Correction, Machine, MeasuredGpu, MeasuredHost, Subject};
    use crate::hardware::{Hardware, InstanceType};
    use crate::market::Market;
    use crate::plan::physics::best_setting;
    use crate::workload::Models;
    use crate::workload::file::WorkloadFile;

    const IMAGES: &str = "model = { preset = \"resnet-50\" }\ntraining = { task = \"train\", epochs = 1, global_batch = 2048 }\n\
        data = { size = \"150GB\", samples = 1281167 }";

    #[test]
    fn slow_storage_counts_on_machines_of_the_measured_gpu_without_a_disk_for_the_data() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let workload = WorkloadFile::parse(IMAGES).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
        let gpu = hardware.gpu(hardware.find_gpu("h100-sxm5-80").unwrap());
        let measured = MeasuredGpu {
            id: gpu.id.clone(),
            architecture: gpu.architecture,
            curves: Vec::new(),
            host: MeasuredHost::new(None, 8, (None, None), Some(1e6)),
            reasons: Vec::new(),
        };
        let correction = Correction::new(vec![measured]);
        let world = World { hardware: &hardware, market: &market, correction: &correction };
        let slower = |wanted: &dyn Fn(&InstanceType) -> bool| {
            let id = hardware.instance_ids().find(|id| wanted(hardware.instance(*id))).unwrap();
            let node = &hardware.instance(id).node;
            let subject = Subject::new(&workload.model, &workload.training, Machine::new(hardware.gpu(node.gpu), node));
            let step = best_setting(&subject, 2048, 1).0.unwrap();
            let fed = fed(world, &workload, id, 1, step.clone());
            (fed.time.total, step.time.total)
        };
        let is_measured = |instance: &InstanceType| hardware.gpu(instance.node.gpu).id == gpu.id && !instance.node.gpus.is_slice();
        let holds = |instance: &InstanceType| instance.local_nvme.is_some_and(|disk| disk.0 > 150e9);
        let (fed, alone) = slower(&|instance| is_measured(instance) && !holds(instance));
        // 2048 images of 117 kB at 1 MB/s.
        assert!((fed / 239.8 - 1.0).abs() < 0.01 && alone < 5.0, "{fed} {alone}");
        let (fed, alone) = slower(&|instance| is_measured(instance) && holds(instance));
        assert_eq!(fed, alone);
        let (fed, alone) = slower(&|instance| hardware.gpu(instance.node.gpu).id == "a100-sxm4-80" && !holds(instance));
        assert_eq!(fed, alone);
    }
}
