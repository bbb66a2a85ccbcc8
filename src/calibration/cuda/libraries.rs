//! Where the CUDA libraries lie: the active Python's packages first, then `CUDA_HOME`, then the system's folders.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libloading::Library;

/// Shared libraries by the stem of their file name.
pub const COMPILER: &str = "nvrtc";
pub const PRODUCTS: &str = "cublasLt";
pub const COLLECTIVES: &str = "nccl";

/// A library that was loaded by its absolute path, and stays: other code finds it by its short name from now on.
pub fn load(stem: &str, majors: &[u32]) -> Result<&'static Library, String> {
    load_from(&folders(), stem, majors)
}

/// From these folders first, then from where the system looks.
pub fn load_from(folders: &[PathBuf], stem: &str, majors: &[u32]) -> Result<&'static Library, String> {
    let names: Vec<String> = majors.iter().map(|major| format!("lib{stem}.so.{major}")).collect();
    let found = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let mut tried = Vec::new();
    for path in found.filter(|path| path.is_file()).chain(names.iter().map(PathBuf::from)) {
        // SAFETY: NVIDIA's libraries run nothing on loading but the set-up of their own state.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => tried.push(format!("{}: {error}", path.display())),
        }
    }
    Err(format!(
        "{} is not found in the active Python's packages, in CUDA_HOME or in the system ({})",
        names.join(" or "),
        tried.join("; ")
    ))
}

/// In the order of preference; not all of them exist.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = site_packages().iter().flat_map(|packages| wheels(packages)).collect();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(env::var_os(variable).map(|home| Path::new(&home).join("lib64")));
    }
    folders.extend(below(Path::new("/usr/local"), "cuda").into_iter().map(|toolkit| toolkit.join("lib64")));
    folders.extend(["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"].map(PathBuf::from));
    folders
}

/// `nvidia/<package>/lib` of every package of NVIDIA's; `cu13` holds all of CUDA 13.
pub fn wheels(packages: &Path) -> Vec<PathBuf> {
    below(&packages.join("nvidia"), "").into_iter().map(|package| package.join("lib")).collect()
}

/// Entries of a folder whose names begin so, newest version last in the alphabet first.
fn below(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.reverse();
    paths
}

/// Package folders of the active environment, else of the `python3` that the shell would start.
fn site_packages() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(env::var_os);
    if let Some(prefix) = active {
        let found: Vec<PathBuf> = below(&Path::new(&prefix).join("lib"), "python")
            .into_iter()
            .map(|python| python.join("site-packages"))
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    let asked = Command::new("python3")
        .args(["-c", "import sysconfig; p = sysconfig.get_paths(); print(p['purelib']); print(p['platlib'])"])
        .stdin(Stdio::null())
        .output();
    asked.map_or_else(
        |_| Vec::new(),
        |output| String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_an_environment_are_looked_through() {
        let folder = tempfile::tempdir().unwrap();
        for package in ["cublas", "cuda_nvrtc", "cu13"] {
            fs::create_dir_all(folder.path().join("nvidia").join(package).join("lib")).unwrap();
        }
        let found = wheels(folder.path());
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|path| path.is_dir()));
        assert!(wheels(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn a_library_that_is_nowhere_is_an_error_that_names_it() {
        let error = load("gpuplan-has-no-such-library", &[13, 12]).unwrap_err();
        assert!(error.starts_with("libgpuplan-has-no-such-library.so.13 or "), "{error}");
    }
}
