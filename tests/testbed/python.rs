//! Python environments for tests, each installed once into the target folder.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of a virtual environment (`venv/` in it) with these packages, made by whoever comes first while the others wait. Where the
/// first list cannot be had, the second will do.
///
/// # Errors
/// Why there is none here.
pub fn environment(name: &str, wanted: &[&str], otherwise: &[&str]) -> Result<PathBuf, String> {
    let folder = target_folder()?.join("tmp").join(name);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (ready, packages) = (folder.join("ready"), wanted.join(" "));
    if fs::read_to_string(&ready).is_ok_and(|made| made == packages) {
        return Ok(folder);
    }
    say(&format!("installing {packages} into the target folder, once; this takes a minute"));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")))?;
    let install = |packages: &[&str]| {
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2"];
        run(Command::new(interpreter(&folder)).args(quiet).args(packages))
    };
    install(wanted).or_else(|why| if otherwise.is_empty() { Err(why) } else { install(otherwise) })?;
    fs::write(ready, packages).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Of an environment.
pub fn interpreter(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// Past the capture of the test runner, which looks at the macros only.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "\n{line}");
}

/// Test programs lie in `deps/` of the folder of their profile.
fn target_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    program
        .ancestors()
        .nth(3)
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} is in no target folder", program.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", last(&output.stderr))) }
}
