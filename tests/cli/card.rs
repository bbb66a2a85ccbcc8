//! `bench` on a GPU that computes nothing: driver and libraries of `tests/testbed/fake_cuda.c`, so that the path to a real card
//! runs on every machine with a C compiler.

use gpuplan_testbed::executable::executable;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::support::{NOW, Ran};

const WORKLOAD: &str = "examples/llama-3.1-8b-lora.toml";
/// Symbol of the source, file and whether it reads the driver's clock.
const LIBRARIES: [(&str, &str, bool); 4] = [
    ("DRIVER", "libcuda.so.1", false),
    ("COMPILER", "libnvrtc.so.12", false),
    ("PRODUCTS", "libcublasLt.so.12", true),
    ("COLLECTIVES", "libnccl.so.2", true),
];

/// A folder with the libraries, or why there is none.
fn libraries(folder: &Path, wanted: &[&str], defined: &[&str]) -> Result<(), String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testbed/fake_cuda.c");
    for (symbol, file, reads_clock) in LIBRARIES.iter().filter(|(symbol, ..)| wanted.contains(symbol)) {
        let mut cc = Command::new("cc");
        cc.current_dir(folder).args([
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            &format!("-D{symbol}"),
            &format!("-Wl,-soname,{file}"),
            "-o",
            file,
            source,
        ]);
        cc.args(defined);
        if *reads_clock {
            // Handles, memory and the clock are the driver's.
            cc.args(["-L.", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"]);
        }
        let output = cc.stdin(Stdio::null()).output().map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    Ok(())
}

/// What the tool of the driver says: one program of somebody else, and a card at its power limit.
const NVIDIA_SMI: &str = r#"#!/bin/sh
case "$*" in
*compute-apps*) echo 4711 ;;
*memory.used*) echo 300 ;;
*driver_version*) echo 550.54.15 ;;
*event_reasons.active*) echo 0x0000000000000004 ;;
*loop-ms*) while :; do echo "1755, 1980, 58, 698.90, 700.00, Active, Not Active, Not Active, Not Active"; sleep 0.2; done ;;
esac
"#;

/// Where an active Python environment in `folder` has NVIDIA's libraries.
fn packages(folder: &Path) -> PathBuf {
    folder.join("lib/python3/site-packages/nvidia/fake/lib")
}

struct Card {
    folder: tempfile::TempDir,
}

impl Card {
    /// `None` where no compiler is; a line on stderr says so whatever the test runner hides.
    fn new(wanted: &[&str]) -> Option<Self> {
        Self::with(wanted, &[])
    }

    fn with(wanted: &[&str], defined: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(packages(folder.path())).unwrap();
        let tool = folder.path().join("nvidia-smi");
        executable(&tool, NVIDIA_SMI);
        let made = libraries(&packages(folder.path()), wanted, defined);
        made.map_err(|why| writeln!(std::io::stderr(), "\nWAIVED the test of a fake card: {why}")).ok()?;
        Some(Self { folder })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn gpuplan(&self, arguments: &[&str]) -> Ran {
        let ran = self.gpuplan_with("", arguments);
        // What a real driver would punish: use after free, another context, a time between events that have not passed, a leak.
        assert!(!ran.stderr.contains("PROTOCOL"), "{}", ran.stderr);
        ran
    }

    /// With a failure of `fake_cuda.c`.
    fn gpuplan_with(&self, fault: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command
            .args(arguments)
            .args(["--now", NOW])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("FAKE_CUDA_FAULT", fault)
            .stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", packages(self.folder.path())).env("VIRTUAL_ENV", self.folder.path());
        command.env("GPUPLAN_HOME", self.home()).env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()));
        let output = command.env("COLUMNS", "160").env("GPUPLAN_OFFLINE", "1").output().unwrap();
        Ran {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

#[test]
fn a_card_is_measured_from_driver_to_plan_and_kept() {
    let Some(card) = Card::new(&["DRIVER", "COMPILER", "PRODUCTS", "COLLECTIVES"]) else { return };
    let before = card.gpuplan(&["plan", WORKLOAD, "--gpus", "H100", "--output", "json"]).json();
    let here = card.gpuplan(&["catalog", "gpus", "--here", "--output", "json"]);
    crate::schemas::assert_valid("catalog-gpus-here", "catalog gpus --here", &here.json());
    std::fs::create_dir(card.folder.path().join("data")).unwrap();
    std::fs::write(card.folder.path().join("data/shard"), vec![7; 20 << 20]).unwrap();
    let data = card.folder.path().join("data");
    let ran =
        card.gpuplan(&["bench", WORKLOAD, "--data", data.to_str().unwrap(), "--seconds", "300", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let calibration = ran.json();
    assert_eq!((&calibration["gpu"], &calibration["simulated"]), (&"h100-sxm5-80".into(), &false.into()));
    assert_eq!(calibration["waived"], Value::Array(Vec::new()), "nothing is missing here");
    let versions = &calibration["device"]["versions"];
    assert_eq!((&versions["CUDA driver"], &versions["driver"]), (&"12.4".into(), &"550.54.15".into()));
    let seconds = |name: &str| {
        let results = calibration["results"].as_array().unwrap();
        let one = results
            .iter()
            .find(|one| one["benchmark"]["name"] == name || one["benchmark"]["work"]["graph"] == (name == "graph"));
        one.unwrap()["statistics"]["median_seconds"].as_f64().unwrap()
    };
    // The clock of the libraries: 2.5 us a launch, 1.2 us a node of a graph.
    assert!((seconds("kernel launch") / 2.5e-6 - 1.0).abs() < 1e-3);
    assert!((seconds("graph") / 1.2e-6 - 1.0).abs() < 1e-3);
    assert!(calibration["host"]["read_bytes_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&calibration["readings"]["clock_mhz"], &calibration["readings"]["others"]),
        (&1755.0.into(), &1.into())
    );
    assert_eq!(calibration["readings"]["throttled"], serde_json::json!(["power cap"]));
    assert!(
        ran.stderr.contains("kept as ") && card.home().join("calibrations/h100-sxm5-80.json").is_file(),
        "{}",
        ran.stderr
    );

    let after = card.gpuplan(&["plan", WORKLOAD, "--gpus", "H100", "--output", "json"]).json();
    let step = |plan: &Value| plan["recommendation"]["step_seconds"]["expected"].as_f64().unwrap();
    assert!(step(&after) > 1.05 * step(&before), "the card reaches 650 TFLOP/s: {} {}", step(&before), step(&after));
    let notes = after["notes"].to_string();
    assert!(
        notes.contains("measured on H100 SXM5 80GB (2026-11-10, shapes of llama-3.1-8b): ")
            && notes.contains("matmuls reach 6")
            && notes.contains("the clock was held down by: power cap")
            && !notes.contains("SIMULATED"),
        "{notes}"
    );
}

#[test]
fn a_missing_library_waives_its_benchmarks_and_no_more() {
    let Some(card) = Card::new(&["DRIVER", "COMPILER"]) else { return };
    let ran = card.gpuplan(&["bench", "--seconds", "300", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let calibration = ran.json();
    let waived = calibration["waived"].as_array().unwrap();
    let is_waived = |name: &str| waived.iter().any(|one| one["benchmark"]["name"] == name);
    // A machine with the real libraries finds those, and they refuse a driver that computes nothing.
    assert!(is_waived("square product") && is_waived("all-reduce"), "{waived:?}");
    assert!(!is_waived("memory") && !is_waived("kernel launch") && !is_waived("peer copy"), "{waived:?}");
}

const ALL: [&str; 4] = ["DRIVER", "COMPILER", "PRODUCTS", "COLLECTIVES"];

#[test]
fn a_card_that_fails_is_answered_in_words_and_nothing_is_kept() {
    let Some(card) = Card::new(&ALL) else { return };
    for (fault, code, words) in [
        ("no-device", 2, "the driver sees no GPU"),
        ("stub", 2, "no NVIDIA driver on this machine"),
        ("mismatch", 2, "the parts of the driver have different versions"),
        ("exclusive", 2, "another program has the GPU for itself"),
        // Of a running card, from the 200th wait on.
        ("ecc", 1, "an error that cannot be corrected"),
        ("launch", 1, "a kernel failed, and the GPU runs nothing more"),
        ("lost", 1, "the driver has lost the GPU"),
    ] {
        let ran = card.gpuplan_with(fault, &["bench", "--seconds", "300"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{fault}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("hint: "), "{fault}: {}", ran.stderr);
        assert!(!ran.stderr.contains("PROTOCOL"), "{fault}: {}", ran.stderr);
    }
    assert!(!card.home().join("calibrations").exists(), "an empty calibration would take the place of a good one");
}

#[test]
fn what_does_not_fit_is_waived_and_what_was_prepared_still_runs() {
    let Some(card) = Card::new(&ALL) else { return };
    let ran = card.gpuplan_with("out-of-memory", &["bench", "--seconds", "300", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains("PROTOCOL"), "{}", ran.stderr);
    let calibration = ran.json();
    let waived = calibration["waived"].as_array().unwrap();
    assert!(!waived.is_empty() && !calibration["results"].as_array().unwrap().is_empty());
    for one in waived {
        let reason = one["reason"].as_str().unwrap();
        assert!(reason.starts_with("the GPU has too little free memory for it (cuMemAlloc"), "{one}");
    }
}

#[test]
fn an_old_driver_and_a_library_that_does_not_start_waive_what_needs_them() {
    let reasons = |card: &Card, fault: &str| -> Vec<(String, String)> {
        let ran = card.gpuplan_with(fault, &["bench", "--seconds", "300", "--output", "json"]);
        assert!(ran.code == 0 && !ran.stderr.contains("PROTOCOL"), "{}", ran.stderr);
        let calibration = ran.json();
        let waived = calibration["waived"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        waived.iter().map(|one| (text(&one["benchmark"]["name"]), text(&one["reason"]))).collect()
    };
    let Some(old) = Card::with(&ALL, &["-DOLD"]) else { return };
    let lacking = reasons(&old, "");
    assert_eq!(lacking.len(), 1, "{lacking:?}");
    assert!(lacking[0].1.contains("lacks a function that this build needs"), "{lacking:?}");
    let Some(card) = Card::new(&ALL) else { return };
    let products = reasons(&card, "cublas");
    assert!(products.len() > 5 && products.iter().all(|(_, why)| why.contains("NOT_INITIALIZED")), "{products:?}");
}

#[test]
fn a_rate_that_no_card_reaches_is_not_believed() {
    let Some(card) = Card::new(&ALL) else { return };
    let calibration = card.gpuplan_with("fast", &["bench", "--seconds", "300", "--output", "json"]).json();
    let waived = calibration["waived"].as_array().unwrap();
    assert!(!waived.is_empty());
    for one in waived {
        assert_eq!(one["benchmark"]["work"]["kind"], "matmul", "{one}");
        assert!(one["reason"].as_str().unwrap().contains("times as fast as the data sheet of H100"), "{one}");
    }
    // A product of a small size is no faster than its launch allows, and memory is as it was.
    let names: Vec<&Value> =
        calibration["results"].as_array().unwrap().iter().map(|one| &one["benchmark"]["name"]).collect();
    assert!(names.contains(&&Value::from("memory")), "{names:?}");
}

/// Every call that the stand-in knows, and it knows all that are made: one that it lacked would not be found.
fn calls() -> Vec<String> {
    let source = include_str!("../testbed/fake_cuda.c");
    let name = |line: &str| Some(line.strip_prefix("int ")?.split_once('(')?.0.to_owned());
    let is_call = |name: &String| ["cu", "nvrtc", "nccl"].iter().any(|library| name.starts_with(library));
    source.lines().filter_map(name).filter(is_call).collect()
}

/// Whichever call is refused: no crash, nothing left behind, nothing kept of nothing, and words that name the call.
fn refuse(card: &Card, call: &str) {
    let suite = ["bench", "--seconds", "300", "--output", "json"];
    // Of the products, attention alone has several side by side.
    let shapes = call.contains("LayoutSetAttribute").then_some(WORKLOAD);
    let arguments: Vec<&str> = suite.into_iter().chain(shapes).collect();
    let ran = card.gpuplan_with(&format!("call:{call}"), &arguments);
    let said = || format!("{call}: {} {} {}", ran.code, ran.stdout, ran.stderr);
    assert!([0, 1, 2].contains(&ran.code) && !ran.stderr.contains("panicked"), "{}", said());
    assert!(!ran.stderr.contains("PROTOCOL"), "{}", said());
    assert_eq!(ran.code == 0, card.home().join("calibrations").exists(), "{}", said());
    if ran.code != 0 {
        assert!(ran.stderr.contains(call.trim_end_matches("_v2")) && ran.stderr.contains("\"hint\""), "{}", said());
        return;
    }
    let calibration = ran.json();
    assert!(!calibration["results"].as_array().unwrap().is_empty(), "{}", said());
    // What gives something back is refused after the figures are known; the others are asked after another refusal alone, or not needed.
    let is_harmless =
        ["Destroy", "Free", "Release", "Unload", "Log", "Version", "PeerAccess"].iter().any(|part| call.contains(part));
    assert!(is_harmless || !calibration["waived"].as_array().unwrap().is_empty(), "{}", said());
    std::fs::remove_dir_all(card.home()).unwrap();
}

/// Some at a time, since each looks at the host for seconds.
fn refuse_all(calls: &[String]) {
    std::thread::scope(|scope| {
        for part in calls.chunks(calls.len().div_ceil(4)) {
            scope
                .spawn(move || Card::new(&ALL).iter().for_each(|card| part.iter().for_each(|call| refuse(card, call))));
        }
    });
}

/// Those after which something was left behind once, or the program crashed.
#[test]
fn what_a_refused_call_had_made_goes_with_it() {
    let calls = ["cuCtxSetCurrent", "cuEventCreate", "cuMemAlloc_v2", "cuLaunchKernel", "nvrtcGetCUBINSize"];
    let products = ["cublasLtMatrixLayoutCreate", "cublasLtMatmulAlgoGetHeuristic", "ncclCommInitAll"];
    refuse_all(&[&calls[..], &products].concat().into_iter().map(str::to_owned).collect::<Vec<_>>());
}

#[test]
#[ignore = "a minute and more"]
fn any_call_may_be_refused() {
    let calls = calls();
    assert!(calls.len() >= 62, "{calls:?}");
    refuse_all(&calls);
}
