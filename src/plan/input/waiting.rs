//! What GPUs cost while they wait for samples, and why they wait.

use crate::candidate::{Plan, plan_id};
use crate::context::{Context, World};
use crate::explanation::Warning;
use crate::explanation::input_wait::{InputWait, SlowestPart};
use crate::money::bill::BillItem;
use gpuplan_estimate::InputLimit;
use gpuplan_units::Usd;

/// Waiting below this part of a step is not worth a word.
const WORTH_SAYING: f64 = 0.02;

/// What GPUs cost while they wait for samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// Of a step.
    pub share: f64,
    pub gpu_hours: f64,
    pub cost: Usd,
}

impl Waiting {
    /// `None`: they do not wait, or it is unknown.
    pub fn new(plan: &Plan) -> Option<Self> {
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

    /// Whether it is long enough to mention.
    pub fn is_notable(&self) -> bool {
        self.share >= WORTH_SAYING
    }
}

/// Why the GPUs of a plan wait. `None`: they do not, or hardly.
pub fn input_wait(context: Context, plan: &Plan) -> Option<InputWait> {
    let feeding = plan.step.feeding.as_ref()?;
    let waiting = Waiting::new(plan).filter(Waiting::is_notable)?;
    let rate = |seconds: f64| feeding.samples / seconds;
    let limit = feeding.limit();
    let slowest = match (limit, feeding.reading) {
        (InputLimit::Reading, Some(read)) => SlowestPart::Storage {
            from: read.from.to_owned(),
            samples_per_second: rate(read.seconds),
            by_reads: read.by_reads,
            only_first_pass: feeding.read_share < 1.0,
        },
        (InputLimit::Decoding | InputLimit::Tokenising, _) => SlowestPart::Cpu {
            threads: feeding.threads,
            vcpus: context.world.hardware.instance(plan.instance).vcpus,
            samples_per_second: rate(feeding.loading(false)),
            times_needed: feeding.cores_needed().map(|needed| needed / feeding.cores),
        },
        _ => SlowestPart::CopiesAndDecoders { samples_per_second: rate(feeding.loading(false)) },
    };
    Some(InputWait {
        slowest,
        limit: limit.word().to_owned(),
        wanted_samples_per_second: rate(feeding.busy),
        is_sweep: context.workload.sweep.is_some(),
        waiting_share: waiting.share,
        waiting_cost_usd: waiting.cost,
    })
}

/// The plan that would cost least if samples were always at hand, where that is another than the best and much cheaper.
pub fn cheaper_without_waiting(world: World, plans: &[Plan], best: &Plan) -> Option<Warning> {
    let unfed = |plan: &Plan| plan.cost.expected - Waiting::new(plan).map_or(Usd::ZERO, |waiting| waiting.cost);
    let other = plans
        .iter()
        .filter(|plan| plan.instance != best.instance || plan.nodes != best.nodes)
        .min_by_key(|plan| unfed(plan))?;
    let waiting = Waiting::new(other).filter(Waiting::is_notable)?;
    if unfed(other) >= unfed(best) || other.cost.expected <= best.cost.expected {
        return None;
    }
    Some(Warning::InputDecides {
        gpus: other.gpus(),
        gpu: world.gpu_of(other.instance).name.clone(),
        plan: plan_id(world, other),
        cost_without_waiting_usd: unfed(other),
        cost_usd: other.cost.expected,
        waiting_share: waiting.share,
        limit: other.step.feeding.as_ref().map_or_else(String::new, |feeding| feeding.limit().word().to_owned()),
    })
}
