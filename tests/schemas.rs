//! JSON Schemas: generated from the types that are written and read, committed under `docs/schema/`, and true of what the
//! program prints and of the files in `examples/`.

mod answers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use gpuplan::report;
use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// Where the committed schemas can be fetched from.
const HOME: &str = "https://raw.githubusercontent.com/gpuplan/gpuplan/main/docs/schema";
const RENEW: &str = "GPUPLAN_RENEW_SCHEMAS";
/// Three days after the newest price of the snapshot.
const NOW: &str = "2026-11-10T12:00:00Z";

/// One document: the name of its schema, what it is, and its type.
struct Document {
    name: &'static str,
    title: &'static str,
    schema: fn() -> Schema,
}

const fn document(name: &'static str, title: &'static str, schema: fn() -> Schema) -> Document {
    Document { name, title, schema }
}

/// Every JSON output, then every input file. `docs/schema/README.md` has a row for each.
const DOCUMENTS: &[Document] = &[
    document("accuracy", "gpuplan accuracy -o json", output::<report::measure::accuracy_json::AccuracyReport<'static>>),
    document(
        "accuracy-cases",
        "gpuplan accuracy --cases FILE -o json",
        output::<report::measure::accuracy_cases::OwnAccuracyReport<'static>>,
    ),
    document(
        "accuracy-inference",
        "gpuplan accuracy --refit --inference -o json",
        output::<report::measure::accuracy_json::HeldOutInferenceReport<'static>>,
    ),
    document(
        "accuracy-mine",
        "gpuplan accuracy --mine -o json",
        output::<report::finance::mine::OwnRunsDocument<'static>>,
    ),
    document("budget", "gpuplan budget -o json", output::<gpuplan::budget::Budget>),
    document("budget-status", "gpuplan budget --actual -o json", output::<gpuplan::budget::status::BudgetStatus>),
    document(
        "calibration",
        "gpuplan bench -o json, and the file of --calibration",
        output::<gpuplan::calibration::Calibration>,
    ),
    document("catalog-check", "gpuplan catalog check -o json", output::<report::catalog::CheckReport<'static>>),
    document("catalog-gpus", "gpuplan catalog gpus -o json", output::<report::catalog::GpuList<'static>>),
    document(
        "catalog-gpus-here",
        "gpuplan catalog gpus --here -o json",
        output::<report::catalog::LocalGpuList<'static>>,
    ),
    document("catalog-hosts", "gpuplan catalog hosts -o json", output::<report::catalog::hosts::HostList<'static>>),
    document(
        "catalog-instances",
        "gpuplan catalog instances -o json",
        output::<report::catalog::InstanceList<'static>>,
    ),
    document("catalog-models", "gpuplan catalog models -o json", output::<report::catalog::ModelList<'static>>),
    document("costs", "gpuplan costs -o json", output::<report::finance::costs::CostsDocument<'static>>),
    document("costs-import", "gpuplan costs import -o json", output::<report::finance::bill::BillDocument<'static>>),
    document("diff", "gpuplan diff -o json", output::<report::finance::diff_text::DiffDocument<'static>>),
    document("doctor", "gpuplan doctor -o json", output::<report::doctor::CloudChecks<'static>>),
    document("error", "an error with -o json, on stderr", output::<gpuplan::cli::session::diagnostic::ErrorDocument>),
    document("estimate", "gpuplan estimate -o json", output::<report::measure::estimate::EstimateReport<'static>>),
    document(
        "estimate-answer",
        "gpuplan estimate --cases FILE -o json, one line",
        output::<report::measure::nearest::AnswerLine>,
    ),
    document("explain", "gpuplan explain -o json", output::<report::plan::explain::ExplainReport<'static>>),
    document("gc", "gpuplan gc -o json", output::<report::runs::StrayList>),
    document("plan", "gpuplan plan -o json", output::<gpuplan::plan::document::PlanDocument>),
    document(
        "plan-from",
        "gpuplan plan --from JOB -o json, without a workload",
        output::<report::plan::job::JobDocument<'static>>,
    ),
    document(
        "plan-processing",
        "gpuplan plan -o json, for work without GPU",
        output::<gpuplan::plan::document::ProcessingDocument>,
    ),
    document("prices", "gpuplan prices -o json", output::<report::catalog::prices::OfferList<'static>>),
    document(
        "prices-changes",
        "gpuplan prices --since TIME -o json",
        output::<report::catalog::changes::PriceChanges<'static>>,
    ),
    document(
        "prices-history",
        "gpuplan prices --history -o json",
        output::<report::catalog::history::PriceHistory<'static>>,
    ),
    document(
        "prices-hosts",
        "gpuplan prices --hosts -o json",
        output::<report::catalog::hosts::HostOfferList<'static>>,
    ),
    document(
        "profile",
        "gpuplan profile -o json, and the file of --profile",
        output::<gpuplan::workload::profile::Profile>,
    ),
    document("refresh", "gpuplan refresh -o json", output::<report::catalog::refresh::SourceList<'static>>),
    document("report", "gpuplan report -o json", output::<report::page::json::ReportDocument<'static>>),
    document("simulate", "gpuplan simulate -o json", output::<report::measure::simulate::PolicyEvaluation<'static>>),
    document(
        "simulate-answer",
        "gpuplan simulate --cases FILE -o json, one line",
        output::<gpuplan::spot::case::SimulationAnswer>,
    ),
    document("status", "gpuplan status -o json", output::<report::runs::RunList>),
    document("capacity-file", "capacity.toml", input::<gpuplan::market::Capacity>),
    document("estimate-case", "a line of gpuplan estimate --cases", input::<gpuplan::estimate::case::EstimateCase>),
    document("policy-file", "policy.toml", input::<gpuplan::plan::limits::policy::PolicyFile>),
    document("portfolio-file", "a portfolio file (TOML)", input::<gpuplan::budget::portfolio::file::PortfolioFile>),
    document("simulate-case", "a line of gpuplan simulate --cases", input::<gpuplan::spot::case::SimulationCase>),
    document("workload-file", "a workload file (TOML)", input::<gpuplan::workload::file::WorkloadFile>),
];

/// What the program writes: fields that it always writes are required.
fn output<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// What the program reads: fields that may be left out are optional.
fn input<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

impl Document {
    /// The generated schema with the address and the title of the document at its head.
    fn generated(&self) -> Value {
        let Value::Object(mut generated) = (self.schema)().to_value() else { panic!("{} is no object", self.name) };
        let mut head = Map::new();
        head.extend(generated.remove_entry("$schema"));
        head.insert("$id".to_owned(), format!("{HOME}/{}.json", self.name).into());
        head.insert("title".to_owned(), self.title.into());
        generated.remove("title");
        head.extend(generated);
        Value::Object(head)
    }

    fn path(&self) -> PathBuf {
        folder().join(format!("{}.json", self.name))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> PathBuf {
    root().join("docs/schema")
}

/// Made once: there are hundreds of documents and a few dozen schemas, and to make a validator takes longer than to use it.
fn validator(name: &str) -> &'static Validator {
    static MADE: [OnceLock<Validator>; DOCUMENTS.len()] = [const { OnceLock::new() }; DOCUMENTS.len()];
    let place = DOCUMENTS.iter().position(|document| document.name == name);
    let place = place.unwrap_or_else(|| panic!("no document is named {name}"));
    MADE[place].get_or_init(|| {
        jsonschema::validator_for(&DOCUMENTS[place].generated()).unwrap_or_else(|error| panic!("{name}: {error}"))
    })
}

/// `what` as its schema has it, and no longer so without its version.
pub(crate) fn assert_valid(name: &str, what: &str, document: &Value) {
    assert_valid_part(name, what, document);
    let mut broken = document.clone();
    assert!(broken.as_object_mut().unwrap().remove("version").is_some(), "{what} has no version");
    assert!(!validator(name).is_valid(&broken), "{what} is valid without its version");
    broken["version"] = "one".into();
    assert!(!validator(name).is_valid(&broken), "{what} is valid with a version that is no number");
}

/// The same of a document without a version: a line of many, or a file that people write.
fn assert_valid_part(name: &str, what: &str, document: &Value) {
    let found: Vec<String> = validator(name)
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .map(|line| line.chars().take(300).collect())
        .collect();
    assert!(found.is_empty(), "{what} is not as docs/schema/{name}.json says:\n{}", found.join("\n"));
}

/// The program with a home of its own, without network and at a fixed time.
struct Program {
    home: TempDir,
}

impl Program {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(arguments).args(["--output", "json", "--now", NOW]).current_dir(root());
        command.env_clear().env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    /// What it printed; `codes` are the exits that are no accident.
    fn text(&self, arguments: &[&str], codes: &[i32]) -> String {
        let ran = self.command(arguments).output().unwrap();
        let talk = String::from_utf8_lossy(&ran.stderr);
        assert!(codes.contains(&ran.status.code().unwrap_or(-1)), "{arguments:?}: {talk}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(arguments, &[0]);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{text}"))
    }

    fn assert_valid(&self, name: &str, arguments: &[&str]) {
        assert_valid(name, &arguments.join(" "), &self.json(arguments));
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The files of `examples/` that are workloads.
fn examples() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "toml") && name != "portfolio.toml")
        .collect();
    names.sort();
    assert!(names.len() > 8, "{names:?}");
    names.into_iter().map(|name| format!("examples/{name}")).collect()
}

fn toml_file(path: &str) -> Value {
    let text = fs::read_to_string(root().join(path)).unwrap();
    json(toml::Value::Table(toml::from_str(&text).unwrap()))
}

/// As an editor that checks TOML by JSON Schema sees it: a date is text.
fn json(value: toml::Value) -> Value {
    match value {
        toml::Value::Table(table) => table.into_iter().map(|(key, inner)| (key, json(inner))).collect(),
        toml::Value::Array(array) => array.into_iter().map(json).collect(),
        toml::Value::Datetime(date) => date.to_string().into(),
        other => serde_json::to_value(other).unwrap(),
    }
}

/// Phases are asked for one at a time.
fn has_phases(example: &str) -> bool {
    fs::read_to_string(root().join(example)).unwrap().contains("[[phase]]")
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let renew = std::env::var_os(RENEW).is_some();
    let page = fs::read_to_string(folder().join("README.md")).unwrap();
    for document in DOCUMENTS {
        let generated = format!("{:#}\n", document.generated());
        if renew {
            fs::write(document.path(), &generated).unwrap();
        }
        let committed = fs::read_to_string(document.path()).unwrap_or_default();
        assert!(
            committed == generated,
            "docs/schema/{}.json is not what the types say. Renew it with `{RENEW}=1 cargo test --test tests schemas`, and read the difference: \
             fields may be added, but a name, a unit or a meaning changes only with the version",
            document.name
        );
        let row = format!("[{0}.json]({0}.json)", document.name);
        assert!(page.contains(&row), "docs/schema/README.md has no row for {row}");
    }
}

#[test]
fn no_schema_is_left_of_a_document_that_is_gone() {
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let is_known = DOCUMENTS.iter().any(|document| document.path() == path);
        assert!(is_known || path.ends_with("README.md"), "{} belongs to no document", path.display());
    }
}

#[test]
fn every_schema_is_a_valid_one_and_describes_itself() {
    for document in DOCUMENTS {
        let schema = document.generated();
        assert!(jsonschema::meta::is_valid(&schema), "{}", document.name);
        assert!(schema["description"].is_string(), "{}: its type has no doc comment", document.name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{}", document.name);
    }
}

#[test]
fn workload_files_are_as_their_schema_says() {
    for example in examples() {
        let file = toml_file(&example);
        assert_valid_part("workload-file", &example, &file);
        let mut misspelt = file;
        misspelt["modle"] = Map::new().into();
        assert!(!validator("workload-file").is_valid(&misspelt), "{example} is valid with a key that nobody knows");
    }
}

#[test]
fn explanations_and_estimates_are_as_their_schemas_say() {
    let program = Program::new();
    for example in examples().iter().filter(|example| !has_phases(example)) {
        program.assert_valid("explain", &["explain", example]);
    }
    for example in ["examples/llama-3.1-8b-finetune.toml", "examples/resnet-50-imagenet.toml"] {
        program.assert_valid("estimate", &["estimate", example, "--gpus", "H100:8"]);
    }
    let case = r#"{"id":"a","model":{"name":"llama-3.1-8b"},"hardware":{"gpu":"h100-sxm5-80","gpus":8},"training":{"task":"pretrain"}}"#;
    assert_valid_part("estimate-case", "a case", &serde_json::from_str(case).unwrap());
    let cases = program.file("cases.jsonl", &format!("{case}\nnonsense\n"));
    for answer in program.text(&["estimate", "--cases", &cases], &[0]).lines() {
        assert_valid_part("estimate-answer", answer, &serde_json::from_str(answer).unwrap());
    }
}

#[test]
fn lists_of_the_catalog_are_as_their_schemas_say() {
    let program = Program::new();
    for list in ["gpus", "instances", "hosts", "models"] {
        program.assert_valid(&format!("catalog-{list}"), &["catalog", list]);
    }
    program.assert_valid("catalog-check", &["catalog", "check"]);
}

#[test]
fn prices_are_as_their_schemas_say() {
    let program = Program::new();
    program.assert_valid("prices", &["prices"]);
    program.assert_valid("prices-hosts", &["prices", "--hosts"]);
    let document = program.json(&["prices", "H100"]);
    let mut broken = document.clone();
    broken["offers"][0]["rate_usd_per_hour"] = 2.5.into();
    assert!(!validator("prices").is_valid(&broken), "money is text, so that no digit of it is lost");
}

#[test]
fn a_portfolio_and_its_budget_are_as_their_schemas_say() {
    let program = Program::new();
    assert_valid_part("portfolio-file", "examples/portfolio.toml", &toml_file("examples/portfolio.toml"));
    program.assert_valid("budget", &["budget", "examples/portfolio.toml"]);
    program.assert_valid("budget-status", &["budget", "examples/portfolio.toml", "--actual"]);
    for example in examples().iter().filter(|example| !has_phases(example)) {
        program.assert_valid("budget", &["budget", example]);
    }
}

#[test]
fn plans_are_as_their_schemas_say() {
    let program = Program::new();
    for example in examples() {
        for terms in [&[][..], &["--on-demand"], &["--spot"], &["--deadline", "30h"]] {
            // A service has no deadline.
            if example.contains("serve") && terms.contains(&"--deadline") {
                continue;
            }
            let text = program.text(&[&["plan", &example], terms].concat(), &[0, 3, 4]);
            // Of several phases of which one has no plan there is nothing to write.
            if has_phases(&example) && text.is_empty() {
                continue;
            }
            assert_valid("plan", &format!("{example} {terms:?}"), &serde_json::from_str(&text).unwrap());
        }
    }
    program.assert_valid("plan-processing", &["plan", "examples/phases.toml", "--phase", "prepare"]);
}

#[test]
fn differences_are_as_their_schema_says() {
    let program = Program::new();
    let plan = |more: &[&str]| program.text(&[&["plan", "examples/llama-3.1-8b-lora.toml"], more].concat(), &[0]);
    let before = program.file("before.json", &plan(&["--gpus", "H100"]));
    let after = program.file("after.json", &plan(&["--gpus", "A100"]));
    program.assert_valid("diff", &["diff", &before, &after]);
    program.assert_valid("diff", &["diff", "catalogs", "catalogs"]);
}

#[test]
fn existing_jobs_are_as_their_schema_says() {
    let program = Program::new();
    for job in ["job.yaml", "sky.yaml"] {
        program.assert_valid("plan-from", &["plan", "--from", &format!("tests/fixtures/jobs/{job}")]);
    }
}

#[test]
fn calibrations_are_as_their_schema_says() {
    let program = Program::new();
    program.assert_valid("calibration", &["bench", "--simulate=H100"]);
    program.assert_valid("calibration", &["bench", "examples/llama-3.1-8b-finetune.toml", "--simulate=L40S:2"]);
}

/// The files that the documentation shows are taken by the program and by the editor.
#[test]
fn capacity_and_policy_files_are_as_their_schemas_say() {
    let program = Program::new();
    let plan = ["plan", "examples/llama-3.1-8b-finetune.toml"];
    for (name, page, first) in [
        ("capacity-file", "docs/prices.md", "[[own]]"),
        ("policy-file", "docs/prices.md", "clouds = "),
        ("policy-file", "docs/finance.md", "max_p90_usd"),
    ] {
        let page = fs::read_to_string(root().join(page)).unwrap();
        let shown =
            page.split("```").find_map(|block| block.strip_prefix("toml\n").filter(|text| text.starts_with(first)));
        let shown = shown.unwrap_or_else(|| panic!("no file that begins with {first}"));
        assert_valid_part(name, shown, &json(toml::Value::Table(toml::from_str(shown).unwrap())));
        let flag = if name == "capacity-file" { "--capacity" } else { "--policy" };
        program.json(&[&plan[..], &[flag, &program.file(name, shown)]].concat());
        // A key of its own beside the first table or value.
        let unknown = program.file(name, &format!("no_such_key = 1\n{shown}"));
        program.text(&[&plan[..], &[flag, &unknown]].concat(), &[2]);
        assert!(!validator(name).is_valid(&serde_json::json!({ "no_such_key": 1 })));
    }
}

#[test]
fn spending_is_as_its_schemas_say() {
    let program = Program::new();
    let folder = program.home.path().join("store");
    fs::create_dir(&folder).unwrap();
    let store = format!("file://{}", folder.display());
    program.assert_valid("costs", &["costs", "--store", &store]);
    program.assert_valid("accuracy-mine", &["accuracy", "--mine"]);
    let bill = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,\
        line_item_unblended_cost,line_item_line_item_type,line_item_usage_type,line_item_usage_amount,resource_tags\n\
        123,2026-10-01T00:00:00.000Z,2026-10-01T01:00:00.000Z,USD,2,Usage,BoxUsage:g5.xlarge,1,\n";
    program.assert_valid("costs-import", &["costs", "import", &program.file("bill.csv", bill)]);
}

#[test]
fn the_error_tables_are_as_their_schema_says() {
    Program::new().assert_valid("accuracy", &["accuracy"]);
    for table in ["measured.csv", "measured.jsonl"] {
        let path = format!("tests/fixtures/runs/{table}");
        Program::new().assert_valid("accuracy-cases", &["accuracy", "--cases", &path]);
    }
}

#[test]
fn simulations_are_as_their_schemas_say() {
    let program = Program::new();
    let traces = program.file(
        "traces.jsonl",
        "{\"source\":\"zone-a_gpu\",\"gap_seconds\":600,\"ticks\":400,\"rle\":[[1,100],[0,10],[1,290]]}\n",
    );
    let case = r#"{"id":"x","trace":"zone-a_gpu","work_hours":24,"deadline_hours":30,"changeover_hours":0.2,"on_demand_usd_per_hour":"3","spot_usd_per_hour":"1","policy":"greedy","decisions":true,"forecast":true}"#;
    assert_valid_part("simulate-case", "a case", &serde_json::from_str(case).unwrap());
    let cases = program.file("cases.jsonl", &format!("{case}\nnonsense\n"));
    for answer in program.text(&["simulate", "--traces", &traces, "--cases", &cases], &[0]).lines() {
        assert_valid_part("simulate-answer", answer, &serde_json::from_str(answer).unwrap());
    }
    program.assert_valid("simulate", &["simulate", "--traces", &traces, "--evaluate"]);
}

#[test]
fn pages_are_as_their_schema_says() {
    let program = Program::new();
    for example in examples().iter().filter(|example| !has_phases(example)) {
        program.assert_valid("report", &["report", example]);
    }
}

#[test]
fn errors_are_as_their_schema_says() {
    let program = Program::new();
    for arguments in [
        &["plan", "no-such-file.toml"][..],
        &["plan", "examples/llama-3-70b-qlora.toml", "--gpus", "L4:1"],
        &["plan", "--no-such-option"],
        // It asks the clouds, which a program without network must not.
        &["doctor"],
    ] {
        let ran = program.command(arguments).output().unwrap();
        assert!(!ran.status.success(), "{arguments:?}");
        let talk = String::from_utf8(ran.stderr).unwrap();
        let last = talk.lines().last().unwrap();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{talk}"));
        assert_valid_part("error", &arguments.join(" "), &error);
        // Where no plan fits, the document says why each was rejected.
        assert!(ran.stdout.is_empty() || error["error"]["kind"] == "no-plan-fits", "{arguments:?}");
        assert!(!validator("error").is_valid(&serde_json::json!({ "error": "text" })));
    }
}

#[test]
fn runs_are_as_their_schemas_say() {
    let program = Program::new();
    program.assert_valid("status", &["status"]);
    program.assert_valid("gc", &["gc", "--cloud", "fake"]);
}

#[test]
fn profiles_are_as_their_schema_says() {
    Program::new().assert_valid("profile", &["profile", "trace", "tests/fixtures/traces/kineto-v100.json"]);
}
