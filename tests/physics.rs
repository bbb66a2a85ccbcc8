//! Nothing beats physics: no predicted step computes more than the peak of its chips, and none moves more bytes than memory, links,
//! networks, disks or stores carry.
//!
//! What has to be computed and moved is counted here from the sizes in the catalog and from nothing that the estimate counts,
//! so that work which the estimate forgets shows as a rate that no machine has.

mod oracle;
mod serving;
mod store;

use gpuplan::estimate::{Machine, Setting, StepEstimate, Subject, machine::usual_network};
use gpuplan::hardware::{Architecture, Gpu, GpuLink, Hardware, MeasuredLinks, NumberFormat};
use gpuplan::workload::catalog::ModelRow;
use gpuplan::workload::{Layout, Models, Precision, Recompute, Shard, Task, Training};

/// Room for rounding. No figure may be a hundredth above what the sheet says.
const ROUNDING: f64 = 1.001;

/// GPUs of a run: one, one machine, several machines.
const COUNTS: [u32; 3] = [1, 8, 64];
const PRECISIONS: [Precision; 9] = [
    Precision::Fp32,
    Precision::Tf32,
    Precision::Fp16,
    Precision::AmpFp16,
    Precision::Bf16,
    Precision::PureBf16,
    Precision::Fp8,
    Precision::Mxfp8,
    Precision::Nvfp4,
];

/// The fastest dense rate of a sheet that a recipe may use. FLOP/s; `None`: the chip has no such unit.
fn peak(gpu: &Gpu, precision: Precision) -> Option<f64> {
    use NumberFormat::{Bf16, Fp4, Fp8, Fp16, Fp32, Tf32};
    let rate = |format| gpu.peak_tflops.get(format);
    let fastest = |formats: &[NumberFormat]| formats.iter().filter_map(|format| rate(*format)).reduce(f64::max);
    let tera = match precision {
        Precision::Fp32 => rate(Fp32),
        Precision::Tf32 => fastest(&[Tf32, Fp32]),
        Precision::Fp16 | Precision::AmpFp16 | Precision::Bf16 | Precision::PureBf16 => fastest(&[Bf16, Fp16, Fp32]),
        Precision::Fp8 => rate(Fp8).and(fastest(&[Fp8, Bf16, Fp16, Fp32])),
        // Scales of blocks are in the matrix units since Blackwell and CDNA 4.
        Precision::Mxfp8 => gpu.peak_tflops.block_scaled().filter(|_| scales_blocks(gpu)),
        Precision::Nvfp4 => rate(Fp4).and(fastest(&[Fp4, Fp8, Bf16, Fp16, Fp32])),
    };
    tera.map(|tera| tera * 1e12)
}

fn scales_blocks(gpu: &Gpu) -> bool {
    matches!(gpu.architecture, Architecture::Blackwell | Architecture::BlackwellRtx | Architecture::Cdna4)
}

fn link(hardware: &Hardware, gpu: &Gpu, gpus: u32) -> GpuLink {
    hardware.gpu_link(gpu, &gpu.link, gpus).unwrap()
}

fn machine<'a>(hardware: &Hardware, gpu: &'a Gpu, gpus: u32) -> Machine<'a> {
    let link = link(hardware, gpu, gpus);
    Machine {
        gpu,
        memory: gpu.memory(),
        gpus_per_node: gpus.min(8),
        card_share: 1.0,
        link,
        sheet_link: link,
        host_copy: gpuplan::estimate::machine::host_copy(gpu, MeasuredLinks::default()),
        node_network: usual_network(gpu),
        network_assumed: true,
        has_fabric: true,
    }
}

/// Every rank the whole model or a shard of it, and models that are split in each other way.
fn layouts(row: &ModelRow, gpus: u32) -> Vec<Layout> {
    if gpus == 1 {
        return vec![Layout::default()];
    }
    let plain = Layout { data: gpus, ..Layout::default() };
    let mut all: Vec<Layout> =
        [Shard::None, Shard::Zero1, Shard::Zero3].into_iter().map(|shard| Layout { shard, ..plain }).collect();
    if row.kind.is_transformer() {
        let eighth = Layout { data: gpus / 8, shard: Shard::Zero1, ..plain };
        if row.heads.is_some_and(|heads| heads.is_multiple_of(8)) {
            all.push(Layout { tensor: 8, sequence_parallel: true, ..eighth });
        }
        if row.layers.is_some_and(|layers| layers.is_multiple_of(8)) {
            all.push(Layout { pipeline: 8, ..eighth });
        }
        all.push(Layout { context: 8, ..eighth });
    }
    if row.experts.is_some_and(|experts| experts.is_multiple_of(8)) {
        all.push(Layout { expert: 8, shard: Shard::Zero1, ..plain });
    }
    all
}

/// With as many micro-batches as a pipeline needs to be full.
fn settings(row: &ModelRow, gpus: u32, micro_batch: u32) -> impl Iterator<Item = Setting> {
    layouts(row, gpus).into_iter().map(move |layout| Setting {
        layout,
        micro_batch,
        global_batch: f64::from(layout.data * layout.pipeline * micro_batch),
        recompute: Recompute::None,
    })
}

/// A step that is asked for, and what of it is beyond the machine, in words.
struct Step<'a> {
    row: &'a ModelRow,
    training: &'a Training,
    machine: &'a Machine<'a>,
    made: &'a StepEstimate,
}

impl Step<'_> {
    fn beyond(&self) -> Vec<String> {
        let (setting, gpu) = (&self.made.setting, self.machine.gpu);
        let (gpus, seconds) = (f64::from(setting.gpus()), self.made.time.total);
        let mut found = Vec::new();
        let mut check = |what: &str, rate: f64, most: f64, unit: &str| {
            if rate > most * ROUNDING {
                found.push(format!("{}: {what} {:.4e} of {:.4e} {unit}", self.name(), rate, most));
            }
        };
        let flops = oracle::flops(self.row, self.training, setting.global_batch) / gpus;
        let most = peak(gpu, self.training.precision).unwrap_or(f64::INFINITY);
        check("computes", flops / seconds, most, "FLOP/s");
        let sheet = gpu.memory_bandwidth_gb_per_s * 1e9;
        check("memory moves", oracle::memory_bytes(self.row, self.training, setting) / seconds, sheet, "B/s");
        let layout = &setting.layout;
        let bandwidth = self.machine.link.bandwidth();
        if let Some(rate) = bandwidth.filter(|_| layout.tensor > 1) {
            let bytes = oracle::tensor_bytes(self.row, self.training, setting);
            check("the link carries", bytes / seconds, rate.0, "B/s");
        }
        // Gradients of whole copies; ranks that share a copy exchange less.
        let copies = setting.gpus() == layout.data && layout.expert == 1;
        let domain = self.machine.link_domain(setting.gpus());
        let gradients = oracle::gradient_bytes(self.row, self.training);
        if let Some(rate) = bandwidth.filter(|_| copies) {
            check("the link carries", oracle::ring(domain) * gradients / seconds, rate.0, "B/s");
        }
        if setting.gpus() > domain && copies {
            let of_domain = self.machine.node_network.0 * f64::from(domain) / f64::from(self.machine.gpus_per_node);
            let bytes = oracle::ring(setting.gpus() / domain) * gradients;
            check("the network carries", bytes / seconds, of_domain, "B/s");
        }
        found
    }

    fn name(&self) -> String {
        let setting = &self.made.setting;
        format!(
            "{} {:?} {:?} on {} x {}, {}, micro batch {}",
            self.row.id,
            self.training.task,
            self.training.precision,
            setting.gpus(),
            self.machine.gpu.id,
            setting.layout,
            setting.micro_batch
        )
    }
}

fn tasks(row: &ModelRow) -> &'static [Task] {
    if row.kind.counts_samples() {
        &[Task::Train]
    } else {
        &[Task::Pretrain, Task::FullFineTune, Task::Lora, Task::InferencePrefill]
    }
}

/// What one sample is: tokens that a text model was made for, at most 2,048; patches or the side of an image.
fn sequence_length(row: &ModelRow) -> u32 {
    let native = row.native_tokens().or(row.sample_side);
    native.unwrap_or_else(|| row.max_context.filter(|context| *context > 0).unwrap_or(2048).min(2048))
}

#[test]
fn no_step_computes_or_moves_more_than_its_machines_can() {
    let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
    let (mut found, mut steps) = (Vec::new(), 0);
    for row in models.rows() {
        let model = row.to_model();
        for gpu in hardware.gpus() {
            for precision in PRECISIONS.into_iter().filter(|precision| peak(gpu, *precision).is_some()) {
                for task in tasks(row) {
                    let mut training = Training::new(*task, sequence_length(row));
                    training.precision = precision;
                    training.lora = task.has_adapters().then_some(oracle::ADAPTERS);
                    for gpus in COUNTS {
                        let machine = machine(&hardware, gpu, gpus);
                        let subject = Subject::new(&model, &training, machine);
                        for setting in settings(row, gpus, 1).chain(settings(row, gpus, 64)) {
                            let made = subject.estimate(&setting).unwrap();
                            steps += 1;
                            found.extend(Step { row, training: &training, machine: &machine, made: &made }.beyond());
                        }
                    }
                }
            }
        }
    }
    assert!(steps > 100_000, "only {steps} steps were looked at");
    assert!(found.is_empty(), "{} of {steps} steps, such as\n{}", found.len(), sample(&found));
}

/// Some of all, evenly spread.
fn sample(found: &[String]) -> String {
    let each = found.len().div_ceil(40).max(1);
    found.iter().step_by(each).map(String::as_str).collect::<Vec<_>>().join("\n")
}
