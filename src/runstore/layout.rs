//! `ManifestName` and the keys of a run: where each object of it lies below the store's address.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Digits of a step in a manifest's name, so that names sort as steps do.
const STEP_DIGITS: usize = 12;
const LONGEST_RUN: usize = 128;

/// The highest number of an epoch, a leader or a lease that is believed: what JSON readers keep whole. Each of them takes the next number, so no
/// run gets there by itself, and what is called higher was put there by somebody else and is none.
pub const LAST_NUMBER: u64 = (1 << 53) - 1;

/// The number that a file is called by.
pub fn numbered(file: &str) -> Option<u64> {
    file.parse().ok().filter(|number| *number <= LAST_NUMBER)
}

/// A committed checkpoint: the step it holds and the epoch that committed it. Newest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ManifestName {
    pub step: u64,
    pub epoch: u64,
}

impl ManifestName {
    /// Reads `step-000000000500-e3.json`. Anything else is not a manifest.
    pub fn parse(file: &str) -> Option<Self> {
        let (step, epoch) = file.strip_prefix("step-")?.strip_suffix(".json")?.split_once("-e")?;
        let name = Self { step: step.parse().ok()?, epoch: epoch.parse().ok()? };
        (name.to_string() == file).then_some(name)
    }
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step-{:0STEP_DIGITS$}-e{}.json", self.step, self.epoch)
    }
}

/// Keys of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    run: String,
}

/// Why a text cannot name a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a run: letters, digits, `.`, `_` and `-`, at most {LONGEST_RUN}, not starting with `.`, `_` or `-`"
)]
pub struct RunNameError(String);

impl Layout {
    /// Names that start with `_` belong to the store itself.
    pub fn new(run: &str) -> Result<Self, RunNameError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if run.is_empty() || run.len() > LONGEST_RUN || run.starts_with(['.', '_', '-']) || !run.bytes().all(allowed) {
            return Err(RunNameError(run.to_owned()));
        }
        Ok(Self { run: run.to_owned() })
    }

    pub fn run(&self) -> &str {
        &self.run
    }

    /// Everything of the run.
    pub fn folder(&self) -> String {
        format!("runs/{}", self.run)
    }

    pub fn spec(&self) -> String {
        format!("runs/{}/spec.json", self.run)
    }

    pub fn dataset(&self) -> String {
        format!("runs/{}/dataset.json", self.run)
    }

    pub fn epochs(&self) -> String {
        format!("runs/{}/epochs", self.run)
    }

    pub fn epoch(&self, number: u64) -> String {
        format!("{}/{number}", self.epochs())
    }

    pub fn manifests(&self) -> String {
        format!("runs/{}/manifests", self.run)
    }

    pub fn manifest(&self, name: ManifestName) -> String {
        format!("{}/{name}", self.manifests())
    }

    pub fn data(&self) -> String {
        format!("runs/{}/data", self.run)
    }

    /// The epoch that sent an object of the data folder.
    pub fn epoch_of_data(&self, key: &str) -> Option<u64> {
        key.strip_prefix(&self.data())?.strip_prefix("/e")?.split('/').next()?.parse().ok()
    }

    /// A machine takes part in an epoch.
    pub fn node(&self, epoch: u64, node: u32) -> String {
        format!("runs/{}/nodes/e{epoch}/{node}.json", self.run)
    }

    pub fn start(&self, epoch: u64) -> String {
        format!("runs/{}/start/e{epoch}.json", self.run)
    }

    pub fn all_wanted(&self, epoch: u64) -> String {
        format!("runs/{}/wanted/e{epoch}", self.run)
    }

    pub fn wanted(&self, epoch: u64, step: u64) -> String {
        format!("{}/{step}.json", self.all_wanted(epoch))
    }

    pub fn part(&self, epoch: u64, step: u64, node: u32) -> String {
        format!("runs/{}/parts/e{epoch}/{step}-{node}.json", self.run)
    }

    pub fn leaving(&self, epoch: u64, node: u32) -> String {
        format!("runs/{}/leaving/e{epoch}/{node}.json", self.run)
    }

    /// Steps that are never pruned: an object for each, whose name is the step, made by whoever wants it.
    pub fn kept(&self) -> String {
        format!("runs/{}/keep", self.run)
    }

    /// Who led the run, by number.
    pub fn leads(&self) -> String {
        format!("runs/{}/lead", self.run)
    }

    pub fn lead(&self, number: u64) -> String {
        format!("{}/{number}", self.leads())
    }

    /// That leader has ended the run.
    pub fn lead_over(&self, number: u64) -> String {
        format!("runs/{}/lead-over/{number}", self.run)
    }

    /// What that leader goes on with of those before it.
    pub fn lead_keeps(&self, number: u64) -> String {
        format!("runs/{}/lead-keeps/{number}", self.run)
    }

    /// What was granted to machines, by number: the highest tells the whole balance.
    pub fn leases(&self) -> String {
        format!("runs/{}/lease", self.run)
    }

    pub fn lease(&self, number: u64) -> String {
        format!("{}/{number}", self.leases())
    }

    /// The machines of an epoch are to save and end.
    pub fn stop(&self, epoch: u64) -> String {
        format!("runs/{}/stop/{epoch}", self.run)
    }

    pub fn status(&self, node: u32) -> String {
        format!("runs/{}/status/{node}.json", self.run)
    }

    pub fn billed_all(&self) -> String {
        format!("runs/{}/billed", self.run)
    }

    pub fn billed(&self, epoch: u64, node: u32) -> String {
        format!("{}/e{epoch}-{node}.json", self.billed_all())
    }

    pub fn all_logs(&self) -> String {
        format!("runs/{}/logs", self.run)
    }

    /// Epoch and number of a chunk of this node's output.
    pub fn chunk_of_log(&self, key: &str, node: u32) -> Option<(u64, u64)> {
        let (epoch, rest) = key.strip_prefix(&self.all_logs())?.strip_prefix("/e")?.split_once('/')?;
        let number = rest.strip_prefix(&format!("{node}/"))?.strip_suffix(".zst")?;
        Some((epoch.parse().ok()?, number.parse().ok()?))
    }

    /// Chunks of what the program of a node said in an epoch, numbered from 0 without a gap.
    pub fn logs(&self, epoch: u64, node: u32) -> String {
        format!("runs/{}/logs/e{epoch}/{node}", self.run)
    }

    pub fn log(&self, epoch: u64, node: u32, number: u64) -> String {
        format!("{}/{number:08}.zst", self.logs(epoch, node))
    }

    /// A term of the lease of the machine of an order. Where machines may write and delete nothing, in setups of any age.
    pub fn renewal(&self, order: &str, number: u64) -> String {
        self.event(&format!("renewed-{order}-{number}"))
    }

    pub fn event(&self, name: &str) -> String {
        format!("runs/{}/events/{name}.json", self.run)
    }

    pub fn rented(&self) -> String {
        format!("runs/{}/rented.json", self.run)
    }

    /// What the machine of an order does once its run is completed.
    pub fn next(&self, order: &str) -> String {
        format!("runs/{}/next/{order}.json", self.run)
    }

    pub fn result(&self) -> String {
        format!("runs/{}/result.json", self.run)
    }

    /// Key of a file as a manifest writes it, below the folder of the run.
    pub fn within(&self, key: &str) -> String {
        format!("runs/{}/{key}", self.run)
    }
}

/// Where an epoch sends a file of a checkpoint, below the folder of the run. `attempt` keeps tries of one machine apart and
/// `node` the machines, so that no object that a manifest names is ever written twice.
///
/// Stores and their listings write odd characters in different ways, and a key that is not recognised in a listing would be
/// swept with its data; so keys have none: every other byte is `@` and two hexadecimal digits.
pub fn data_key(epoch: u64, node: u32, attempt: u32, path: &str) -> String {
    let place = if node == 0 { attempt.to_string() } else { format!("n{node}-{attempt}") };
    let mut key = format!("{}{place}/", data_prefix(epoch));
    for byte in path.bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' | b'=' => key.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => key.push(char::from(byte)),
            byte => key.push_str(&format!("@{byte:02x}")),
        }
    }
    key
}

/// Whether a key is written as `data_key` writes it.
pub fn is_plain_key(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-=@".contains(&byte))
}

/// Everything that an epoch sends begins so; an epoch names only data that it sent itself.
pub fn data_prefix(epoch: u64) -> String {
    format!("data/e{epoch}/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_manifests_read_back_and_sort_by_step() {
        let name = ManifestName { step: 500, epoch: 3 };
        assert_eq!(name.to_string(), "step-000000000500-e3.json");
        assert_eq!(ManifestName::parse("step-000000000500-e3.json"), Some(name));
        for wrong in
            ["step-500-e3.json", "step-000000000500-e3", "step-000000000500-e03.json", "", "step--e.json", "latest"]
        {
            assert_eq!(ManifestName::parse(wrong), None, "{wrong}");
        }
        assert!(name < ManifestName { step: 501, epoch: 1 });
        assert!(name < ManifestName { step: 500, epoch: 4 });
    }

    #[test]
    fn a_run_cannot_leave_its_folder() {
        for name in ["a", "llama-8b.v2_x"] {
            assert!(Layout::new(name).is_ok(), "{name}");
        }
        for name in ["", "..", "../b", "a/b", "_bin", ".x", "a b", "-rf", &"x".repeat(200)] {
            assert!(Layout::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn machines_do_not_share_keys() {
        assert_eq!(data_key(3, 2, 1, "s/a"), "data/e3/n2-1/s/a");
    }

    #[test]
    fn keys_have_no_odd_characters() {
        assert_eq!(data_key(3, 0, 1, "step=5/a b%ä~@.pt"), "data/e3/1/step=5/a@20b@25@c3@a4@7e@40.pt");
        assert!(is_plain_key("data/e3/1/a@20b") && !is_plain_key("data/e3/a b"));
    }

    proptest! {
        #[test]
        fn every_path_has_a_plain_key_of_its_own(one in ".{0,20}", other in ".{0,20}") {
            prop_assert!(is_plain_key(&data_key(1, 0, 1, &one)));
            prop_assert_eq!(data_key(1, 0, 1, &one) == data_key(1, 0, 1, &other), one == other);
        }

        #[test]
        fn every_name_reads_back(step: u64, epoch: u64) {
            let name = ManifestName { step, epoch };
            prop_assert_eq!(ManifestName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn any_text_is_a_name_or_refused(text in ".{0,40}") {
            if let Some(name) = ManifestName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
