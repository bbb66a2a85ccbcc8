//! How fast the middle is: layout estimates a second on one core, and the full plan over every offer.
//!
//! `cargo bench --bench planner`

#![allow(clippy::expect_used, reason = "a bench that cannot start should stop")]

use divan::Bencher;
use divan::counter::ItemsCount;
use gpuplan::estimate::{Correction, Machine, Setting, Subject};
use gpuplan::hardware::Hardware;
use gpuplan::market::Market;
use gpuplan::plan::{Limits, World, plan};
use gpuplan::workload::file::WorkloadFile;
use gpuplan::workload::{Layout, Models, Recompute, Shard, Workload};

fn main() {
    divan::main();
}

/// A 7B model on a trillion tokens: the example with the most layouts.
fn pretraining() -> Workload {
    let text = "[model]\npreset = \"llama-2-7b\"\n[training]\ntask = \"pretrain\"\ntokens = \"1T\"\nsequence_length = 2048\nglobal_batch_tokens = \"4M\"\n";
    let file = WorkloadFile::parse(text).expect("the workload is written above");
    file.resolve(&Models::embedded().expect("the catalog is embedded"), None).expect("every key is valid").workload
}

/// Memory and time of one setting, single thread.
#[divan::bench]
fn layout_estimates(bencher: Bencher) {
    let hardware = Hardware::embedded().expect("the catalog is embedded");
    let workload = pretraining();
    let node =
        hardware.instances().iter().find(|instance| instance.name == "p5.48xlarge").expect("it is in the catalog").node;
    let subject = Subject::new(&workload.model, &workload.training, Machine::new(hardware.gpu(node.gpu), &node));
    let settings: Vec<Setting> =
        [(64, 1, 1, Shard::Zero3), (16, 2, 2, Shard::Zero1), (8, 8, 1, Shard::Zero1), (64, 1, 1, Shard::None)]
            .into_iter()
            .flat_map(|(data, tensor, pipeline, shard)| {
                let layout =
                    Layout { data, tensor, pipeline, shard, sequence_parallel: tensor > 1, ..Layout::default() };
                [1, 2, 4].map(|micro_batch| Setting {
                    layout,
                    micro_batch,
                    global_batch: 2048.0,
                    recompute: Recompute::None,
                })
            })
            .collect();
    bencher
        .counter(ItemsCount::new(settings.len()))
        .bench(|| settings.iter().flat_map(|setting| subject.estimate(setting)).count());
}

/// Every offer, every machine shape, up to 64 machines, no filter.
#[divan::bench]
fn full_plan(bencher: Bencher) {
    let hardware = Hardware::embedded().expect("the catalog is embedded");
    let market = Market::embedded(&hardware).expect("the catalog is embedded");
    let workload = pretraining();
    let world = World { hardware: &hardware, market: &market, correction: &Correction::NONE };
    bencher.bench(|| plan(world, &workload, &Limits::default()));
}

/// From packed bytes to offers with their suspicions.
#[divan::bench]
fn read_catalogs() -> usize {
    let hardware = Hardware::embedded().expect("the catalog is embedded");
    Market::embedded(&hardware).expect("the catalog is embedded").offers().len()
}
