//! The step of a training run with what it waits for samples: how the machines load what the GPUs train on.

use crate::context::World;
use crate::input::disks::{fits_on_local_disks, network_disk};
use crate::training::packing::Packing;
use gpuplan_estimate::{DataLoader, Demand, InputPipeline, StepEstimate};
use gpuplan_hardware::InstanceId;
use gpuplan_workload::{Amount, Storage, Workload};

/// The step on `nodes` machines of a type, with what it waits for samples where the workload says what those are, or where the
/// host of such a machine was measured and the workload says what a sample costs.
pub fn fed(world: World, workload: &Workload, instance: InstanceId, nodes: u32, step: StepEstimate) -> StepEstimate {
    match feed(world, workload, instance, nodes, &step) {
        Some(feeding) => step.fed_in(feeding),
        None => step,
    }
}

fn feed(
    world: World,
    workload: &Workload,
    instance: InstanceId,
    nodes: u32,
    step: &StepEstimate,
) -> Option<InputPipeline> {
    let data = workload.data.as_ref()?;
    let machine = world.hardware.instance(instance);
    let gpu = world.hardware.gpu(machine.node.gpu);
    let feeder = DataLoader {
        instance: machine,
        gpu,
        measured: world.correction.host(gpu),
        is_local: fits_on_local_disks(machine, data),
        network_disk: network_disk(machine, Some(data)),
        nodes,
    };
    // Runs on the same machine share its host.
    let side_by_side = f64::from(Packing::new(workload.sweep.as_ref(), machine.node.devices()).side_by_side);
    let samples = step.setting.global_batch * side_by_side / f64::from(nodes);
    let demand =
        Demand { model: &workload.model, training: &workload.training, data, samples, passes: passes(workload) };
    InputPipeline::new(&feeder, &demand)
}

/// Times that the run goes through its data; 1 where the size of the data is unknown.
pub fn passes(workload: &Workload) -> f64 {
    let training = &workload.training;
    let trained = match workload.amount {
        Amount::Samples(samples) => samples,
        Amount::Tokens(tokens) => tokens / f64::from(training.sequence_length),
        Amount::Steps(steps) => steps * training.global_batch.unwrap_or(1) as f64,
    };
    workload.data.as_ref().and_then(|data| data.samples).map_or(1.0, |samples| (trained / samples).max(1.0))
}

/// Times that the data leaves where it lies: in every pass where nothing keeps it.
pub fn reads_from_afar(workload: &Workload) -> f64 {
    let is_read_always = workload.data.as_ref().is_some_and(|data| data.reading.storage == Storage::ObjectStore);
    if is_read_always { passes(workload) } else { 1.0 }
}

/// What bounds a step, as the JSON's `bound_by` has it; of input, which part of it.
pub fn bound_word(step: &StepEstimate) -> String {
    match step.input_limit() {
        Some(limit) => format!("input: {}", limit.word()),
        None => serde_json::json!(step.bound).as_str().expect("a bound is written as a word").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::search::best_setting;
    use gpuplan_estimate::{Correction, Machine, MeasuredGpu, MeasuredHost, Subject};
    use gpuplan_hardware::{Hardware, InstanceType};
    use gpuplan_market::Market;
    use gpuplan_workload::Models;
    use gpuplan_workload::file::WorkloadFile;

    const IMAGES: &str = "model = { preset = \"resnet-50\" }\ntraining = { task = \"train\", epochs = 1, global_batch = 2048 }\n\
        data = { size = \"150GB\", samples = 1281167 }";

    #[test]
    fn slow_storage_counts_on_machines_of_the_measured_gpu_without_a_disk_for_the_data() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let workload =
            WorkloadFile::parse(IMAGES).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
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
        let is_measured =
            |instance: &InstanceType| hardware.gpu(instance.node.gpu).id == gpu.id && !instance.node.gpus.is_slice();
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
