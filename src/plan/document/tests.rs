//! What was written reads back the same, older documents read, newer ones are refused, and nothing that is wrong panics.
#![cfg(test)]

use std::panic::catch_unwind;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::choice::picks::PickReason;
use crate::choice::plan;
use crate::context::World;
use crate::document::{
    AnyDocument, AnyPlan, Context, DocumentError, Explanation, InputsRecord, PhasesRecord, PlanDocument,
    ProcessingContext, ProcessingDocument, TermsOutcome, TermsRecord, TotalRecord, Words,
};
use crate::explanation::{Advice, Reason, Rejection, Warning};
use crate::input::fix::InputChange;
use crate::input::store_path::StoreLimit;
use crate::limits::Limits;
use crate::money::bill::Basis;
use crate::spot::promise::Promise;
use crate::training::what_if::{PricedFinding, Savings, Unpriced};
use gpuplan_estimate::Correction;
use gpuplan_hardware::Hardware;
use gpuplan_market::Market;
use gpuplan_units::{Bytes, Hours, Usd};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::profile::{Cause, Finding, Mended, Rule};
use gpuplan_workload::{Assumption, Models};

/// Names in place of sentences, which are made elsewhere.
struct Names;

impl Words for Names {
    fn pick(&self, why: &PickReason) -> String {
        format!("{why:?}")
    }
    fn assumption(&self, assumption: &Assumption) -> String {
        format!("{assumption:?}")
    }
    fn reason(&self, reason: &Reason) -> String {
        format!("{reason:?}")
    }
    fn advice(&self, advice: &Advice) -> String {
        format!("{advice:?}")
    }
    fn warning(&self, warning: &Warning) -> String {
        format!("{warning:?}")
    }
    fn rejection(&self, rejection: &Rejection) -> String {
        format!("{rejection:?}")
    }
    fn rejection_fix(&self, _: &Rejection) -> String {
        "another limit".to_owned()
    }
    fn basis(&self, basis: &Basis) -> String {
        format!("{basis:?}")
    }
    fn promise(&self, promise: &Promise) -> String {
        format!("{promise:?}")
    }
    fn input_change(&self, change: &InputChange) -> String {
        format!("{change:?}")
    }
    fn staging_limit(&self, limit: StoreLimit) -> String {
        format!("{limit:?}")
    }
    fn unpriced(&self, why: Unpriced) -> String {
        format!("{why:?}")
    }
}

fn now() -> Timestamp {
    "2026-08-02T12:00:00Z".parse().unwrap()
}

/// The document of a workload on the prices of the catalog.
fn document(workload: &str) -> PlanDocument {
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let file = WorkloadFile::parse(workload).unwrap();
    let resolved = file.resolve(&Models::embedded().unwrap(), None).unwrap();
    let limits = Limits::read(&file.limits, &hardware, now()).unwrap();
    let world = World { hardware: &hardware, market: &market, correction: &Correction::NONE };
    let mut set = plan(world, &resolved.workload, &limits);
    let (evidence, advice) = ("the GPU waits".to_owned(), "load more".to_owned());
    let (cause, mended) = (Cause::Program, Mended::Step { left: 0.5 });
    let finding = Finding { rule: Rule::Loader, evidence, measured: 0.5, threshold: 0.7, advice, cause, mended };
    let savings = Savings { cost: Usd::from_dollars(1.5).unwrap(), hours: Hours(0.25) };
    set.findings = vec![
        PricedFinding { finding: finding.clone(), savings: Ok(savings) },
        PricedFinding { finding, savings: Err(Unpriced::NoPlan) },
    ];
    let context = Context {
        world,
        workload: &resolved.workload,
        file: &file,
        assumed: &resolved.assumed,
        now: now(),
        catalog_sha256: "catalog".to_owned(),
        offers_sha256: "offers".to_owned(),
        measured_sha256: Some("measured".to_owned()),
        seed: 7,
        words: &Names,
    };
    PlanDocument::new(&set, &context)
}

fn processing() -> ProcessingDocument {
    const WORK: &str = "[data]\nkind = \"jpeg\"\nfiles = \"shards\"\nsize = \"15TB\"\nsamples = 128116700\n\
        [processing]\nwrites = \"17TB\"\n[limits]\npurchase = \"spot\"\n";
    let hardware = Hardware::embedded().unwrap();
    let market = Market::embedded(&hardware).unwrap();
    let file = WorkloadFile::parse(WORK).unwrap();
    let resolved = file.resolve_processing().unwrap();
    let limits = Limits::read(&file.limits, &hardware, now()).unwrap();
    let set = crate::processing::plan(&hardware, &market, &resolved.processing, &limits);
    let context = ProcessingContext {
        work: &resolved.processing,
        file: &file,
        assumed: &resolved.assumed,
        now: now(),
        inputs: InputsRecord::default(),
        words: &Names,
    };
    ProcessingDocument::new(&set, &context)
}

fn lora() -> PlanDocument {
    let text = include_str!("../../../examples/llama-3.1-8b-lora.toml");
    document(&format!("{text}\nobjective = \"cost\"\n"))
}

/// The same bytes after reading and writing, and the same document.
fn survives(document: &AnyDocument) {
    let text = serde_json::to_string_pretty(document).unwrap();
    let read = AnyDocument::read(&text).unwrap();
    assert_eq!(serde_json::to_string_pretty(&read).unwrap(), text);
    assert!(read == *document);
}

#[test]
fn every_field_survives_writing_and_reading() {
    const EXAMPLES: [&str; 5] = [
        include_str!("../../../examples/llama-3.1-8b-finetune.toml"),
        include_str!("../../../examples/resnet-50-object-store.toml"),
        include_str!("../../../examples/serve-llama-3.1-8b.toml"),
        include_str!("../../../examples/batch-llama-3.1-8b.toml"),
        include_str!("../../../examples/sweep.toml"),
    ];
    for example in EXAMPLES {
        let document = document(example);
        let best = document.plans.recommendation.as_ref().unwrap();
        let Explanation { because, reasons, advice, suggestions } = &best.explanation;
        assert!(!because.is_empty() && because.len() == reasons.len() && advice.len() == suggestions.len());
        assert!(because.iter().zip(reasons).all(|(sentence, reason)| *sentence == reason.sentence));
        assert_eq!(document.notes.len(), document.warnings.len());
        survives(&AnyDocument::Gpu(Box::new(document)));
    }
    let nothing = document(
        "model.preset = \"llama-3.1-8b\"\n[training]\ntask = \"lora\"\ntokens = \"1B\"\n[limits]\nbudget = \"1\"\n",
    );
    assert!(nothing.plans.recommendation.is_none() && !nothing.nearest.is_empty());
    survives(&AnyDocument::Gpu(Box::new(nothing)));
    survives(&AnyDocument::Processing(Box::new(processing())));
}

#[test]
fn the_fields_that_only_some_plans_have_are_among_the_examples() {
    let lora = lora();
    let best = lora.plans.recommendation.as_ref().unwrap();
    let spot = best.spot.as_ref().unwrap();
    assert!(!spot.pools.is_empty() && !spot.cost_histogram.is_empty() && spot.forecast.is_some());
    let refused = json!({ "purchase": "spot", "refused": "it ends too late" });
    let terms: TermsRecord = serde_json::from_value(refused.clone()).unwrap();
    assert_eq!(terms.outcome, TermsOutcome::Refused { refused: "it ends too late".to_owned() });
    assert_eq!(serde_json::to_value(terms).unwrap(), refused);
    let served = document(include_str!("../../../examples/serve-llama-3.1-8b.toml"));
    assert!(served.plans.all().all(|plan| plan.serving.is_some() && plan.checkpoint.is_none()));
}

#[test]
fn phases_with_and_without_gpus_survive() {
    let (work, train) = (processing(), lora());
    let phase = |name: &str, document: AnyDocument| document.into_phase(name, Some(Bytes(2e10)), Some(Hours(40.0)));
    let phases = vec![
        phase("prepare", AnyDocument::Processing(Box::new(work))),
        phase("train", AnyDocument::Gpu(Box::new(train.clone()))),
    ];
    assert!(matches!(phases[0].recommendation, Some(AnyPlan::Processing(_))));
    assert!(matches!(phases[1].recommendation, Some(AnyPlan::Gpu(_))));
    let best = train.plans.recommendation.as_ref().unwrap();
    let total = TotalRecord { run_hours: best.time.run_hours, cost_usd: best.cost.cost_usd, deadline_hours: None };
    let file = WorkloadFile::parse(include_str!("../../../examples/phases.toml")).unwrap();
    let whole = AnyDocument::Gpu(Box::new(train));
    let whole = whole.with_phases("assistant", &file, Some(now()), PhasesRecord { phases, total });
    survives(&whole);
    assert_eq!(whole.workload_file().unwrap(), file);
    // A phase that is wrong is an error, and not a document without phases.
    let mut broken = serde_json::to_value(&whole).unwrap();
    broken["phases"][1]["recommendation"]["nodes"] = json!("two");
    let error = PlanDocument::from_value(&broken).unwrap_err().to_string();
    assert!(error.contains("phases[1].recommendation.nodes: invalid type"), "{error}");
}

/// Written by earlier programs, and trimmed.
#[test]
fn documents_of_earlier_programs_read() {
    for text in [
        include_str!("../../../tests/fixtures/plans/one-gpu.json"),
        include_str!("../../../tests/fixtures/plans/one-node.json"),
        include_str!("../../../tests/fixtures/plans/eight-nodes.json"),
        include_str!("../../../tests/fixtures/report/plan.json"),
    ] {
        let document = PlanDocument::read(text).unwrap();
        assert!(document.pick(None).is_ok() && document.workload.workload_file().is_ok());
    }
}

#[test]
fn a_document_without_what_was_added_later_reads() {
    const LATER: [&str; 9] =
        ["terms", "rejected", "nearest", "counts", "findings", "notes", "limits", "valid_until", "alternatives"];
    const LATER_OF_PLAN: [&str; 7] =
        ["step_parts", "gpu_hours", "wait_hours", "because", "advice", "chance_by_deadline", "zone_id"];
    let mut old = serde_json::to_value(lora()).unwrap();
    for key in LATER {
        old.as_object_mut().unwrap().remove(key).unwrap();
    }
    for key in LATER_OF_PLAN {
        old["recommendation"].as_object_mut().unwrap().remove(key).unwrap();
    }
    for key in ["forecast", "cost_histogram"] {
        old["recommendation"]["spot"].as_object_mut().unwrap().remove(key).unwrap();
    }
    let read = PlanDocument::from_value(&old).unwrap();
    assert_eq!(read.pick(None).unwrap().time.gpu_hours, None);
    // And one from later, with a field and a reason that nobody knows yet.
    old["recommendation"]["carbon_kg"] = json!(3.5);
    old["rejected"] = json!([{"what": "a", "reason": "new-word", "detail": "b"}]);
    assert_eq!(PlanDocument::from_value(&old).unwrap().rejected[0].count, 1);
}

#[test]
fn a_newer_version_is_refused_and_what_is_no_plan_says_so() {
    let newer = PlanDocument::read(r#"{"version": 2, "plan": []}"#).unwrap_err();
    assert_eq!(
        newer.to_string(),
        "this plan has version 2, written by a newer gpuplan; this program reads version 1: update gpuplan, or plan again with this one"
    );
    for (text, why) in [
        ("[]", "it is a list"),
        ("3", "it is a single value"),
        ("{}", "`version` is missing"),
        (r#"{"version": "1"}"#, "`version` is not 1"),
        (r#"{"version": 0, "recommendation": null}"#, "`version` is not 1"),
        (r#"{"version": 1, "lines": [], "total": {}}"#, "`recommendation` is missing"),
    ] {
        let error = PlanDocument::read(text).unwrap_err();
        assert_eq!(error, DocumentError::NotAPlan { found: why.to_owned() }, "{text}");
    }
    for text in ["", "NaN", "{\"version\": 1e999}", "{\"version\": 1,", "\u{0}"] {
        assert!(matches!(PlanDocument::read(text), Err(DocumentError::NotJson { .. })), "{text}");
    }
    let work = serde_json::to_string(&processing()).unwrap();
    assert_eq!(PlanDocument::read(&work), Err(DocumentError::Processing));
}

#[test]
fn a_plan_is_picked_by_its_id() {
    let document = lora();
    let other = document.plans.frontier.last().unwrap();
    assert_eq!(document.pick(Some(&other.id)), Ok(other));
    assert_eq!(document.pick(None).unwrap(), document.plans.recommendation.as_ref().unwrap());
    let wrong = document.pick(Some(&format!("{}z", other.id))).unwrap_err();
    let DocumentError::UnknownPlan { similar: Some(similar), .. } = &wrong else { panic!("{wrong:?}") };
    assert!(document.plans.all().any(|plan| plan.id == *similar));
    assert!(wrong.to_string().contains("; did you mean `"), "{wrong}");
    let mut empty = document.clone();
    empty.plans.recommendation = None;
    assert_eq!(empty.pick(None), Err(DocumentError::NoRecommendation));
}

#[test]
fn an_error_names_the_field() {
    let whole = serde_json::to_value(lora()).unwrap();
    for (field, wrong, said) in [
        ("/recommendation/nodes", json!("two"), "recommendation.nodes: invalid type: string \"two\", expected u32"),
        ("/recommendation/nodes", json!(-1), "recommendation.nodes: invalid value: integer `-1`, expected u32"),
        ("/recommendation/layout/shard", json!("zero9"), "recommendation.layout: unknown variant `zero9`"),
        ("/recommendation/bill/0/cost_usd", json!("much"), "recommendation.bill[0].cost_usd: "),
        ("/frontier/0/step_seconds", json!([]), "frontier[0].step_seconds: "),
        ("/frontier/0/purchase", json!("barter"), "frontier[0].purchase: unknown variant `barter`"),
        ("/generated_at", json!("yesterday"), "generated_at: "),
        ("/workload/task", json!(null), "workload.task: "),
        ("/inputs/seed", json!(0.5), "inputs.seed: "),
    ] {
        let mut broken = whole.clone();
        *broken.pointer_mut(field).unwrap() = wrong;
        let error = PlanDocument::from_value(&broken).unwrap_err().to_string();
        assert!(error.starts_with(&format!("it is not a plan of this program: {said}")), "{error}");
    }
    let mut missing = whole;
    missing["recommendation"].as_object_mut().unwrap().remove("rate_usd_per_hour");
    let error = PlanDocument::from_value(&missing).unwrap_err().to_string();
    assert!(error.ends_with("recommendation: missing field `rate_usd_per_hour`"), "{error}");
}

/// Every value of a document, replaced by everything that it is not.
#[test]
fn nothing_wrong_panics() {
    fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(fields) => {
                for (key, inner) in fields {
                    paths(inner, &format!("{path}/{key}"), found);
                }
            }
            Value::Array(items) => {
                items.iter().take(2).enumerate().for_each(|(at, inner)| paths(inner, &format!("{path}/{at}"), found));
            }
            _ => {}
        }
    }
    let mut document = lora();
    document.plans.frontier.truncate(1);
    document.plans.alternatives.clear();
    document.rejected.truncate(1);
    let whole = serde_json::to_value(document).unwrap();
    let mut all = Vec::new();
    paths(&whole, "", &mut all);
    assert!(all.len() > 200, "{}", all.len());
    for path in all {
        for wrong in [json!(null), json!(""), json!(-1), json!(1e300), json!(u64::MAX), json!([]), json!({})] {
            let mut broken = whole.clone();
            *broken.pointer_mut(&path).unwrap() = wrong.clone();
            let outcome = catch_unwind(|| PlanDocument::from_value(&broken).map(|read| read.pick(None).cloned()));
            assert!(outcome.is_ok(), "{path} as {wrong}");
        }
    }
}
