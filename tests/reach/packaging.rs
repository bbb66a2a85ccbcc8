//! What a release hands out besides the wheel: the Homebrew formula, and the names that everything agrees on.

use std::fs;
use std::process::{Command, Output};

use gpuplan_testbed::python::say;

use super::root;

/// Checksums as `sha256sum` writes them.
const INTEL: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const ARM: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

fn formula(sums: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SHA256SUMS");
    fs::write(&path, sums).unwrap();
    Command::new(root().join(".ci/formula")).arg("v1.2.3").arg(&path).output().unwrap()
}

#[test]
fn the_formula_has_the_checksums_of_the_release() {
    let sums = format!(
        "{ARM}  gpuplan-v1.2.3-aarch64-unknown-linux-gnu.tar.gz\n{INTEL} *gpuplan-v1.2.3-x86_64-unknown-linux-gnu.tar.gz\n{ARM}  gpuplan-agent-v1.2.3-x86_64-unknown-linux-gnu\n"
    );
    let output = formula(&sums);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let url = "https://github.com/gpuplan/gpuplan/releases/download/v1.2.3/gpuplan-v1.2.3";
    for (kind, sum) in [("aarch64", ARM), ("x86_64", INTEL)] {
        let said = format!("url \"{url}-{kind}-unknown-linux-gnu.tar.gz\"\n    sha256 \"{sum}\"\n");
        assert!(text.contains(&said), "{said}{text}");
    }
    assert!(text.contains("  version \"1.2.3\"\n"), "{text}");
    is_ruby(&text);
}

/// By its own parser, where there is one.
fn is_ruby(text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gpuplan.rb");
    fs::write(&path, text).unwrap();
    match Command::new("ruby").arg("-c").arg(&path).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => say("WAIVED the syntax of the formula: there is no ruby"),
    }
}

#[test]
fn a_release_without_a_checksum_has_no_formula() {
    for sums in [
        "",
        &format!("{INTEL}  gpuplan-v1.2.3-x86_64-unknown-linux-gnu.tar.gz\n"),
        &format!("{INTEL}  gpuplan-v1.2.4-aarch64-unknown-linux-gnu.tar.gz\n"),
    ] {
        let output = formula(sums);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{sums}");
        assert!(said.contains("has no checksum of gpuplan-v1.2.3-aarch64-unknown-linux-gnu.tar.gz"), "{said}");
    }
}

/// `cargo binstall` and the formula take archives, and the container a wheel, by the names that the workflow gives them.
#[test]
fn archives_have_one_name() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let workflow = read(".github/workflows/release.yml");
    assert!(workflow.contains("name=gpuplan-$GITHUB_REF_NAME-$TARGET\n"));
    assert!(workflow.contains("--compatibility musllinux_1_2") && workflow.contains("out/gpuplan-*-musllinux_1_2_"));
    assert!(read(".ci/Containerfile").contains("FROM gcr.io/distroless/static"));
    assert!(read("Cargo.toml").contains("gpuplan-v{ version }-{ target }.tar.gz"));
    for script in [".ci/formula", ".ci/wheel", ".ci/agent"] {
        assert!(workflow.contains(script) && root().join(script).exists(), "{script}");
    }
}
