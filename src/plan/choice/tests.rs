//! What must hold for every question: more room never makes the objective worse, and what is stale does not win by being stale.
#![cfg(test)]

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use crate::candidate::{Plan, plan_id};
use crate::choice::breadth::Breadth;
use crate::choice::objective::Aim;
use crate::choice::shortlist::{best_of_all, rank_of};
use crate::choice::value_of_time::ValueOfTime;
use crate::choice::{candidates, choose, plan};
use crate::context::{Context, World};
use crate::explanation::{Rejection, Warning};
use crate::limits::{Limits, Objective, OfferFilter, PurchaseChoice};
use crate::money::bill::BillItem;
use crate::money::drift::Drift;
use crate::money::pricer::Pricer;
use crate::plan_set::PlanSet;
use crate::spot::{Forecaster, MOST_UNPROBED, Stock};
use gpuplan_estimate::Correction;
use gpuplan_hardware::{CloudId, GpuSelector, Hardware};
use gpuplan_market::{Booking, Location, Market, Offer, Origin, Purchase, Quote};
use gpuplan_units::draw::Draws;
use gpuplan_units::{Hours, Usd, UsdPerHour};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{Models, Recompute, Workload};

/// Questions that are drawn.
const QUESTIONS: u64 = 40;

struct Case {
    hardware: Hardware,
    market: Market,
    models: Models,
}

impl Case {
    fn new() -> Self {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        Self { hardware, market, models: Models::embedded().unwrap() }
    }

    fn workload(&self, task: &str, tokens: f64) -> Workload {
        self.read(&format!(
            "model.preset = \"llama-3.1-8b\"\ntraining = {{ task = \"{task}\", tokens = {tokens:.0} }}\n"
        ))
    }

    fn read(&self, text: &str) -> Workload {
        WorkloadFile::parse(text).unwrap().resolve(&self.models, None).unwrap().workload
    }

    /// Any model at any size of work, with data somewhere or none.
    fn drawn_workload(&self, draws: &mut Draws) -> Workload {
        let (model, tasks, work) = one_of(
            draws,
            &[
                ("llama-3.1-8b", ["lora", "full-fine-tune"], (2e6, 2e9)),
                ("llama-3.3-70b", ["qlora", "full-fine-tune"], (2e6, 5e8)),
                ("gpt-2", ["pretrain", "full-fine-tune"], (1e7, 3e11)),
                ("mixtral-8x7b", ["lora", "pretrain"], (1e7, 1e10)),
                ("qwen2.5-0.5b", ["pretrain", "full-fine-tune"], (1e7, 1e11)),
            ],
        );
        let (task, tokens) = (one_of(draws, &tasks), drawn(draws, work.0, work.1));
        let gigabytes = drawn(draws, 1.0, 5e4);
        let place = one_of(draws, &["", ", place = \"aws/us-east-1\"", ", place = \"gcp/us-central1\""]);
        let data = if draws.uniform() < 0.4 {
            format!("data = {{ size = \"{gigabytes:.0}GB\"{place} }}\n")
        } else {
            String::new()
        };
        self.read(&format!(
            "model.preset = \"{model}\"\ntraining = {{ task = \"{task}\", tokens = {tokens:.0} }}\n{data}"
        ))
    }

    fn ask(&self, market: &Market, workload: &Workload, limits: &Limits) -> PlanSet {
        plan(World { hardware: &self.hardware, market, correction: &Correction::NONE }, workload, limits)
    }
}

fn now() -> Timestamp {
    "2026-11-23T12:00:00Z".parse().unwrap()
}

/// Clouds on which nothing can be launched come after the others, whatever they ask, and prices that are too old to know after those that are known.
fn rank(case: &Case, market: &Market, set: &PlanSet, limits: &Limits) -> Option<((bool, bool), f64)> {
    let best = set.recommendation.as_ref()?;
    let aim = Aim::new(limits, set.value_of_time);
    let cloud = &case.hardware.instance(best.instance).cloud;
    let launchable = limits.launchable.as_ref().is_none_or(|clouds| clouds.contains(cloud));
    let is_known = limits.objective == Objective::Cost || Drift::reaches(market.offer(best.offer), limits.now);
    Some(((!launchable, !is_known), aim.score(best.cost.expected, best.run.hours.expected)))
}

fn assert_no_worse(case: &Case, wider: (&PlanSet, &Limits), tighter: (&PlanSet, &Limits), what: &str) {
    let Some(of_tighter) = rank(case, &case.market, tighter.0, tighter.1) else { return };
    let of_wider =
        rank(case, &case.market, wider.0, wider.1).unwrap_or_else(|| panic!("{what}: no plan with more room"));
    let is_no_worse = match of_wider.0.cmp(&of_tighter.0) {
        Ordering::Less => true,
        Ordering::Equal => of_wider.1 <= of_tighter.1 + 1e-9,
        Ordering::Greater => false,
    };
    assert!(is_no_worse, "{what}: {of_wider:?} with more room, {of_tighter:?} with less");
}

fn one_of<T: Copy>(draws: &mut Draws, all: &[T]) -> T {
    all[((draws.uniform() * all.len() as f64) as usize).min(all.len() - 1)]
}

fn drawn(draws: &mut Draws, from: f64, to: f64) -> f64 {
    from * (to / from).powf(draws.uniform())
}

#[test]
fn more_time_money_or_gpus_never_make_the_objective_worse() {
    let case = Case::new();
    for question in 0..QUESTIONS {
        let mut draws = Draws::new(20_261_123, question);
        let workload = case.drawn_workload(&mut draws);
        let objective = one_of(
            &mut draws,
            &[Objective::Cost, Objective::CostAndTime, Objective::CostAndTime, Objective::Time, Objective::Balanced],
        );
        let launchable = (draws.uniform() < 0.7).then(|| vec![CloudId::new("aws"), CloudId::new("gcp")]);
        let clouds =
            one_of(&mut draws, &[&["aws", "gcp", "nebius"][..], &["aws"], &["gcp", "azure"], &["aws", "gcp", "azure"]]);
        let clouds = clouds.iter().map(|cloud| CloudId::new(cloud)).collect();
        let gpus = one_of(&mut draws, &["H100:1..16", "A100:1..32", "H200:1..16", "L40S:1..8", "B200:8..32"]);
        let gpus = vec![GpuSelector::parse(gpus, &case.hardware).unwrap()];
        let purchase = one_of(
            &mut draws,
            &[PurchaseChoice::Any, PurchaseChoice::Any, PurchaseChoice::Spot, PurchaseChoice::OnDemand],
        );
        let offers = OfferFilter { clouds, gpus, purchase, ..OfferFilter::default() };
        let free = Limits { objective, launchable, offers, max_nodes: Some(8), now: Some(now()), ..Limits::default() };
        let set = case.ask(&case.market, &workload, &free);
        let Some(best) = &set.recommendation else { continue };
        let deadline = Hours(drawn(&mut draws, 0.3, 3.0) * best.run.hours.expected);
        let budget = Usd::from_dollars(drawn(&mut draws, 0.8, 4.0) * best.cost.expected.dollars());
        let tight = Limits { deadline: Some(deadline), budget, max_nodes: Some(2), ..free.clone() };
        let tight_set = case.ask(&case.market, &workload, &tight);
        let later = Limits { deadline: Some(Hours(deadline.0 * drawn(&mut draws, 1.0, 5.0))), ..tight.clone() };
        let budget = budget.and_then(|budget| Usd::from_dollars(budget.dollars() * drawn(&mut draws, 1.0, 5.0)));
        let richer = Limits { budget, ..tight.clone() };
        let larger = Limits { max_nodes: Some(8), ..tight.clone() };
        for (what, wider) in [("later", later), ("richer", richer), ("larger", larger), ("free", free)] {
            let what = format!("question {question}, {objective:?}, {what}");
            let set = case.ask(&case.market, &workload, &wider);
            assert_no_worse(&case, (&set, &wider), (&tight_set, &tight), &what);
        }
    }
}

/// Bounds and domination leave out forecasts, and never the plan that would have been recommended.
#[test]
fn what_is_not_forecast_would_not_have_been_recommended() {
    let case = Case::new();
    let mut forecast_all = 0;
    for question in 0..QUESTIONS {
        let mut draws = Draws::new(20_261_124, question);
        let workload = case.drawn_workload(&mut draws);
        let objective = one_of(&mut draws, &[Objective::Cost, Objective::CostAndTime, Objective::Time]);
        let gpus = one_of(&mut draws, &["H100:1..16", "A100:1..16", "L40S:1..8", "H200:8"]);
        let clouds = one_of(&mut draws, &[&["aws", "gcp"][..], &["aws"], &["gcp", "azure"]]);
        let offers = OfferFilter {
            clouds: clouds.iter().map(|cloud| CloudId::new(cloud)).collect(),
            gpus: vec![GpuSelector::parse(gpus, &case.hardware).unwrap()],
            ..OfferFilter::default()
        };
        let deadline = (draws.uniform() < 0.6).then(|| Hours(drawn(&mut draws, 2.0, 300.0)));
        let limits = Limits { objective, offers, deadline, max_nodes: Some(2), now: Some(now()), ..Limits::default() };
        let world = World { hardware: &case.hardware, market: &case.market, correction: &Correction::NONE };
        let pricer = Pricer::new(Context { world, workload: &workload, limits: &limits });
        let aim = Aim::new(&limits, ValueOfTime::new(&workload, &limits));
        let found = candidates(&pricer);
        forecast_all += found.plans.iter().filter(|plan| plan.needs_forecast()).count();
        let best = best_of_all(
            &pricer,
            &mut Forecaster::new(&pricer.model, &Stock::default(), limits.seed),
            found.plans.clone(),
            aim,
        );
        let chosen = choose(&pricer, found, &Stock::default(), Breadth::Everything).recommendation;
        let id = chosen.as_ref().map(|plan| plan_id(world, plan));
        let recommended = chosen.map(|plan| rank_of(&pricer, &plan, aim));
        assert_eq!(recommended, best, "question {question}: {objective:?}, {gpus}, {clouds:?}, {deadline:?}");
        // Who wants nothing beside it gets the same plan.
        let alone = choose(&pricer, candidates(&pricer), &Stock::default(), Breadth::Recommendation).recommendation;
        assert_eq!(alone.map(|plan| plan_id(world, &plan)), id, "question {question}");
    }
    assert!(forecast_all > 1_000, "{forecast_all} plans on spot");
}

#[test]
fn spot_alone_spot_with_a_fallback_and_on_demand_compete_under_a_deadline() {
    let case = Case::new();
    let workload = case.workload("full-fine-tune", 1e8);
    let offers = |purchase| OfferFilter { clouds: vec![CloudId::new("aws")], purchase, ..OfferFilter::default() };
    for objective in [Objective::Cost, Objective::CostAndTime] {
        let limits = |purchase| Limits {
            objective,
            deadline: Some(Hours(24.0)),
            offers: offers(purchase),
            now: Some(now()),
            ..Limits::default()
        };
        let of_any = case.ask(&case.market, &workload, &limits(PurchaseChoice::Any));
        for purchase in [PurchaseChoice::Spot, PurchaseChoice::SpotWithFallback, PurchaseChoice::OnDemand] {
            let limits = limits(purchase);
            let alone = case.ask(&case.market, &workload, &limits);
            assert_no_worse(&case, (&of_any, &limits), (&alone, &limits), &format!("{objective:?}, {purchase:?}"));
        }
    }
}

/// Spot machines of some regions alone, each seen at one moment and for one rate.
fn spot_seen(market: &Market, hardware: &Hardware, rates: &[(&str, f64, i64)]) -> Market {
    let offers = market.offers().iter().filter_map(|offer: &Offer| {
        let named = rates.iter().find(|(region, ..)| *offer.place.region == **region)?;
        if offer.purchase != Purchase::Spot || hardware.instance(offer.instance).name != "p5.48xlarge" {
            return None;
        }
        let observed_at = now() - SignedDuration::from_hours(24 * named.2);
        let rate = UsdPerHour::from_nanos((named.1 * 1e9) as i64);
        Some(Offer { quote: Quote { rate, origin: Origin::Live, observed_at }, ..offer.clone() })
    });
    let offers = offers.collect();
    market.only(|_| false).merged(offers, hardware)
}

/// Eight H100 as spot.
fn spot_of_eight(case: &Case) -> OfferFilter {
    OfferFilter {
        gpus: vec![GpuSelector::parse("H100:8", &case.hardware).unwrap()],
        purchase: PurchaseChoice::Spot,
        ..OfferFilter::default()
    }
}

fn region<'m>(market: &'m Market, plan: &Plan) -> &'m str {
    &market.offer(plan.offer).place.region
}

#[test]
fn an_old_price_does_not_win_by_being_old_and_one_answer_throws_nothing_away() {
    let case = Case::new();
    let workload = case.workload("full-fine-tune", 1e8);
    let offers = spot_of_eight(&case);
    let limits = Limits { objective: Objective::Cost, offers, now: Some(now()), ..Limits::default() };
    let asked = |rates: &[(&str, f64, i64)]| {
        let market = spot_seen(&case.market, &case.hardware, rates);
        let set = case.ask(&market, &workload, &limits);
        let best = set.recommendation.clone().unwrap();
        (region(&market, &best).to_owned(), set)
    };
    // A tenth less, a year ago: such prices have risen by a quarter since.
    let (chosen, set) = asked(&[("us-east-2", 12.0, 0), ("us-west-2", 10.8, 360)]);
    assert_eq!(chosen, "us-east-2");
    // A quarter of it is still the better guess, and the band says how little is known.
    let (chosen, cheap) = asked(&[("us-east-2", 12.0, 0), ("us-west-2", 3.0, 360)]);
    assert_eq!(chosen, "us-west-2");
    let ratio = |set: &PlanSet| {
        let cost = set.recommendation.as_ref().unwrap().cost;
        cost.p90.dollars() / cost.expected.dollars()
    };
    assert!(ratio(&cheap) > ratio(&set));
    // One fresh row of a dear machine leaves all other plans where they were.
    let (_, old) = asked(&[("us-west-2", 10.8, 45)]);
    let (chosen, one_fresh) = asked(&[("us-west-2", 10.8, 45), ("us-east-2", 40.0, 0)]);
    assert_eq!(chosen, "us-west-2");
    assert_eq!(one_fresh.recommendation.unwrap().cost.expected, old.recommendation.unwrap().cost.expected);
}

#[test]
fn many_spot_machines_at_once_are_recommended_only_to_who_asks_for_spot() {
    let case = Case::new();
    let workload = case.workload("pretrain", 1e12);
    let asked = |purchase| {
        let offers = OfferFilter { clouds: vec![CloudId::new("aws")], purchase, ..OfferFilter::default() };
        let set = case.ask(&case.market, &workload, &Limits { offers, now: Some(now()), ..Limits::default() });
        let plans = set.recommendation.iter().chain(&set.frontier).chain(&set.alternatives);
        plans.filter(|plan| plan.spot.is_some()).map(|plan| plan.nodes).max().unwrap_or(0)
    };
    assert!(asked(PurchaseChoice::Any) <= MOST_UNPROBED);
    assert!(asked(PurchaseChoice::Spot) > MOST_UNPROBED);
}

#[test]
fn what_cannot_be_launched_is_recommended_only_where_nothing_else_can_be() {
    let case = Case::new();
    let workload = case.workload("full-fine-tune", 1e8);
    let launchable = Some(vec![CloudId::new("aws"), CloudId::new("gcp")]);
    let limits = Limits { launchable, now: Some(now()), ..Limits::default() };
    let cloud = |set: &PlanSet| case.hardware.instance(set.recommendation.as_ref().unwrap().instance).cloud.to_string();
    let set = case.ask(&case.market, &workload, &limits);
    assert!(["aws", "gcp"].contains(&cloud(&set).as_str()));
    let offers = OfferFilter { clouds: vec![CloudId::new("nebius")], ..OfferFilter::default() };
    let only = case.ask(&case.market, &workload, &Limits { offers, ..limits });
    assert_eq!(cloud(&only), "nebius");
}

/// Who weighs time takes a price that is known before one that is not, hears of the other, and takes it where there is nothing else.
#[test]
fn a_price_that_is_too_old_to_know_is_a_note() {
    let case = Case::new();
    let workload = case.workload("full-fine-tune", 1e8);
    let offers = spot_of_eight(&case);
    let limits = Limits { offers, now: Some(now()), ..Limits::default() };
    let asked = |rates: &[(&str, f64, i64)]| {
        let market = spot_seen(&case.market, &case.hardware, rates);
        let set = case.ask(&market, &workload, &limits);
        let is_told = set.warnings.iter().any(|warning| matches!(warning, Warning::BetterAtOldPrice { .. }));
        (region(&market, set.recommendation.as_ref().unwrap()).to_owned(), is_told)
    };
    assert_eq!(asked(&[("us-east-2", 12.0, 0), ("us-west-2", 3.0, 360)]), ("us-east-2".to_owned(), true));
    assert_eq!(asked(&[("us-east-2", 12.0, 0), ("us-west-2", 30.0, 360)]), ("us-east-2".to_owned(), false));
    assert_eq!(asked(&[("us-east-2", 12.0, 0), ("us-west-2", 3.0, 90)]), ("us-west-2".to_owned(), false));
    assert_eq!(asked(&[("us-west-2", 3.0, 360)]), ("us-west-2".to_owned(), false));
}

/// What is sold ahead is waited for and paid whole, and only where the span holds the run.
#[test]
fn a_stack_that_recomputes_unasked_must_be_told_not_to() {
    let case = Case::new();
    let gpus = vec![GpuSelector::parse("H100:1", &case.hardware).unwrap()];
    let offers = OfferFilter { gpus, purchase: PurchaseChoice::OnDemand, ..OfferFilter::default() };
    let limits = Limits { offers, ..Limits::default() };
    let warned = |framework: &str, more: &str| {
        let workload = case.read(&format!(
            "model.preset = \"qwen3-8b\"\ntraining = {{ task = \"lora\", tokens = 20000000, framework = \"{framework}\"{more} }}\n"
        ));
        let set = case.ask(&case.market, &workload, &limits);
        let best = set.recommendation.as_ref().unwrap();
        let warned = set.warnings.iter().find_map(|warning| match warning {
            Warning::RecomputesUnasked { stack, recompute, step_ratio, .. } => {
                Some((stack.clone(), *recompute, *step_ratio))
            }
            _ => None,
        });
        (warned, best.step.setting.recompute, best.step.time.total)
    };
    let (unasked, kept, seconds) = warned("unsloth", "");
    let (stack, recompute, ratio) = unasked.unwrap();
    assert_eq!((stack.as_str(), recompute, kept), ("Unsloth", Recompute::Offload, Recompute::None));
    let (none, runs, longer) = warned("unsloth", ", recompute = \"offload\"");
    assert_eq!((none, runs), (None, Recompute::Offload), "what is stated is no default");
    // The plan with it may take another micro batch.
    assert!((ratio - longer / seconds).abs() < 0.1 && ratio > 1.1, "{ratio} {longer} {seconds}");
    assert_eq!(warned("axolotl", "").0, None, "it recomputes only where it is asked to");
    assert_eq!(warned("none", "").0, None, "nobody knows what an unnamed stack does");
}

#[test]
fn a_booked_span_is_waited_for_and_paid_whole() {
    let case = Case::new();
    let workload = case.workload("full-fine-tune", 1e9);
    let p5 = case.hardware.find_instance(&CloudId::new("aws"), "p5.48xlarge").unwrap();
    let ask = |machines: u32, paid_hours: u32, deadline: Option<f64>| {
        let place = Location { region: "us-east-1".into(), zone_id: Some("use1-az1".into()) };
        let rate = UsdPerHour::parse("40").unwrap();
        let starts_at = now() + SignedDuration::from_hours(10);
        let ends_at = starts_at + SignedDuration::from_mins(i64::from(paid_hours) * 60 - 30);
        let mut offer = Offer::live(p5, place, Purchase::CapacityBlock, rate, "test", now());
        offer.booking = Some(Box::new(Booking { starts_at, ends_at, machines, paid_hours }));
        let market = case.market.only(|_| false).with_offers(vec![offer], &case.hardware);
        let offers = OfferFilter { purchase: PurchaseChoice::CapacityBlock, ..OfferFilter::default() };
        let deadline = deadline.map(Hours);
        let limits = Limits { offers, now: Some(now()), deadline, max_nodes: Some(2), ..Limits::default() };
        case.ask(&market, &workload, &limits)
    };
    let set = ask(1, 24, None);
    let best = set.recommendation.as_ref().unwrap();
    let of_machines = best.bill.lines.iter().find(|line| line.item == BillItem::Machines).unwrap();
    assert_eq!((best.nodes, of_machines.cost), (1, Usd::parse("960").unwrap()), "24 h at $40");
    let band = best.cost.p90.dollars() - best.cost.expected.dollars();
    assert!((0.0..0.1).contains(&band), "a fee is a fee; only what is stored may take longer: {band}");
    let work = best.run.hours.expected - best.run.booked_wait;
    assert!((best.run.booked_wait - 10.0).abs() < 1e-9 && (2.0..23.0).contains(&work), "{work}");
    assert!(set.warnings.iter().any(|warning| matches!(warning, Warning::Booked { .. })));
    assert!(ask(1, 24, Some(10.0 + work / 2.0)).recommendation.is_none(), "the wait counts");
    assert!(ask(1, 24, Some(10.0 + work * 2.0)).recommendation.is_some());
    let short = ask(1, 1, None);
    assert!(short.recommendation.is_none());
    let refused = |why: &Rejection| matches!(why, Rejection::OtherSpan { nodes: 1, .. });
    assert!(short.nearest.iter().any(|nearest| refused(&nearest.why)), "{:?}", short.nearest);
}

#[test]
fn a_service_that_takes_another_number_of_gpus_says_how_many() {
    let case = Case::new();
    let workload = case.read(
        "model.preset = \"llama-3.1-8b\"\nserving = { requests_per_second = 40, prompt_tokens = 1000, answer_tokens = 300 }\n",
    );
    let asked = |gpus: &str| Limits {
        now: Some(now()),
        offers: OfferFilter { gpus: vec![GpuSelector::parse(gpus, &case.hardware).unwrap()], ..OfferFilter::default() },
        ..Limits::default()
    };
    let one = case.ask(&case.market, &workload, &asked("L40S:1"));
    assert!(one.recommendation.is_none());
    let needed = one.nearest.iter().find_map(|nearest| match &nearest.why {
        Rejection::OtherCount { gpu, needed_gpus } => Some((gpu.clone(), *needed_gpus)),
        _ => None,
    });
    let (gpu, needed) = needed.unwrap_or_else(|| panic!("{:?}", one.nearest));
    assert!(gpu == "L40S" && needed > 1, "{needed}");
    assert!(case.ask(&case.market, &workload, &asked(&format!("L40S:{needed}"))).recommendation.is_some());
    // However many machines are tried for a training, they are no reason.
    let training = case.ask(&case.market, &case.workload("lora", 1e7), &asked("L40S:4"));
    assert!(training.recommendation.is_some());
    assert!(!training.rejected.iter().any(|rejected| matches!(rejected.why, Rejection::OtherCount { .. })));
}

#[test]
fn what_a_gpu_counts_as_fp16_is_said() {
    let case = Case::new();
    let warns = |gpus: &str, precision: &str| {
        let workload = case.read(&format!(
            "model.preset = \"bert-base\"\ntraining = {{ task = \"full-ft\", samples = 1000, precision = \"{precision}\" }}\n"
        ));
        let offers =
            OfferFilter { gpus: vec![GpuSelector::parse(gpus, &case.hardware).unwrap()], ..OfferFilter::default() };
        let set = case.ask(&case.market, &workload, &Limits { now: Some(now()), offers, ..Limits::default() });
        assert!(set.recommendation.is_some(), "{gpus}");
        set.warnings.iter().any(|warning| matches!(warning, Warning::CountedAsFp16 { .. }))
    };
    assert!(warns("T4:1", "bf16") && !warns("T4:1", "fp16") && !warns("L4:1", "bf16"));
}
