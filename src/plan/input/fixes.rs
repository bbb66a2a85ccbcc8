//! What would feed GPUs that wait for samples: other data, other decoders, other machines, each by itself and with its price.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::candidate::{Plan, plan_id};
use crate::context::Context;
use crate::filters::count_is_asked;
use crate::input::disks::fits_on_local_disks;
use crate::input::feeding::passes;
use crate::input::fix::{InputChange, InputFix};
use crate::input::staging::Staging;
use crate::input::waiting::Waiting;
use crate::money::price::price;
use crate::money::pricer::Pricer;
use crate::training::what_if::fastest;
use gpuplan_estimate::InputPipeline;
use gpuplan_estimate::input_constants::{RAW_BYTES, SIDE};
use gpuplan_hardware::InstanceId;
use gpuplan_market::OfferId;
use gpuplan_units::{Bytes, Hours, Usd};
use gpuplan_workload::{DataKind, DataSet, Decoder, FileLayout, Storage, Workload};

/// A fix leaves less than this of the waiting, or it is none.
const LEAST_EFFECT: f64 = 0.95;

/// Nothing for a plan whose GPUs do not wait. `kept` are the offers that keep every limit.
pub fn input_fixes(pricer: &Pricer, kept: &[OfferId], plan: &Plan) -> Vec<InputFix> {
    if !Waiting::new(plan).is_some_and(|waiting| waiting.is_notable()) {
        return Vec::new();
    }
    let Some(case) = Case::new(pricer, plan) else { return Vec::new() };
    let mut fixes: Vec<InputFix> =
        [case.decode_once(), case.decode_on_gpu(), case.stage()].into_iter().flatten().collect();
    // What leaves the slowest part as it is fixes nothing.
    let waits = waiting_share(plan);
    fixes.retain(|fix| fix.waiting_share < waits * LEAST_EFFECT);
    fixes.extend(case.other_machines(kept, OtherMachines::MoreVcpus));
    fixes.extend(case.other_machines(kept, OtherMachines::FewerGpus));
    fixes.sort_by_key(|fix| std::cmp::Reverse(fix.saves_usd));
    fixes
}

/// Of a step.
fn waiting_share(plan: &Plan) -> f64 {
    plan.step.feeding.as_ref().map_or(0.0, InputPipeline::waiting_share)
}

/// Which other machines with the same GPU are looked for.
#[derive(Clone, Copy)]
enum OtherMachines {
    MoreVcpus,
    FewerGpus,
}

struct Case<'a> {
    pricer: &'a Pricer<'a>,
    plan: &'a Plan,
    data: &'a DataSet,
    /// As a first guess, so that plans on spot compare with themselves.
    before: Usd,
}

impl<'a> Case<'a> {
    fn new(pricer: &'a Pricer<'a>, plan: &'a Plan) -> Option<Self> {
        let before = price(pricer, &pricer.offer(plan.offer), plan.nodes, Arc::clone(&plan.step)).ok()?;
        Some(Self { pricer, plan, data: pricer.context.workload.data.as_ref()?, before: before.cost.expected })
    }

    fn fix(&self, change: InputChange, after: &Plan) -> InputFix {
        InputFix {
            change,
            waiting_share: waiting_share(after),
            run_hours: after.run.hours.expected,
            saves_usd: self.before - after.cost.expected,
        }
    }

    /// The same machines with other data.
    fn with(&self, change: impl FnOnce(&mut DataSet)) -> Option<Plan> {
        let mut data = self.data.clone();
        change(&mut data);
        let workload = Workload { data: Some(data), ..self.pricer.context.workload.clone() };
        let context = Context { workload: &workload, ..self.pricer.context };
        let step = fastest(context, self.plan.instance, self.plan.nodes).ok()?;
        let pricer = Pricer::new(context);
        price(&pricer, &pricer.offer(self.plan.offer), self.plan.nodes, Arc::new(step)).ok()
    }

    fn decode_once(&self) -> Option<InputFix> {
        let samples =
            self.data.samples.filter(|_| self.data.reading.kind.is_some_and(DataKind::is_compressed_image))?;
        let pixels = f64::from(self.pricer.context.workload.training.sequence_length);
        let size = Bytes(samples * RAW_BYTES * (pixels / SIDE).powi(2));
        let after = self.with(|data| {
            (data.size, data.cpu_per_sample) = (size, None);
            (data.reading.kind, data.reading.decoder, data.reading.files) =
                (Some(DataKind::Raw), Decoder::Cpu, Some(FileLayout::Shards));
        })?;
        Some(self.fix(InputChange::DecodeOnce { size }, &after))
    }

    fn decode_on_gpu(&self) -> Option<InputFix> {
        let gpu = self.pricer.context.world.gpu_of(self.plan.instance);
        let is_possible = self.data.reading.kind == Some(DataKind::Jpeg) && self.data.reading.decoder == Decoder::Cpu;
        if !is_possible || gpu.architecture.is_amd() {
            return None;
        }
        let after = self.with(|data| {
            data.cpu_per_sample = None;
            data.reading.decoder = Decoder::Gpu;
        })?;
        Some(self.fix(InputChange::DecodeOnGpu, &after))
    }

    /// Copied once to disks that come with the machine, instead of read from afar in every pass.
    fn stage(&self) -> Option<InputFix> {
        if self.data.reading.storage == Storage::Disk {
            return None;
        }
        let staged = |data: &mut DataSet| {
            data.reading.storage = Storage::Disk;
            data.location.get_or_insert_default();
        };
        let mut data = self.data.clone();
        staged(&mut data);
        let instance = self.pricer.context.world.hardware.instance(self.plan.instance);
        let staging = Staging::new(instance, Some(&data)).filter(|_| fits_on_local_disks(instance, &data))?;
        let after = self.with(staged)?;
        let (time, passes) = (Hours::from(staging.seconds()), passes(self.pricer.context.workload));
        Some(self.fix(InputChange::Stage { size: data.size, time, passes }, &after))
    }

    /// The cheapest machines with the same GPU that have more vCPUs for each, or fewer GPUs in all.
    fn other_machines(&self, kept: &[OfferId], others: OtherMachines) -> Option<InputFix> {
        let (pricer, context) = (self.pricer, self.pricer.context);
        let (world, limits) = (context.world, context.limits);
        let machine = |id: InstanceId| world.hardware.instance(id);
        let vcpus = |id: InstanceId| f64::from(machine(id).vcpus) / f64::from(machine(id).node.devices());
        let mine = world.market.offer(self.plan.offer);
        let mut cheapest: BTreeMap<InstanceId, OfferId> = BTreeMap::new();
        for id in kept {
            let offer = world.market.offer(*id);
            let (here, there) = (machine(self.plan.instance), machine(offer.instance));
            if here.node.gpu != there.node.gpu || there.node.gpus.is_slice() || offer.purchase != mine.purchase {
                continue;
            }
            let best = cheapest.entry(offer.instance).or_insert(*id);
            if offer.quote.rate < world.market.offer(*best).quote.rate {
                *best = *id;
            }
        }
        let gpus = self.plan.nodes * machine(self.plan.instance).node.devices();
        let mut plans = Vec::new();
        for (instance, offer) in cheapest {
            let devices = machine(instance).node.devices();
            let nodes: Vec<u32> = match others {
                OtherMachines::MoreVcpus => {
                    let has_more = vcpus(instance) > vcpus(self.plan.instance) && gpus.is_multiple_of(devices);
                    has_more.then_some(gpus / devices).into_iter().collect()
                }
                OtherMachines::FewerGpus => {
                    let is_fewer = |nodes: &u32| (1..gpus).contains(&(nodes * devices));
                    [1, self.plan.nodes / 2].into_iter().filter(is_fewer).collect()
                }
            };
            let may = |nodes: &u32| {
                let joined = *nodes == 1 || machine(instance).node.fabric.is_some() || limits.allow_slow_network;
                joined
                    && *nodes <= limits.node_limit()
                    && count_is_asked(machine(instance), world.hardware, limits, nodes * devices)
            };
            for nodes in nodes.into_iter().filter(may) {
                let step = fastest(context, instance, nodes).ok();
                plans.extend(step.and_then(|step| price(pricer, &pricer.offer(offer), nodes, Arc::new(step)).ok()));
            }
        }
        let after = plans.into_iter().min_by_key(|plan| plan.cost.expected)?;
        let (plan, vcpus_per_gpu) = (plan_id(world, &after), vcpus(after.instance));
        let change = match others {
            OtherMachines::MoreVcpus => InputChange::MoreVcpus { plan, vcpus_per_gpu },
            OtherMachines::FewerGpus => InputChange::FewerGpus { plan, vcpus_per_gpu },
        };
        Some(self.fix(change, &after))
    }
}
