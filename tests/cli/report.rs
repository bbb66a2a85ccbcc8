//! `report` as people and browsers meet it: one page without network and script, the same facts as Markdown and CSV, refusals.

use std::collections::BTreeSet;
use std::path::Path;

use gpuplan_testbed::python::say;
use serde_json::Value;

use crate::cli::support::{Ran, gpuplan, plan};

/// A plan as `plan --output json` wrote it, with fewer rows.
const PLAN: &str = "tests/fixtures/report/plan.json";

fn report(file: &str, more: &[&str]) -> String {
    let ran = gpuplan(&[&["report", file], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout
}

/// The recorded plan with something changed, in a folder.
fn changed(folder: &Path, change: impl Fn(&mut Value)) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PLAN)).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    change(&mut document);
    let path = folder.join("plan.json");
    std::fs::write(&path, document.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The text of an attribute, as often as it stands.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let mark = format!(" {name}=\"");
    page.split(mark.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_markdown_says_everything() {
    let text = report(PLAN, &["--format", "md"]);
    let said = [
        "# llama-7b-pretrain\n",
        "- **Expected cost**: $35,210 (middle case $32,450)\n",
        "It is expected to cost $35,210. In nine of ten cases it costs no more than $49,576.\n",
        "The chance to have ended by the deadline (30d) is 99 %.\n",
        "A machine costs $10.00 an hour. That price is from the price snapshot of the program, seen on 2025-11-01, 274 d before",
        "- The price is stale: the cloud may ask another one today. `gpuplan plan FILE --live` asks it.\n",
        "| dearer and no faster | 140 | ",
        "| $35,210 | $49,576 | 19.7 d | 29.9 d | spot-with-fallback | nebius eu-north1 | recommended |\n",
        "| $32,450 | $35,210 | $49,576 |\n",
        "| data egress | 4000 | GB | $0.09 | $360.00 | aws-study-guide@2026-06 of 2026-06-01 |\n",
        "| on-demand | $66,990 | $75,192 | 88.2 h |",
        "| matrix products | 981 ms | 74 % |\n",
        "- Money is in United States dollars, without tax; a cloud's invoice may add it.\n",
        "- Price history: the price cache knows no course of this price;",
    ];
    for line in said {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn the_rows_say_everything_exactly() {
    let rows = report(PLAN, &["--format", "csv"]);
    for line in [
        "report,,1,title,llama-7b-pretrain\n",
        "cost-against-time,frontier,1,cost_usd_expected,35209.922883871\n",
        "cost-against-time,frontier,1,id,nebius/eu-north1/gpu-h100-sxm_8gpu-128vcpu-1600gbx32/spot-with-fallback\n",
        "bill,bill,1,unit_price_usd,10.00\n",
        "bill,bill,5,cost_usd,35209.922883871\n",
    ] {
        assert!(rows.contains(line), "{line}\n{rows}");
    }
    let again = report(PLAN, &["--output", "csv"]);
    assert_eq!(rows, again);
    let bill: Vec<(String, String)> = csv(&rows)
        .into_iter()
        .filter(|row| row[1] == "bill" && row[3] == "cost_usd")
        .map(|row| (row[2].clone(), row[4].clone()))
        .collect();
    let nanos = |text: &str| {
        let (whole, part) = text.split_once('.').unwrap();
        format!("{whole}{part:0<9}").parse::<i128>().unwrap()
    };
    let (total, lines) = bill.split_last().unwrap();
    assert_eq!(
        lines.iter().map(|(_, cost)| nanos(cost)).sum::<i128>(),
        nanos(&total.1),
        "the lines add up to the nano-dollar"
    );
}

#[test]
fn markdown_and_rows_are_the_reviewed_ones() {
    insta::assert_snapshot!("report_markdown", report(PLAN, &["--format", "md"]));
    insta::assert_snapshot!("report_csv", report(PLAN, &["--format", "csv"]));
}

fn csv(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv_reader(text);
    reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
}

fn csv_reader(text: &str) -> csv::Reader<&[u8]> {
    csv::Reader::from_reader(text.as_bytes())
}

#[test]
fn a_page_needs_no_network_no_script_and_no_eyes() {
    let page = report(PLAN, &[]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    for forbidden in ["<script", "<link", "<img", "<iframe", "@import", "url(", "src=", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(attributes(&page, "href").iter().all(|target| target.starts_with('#')));
    let ids = attributes(&page, "id");
    let known: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(known.len(), ids.len(), "an id stands twice");
    let named: Vec<&str> =
        attributes(&page, "aria-labelledby").into_iter().flat_map(|names| names.split(' ')).collect();
    assert!(!named.is_empty() && named.iter().all(|name| known.contains(name)), "{named:?}");
    let headings: Vec<&str> =
        page.split("<h").skip(1).filter_map(|rest| rest.get(..1)).filter(|level| level.parse::<u8>().is_ok()).collect();
    assert_eq!(headings[0], "1");
    assert!(headings[1..].iter().all(|level| *level == "2"), "{headings:?}");
    let drawings = page.matches("<svg").count();
    assert!(
        drawings >= 10 && drawings == page.matches("<desc").count() && drawings == page.matches("role=\"img\"").count()
    );
    // The recommendation comes first, in words.
    let main = page.split_once("<main").unwrap().1;
    let at = |words: &str| main.find(words).unwrap_or_else(|| panic!("{words}"));
    let order = [
        "Rent 256 x H100 SXM5 80GB",
        "In nine of ten cases",
        "What could go wrong",
        "What was thrown out",
        "Cost against time",
        "Assumptions",
    ];
    assert!(order.map(at).is_sorted());
    // What has no data is named.
    assert!(at("What is not shown") < at("Price history: the price cache knows no course"));
}

#[test]
fn nothing_that_was_read_becomes_markup() {
    let folder = tempfile::tempdir().unwrap();
    let bad = "</title><script>alert(1)</script> | ` *b* \"q\" 'a'\n# x";
    let path = changed(folder.path(), |document| {
        document["workload"]["name"] = bad.into();
        document["notes"][0] = bad.into();
        document["rejected"][0]["detail"] = bad.into();
        document["recommendation"]["bill"][0]["item"] = bad.into();
        document["recommendation"]["gpu"] = bad.into();
        document["recommendation"]["price"]["source"] = bad.into();
    });
    let page = report(&path, &[]);
    assert!(!page.contains("<script") && !page.contains("</script"), "markup");
    assert!(page.matches("&lt;script&gt;").count() >= 6);
    let markdown = report(&path, &["--format", "md"]);
    assert!(!markdown.replace("\\<", "").contains("<script") && !markdown.contains("\n# x"));
    for row in csv(&report(&path, &["--format", "csv"])) {
        assert_eq!(row.len(), 5);
    }
}

#[test]
fn a_fresh_report_has_the_figures_of_the_plan() {
    let example = "llama-3.1-8b-lora";
    let document = plan(example, &["--gpus", "H100"]);
    let rows = csv(&report(&format!("examples/{example}.toml"), &["--gpus", "H100", "--format", "csv"]));
    let value =
        |part: &str, field: &str| rows.iter().rfind(|row| row[1] == part && row[3] == field).unwrap()[4].clone();
    assert_eq!(value("bill", "cost_usd"), document["recommendation"]["cost_usd"]["expected"].as_str().unwrap());
    assert!(rows.iter().any(|row| row[1] == "step" && row[3] == "seconds"), "a new plan says where its step goes");
    let other =
        document["frontier"].as_array().unwrap().iter().find(|plan| plan["id"] != document["recommendation"]["id"]);
    if let Some(id) = other.and_then(|plan| plan["id"].as_str()) {
        let named = report(&format!("examples/{example}.toml"), &["--gpus", "H100", "--format", "md", "--plan", id]);
        assert!(named.contains("It is expected to cost"));
    }
}

#[test]
fn a_report_goes_to_a_file_and_to_programs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.html");
    let ran = gpuplan(&["report", PLAN, "--out", out.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("wrote ") && std::fs::read_to_string(&out).unwrap().ends_with("</html>\n"));
    let document: Value = serde_json::from_str(&report(PLAN, &["--output", "json"])).unwrap();
    assert_eq!((&document["version"], &document["title"]), (&1.into(), &"llama-7b-pretrain".into()));
    let ids: Vec<&str> =
        document["sections"].as_array().unwrap().iter().filter_map(|section| section["id"].as_str()).collect();
    assert_eq!(ids[..3], ["recommendation", "risks", "thrown-out"]);
}

#[test]
fn what_a_profile_found_stands_on_the_page_with_its_price() {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(folder.path(), |document| {
        document["findings"] = serde_json::json!([
            {"rule": "loader", "evidence": "the GPU waits 31 % of a step", "measured": 0.31, "threshold": 0.05, "advice": "more <workers>",
                "cause": "program", "mended": {"change": "step", "left": 0.7}, "saves_usd": "1234.50", "saves_hours": 12.0},
            {"rule": "throttled-by-heat", "evidence": "1,200 of 1,980 MHz", "measured": 0.6, "threshold": 0.9, "advice": "cool it",
                "cause": "machine", "mended": {"change": "step", "left": 0.7}, "saves_usd": null, "saves_hours": null,
                "why_unpriced": "a fault of the profiled machine; the plan is made without it"},
        ]);
    });
    let text = report(&path, &["--format", "md"]);
    assert!(
        text.contains("## What the profile found") && text.contains("| loader | the GPU waits 31 % of a step |"),
        "{text}"
    );
    assert!(
        text.contains("$1,235") && text.contains("- Not priced: throttled by heat: a fault of the profiled machine"),
        "{text}"
    );
    assert!(!report(&path, &[]).contains("<workers>"));
    assert!(!report(PLAN, &["--format", "md"]).contains("What the profile found"));
}

#[test]
fn an_old_plan_says_so() {
    let ran = crate::cli::support::gpuplan_at("2026-11-20T00:00:00Z", "100", &["report", PLAN, "--format", "md"]);
    assert!(ran.stdout.contains("This plan was good until 2026-08-02 13:00 UTC"), "{}", ran.stdout);
}

#[test]
fn a_plan_made_on_a_stale_price_is_not_to_be_made_again_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = changed(folder.path(), |document| {
        document["valid_until"] = document["recommendation"]["price"]["observed_at"].clone();
    });
    let text = report(&path, &["--format", "md"]);
    assert!(text.contains("The price is stale") && !text.contains("This plan was good until"), "{text}");
}

#[test]
fn what_is_no_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |arguments: &[&str]| -> Ran {
        let ran = gpuplan(&[&["report"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: ") || ran.stderr.contains("\"hint\":\""), "{}", ran.stderr);
        ran
    };
    assert!(
        refused(&["nowhere.toml"]).stderr.contains("there is no file nowhere.toml, and there is no run `nowhere.toml`")
    );
    assert!(refused(&[PLAN, "--spot"]).stderr.contains("flags of a question do not change"));
    assert!(refused(&[PLAN, "--plan", "x"]).stderr.contains("no plan in it has the id `x`"));
    assert!(refused(&[PLAN, "--format", "md", "--output", "json"]).stderr.contains("two formats"));
    refused(&[&written("cut.json", "{\"version\":1,")]);
    refused(&[&written("other.json", "{\"version\":1,\"total\":{}}")]);
    let newer = changed(folder.path(), |document| document["version"] = 2.into());
    assert!(refused(&[&newer]).stderr.contains("this plan has version 2, written by a newer gpuplan"));
    let odd = changed(folder.path(), |document| document["recommendation"]["cost_usd"]["p90"] = "many".into());
    assert!(refused(&[&odd]).stderr.contains("it is not a plan of this program"));
}

#[test]
fn a_budget_is_a_page_too() {
    let folder = tempfile::tempdir().unwrap();
    let part = |name: &str| serde_json::json!({"name": name, "cost_usd": {"expected": "1200.50", "p50": "1000.00", "p90": "2000.00"}});
    let mut total = part("total");
    total["budget_usd"] = "1500.00".into();
    total["chance_within_budget"] = 0.7.into();
    total["price_age"] =
        serde_json::json!({"older_than_days": 30.0, "older_share": 0.63, "oldest": "2025-11-01T00:00:00Z"});
    let mut team = part("<i>");
    (team["budget_usd"], team["chance_within_budget"]) = ("9000.00".into(), 0.9952.into());
    let phase = serde_json::json!({"phase": "7B/pretrain", "team": "<i>", "start": "2027-01", "months": 2, "repeats": 1, "cloud": "aws", "nodes": 8,
        "purchase": "spot", "saved_usd": "-12.75", "cost_usd": {"expected": "1200.50", "p50": "1000.00", "p90": "2000.00"}, "run_hours": {"expected": 80.0, "p50": 80.0, "p90": 99.0}});
    let until = |month: &str, expected: &str| serde_json::json!({"month": month, "cost_usd": {"expected": expected, "p50": "500.00", "p90": "1800.00"}});
    let band = serde_json::json!({"low": 900.0, "expected": 1500.0, "high": 1700.0});
    let budget = serde_json::json!({
        "version": 1, "name": "<b>2027", "currency": "USD", "tax": "excluded", "total": total,
        "by_month": [part("2027-01"), part("2027-02")], "by_team": [team], "phases": [phase],
        "cumulative": [until("2027-01", "600.25"), until("2027-02", "1200.50")],
        "footprint": {"kwh": band, "co2e_kg": band, "kwh_of_unknown_grids": 10.0, "machine_hours_of_unknown_gpus": 0.0,
            "phases": [{"phase": "7B/pretrain", "kwh": band, "co2e_kg": band}, {"phase": "adapters", "kwh": band, "co2e_kg": null}]},
        "commitments": [{"name": "one H100", "kind": "reservation", "paid_usd": "3073.00", "saved_usd": "-12.50", "expected_use": 0.67, "chance_of_loss": 0.31}],
        "sensitivity": [{"what": "price", "low": "-20 %", "high": "+20 %", "low_usd": "-240.10", "high_usd": "240.10"}],
        "lines": [{"item": "machines", "team": "a", "month": "2027-01", "quantity": 12.5, "unit": "machine-hour", "unit_price_usd": "96.04", "cost_usd": "1200.50"},
            {"item": "unused commitment", "month": "2027-02", "quantity": 1.0, "unit": "machine-hour", "unit_price_usd": "6.00", "cost_usd": "6.00"}],
        "assumptions": ["nobody is ill"],
    });
    let path = folder.path().join("budget.json");
    std::fs::write(&path, budget.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let page = report(path, &[]);
    assert!(!page.contains("<b>2027") && !page.contains("<i>") && page.matches("<svg").count() == 10);
    assert!(page.contains("Each month by team, from left to right: a, shared"));
    // Months by their names at their ends, and not days since the first began.
    assert!(page.contains(">2027-02</text>") && !page.contains(" d</text>"));
    let markdown = report(path, &["--format", "md"]);
    for said in [
        "The budget of $1,500 is kept with a chance of 70 %.",
        "-$240.10",
        "By cloud: the budget does not say it",
        "nobody is ill",
        "> 99 %",
        "7B/pretrain",
        "one H100",
        "63 %",
        "Until the end of",
        "shared",
        "-$12.75",
        "1,500 kWh (900 to 1,700); 1,500 kg of CO2e (900 to 1,700).",
        "the emissions of 10 kWh whose grid is not known",
    ] {
        assert!(markdown.contains(said), "{said}: {markdown}");
    }
}

/// In a browser, where there is one: at four widths and in both schemes nothing is wider than the page, no label of a chart is cut
/// off, and every text stands out against what is behind it.
#[test]
#[ignore = "needs chromium; tests/slow.sh runs it"]
fn the_page_fits_and_can_be_read_in_a_browser() {
    fits_in_a_browser(&report(PLAN, &[]));
}

pub fn fits_in_a_browser(page: &str) {
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| on_path(name)) else {
        say("==> WAIVED the page in a browser: no chromium is on PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // A copy that may run one script: the page itself forbids all.
    let (before, rest) = page.split_once("<meta http-equiv").unwrap();
    let after = rest.split_once('\n').unwrap().1;
    let probe = include_str!("report_probe.js");
    let copy = format!("{before}{after}").replace("</body>", &format!("<script>{probe}</script></body>"));
    std::fs::write(folder.path().join("page.html"), copy).unwrap();
    for width in [360, 400, 800, 1280] {
        // A window has a least width, a frame has none.
        let frame = format!(
            "<meta name=\"color-scheme\" content=\"light dark\"><script>onmessage = (said) => {{ document.documentElement.dataset.found = said.data; }}</script>\
             <iframe src=\"page.html\" style=\"width: {width}px; height: 2000px; border: 0\"></iframe>"
        );
        std::fs::write(folder.path().join("frame.html"), frame).unwrap();
        for (setting, scheme) in [(0, "dark"), (1, "light")] {
            let mut command = std::process::Command::new(browser);
            command.args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--virtual-time-budget=5000",
                "--dump-dom",
            ]);
            command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
            command.arg("--window-size=1400,2200").arg(format!("--blink-settings=preferredColorScheme={setting}"));
            let seen = command.arg(format!("file://{}", folder.path().join("frame.html").display())).output().unwrap();
            let seen = String::from_utf8_lossy(&seen.stdout);
            let found = attributes(&seen, "data-found");
            assert_eq!(found.len(), 1, "the browser ran no script: {seen}");
            let measured = format!("{scheme}: width {width} of {width}, 0 wide tables, 0 cut labels, 0 pale texts");
            assert!(found[0].starts_with(&measured), "{} instead of {measured}", found[0]);
        }
    }
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
