//! `what_if`: what a plan would cost if something that a profile found were mended.

use std::sync::Arc;

use serde::Serialize;

use crate::candidate::Plan;
use crate::choose::World;
use crate::limits::Limits;
use crate::loading;
use crate::packing;
use crate::physics::best_setting;
use crate::price::Pricer;
use gpuplan_estimate::{Machine, StepEstimate, Subject};
use gpuplan_hardware::InstanceId;
use gpuplan_units::Usd;
use gpuplan_workload::Workload;
use gpuplan_workload::profile::{Cause, Finding, Mended};

/// A finding and what mending it would save of this run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PricedFinding {
    #[serde(flatten)]
    pub finding: Finding,
    /// At best. `None`: see `why_unpriced`.
    pub saves_usd: Option<Usd>,
    pub saves_hours: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_unpriced: Option<&'static str>,
}

/// Prices each finding by itself on the recommended plan; savings of several do not add up.
pub fn price(
    world: World,
    workload: &Workload,
    limits: &Limits,
    best: Option<&Plan>,
    findings: &[Finding],
) -> Vec<PricedFinding> {
    let priced = findings.iter().map(|finding| {
        let outcome = best.ok_or("there is no plan").and_then(|plan| saving(world, workload, limits, plan, finding));
        let (saves, why) = match outcome {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        PricedFinding {
            finding: finding.clone(),
            saves_usd: saves.map(|(usd, _)| usd),
            saves_hours: saves.map(|(_, hours)| hours),
            why_unpriced: why,
        }
    });
    priced.collect()
}

fn saving(
    world: World,
    workload: &Workload,
    limits: &Limits,
    plan: &Plan,
    finding: &Finding,
) -> Result<(Usd, f64), &'static str> {
    if finding.cause == Cause::Machine {
        return Err("a fault of the profiled machine; the plan is made without it");
    }
    let mut mended = workload.clone();
    let step = match finding.mended {
        Mended::Unknown => return Err("what it costs cannot be told from this measurement"),
        Mended::Step { left } => StepEstimate { time: plan.step.time.scaled(left), ..(*plan.step).clone() },
        Mended::Precision { precision } if precision == workload.training.precision => {
            return Err("the plan is made with this format already");
        }
        Mended::Precision { precision } => {
            mended.training.precision = precision;
            fastest(world, &mended, plan.instance, plan.nodes)?
        }
        Mended::MicroBatch if workload.training.micro_batch.is_none() => {
            return Err("the plan takes the largest micro batch that pays already");
        }
        Mended::MicroBatch => {
            (mended.training.micro_batch, mended.training.grad_accumulation) = (None, None);
            fastest(world, &mended, plan.instance, plan.nodes)?
        }
    };
    let cost = |workload: &Workload, step: Arc<StepEstimate>| {
        let pricer = Pricer::new(world, workload, limits);
        pricer.price(&pricer.counter(plan.offer), plan.nodes, step).map_err(|_| "a limit is in the way of comparing")
    };
    // Both as first guesses, so that plans on spot compare with themselves.
    let (before, after) = (cost(workload, Arc::clone(&plan.step))?, cost(&mended, Arc::new(step))?);
    if after.cost.expected >= before.cost.expected {
        return Err("it would save nothing on the recommended machines");
    }
    Ok((before.cost.expected - after.cost.expected, before.hours().0 - after.hours().0))
}

/// The best setting of a changed workload on so many machines, fed as they feed it.
pub fn fastest(
    world: World,
    workload: &Workload,
    instance: InstanceId,
    nodes: u32,
) -> Result<StepEstimate, &'static str> {
    let whole = &world.hardware.instance(instance).node;
    let node = packing::part(whole, workload.sweep.as_ref())
        .map_err(|_| "a run of the sweep has no room on the recommended machines")?;
    let machine = Machine::new(world.hardware.gpu(node.gpu), &node);
    let subject = Subject::new(&workload.model, &workload.training, machine).corrected(world.correction);
    let (outcome, _) = best_setting(&subject, workload.training.global_batch.unwrap_or(1), nodes);
    let step = outcome.map_err(|_| "it does not fit on the recommended machines")?;
    Ok(loading::fed(world, workload, instance, nodes, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use gpuplan_estimate::Correction;
    use gpuplan_hardware::Hardware;
    use gpuplan_market::Market;
    use gpuplan_workload::Models;
    use gpuplan_workload::Precision;
    use gpuplan_workload::file::WorkloadFile;
    use gpuplan_workload::profile::Rule;

    fn finding(cause: Cause, mended: Mended) -> Finding {
        let (evidence, advice) = (String::new(), String::new());
        Finding { rule: Rule::Idle, evidence, measured: 0.5, threshold: 0.7, advice, cause, mended }
    }

    /// The findings priced on the recommended plan, and what that plan costs.
    fn priced(workload: &str, findings: &[Finding]) -> (Vec<PricedFinding>, f64) {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let limits = "limits = { gpus = \"H100:8\", clouds = [\"aws\"], purchase = \"on-demand\" }";
        let file = WorkloadFile::parse(&format!("{workload}\n{limits}")).unwrap();
        let workload = file.resolve(&Models::embedded().unwrap(), None).unwrap().workload;
        let limits = Limits::read(&file.limits, &hardware, "2026-08-02T12:00:00Z".parse().unwrap()).unwrap();
        let world = World { hardware: &hardware, market: &market, correction: &Correction::NONE };
        let best = plan(world, &workload, &limits).recommendation.unwrap();
        let without_plan = price(world, &workload, &limits, None, findings);
        assert!(without_plan.iter().all(|priced| priced.saves_usd.is_none() && priced.why_unpriced.is_some()));
        (price(world, &workload, &limits, Some(&best), findings), best.cost.expected.dollars())
    }

    #[test]
    fn a_shorter_step_saves_its_share_and_what_cannot_be_told_says_so() {
        let text = "model = { preset = \"llama-2-7b\" }\ntraining = { task = \"pretrain\", tokens = \"1B\", precision = \"fp32\" }";
        let (found, cost) = priced(
            text,
            &[
                finding(Cause::Program, Mended::Step { left: 0.5 }),
                finding(Cause::Program, Mended::Precision { precision: Precision::Bf16 }),
                finding(Cause::Program, Mended::Precision { precision: Precision::Fp32 }),
                finding(Cause::Machine, Mended::Step { left: 0.5 }),
                finding(Cause::Program, Mended::Unknown),
                finding(Cause::Program, Mended::MicroBatch),
            ],
        );
        // Starting the machines and keeping checkpoints costs the same.
        let share = found[0].saves_usd.unwrap().dollars() / cost;
        assert!(share > 0.4 && share < 0.5, "{share}");
        assert!(found[1].saves_usd.unwrap() > found[0].saves_usd.unwrap());
        assert!(
            found[2..].iter().all(|priced| priced.saves_usd.is_none() && priced.why_unpriced.is_some()),
            "{found:?}"
        );
    }

    #[test]
    fn a_micro_batch_that_was_fixed_too_small_is_priced() {
        let text = "model = { preset = \"gpt-2\" }\ntraining = { task = \"pretrain\", tokens = \"100B\", precision = \"bf16\", \
            sequence_length = 1024, global_batch = 512, micro_batch = 1 }";
        let (found, cost) = priced(text, &[finding(Cause::Program, Mended::MicroBatch)]);
        assert!(found[0].saves_usd.unwrap().dollars() > 0.2 * cost, "{found:?} of {cost}");
    }
}
