//! What was spent: from the stores of a team to totals that are the same everywhere, a ledger that nothing damages, and bills.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use flate2::write::GzEncoder;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::support::Ran;

const PLACE: &str = "aws/use1-az1/g5.xlarge spot";
/// A month after the runs of these tests.
const NOW: &str = "2026-11-05T00:00:00Z";

fn command(home: &Path, columns: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", NOW]).current_dir(home).env_clear().stdin(Stdio::null());
    command.env("COLUMNS", columns).env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home);
    command
}

fn costs_at(home: &Path, columns: &str, arguments: &[&str]) -> Ran {
    let output = command(home, columns, &[&["costs"], arguments].concat()).output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

fn costs(home: &Path, arguments: &[&str]) -> Ran {
    costs_at(home, "160", arguments)
}

fn json_of(home: &Path, arguments: &[&str]) -> Value {
    let ran = costs(home, &[arguments, &["--output", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

fn put(store: &Path, key: &str, object: &Value) {
    let path = store.join("runs").join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, object.to_string()).unwrap();
}

/// What a launch keeps of a run by a dollar an hour (a dollar and a half at list price).
fn spec(name: &str, team: &str) -> Value {
    let pool = json!({"cloud": "aws", "region": "us-east-1", "zone_id": "use1-az1", "instance_type": "g5.xlarge", "market": "spot"});
    json!({
        "version": 1, "run": name, "started_at": "2026-10-01T00:00:00Z", "stand_in": null, "nodes": 1,
        "spot": [{"pool": pool, "rate_usd_per_hour": "1", "billing": {"step_seconds": 1, "minimum_seconds": 60}}], "on_demand": [],
        "work_hours": 5.0, "deadline_hours": null, "changeover_hours": 0.1, "worst_changeover_hours": 0.3, "budget_usd": null,
        "lifetime_hours": 48.0, "silence_seconds": 600.0, "expected_cost_usd": "6", "steps": 100.0, "store": "s3://bucket/prefix",
        "job": {"command": ["./train.py"], "agent": {"here": "/gpuplan"}, "workdir": null, "setup": null, "environment": [], "secrets": []},
        "image": null, "disk_gib": 100, "tags": [["team", team], ["paper", name]],
        "expected": {
            "plan": "p", "gpu": "a10g-24", "gpus_per_node": 1.0, "framework": "fsdp", "cost_usd": {"expected": "6", "p50": "6", "p90": "8"},
            "hours": {"expected": 6.0, "p50": 6.0, "p90": 8.0}, "interruptions": 0.5, "tokens": 4e6,
            "prices": [{"place": PLACE, "list_usd_per_hour": "1.50", "origin": "live", "source": "aws-spot", "observed_at": "2026-10-01T00:00:00Z"}],
        },
    })
}

fn epoch(started_at: &str, restored_from: Value) -> Value {
    json!({"owner": {"machine": "m", "host": "h", "pid": 1, "start_ticks": 1}, "started_at": started_at, "heartbeat_seconds": 5.0,
        "restored_from": restored_from})
}

fn billed(number: u64, from: &str, hours: f64, started: f64, saved: Option<(u64, f64)>) -> Value {
    let nanos = |hours: f64| (hours * 3.6e12) as u64;
    json!({"epoch": number, "node": 0, "rate_usd_per_hour": "1", "rule": {"step_seconds": 1, "minimum_seconds": 60}, "from": from,
        "elapsed_nanos": nanos(hours), "started_after_nanos": nanos(started),
        "saved": saved.map(|(step, after)| json!({"step": step, "after_nanos": nanos(after)}))})
}

fn rented(number: u64, from: &str, to: &str, hours: f64) -> Value {
    json!({"machine": format!("i-{number}"), "epoch": number, "node": 0, "cloud": "aws", "region": "us-east-1", "zone": "use1-az1",
        "instance_type": "g5.xlarge", "purchase": "spot", "place": PLACE, "rate_usd_per_hour": "1",
        "rule": {"step_seconds": 1, "minimum_seconds": 60}, "from": from, "to": to, "seconds": hours * 3600.0})
}

/// Interrupted once: four paid hours of which half an hour was idle and one was lost, then three to the end. Seven dollars.
fn interrupted(store: &Path, name: &str, team: &str, end: &str) {
    put(store, &format!("{name}/spec.json"), &spec(name, team));
    put(store, &format!("{name}/epochs/1"), &epoch("2026-10-01T00:00:00Z", Value::Null));
    put(store, &format!("{name}/epochs/2"), &epoch("2026-10-01T22:00:00Z", json!({"step": 50, "epoch": 1})));
    put(store, &format!("{name}/billed/e1-0.json"), &billed(1, "2026-10-01T00:15:00Z", 3.75, 0.25, Some((50, 2.75))));
    put(store, &format!("{name}/billed/e2-0.json"), &billed(2, "2026-10-01T22:00:00Z", 3.0, 0.0, Some((100, 3.0))));
    let machines = [
        rented(1, "2026-10-01T00:00:00Z", "2026-10-01T04:00:00Z", 4.0),
        rented(2, "2026-10-01T22:00:00Z", "2026-10-02T01:00:00Z", 3.0),
    ];
    put(
        store,
        &format!("{name}/rented.json"),
        &json!({"version": 1, "machines": machines, "end": end, "ended_at": "2026-10-02T01:00:00Z", "interruptions": 1}),
    );
}

/// Two runs of two teams, and one of an agent alone that goes on.
fn team_store() -> TempDir {
    let store = tempfile::tempdir().unwrap();
    interrupted(store.path(), "good", "vision", "completed");
    interrupted(store.path(), "bad", "speech", "failed");
    let alone = json!({"version": 1, "written_by": "agent", "run": "alone", "nodes": 1, "command": ["train"]});
    put(store.path(), "alone/spec.json", &alone);
    put(store.path(), "alone/epochs/1", &epoch("2026-10-03T00:00:00Z", Value::Null));
    put(store.path(), "alone/billed/e1-0.json", &billed(1, "2026-10-03T00:00:00Z", 0.5, 0.0, None));
    store
}

fn address(store: &TempDir) -> String {
    store.path().display().to_string()
}

#[test]
fn two_laptops_and_one_store_give_the_same_total() {
    let (store, first, second) = (team_store(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let address = address(&store);
    let arguments = ["--store", address.as_str()];
    let one = json_of(first.path(), &arguments);
    assert_eq!(one["total"]["contracted_usd"], "14.50");
    assert_eq!(one["total"]["list_usd"], "21.50", "the agent alone knows no list price");
    assert_eq!(one["total"]["saved_share"], 7.0 / 21.5);
    assert_eq!(one["total"]["so_far_usd"], "0.50");
    let other = json_of(second.path(), &arguments);
    assert_eq!(one, other);
    // And again, and by another address of the same store, with the first ledger full already.
    let again = format!("file://{address}/");
    assert_eq!(json_of(first.path(), &["--store", &again, "--store", &address])["total"], one["total"]);
    let good = one["rows"].as_array().unwrap().iter().find(|row| row["name"] == "good").unwrap();
    assert_eq!(good["wasted_usd"], json!({"idle": "0.50", "redone": "1.00", "failed": "0.00", "all": "1.50"}));
    assert_eq!(good["usd_per_million_tokens"], 1.75);
    let bad = one["rows"].as_array().unwrap().iter().find(|row| row["name"] == "bad").unwrap();
    assert_eq!((bad["wasted_share"].as_f64(), bad["usd_per_million_tokens"].as_f64()), (Some(1.0), None));
    let by_day = json_of(first.path(), &["--store", &address, "--by", "day"]);
    let days: Vec<(&str, &str)> = by_day["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["contracted_usd"].as_str().unwrap()))
        .collect();
    assert_eq!(days, [("2026-10-01", "12.00"), ("2026-10-02", "2.00"), ("2026-10-03", "0.50")]);
    let since = json_of(first.path(), &["--store", &address, "--since", "2026-10-02", "--until", "2026-10-03"]);
    assert_eq!(since["total"]["contracted_usd"], "2.00");
    let teams = json_of(first.path(), &["--store", &address, "--by", "tag:team"]);
    assert_eq!(teams["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn what_was_entered_is_never_priced_again_and_outlives_its_store() {
    let (store, home) = (team_store(), tempfile::tempdir().unwrap());
    let address = address(&store);
    json_of(home.path(), &["--store", &address]);
    // Somebody changes what the machines cost.
    let path = store.path().join("runs/good/rented.json");
    fs::write(
        &path,
        fs::read_to_string(&path).unwrap().replace("\"rate_usd_per_hour\":\"1\"", "\"rate_usd_per_hour\":\"3\""),
    )
    .unwrap();
    let ran = costs(home.path(), &["--store", &address, "--output", "json"]);
    assert_eq!((ran.code, ran.json()["total"]["contracted_usd"].as_str()), (1, Some("14.50")), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("/e1-0-i-1/redone: $1.00 for 1.000 h in the ledger, $3.00 for 1.000 h in the store now"),
        "{}",
        ran.stderr
    );
    fs::remove_dir_all(store.path().join("runs")).unwrap();
    let all = json_of(home.path(), &[]);
    assert_eq!(all["total"]["contracted_usd"], "14.00", "what had ended");
}

#[test]
fn the_tables_are_read_at_every_width() {
    let (store, home) = (team_store(), tempfile::tempdir().unwrap());
    let address = address(&store);
    let narrow = costs_at(home.path(), "80", &["--store", &address]);
    insta::assert_snapshot!("costs_80", narrow.stdout);
    insta::assert_snapshot!("costs_160", costs(home.path(), &["--store", &address]).stdout);
    assert!(narrow.stdout.lines().all(|line| line.chars().count() <= 80));
    let csv = costs(home.path(), &["--store", &address, "--output", "csv"]).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), 28);
    let sum: f64 = reader.records().map(|record| record.unwrap()[20].parse::<f64>().unwrap()).sum();
    assert!((sum - 14.5).abs() < 1e-9, "{sum}");
}

/// `good` with prices of what stands beside its machines, and a checkpoint in the store since the middle of October.
fn with_sides(store: &Path) {
    interrupted(store, "good", "vision", "completed");
    let mut spec = spec("good", "vision");
    let price = |of: &str, cloud: &str, region: &str, usd: &str, unit: &str, bytes: f64| {
        json!({"of": of, "cloud": cloud, "region": region, "usd": usd, "unit": unit, "unit_bytes": bytes, "source": "list, unverified",
            "observed_at": "2026-09-01T00:00:00Z"})
    };
    let gib = f64::from(1 << 30);
    spec["expected"]["beside"] = json!([
        price("disk", "aws", "us-east-1", "0.073", "GiB-month", gib),
        price("storage", "aws", "us-east-1", "0.02", "GiB-month", gib),
        price("data-out", "gcp", "us-central1", "0.12", "GB", 1e9),
    ]);
    spec["expected"]["fetched_bytes"] = json!(10e9);
    put(store, "good/spec.json", &spec);
    let data = store.join("runs/good/data/e1");
    fs::create_dir_all(&data).unwrap();
    fs::File::create(data.join("shard")).unwrap().set_len(1 << 30).unwrap();
    let since = std::time::UNIX_EPOCH + std::time::Duration::from_hours(497_784);
    let mut folders = vec![store.join("runs/good")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                fs::File::options().write(true).open(entry).unwrap().set_modified(since).unwrap();
            }
        }
    }
}

#[test]
fn disks_storage_and_data_from_elsewhere_are_charges_of_their_own() {
    let (store, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    with_sides(store.path());
    let address = address(&store);
    let found = json_of(home.path(), &["--store", &address]);
    let total = |key: &str| found["total"][key].as_str().unwrap().to_owned();
    // 100 GiB for seven hours at a hundredth of a cent a GiB and hour; 10 GB to each of two machines; a GiB since the middle of October.
    assert_eq!((total("disk_usd"), total("data_out_usd")), ("0.07".to_owned(), "2.40".to_owned()));
    assert!(total("storage_usd").starts_with("0.013"), "{}", total("storage_usd"));
    assert_eq!(found["total"]["machine_hours"], 7.0);
    let sum: f64 = found["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["costs"]["contracted"].as_str().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((sum - total("contracted_usd").parse::<f64>().unwrap()).abs() < 1e-8, "{sum}");
    let narrow = costs_at(home.path(), "80", &["--store", &address]);
    assert!(narrow.stdout.lines().all(|line| line.chars().count() <= 80), "{}", narrow.stdout);
    insta::assert_snapshot!("costs_beside_160", costs(home.path(), &["--store", &address]).stdout);
    // The files of finance: October's storage is whole, November's still grows and is left out.
    for version in ["1.2", "1.3", "1.4"] {
        let focus = costs(home.path(), &["--store", &address, "--focus", version]);
        assert!(focus.code == 0 && focus.stderr.contains("1 charges still grow"), "{}", focus.stderr);
        let mut reader = csv::Reader::from_reader(focus.stdout.as_bytes());
        let header = reader.headers().unwrap().clone();
        let at = |name: &str| header.iter().position(|column| column == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let of = |item: &str, column: &str| -> Vec<String> {
            rows.iter().filter(|row| &row[at("x_Item")] == item).map(|row| row[at(column)].to_owned()).collect()
        };
        assert_eq!(rows.len(), 9, "four of machines, two disks, two transfers and a month of storage");
        assert_eq!(of("checkpoint-storage", "PricingUnit"), ["GiB-Months"]);
        assert_eq!(of("egress", "ServiceCategory").len(), 2);
        assert_eq!(of("disk", "BillingPeriodStart"), ["2026-10-01T00:00:00Z"; 2]);
        assert!(rows.iter().all(|row| &row[at("x_Forecast")] == "false" && &row[at("BillingCurrency")] == "USD"));
    }
    // What was deleted since is no quarrel: the ledger has what it saw.
    fs::remove_dir_all(store.path().join("runs/good/data")).unwrap();
    let again = costs(home.path(), &["--store", &address, "--output", "json"]);
    assert_eq!((again.code, again.json()["total"]["disk_usd"].as_str()), (0, Some("0.07")), "{}", again.stderr);
}

#[test]
fn an_end_in_the_middle_of_a_write_damages_nothing() {
    let (store, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..60 {
        interrupted(store.path(), &format!("run-{number}"), "vision", "completed");
    }
    let address = address(&store);
    let ledger = home.path().join("ledger.sqlite");
    let rows = || {
        let database = Connection::open(&ledger).unwrap();
        let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        database.query_row("SELECT count(*) FROM charges", [], |row| row.get::<_, i64>(0)).unwrap_or(0)
    };
    let (mut ended, mut before) = (0, 0);
    for limit in 1..=12 {
        // The system ends it where a file would be longer than so many blocks: in the middle of a write.
        let whole = command(home.path(), "80", &["costs", "--store", &address]);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -c 0; ulimit -f {}; exec \"$@\"", limit * 32), "sh"]);
        limited
            .arg(whole.get_program())
            .args(whole.get_args())
            .current_dir(whole.get_current_dir().unwrap())
            .env_clear();
        limited.envs(whole.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        let done = limited.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        ended += u32::from(!done.success());
        let after = rows();
        assert!(after >= before && after % 4 == 0, "{before} rows, then {after}: runs are whole, and none is lost");
        before = after;
    }
    assert!(ended > 0 && before > 0, "{ended} were ended in the middle, and {before} rows stand");
    assert_eq!(json_of(home.path(), &["--store", &address])["total"]["contracted_usd"], "420.00");
    assert_eq!(rows(), 240);
}

#[test]
fn a_run_that_cannot_be_read_is_named_and_costs_not_nothing() {
    let (store, home) = (team_store(), tempfile::tempdir().unwrap());
    let address = address(&store);
    let before = json_of(home.path(), &["--store", &address]);
    put(store.path(), "good/spec.json", &json!({"version": 99, "run": "good"}));
    let ran = costs(home.path(), &["--store", &address, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("warning: good is shown as the ledger has it: its specification cannot be read"),
        "{}",
        ran.stderr
    );
    // Only runs of the store are asked for, and this one did not say which of its name it is.
    assert_eq!(before["total"]["contracted_usd"], "14.50");
    assert_eq!(ran.json()["total"]["contracted_usd"], "7.50");
    assert_eq!(json_of(home.path(), &[])["total"]["contracted_usd"], "14.00", "what the ledger has stands");
}

#[test]
fn bad_input_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let ran = costs(home.path(), arguments);
        assert!(ran.code == code && ran.stderr.contains(words), "{arguments:?}: {} {}", ran.code, ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    refused(&["--by", "moon"], 2, "`moon` is not a valid value of --by");
    refused(&["--since", "soon"], 2, "`soon` is not a valid time for --since");
    refused(&["--since", "2026-10-02", "--until", "2026-10-01"], 2, "is not before --until");
    refused(&["--store", "/no/such/folder"], 2, "the folder /no/such/folder is not in the store");
    refused(&["--store", "s3://bucket/prefix"], 2, "s3://bucket/prefix cannot be read with --offline");
    refused(&["import", "/no/such/bill.csv"], 2, "there is no file /no/such/bill.csv");
    refused(&["import", "x", "--format", "pdf"], 2, "`pdf` is not a known export format");
    let empty = costs(home.path(), &[]);
    assert!(empty.code == 0 && empty.stderr.contains("gpuplan costs --store URI"), "{}", empty.stderr);
    let ledger = home.path().join("ledger.sqlite");
    Connection::open(&ledger)
        .unwrap()
        .execute_batch("PRAGMA user_version = 9; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let before = fs::read(&ledger).unwrap();
    refused(&[], 2, "written by a newer version of this program");
    assert!(fs::read(&ledger).unwrap() == before);
}

const CUR: &str = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,line_item_unblended_cost,\
    line_item_line_item_type,line_item_usage_type,line_item_usage_amount,resource_tags\n";

fn cur(home: &Path, name: &str, lines: &[(&str, &str, &str, &str)]) -> PathBuf {
    let mut text = CUR.to_owned();
    for (run, kind, usage, amount) in lines {
        let tags = format!("\"{{\"\"user_gpuplan_run\"\":\"\"{run}\"\"}}\"");
        text += &format!(
            "123,2026-10-01T00:00:00.000Z,2026-10-01T01:00:00.000Z,USD,{amount},{kind},{usage},{amount},{tags}\n"
        );
    }
    let path = home.join(name);
    let mut packed = GzEncoder::new(fs::File::create(&path).unwrap(), flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    path
}

#[test]
fn a_bill_is_compared_by_run_and_reason_and_stands_beside_what_was_charged() {
    let (store, home) = (team_store(), tempfile::tempdir().unwrap());
    let address = address(&store);
    json_of(home.path(), &["--store", &address]);
    let first = cur(
        home.path(),
        "cur.csv.gz",
        &[
            ("good", "Usage", "SpotUsage:g5.xlarge", "7.2000000001"),
            ("good", "Usage", "EBS:VolumeUsage.gp3", "0.3"),
            ("good", "Credit", "SpotUsage:g5.xlarge", "-1"),
            ("stranger", "Usage", "BoxUsage:g5.xlarge", "2"),
        ],
    );
    let imported = json_of(home.path(), &["import", first.to_str().unwrap()]);
    let good = imported["runs"].as_array().unwrap().iter().find(|run| run["run"] == "good").unwrap();
    assert_eq!((good["charged_usd"].as_str(), good["billed_usd"].as_str()), (Some("7.00"), Some("6.50")));
    assert_eq!(good["reasons"], json!({"hours": "0.20", "disk": "0.30", "credits": "-1.00"}));
    assert_eq!((imported["lines"].as_u64(), imported["is_new"].as_bool()), (Some(4), Some(true)));
    assert_eq!(json_of(home.path(), &["import", first.to_str().unwrap()])["is_new"], false);
    insta::assert_snapshot!(
        "costs_import_100",
        costs_at(home.path(), "100", &["import", first.to_str().unwrap()]).stdout
    );
    let total = json_of(home.path(), &["--store", &address]);
    assert_eq!(
        (total["total"]["billed_usd"].as_str(), total["total"]["credits_usd"].as_str()),
        (Some("6.50"), Some("-1.00"))
    );
    assert_eq!(total["total"]["contracted_usd"], "14.50", "a bill is never added to it");
    // The month is written again by its cloud: the newest counts.
    let second = cur(home.path(), "cur-final.csv.gz", &[("good", "Usage", "SpotUsage:g5.xlarge", "7")]);
    let shrinking = costs(home.path(), &["import", second.to_str().unwrap()]);
    assert_eq!(shrinking.code, 2);
    assert!(
        shrinking.stderr.contains("the bill of aws 2026-10 would shrink from ")
            && shrinking.stderr.contains("--replace"),
        "{}",
        shrinking.stderr
    );
    assert_eq!(json_of(home.path(), &["--store", &address])["total"]["billed_usd"], "6.50", "nothing was kept");
    json_of(home.path(), &["import", second.to_str().unwrap(), "--replace"]);
    assert_eq!(json_of(home.path(), &["--store", &address])["total"]["billed_usd"], "7.00");
    // Covered by a plan that was paid before: nothing is billed for the hour, and its part of the payment is effective.
    let covered = home.path().join("covered.csv");
    let head =
        CUR.replace("line_item_unblended_cost", "line_item_unblended_cost,savings_plan_savings_plan_effective_cost");
    let tags = "\"{\"\"user_gpuplan_run\"\":\"\"good\"\"}\"";
    let time = "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z";
    fs::write(&covered, format!("{head}123,{time},USD,0,4.5,SavingsPlanCoveredUsage,BoxUsage:g5.xlarge,7,{tags}\n"))
        .unwrap();
    json_of(home.path(), &["import", covered.to_str().unwrap(), "--replace"]);
    let total = json_of(home.path(), &["--store", &address]);
    assert_eq!(
        (total["total"]["billed_usd"].as_str(), total["total"]["effective_on_bill_usd"].as_str()),
        (Some("0.00"), Some("4.50"))
    );
    let table = costs(home.path(), &["--store", &address]).stdout;
    assert!(table.contains("effective") && table.contains("Effective is as the bill has it"), "{table}");
    let euro = home.path().join("euro.csv");
    fs::write(&euro, format!("{CUR}1,2026-10-01T00:00:00Z,,EUR,1,Usage,BoxUsage,1,{tags}\n")).unwrap();
    let ran = costs(home.path(), &["import", euro.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("euro.csv line 2, column `line_item_currency_code`: the bill is in `EUR`"),
        "{}",
        ran.stderr
    );
}

/// The columns of `CUR` as AWS writes them by default, the tags as a map; a line for each amount.
fn parquet_cur(path: &Path, run: &str, currency: &str, amounts: &[f64]) {
    let names: Vec<&str> = CUR.trim().split(',').collect();
    let mut schema = "message cur {".to_owned();
    for name in &names[..8] {
        schema += &match *name {
            "line_item_unblended_cost" | "line_item_usage_amount" => format!(" required double {name};"),
            "line_item_usage_start_date" | "line_item_usage_end_date" => {
                format!(" required int64 {name} (TIMESTAMP(MILLIS, true));")
            }
            _ => format!(" required binary {name} (UTF8);"),
        };
    }
    schema += " optional group resource_tags (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } } }";
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut file = SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    let october = 1_790_812_800_000;
    for name in names[..8].iter().chain(&["key", "value"]) {
        let mut column = group.next_column().unwrap().unwrap();
        let (definitions, repetitions) =
            (vec![if *name == "value" { 3 } else { 2 }; amounts.len()], vec![0; amounts.len()]);
        let text = match *name {
            "bill_payer_account_id" => "123",
            "line_item_currency_code" => currency,
            "line_item_line_item_type" => "Usage",
            "line_item_usage_type" => "SpotUsage:g5.xlarge",
            "key" => "user_gpuplan_run",
            _ => run,
        };
        if name.ends_with("_date") {
            let at = if name.contains("start") { october } else { october + 3_600_000 };
            column.typed::<Int64Type>().write_batch(&vec![at; amounts.len()], None, None).unwrap();
        } else if name.ends_with("_cost") || name.ends_with("_amount") {
            column.typed::<DoubleType>().write_batch(amounts, None, None).unwrap();
        } else {
            let texts = vec![ByteArray::from(text); amounts.len()];
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&definitions), Some(&repetitions)).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
}

#[test]
fn a_bill_in_parquet_is_the_same_bill_and_a_broken_one_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (of_csv, of_parquet, more) =
        (tempfile::tempdir().unwrap(), home.path().join("a.parquet"), home.path().join("b.snappy.parquet"));
    parquet_cur(&of_parquet, "good", "USD", &[0.1, 0.2]);
    parquet_cur(&more, "better", "USD", &[7.000_000_000_1]);
    let used = "SpotUsage:g5.xlarge";
    let csv = cur(
        home.path(),
        "a.csv.gz",
        &[("good", "Usage", used, "0.1"), ("good", "Usage", used, "0.2"), ("better", "Usage", used, "7.0000000001")],
    );
    let (parquet, more) = (of_parquet.to_str().unwrap(), more.to_str().unwrap());
    let found = json_of(home.path(), &["import", parquet, more]);
    let expected = json_of(of_csv.path(), &["import", csv.to_str().unwrap()]);
    assert_eq!((&found["runs"], &found["lines"]), (&expected["runs"], &expected["lines"]));
    assert_eq!(found["runs"][1]["billed_usd"], "0.30", "{found}");
    assert_eq!(json_of(home.path(), &["import", parquet, more])["is_new"], false);
    // Broken in the second file of two: nothing of the first is kept either.
    let ledger = || fs::read(home.path().join("ledger.sqlite")).unwrap();
    let (before, whole) = (ledger(), fs::read(more).unwrap());
    let refused = |words: &str| {
        let ran = costs(home.path(), &["import", parquet, more]);
        assert!(
            ran.code == 2 && ran.stderr.contains(words) && ran.stderr.contains("nothing of it was kept"),
            "{}",
            ran.stderr
        );
        assert!(ran.stdout.is_empty() && !ran.stderr.contains("panicked") && ledger() == before, "{}", ran.stderr);
    };
    fs::write(more, &whole[..whole.len() / 2]).unwrap();
    refused("b.snappy.parquet: this Parquet file is broken or cut off");
    parquet_cur(Path::new(more), "better", "EUR", &[1.0]);
    refused("b.snappy.parquet row 1, column `line_item_currency_code`: the bill is in `EUR`");
    let mut packed = GzEncoder::new(fs::File::create(more).unwrap(), flate2::Compression::fast());
    packed.write_all(&whole).unwrap();
    packed.finish().unwrap();
    refused("b.snappy.parquet: Parquet is read as it is, and not packed: unpack it with `gunzip`");
}

/// A plan of the image example on one kind of GPU, with this home.
fn planned(home: &Path, more: &[&str]) -> Ran {
    let example = format!("{}/examples/resnet-50-imagenet.toml", env!("CARGO_MANIFEST_DIR"));
    let asked = ["plan", example.as_str(), "--gpus", "a10g", "--on-demand", "--deadline", "2000h", "--output", "json"];
    let output = command(home, "80", &[&asked, more].concat()).output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

#[test]
fn the_next_plan_goes_by_what_runs_like_it_took() {
    let (store, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let before = planned(home.path(), &[]).json();
    let constants = &before["inputs"]["constants_version"];
    // Each took 5.5 hours of work where 5 were planned.
    for name in ["first", "second", "measured"] {
        interrupted(store.path(), name, "vision", "completed");
        let mut spec = spec(name, "vision");
        (spec["expected"]["gpu"], spec["expected"]["framework"]) = (json!("a10g"), json!(""));
        spec["expected"]["basis"] =
            json!({"model": "resnet-50", "task": "train", "constants_version": constants, "time_factor": 1.0});
        if name == "measured" {
            spec["expected"]["basis"]["measured_sha256"] = json!("other");
        }
        put(store.path(), &format!("{name}/spec.json"), &spec);
    }
    interrupted(store.path(), "older", "vision", "completed");
    json_of(home.path(), &["--store", &address(&store)]);
    let ran = planned(home.path(), &[]);
    let after = ran.json();
    assert!(
        ran.stderr
            .contains("say nothing about the time: 1 launched by an older version, 1 forecast with other measurements"),
        "{}",
        ran.stderr
    );
    let runs = after["inputs"]["own_runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!((&runs[0]["time_ratio"], &runs[0]["model"]), (&json!(1.1), &json!("resnet-50")));
    let step = |plan: &Value| {
        let of = |key: &str| plan["recommendation"]["step_seconds"][key].as_f64().unwrap();
        (of("expected"), of("high") / of("expected"))
    };
    let ((was, doubt), (is, left)) = (step(&before), step(&after));
    // Two runs with a correlation of .42: 2 x .42 / 1.42 of what they were off.
    assert!(((is / was).ln() / 1.1_f64.ln() - 0.84 / 1.42).abs() < 1e-6, "{was} {is}");
    assert!(left < doubt && left > 1.0, "{doubt} {left}");
    let because = after["recommendation"]["because"].to_string();
    assert!(because.contains("2 of this program on A10G") && because.contains("so time x 1.06"), "{because}");
    // Without them it is as before, and a recorded plan stands by the runs of then.
    assert_eq!(planned(home.path(), &["--no-history"]).json()["recommendation"], before["recommendation"]);
    let path = home.path().join("plan.json");
    fs::write(&path, &ran.stdout).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let again = command(elsewhere.path(), "80", &["plan", "--locked", path.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8(again.stdout).unwrap() == ran.stdout, "{}", String::from_utf8_lossy(&again.stderr));
    let first = home.path().join("before.json");
    fs::write(&first, before.to_string()).unwrap();
    let diff =
        command(home.path(), "160", &["diff", first.to_str().unwrap(), path.to_str().unwrap()]).output().unwrap();
    let diff = String::from_utf8(diff.stdout).unwrap();
    assert!(diff.contains("your own finished runs that count: 0 -> 2 (new: first, second)"), "{diff}");
    fs::write(
        home.path().join("ledger.sqlite"),
        "not a ledger, and long enough to be looked at as one: 012345678901234567890123456789",
    )
    .unwrap();
    let broken = planned(home.path(), &[]);
    assert!(
        broken.code == 0 && broken.stderr.contains("warning: the plan goes without what your own runs say"),
        "{}",
        broken.stderr
    );
}
