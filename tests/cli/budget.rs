//! `budget`: the example portfolio as a reviewer sees it, its laws, and portfolios that cannot be meant.

use std::fs;
use std::path::Path;
use std::process::Command;

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
    // The draws are around what the plans expect, and their mean rather above it.
    let (mean, expected) = (nanos(&document["total"]["mean_of_draws_usd"]) as f64, nanos(&total["expected"]) as f64);
    assert!((0.97..1.10).contains(&(mean / expected)), "{mean} {expected}");
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
fn a_reservation_that_nothing_was_planned_on_is_named_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let run = "[[run]]\nname = \"one\"\nteam = \"research\"\nusd_per_hour = \"2\"\nhours = 100\ncloud = \"nebius\"\nsource = \"a quote\"\n\
        as_of = 2026-07-20\n";
    let reserved = "[[commitment]]\nname = \"two H100\"\nkind = \"reservation\"\ncloud = \"aws\"\ninstance_type = \"p5.4xlarge\"\nnodes = 2\n\
        usd_per_hour = \"4.13\"\nsource = \"an offer\"\nas_of = 2026-07-20\n";
    let ran = portfolio(folder.path(), &format!("{HEAD}{run}{reserved}"), &[]);
    assert!(
        ran.code == 0
            && ran.stderr.contains("`two H100` is paid and hardly used")
            && ran.stderr.contains("[[committed]]"),
        "{}",
        ran.stderr
    );
    let used = run
        .replace("nebius", "aws")
        .replace("hours = 100", "hours = 700\nregion = \"us-east-1\"\ninstance_type = \"p5.4xlarge\"");
    let ran = portfolio(folder.path(), &format!("{HEAD}{used}{reserved}"), &[]);
    assert!(ran.code == 0 && !ran.stderr.contains("hardly used"), "{}", ran.stderr);
}

#[test]
fn what_a_unit_costs_is_the_cost_by_what_the_workload_states() {
    let each = |example: &str, unit: &str, count: f64| {
        let document = gpuplan(&["budget", example, "--output", "json"]).json();
        let phase = &document["phases"][0];
        let dollars = |at: &Value| at.as_str().unwrap().parse::<f64>().unwrap();
        let (cost, of_unit) = (dollars(&phase["cost_each_usd"]["expected"]), dollars(&phase["unit_costs"][unit]));
        assert!((of_unit * count / cost - 1.0).abs() < 1e-4, "{example} {unit}: {of_unit} of {cost}");
    };
    // 64 runs on two million tokens each; 90 epochs of 1,281,167 images; requests of a day at a rate.
    each("examples/sweep.toml", "experiment_usd", 64.0);
    each("examples/sweep.toml", "million_tokens_usd", 128.0);
    each("examples/resnet-50-imagenet.toml", "epoch_usd", 90.0);
}

#[test]
fn electricity_is_shown_where_it_is_asked_for_and_in_no_sum() {
    let asked = ["budget", EXAMPLE, "--output", "json"];
    let plain = gpuplan(&asked).json();
    let mut with = gpuplan(&[&asked[..], &["--carbon"]].concat()).json();
    let footprint = with.as_object_mut().unwrap().remove("footprint").unwrap();
    assert_eq!(with, plain, "no sum of money moves");
    let of = |figure: &Value| ["low", "expected", "high"].map(|end| figure[end].as_f64().unwrap());
    let ([low, expected, high], phases) = (of(&footprint["kwh"]), footprint["phases"].as_array().unwrap());
    assert!(0.0 < low && low < expected && expected < high && !phases.is_empty(), "{footprint}");
    let sum: f64 = phases.iter().map(|phase| of(&phase["kwh"])[1]).sum();
    assert!((sum / expected - 1.0).abs() < 1e-9, "{footprint}");
    let known: f64 =
        phases.iter().filter(|phase| !phase["co2e_kg"].is_null()).map(|phase| of(&phase["co2e_kg"])[1]).sum();
    assert!(known > 0.0, "{footprint}");
    let text = gpuplan(&["budget", EXAMPLE, "--carbon"]).stdout;
    for said in
        ["Energy and emissions, in no sum of money", " kWh (", " kg of CO2e (", "Left out: the making of the machines"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!gpuplan(&["budget", EXAMPLE]).stdout.contains("kWh"));
}

#[test]
fn a_plan_has_its_electricity_with_sources_and_an_unknown_place_emits_an_unknown_amount() {
    let energy = |more: &[&str]| plan("llama-3.1-8b-lora", more)["recommendation"]["energy"].clone();
    let aws = energy(&["--on-demand", "--cloud", "aws", "--region", "us-east-1"]);
    assert_eq!(aws["grid"]["zone"], "US-MIDA-PJM");
    assert!(aws["pue"]["source"].as_str().unwrap().starts_with("real-time-cloud@"), "{aws}");
    assert!(aws["co2e_kg"]["low"].as_f64() < aws["co2e_kg"]["high"].as_f64(), "{aws}");
    let lambda = energy(&["--on-demand", "--cloud", "lambda"]);
    assert!(lambda["co2e_kg"].is_null() && lambda["grid"].is_null() && lambda["pue"].is_null(), "{lambda}");
    assert!(lambda["kwh"]["expected"].as_f64().unwrap() > 0.0, "{lambda}");
    let asked = ["examples/llama-3.1-8b-lora.toml", "--on-demand", "--cloud", "aws", "--region", "us-east-1"];
    let in_one_line = |ran: Ran| ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let details = in_one_line(gpuplan(&[&["plan"], &asked[..], &["--details"]].concat()));
    assert!(details.contains("with electricity of US-MIDA-PJM; in no total"), "{details}");
    assert!(!gpuplan(&[&["plan"], &asked[..]].concat()).stdout.contains("kWh"), "not on the first screen");
    let explained = in_one_line(gpuplan(&[&["explain"], &asked[..]].concat()));
    for said in ["a PUE of 1.15 (region, 2025", "g a kWh of US-MIDA-PJM", "W a GPU as rated"] {
        assert!(explained.contains(said), "{said}: {explained}");
    }
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
        "{}{}[[run]]\nname = \"tunes\"\nteam = \"research\"\nworkload = \"{}\"\nrepeats = 4500\nmonths = 3\n\
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

#[test]
fn a_slower_step_costs_on_machines_of_ones_own_too_and_what_costs_nothing_depends_on_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let workload = fs::canonicalize("examples/llama-3.1-8b-finetune.toml").unwrap();
    let ask = |hourly: &str, more: &[&str]| {
        let own = format!(
            "[[own]]\nname = \"dgx\"\ngpu = \"h100-sxm5-80\"\ngpus_per_node = 8\nnodes = 2\nusd_per_hour = \"{hourly}\"\nfull_usd_per_hour = \"14\"\n"
        );
        let run = format!("[[run]]\nname = \"tune\"\nteam = \"research\"\nworkload = {workload:?}\nrepeats = 4\n");
        portfolio(folder.path(), &format!("{HEAD}{own}{run}"), more)
    };
    let budget = ask("10", &["--output", "json"]).json();
    let bars = budget["sensitivity"].as_array().unwrap();
    let bar = bars.iter().find(|bar| bar["what"] == "throughput").unwrap();
    let added = |key: &str| bar[key].as_str().unwrap().parse::<f64>().unwrap();
    let lines = budget["lines"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["cloud"] == "own"), "{budget}");
    assert!(added("low_usd") < 0.0 && added("high_usd") > 0.0, "{bar}");
    let free = ask("0", &[]);
    assert!(!free.stdout.contains("What the total depends on"), "{}", free.stdout);
}

#[test]
fn a_broken_rule_is_exit_code_4_a_warning_or_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let run = "[[run]]\nname = \"one\"\nteam = \"research\"\nusd_per_hour = \"2\"\nhours = 100\nhours_p90 = 150\ncloud = \"aws\"\nsource = \"a quote\"\n\
        as_of = 2026-07-20\n";
    let with = |rule: &str, more: &[&str]| {
        portfolio(folder.path(), &format!("budget = 150\n{HEAD}[[rule]]\n{rule}\n{run}"), more)
    };
    let broken = with("min_chance = \"80 %\"", &[]);
    assert_eq!(broken.code, 4, "{}", broken.stderr);
    assert!(
        broken.stdout.contains("What the budget has to keep") && broken.stdout.contains("BROKEN"),
        "{}",
        broken.stdout
    );
    assert!(
        broken.stderr.contains("portfolio line 10: everything keeps $150.00 with probability 0.80, and it is ")
            && broken.stderr.contains("hint: ")
            && broken.stderr.contains("approved_until"),
        "{}",
        broken.stderr
    );
    let warned = with("min_chance = \"80 %\"\non_break = \"warn\"", &[]);
    assert!(warned.code == 0 && warned.stderr.contains("everything keeps $150.00"), "{}", warned.stderr);
    let allowed = with("min_chance = \"80 %\"\napproved_by = \"cfo\"\napproved_until = 2999-12-31", &[]);
    assert!(
        allowed.code == 0 && allowed.stdout.contains("broken, allowed by cfo until 2999-12-31"),
        "{}",
        allowed.stdout
    );
    // The house may ask the same of every budget.
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "clouds = [\"aws\"]\n[[rule]]\nteam = \"*\"\nbudget = 100\nmin_chance = 0.5\n").unwrap();
    let ran = with("min_chance = 0.01", &["--policy", policy.to_str().unwrap(), "--output", "json"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let rules: Value = serde_json::from_str::<Value>(&ran.stdout).unwrap()["rules"].clone();
    assert_eq!(rules[0]["verdict"], "kept");
    assert_eq!((rules[1]["verdict"].as_str(), rules[1]["origin"].as_str()), (Some("broken"), Some("policy")));
}

#[test]
fn what_was_spent_is_counted_and_only_what_is_left_is_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    let (path, bill) = (folder.path().join("p.toml"), folder.path().join("bill.csv"));
    let text = "name = \"tuning\"\ncurrency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-06\"\nmonths = 3\nbudget = 1000\n\
        [[team]]\nname = \"research\"\nbudget = 1000\n[[rule]]\nmin_chance = \"50 %\"\n[[rule]]\nmax_spent = \"60 %\"\non_break = \"warn\"\n\
        [[run]]\nname = \"tune\"\nteam = \"research\"\ntags = { project = \"seven\" }\nusd_per_hour = \"3\"\nhours = 100\ncloud = \"aws\"\n\
        source = \"a quote\"\nas_of = 2026-07-20\nrepeats = 3\nmonths = 3\n";
    fs::write(&path, text).unwrap();
    let ask = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(args).args(["--now", "2026-07-16T12:00:00Z"]).env_clear().env("COLUMNS", "100");
        Ran::of(command.env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", &home).output().unwrap())
    };
    let budget = |more: &[&str]| ask(&[&["budget", path.to_str().unwrap(), "--actual"], more].concat());
    // Nothing is spent: three runs are still to come, and the planned 300 of June are late.
    let before = budget(&["--output", "json"]).json();
    assert_eq!(before["total"]["spent_usd"], "0.00");
    assert_eq!(before["total"]["to_go_usd"], "900.00");
    // June's bill has $700 of a run of it, and a run of nobody.
    let row = |day: &str, cost: &str, run: &str| {
        format!(
            "1,{day}T00:00:00Z,,2026-06-01,USD,{cost},Usage,BoxUsage:p5.4xlarge,10,\"{{\"\"user_gpuplan_run\"\":\"\"{run}\"\"}}\"\n"
        )
    };
    let head = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,bill_billing_period_start_date,line_item_currency_code,\
        line_item_unblended_cost,line_item_line_item_type,line_item_usage_type,line_item_usage_amount,resource_tags\n";
    fs::write(
        &bill,
        format!(
            "{head}{}{}{}",
            row("2026-06-03", "400", "tune-1"),
            row("2026-06-20", "300", "tune-2"),
            row("2026-06-20", "5", "other")
        ),
    )
    .unwrap();
    let imported = ask(&["costs", "import", bill.to_str().unwrap()]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let ran = budget(&["--output", "json"]);
    let after = ran.json();
    assert_eq!(after["total"]["spent_usd"], "700.00", "{after}");
    assert_eq!(after["by_month"][0]["spent_usd"], "700.00");
    assert_eq!(after["by_month"][0]["to_go_usd"], "0.00", "what is over is not forecast");
    assert_eq!((after["billed_share"].as_f64(), after["other_runs"].as_u64()), (Some(1.0), Some(1)));
    assert_eq!(after["other_usd"], "5.00");
    // 45.5 of 92 days are over: a little less than half is to go, which does not fit the $300 that are left.
    assert_eq!(
        nanos(&after["total"]["at_completion_usd"]),
        nanos(&after["total"]["spent_usd"]) + nanos(&after["total"]["to_go_usd"])
    );
    assert_eq!(after["rules"][0]["verdict"], "broken");
    assert_eq!(ran.code, 4);
    let text = budget(&[]);
    assert!(
        text.code == 4
            && text.stdout.contains("$700.00 spent and ")
            && text.stdout.contains("By project")
            && text.stderr.contains("60 % of $1,000, and it is 70 %"),
        "{} {}",
        text.stdout,
        text.stderr
    );
    // What was planned is what was approved.
    let approved = folder.path().join("approved.json");
    fs::write(&approved, r#"{"generated_at":"2026-05-20T00:00:00Z","lines":[{"run":"tune","phase":"tune","team":"research","month":"2026-06","cost_usd":"650.00"}]}"#).unwrap();
    let planned = budget(&["--planned", approved.to_str().unwrap(), "--output", "json"]).json();
    assert_eq!(planned["total"]["planned_usd"], "650.00");
    assert_eq!(planned["planned_from"], "the budget of 2026-05-20");
    assert_eq!(planned["by_phase"][0]["variance"]["total_usd"], "50.00");
}
