//! Where a program saves that was not told where: nobody kept its checkpoints until this looked for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::checkpoint::scan::{Place, scan, shallow, tracker};
use crate::rules::framework::{
    Completeness, DEEPSPEED_LATEST, Framework, MEGATRON_LATEST, is_temporary, is_weights, step_of,
};

/// Below the folder of the job: `outputs/2026-01-01/12-00-00/checkpoints/step-5` is the deepest that Hydra makes.
const DEEPEST: usize = 6;
/// Files and folders that one look goes through; a job with more in its folder has its data there.
const MOST: usize = 20_000;
/// Folders that hold the programs and notes of others.
const NOT_OURS: [&str; 7] = ["__pycache__", "node_modules", "site-packages", "venv", "env", "wandb", "mlruns"];
/// What one look has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where checkpoints appear, the newest.
    pub folder: Option<PathBuf>,
    /// The newest weights whose name has no step, and when they were written. They may have been fetched; what is written again is saved.
    pub nameless: Option<(PathBuf, SystemTime)>,
}

struct Search<'a> {
    watched: &'a Path,
    skipped: Option<&'a Path>,
    since: SystemTime,
    left: usize,
    /// By folder: when the newest was written, the steps seen, and whether a framework's marker stands in one.
    found: BTreeMap<PathBuf, (SystemTime, BTreeSet<u64>, bool)>,
    nameless: Option<(PathBuf, SystemTime)>,
}

/// Whether a folder has anything that may be a checkpoint.
pub fn is_used(folder: &Path) -> bool {
    scan(folder, Place::Told).is_ok_and(|listing| !listing.entries.is_empty() || !listing.unreadable.is_empty())
}

/// Looks through the folder of the job, but for what is `watched` and what is `skipped`, for what was written since then. One file alone
/// may be anything: a second step beside it makes it a checkpoint, or the end of the program does (`is_over`).
pub fn find(job: &Path, watched: &Path, skipped: Option<&Path>, since: SystemTime, is_over: bool) -> Elsewhere {
    let (found, nameless) = (BTreeMap::new(), None);
    let mut search = Search { watched, skipped, since, left: MOST, found, nameless };
    search.look(job, 0);
    let is_sure = |(_, steps, is_marked): &(SystemTime, BTreeSet<u64>, bool)| *is_marked || is_over || steps.len() > 1;
    let newest = search.found.into_iter().filter(|(_, seen)| is_sure(seen)).max_by_key(|(_, seen)| seen.0);
    Elsewhere { folder: newest.map(|(folder, _)| folder), nameless: search.nameless }
}

impl Search<'_> {
    fn look(&mut self, folder: &Path, depth: usize) {
        // What cannot be read is passed over: nothing depends on what is in it.
        let Ok(entries) = fs::read_dir(folder) else { return };
        let entries: Vec<(String, PathBuf)> = entries
            .flatten()
            .take(self.left)
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
            .collect();
        self.left -= entries.len();
        let trackers: BTreeMap<String, String> = [DEEPSPEED_LATEST, MEGATRON_LATEST]
            .into_iter()
            .filter(|name| entries.iter().any(|(found, _)| found == name))
            .filter_map(|name| Some((name.to_owned(), tracker(&folder.join(name)).ok()??)))
            .collect();
        for (name, path) in entries {
            let is_passed_over = is_temporary(&name) || NOT_OURS.contains(&name.as_str());
            if is_passed_over || path == self.watched || Some(path.as_path()) == self.skipped {
                continue;
            }
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            let Some(written) = about.modified().ok().filter(|written| *written >= self.since) else {
                // An old folder may have new folders below it.
                if about.is_dir() && depth < DEEPEST {
                    self.look(&path, depth + 1);
                }
                continue;
            };
            if about.is_dir() {
                if is_marked(&name, &path, &trackers) {
                    self.add(folder, written, step_of(&name), true);
                } else if depth < DEEPEST {
                    self.look(&path, depth + 1);
                }
            } else if about.is_file() && is_weights(&name) {
                match step_of(&name) {
                    Some(step) => self.add(folder, written, Some(step), false),
                    None if self.nameless.as_ref().is_none_or(|(_, newest)| *newest < written) => {
                        self.nameless = Some((path, written));
                    }
                    None => {}
                }
            }
        }
    }

    fn add(&mut self, folder: &Path, written: SystemTime, step: Option<u64>, is_marked: bool) {
        let seen = self.found.entry(folder.to_owned()).or_insert((SystemTime::UNIX_EPOCH, BTreeSet::new(), false));
        seen.0 = seen.0.max(written);
        seen.1.extend(step);
        seen.2 |= is_marked;
    }
}

fn is_marked(name: &str, path: &Path, trackers: &BTreeMap<String, String>) -> bool {
    step_of(name).is_some() && Framework::Auto.judge(&shallow(name, path), trackers) == Completeness::Marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str], is_over: bool) -> Elsewhere {
        let job = tempfile::tempdir().unwrap();
        for file in files {
            let path = job.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "5").unwrap();
        }
        let (watched, data) = (job.path().join("checkpoints"), job.path().join("data"));
        let found = find(job.path(), &watched, Some(&data), SystemTime::UNIX_EPOCH, is_over);
        let below = |path: PathBuf| path.strip_prefix(job.path()).unwrap().to_owned();
        Elsewhere { folder: found.folder.map(below), nameless: found.nameless.map(|(path, at)| (below(path), at)) }
    }

    #[test]
    fn folders_of_frameworks_are_known_by_their_markers() {
        for (files, folder) in [
            (&["results/checkpoint-500/trainer_state.json"][..], Some("results")),
            (&["results/checkpoint-500/model.safetensors"], None),
            (&["out/step-5/.metadata", "out/step-5/__0_0.distcp"], Some("out")),
            (&["runs/a/global_step5/x", "runs/a/latest"], Some("runs/a")),
            (&["ck/5/_CHECKPOINT_METADATA"], Some("ck")),
            (&["checkpoints/checkpoint-5/trainer_state.json", "data/checkpoint-5/trainer_state.json"], None),
            (&["wandb/checkpoint-5/trainer_state.json", ".git/checkpoint-5/trainer_state.json"], None),
        ] {
            assert_eq!(found(files, false).folder.as_deref(), folder.map(Path::new), "{files:?}");
        }
    }

    #[test]
    fn one_file_may_be_anything_and_two_steps_are_checkpoints() {
        let one = ["lightning_logs/version_0/checkpoints/epoch=0-step=100.ckpt"];
        assert_eq!(found(&one, false), Elsewhere::default());
        assert!(found(&one, true).folder.is_some());
        let two = ["logs/checkpoints/epoch=0-step=100.ckpt", "logs/checkpoints/epoch=1-step=200.ckpt"];
        assert_eq!(found(&two, false).folder.as_deref(), Some(Path::new("logs/checkpoints")));
        for none in [
            ["a/shard_1.pt", "a/shard_2.pt"],
            ["m/model-00001-of-00002.safetensors", "m/model-00002-of-00002.safetensors"],
        ] {
            assert_eq!(found(&none, true), Elsewhere::default(), "{none:?}");
        }
        assert_eq!(found(&["out/ckpt.pt"], false).nameless.map(|(path, _)| path), Some("out/ckpt.pt".into()));
    }
}
