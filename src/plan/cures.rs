//! What would feed GPUs that wait for samples: other data, other decoders, other machines, each by itself and with its price.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::bill::fits_on_local_disks;
use crate::candidate::Plan;
use crate::filters::count_is_asked;
use crate::loading::{self, Waiting};
use crate::price::Pricer;
use crate::staging::Staging;
use crate::what_if::fastest;
use gpuplan_estimate::input_constants::{RAW_BYTES, SIDE};
use gpuplan_hardware::InstanceId;
use gpuplan_market::OfferId;
use gpuplan_units::{Bytes, Hours, Usd};
use gpuplan_workload::{DataKind, DataSet, Decoder, FileLayout, Storage, Workload};

/// A cure leaves less than this of the waiting, or it is none.
const LEAST_EFFECT: f64 = 0.95;

/// One cure by itself; savings of several do not add up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cure {
    /// `format`, `gpu-decode`, `stage`, `more-vcpus` or `fewer-gpus`.
    pub cure: &'static str,
    pub what: String,
    /// Of a step, with the cure.
    pub waiting_share: f64,
    /// Of the whole run with the cure, as a first guess.
    pub run_hours: f64,
    /// Against the plan as it is, both as first guesses; below zero it costs more.
    pub saves_usd: Usd,
}

/// Nothing for a plan whose GPUs do not wait. `kept` are the offers that keep every limit.
pub fn of(pricer: &Pricer, kept: &[OfferId], plan: &Plan) -> Vec<Cure> {
    if !Waiting::of(plan).is_some_and(|waiting| waiting.is_worth_a_word()) {
        return Vec::new();
    }
    let Some(case) = Case::new(pricer, plan) else { return Vec::new() };
    let mut cures: Vec<Cure> = [case.decoded_once(), case.on_the_gpu(), case.staged()].into_iter().flatten().collect();
    // What leaves the slowest part as it is cures nothing.
    let waits = plan.step.feeding.as_ref().map_or(0.0, gpuplan_estimate::Feeding::waiting_share);
    cures.retain(|cure| cure.waiting_share < waits * LEAST_EFFECT);
    cures.extend(case.other_machines(kept, "more-vcpus"));
    cures.extend(case.other_machines(kept, "fewer-gpus"));
    cures.sort_by_key(|cure| std::cmp::Reverse(cure.saves_usd));
    cures
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
        let before = pricer.price(&pricer.counter(plan.offer), plan.nodes, Arc::clone(&plan.step)).ok()?.cost.expected;
        Some(Self { pricer, plan, data: pricer.workload.data.as_ref()?, before })
    }

    fn cure(&self, cure: &'static str, what: String, after: &Plan) -> Cure {
        Cure {
            cure,
            what,
            waiting_share: after.step.feeding.as_ref().map_or(0.0, gpuplan_estimate::Feeding::waiting_share),
            run_hours: after.run.hours.expected,
            saves_usd: self.before - after.cost.expected,
        }
    }

    /// The same machines with other data.
    fn with(&self, change: impl FnOnce(&mut DataSet)) -> Option<Plan> {
        let mut data = self.data.clone();
        change(&mut data);
        let workload = Workload { data: Some(data), ..self.pricer.workload.clone() };
        let step = fastest(self.pricer.world, &workload, self.plan.instance, self.plan.nodes).ok()?;
        let pricer = Pricer::new(self.pricer.world, &workload, self.pricer.limits);
        pricer.price(&pricer.counter(self.plan.offer), self.plan.nodes, Arc::new(step)).ok()
    }

    fn decoded_once(&self) -> Option<Cure> {
        let samples =
            self.data.samples.filter(|_| self.data.reading.kind.is_some_and(DataKind::is_compressed_image))?;
        let pixels = f64::from(self.pricer.workload.training.sequence_length);
        let size = Bytes(samples * RAW_BYTES * (pixels / SIDE).powi(2));
        let after = self.with(|data| {
            (data.size, data.cpu_per_sample) = (size, None);
            (data.reading.kind, data.reading.decoder, data.reading.files) =
                (Some(DataKind::Raw), Decoder::Cpu, Some(FileLayout::Shards));
        })?;
        Some(self.cure("format", format!("pictures decoded and resized once, kept as {size} of pixels"), &after))
    }

    fn on_the_gpu(&self) -> Option<Cure> {
        let world = self.pricer.world;
        let gpu = world.hardware.gpu(world.hardware.instance(self.plan.instance).node.gpu);
        let is_possible = self.data.reading.kind == Some(DataKind::Jpeg) && self.data.reading.decoder == Decoder::Cpu;
        if !is_possible || gpu.architecture.is_amd() {
            return None;
        }
        let after = self.with(|data| {
            data.cpu_per_sample = None;
            data.reading.decoder = Decoder::Gpu;
        })?;
        Some(self.cure("gpu-decode", "decoding and cropping on the GPUs (nvJPEG, as in DALI)".to_owned(), &after))
    }

    /// Copied once to disks that come with the machine, instead of read from afar in every pass.
    fn staged(&self) -> Option<Cure> {
        if self.data.reading.storage == Storage::Disk {
            return None;
        }
        let staged = |data: &mut DataSet| {
            data.reading.storage = Storage::Disk;
            data.location.get_or_insert_default();
        };
        let mut data = self.data.clone();
        staged(&mut data);
        let instance = self.pricer.world.hardware.instance(self.plan.instance);
        let staging = Staging::of(instance, Some(&data)).filter(|_| fits_on_local_disks(instance, &data))?;
        let after = self.with(staged)?;
        let (time, passes) = (Hours::from(staging.seconds()), loading::passes(self.pricer.workload));
        let what =
            format!("{} copied to local NVMe at every start, in {time}, instead of read {passes:.0} times", data.size);
        Some(self.cure("stage", what, &after))
    }

    /// The cheapest machines with the same GPU that have more vCPUs for each, or fewer GPUs in all.
    fn other_machines(&self, kept: &[OfferId], cure: &'static str) -> Option<Cure> {
        let (pricer, world) = (self.pricer, self.pricer.world);
        let of = |id: InstanceId| world.hardware.instance(id);
        let vcpus = |id: InstanceId| f64::from(of(id).vcpus) / f64::from(of(id).node.devices());
        let mine = world.market.offer(self.plan.offer);
        let mut cheapest: BTreeMap<InstanceId, OfferId> = BTreeMap::new();
        for id in kept {
            let offer = world.market.offer(*id);
            let (here, there) = (of(self.plan.instance), of(offer.instance));
            if here.node.gpu != there.node.gpu || there.node.gpus.is_slice() || offer.purchase != mine.purchase {
                continue;
            }
            let best = cheapest.entry(offer.instance).or_insert(*id);
            if offer.quote.rate < world.market.offer(*best).quote.rate {
                *best = *id;
            }
        }
        let gpus = self.plan.nodes * of(self.plan.instance).node.devices();
        let mut plans = Vec::new();
        for (instance, offer) in cheapest {
            let devices = of(instance).node.devices();
            let nodes: Vec<u32> = match cure {
                "more-vcpus" if vcpus(instance) > vcpus(self.plan.instance) && gpus.is_multiple_of(devices) => {
                    vec![gpus / devices]
                }
                "fewer-gpus" => [1, self.plan.nodes / 2]
                    .into_iter()
                    .filter(|nodes| (1..gpus).contains(&(nodes * devices)))
                    .collect(),
                _ => Vec::new(),
            };
            let may = |nodes: &u32| {
                let joined = *nodes == 1 || of(instance).node.fabric.is_some() || pricer.limits.allow_slow_network;
                joined
                    && *nodes <= pricer.limits.node_limit()
                    && count_is_asked(of(instance), world.hardware, pricer.limits, nodes * devices)
            };
            for nodes in nodes.into_iter().filter(may) {
                let step = fastest(world, pricer.workload, instance, nodes).ok();
                plans.extend(step.and_then(|step| pricer.price(&pricer.counter(offer), nodes, Arc::new(step)).ok()));
            }
        }
        let after = plans.into_iter().min_by_key(|plan| plan.cost.expected)?;
        let what = format!("{}, {:.0} vCPUs a GPU", crate::explain::plan_id(world, &after), vcpus(after.instance));
        Some(self.cure(cure, what, &after))
    }
}
