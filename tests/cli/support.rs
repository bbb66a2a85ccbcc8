//! Running the program with a fixed clock, width and environment.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Three days after the newest price of the snapshot.
pub const NOW: &str = "2026-11-10T12:00:00Z";

/// What a run left behind.
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap_or(-1) }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// Exit code and talk in one text, for snapshots of refusals.
    pub fn refusal(&self) -> String {
        assert_eq!(self.stdout, "", "a refusal prints no data");
        format!("exit {}\n{}", self.code, self.stderr)
    }
}

/// Runs the program in the root of the project at `NOW`, 100 columns wide.
pub fn gpuplan(arguments: &[&str]) -> Ran {
    gpuplan_at(NOW, "100", arguments)
}

pub fn gpuplan_at(now: &str, columns: &str, arguments: &[&str]) -> Ran {
    gpuplan_in(Path::new(env!("CARGO_MANIFEST_DIR")), now, columns, arguments)
}

/// With names of files as they are in that folder: how long its own name is changes no line.
pub fn gpuplan_in(folder: &Path, now: &str, columns: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).args(["--now", now]).current_dir(folder);
    // Nothing of the machine leaks in, and no network is ever tried.
    command.env_clear().env("COLUMNS", columns).env("GPUPLAN_OFFLINE", "1").stdin(Stdio::null());
    Ran::of(command.output().unwrap())
}

/// The plan document of an example, with more arguments.
pub fn plan(example: &str, more: &[&str]) -> Value {
    let path = format!("examples/{example}.toml");
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path).exists(), "{path} is missing");
    let ran = gpuplan(&[&["plan", &path, "--output", "json"], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

/// Every plan of a document: recommended, frontier, alternatives.
pub fn plans(document: &Value) -> Vec<&Value> {
    let lists = ["frontier", "alternatives"].into_iter().flat_map(|key| document[key].as_array().unwrap());
    std::iter::once(&document["recommendation"]).chain(lists).collect()
}

pub fn gpus(plan: &Value) -> u64 {
    plan["nodes"].as_u64().unwrap() * plan["gpus_per_node"].as_u64().unwrap()
}
