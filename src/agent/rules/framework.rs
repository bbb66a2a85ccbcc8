//! Which entries of the checkpoint folder are checkpoints, of which step, and whether one is complete. Pure: a listing goes in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How a training framework writes a checkpoint and marks it complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framework {
    /// By the marker that is found; an entry without any counts as `Files`.
    #[default]
    Auto,
    /// Any file or folder with a step in its name: complete when nothing changes any more.
    Files,
    /// transformers.Trainer: `checkpoint-N/trainer_state.json` is written last, `checkpoint-is-incomplete.txt` says no.
    HuggingFace,
    /// Lightning: one `.ckpt` file a checkpoint.
    Lightning,
    /// torch.distributed.checkpoint: `.metadata` is renamed into place after all shards.
    Dcp,
    /// DeepSpeed: `latest` beside the folders names the newest complete one.
    DeepSpeed,
    /// Megatron: `latest_checkpointed_iteration.txt` beside the folders has the newest complete step.
    Megatron,
    /// Orbax: a folder is renamed to its step when it is complete.
    Orbax,
}

/// Names for the command line.
pub const FRAMEWORKS: [(&str, Framework); 8] = [
    ("auto", Framework::Auto),
    ("files", Framework::Files),
    ("hf", Framework::HuggingFace),
    ("lightning", Framework::Lightning),
    ("dcp", Framework::Dcp),
    ("deepspeed", Framework::DeepSpeed),
    ("megatron", Framework::Megatron),
    ("orbax", Framework::Orbax),
];

/// Text beside the checkpoint folders that names the newest complete one.
pub const DEEPSPEED_LATEST: &str = "latest";
pub const MEGATRON_LATEST: &str = "latest_checkpointed_iteration.txt";

/// Files that plain trainers write last.
const DONE: [&str; 4] = [".complete", "COMPLETE", "_SUCCESS", "commit_success.txt"];
const HF_LAST: &str = "trainer_state.json";
const HF_INCOMPLETE: &str = "checkpoint-is-incomplete.txt";
const HF_PARTS: [&str; 7] = [
    "model.safetensors",
    "pytorch_model",
    "adapter_model",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state",
    "training_args.bin",
];
const DCP_LAST: &str = ".metadata";
const DCP_PART: &str = ".distcp";
const ORBAX_MARK: &str = "_CHECKPOINT_METADATA";

/// Endings of files that frameworks write weights and states to.
const WEIGHTS: [&str; 7] = ["pt", "pth", "ckpt", "safetensors", "h5", "keras", "msgpack"];
/// Words in the name of such a file that is a checkpoint, and not data in tensors.
const WORDS: [&str; 13] = [
    "best",
    "checkpoint",
    "ckpt",
    "epoch",
    "final",
    "iter",
    "last",
    "latest",
    "model",
    "save",
    "state",
    "step",
    "weights",
];

/// Stands for all files of a folder that are weights, have no step in their names and are written over and over, such as `last.pt` and
/// `best.pt`: together they are a checkpoint. No entry has this name, since it has no step.
pub const ROLLING: &str = "rolling";

impl FromStr for Framework {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = FRAMEWORKS.iter().find(|(name, _)| *name == text);
        found.map(|(_, framework)| *framework).ok_or_else(|| {
            let names: Vec<&str> = FRAMEWORKS.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is not a valid framework; try one of {}", names.join(", "))
        })
    }
}

/// A file or folder in the checkpoint folder, with what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub is_folder: bool,
    /// Paths below the checkpoint folder, the entry's name first, sorted.
    pub files: Vec<Seen>,
}

/// A file as it stands on the disk. Two that are the same have not been written to in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub path: String,
    pub size: u64,
    pub modified_nanos: i128,
    pub inode: u64,
}

impl Entry {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    fn has(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.files.iter().any(|file| wanted(file.path.rsplit('/').next().unwrap_or_default()))
    }
}

/// What a listing says about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Its marker is there.
    Marked,
    /// It has no marker; whether it is complete shows only in that nothing changes any more.
    Unmarked,
    Incomplete,
}

/// The step in a name: its last number, as in `checkpoint-500`, `epoch=1-step=200.ckpt`, `iter_0000100` or `ep1-ba200`.
pub fn step_of(name: &str) -> Option<u64> {
    let stem = name.split('.').next().unwrap_or_default();
    if let Some((_, after)) = stem.split_once("step=") {
        return after.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok();
    }
    let end = stem.rfind(|character: char| character.is_ascii_digit())? + 1;
    let start = stem[..end].trim_end_matches(|character: char| character.is_ascii_digit()).len();
    // What follows the number has to belong to it: `step-5` and `5_final` are steps, `mp4` inside `run4b-config` is not.
    let follows = stem[end..].chars().next();
    if follows.is_some_and(char::is_alphanumeric) { None } else { stem[start..end].parse().ok() }
}

/// Names that programs give to what is not finished, and hidden ones.
pub fn is_temporary(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ends = [".tmp", ".temp", ".dirty", ".part", ".partial", ".incomplete", ".writing", "~"];
    name.starts_with(['.', '#'])
        || name.starts_with("tmp")
        || name.contains("checkpoint-tmp")
        || ends.iter().any(|end| name.ends_with(end))
}

/// Where a file of an entry lies.
pub fn place_of(folder: &Path, path: &str) -> PathBuf {
    let rolling = path.strip_prefix(ROLLING).and_then(|rest| rest.strip_prefix('/'));
    folder.join(rolling.unwrap_or(path))
}

/// A part of several (`model-00001-of-00003`) is no checkpoint by itself.
pub fn is_weights(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".tar").unwrap_or(&name);
    let ends = name.rsplit_once('.').is_some_and(|(_, end)| WEIGHTS.contains(&end));
    ends && !name.contains("-of-") && WORDS.iter().any(|word| name.contains(word))
}

impl Framework {
    pub fn name(self) -> &'static str {
        FRAMEWORKS.iter().find(|(_, framework)| *framework == self).map_or("auto", |(name, _)| *name)
    }

    /// Judges an entry by its files and by the texts beside it (`trackers`, by file name).
    pub fn judge(self, entry: &Entry, trackers: &BTreeMap<String, String>) -> Completeness {
        if entry.name == ROLLING {
            let is_for_us = matches!(self, Self::Auto | Self::Files) && !entry.files.is_empty();
            return if is_for_us { Completeness::Unmarked } else { Completeness::Incomplete };
        }
        let marked = |is: bool| if is { Completeness::Marked } else { Completeness::Incomplete };
        if entry.files.is_empty() || is_temporary(&entry.name) || step_of(&entry.name).is_none() {
            return Completeness::Incomplete;
        }
        match self {
            Self::Files if entry.has(is_done) => Completeness::Marked,
            Self::Files => Completeness::Unmarked,
            Self::HuggingFace => marked(entry.has(|file| file == HF_LAST) && !entry.has(|file| file == HF_INCOMPLETE)),
            Self::Lightning if Path::new(&entry.name).extension().is_some_and(|end| end == "ckpt") => {
                Completeness::Unmarked
            }
            Self::Lightning => Completeness::Incomplete,
            Self::Dcp => marked(entry.has(|file| file == DCP_LAST)),
            Self::DeepSpeed => marked(reaches(trackers.get(DEEPSPEED_LATEST), &entry.name)),
            Self::Megatron => marked(reaches(trackers.get(MEGATRON_LATEST), &entry.name)),
            Self::Orbax => marked(entry.has(|file| file == ORBAX_MARK)),
            Self::Auto => Self::found_in(entry).judge(entry, trackers),
        }
    }

    /// Whose checkpoint an entry looks like, finished or not.
    pub fn found_in(entry: &Entry) -> Self {
        let is_hf =
            |file: &str| [HF_LAST, HF_INCOMPLETE].contains(&file) || HF_PARTS.iter().any(|part| file.starts_with(part));
        if entry.has(|file| file == ORBAX_MARK) {
            Self::Orbax
        } else if entry.is_folder && entry.name.starts_with("global_step") {
            Self::DeepSpeed
        } else if entry.is_folder && entry.name.starts_with("iter_") {
            Self::Megatron
        } else if entry.has(|file| file == DCP_LAST || file.ends_with(DCP_PART)) && !entry.has(is_hf) {
            Self::Dcp
        } else if entry.name.starts_with("checkpoint-") && entry.has(is_hf) {
            Self::HuggingFace
        } else {
            Self::Files
        }
    }

    /// The text beside the folders that this framework reads on start, for a restored entry.
    pub fn tracker(self, entry: &str) -> Option<(&'static str, String)> {
        match self {
            Self::DeepSpeed => Some((DEEPSPEED_LATEST, entry.to_owned())),
            Self::Megatron => Some((MEGATRON_LATEST, step_of(entry)?.to_string())),
            _ => None,
        }
    }

    /// What can be promised when a notice comes, and the setting of the framework that changes it. Said at start.
    pub fn promise(self) -> &'static str {
        match self {
            Self::Auto | Self::Files => {
                "on a notice the program gets SIGTERM; what it saves before it ends is kept, else the last complete checkpoint"
            }
            Self::HuggingFace => {
                "Trainer saves on SIGTERM only with `enable_jit_checkpoint=True`, and ends with exit code 0 although work is left; \
                 else up to one `save_steps` is lost"
            }
            Self::Lightning => {
                "Lightning saves on SIGTERM only with `ModelCheckpoint(save_on_exception=True)`, and ends with exit code 0 although \
                 work is left; else the last periodic checkpoint is the newest"
            }
            Self::Dcp => {
                "torchrun kills its workers 30 s after SIGTERM unless TORCH_ELASTIC_SHUTDOWN_TIMEOUT, which is set here, is known to it"
            }
            Self::DeepSpeed => "DeepSpeed saves nothing on SIGTERM by itself: up to one save interval is lost",
            Self::Megatron => "Megatron saves on SIGTERM only with `--exit-signal-handler`",
            Self::Orbax => {
                "Orbax saves on a notice only where the program asks `reached_preemption`; else the last checkpoint is the newest"
            }
        }
    }
}

fn is_done(file: &str) -> bool {
    DONE.contains(&file)
}

/// A tracker that names this entry's step or a later one.
fn reaches(tracker: Option<&String>, entry: &str) -> bool {
    let named = tracker.and_then(|text| step_of(text.trim()));
    named.zip(step_of(entry)).is_some_and(|(named, step)| named >= step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, files: &[&str]) -> Entry {
        let seen = |file: &&str| Seen { path: format!("{name}/{file}"), size: 1, modified_nanos: 0, inode: 0 };
        Entry { name: name.to_owned(), is_folder: true, files: files.iter().map(seen).collect() }
    }

    fn judge(framework: Framework, name: &str, files: &[&str]) -> Completeness {
        framework.judge(&entry(name, files), &BTreeMap::new())
    }

    #[test]
    fn steps_are_read_from_the_names_that_frameworks_give() {
        for (name, step) in [
            ("checkpoint-500", 500),
            ("step-000060", 60),
            ("epoch=1-step=200.ckpt", 200),
            ("step=200-epoch=1.ckpt", 200),
            ("iter_0000100", 100),
            ("global_step20", 20),
            ("ep1-ba200", 200),
            ("hpc_ckpt_7.ckpt", 7),
            ("42", 42),
            ("step_5_final", 5),
        ] {
            assert_eq!(step_of(name), Some(step), "{name}");
        }
        for name in ["last.ckpt", "best", "", "run4b", "99999999999999999999999"] {
            assert_eq!(step_of(name), None, "{name}");
        }
    }

    #[test]
    fn unfinished_names_are_no_checkpoints() {
        for name in
            [".tmp-5", "tmp-step-5", "step-5.tmp", "5.orbax-checkpoint-tmp-1", "step-5.part", ".restore-5", "tmp_step5"]
        {
            assert!(is_temporary(name), "{name}");
            assert_eq!(judge(Framework::Auto, name, &["w"]), Completeness::Incomplete);
        }
        assert!(!is_temporary("step-5"));
    }

    #[test]
    fn each_framework_is_known_by_its_marker() {
        use Completeness::{Incomplete, Marked, Unmarked};
        for (name, files, said) in [
            ("checkpoint-5", &["model.safetensors"][..], Incomplete),
            ("checkpoint-5", &["model.safetensors", "trainer_state.json"], Marked),
            ("checkpoint-5", &["trainer_state.json", "checkpoint-is-incomplete.txt"], Incomplete),
            ("step-5", &["__0_0.distcp"], Incomplete),
            ("step-5", &["__0_0.distcp", ".metadata"], Marked),
            ("5", &["_CHECKPOINT_METADATA", "d/a"], Marked),
            ("step-5", &["weights.json"], Unmarked),
            ("step-5", &["weights.json", ".complete"], Marked),
            ("step-5", &[], Incomplete),
            ("global_step5", &["mp_rank_00_model_states.pt"], Incomplete),
        ] {
            assert_eq!(judge(Framework::Auto, name, files), said, "{name} {files:?}");
        }
    }

    #[test]
    fn a_tracker_beside_the_folders_decides() {
        let trackers = BTreeMap::from([
            (DEEPSPEED_LATEST.to_owned(), "global_step5\n".to_owned()),
            (MEGATRON_LATEST.to_owned(), "7".to_owned()),
        ]);
        assert_eq!(Framework::Auto.judge(&entry("global_step5", &["x"]), &trackers), Completeness::Marked);
        assert_eq!(Framework::Auto.judge(&entry("global_step6", &["x"]), &trackers), Completeness::Incomplete);
        assert_eq!(Framework::Auto.judge(&entry("iter_0000007", &["x"]), &trackers), Completeness::Marked);
        assert_eq!(Framework::Megatron.tracker("iter_0000007"), Some((MEGATRON_LATEST, "7".to_owned())));
    }

    proptest! {
        #[test]
        fn a_name_without_a_step_is_never_complete(name in ".{0,30}", file in ".{0,30}") {
            for (_, framework) in FRAMEWORKS {
                let judged = framework.judge(&entry(&name, &[&file]), &BTreeMap::new());
                prop_assert!(judged == Completeness::Incomplete || step_of(&name).is_some());
            }
        }

        #[test]
        fn the_step_is_the_last_number_of_a_name(before in "[a-z]{0,6}[-_]", step: u64, after in "([-_][a-z]{1,6})?(\\.[a-z0-9]{1,5})?") {
            prop_assert_eq!(step_of(&format!("{before}{step}{after}")), Some(step));
            prop_assert_eq!(step_of(&format!("{before}{step}b{after}")), None, "the number is a part of a word");
        }
    }
}
