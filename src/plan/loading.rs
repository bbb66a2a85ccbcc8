//! Samples that a machine cannot load as fast as its GPUs train on them: the part of a step that waits for them, and its price.

use crate::bill::{BillItem, disk, fits_on_local_disks};
use crate::candidate::Plan;
use crate::choose::World;
use crate::packing::Packing;
use gpuplan_estimate::input::bytes_of_a_sample;
use gpuplan_estimate::{Demand, Feeder, Feeding, StepEstimate, feeding};
use gpuplan_hardware::InstanceId;
use gpuplan_units::Usd;
use gpuplan_workload::{Amount, DataKind, FileLayout, Storage, Workload};

/// A GET of S3 Standard in us-east-1 (Amazon S3 pricing, recalled).
const S3_REQUEST_USD: f64 = 0.0004 / 1000.0;
/// Waiting below this part of a step is not worth a word.
pub const WORTH_SAYING: f64 = 0.02;

/// The step on `nodes` machines of a type, with what it waits for samples where the workload says what those are, or where the
/// host of such a machine was measured and the workload says what a sample costs.
pub fn fed(world: World, workload: &Workload, instance: InstanceId, nodes: u32, step: StepEstimate) -> StepEstimate {
    match feed(world, workload, instance, nodes, &step) {
        Some(feeding) => step.fed_in(feeding),
        None => step,
    }
}

fn feed(world: World, workload: &Workload, instance: InstanceId, nodes: u32, step: &StepEstimate) -> Option<Feeding> {
    let data = workload.data.as_ref()?;
    let machine = world.hardware.instance(instance);
    let gpu = world.hardware.gpu(machine.node.gpu);
    let feeder = Feeder {
        instance: machine,
        gpu,
        measured: world.correction.host(gpu),
        is_local: fits_on_local_disks(machine, data),
        network_disk: disk(machine, Some(data)),
        nodes,
    };
    // Runs beside each other share the host.
    let beside = f64::from(Packing::new(workload.sweep.as_ref(), machine.node.devices()).side_by_side);
    let samples = step.setting.global_batch * beside / f64::from(nodes);
    let demand =
        Demand { model: &workload.model, training: &workload.training, data, samples, passes: passes(workload) };
    Feeding::new(&feeder, &demand)
}

/// Times that the run goes through its data; 1 where nobody said how much there is.
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

/// What GPUs cost while they wait for samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Of a step.
    pub share: f64,
    pub gpu_hours: f64,
    pub cost: Usd,
}

impl Waiting {
    /// `None`: they do not wait, or nobody looked.
    pub fn of(plan: &Plan) -> Option<Self> {
        let share = plan.step.feeding.as_ref()?.waiting_share();
        let hours = plan.run.training.expected * share;
        let of_machines = |item| matches!(item, BillItem::Machines | BillItem::Fallback);
        let (mut dollars, mut machine_hours) = (0.0, 0.0);
        for line in plan.bill.lines.iter().filter(|line| of_machines(line.item)) {
            dollars += line.cost.dollars();
            machine_hours += line.quantity;
        }
        let an_hour = if machine_hours > 0.0 { dollars / machine_hours } else { 0.0 };
        let cost = Usd::from_dollars(an_hour * hours * f64::from(plan.nodes))?;
        Some(Self { share, gpu_hours: hours * f64::from(plan.gpus()), cost }).filter(|waiting| waiting.share > 0.0)
    }

    pub fn is_worth_a_word(&self) -> bool {
        self.share >= WORTH_SAYING
    }
}

/// What bounds a step, in the words of the contract; of input, which part of it.
pub fn bound_word(step: &StepEstimate) -> String {
    match step.input_limit() {
        Some(limit) => format!("input: {}", limit.word()),
        None => serde_json::json!(step.bound).as_str().expect("a bound is written as a word").to_owned(),
    }
}

/// Why GPUs wait, with the figures that decide.
pub fn why_waiting(world: World, workload: &Workload, plan: &Plan) -> Option<String> {
    let feeding = plan.step.feeding.as_ref()?;
    let waiting = Waiting::of(plan).filter(Waiting::is_worth_a_word)?;
    let each = |seconds: f64| feeding.samples / seconds;
    let machine = world.hardware.instance(plan.instance);
    let vcpus = machine.vcpus;
    let wanted = each(feeding.busy);
    let limit = feeding.limit();
    let gives = match (limit, feeding.reading) {
        (feeding::InputLimit::Reading, Some(read)) => {
            let by = if read.by_reads { "by its reads a second" } else { "by its bytes a second" };
            let first = if feeding.read_share < 1.0 { ", in the first pass; memory keeps the rest" } else { "" };
            format!("{} gives {} samples/s ({by}){first}", read.from, rounded(each(read.seconds)))
        }
        (feeding::InputLimit::Decoding | feeding::InputLimit::Tokenising, _) => {
            let more = feeding
                .cores_needed()
                .map(|needed| format!(", and {:.1} times as many would keep up", needed / feeding.cores));
            format!(
                "{:.0} of {vcpus} vCPUs prepare {} samples/s{}",
                feeding.threads,
                rounded(each(feeding.loading(false))),
                more.as_deref().unwrap_or("")
            )
        }
        _ => format!("copies and decoders give {} samples/s", rounded(each(feeding.loading(false)))),
    };
    let of = if workload.sweep.is_some() { "runs of a machine take" } else { "GPUs of a machine would take" };
    Some(format!(
        "input: {gives}; the {of} {}. They wait {:.0} % of a step ({}): ${:.2} of the cost",
        rounded(wanted),
        waiting.share * 100.0,
        limit.word(),
        waiting.cost.dollars(),
    ))
}

/// Three significant figures, with the suffix of thousands.
fn rounded(rate: f64) -> String {
    match rate {
        rate if rate >= 1e4 => format!("{:.1}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// The plan that would cost least if samples were always at hand, where that is another than the best and much cheaper.
pub fn passed_over(world: World, plans: &[Plan], best: &Plan) -> Option<String> {
    let unfed =
        |plan: &Plan| plan.cost.expected.dollars() - Waiting::of(plan).map_or(0.0, |waiting| waiting.cost.dollars());
    let other = plans
        .iter()
        .filter(|plan| plan.instance != best.instance || plan.nodes != best.nodes)
        .min_by(|a, b| unfed(a).total_cmp(&unfed(b)))?;
    let waiting = Waiting::of(other).filter(Waiting::is_worth_a_word)?;
    if unfed(other) >= unfed(best) || other.cost.expected <= best.cost.expected {
        return None;
    }
    let gpu = &world.hardware.gpu(world.hardware.instance(other.instance).node.gpu).name;
    let limit = other.step.feeding.as_ref().map_or("", |feeding| feeding.limit().word());
    Some(format!(
        "input decides: {} x {gpu} ({}) would be cheaper at about ${:.2} if samples were always at hand, and costs ${:.2}, since its GPUs \
         wait {:.0} % of a step ({limit})",
        other.gpus(),
        crate::explain::plan_id(world, other),
        unfed(other),
        other.cost.expected.dollars(),
        waiting.share * 100.0,
    ))
}

/// What is known of the input of this workload on this instance type, and what is not. Requests bring their own.
pub fn said(world: World, workload: &Workload, instance: InstanceId) -> Vec<String> {
    if workload.serving.is_some() {
        return Vec::new();
    }
    let mut notes: Vec<String> = of_measured_host(world, workload, instance).into_iter().collect();
    if notes.is_empty() || workload.data.as_ref().is_some_and(|data| data.reading.kind.is_some()) {
        notes.extend(unchecked(world, workload, instance));
    }
    notes.extend(requests(workload));
    notes
}

/// Requests to a bucket that is read in every pass: no catalog has their price.
fn requests(workload: &Workload) -> Option<String> {
    let data = workload.data.as_ref()?;
    let is_one_each = data.reading.storage == Storage::ObjectStore && data.reading.files() == FileLayout::OneEach;
    let requests = data.samples.filter(|_| is_one_each)? * passes(workload);
    Some(format!(
        "not in the bill: {:.0}M requests for objects, ${:.0} at S3's list price of $0.0004 a thousand (unverified); shards need fewer",
        requests / 1e6,
        requests * S3_REQUEST_USD,
    ))
}

/// The parts of the input that nobody can check, and the line that would change that.
fn unchecked(world: World, workload: &Workload, instance: InstanceId) -> Option<String> {
    let usual = if workload.model.kind.counts_samples() { "jpeg" } else { "tokens" };
    let line = format!(
        "the input pipeline was not checked: [data] does not say what the samples are (kind = \"{usual}\", with size and samples)"
    );
    let Some(data) = &workload.data else { return Some(line) };
    let machine = world.hardware.instance(instance);
    let cost = feeding::cpu_seconds(&workload.model, &workload.training, data);
    let Some(kind) = data.reading.kind else {
        let cores = if machine.vcpus == 0 {
            "nobody says how many vCPUs the machine has"
        } else {
            "only the stated time of a sample was checked"
        };
        let storage = format!("{cores}; storage was not (kind = \"{usual}\", with size and samples)");
        return Some(if cost.is_some() { storage } else { line });
    };
    let mut missing = Vec::new();
    if cost.is_none() && matches!(kind, DataKind::Audio | DataKind::Video) {
        let length = if kind == DataKind::Audio { "seconds_per_sample" } else { "frames_per_sample" };
        missing.push(format!("what {} costs a core ({length}, or cpu_seconds_per_sample)", kind.word()));
    } else if cost.is_none() {
        missing.push("what a sample costs a core (size and samples, or cpu_seconds_per_sample)".to_owned());
    } else if machine.vcpus == 0 {
        missing.push("how many vCPUs the machine has".to_owned());
    }
    if bytes_of_a_sample(data).is_none() {
        missing.push("the bytes of a sample (size, with samples or tokens)".to_owned());
    } else if data.reading.storage != Storage::ObjectStore && !fits_on_local_disks(machine, data) {
        let known = matches!(machine.cloud.as_str(), "aws" | "gcp" | "azure");
        missing.extend((!known).then(|| "what the disks of this cloud reach".to_owned()));
    }
    (!missing.is_empty()).then(|| format!("input: not checked in full, since nobody says {}", missing.join(", nor ")))
}

/// What the host that was measured beside the GPU of this instance type changes, or why nothing.
fn of_measured_host(world: World, workload: &Workload, instance: InstanceId) -> Option<String> {
    let gpu = world.hardware.gpu(world.hardware.instance(instance).node.gpu);
    let host = world.correction.host(gpu)?;
    let what =
        format!("loading: beside {}, {}: {}", gpu.name, host.processor.as_deref().unwrap_or("the host"), host.words());
    let says = workload.data.as_ref().is_some_and(|data| {
        bytes_of_a_sample(data).is_some() || feeding::cpu_seconds(&workload.model, &workload.training, data).is_some()
    });
    Some(if says {
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
    use crate::physics::best_setting;
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

    #[test]
    fn what_cannot_be_checked_is_named_with_the_line_to_add() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let world = World { hardware: &hardware, market: &market, correction: &Correction::NONE };
        let said_of = |data: &str, cloud: &str, name: &str| {
            let text = format!(
                "model = {{ preset = \"resnet-50\" }}\ntraining = {{ epochs = 9, global_batch = 64 }}\n[data]\nsamples = 1000000\n{data}"
            );
            let workload =
                WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().workload;
            let id = hardware.instance_ids().find(|id| {
                let one = hardware.instance(*id);
                one.cloud.as_str() == cloud && one.name == name
            });
            (passes(&workload), said(world, &workload, id.unwrap()).join("; "))
        };
        let jpeg = "kind = \"jpeg\"\nsize = \"100GB\"";
        assert_eq!(said_of(jpeg, "aws", "p4d.24xlarge"), (9.0, String::new()));
        assert!(said_of("size = \"100GB\"", "aws", "p4d.24xlarge").1.contains("kind = \"jpeg\""));
        assert!(
            said_of("kind = \"video\"\nsize = \"100GB\"", "aws", "p4d.24xlarge").1.contains("cpu_seconds_per_sample")
        );
        assert!(said_of("kind = \"jpeg\"", "aws", "p4d.24xlarge").1.contains("size and samples"));
        assert!(said_of(jpeg, "nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb").1.contains("the disks of this cloud"));
        // No source says how many vCPUs stand beside it.
        assert!(said_of(jpeg, "novita", "a100-sxm.1x").1.contains("how many vCPUs"));
        let bucket = said_of(&format!("{jpeg}\nstorage = \"object-store\""), "aws", "p4d.24xlarge").1;
        assert!(bucket.contains("9M requests for objects, $4 at"), "{bucket}");
    }
}
