//! `budget`: the example portfolio as a reviewer sees it, its laws, and portfolios that cannot be meant.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::support::{NOW, Ran, gpuplan, gpuplan_at, plan};

const EXAMPLE: &str = "examples/portfolio.toml";

/// A portfolio in a folder of its own, with a recorded plan beside it.
fn portfolio(folder: &Path, text: &str, more: &[&str]) -> Ran {
    let path = folder.join("p.toml");
    fs::write(&path, text).unwrap();
    let mut ran = gpuplan(&[&["budget", path.to_str().unwrap()], more].concat());
    ran.stderr = ran.stderr.replace(path.to_str().unwrap(), "p.toml");
    ran
}

fn nanos(text: &Value) -> i128 {
    let text = text.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap();
    format!("{whole}{part:0<9}").parse().unwrap()
}

const HEAD: &str =
    "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-09\"\nmonths = 2\n\n[[team]]\nname = \"research\"\n\n";

#[test]
fn the_example_prints_the_reviewed_budget() {
    let ran = gpuplan(&["budget", EXAMPLE]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    insta::assert_snapshot!("portfolio", ran.stdout);
}

#[test]
fn every_line_can_be_traced_and_all_add_up_to_the_nano_dollar() {
    let document = gpuplan(&["budget", EXAMPLE, "--output", "json"]).json();
    let lines = document["lines"].as_array().unwrap();
    let total = &document["total"]["cost_usd"];
    assert_eq!(lines.iter().map(|line| nanos(&line["cost_usd"])).sum::<i128>(), nanos(&total["expected"]));
    for line in lines {
        for key in ["source", "assumption", "unit", "id", "month"] {
            assert!(!line[key].as_str().unwrap().is_empty(), "{key} of {line:#}");
        }
        assert!(line["priced_at"].is_string() && line["quantity"].is_number(), "{line:#}");
        assert!(nanos(&line["p50_usd"]) <= nanos(&line["p90_usd"]), "{line:#}");
    }
    assert!(nanos(&total["p50"]) < nanos(&total["p90"]));
    for by in ["by_month", "by_team", "by_cloud", "by_gpu"] {
        let sum =
            document[by].as_array().unwrap().iter().map(|part| nanos(&part["cost_usd"]["expected"])).sum::<i128>();
        assert_eq!(sum, nanos(&total["expected"]), "{by}");
    }
    // The draws are around what the plans expect.
    let (mean, expected) = (nanos(&document["total"]["mean_of_draws_usd"]) as f64, nanos(&total["expected"]) as f64);
    assert!((mean / expected - 1.0).abs() < 0.03, "{mean} {expected}");
}

#[test]
fn a_recorded_plan_is_taken_as_it_is_and_one_run_keeps_its_percentiles() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = plan("llama-3.1-8b-lora", &["--on-demand"]);
    fs::write(folder.path().join("plan.json"), recorded.to_string()).unwrap();
    let run = "[[run]]\nname = \"one\"\nteam = \"research\"\nplan = \"plan.json\"\n";
    let ran = portfolio(folder.path(), &format!("{HEAD}{run}"), &["--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let (total, cost) = (&ran.json()["total"]["cost_usd"], &recorded["recommendation"]["cost_usd"]);
    assert_eq!(total["expected"], cost["expected"]);
    let ratio = nanos(&total["p90"]) as f64 / nanos(&cost["p90"]) as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    let mut broken = recorded.clone();
    broken["recommendation"]["bill"][0]["cost_usd"] = "1.00".into();
    fs::write(folder.path().join("plan.json"), broken.to_string()).unwrap();
    let ran = portfolio(folder.path(), &format!("{HEAD}{run}"), &[]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("p.toml line 9, `one`: the bill of") && ran.stderr.contains("adds up to"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_cannot_be_meant_names_the_line_and_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let run = "[[run]]\nname = \"one\"\nteam = \"research\"\nusd_per_hour = \"2\"\nhours = 10\ncloud = \"aws\"\nsource = \"a quote\"\nas_of = 2026-07-20\n";
    let second = run.replace("\"one\"", "\"two\"");
    let refused = |text: &str| portfolio(folder.path(), text, &[]).refusal();
    insta::assert_snapshot!("portfolio_repeats", refused(&format!("{HEAD}{run}repeats = -3\n")));
    insta::assert_snapshot!("portfolio_team", refused(&format!("{HEAD}{}", run.replace("research", "reserach"))));
    insta::assert_snapshot!("portfolio_currency", refused(&format!("{}{run}", HEAD.replace("USD", "EUR"))));
    insta::assert_snapshot!(
        "portfolio_circle",
        refused(&format!("{HEAD}{run}after = [\"two\"]\n{second}after = [\"one\"]\n"))
    );
    let overlap = format!("{HEAD}{run}months = 2\n{second}after = [\"one\"]\nstart = \"2026-10\"\n");
    insta::assert_snapshot!("portfolio_overlap", refused(&overlap));
    let commitment = "[[commitment]]\nname = \"c\"\nkind = \"reservation\"\ncloud = \"aws\"\ninstance_type = \"p5.4xlarge\"\nnodes = 1\n\
        usd_per_hour = \"4\"\nsource = \"an offer\"\nas_of = 2026-07-20\n";
    let twice = refused(&format!("{HEAD}{run}{commitment}{commitment}"));
    assert!(twice.contains("p.toml: line 26: two commitments are called `c`"), "{twice}");
    insta::assert_snapshot!("portfolio_key", refused(&format!("{HEAD}{run}repeat = 3\n")));
    let missing = refused(&format!("{HEAD}[[run]]\nname = \"one\"\nteam = \"research\"\nworkload = \"gone.toml\"\n"));
    assert!(missing.starts_with("exit 2\n") && missing.contains("p.toml line 9, `one`: there is no file"), "{missing}");
}

#[test]
fn the_same_facts_fit_every_terminal_a_table_of_lines_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.json"), plan("llama-3.1-8b-lora", &["--on-demand"]).to_string()).unwrap();
    let text = format!(
        "name = \"small\"\n{}[[run]]\nname = \"adapters for every language of the world\"\nteam = \"research\"\nplan = \"plan.json\"\nrepeats = 30\n\
         [[run]]\nname = \"other\"\nteam = \"research\"\nusd_per_hour = \"6.88\"\nhours = 400\nhours_p90 = 500\ncloud = \"aws\"\n\
         instance_type = \"p5.4xlarge\"\nsource = \"a quote\"\nas_of = 2026-07-20\n[[commitment]]\nname = \"one H100\"\nkind = \"reservation\"\ncloud = \"aws\"\n\
         instance_type = \"p5.4xlarge\"\nnodes = 1\nusd_per_hour = \"4.13\"\nmonths = 1\nsource = \"an offer\"\nas_of = 2026-07-20\n",
        HEAD.replace("excluded", "19 %")
    );
    let path = folder.path().join("p.toml");
    fs::write(&path, &text).unwrap();
    for width in [80_usize, 160] {
        let ran = gpuplan_at(NOW, &width.to_string(), &["budget", path.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= width, "at {width}: {line}");
        }
    }
    let lines = portfolio(folder.path(), &text, &["--output", "json"]).json()["lines"].as_array().unwrap().len();
    assert_eq!(portfolio(folder.path(), &text, &["--output", "csv"]).stdout.lines().count(), lines + 1);
    let markdown = portfolio(folder.path(), &text, &["--output", "markdown"]).stdout;
    assert!(markdown.starts_with("## small: ") && markdown.contains("| what moves it |"), "{markdown}");
}

#[test]
fn a_single_workload_is_a_budget_of_one_run() {
    let document = gpuplan(&["budget", "examples/llama-3.1-8b-lora.toml", "--output", "json"]).json();
    let recommended = &plan("llama-3.1-8b-lora", &[])["recommendation"];
    assert_eq!(document["total"]["cost_usd"]["expected"], recommended["cost_usd"]["expected"]);
    assert_eq!(document["lines"].as_array().unwrap().len(), recommended["bill"].as_array().unwrap().len());
    assert_eq!((document["version"].as_u64(), document["currency"].as_str()), (Some(1), Some("USD")));
}

#[test]
fn markdown_is_for_pages_and_comments_alone() {
    let ran = gpuplan(&["prices", "H100", "--output", "markdown"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("hint: --output json"), "{}", ran.stderr);
}

/// Column of a FOCUS file by name.
fn cells(text: &str, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = reader.headers().unwrap().iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
    reader.records().map(|row| row.unwrap()[at].to_owned()).collect()
}

#[test]
fn focus_has_every_line_as_a_forecast_that_bills_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &str| {
        format!(
            "[[run]]\nname = \"{name}\"\nteam = \"research\"\nusd_per_hour = \"6.88\"\nhours = 100\ncloud = \"aws\"\nsource = \"a quote\"\n\
             as_of = 2026-07-20\n{more}\n"
        )
    };
    let text = format!(
        "{HEAD}{}{}",
        run("one", "tags = { project = \"seven\" }\nmonths = 2"),
        run("two", "purchase = \"spot\"\nrepeats = 3")
    );
    let document = portfolio(folder.path(), &text, &["--output", "json"]).json();
    let total = nanos(&document["total"]["cost_usd"]["expected"]);
    let lines = document["lines"].as_array().unwrap();
    for (version, column) in [("1.2", "ProviderName"), ("1.3", "HostProviderName"), ("1.4", "InvoiceDetailId")] {
        let ran = portfolio(folder.path(), &text, &["--focus", version]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(cells(&ran.stdout, column).len(), lines.len(), "{version}");
        let sum =
            |column: &str| cells(&ran.stdout, column).into_iter().map(|cost| nanos(&Value::from(cost))).sum::<i128>();
        assert_eq!((sum("EffectiveCost"), sum("ListCost"), sum("BilledCost")), (total, total, 0), "{version}");
        assert!(cells(&ran.stdout, "x_Forecast").iter().all(|word| word == "true"));
        let ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
        assert_eq!(cells(&ran.stdout, "x_ChargeId"), ids);
        assert!(cells(&ran.stdout, "Tags").iter().any(|tags| tags.contains("\"project\":\"seven\"")));
        assert!(cells(&ran.stdout, "PricingCategory").iter().any(|word| word == "Dynamic"), "spot");
    }
    let ran = portfolio(folder.path(), &text, &["--focus", "1.1"]);
    assert!(ran.code == 2 && ran.stderr.contains("`1.1` is not a supported version of FOCUS"), "{}", ran.stderr);
}

const COMMITTED: &str = "[[committed]]\nname = \"two nodes\"\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nregion = \"us-east-1\"\nnodes = 2\n\
    usd_per_hour = \"31.46\"\n";

/// Many short runs and a long one, for two machines that are paid for.
fn wanting(more: &str) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let path = |name: &str| examples.join(name).to_str().unwrap().to_owned();
    format!(
        "{}{}[[run]]\nname = \"tunes\"\nteam = \"research\"\nworkload = \"{}\"\nrepeats = 3000\nmonths = 3\n\
         [[run]]\nname = \"pretrain\"\nteam = \"research\"\nworkload = \"{}\"\nlimits = {{ gpus = \"H100:16\", deadline = \"90d\" }}\nmonths = 3\n{more}",
        HEAD.split_once("months = 2").unwrap().0.to_owned() + "months = 3",
        HEAD.split_once("months = 2").unwrap().1,
        path("llama-3.1-8b-finetune.toml"),
        path("llama-7b-pretrain.toml"),
    )
}

#[test]
fn machines_that_are_held_are_never_sold_twice() {
    let folder = tempfile::tempdir().unwrap();
    let capacity = folder.path().join("capacity.toml");
    fs::write(&capacity, COMMITTED).unwrap();
    let capacity = capacity.to_str().unwrap();
    let ran = portfolio(folder.path(), &wanting(""), &["--capacity", capacity, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let budget = ran.json();
    let pool = &budget["held"]["pools"][0];
    // Two machines in September, October and November.
    assert_eq!(pool["held_hours"].as_f64(), Some(2.0 * 24.0 * 91.0));
    assert!(pool["used_hours"].as_f64() <= pool["held_hours"].as_f64(), "{pool}");
    // What is prepaid is in the budget, and so are the runs that do not fit: all of it was $86.91 once.
    let total = nanos(&budget["total"]["cost_usd"]["expected"]);
    assert_eq!(pool["paid_usd"], "137417.28");
    assert!(total > nanos(&pool["paid_usd"]), "{total}");
    let lines = budget["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| nanos(&line["cost_usd"])).sum::<i128>(), total);
    let hours = |is_held: bool| -> f64 {
        let of =
            lines.iter().filter(|line| line["item"] == "machines" && (line["purchase"] == "commitment") == is_held);
        of.map(|line| line["quantity"].as_f64().unwrap()).sum()
    };
    assert!((hours(true) - pool["used_hours"].as_f64().unwrap()).abs() < 1e-6);
    assert!(hours(false) > 0.0, "some of it is rented");
    // The portfolio may say the same itself.
    let text = portfolio(folder.path(), &wanting(COMMITTED), &[]).stdout;
    assert!(
        text.contains("Machines that are held") && text.contains("two nodes") && text.contains("$137,417"),
        "{text}"
    );
}
