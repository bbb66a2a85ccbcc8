//! Files that a job names: scripts and configurations in its folder, or in the one that it would be submitted from; never outside of them.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A configuration is small; a data set is none.
const LARGEST_BYTES: u64 = 1 << 20;

/// The text of a file that a job names. Names with `..` are not followed. A job that names `/configs/8B.yaml` means the folder as it
/// is mounted, so the end of an absolute path, of two names at least, is looked for.
pub fn read(job: &Path, name: &str) -> Option<String> {
    // A job of `configs/` names its files from the folder above, where people stand when they submit it.
    let folders = [job.parent().unwrap_or(Path::new("")), Path::new("")];
    let mut parts: Vec<&str> = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => return None,
            _ => {}
        }
    }
    let last = if name.starts_with('/') { parts.len().saturating_sub(1) } else { 1 };
    (0..last).find_map(|from| {
        let name: PathBuf = parts.get(from..)?.iter().collect();
        folders.iter().find_map(|folder| text(&folder.join(&name)))
    })
}

fn text(path: &Path) -> Option<String> {
    let about = fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > LARGEST_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}
