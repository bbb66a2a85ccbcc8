//! What leaves a machine and what comes to it: checkpoints, staged data and samples that are read from a store.

use gpuplan::estimate::{DataLoader, Demand, InputPipeline, Machine, Setting, StepEstimate, Subject};
use gpuplan::hardware::{Hardware, InstanceType};
use gpuplan::plan::input::staging::Staging;
use gpuplan::plan::training::packing::Packing;
use gpuplan::plan::training::run::{self, RunInput, RunTime};
use gpuplan::runstore::store::{MOST_PARTS, PART, PARTS_AT_ONCE};
use gpuplan::spot::hardware_failure_rate;
use gpuplan::units::Bytes;
use gpuplan::workload::file::WorkloadFile;
use gpuplan::workload::{Layout, Models, Recompute, Shard, Workload};

use super::ROUNDING;

/// One connection to a store: 85 to 90 MB/s (Amazon S3 user guide, "Performance design patterns"). Bytes/s.
const CONNECTION: f64 = 90e6;
/// A local disk of 375 GB writes 390 and reads 680 MB/s, 32 of them together 9,360 (Compute Engine, "About Local SSD disks"). Bytes/s.
const LOCAL_DISKS: f64 = 9_360e6;
/// The most that a network disk reaches without more throughput than it comes with: gp3 125 MiB/s (EBS user guide), Hyperdisk
/// Balanced 140 (Compute Engine). Bytes/s.
const PLAIN_DISK: f64 = 140.0 * 1_048_576.0;

const WORKLOAD: &str = "[model]\npreset = \"llama-3.1-70b\"\n[training]\ntask = \"pretrain\"\ntokens = \"10B\"\n\
    global_batch = 1024\nmicro_batch = 1\n\
    [data]\nsize = \"10TB\"\nsamples = 10000000\nkind = \"tokens\"\nlocation = \"s3://bucket/data\"\n";

fn workload(text: &str) -> Workload {
    WorkloadFile::parse(text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload
}

/// The network over which a machine reaches a store. Cards that only GPUs use carry nothing there, and a machine that is rented with
/// one interface has one card: 100 Gb/s on P4d and P5, 200 on P5en, 400 on P6 (EC2 user guide, "Network cards"). Bytes/s; `None`: nobody says.
fn front_network(instance: &InstanceType) -> Option<f64> {
    let host = instance.host_network_gbit_per_s?;
    let between_gpus = instance.node.fabric.map_or(0.0, |fabric| fabric.bandwidth.0 * 8.0 / 1e9);
    let front = match instance.fabric_id.as_str() {
        "tcpx" | "tcpxo" | "roce-cx7" => host - between_gpus,
        "efa-v1" | "efa-v2" => host.min(100.0),
        "efa-v3" => host.min(200.0),
        "efa-v4" => host.min(400.0),
        _ => host,
    };
    Some(front * 1e9 / 8.0)
}

fn step(workload: &Workload, machine: Machine, nodes: u32) -> StepEstimate {
    let gpus = machine.gpus_per_node * nodes;
    let layout = Layout { data: gpus, shard: Shard::Zero3, ..Layout::default() };
    let setting = Setting { layout, micro_batch: 1, global_batch: 1024.0, recompute: Recompute::Full };
    Subject::new(&workload.model, &workload.training, machine).estimate(&setting).unwrap()
}

fn run(workload: &Workload, hardware: &Hardware, instance: &InstanceType, nodes: u32) -> RunTime {
    let machine = Machine::new(hardware.gpu(instance.node.gpu), &instance.node);
    let step = step(workload, machine, nodes);
    let gpus = machine.gpus_per_node * nodes;
    RunInput {
        workload,
        step: &step,
        instance,
        machine: &machine,
        nodes,
        packing: Packing::ALONE,
        gpus,
        staging: Staging::new(instance, workload.data.as_ref()),
        interruptions: hardware_failure_rate(gpus),
        notice_seconds: Some(120.0),
        hourly_rate: None,
    }
    .time()
}

/// What a machine of so many brings to a store, or takes from it, at most.
fn most(instance: &InstanceType, stored: Bytes) -> f64 {
    let is_local = instance.local_nvme.is_some_and(|nvme| stored.0 <= nvme.0);
    let disk = if is_local { LOCAL_DISKS } else { f64::INFINITY };
    let of_cloud = matches!(instance.cloud.as_str(), "aws" | "gcp") && !is_local;
    let linked = if of_cloud {
        instance.disk_link.map_or(PLAIN_DISK, |link| link.bytes_per_second.min(PLAIN_DISK))
    } else {
        disk
    };
    front_network(instance).unwrap_or(f64::INFINITY).min(disk).min(linked)
}

#[test]
fn nothing_leaves_or_reaches_a_machine_faster_than_its_network_disks_and_store_carry() {
    let (hardware, workload) = (Hardware::embedded().unwrap(), workload(WORKLOAD));
    let mut found = Vec::new();
    for instance in hardware.instances() {
        let mut check = |what: &str, nodes: u32, rate: f64, most: f64| {
            if rate > most * ROUNDING {
                let (rate, most) = (rate / 1e9, most / 1e9);
                let name = &instance.name;
                found.push(format!("{} {name} x{nodes}: {what} {rate:.3} of {most:.3} GB/s", instance.cloud));
            }
        };
        for nodes in [1, 4] {
            let time = run(&workload, &hardware, instance, nodes);
            let saving = time.saving;
            let each = Bytes(saving.bytes.0 / f64::from(nodes));
            let way = most(instance, each).min(f64::from(PARTS_AT_ONCE) * CONNECTION);
            check("a checkpoint leaves with", nodes, each.0 / saving.upload_seconds, way);
            let notice = saving.notice.unwrap();
            check("a notice saves", nodes, notice.saves.0 / f64::from(nodes) / notice.seconds, way);
            let pcie = hardware.gpu(instance.node.gpu).pcie_bandwidth().0;
            let stalled = saving.bytes.0 / f64::from(time.gpus) / saving.stall_seconds;
            check("a GPU copies its part of a checkpoint with", nodes, stalled, pcie);
            let staging = time.staging.unwrap();
            check("data is staged with", nodes, staging.bytes_per_second, most(instance, staging.bytes));
        }
        check(
            "samples are read with",
            1,
            read(&workload, &hardware, instance),
            front_network(instance).unwrap_or(f64::INFINITY),
        );
    }
    let said = found.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(found.is_empty(), "{} of {} machine types, such as\n{said}", found.len(), hardware.instances().len());
}

/// Bytes a second of samples that are read from a store in every pass.
fn read(workload: &Workload, hardware: &Hardware, instance: &InstanceType) -> f64 {
    let mut data = workload.data.clone().unwrap();
    data.reading.storage = gpuplan::workload::Storage::ObjectStore;
    let loader = DataLoader {
        instance,
        gpu: hardware.gpu(instance.node.gpu),
        measured: None,
        is_local: false,
        network_disk: Bytes(0.0),
        nodes: 1,
    };
    let samples = 1024.0;
    let demand = Demand { model: &workload.model, training: &workload.training, data: &data, samples, passes: 1.0 };
    let reading = InputPipeline::new(&loader, &demand).and_then(|pipeline| pipeline.reading).unwrap();
    samples * data.size.0 / data.samples.unwrap() / reading.seconds
}

#[test]
fn the_plan_counts_as_many_parts_as_the_agent_sends() {
    assert_eq!(gpuplan::plan::input::store_path::PARTS_AT_ONCE, f64::from(PARTS_AT_ONCE));
    assert_eq!((run::PART, run::MOST_PARTS), (PART as f64, MOST_PARTS as f64));
}
