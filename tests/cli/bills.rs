//! Bills with their dimensions: what they were for, what is of no run, every charge once as FOCUS, and a page with all of it.
//!
//! The totals of `examples/bills` are those of DuckDB 1.4 over the same files, in decimals.

use gpuplan_testbed::executable::executable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::report::fits_in_a_browser;
use crate::cli::support::Ran;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// When the last of the example bills ends.
const NOW: &str = "2026-11-24T12:00:00Z";

pub fn ask(home: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", NOW]).current_dir(ROOT).env_clear().stdin(Stdio::null());
    command.env("COLUMNS", "120").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home);
    Ran::of(command.output().unwrap())
}

/// With the four example bills.
fn imported() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for bill in ["aws-2026-09", "aws-2026-10", "gcp-2026-10", "aws-2026-11"] {
        let ran = ask(home.path(), &["costs", "import", &format!("examples/bills/{bill}.csv.gz")]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    home
}

pub fn billed(home: &Path, more: &[&str]) -> BTreeMap<String, String> {
    let document = ask(home, &[&["costs", "--output", "json"], more].concat()).json();
    let rows = document["rows"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(&row["name"]), text(&row["billed_usd"]))).collect()
}

pub fn expected(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(name, usd)| ((*name).to_owned(), (*usd).to_owned())).collect()
}

#[test]
fn a_bill_says_what_it_was_for_and_what_is_of_no_run() {
    let home = imported();
    let by = |by: &str, more: &[&str]| billed(home.path(), &[&["--by", by], more].concat());
    assert_eq!(by("cloud", &[]), expected(&[("aws", "157595.9152"), ("gcp", "409.92")]));
    assert_eq!(by("cloud", &["--all"]), expected(&[("aws", "158396.3056"), ("gcp", "415.52")]));
    let of_portfolio = ["--portfolio", "examples/portfolio.toml"];
    let phases = [
        ("7B from nothing/fine-tune", "43.9152"),
        ("7B from nothing/pretrain", "153231.36"),
        ("adapters", "192.64"),
        ("evaluation", "4128.00"),
        ("image classifier", "409.92"),
    ];
    assert_eq!(by("phase", &of_portfolio), expected(&phases));
    // Notebooks bear the tag of their team alone, and machines without GPU are counted, and not as GPUs.
    let instances = by("instance", &["--all"]);
    assert_eq!((&*instances["g5.12xlarge"], &*instances["m5.large"]), ("272.256", "1.152"));
    assert_eq!(by("team", &["--all"])["language"], "528.1344");
    let document = ask(home.path(), &["costs", "--output", "json"]).json();
    let coverage = &document["gpu_coverage"];
    assert!(coverage["share"].as_f64().is_some_and(|share| (0.99..1.0).contains(&share)), "{coverage}");
    let line = &document["lines"][0];
    let keys = ["instance_type", "gpu", "purchase", "region"];
    assert_eq!(
        keys.map(|key| line[key].as_str()),
        [Some("p5.48xlarge"), Some("h100-sxm5-80"), Some("on-demand"), Some("us-east-1")]
    );
    assert_eq!(line["invoice"]["month"], "2026-09");
    let refused = ask(home.path(), &["costs", "--by", "phase"]);
    assert!(refused.code == 2 && refused.stderr.contains("--portfolio"), "{}", refused.stderr);
}

#[test]
fn runs_are_told_apart_by_the_tag_of_another_program() {
    let home = tempfile::tempdir().unwrap();
    let import = |file: &str, tag: &str| {
        let path = format!("tests/fixtures/bills/{file}");
        ask(home.path(), &["costs", "import", &path, "--run-tag", tag, "--output", "json"]).json()
    };
    let ea = import("azure-ea.csv", "env");
    assert_eq!((ea["lines"].as_u64(), ea["lines_of_runs"].as_u64()), (Some(3), Some(2)));
    assert_eq!(ea["total"]["billed_usd"], "1.95844");
    assert_eq!(import("azure-mca.csv", "app")["total"]["billed_usd"], "4.716");
    // What is not of these runs is there too, with its machine.
    assert_eq!(billed(home.path(), &["--all", "--by", "instance"])["Standard_D2s_v3"], "2.64");
}

/// What is expected was added up by DuckDB before the program was asked.
#[test]
fn bills_without_any_run_are_counted_in_the_months_of_their_invoices() {
    let home = tempfile::tempdir().unwrap();
    let import = |path: &str| {
        let ran = ask(home.path(), &["costs", "import", path]);
        assert!(ran.code == 0 && ran.stderr.contains("`gpuplan costs --all` counts them"), "{}", ran.stderr);
    };
    import("tests/fixtures/bills/azure-ea-amortized.csv");
    assert_eq!(billed(home.path(), &["--all", "--by", "month"]), expected(&[("2023-09", "7.0963027")]));
    let machines = billed(home.path(), &["--all", "--by", "instance"]);
    assert_eq!((&*machines["Standard_DS2_v2"], &*machines["Standard_B2s"]), ("0.493152", "0.006"));
    // A savings plan for a year, paid at once, as samples of FOCUS 1.3 have it, of which a tenth of a day was used.
    let mut focus = "BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BillingAccountId,ProviderName,\
        ServiceCategory,BilledCost,EffectiveCost,ListCost,BillingCurrency,PricingCategory,ConsumedQuantity,ConsumedUnit\n"
        .to_owned();
    let period = "2026-02-01T00:00:00Z,2026-03-01T00:00:00Z";
    focus += &format!(
        "{period},2026-02-01T00:00:00Z,2027-02-01T00:00:00Z,Purchase,1,AWS,Compute,459024,0,459024,USD,Standard,,\n"
    );
    for hour in 0..3 {
        let next = hour + 1;
        focus += &format!(
            "{period},2026-02-01T0{hour}:00:00Z,2026-02-01T0{next}:00:00Z,Usage,1,AWS,Compute,0,52.40,78.60,USD,Committed,1,Hours\n"
        );
    }
    let path = home.path().join("focus.csv");
    fs::write(&path, focus).unwrap();
    import(path.to_str().unwrap());
    assert_eq!(
        billed(home.path(), &["--all", "--by", "month"]),
        expected(&[("2023-09", "7.0963027"), ("2026-02", "459024.00")])
    );
    let document = ask(home.path(), &["costs", "--all", "--by", "cloud", "--output", "json"]).json();
    let rows = document["rows"].as_array().unwrap();
    let aws = rows.iter().find(|row| row["name"] == "aws").unwrap();
    assert_eq!(aws["effective_on_bill_usd"], "157.20");
}

fn cells(text: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at: Vec<usize> = columns.iter().map(|name| header.iter().position(|known| known == *name).unwrap()).collect();
    reader.records().map(|row| row.unwrap()).map(|row| at.iter().map(|at| row[*at].to_owned()).collect()).collect()
}

/// Millionths of a dollar.
fn millionths(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    assert!(part.len() <= 6 && !text.starts_with('-'), "{text}");
    whole.parse::<i64>().unwrap() * 1_000_000 + format!("{part:0<6}").parse::<i64>().unwrap()
}

#[test]
fn every_line_of_a_bill_is_a_row_of_focus_with_its_invoice() {
    let home = imported();
    let text = ask(home.path(), &["costs", "--all", "--focus", "1.2"]).stdout;
    let rows = cells(&text, &["BilledCost", "BillingPeriodStart", "ChargePeriodStart", "x_Run", "x_Forecast"]);
    assert_eq!(rows.iter().map(|row| millionths(&row[0])).sum::<i64>(), 158_811_825_600, "what DuckDB adds up");
    assert!(rows.iter().all(|row| row[4] == "false"));
    let late = rows.iter().filter(|row| row[3] == "adapter-07");
    let late: Vec<(&str, &str)> = late.map(|row| (&row[1][..7], &row[2][..7])).collect();
    assert_eq!(late, [("2026-09", "2026-09"), ("2026-10", "2026-10")]);
    let of_runs = ask(home.path(), &["costs", "--focus", "1.3"]).stdout;
    let sum = cells(&of_runs, &["BilledCost"]).iter().map(|row| millionths(&row[0])).sum::<i64>();
    assert_eq!(sum, 158_005_835_200);
}

#[test]
fn spent_against_budget_is_a_page_too() {
    let home = imported();
    let asked = ["budget", "examples/portfolio.toml", "--actual", "--output", "json"];
    let status = home.path().join("status.json");
    let document = ask(home.path(), &asked);
    fs::write(&status, &document.stdout).unwrap();
    let status = status.to_str().unwrap();
    let page = ask(home.path(), &["report", status]).stdout;
    // Three bars by month, team and project, and a line, each for a wide and a narrow page.
    assert_eq!(page.matches("<svg").count(), 8);
    // Each table is a region that readers of screens are told by its caption.
    let captions: Vec<&str> =
        page.split("<p class=\"caption\"").skip(1).filter_map(|part| part.split("</p>").next()).collect();
    let words: BTreeSet<Option<&str>> = captions.iter().map(|caption| caption.split('>').nth(1)).collect();
    assert!(captions.len() > 5 && words.len() == captions.len(), "{captions:?}");
    let markdown = ask(home.path(), &["report", status, "--format", "md"]).stdout;
    let until = document.json()["cumulative"].as_array().unwrap().last().unwrap()["cost_usd"].clone();
    let ends = document.json()["at_completion_usd"].clone();
    let dollars = |figure: &Value| figure.as_str().unwrap().parse::<f64>().unwrap();
    assert_eq!(until["expected"], ends["expected"], "all months are the whole");
    assert!((dollars(&until["p90"]) - dollars(&ends["p90"])).abs() < 0.01, "{until} {ends}");
    for said in [
        "$161,079",
        "is spent",
        "7B from nothing/pretrain",
        "Why more or less was spent",
        "Until the end of",
        "What the budget has to keep",
        "1 of 3 rules is not kept",
        "at most 50 % of the money rests on prices older than 60 days",
        "reservations, savings plans and prepaid machines",
        "In nine of ten cases",
    ] {
        assert!(markdown.contains(said), "{said}: {markdown}");
    }
    // What only a bill knows is split into hours and rate, since the bill counts in hours: 300 h of evaluation at $6.88 on two machines.
    let phases = document.json()["by_phase"].as_array().unwrap().clone();
    let evaluation = phases.iter().find(|phase| phase["name"] == "evaluation").unwrap().clone();
    assert_eq!((&evaluation["spent_usd"], &evaluation["variance"]["rate_usd"]), (&"4128.00".into(), &"0.00".into()));
    assert_ne!(evaluation["variance"]["hours_usd"], "0.00");
    let newer = page_of_newer(home.path(), &document.json());
    assert!(newer.code == 2 && newer.stderr.contains("update gpuplan"), "{}", newer.stderr);
}

#[test]
#[ignore = "needs chromium; tests/slow.sh runs it"]
fn pages_of_a_budget_and_of_what_was_spent_fit_and_can_be_read_in_a_browser() {
    let home = imported();
    for asked in [["--carbon"].as_slice(), &["--actual"]] {
        let document = ask(home.path(), &[&["budget", "examples/portfolio.toml", "--output", "json"], asked].concat());
        let path = home.path().join("document.json");
        fs::write(&path, document.stdout).unwrap();
        fits_in_a_browser(&ask(home.path(), &["report", path.to_str().unwrap()]).stdout);
    }
}

fn page_of_newer(home: &Path, status: &Value) -> Ran {
    let mut newer = status.clone();
    newer["version"] = 99.into();
    let path = home.join("newer.json");
    fs::write(&path, newer.to_string()).unwrap();
    ask(home, &["report", path.to_str().unwrap()])
}

#[test]
fn the_list_price_of_a_budget_is_that_on_demand() {
    let home = tempfile::tempdir().unwrap();
    // One of its runs on spot, whatever is cheapest.
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let portfolio = fs::read_to_string(examples.join("portfolio.toml")).unwrap();
    let portfolio = portfolio.replace("workload = \"", &format!("workload = \"{}/", examples.display()));
    let spot = "repeats = 30\nlimits = { purchase = \"spot-with-fallback\" }";
    let path = home.path().join("portfolio.toml");
    fs::write(&path, portfolio.replace("repeats = 30", spot)).unwrap();
    let path = path.to_str().unwrap();
    let budget = ask(home.path(), &["budget", path, "--output", "json"]).json();
    let text = ask(home.path(), &["budget", path, "--focus", "1.2"]).stdout;
    let rows = cells(&text, &["PricingCategory", "x_Item", "ListCost", "ContractedCost", "PricingQuantity"]);
    // 500 hours on a reservation at $4.13 have a list price of $6.88.
    let committed = rows.iter().find(|row| row[0] == "Committed" && row[1] == "machines").unwrap();
    assert_eq!(committed[2..], ["3440.00", "2065.00", "500.0"]);
    let dollars = |text: &str| text.parse::<f64>().unwrap();
    let spot: Vec<_> = rows.iter().filter(|row| row[0] == "Dynamic").collect();
    assert!(!spot.is_empty() && spot.iter().all(|row| dollars(&row[2]) > dollars(&row[3])), "{spot:?}");
    let saved = |at: &Value| at.as_str().map_or(0.0, dollars);
    let of_phases: f64 = budget["phases"].as_array().unwrap().iter().map(|phase| saved(&phase["saved_usd"])).sum();
    let unused: f64 = rows.iter().filter(|row| row[1] == "unused-commitment").map(|row| dollars(&row[3])).sum();
    assert!((saved(&budget["total"]["saved_usd"]) - (of_phases - unused)).abs() < 0.01, "{of_phases} {unused}");
    // Two machines for 1,500 hours each, as the portfolio says.
    let hours: f64 = budget["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["run"] == "evaluation")
        .map(|line| line["quantity"].as_f64().unwrap())
        .sum();
    assert!((hours - 3000.0).abs() < 1e-6, "{hours}");
}

#[test]
fn what_is_of_no_run_is_paid_by_the_teams_that_the_portfolio_says() {
    let home = imported();
    let text = fs::read_to_string(format!("{ROOT}/examples/portfolio.toml")).unwrap();
    let examples = |name: &str| format!("workload = \"{ROOT}/examples/{name}");
    let text = text.replace("workload = \"", &examples(""));
    let path = home.path().join("p.toml");
    let spent = |more: &str| {
        fs::write(&path, format!("{text}\n{more}")).unwrap();
        let ran = ask(home.path(), &["budget", path.to_str().unwrap(), "--actual", "--output", "json"]);
        let teams = ran.json()["by_team"].as_array().unwrap().clone();
        let spent = teams
            .iter()
            .map(|team| (team["name"].as_str().unwrap().to_owned(), team["spent_usd"].as_str().unwrap().to_owned()));
        spent.collect::<BTreeMap<String, String>>()
    };
    let without = spent("");
    assert_eq!((&*without["language"], &*without["vision"]), ("153467.9152", "4537.92"));
    // Notebooks of vision on A10G ($272.256) are its own, the A100 of language ($526.9824) is shared, and a machine without GPU is nobody's.
    let shared = spent(
        "[[shared]]\nmachines = [\"g5.*\"]\nsplit = \"team\"\n[[shared]]\nmachines = [\"p4d.24xlarge\"]\nsplit = { language = 1, vision = 3 }\n",
    );
    assert_eq!((&*shared["language"], &*shared["vision"]), ("153599.6608", "5205.4128"));
    fs::write(&path, format!("{text}\n[[shared]]\nsplit = {{ visoin = 1 }}\n")).unwrap();
    let refused = ask(home.path(), &["budget", path.to_str().unwrap()]);
    assert!(refused.code == 2 && refused.stderr.contains("team = \"vision\""), "{}", refused.stderr);
}

/// One request, answered with 200; gives its body.
fn hook() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/secret", listener.local_addr().unwrap());
    let told = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut reader, mut length) = (BufReader::new(stream.try_clone().unwrap()), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        String::from_utf8(body).unwrap()
    });
    (address, told)
}

#[test]
fn a_broken_rule_is_told_to_a_webhook_and_by_mail() {
    let home = imported();
    let programs = home.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let sendmail = programs.join("sendmail");
    executable(&sendmail, format!("#!/bin/sh\necho \"$@\" >{0}/words\ncat >{0}/mail\n", home.path().display()));
    let text = fs::read_to_string(format!("{ROOT}/examples/portfolio.toml")).unwrap();
    let text = text.replace("workload = \"", &format!("workload = \"{ROOT}/examples/"));
    let path = home.path().join("p.toml");
    fs::write(&path, format!("{text}\n[[rule]]\nmax_spent = \"70 %\"\n")).unwrap();
    let ask = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command.args(["budget", path.to_str().unwrap(), "--actual", "--now", NOW]).args(more).env_clear();
        let path = format!("{}:/usr/bin:/bin", programs.display());
        Ran::of(command.env("PATH", path).env("GPUPLAN_HOME", home.path()).output().unwrap())
    };
    let (address, told) = hook();
    let ran = ask(&["--notify", &address, "--notify", "mailto:cfo@example.com"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let body: Value = serde_json::from_str(&told.join().unwrap()).unwrap();
    let said = body["text"].as_str().unwrap();
    assert!(said.starts_with("- portfolio line ") && said.contains("70 % of $220,000, and it is 73 %"), "{said}");
    assert_eq!((&body["event"], &body["spent_usd"]), (&"budget".into(), &"161078.5552".into()));
    let mail = fs::read_to_string(home.path().join("mail")).unwrap();
    assert!(
        mail.starts_with("To: cfo@example.com\nSubject: Budget of autumn quarter: ") && mail.ends_with(said),
        "{mail}"
    );
    assert_eq!(fs::read_to_string(home.path().join("words")).unwrap(), "-t -i\n");
    // A reader that cannot be reached is named, without the path, which is a key.
    fs::write(&sendmail, "#!/bin/sh\nexit 75\n").unwrap();
    let ran = ask(&["--notify", "http://127.0.0.1:9/secret", "--notify", "cfo@example.com"]);
    assert!(
        ran.code == 4
            && ran.stderr.contains("an alert was not delivered: http: no answer; cfo@example.com: `sendmail` failed"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("secret"));
    // Nothing to say is not said.
    fs::write(&path, text.replace("max_old_share = \"50 %\"", "max_old_share = \"100 %\"")).unwrap();
    fs::remove_file(home.path().join("mail")).unwrap();
    let ran = ask(&["--notify", "cfo@example.com"]);
    assert!(ran.code == 0 && !home.path().join("mail").exists(), "{}", ran.stderr);
    for wrong in ["cfo", "http://example.com/x", "a@example.com,b@example.com"] {
        let ran = ask(&["--notify", wrong]);
        assert!(ran.code == 2 && ran.stderr.contains("--notify https://HOST/PATH"), "{wrong}: {}", ran.stderr);
    }
}

/// As Oracle writes them every six hours: what is new, late lines of earlier hours, and corrections as rows of their own
/// (docs.oracle.com, "Cost Reports"). `(reference, hour, cost, run)`.
fn oracle(home: &Path, name: &str, lines: &[(&str, u8, &str, &str)]) -> String {
    let mut text = "BilledCost,BillingAccountId,BillingCurrency,BillingPeriodStart,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,EffectiveCost,\
        ListCost,Provider,Region,ServiceCategory,ServiceName,Tags,UsageQuantity,UsageUnit,oci_ReferenceNumber\n"
        .to_owned();
    for (reference, hour, cost, run) in lines {
        let tags = format!("\"{{\"\"gpuplan:run\"\": \"\"{run}\"\"}}\"");
        text += &format!(
            "{cost},S1,USD,2026-11-01T00:00Z,Usage,2026-11-03T{:02}:00Z,2026-11-03T{hour:02}:00Z,{cost},{cost},Oracle,us-chicago-1,Compute,\
             COMPUTE,{tags},1,HOURS,{reference}\n",
            hour + 1
        );
    }
    let path = home.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn reports_of_six_hours_add_up_and_nothing_counts_twice() {
    let home = tempfile::tempdir().unwrap();
    let first = oracle(home.path(), "1.csv", &[("A", 1, "10.00", "tune"), ("B", 2, "10.00", "tune")]);
    let second =
        oracle(home.path(), "2.csv", &[("C", 7, "10.00", "tune"), ("D", 2, "-4.00", "tune"), ("E", 7, "3.00", "eval")]);
    let add = |files: &[&str], more: &[&str]| {
        ask(home.path(), &[&["costs", "import", "--incremental"], files, more].concat())
    };
    assert_eq!(add(&[&first], &[]).code, 0);
    // A run is compared with the whole of its bill, and not with what was added to it.
    let ran = add(&[&second], &["--output", "json"]);
    assert_eq!(ran.json()["total"]["billed_usd"], "29.00");
    let all = expected(&[("eval", "3.00"), ("tune", "26.00")]);
    assert_eq!(billed(home.path(), &[]), all);
    // Again, and one that has a line of each and a new one.
    let ran = add(&[&first, &second], &[]);
    assert!(ran.stderr.contains("5 of 5 parts of these files ($29.00) count already"), "{}", ran.stderr);
    assert!(ran.stdout.contains("in the ledger already"), "{}", ran.stdout);
    let third =
        oracle(home.path(), "3.csv", &[("B", 2, "10.00", "tune"), ("E", 7, "3.00", "eval"), ("F", 8, "1.50", "eval")]);
    let ran = add(&[&third], &[]);
    assert!(ran.stderr.contains("2 of 3 parts of these files ($13.00) count already"), "{}", ran.stderr);
    assert_eq!(billed(home.path(), &[]), expected(&[("eval", "4.50"), ("tune", "26.00")]));
    // A line that has another amount now is neither added nor left out.
    let other = oracle(home.path(), "4.csv", &[("A", 1, "11.00", "tune"), ("G", 9, "5.00", "tune")]);
    let ran = add(&[&other], &[]);
    assert!(ran.code == 2 && ran.stderr.contains("oci 2026-11 has other lines in A"), "{}", ran.stderr);
    assert!(ran.stderr.contains("$10.00 counted and $11.00 here; nothing was kept"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("without --incremental") && ran.stderr.contains("--incremental --replace"),
        "{}",
        ran.stderr
    );
    // A part of the month as the whole of it would lose the rest, and the answer says what to do.
    let ran = ask(home.path(), &["costs", "import", &third]);
    assert!(
        ran.code == 2 && ran.stderr.contains("would shrink") && ran.stderr.contains("--incremental"),
        "{}",
        ran.stderr
    );
    assert_eq!(billed(home.path(), &[]), expected(&[("eval", "4.50"), ("tune", "26.00")]));
    // All at once are the month too, and from then on nothing is known of its parts.
    assert_eq!(ask(home.path(), &["costs", "import", &first, &second, &third, "--replace"]).code, 0);
    let ran = add(&[&other], &[]);
    assert!(ran.code == 2 && ran.stderr.contains("imported as a whole"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--incremental --replace"), "{}", ran.stderr);
    assert_eq!(add(&[&first, &second], &["--replace"]).code, 0);
    assert_eq!(billed(home.path(), &[]), all);
}

#[test]
fn a_file_named_twice_and_two_versions_of_a_report_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let first = oracle(home.path(), "1.csv", &[("A", 1, "10.00", "tune")]);
    let copy = home.path().join("copy.csv");
    fs::copy(&first, &copy).unwrap();
    for twice in [[first.as_str(), &first], [&first, copy.to_str().unwrap()]] {
        let ran = ask(home.path(), &[&["costs", "import"][..], &twice].concat());
        assert!(ran.code == 2 && ran.stderr.contains("are the same: its lines would count twice"), "{}", ran.stderr);
        assert!(ran.stderr.contains("name each file once"), "{}", ran.stderr);
    }
    let period = home.path().join("data/BILLING_PERIOD=2026-11");
    let versions = ["2026-11-03T00:00:00Z-1a", "2026-11-04T00:00:00Z-2b"].map(|version| period.join(version));
    let files = versions.each_ref().map(|folder| {
        fs::create_dir_all(folder).unwrap();
        let hour = if folder.ends_with("2026-11-03T00:00:00Z-1a") { 1 } else { 2 };
        oracle(folder, "bill.csv", &[("A", hour, "10.00", "tune")])
    });
    let ran = ask(home.path(), &["costs", "import", &files[0], &files[1]]);
    assert!(ran.code == 2 && ran.stderr.contains("two versions of the report of one billing period"), "{}", ran.stderr);
    assert!(ran.stderr.contains("gpuplan costs import") && ran.stderr.contains("newer one alone"), "{}", ran.stderr);
    assert_eq!(ask(home.path(), &["costs", "--output", "json"]).json()["rows"].as_array().unwrap().len(), 0);
}

/// Examples of the FOCUS specification, "Correction Handling": in an open period a provider overwrites what it delivered, or appends to it.
#[test]
fn a_correction_by_itself_does_not_take_the_place_of_a_period_of_no_run() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, costs: &[(&str, &str)]| {
        let mut text = "BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ChargeClass,BilledCost,EffectiveCost,\
            BillingCurrency,ServiceProviderName,BillingAccountId,ResourceId\n"
            .to_owned();
        for (resource, cost) in costs {
            text += &format!(
                "2025-07-01T00:00:00Z,2025-08-01T00:00:00Z,2025-07-01T00:00:00Z,2025-07-01T01:00:00Z,Usage,,{cost},{cost},USD,Acme,acct-1,{resource}\n"
            );
        }
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let original = write("original.csv", &[("R-111", "1500")]);
    let appended = write("ledger.csv", &[("R-111", "-300"), ("R-222", "300")]);
    let overwritten = write("replacement.csv", &[("R-111", "1200"), ("R-222", "300")]);
    let month = |usd: &str| assert_eq!(billed(home.path(), &["--all", "--by", "month"]), expected(&[("2025-07", usd)]));
    assert_eq!(ask(home.path(), &["costs", "import", &original]).code, 0);
    let ran = ask(home.path(), &["costs", "import", &appended]);
    assert!(
        ran.code == 2 && ran.stderr.contains("would shrink from $1,500 to $0.00; nothing was kept"),
        "{}",
        ran.stderr
    );
    month("1500.00");
    // Nothing tells records of this provider apart, so what adds to an hour that counts is named with it, in one command.
    let ran = ask(home.path(), &["costs", "import", "--incremental", "--replace", &original]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = ask(home.path(), &["costs", "import", "--incremental", &appended]);
    assert!(ran.code == 2 && ran.stderr.contains("has other lines in 2025-07-01T00"), "{}", ran.stderr);
    assert_eq!(ask(home.path(), &["costs", "import", &original, &appended]).code, 0);
    month("1500.00");
    assert_eq!(ask(home.path(), &["costs", "import", &overwritten]).code, 0);
    month("1500.00");
    assert_eq!(billed(home.path(), &["--all", "--by", "cloud"]), expected(&[("acme", "1500.00")]));
}
