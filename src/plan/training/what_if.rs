//! `what_if`: what a plan would cost if something that a profile found were fixed.

use std::sync::Arc;

use crate::candidate::Plan;
use crate::context::Context;
use crate::input::feeding::fed;
use crate::money::price::price;
use crate::money::pricer::Pricer;
use crate::training::packing;
use crate::training::search::best_setting;
use gpuplan_estimate::{Machine, StepEstimate, Subject};
use gpuplan_hardware::InstanceId;
use gpuplan_units::{Hours, Usd};
use gpuplan_workload::Workload;
use gpuplan_workload::profile::{Cause, Finding, Mended};

/// A finding and what fixing it would save of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedFinding {
    pub finding: Finding,
    /// At best.
    pub savings: Result<Savings, Unpriced>,
}

/// What a fix saves of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Savings {
    pub cost: Usd,
    pub hours: Hours,
}

/// Why the savings of a fix are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpriced {
    /// Nothing is recommended, so there is nothing to save from.
    NoPlan,
    /// A fault of the profiled machine: the plan is made without it.
    MachineFault,
    /// The measurement does not tell what it costs.
    NotMeasured,
    /// The plan has this number format already.
    SamePrecision,
    /// The plan takes the largest micro batch that pays already.
    LargestMicroBatch,
    /// A limit of the plan is in the way.
    Limit,
    NothingSaved,
    /// A run of the sweep has no room on the recommended machines.
    SweepRunTooLarge,
    /// It does not fit on the recommended machines.
    TooLarge,
}

/// Prices each finding by itself on the recommended plan; savings of several do not add up.
pub fn price_findings(context: Context, best: Option<&Plan>, findings: &[Finding]) -> Vec<PricedFinding> {
    let priced = findings.iter().map(|finding| PricedFinding {
        finding: finding.clone(),
        savings: best.ok_or(Unpriced::NoPlan).and_then(|plan| savings(context, plan, finding)),
    });
    priced.collect()
}

fn savings(context: Context, plan: &Plan, finding: &Finding) -> Result<Savings, Unpriced> {
    if finding.cause == Cause::Machine {
        return Err(Unpriced::MachineFault);
    }
    let workload = context.workload;
    let mut fixed = workload.clone();
    let step = match finding.mended {
        Mended::Unknown => return Err(Unpriced::NotMeasured),
        Mended::Step { left } => StepEstimate { time: plan.step.time.scaled(left), ..(*plan.step).clone() },
        Mended::Precision { precision } if precision == workload.training.precision => {
            return Err(Unpriced::SamePrecision);
        }
        Mended::Precision { precision } => {
            fixed.training.precision = precision;
            fastest(Context { workload: &fixed, ..context }, plan.instance, plan.nodes)?
        }
        Mended::MicroBatch if workload.training.micro_batch.is_none() => return Err(Unpriced::LargestMicroBatch),
        Mended::MicroBatch => {
            (fixed.training.micro_batch, fixed.training.grad_accumulation) = (None, None);
            fastest(Context { workload: &fixed, ..context }, plan.instance, plan.nodes)?
        }
    };
    let priced = |workload: &Workload, step: Arc<StepEstimate>| {
        let pricer = Pricer::new(Context { workload, ..context });
        price(&pricer, &pricer.offer(plan.offer), plan.nodes, step).map_err(|_| Unpriced::Limit)
    };
    // Both as first guesses, so that plans on spot compare with themselves.
    let (before, after) = (priced(workload, Arc::clone(&plan.step))?, priced(&fixed, Arc::new(step))?);
    if after.cost.expected >= before.cost.expected {
        return Err(Unpriced::NothingSaved);
    }
    Ok(Savings { cost: before.cost.expected - after.cost.expected, hours: Hours(before.hours().0 - after.hours().0) })
}

/// The best setting of a changed workload on so many machines, fed as they feed it.
pub fn fastest(context: Context, instance: InstanceId, nodes: u32) -> Result<StepEstimate, Unpriced> {
    let Context { world, workload, .. } = context;
    let whole = &world.hardware.instance(instance).node;
    let node = packing::part(whole, workload.sweep.as_ref()).map_err(|_| Unpriced::SweepRunTooLarge)?;
    let machine = Machine::new(world.hardware.gpu(node.gpu), &node);
    let subject = Subject::new(&workload.model, &workload.training, machine).corrected(world.correction);
    let (outcome, _) = best_setting(&subject, workload.training.global_batch.unwrap_or(1), nodes);
    let step = outcome.map_err(|_| Unpriced::TooLarge)?;
    Ok(fed(world, workload, instance, nodes, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::plan;
    use crate::context::World;
    use crate::limits::Limits;
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
        let context = Context { world, workload: &workload, limits: &limits };
        let best = plan(world, &workload, &limits).recommendation.unwrap();
        let without_plan = price_findings(context, None, findings);
        assert!(without_plan.iter().all(|priced| priced.savings == Err(Unpriced::NoPlan)));
        (price_findings(context, Some(&best), findings), best.cost.expected.dollars())
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
        let saved = |index: usize| found[index].savings.unwrap().cost;
        let share = saved(0).dollars() / cost;
        assert!(share > 0.4 && share < 0.5, "{share}");
        assert!(saved(1) > saved(0));
        let unpriced: Vec<Unpriced> = found[2..].iter().map(|priced| priced.savings.unwrap_err()).collect();
        let expected =
            [Unpriced::SamePrecision, Unpriced::MachineFault, Unpriced::NotMeasured, Unpriced::LargestMicroBatch];
        assert_eq!(unpriced, expected);
    }

    #[test]
    fn a_micro_batch_that_was_fixed_too_small_is_priced() {
        let text = "model = { preset = \"gpt-2\" }\ntraining = { task = \"pretrain\", tokens = \"100B\", precision = \"bf16\", \
            sequence_length = 1024, global_batch = 512, micro_batch = 1 }";
        let (found, cost) = priced(text, &[finding(Cause::Program, Mended::MicroBatch)]);
        assert!(found[0].savings.unwrap().cost.dollars() > 0.2 * cost, "{found:?} of {cost}");
    }
}
