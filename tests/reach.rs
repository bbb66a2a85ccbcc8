//! Where people meet gpuplan besides the command line: agents, Python, CI, the book.

mod action;
mod book;
mod keys;
mod packaging;
mod python;
mod recording;
mod watching;

use std::path::{Path, PathBuf};
use std::process::Command;

use gpuplan_testbed::python::{environment, interpreter, say};

/// What the tests in tests/python use: the official client of the Model Context Protocol, tables and charts, a type checker, a reader of YAML.
const PACKAGES: [&str; 6] =
    ["mcp==2.3.0", "pandas==3.1.1", "matplotlib==3.11.2", "pandas-stubs", "mypy==2.4.1", "PyYAML==6.0.3"];
const ANY: [&str; 6] = ["mcp", "pandas", "matplotlib", "pandas-stubs", "mypy", "PyYAML"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The interpreter with these packages. `None` where they cannot be had: the test is waived, and says so.
fn python_with_packages(test: &str) -> Option<PathBuf> {
    let made = environment("reach", &PACKAGES, &ANY);
    made.map_err(|why| say(&format!("WAIVED {test}: its Python packages cannot be installed here: {why}")))
        .map(|folder| interpreter(&folder))
        .ok()
}

/// A Python that is simply there, for what needs the standard library alone.
fn plain_python(test: &str) -> Option<PathBuf> {
    let found = Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 10)"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(PathBuf::from("python3"));
    }
    say(&format!("WAIVED {test}: there is no Python of 3.10 or later"));
    None
}

/// Runs a Python script in the root of the project, with the package and the program of this build, no network and a home of its own.
fn passes(python: &Path, arguments: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.args(arguments).current_dir(root()).env("GPUPLAN_PROGRAM", env!("CARGO_BIN_EXE_gpuplan"));
    command.env("GPUPLAN_OFFLINE", "1").env("GPUPLAN_HOME", home.path()).env("PYTHONPATH", root().join("src/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("GPUPLAN_CKPT_DIR").env_remove("GPUPLAN_RESUME_FROM");
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {}\n{out}\n{err}", output.status);
}
