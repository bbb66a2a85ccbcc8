//! Adds reasons, advice and warnings to the plans that will be shown.

use crate::candidate::{Plan, plan_id};
use crate::choice::objective::{Aim, by_key};
use crate::choice::value_of_time::ValueOfTime;
use crate::context::Context;
use crate::explanation::advice::MigSlice;
use crate::explanation::reason::RunnerUp;
use crate::explanation::{Advice, Reason, Warning};
use crate::input::checks;
use crate::input::waiting::input_wait;
use crate::limits::{KnownQuota, MOST_NODES, Objective, QuotaRoom, USUAL_NODES};
use crate::money::pricer::{Pricer, Standing};
use crate::money::side_charges::SideCharges;
use crate::plan_set::PlanSet;
use crate::serving::explanation as serving_explanation;
use crate::spot::SpotForecast;
use crate::training::advice as training_advice;
use gpuplan_estimate::StepEstimate;
use gpuplan_market::Purchase;
use gpuplan_spot::evidence::NOTHING_KNOWN;
use gpuplan_units::{Bytes, Hours, Seconds, Usd};
use gpuplan_workload::serving::StoredFormat;
use gpuplan_workload::{Precision, Shard};
use jiff::Timestamp;

/// A job that uses less of a card than this could share it.
const SMALL_SHARE: f64 = 0.25;
/// A job that takes longer is left its card.
const SHORT_RUN: Hours = Hours(2.0);

/// Reasons, advice and warnings for the plans that will be shown. `plans` keep every limit.
pub fn annotate(pricer: &Pricer, plans: usize, set: &mut PlanSet) {
    let context = pricer.context;
    let Context { world, workload, .. } = context;
    for plan in set.recommendation.iter_mut().chain(&mut set.frontier).chain(&mut set.alternatives) {
        plan.quota = room(pricer, plan);
    }
    let runner_up = runner_up(set).cloned();
    if let Some(best) = &mut set.recommendation {
        best.reasons = reasons(context, plans, best, set.value_of_time, runner_up.as_ref());
        best.advice = advice(context, best);
    }
    for plan in set.frontier.iter_mut().chain(&mut set.alternatives) {
        plan.advice = advice(context, plan);
        plan.advice.extend(input_wait(context, plan).map(Advice::InputWait));
    }
    let mut warnings = measured(context, set);
    warnings.extend(workload.serving.as_ref().map(|serving| serving_explanation::warning(workload, serving)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| training_advice::recomputes_unasked(context, best)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| old_price(pricer, best)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| quota(context, best)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| beyond_quota(pricer, best, set)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| priced_only(pricer, best, set)));
    warnings.extend(set.recommendation.as_ref().and_then(|best| at_old_price(pricer, best, set)));
    if let Some(best) = &set.recommendation {
        warnings.extend(booked(context, best));
        warnings.extend(counted_as_fp16(context, best));
        let serving = workload.serving.as_ref();
        warnings.extend(serving.and_then(|serving| serving_explanation::mostly_idle(serving, best)));
        warnings.extend(most_machines(context, best));
        warnings.extend(checks::warnings(context, best.instance));
        warnings.extend(unpriced(context, best));
        if best.spot.is_some() {
            warnings.push(Warning::SpotReplay);
            let shown = set.frontier.iter().chain(&set.alternatives);
            let firm = shown.filter(|plan| world.market.offer(plan.offer).purchase == Purchase::OnDemand);
            let firm = firm.min_by_key(|plan| plan.cost.expected);
            let cost = |plan: &Plan| Warning::OnDemandCost { cost_usd: plan.cost.expected, plan: plan_id(world, plan) };
            warnings.extend(firm.map(cost));
        }
    }
    set.warnings.extend(warnings);
}

/// What the bill leaves out for want of a rate.
fn unpriced(context: Context, best: &Plan) -> Option<Warning> {
    let Context { world, workload, .. } = context;
    let offer = world.market.offer(best.offer);
    let instance = world.hardware.instance(best.instance);
    let charges = SideCharges::new(&world.market.charges, offer, instance, workload.data.as_ref(), 1.0);
    let items = charges.unpriced();
    (!items.is_empty()).then(|| Warning::Unpriced { cloud: instance.cloud.label().to_owned(), items })
}

/// That the price of the recommended machines was seen a while ago, and what that means.
fn old_price(pricer: &Pricer, best: &Plan) -> Option<Warning> {
    let offer = pricer.context.world.market.offer(best.offer);
    let now = pricer.context.limits.now.filter(|now| offer.owned.is_none() && offer.is_stale(*now))?;
    let drift = pricer.drift(offer);
    Some(Warning::OldPrice {
        age_hours: offer.quote.age(now),
        cloud: pricer.context.world.hardware.instance(best.instance).cloud.label().to_owned(),
        purchase: offer.purchase.word().to_owned(),
        expected_change: drift.expected - 1.0,
        p90_change: drift.p90 - 1.0,
    })
}

/// When the recommended machines are there, where they are sold ahead, and what that costs.
fn booked(context: Context, best: &Plan) -> Option<Warning> {
    let offer = context.world.market.offer(best.offer);
    let booking = *offer.booking.as_deref()?;
    let upfront_usd = offer.quote.rate.for_hours(booking.machines, f64::from(booking.paid_hours))?;
    Some(Warning::Booked { booking, upfront_usd })
}

/// That the work cannot be run as it stands on a GPU before Ampere, where nobody stated another precision.
fn counted_as_fp16(context: Context, best: &Plan) -> Option<Warning> {
    let Context { world, workload, .. } = context;
    let gpu = world.hardware.gpu(world.hardware.instance(best.instance).node.gpu);
    let is_bf16 = match &workload.serving {
        Some(serving) => serving.weights == StoredFormat::Bf16,
        None => matches!(workload.training.precision, Precision::Bf16 | Precision::PureBf16),
    };
    Warning::counted_as_fp16(gpu, is_bf16)
}

/// That more machines could be better, where nobody said how many at most.
fn most_machines(context: Context, best: &Plan) -> Option<Warning> {
    let is_open =
        context.limits.max_nodes.is_none() && context.limits.offers.gpus.iter().all(|gpus| gpus.count().is_none());
    (is_open && best.nodes == USUAL_NODES).then_some(Warning::MostMachines { machines: USUAL_NODES, limit: MOST_NODES })
}

/// What would be chosen of the clouds on which nothing can be launched, where it is better; or that the recommended one is one of those.
fn priced_only(pricer: &Pricer, best: &Plan, set: &PlanSet) -> Option<Warning> {
    let world = pricer.context.world;
    let cloud = |plan: &Plan| world.hardware.instance(plan.instance).cloud.label().to_owned();
    let is_launchable = |plan: &Plan| pricer.is_launchable(world.market.offer(plan.offer));
    if !is_launchable(best) {
        let limits = pricer.context.limits;
        let asked = &limits.offers.clouds;
        let not_asked = limits.launchable.iter().flatten().filter(|known| !asked.is_empty() && !asked.contains(known));
        let not_asked = not_asked.map(|cloud| cloud.as_str().to_owned()).collect();
        return Some(Warning::NotLaunchable { cloud: cloud(best), not_asked });
    }
    let other = better(pricer, best, set, |standing| {
        standing.is_elsewhere && !standing.is_beyond_quota && !standing.is_price_unknown
    })?;
    Some(Warning::BetterWherePricedOnly {
        plan: plan_id(world, other),
        cloud: cloud(other),
        cost_usd: other.cost.expected,
        run_hours: other.hours(),
    })
}

/// What would be chosen at prices that are too old to know, where the recommended one has a price that is known.
fn at_old_price(pricer: &Pricer, best: &Plan, set: &PlanSet) -> Option<Warning> {
    let Context { world, limits, .. } = pricer.context;
    let other = better(pricer, best, set, |standing| {
        !standing.is_elsewhere && !standing.is_beyond_quota && standing.is_price_unknown
    })?;
    Some(Warning::BetterAtOldPrice {
        plan: plan_id(world, other),
        age_hours: world.market.offer(other.offer).quote.age(limits.now?),
        cost_usd: other.cost.expected,
        run_hours: other.hours(),
    })
}

/// What is known of the account's room for the machines of a plan, and for those that it falls back to.
fn room(pricer: &Pricer, plan: &Plan) -> QuotaRoom {
    let offer = pricer.context.world.market.offer(plan.offer);
    let room = pricer.room(offer, offer.purchase, plan.nodes);
    if plan.falls_back() { room.and(pricer.room(offer, Purchase::OnDemand, plan.nodes)) } else { room }
}

/// That the account may not run the recommended machines, or may have no room for them, or that nobody asked it.
fn quota(context: Context, best: &Plan) -> Option<Warning> {
    let Context { world, limits, .. } = context;
    let age = |quota: &KnownQuota| Hours(limits.now.map_or(0.0, |now| hours_between(quota.asked_at, now)));
    match &best.quota {
        QuotaRoom::Exceeded { needed, quota } => {
            Some(Warning::OverQuota { needed: *needed, quota: quota.clone(), age_hours: age(quota) })
        }
        QuotaRoom::Within { needed, quota } if quota.was_taken(*needed) => {
            Some(Warning::QuotaWasTaken { needed: *needed, quota: quota.clone(), age_hours: age(quota) })
        }
        QuotaRoom::Within { .. } | QuotaRoom::NotNeeded => None,
        QuotaRoom::Unknown => {
            let cloud = &world.hardware.instance(best.instance).cloud;
            let region = world.market.offer(best.offer).place.region.to_string();
            let can_be_asked = limits.quotas.clouds.contains(cloud);
            can_be_asked.then(|| Warning::QuotaUnknown { cloud: cloud.label().to_owned(), region })
        }
    }
}

/// What would be chosen if the account had room for it.
fn beyond_quota(pricer: &Pricer, best: &Plan, set: &PlanSet) -> Option<Warning> {
    let Context { world, limits, .. } = pricer.context;
    let other = better(pricer, best, set, |standing| {
        !standing.is_elsewhere && standing.is_beyond_quota && !standing.is_price_unknown
    })?;
    let QuotaRoom::Exceeded { needed, quota } = &other.quota else { return None };
    Some(Warning::BetterBeyondQuota {
        plan: plan_id(world, other),
        needed: *needed,
        quota: quota.clone(),
        age_hours: Hours(hours_between(quota.asked_at, limits.now?)),
        cost_usd: other.cost.expected,
        run_hours: other.hours(),
    })
}

fn hours_between(then: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(then).as_secs_f64() / 3600.0
}

/// Of the plans beside it that stand so, the best, where it is better than the recommended one.
fn better<'p>(pricer: &Pricer, best: &Plan, set: &'p PlanSet, stands: fn(Standing) -> bool) -> Option<&'p Plan> {
    let aim = Aim::new(pricer.context.limits, set.value_of_time);
    let key = |plan: &Plan| aim.key(plan.cost.expected, plan.run.hours.expected);
    let standing = |plan: &Plan| pricer.standing(pricer.context.world.market.offer(plan.offer), plan.nodes);
    let others = set.alternatives.iter().filter(|plan| stands(standing(plan)) && standing(best) < standing(plan));
    others.min_by(|a, b| by_key(key(a), key(b))).filter(|plan| by_key(key(plan), key(best)).is_lt())
}

/// What was measured, and what that changed for the recommended GPU and for the next best.
fn measured(context: Context, set: &PlanSet) -> Vec<Warning> {
    let correction = context.world.correction;
    let mut details: Vec<String> =
        correction.measured().iter().flat_map(|measured| measured.reasons.iter().cloned()).collect();
    for plan in set.recommendation.iter().chain(runner_up(set)) {
        let changed = correction.description_of(context.world.gpu_of(plan.instance));
        details.extend(changed.filter(|changed| !details.contains(changed)));
    }
    details.into_iter().map(|detail| Warning::Measured { detail }).collect()
}

/// The best plan on other hardware or other terms.
fn runner_up(set: &PlanSet) -> Option<&Plan> {
    let best = set.recommendation.as_ref()?;
    let is_other = |plan: &&Plan| plan.instance != best.instance;
    set.frontier.iter().chain(&set.alternatives).filter(is_other).min_by_key(|plan| plan.cost.expected)
}

fn reasons(context: Context, plans: usize, best: &Plan, value: ValueOfTime, runner_up: Option<&Plan>) -> Vec<Reason> {
    let Context { workload, limits, .. } = context;
    let objective = limits.objective;
    let counts_waiting = objective == Objective::CostAndTime && value.usd_per_hour > Usd::ZERO;
    let value_of_time_usd_per_hour = counts_waiting.then_some(value.usd_per_hour);
    let mut reasons = vec![Reason::Objective { objective, counts_waiting, value_of_time_usd_per_hour, plans }];
    match &workload.serving {
        Some(serving) => reasons.extend(serving_explanation::reasons(context, serving, best)),
        None => {
            reasons.extend(training_advice::reasons(context, best));
            reasons.extend(input_wait(context, best).map(Reason::InputWait));
        }
    }
    reasons.extend(runner_up.map(|other| Reason::RunnerUp(compared(context, best, other))));
    reasons.extend(own_runs(context, best));
    reasons
}

fn compared(context: Context, best: &Plan, other: &Plan) -> RunnerUp {
    let offer = context.world.market.offer(other.offer);
    RunnerUp {
        gpus: other.gpus(),
        gpu: context.world.gpu_of(other.instance).name.clone(),
        purchase: other.terms(offer.purchase).to_owned(),
        region: offer.place.region.to_string(),
        cost_ratio: other.cost.expected.dollars() / best.cost.expected.dollars(),
        run_hours: other.hours(),
        recommended_run_hours: best.hours(),
        latency: context
            .workload
            .serving
            .as_ref()
            .and_then(|serving| serving_explanation::latency(serving, best, other)),
    }
}

/// What the user's own finished runs changed in the time and in its doubt.
fn own_runs(context: Context, plan: &Plan) -> Option<Reason> {
    let Context { world, workload, .. } = context;
    let (own, experience) = world.correction.own_runs().zip(plan.step.experience)?;
    let p90_ratio = |step: &StepEstimate| step.step_seconds().high / step.step_seconds().expected;
    let without = StepEstimate { experience: None, ..(*plan.step).clone() };
    Some(Reason::OwnRuns {
        runs: own.description_of(world.gpu_of(plan.instance), &workload.model, &workload.training),
        time_factor: experience.time,
        p90_ratio: p90_ratio(&plan.step),
        p90_ratio_without: p90_ratio(&without),
    })
}

/// Everything worth saying about running this plan well.
fn advice(context: Context, plan: &Plan) -> Vec<Advice> {
    let mut advice = match &context.workload.serving {
        Some(serving) => serving_explanation::advice(context, serving, plan),
        None => training_advice::advice(context, plan),
    };
    advice.extend(machine_advice(context, plan));
    if let Some(spot) = &plan.spot {
        advice.extend(spot_advice(plan, spot));
    }
    advice
}

/// What the disks, the size and the links of the machine are good for.
fn machine_advice(context: Context, plan: &Plan) -> Vec<Advice> {
    let instance = context.world.hardware.instance(plan.instance);
    let mut advice = Vec::new();
    if let Some(data) = context.workload.data.as_ref().filter(|data| data.location.is_none()) {
        match instance.local_nvme {
            Some(disk) if disk >= data.size => {
                advice.push(Advice::StageOnLocalDisk { data_bytes: data.size, disk_bytes: disk });
            }
            Some(disk) if disk.0 > 0.0 => advice.push(Advice::DataExceedsLocalDisk),
            _ => {}
        }
    }
    let share = plan.step.memory.needed / instance.node.gpu_memory.0;
    if plan.gpus() == 1 && !instance.node.gpus.is_slice() && share < SMALL_SHARE && plan.hours() < SHORT_RUN {
        let slice = context.world.gpu_of(plan.instance).slice_for(Bytes(plan.step.memory.needed)).map(|slice| {
            MigSlice { profile: slice.profile, processors: format!("{}/{}", slice.processors.0, slice.processors.1) }
        });
        advice.push(Advice::SmallerCard { memory_share: share, run_hours: plan.hours(), slice });
    }
    let is_sharded = plan.step.setting.layout.shard != Shard::None;
    if instance.node.devices() > 1 && !instance.node.link.is_fast() && is_sharded {
        advice.push(Advice::ShardingOverPcie);
    }
    advice
}

/// What a warning before an interruption is good for, and on what little the forecast rests.
fn spot_advice(plan: &Plan, spot: &SpotForecast) -> Vec<Advice> {
    let saving = &plan.run.saving;
    let notice_seconds = saving.notice.map_or(Seconds(0.0), |notice| Seconds(notice.seconds));
    let checkpoint_bytes = saving.bytes;
    let mut advice = vec![match saving.notice {
        _ if plan.step.served.is_some() => Advice::KeepAnsweredRequests,
        Some(notice) if notice.saves_all => Advice::SaveOnNotice { notice_seconds, checkpoint_bytes },
        Some(notice) => Advice::ShortNotice { notice_seconds, saved_bytes: notice.saves, checkpoint_bytes },
        None => Advice::NoNotice,
    }];
    if plan.nodes > 1 {
        advice.push(Advice::UnprobedCount { nodes: plan.nodes });
    }
    if spot.basis == NOTHING_KNOWN {
        advice.push(Advice::NoInterruptionData);
    }
    advice
}
