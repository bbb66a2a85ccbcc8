//! What doing each phase of a portfolio once costs: planned now, read from a recorded plan, or stated as a rate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::arguments::workload::WorkloadArguments;
use crate::planning::{phases, processing};
use crate::question::answer::{compute_on, context, gathered_with};
use crate::question::fitting;
use crate::question::measurements::Measurements;
use crate::question::workload;
use crate::session::diagnostic::Diagnostic;
use crate::session::input::read_text;
use crate::session::{Catalogs, Session};
use gpuplan_budget::portfolio::planned::{HeldPlan, PhaseCost, PlannedError};
use gpuplan_budget::portfolio::{CostSource, Phase};
use gpuplan_hardware::CloudId;
use gpuplan_market::Capacity;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_plan::document::{AnyDocument, PlanDocument, PlanRecord};
use gpuplan_units::UsdPerHour;
use gpuplan_workload::file::{LimitsSection, WorkloadFile};

/// Clouds that answered for one workload of a portfolio are not asked again for the next.
const ASKED_LATELY: &str = "1h";

/// Answers each question once, however many phases ask it.
pub struct Planner<'a> {
    /// The portfolio, beside which its workloads and plans lie.
    pub file: &'a Path,
    pub prices: &'a PriceArguments,
    pub measured: &'a MeasuredArguments,
    pub session: &'a Session,
    pub capacity: &'a Capacity,
    pub pools: &'a [Pool],
    pub catalogs: &'a Catalogs,
    /// By the question.
    pub documents: BTreeMap<String, Rc<AnyDocument>>,
}

impl Planner<'_> {
    /// What the phase costs, done once.
    pub fn once(&mut self, phase: &Phase) -> Result<PhaseCost, Diagnostic> {
        let costs = self.costs(&phase.what);
        costs.map_err(|diagnostic| self.at(phase, diagnostic))
    }

    /// The `[[phase]]`s of its workload, or of the workload of its plan, by name; none where it has none.
    pub fn phases_of(&mut self, phase: &Phase) -> Result<Vec<String>, Diagnostic> {
        let names = match &phase.what {
            CostSource::Workload { path, .. } => {
                let arguments = WorkloadArguments { file: Some(self.beside_portfolio(path)), ..Default::default() };
                let names = |file: WorkloadFile| file.phase.into_iter().map(|phase| phase.name).collect();
                workload::read(&arguments).map(names)
            }
            // One that is named is a plan of one of its phases.
            CostSource::Plan { path, id: None, .. } => {
                self.answered(path, |planner| planner.recorded(path)).map(|all| {
                    let phases = all.phases().map(|all| all.phases.as_slice()).unwrap_or_default();
                    phases.iter().map(|phase| phase.name.clone()).collect()
                })
            }
            CostSource::Plan { .. } | CostSource::Rate(_) => Ok(Vec::new()),
        };
        names.map_err(|diagnostic| self.at(phase, diagnostic))
    }

    fn at(&self, phase: &Phase, mut diagnostic: Diagnostic) -> Diagnostic {
        let (file, line, path) = (self.file.display(), phase.line, phase.path());
        diagnostic.message = format!("{file} line {line}, `{path}`: {}", diagnostic.message);
        diagnostic
    }

    fn costs(&mut self, what: &CostSource) -> Result<PhaseCost, Diagnostic> {
        match what {
            CostSource::Rate(rate) => {
                let mut once = PhaseCost::of_rate(rate).ok_or_else(|| {
                    Diagnostic::usage("its cost is beyond counting").hint("check `usd_per_hour`, `nodes` and `hours`")
                })?;
                let pools = self.pools.iter().enumerate();
                once.held = pools.filter_map(|(at, pool)| HeldPlan::of_the_same(at, pool, &once)).collect();
                Ok(once)
            }
            CostSource::Workload { path, phase, limits } => {
                let key = format!("{path} {}", serde_json::json!(limits));
                let document = self.answered(&key, |planner| planner.planned(path, None, limits, None))?;
                let mut once = self.cost_of(&document, phase.as_deref(), None)?;
                once.on_demand = self.on_demand(&once);
                for (at, pool) in self.pools.iter().enumerate() {
                    let on_pool = format!("{key} {phase:?} on {}", pool.name);
                    let asked = |planner: &Self| planner.planned(path, phase.clone(), limits, Some(&pool.name));
                    // Machines without GPU are not held.
                    let document = self.answered(&on_pool, asked)?;
                    let AnyDocument::Gpu(document) = &*document else { continue };
                    let Some(plan) = cheapest(document, |plan| plan.cost.full_cost_usd.is_some()) else { continue };
                    once.held.extend(held_plan(document, plan, at)?);
                }
                Ok(once)
            }
            CostSource::Plan { path, phase, id } => {
                let document = self.answered(path, |planner| planner.recorded(path))?;
                self.cost_of(&document, phase.as_deref(), id.as_deref())
            }
        }
    }

    /// Of one phase of a document that has some, else of its plan with this id, or of the one that it recommends.
    fn cost_of(&self, document: &AnyDocument, phase: Option<&str>, id: Option<&str>) -> Result<PhaseCost, Diagnostic> {
        match (document, phase) {
            (document, Some(phase)) => PhaseCost::of_phase(document, phase).map_err(|error| no_plan(&error)),
            (AnyDocument::Gpu(document), None) => self.cost_of_recorded(document, id),
            (AnyDocument::Processing(document), None) => {
                PhaseCost::of_processing(document).map_err(|error| no_plan(&error))
            }
        }
    }

    /// What its machine costs on demand where it runs, as it is priced today.
    fn on_demand(&self, once: &PhaseCost) -> Option<UsdPerHour> {
        let machines = &once.machines;
        let Catalogs { hardware, market } = self.catalogs;
        let instance = hardware.find_instance(&CloudId::new(&machines.cloud), machines.instance_type.as_deref()?)?;
        market.on_demand_rate(instance, machines.region.as_deref()?)
    }

    /// A recorded plan on machines that are held is one way to run it; the cheapest rented plan beside it is the other.
    fn cost_of_recorded(&self, document: &PlanDocument, id: Option<&str>) -> Result<PhaseCost, Diagnostic> {
        let cost = |id| PhaseCost::of_plan(document, id).map_err(|error| no_plan(&error));
        let chosen = document.pick(id).map_err(|error| no_plan(&error.into()))?;
        if chosen.cost.full_cost_usd.is_none() {
            return cost(id);
        }
        let machines = &chosen.machines;
        let at = self
            .pools
            .iter()
            .position(|pool| pool.cloud == machines.cloud && pool.instance_type == machines.instance_type)
            .ok_or_else(|| {
                Diagnostic::usage(format!(
                    "plan `{}` is on {} that are held, and neither the portfolio nor capacity.toml says how many there are",
                    chosen.id, machines.instance_type
                ))
                .hint("gpuplan budget FILE --capacity capacity.toml")
            })?;
        let Some(rented) = cheapest(document, |plan| plan.cost.full_cost_usd.is_none()) else {
            return Err(nothing_rented());
        };
        let mut once = cost(Some(&rented.id))?;
        once.held.extend(held_plan(document, chosen, at)?);
        Ok(once)
    }

    fn answered(
        &mut self,
        question: &str,
        answer: impl FnOnce(&Self) -> Result<AnyDocument, Diagnostic>,
    ) -> Result<Rc<AnyDocument>, Diagnostic> {
        if let Some(known) = self.documents.get(question) {
            return Ok(Rc::clone(known));
        }
        let document = Rc::new(answer(self)?);
        self.documents.insert(question.to_owned(), Rc::clone(&document));
        Ok(document)
    }

    fn beside_portfolio(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// As `plan --output json` answers it, with this pool as the only machines that are held, or without any.
    fn planned(
        &self,
        path: &str,
        phase: Option<String>,
        limits: &LimitsSection,
        pool: Option<&str>,
    ) -> Result<AnyDocument, Diagnostic> {
        let file = Some(self.beside_portfolio(path));
        let arguments = WorkloadArguments { file, phase, ..WorkloadArguments::default() };
        let file =
            workload::read(&arguments)?.overlay(WorkloadFile { limits: limits.clone(), ..WorkloadFile::default() });
        let given = self.prices;
        let max_age = if self.documents.is_empty() || !given.live {
            given.max_age.clone()
        } else {
            Some(ASKED_LATELY.to_owned())
        };
        let prices = PriceArguments {
            live: given.live,
            max_age,
            accept_stale_prices: given.accept_stale_prices,
            capacity: given.capacity.clone(),
            policy: given.policy.clone(),
        };
        let capacity = self.capacity.with_only(pool);
        let measured = Measurements::find(self.measured, self.session)?;
        let is_training = file.phase.is_empty() && file.processing.is_none();
        if is_training {
            workload::resolve(&file, &self.session.models()?)?;
        }
        let gathered = gathered_with(&capacity, &file.limits, &prices, self.session)?;
        if !is_training {
            return match file.processing {
                Some(_) => processing::recorded(&file, &gathered, self.session),
                None => phases::recorded(&file, &measured, gathered, self.session),
            };
        }
        let answered = compute_on(gathered, &file, &measured, self.session)?;
        if answered.set.recommendation.is_none() && self.pools.is_empty() {
            let mut diagnostic = fitting::refused(&answered, &file, self.session);
            diagnostic.message = format!("{path}: {}", diagnostic.message);
            return Err(diagnostic);
        }
        let document = PlanDocument::new(&answered.set, &context(&answered, &file, self.session)?);
        Ok(AnyDocument::Gpu(Box::new(document)))
    }

    fn recorded(&self, path: &str) -> Result<AnyDocument, Diagnostic> {
        let text = read_text(&self.beside_portfolio(path))?;
        AnyDocument::read(&text).map_err(|error| no_plan(&error.into()))
    }
}

/// Of all plans that a document shows, the cheapest of these.
fn cheapest(document: &PlanDocument, is_wanted: impl Fn(&PlanRecord) -> bool) -> Option<&PlanRecord> {
    let plans =
        document.plans.recommendation.iter().chain(&document.plans.frontier).chain(&document.plans.alternatives);
    plans
        .filter(|plan| is_wanted(plan))
        .min_by(|a, b| (a.cost.cost_usd.expected, &a.id).cmp(&(b.cost.cost_usd.expected, &b.id)))
}

/// `None`: no distribution has its hours.
fn held_plan(document: &PlanDocument, plan: &PlanRecord, pool: usize) -> Result<Option<HeldPlan>, Diagnostic> {
    let once = PhaseCost::of_plan(document, Some(&plan.id)).map_err(|error| no_plan(&error))?;
    Ok(HeldPlan::of_plan(pool, once))
}

/// What does not fit on held machines would have no price.
fn nothing_rented() -> Diagnostic {
    Diagnostic::usage(
        "no plan on rented machines is known: what does not fit on the machines that are held would have no price",
    )
    .hint("widen the `limits` of the run, such as `clouds` and `deadline`, so that machines can be rented too")
}

fn no_plan(error: &PlannedError) -> Diagnostic {
    Diagnostic::usage(error).hint("gpuplan plan FILE --output json >plan.json")
}
