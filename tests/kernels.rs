//! Every CUDA kernel compiled for every architecture, without a GPU: NVRTC 12.9 knows 6.0 to 7.2, 13.x knows 7.5 and later.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpuplan::calibration::cuda::compiler::{Compiler, SOURCES};
use gpuplan::calibration::cuda::libraries::{COMPILER, load_from, wheels};
use gpuplan::hardware::Hardware;

/// Architectures of `catalogs/gpus.toml` and their neighbours, by the newest compiler that still knows them.
const OLD: [(u32, u32); 5] = [(6, 0), (6, 1), (7, 0), (7, 2), (7, 5)];
const NEW: [(u32, u32); 8] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)];

#[test]
fn every_kernel_compiles_for_pascal_and_volta_with_nvrtc_12() {
    compile_all("nvidia-cuda-nvrtc-cu12==12.9.*", 12, &OLD);
}

#[test]
fn every_kernel_compiles_for_turing_and_later_with_nvrtc_13() {
    compile_all("nvidia-cuda-nvrtc>=13,<14", 13, &NEW);
}

#[test]
fn every_gpu_of_the_catalog_has_its_architecture_in_the_lists() {
    for gpu in Hardware::embedded().unwrap().gpus().iter().filter(|gpu| gpu.vendor == "nvidia") {
        let (major, minor) = gpu.compute_capability.split_once('.').unwrap();
        let capability = (major.parse().unwrap(), minor.parse().unwrap());
        assert!(OLD.contains(&capability) || NEW.contains(&capability), "{}: {capability:?}", gpu.id);
    }
}

fn compile_all(package: &str, major: u32, architectures: &[(u32, u32)]) {
    let packages = match installed(package) {
        Ok(packages) => packages,
        Err(why) => {
            // Past the capture of the test runner, which looks at the macros only.
            let _ = writeln!(
                std::io::stderr(),
                "\nWAIVED kernels for NVRTC {major}: {package} cannot be installed here: {why}"
            );
            return;
        }
    };
    // Found where the active Python would have it.
    let library = load_from(&wheels(&packages), COMPILER, &[major]).unwrap();
    let compiler = Compiler::new(library).unwrap();
    assert_eq!(compiler.version().map(|(first, _)| first), Some(major as i32));
    for (name, source) in SOURCES {
        for architecture in architectures {
            let code = compiler
                .compile(source, *architecture)
                .unwrap_or_else(|why| panic!("{name} for {architecture:?}: {why}"));
            assert!(code.starts_with(b"\x7fELF"), "{name} for {architecture:?}");
        }
    }
    let refused = compiler.compile("__global__ void broken( {", architectures[0]).unwrap_err();
    assert!(refused.contains("error"), "{refused}");
}

/// The package in the target folder, put there by whoever comes first while the others wait.
fn installed(package: &str) -> Result<PathBuf, String> {
    let name: String = package.chars().filter(char::is_ascii_alphanumeric).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&folder).map_err(failed)?;
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let ready = folder.join("ready");
    if !ready.exists() {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--retries",
            "2",
            "--no-deps",
            "--upgrade",
            "--target",
        ]);
        let output = pip.arg(folder.join("packages")).arg(package).stdin(Stdio::null()).output().map_err(failed)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned());
        }
        fs::write(ready, "").map_err(failed)?;
    }
    Ok(folder.join("packages"))
}
