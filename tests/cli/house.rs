//! What the house says: rules in `policy.toml`, what is owned in `capacity.toml`, other tools' catalogs, the file for an account.

use std::fs;
use std::process::{Command, Stdio};

use crate::cli::support::{NOW, Ran, gpuplan};

const LORA: &str = "examples/llama-3.1-8b-lora.toml";

/// As `gpuplan`, with settings in this folder.
fn at_home(home: &tempfile::TempDir, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command
        .args(arguments)
        .args(["--now", NOW])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .stdin(Stdio::null());
    let output =
        command.env("COLUMNS", "100").env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home.path()).output().unwrap();
    Ran {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

#[test]
fn a_broken_rule_is_named_with_its_line_and_alone_in_the_way_is_exit_4() {
    let home = tempfile::tempdir().unwrap();
    let policy = home.path().join("policy.toml");
    fs::write(&policy, "clouds = [\"aws\", \"gcp\"]\ngpus = [\"H100\"]\n").unwrap();
    let ran = at_home(&home, &["plan", LORA, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let plan = ran.json();
    assert!(plan["recommendation"]["gpu"].as_str().unwrap().starts_with("h100"), "{}", plan["recommendation"]["gpu"]);
    let broken = |line: &serde_json::Value| {
        line["reason"] == "policy" && line["detail"].as_str().unwrap().starts_with("policy.toml line 2: ")
    };
    assert!(plan["rejected"].as_array().unwrap().iter().any(broken));
    fs::write(&policy, "clouds = [\"aws\"]\n\nmax_p90_usd = 1\n").unwrap();
    let ran = at_home(&home, &["plan", LORA]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("only policy.toml is in the way") && ran.stderr.contains("policy.toml line 3: "),
        "{}",
        ran.stderr
    );
    fs::write(&policy, "clouds = [\"nowhere\"]\n").unwrap();
    let ran = at_home(&home, &["plan", LORA]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("policy.toml line 1: clouds: no cloud is called `nowhere`"), "{}", ran.stderr);
}

#[test]
fn what_is_owned_is_used_first_as_far_as_it_goes() {
    let home = tempfile::tempdir().unwrap();
    let text = "[[committed]]\nname = \"a year of H100\"\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nregion = \"us-east-1\"\nnodes = 2\n\
        usd_per_hour = \"31.46\"\nuntil = 2027-06-01\n";
    fs::write(home.path().join("capacity.toml"), text).unwrap();
    let plan = at_home(&home, &["plan", "examples/llama-3.1-8b-finetune.toml", "--output", "json"]).json();
    let best = &plan["recommendation"];
    assert_eq!((best["purchase"].as_str(), best["price"]["origin"].as_str()), (Some("reserved"), Some("user")));
    assert!(best["nodes"].as_u64().unwrap() <= 2);
    let amount = |value: &serde_json::Value| value.as_str().unwrap().parse::<f64>().unwrap();
    assert!(amount(&best["cost_usd"]["expected"]) < 1.0 && amount(&best["full_cost_usd"]) > 10.0, "{best:#}");
    fs::write(home.path().join("capacity.toml"), text.replace("2027-06-01", "2026-11-10")).unwrap();
    let plan = at_home(&home, &["plan", "examples/llama-3.1-8b-finetune.toml", "--output", "json"]).json();
    assert_ne!(plan["recommendation"]["purchase"], "reserved", "it has ended");
}

#[test]
fn another_tool_s_catalog_becomes_offers_of_its_day() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("vms.csv");
    let row = "p5.48xlarge,192,2048,H100,8,\"{'Gpus': []}\",us-east-1,use1-az4,55.04,17.5\n";
    fs::write(
        &file,
        format!("InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice\n{row}"),
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let ran = at_home(&home, &["catalog", "import", path, "--cloud", "aws", "--as-of", "2026-11-09"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran =
        at_home(&home, &["prices", "H100:8", "--cloud", "aws", "--region", "use1-az4", "--spot", "--output", "json"]);
    let prices = ran.json();
    let imported = prices["offers"].as_array().unwrap().iter().find(|row| row["origin"] == "user").unwrap();
    assert_eq!(
        (imported["rate_usd_per_hour"].as_str(), imported["observed_at"].as_str()),
        (Some("17.50"), Some("2026-11-09T00:00:00Z"))
    );
    assert_eq!(imported["source"], "import:vms.csv");
    let ran = at_home(&home, &["catalog", "import", path, "--cloud", "aws", "--as-of", "soon"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn what_an_account_needs_is_printed_and_nothing_is_asked() {
    for (cloud, part) in [("aws", "aws_iam_instance_profile"), ("gcp", "google_service_account")] {
        let ran = gpuplan(&["setup", cloud, "--print"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains(part) && ran.stdout.contains("gpuplan"));
    }
    for arguments in [["setup", "aws"].as_slice(), &["doctor"], &["refresh"], &["plan", LORA, "--live"]] {
        let ran = gpuplan(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.stderr.contains("--offline"), "{}", ran.stderr);
    }
}
