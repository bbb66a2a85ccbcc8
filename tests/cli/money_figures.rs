//! How fast money is counted, and in how much memory: a portfolio, a page, a comparison, a bill of a gigabyte. For a release build.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use crate::cli::support::NOW;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Of a run of the program; the least of so many counts, as other work on the machine only adds.
const TIMES: usize = 5;
/// Peak of an import of any length. A debug build, of which nothing is optimised, takes more.
const MOST_MIB: u64 = if cfg!(debug_assertions) { 128 } else { 50 };

fn program(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", NOW]).current_dir(home).env_clear().stdin(Stdio::null());
    command.env("COLUMNS", "100").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home);
    command
}

/// What it printed, and the least time that it took.
fn timed(home: &Path, arguments: &[&str]) -> (String, Duration) {
    let mut least = Duration::MAX;
    let mut stdout = String::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        let output = program(home, arguments).output().unwrap();
        least = least.min(begun.elapsed());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        stdout = String::from_utf8(output.stdout).unwrap();
    }
    (stdout, least)
}

/// 200 runs: of two workloads to plan, of a recorded plan, and of stated rates, over three months.
fn portfolio(folder: &Path) -> PathBuf {
    for name in ["llama-3.1-8b-lora.toml", "resnet-50-imagenet.toml"] {
        fs::copy(format!("{ROOT}/examples/{name}"), folder.join(name)).unwrap();
    }
    fs::copy(format!("{ROOT}/examples/llama-3.1-8b-finetune.toml"), folder.join("tune.toml")).unwrap();
    for (name, more) in [("plan.json", "--spot"), ("plan-then.json", "--on-demand")] {
        let output = program(folder, &["plan", "tune.toml", more, "--output", "json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(folder.join(name), output.stdout).unwrap();
    }
    let mut text =
        "name = \"year\"\ncurrency = \"USD\"\ntax = \"excluded\"\nstart = \"2026-09\"\nmonths = 3\n[[team]]\nname = \"a\"\n[[team]]\nname = \"b\"\n"
            .to_owned();
    for run in 0..200 {
        let team = if run % 3 == 0 { "a" } else { "b" };
        text += &format!(
            "[[run]]\nname = \"run {run}\"\nteam = \"{team}\"\nrepeats = {}\nmonths = {}\n",
            1 + run % 7,
            1 + run % 3
        );
        text += match run % 4 {
            0 => "workload = \"llama-3.1-8b-lora.toml\"\n",
            1 => "workload = \"resnet-50-imagenet.toml\"\n",
            2 => "plan = \"plan.json\"\n",
            _ => {
                "usd_per_hour = \"6.88\"\nhours = 500\nhours_p90 = 640\ncloud = \"aws\"\nregion = \"us-east-1\"\n\
                  instance_type = \"p5.4xlarge\"\ngpu = \"h100-sxm5-80\"\nsource = \"a list\"\nas_of = 2026-07-20\n"
            }
        };
    }
    let path = folder.join("portfolio.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
#[ignore = "measures; meant for a release build"]
fn portfolios_pages_and_comparisons_keep_their_time() {
    let home = tempfile::tempdir().unwrap();
    let path = portfolio(home.path());
    let (budget, drawn) = timed(home.path(), &["budget", path.to_str().unwrap(), "--output", "json"]);
    let budget = budget.replace("\"run 1\"", "\"first run\"");
    fs::write(home.path().join("budget.json"), &budget).unwrap();
    fs::write(home.path().join("other.json"), budget.replace("\"1.45\"", "\"1.55\"")).unwrap();
    let (page, of_plan) = timed(home.path(), &["report", "plan.json"]);
    let (large, of_budget) = timed(home.path(), &["report", "budget.json"]);
    let (_, fresh) = timed(home.path(), &["report", "llama-3.1-8b-lora.toml"]);
    let (_, plans) = timed(home.path(), &["diff", "plan.json", "plan-then.json"]);
    let (_, budgets) = timed(home.path(), &["diff", "budget.json", "other.json"]);
    println!("budget of 200 runs, 10,000 draws, two workloads planned: {drawn:?} (limit 1 s)");
    println!(
        "report of a plan {of_plan:?}, {} kB; of a workload {fresh:?}; of that budget {of_budget:?}, {} kB",
        page.len() / 1000,
        large.len() / 1000
    );
    println!("diff of plans {plans:?}, of budgets {budgets:?}");
    let slow = if cfg!(debug_assertions) { 60 } else { 1 };
    assert!(drawn <= slow * Duration::from_secs(1), "{drawn:?}");
    for report in [of_plan, of_budget, fresh] {
        assert!(report <= slow * Duration::from_millis(300), "{report:?}");
    }
    assert!(page.len() <= 1_000_000 && large.len() <= 1_000_000, "{} and {} bytes", page.len(), large.len());
    for diff in [plans, budgets] {
        assert!(diff <= slow * Duration::from_millis(50), "{diff:?}");
    }
}

/// Lines of a bill: one in eight is of one of 200 runs, over a month, in amounts finer than a nano-dollar.
struct Lines {
    state: u64,
}

impl Lines {
    /// The next of a sequence that looks random (Marsaglia, "Xorshift RNGs", 2003).
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Its id, second of October 2026, amount in billionths of a cent, and run.
    fn line(&mut self) -> (String, i64, u64, Option<u64>) {
        let (id, more, place) = (self.next(), self.next(), self.next());
        let run = (place % 8 == 0).then_some(place / 8 % 200);
        (
            format!("{id:016x}{more:016x}{place:016x}"),
            1_790_812_800 + (more % 2_678_400) as i64,
            id % 100_000_000_000,
            run,
        )
    }
}

fn usd(billionths: u64) -> String {
    format!("0.{billionths:011}")
}

/// As AWS names and orders them, with some of those that nobody looks at.
const CSV: &str = "identity_line_item_id,bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,\
    line_item_unblended_cost,line_item_line_item_type,line_item_usage_type,line_item_usage_amount,line_item_resource_id,resource_tags\n";

fn write_csv(path: &Path, bytes: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(path).unwrap());
    let mut lines = Lines { state: 88_172_645_463_325_252 };
    let mut written = 0;
    let mut text = CSV.to_owned();
    while written < bytes {
        let (id, second, amount, run) = lines.line();
        let time = jiff::Timestamp::from_second(second).unwrap();
        let tags = run.map_or_else(
            || "\"{\"\"user_name\"\":\"\"somebody\"\"}\"".to_owned(),
            |run| format!("\"{{\"\"user_gpuplan_run\"\":\"\"run-{run}\"\"}}\""),
        );
        let usage = "Usage,USE1-SpotUsage:p5.48xlarge,0.0166666667";
        text += &format!(
            "{id},123456789012,{time},{time},USD,{},{usage},arn:aws:ec2:us-east-1:123456789012:instance/i-{id},{tags}\n",
            usd(amount)
        );
        if text.len() > 1 << 20 {
            file.write_all(text.as_bytes()).unwrap();
            written += text.len() as u64;
            text.clear();
        }
    }
    file.flush().unwrap();
}

/// As Oracle writes its reports, each line with a reference of its own. They are parts that others are added to, so many as there are lines.
fn write_oracle(path: &Path, bytes: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(path).unwrap());
    let mut lines = Lines { state: 88_172_645_463_325_252 };
    let head = "BilledCost,BillingAccountId,BillingCurrency,BillingPeriodStart,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,EffectiveCost,\
        ListCost,Provider,Region,ServiceCategory,ServiceName,Tags,UsageQuantity,UsageUnit,oci_ReferenceNumber\n";
    file.write_all(head.as_bytes()).unwrap();
    let mut written = 0;
    while written < bytes {
        let (id, second, amount, run) = lines.line();
        let (time, cost) = (jiff::Timestamp::from_second(second).unwrap(), usd(amount));
        let tags = run.map_or_else(|| "{}".to_owned(), |run| format!("\"{{\"\"gpuplan:run\"\": \"\"run-{run}\"\"}}\""));
        let line = format!(
            "{cost},S1,USD,2026-10-01T00:00Z,Usage,{time},{time},{cost},{cost},Oracle,us-chicago-1,Compute,COMPUTE,{tags},1,HOURS,V2.{id}\n"
        );
        file.write_all(line.as_bytes()).unwrap();
        written += line.len() as u64;
    }
    file.flush().unwrap();
}

/// Rows of a group, as many as engines put into 128 MB.
const IN_A_GROUP: usize = 500_000;

fn write_parquet(path: &Path, bytes: u64) {
    let schema = "message cur { required binary identity_line_item_id (UTF8); required binary bill_payer_account_id (UTF8);
        required int64 line_item_usage_start_date (TIMESTAMP(MILLIS, true)); required binary line_item_currency_code (UTF8);
        required double line_item_unblended_cost; required binary line_item_line_item_type (UTF8); required binary line_item_usage_type (UTF8);
        required double line_item_usage_amount; required binary line_item_resource_id (UTF8);
        optional group resource_tags (MAP) { repeated group key_value { required binary key (UTF8); optional binary value (UTF8); } } }";
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = BufWriter::with_capacity(1 << 20, fs::File::create(path).unwrap());
    let mut file =
        SerializedFileWriter::new(file, Arc::new(parse_message_type(schema).unwrap()), Arc::new(properties)).unwrap();
    let mut lines = Lines { state: 88_172_645_463_325_252 };
    let text = |text: &str| ByteArray::from(text);
    while (file.bytes_written() as u64) < bytes {
        let rows: Vec<_> = (0..IN_A_GROUP).map(|_| lines.line()).collect();
        let mut group = file.next_row_group().unwrap();
        for column in 0..11 {
            let mut writer = group.next_column().unwrap().unwrap();
            let (definitions, repetitions) = (vec![if column == 10 { 3 } else { 2 }; rows.len()], vec![0; rows.len()]);
            match column {
                2 => {
                    let times: Vec<i64> = rows.iter().map(|row| row.1 * 1000).collect();
                    writer.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
                }
                4 | 7 => {
                    let amounts: Vec<f64> = rows
                        .iter()
                        .map(|row| if column == 4 { usd(row.2).parse().unwrap() } else { 0.016_666_666_7 })
                        .collect();
                    writer.typed::<DoubleType>().write_batch(&amounts, None, None).unwrap();
                }
                _ => {
                    let cell = |row: &(String, i64, u64, Option<u64>)| match column {
                        0 => text(&row.0),
                        1 => text("123456789012"),
                        3 => text("USD"),
                        5 => text("Usage"),
                        6 => text("USE1-SpotUsage:p5.48xlarge"),
                        8 => text(&format!("arn:aws:ec2:us-east-1:123456789012:instance/i-{}", row.0)),
                        9 => text(if row.3.is_some() { "user_gpuplan_run" } else { "user_name" }),
                        _ => text(&row.3.map_or_else(|| "somebody".to_owned(), |run| format!("run-{run}"))),
                    };
                    let texts: Vec<ByteArray> = rows.iter().map(cell).collect();
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(&texts, Some(&definitions), Some(&repetitions))
                        .unwrap();
                }
            }
            writer.close().unwrap();
        }
        group.close().unwrap();
    }
    file.close().unwrap();
}

/// Time and peak memory of an import into a fresh ledger, and its answer.
fn import(path: &Path, more: &[&str]) -> (Duration, u64, serde_json::Value) {
    let home: TempDir = tempfile::tempdir().unwrap();
    let out = home.path().join("answer.json");
    let begun = Instant::now();
    let asked = [&["costs", "import", path.to_str().unwrap(), "--output", "json"], more].concat();
    let mut command = program(home.path(), &asked);
    let mut child = command.stdout(fs::File::create(&out).unwrap()).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success());
    (begun.elapsed(), peak / 1024, serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap())
}

#[test]
#[ignore = "writes and reads two gigabytes; meant for a release build"]
fn a_bill_of_a_gigabyte_is_imported_in_bounded_memory() {
    // A debug build tries whether it works at all.
    let bytes = if cfg!(debug_assertions) { 40_000_000 } else { 1_000_000_000 };
    let folder = tempfile::tempdir().unwrap();
    let [csv, parquet, oracle] = ["cur.csv", "cur.snappy.parquet", "oracle.csv"].map(|name| folder.path().join(name));
    write_csv(&csv, bytes);
    write_parquet(&parquet, bytes);
    // A million lines.
    write_oracle(&oracle, bytes / 5);
    let mut peaks = Vec::new();
    // What adds to a bill is read twice, and no speed of it is asked for.
    let incremental: &[&str] = &["--incremental"];
    let cases = [
        ("CSV (aim 200)", &csv, [].as_slice()),
        ("Parquet (aim 80)", &parquet, &[]),
        ("CSV with --incremental", &csv, incremental),
        ("Parquet with --incremental", &parquet, incremental),
        ("lines of Oracle with --incremental", &oracle, incremental),
    ];
    for (name, path, more) in cases {
        let (took, mib, answer) = import(path, more);
        let (lines, bytes) = (answer["lines"].as_u64().unwrap(), fs::metadata(path).unwrap().len());
        println!(
            "import of {name}: {} MB and {lines} lines in {took:?}, {:.0} MB/s, peak {mib} MiB (limit {MOST_MIB})",
            bytes / 1_000_000,
            bytes as f64 / 1e6 / took.as_secs_f64()
        );
        assert_eq!(answer["runs"].as_array().unwrap().len(), 200);
        peaks.push(mib);
    }
    assert!(peaks.iter().all(|mib| *mib <= MOST_MIB), "{peaks:?} MiB");
}
