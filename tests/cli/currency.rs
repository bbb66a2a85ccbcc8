//! Money as a review of finance asked for it: portfolios in euros to the cent on every way out, risks that do not depend on the names of files,
//! probabilities that agree with those of a plan, and what other clouds ask for each phase.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::support::{NOW, Ran, plan};

fn ask(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", NOW]).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("COLUMNS", "120").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", folder.join("home"));
    Ran::of(command.output().unwrap())
}

fn nanos(text: &Value) -> i128 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text}"));
    let (whole, part) = text.split_once('.').unwrap();
    format!("{whole}{part:0<9}").parse().unwrap()
}

fn cells(text: &str, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = reader.headers().unwrap().iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
    reader.records().map(|row| row.unwrap()[at].to_owned()).collect()
}

/// Two machines for ten hours at a hundred euros, and one for a hundred hours at ten dollars and a little: three thousand euros.
const EUROS: &str = "name = \"lab\"\ncurrency = \"EUR\"\nexchange = { usd_per_unit = \"1.0842\", source = \"ECB reference rate\", as_of = 2026-10-09 }\n\
    tax = \"excluded\"\nstart = \"2026-09\"\nmonths = 3\nbudget = \"€3,500\"\n[[team]]\nname = \"vision\"\nbudget = 3500\n\
    [[rule]]\nmin_chance = \"50 %\"\n\
    [[run]]\nname = \"tune\"\nteam = \"vision\"\nprice_per_hour = \"100\"\nnodes = 2\nhours = 10\ncloud = \"ovh\"\nsource = \"a quote\"\nas_of = 2026-10-01\n\
    months = 3\n[[run]]\nname = \"evaluate\"\nteam = \"vision\"\nusd_per_hour = \"10.842\"\nhours = 100\nhours_p90 = 120\ncloud = \"aws\"\n\
    source = \"a list\"\nas_of = 2026-10-01\nstart = \"2026-11\"\n";
const RATE: &str = "EUR at 1.0842 US dollars (ECB reference rate, 2026-10-09)";

#[test]
fn a_budget_in_euros_is_exact_in_every_form_and_always_says_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("p.toml"), EUROS).unwrap();
    let ran = ask(path, &["budget", "p.toml", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let budget = ran.json();
    assert_eq!(budget["total"]["cost_usd"]["expected"], "3252.60");
    assert_eq!(budget["total"]["cost_in_currency"]["expected"], "3000.00");
    assert_eq!(
        (&budget["exchange"]["currency"], &budget["exchange"]["usd_per_unit"]),
        (&"EUR".into(), &"1.0842".into())
    );
    let lines = budget["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| nanos(&line["cost_in_currency"])).sum::<i128>(), 3_000_000_000_000);
    let text = ask(path, &["budget", "p.toml"]).stdout;
    let first = text.lines().take(6).collect::<Vec<_>>().join(" ");
    for said in [RATE, "€3,000 expected", "Budget of €3,500: kept", "everything keeps €3,500"] {
        assert!(first.contains(said) || text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains('$'), "{text}");
    let csv = ask(path, &["budget", "p.toml", "--output", "csv"]).stdout;
    let sum: i128 = cells(&csv, "cost_in_currency").into_iter().map(|cost| nanos(&Value::from(cost))).sum();
    assert_eq!(sum, 3_000_000_000_000);
    assert!(cells(&csv, "usd_per_unit").iter().all(|rate| rate == "1.0842"));
    fs::write(path.join("budget.json"), &ran.stdout).unwrap();
    let page = ask(path, &["report", "budget.json", "--format", "md"]).stdout;
    assert!(page.contains(RATE) && page.contains("€3,000") && !page.contains('$'), "{page}");
    let html = ask(path, &["report", "budget.json"]).stdout;
    assert!(html.contains("€0") && !html.contains(">$"), "axes are in euros");
    // Billed in euros, priced in dollars.
    for version in ["1.2", "1.3", "1.4"] {
        let focus = ask(path, &["budget", "p.toml", "--focus", version]).stdout;
        let sum =
            |column: &str| -> i128 { cells(&focus, column).into_iter().map(|cost| nanos(&Value::from(cost))).sum() };
        assert_eq!(
            (sum("EffectiveCost"), sum("ContractedCost"), sum("ListCost")),
            (3_000_000_000_000, 3_000_000_000_000, 3_000_000_000_000)
        );
        assert_eq!(sum("PricingCurrencyEffectiveCost"), 3_252_600_000_000);
        let all = |column: &str, word: &str| cells(&focus, column).iter().all(|cell| cell == word);
        assert!(
            all("BillingCurrency", "EUR") && all("PricingCurrency", "USD") && all("x_ExchangeRate", "1.0842"),
            "{focus}"
        );
        assert!(all("x_ExchangeDate", "2026-10-09"), "{focus}");
    }
}

#[test]
fn euros_on_a_bill_are_euros_in_the_status_at_the_rate_that_was_approved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("home")).unwrap();
    fs::write(path.join("p.toml"), EUROS).unwrap();
    fs::write(path.join("approved.json"), ask(path, &["budget", "p.toml", "--output", "json"]).stdout).unwrap();
    fs::write(
        path.join("bill.csv"),
        "Date,ResourceGroup,Tags,CostInBillingCurrency,BillingCurrency\n\
         2026-09-03,rg,\"\"\"gpuplan:run\"\": \"\"tune-1\"\"\",333.33,EUR\n2026-09-04,rg,\"\"\"gpuplan:run\"\": \"\"tune-2\"\"\",66.67,EUR\n",
    )
    .unwrap();
    let imported =
        ask(path, &["costs", "import", "bill.csv", "--rate", "EUR=1.0842", "--rate-source", "ECB, 2026-10-09"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let status = ask(path, &["budget", "p.toml", "--actual", "--planned", "approved.json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    for said in [RATE, "€400.00 spent", "€3,000 was planned", "€3,100 of it is left"] {
        let text = status.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!status.stdout.contains('$'), "{}", status.stdout);
    // What was spent is in the currency of the portfolio that is named, to the cent of the bill, and as FOCUS billed in it.
    let by_phase = ask(path, &["costs", "--by", "phase", "--portfolio", "p.toml"]).stdout;
    let words = by_phase.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("tune 0 €400.00") && words.contains(RATE) && !by_phase.contains('$'), "{by_phase}");
    let json = ask(path, &["costs", "--portfolio", "p.toml", "--output", "json"]).json();
    assert_eq!((&json["total"]["billed_usd"], &json["exchange"]["currency"]), (&"433.68".into(), &"EUR".into()));
    assert!(ask(path, &["costs"]).stdout.contains("$433.68"));
    let focus = ask(path, &["costs", "--portfolio", "p.toml", "--focus", "1.2"]).stdout;
    let sum: i128 = cells(&focus, "BilledCost").into_iter().map(|cost| nanos(&Value::from(cost))).sum();
    assert_eq!(sum, 400_000_000_000);
    assert!(cells(&focus, "BillingCurrency").iter().all(|currency| currency == "EUR"), "{focus}");
    let csv = ask(path, &["budget", "p.toml", "--actual", "--output", "csv"]).stdout;
    assert_eq!(cells(&csv, "spent_in_currency")[0], "400.00");
    let document = ask(path, &["budget", "p.toml", "--actual", "--output", "json"]).stdout;
    fs::write(path.join("status.json"), document).unwrap();
    let page = ask(path, &["report", "status.json", "--format", "md"]).stdout;
    assert!(page.contains(RATE) && page.contains("€400.00") && !page.contains('$'), "{page}");
    // What was approved at another rate would not be what was approved.
    fs::write(path.join("p.toml"), EUROS.replace("1.0842", "1.10")).unwrap();
    let refused = ask(path, &["budget", "p.toml", "--actual", "--planned", "approved.json"]);
    assert!(
        refused.code == 2
            && refused.stderr.contains("was approved in EUR at 1.0842")
            && refused.stderr.contains("hint: currency = \"EUR\" and exchange"),
        "{}",
        refused.stderr
    );
}

/// A workload as one run many times, or as many files: the review found .86 and 1.00 for the same bytes.
#[test]
fn copies_of_a_file_are_as_risky_as_repeats_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let example =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/llama-3.1-8b-lora.toml")).unwrap();
    let head = "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-11\"\nmonths = 1\nbudget = 130\n";
    let run = |name: &str, more: &str| {
        fs::write(path.join(format!("{name}.toml")), &example).unwrap();
        format!(
            "[[run]]\nname = \"{name}\"\nworkload = \"{name}.toml\"\nlimits = {{ purchase = \"on-demand\" }}\n{more}"
        )
    };
    let total = |runs: String| {
        fs::write(path.join("p.toml"), format!("{head}{runs}")).unwrap();
        ask(path, &["budget", "p.toml", "--output", "json"]).json()["total"].clone()
    };
    let repeated = total(run("one", "repeats = 5\n"));
    let copied = total((0..5).map(|at| run(&format!("copy-{at}"), "")).collect());
    assert_eq!(repeated["cost_usd"]["expected"], copied["cost_usd"]["expected"]);
    let near = |of: fn(&Value) -> f64| assert!((of(&repeated) / of(&copied) - 1.0).abs() < 0.01, "{repeated} {copied}");
    near(|total| nanos(&total["cost_usd"]["p90"]) as f64);
    near(|total| total["chance_within_budget"].as_f64().unwrap());
}

/// The review found up to 13 points between what a plan on spot says of its cost, which has two humps, and the budget of it.
#[test]
fn a_budget_is_kept_as_often_as_the_percentiles_of_its_plan_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let recorded = plan("llama-7b-pretrain", &["--spot", "--deadline", "90d"]);
    assert!(recorded["recommendation"]["spot"]["cost_quantiles_usd"].as_array().unwrap().len() > 10);
    fs::write(path.join("plan.json"), recorded.to_string()).unwrap();
    for (percentile, share) in [("p50", 0.5), ("p90", 0.9)] {
        let budget = recorded["recommendation"]["cost_usd"][percentile].as_str().unwrap();
        let text = format!(
            "currency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-10\"\nmonths = 1\nbudget = \"{budget}\"\n\
             [[run]]\nname = \"one\"\nplan = \"plan.json\"\n"
        );
        fs::write(path.join("p.toml"), text).unwrap();
        let kept =
            ask(path, &["budget", "p.toml", "--output", "json"]).json()["total"]["chance_within_budget"].as_f64();
        assert!(
            (kept.unwrap() - share).abs() < 0.05,
            "${budget} is the {percentile} of the plan, and kept with {kept:?}"
        );
    }
}

#[test]
fn each_phase_of_a_workload_says_what_other_clouds_ask_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let recorded = plan("grpo-7b", &[]);
    fs::write(path.join("plan.json"), recorded.to_string()).unwrap();
    let budget = ask(path, &["budget", "plan.json", "--output", "json"]).json();
    let elsewhere = budget["elsewhere"].as_array().unwrap();
    for phase in recorded["phases"].as_array().unwrap() {
        let here = &phase["recommendation"]["cloud"];
        let others = phase["alternatives"].as_array().unwrap();
        assert!(!others.is_empty() && others.iter().all(|plan| plan["cloud"] != *here), "{}", phase["name"]);
        let name = format!("plan/{}", phase["name"].as_str().unwrap());
        for other in others {
            let found = elsewhere.iter().find(|one| one["phase"] == name.as_str() && one["cloud"] == other["cloud"]);
            let found = found.unwrap_or_else(|| panic!("{name} on {}: {elsewhere:?}", other["cloud"]));
            assert_eq!(
                (&found["plan"], &found["cost_usd"]["expected"]),
                (&other["id"], &other["cost_usd"]["expected"])
            );
        }
    }
}

#[test]
fn two_budgets_in_euros_differ_in_euros_and_at_two_rates_in_dollars() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let budget = |name: &str, text: String| {
        fs::write(path.join("p.toml"), text.replace("[[rule]]\nmin_chance = \"50 %\"\n", "")).unwrap();
        let ran = ask(path, &["budget", "p.toml", "--output", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        fs::write(path.join(name), ran.stdout).unwrap();
    };
    budget("before.json", EUROS.to_owned());
    // Ten hours more of two machines at a hundred euros.
    budget("after.json", EUROS.replace("hours = 10\n", "hours = 20\n"));
    budget("rate.json", EUROS.replace("1.0842", "1.10"));
    let text = ask(path, &["diff", "before.json", "after.json"]).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("€3,000 -> €5,000: +€2,000 (+67 %)") && words.contains(RATE), "{text}");
    assert!(!text.contains('$'), "{text}");
    let markdown = ask(path, &["diff", "before.json", "after.json", "--output", "markdown"]).stdout;
    assert!(markdown.contains("€3,000 -> €5,000") && markdown.contains(RATE) && !markdown.contains('$'), "{markdown}");
    let json = ask(path, &["diff", "before.json", "after.json", "--output", "json"]).json();
    assert_eq!((&json["total"]["change_usd"], &json["exchange"]["currency"]), (&"2168.40".into(), &"EUR".into()));
    let text = ask(path, &["diff", "before.json", "rate.json"]).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("currency: EUR at 1.0842 US dollars") && words.contains("-> EUR at 1.10 US dollars"),
        "{text}"
    );
    // Two thousand euros of machines are dearer in dollars; the hundred hours in dollars cost what they did.
    assert!(words.contains("$3,253 -> $3,284: +$31.60"), "{text}");
}
