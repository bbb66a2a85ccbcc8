//! Files that people name: read whole, within a limit, and refused with what to do about it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::OnceLock;

use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_units::names::similarity;

/// What people write by hand is thousands of times smaller; reading more would only take time.
const LARGEST_BY_HAND: u64 = 1 << 20;

/// A document that this program wrote: plans of every candidate of a large market are some megabytes.
const LARGEST_DOCUMENT: u64 = 64 << 20;

/// Names this much alike are one name, misspelt.
const SAME_NAME: f64 = 0.9;

/// Standard input is there once; a command may ask for its file more than once.
static STDIN: OnceLock<String> = OnceLock::new();

/// The text of a file, or of standard input for `-`. JSON may be a long document; anything else is written by hand.
pub fn read_text(path: &Path) -> Result<String, Diagnostic> {
    let text = if path == Path::new("-") { read_stdin()? } else { read_file(path)? };
    let most = if text.trim_start().starts_with('{') { LARGEST_DOCUMENT } else { LARGEST_BY_HAND };
    if text.len() as u64 > most { Err(too_large(path, most)) } else { Ok(text) }
}

fn read_file(path: &Path) -> Result<String, Diagnostic> {
    let refused = |error: io::Error| Diagnostic::file(path, &error);
    let file = File::open(path).map_err(refused)?;
    // A device or a pipe has no length, and its end may never come.
    if file.metadata().map_err(refused)?.len() > LARGEST_DOCUMENT {
        return Err(too_large(path, LARGEST_DOCUMENT));
    }
    let mut text = String::new();
    file.take(LARGEST_DOCUMENT + 1).read_to_string(&mut text).map_err(refused)?;
    Ok(text)
}

fn read_stdin() -> Result<String, Diagnostic> {
    if let Some(text) = STDIN.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    let read = io::stdin().take(LARGEST_DOCUMENT + 1).read_to_string(&mut text);
    read.map_err(|error| Diagnostic::file(Path::new("-"), &error))?;
    if text.trim().is_empty() {
        return Err(Diagnostic::usage("standard input is empty").hint("gpuplan plan - <workload.toml"));
    }
    Ok(STDIN.get_or_init(|| text).clone())
}

fn too_large(path: &Path, most: u64) -> Diagnostic {
    let most = most >> 20;
    Diagnostic::usage(format!("{} is larger than {most} MiB, which no workload or plan is", path.display()))
        .hint("check that it is the right file; `gpuplan init` writes a workload to start from")
}

impl Diagnostic {
    /// A file that cannot be read, and what helps.
    pub fn file(path: &Path, error: &io::Error) -> Self {
        let shown = path.display();
        match error.kind() {
            ErrorKind::InvalidData => Self::usage(format!("{shown} is not text in UTF-8")).hint(encoding(path)),
            ErrorKind::NotFound if path == Path::new("help") => {
                Self::usage("there is no file help").hint("--help, after the name of a command")
            }
            ErrorKind::NotFound if shown.to_string().contains("://") => {
                Self::usage(format!("there is no file {shown}, and nothing is downloaded"))
                    .hint("fetch it first, and name the copy")
            }
            ErrorKind::NotFound => Self::usage(format!("there is no file {shown}")).hint(nearest_file(path)),
            ErrorKind::IsADirectory => {
                Self::usage(format!("{shown} is a folder, and a file is needed")).hint(file_in(path))
            }
            ErrorKind::PermissionDenied => {
                Self::usage(format!("cannot read {shown}: permission denied")).hint(format!("ls -l {shown}"))
            }
            _ => Self::usage(format!("cannot read {shown}: {error}"))
                .hint("check that it is a text file that can be read"),
        }
    }

    /// A file that cannot be written: nothing is wrong with the question.
    pub fn unwritten(path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            ErrorKind::StorageFull => "free some space, or write to another disk",
            ErrorKind::NotFound => "make its folder first",
            _ => "write to another place",
        };
        Self::new(Exit::Unexpected, format!("cannot write {}: {error}", path.display())).hint(hint)
    }
}

/// What the first bytes of a file that is no UTF-8 say.
fn encoding(path: &Path) -> String {
    let mut start = [0_u8; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
    let shown = path.display();
    match start.get(..read).unwrap_or_default() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => format!("it is UTF-16; iconv -f UTF-16 -t UTF-8 {shown} >new.toml"),
        [0x1f, 0x8b, ..] => format!("it is compressed; gunzip -c {shown} >new.toml"),
        [b'P', b'K', ..] => format!("it is a zip archive; unzip {shown}"),
        _ => format!("give a text file, or convert it: iconv -f LATIN1 -t UTF-8 {shown} >new.toml"),
    }
}

/// The name in the same folder that was probably meant.
fn nearest_file(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = names_in(folder);
    let wanted = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let scored = names.iter().filter(|name| !name.starts_with('.')).map(|name| (similarity(&wanted, name), name));
    let near = scored.filter(|(alike, _)| *alike >= SAME_NAME).max_by(|one, other| one.0.total_cmp(&other.0));
    match near.map(|(_, name)| name) {
        Some(near) => format!("did you mean `{}`?", path.with_file_name(near).display()),
        None if folder.is_dir() => format!("ls {}", folder.display()),
        None => format!("there is no folder {} either; check the path", folder.display()),
    }
}

fn file_in(folder: &Path) -> String {
    let names = names_in(folder);
    let with = |end: &str| names.iter().find(|name| Path::new(name).extension().is_some_and(|found| found == end));
    let workload = with("toml").or_else(|| with("json"));
    workload.map_or_else(
        || format!("ls {}", folder.display()),
        |name| format!("name a file in it, such as {}", folder.join(name).display()),
    )
}

/// In order, so that the same folder gives the same answer. A folder that cannot be read has none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
