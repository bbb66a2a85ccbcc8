//! The checkpoint folder as it stands, and which of its checkpoints have settled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::checkpoint::whole::is_whole;
use crate::rules::framework::{
    Completeness, DEEPSPEED_LATEST, Entry, Framework, MEGATRON_LATEST, ROLLING, Seen, is_temporary, is_weights,
    place_of, step_of,
};

/// A tracker is a word.
const LONGEST_TRACKER: u64 = 4096;
const DEEPEST: usize = 16;
/// More files than a framework puts into one folder of a checkpoint.
const MOST_BESIDE_A_MARKER: usize = 20_000;

#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Names of those whose files are whole by their own format: files that stand for themselves, and those without a step.
    pub whole: BTreeSet<String>,
    pub trackers: BTreeMap<String, String>,
    /// Names of entries that may be checkpoints too, and why nobody can tell.
    pub unreadable: BTreeMap<String, String>,
}

/// How a checkpoint folder became one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The program was told to save there: whatever has a step in its name is a checkpoint.
    #[default]
    Told,
    /// It was seen to save there, beside whatever else the job has there: only weights and folders of frameworks are checkpoints.
    Found,
}

/// Looks at every entry that may be a checkpoint. What vanishes meanwhile was none.
pub fn scan(folder: &Path, place: Place) -> io::Result<Listing> {
    let (mut listing, mut rolling) = (Listing::default(), Vec::new());
    for found in fs::read_dir(folder)? {
        let found = found?;
        let Ok(name) = found.file_name().into_string() else { continue };
        if [DEEPSPEED_LATEST, MEGATRON_LATEST].contains(&name.as_str()) {
            listing.trackers.extend(tracker(&found.path())?.map(|text| (name, text)));
        } else if !is_temporary(&name)
            && step_of(&name).is_some()
            && (place == Place::Told || is_recognised(&name, &found.path()))
        {
            match unless_gone(entry(&found.path(), name.clone())) {
                Ok(entry) => listing.entries.extend(entry.flatten()),
                Err(error) => drop(listing.unreadable.insert(name, error.to_string())),
            }
        } else if !is_temporary(&name) && is_weights(&name) {
            rolling.extend(seen(&found.path(), format!("{ROLLING}/{name}"))?);
        }
    }
    if listing.entries.is_empty() && listing.unreadable.is_empty() && !rolling.is_empty() {
        rolling.sort_by(|a, b| a.path.cmp(&b.path));
        listing.entries.push(Entry { name: ROLLING.to_owned(), is_folder: true, files: rolling });
    }
    for entry in listing.entries.iter().filter(|entry| entry.name == ROLLING || !entry.is_folder) {
        // What cannot be read now may be in a moment.
        if entry.files.iter().all(|file| is_whole(&place_of(folder, &file.path)).unwrap_or(false)) {
            listing.whole.insert(entry.name.clone());
        }
    }
    listing.entries.sort_by_cached_key(|entry| (step_of(&entry.name), entry.name.clone()));
    Ok(listing)
}

/// An entry as it stands now; `None`: it is gone.
pub fn look_again(folder: &Path, place: Place, name: &str) -> io::Result<Option<Entry>> {
    if name == ROLLING {
        let found = unless_gone(scan(folder, place))?.unwrap_or_default().entries;
        return Ok(found.into_iter().find(|entry| entry.name == ROLLING));
    }
    unless_gone(entry(&folder.join(name), name.to_owned())).map(Option::flatten)
}

/// Weights, or a folder of a framework, finished or not.
fn is_recognised(name: &str, path: &Path) -> bool {
    if path.is_file() {
        return is_weights(name);
    }
    let shallow = shallow(name, path);
    Framework::found_in(&shallow) != Framework::Files
        || Framework::Files.judge(&shallow, &BTreeMap::new()) == Completeness::Marked
}

/// A folder by what stands directly in it: markers of frameworks lie there.
pub fn shallow(name: &str, path: &Path) -> Entry {
    let seen = |file: String| Seen { path: format!("{name}/{file}"), size: 0, modified_nanos: 0, inode: 0 };
    // What cannot be read shows no marker.
    let found = fs::read_dir(path).into_iter().flatten().flatten().take(MOST_BESIDE_A_MARKER);
    let files = found.filter_map(|entry| entry.file_name().into_string().ok()).map(seen).collect();
    Entry { name: name.to_owned(), is_folder: true, files }
}

/// A file, if it is one.
fn seen(path: &Path, name: String) -> io::Result<Option<Seen>> {
    let Some(file) = unless_gone(fs::metadata(path))?.filter(fs::Metadata::is_file) else { return Ok(None) };
    let modified_nanos = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Ok(Some(Seen { path: name, size: file.len(), modified_nanos, inode: file.ino() }))
}

/// What is gone by the time that it is looked at is `None`.
pub fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// `None` for what is no tracker, as a folder of that name.
pub fn tracker(path: &Path) -> io::Result<Option<String>> {
    let is_one = unless_gone(fs::metadata(path))?.is_some_and(|file| file.is_file() && file.len() <= LONGEST_TRACKER);
    let bytes = if is_one { unless_gone(fs::read(path))? } else { None };
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// `None` for what cannot be kept: a name that is no text, or something that is neither file nor folder.
pub fn entry(path: &Path, name: String) -> io::Result<Option<Entry>> {
    let is_folder = fs::symlink_metadata(path)?.is_dir();
    let mut files = Vec::new();
    let is_whole = walk(path, &name, DEEPEST, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(is_whole.then_some(Entry { name, is_folder, files }))
}

/// Links to files are followed, as their content is what a restore needs; links to folders could lead in a circle.
fn walk(path: &Path, name: &str, depth: usize, files: &mut Vec<Seen>) -> io::Result<bool> {
    let own = fs::symlink_metadata(path)?;
    if !own.is_dir() {
        let file = fs::metadata(path)?;
        let modified_nanos = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
        files.push(Seen { path: name.to_owned(), size: file.len(), modified_nanos, inode: file.ino() });
        return Ok(file.is_file());
    }
    for below in fs::read_dir(path)? {
        let below = below?;
        let Ok(part) = below.file_name().into_string() else { return Ok(false) };
        if depth == 0 || !walk(&below.path(), &format!("{name}/{part}"), depth - 1, files)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A checkpoint that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    pub entry: Entry,
    pub step: u64,
    pub framework: Framework,
}

/// Remembers since when each checkpoint looks the same.
#[derive(Clone, Debug)]
pub struct Settling {
    framework: Framework,
    /// How long an entry without a marker has to stand still.
    settle: Duration,
    seen: BTreeMap<String, (Vec<Seen>, Duration)>,
    looked: Duration,
    /// The newest version of files without a step that was complete, with the step that it was given.
    rolled: Option<(u64, Vec<Seen>)>,
}

impl Settling {
    pub fn new(framework: Framework, settle: Duration) -> Self {
        Self { framework, settle, seen: BTreeMap::new(), looked: Duration::ZERO, rolled: None }
    }

    /// Counts versions of files without a step as steps, from that one, which is these files.
    pub fn rolling(mut self, step: u64, files: Vec<Seen>) -> Self {
        self.rolled = Some((step, files));
        self
    }

    /// The last look saw something for the first time.
    pub fn has_news(&self) -> bool {
        self.seen.values().any(|(_, since)| *since == self.looked)
    }

    /// Complete checkpoints, oldest first. `now` counts from any fixed moment.
    ///
    /// One with a marker has to look the same in two looks, since ranks may write beside the one that writes the marker. When
    /// the program is gone (`over`), markers count at once, and the rest if it ended in an orderly way.
    pub fn ready(&mut self, listing: Listing, now: Duration, over: Option<Over>) -> Vec<Ready> {
        let mut seen = BTreeMap::new();
        let mut ready = Vec::new();
        for entry in listing.entries {
            let same_since = match self.seen.remove(&entry.name) {
                Some((files, since)) if files == entry.files => Some(since),
                _ => None,
            };
            seen.insert(entry.name.clone(), (entry.files.clone(), same_since.unwrap_or(now)));
            let is_settled = same_since.is_some_and(|since| now.saturating_sub(since) >= self.settle);
            let is_ready = match self.framework.judge(&entry, &listing.trackers) {
                Completeness::Marked => over.is_some() || same_since.is_some(),
                Completeness::Unmarked if listing.whole.contains(&entry.name) => over.is_some() || same_since.is_some(),
                Completeness::Unmarked => is_settled || over == Some(Over::Orderly),
                Completeness::Incomplete => false,
            };
            if is_ready && let Some(step) = self.step(&entry) {
                let framework =
                    if self.framework == Framework::Auto { Framework::found_in(&entry) } else { self.framework };
                ready.push(Ready { entry, step, framework });
            }
        }
        (self.seen, self.looked) = (seen, now);
        ready.sort_by_key(|ready| ready.step);
        ready
    }
}

impl Settling {
    fn step(&mut self, entry: &Entry) -> Option<u64> {
        if entry.name != ROLLING {
            return step_of(&entry.name);
        }
        let (step, files) = self.rolled.as_mut()?;
        if *files != entry.files {
            (*step, *files) = (*step + 1, entry.files.clone());
        }
        Some(*step)
    }
}

/// How the program ended, as far as its files are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It ended by itself and says that all is well, so it finished what it wrote.
    Orderly,
    /// It may have been in the middle of a file.
    Torn,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(settling: &mut Settling, folder: &Path, seconds: u64, over: Option<Over>) -> Vec<u64> {
        let ready = settling.ready(scan(folder, Place::Told).unwrap(), Duration::from_secs(seconds), over);
        ready.into_iter().map(|ready| ready.step).collect()
    }

    #[test]
    fn what_still_changes_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("step-5")).unwrap();
        fs::write(at("step-5/weights"), "12").unwrap();
        fs::write(at(".hidden-7"), "x").unwrap();
        fs::write(at("result.json"), "x").unwrap();
        let mut settling = Settling::new(Framework::Auto, Duration::from_secs(10));
        assert!(ready(&mut settling, folder.path(), 0, None).is_empty());
        assert!(ready(&mut settling, folder.path(), 9, None).is_empty());
        fs::write(at("step-5/weights"), "123").unwrap();
        assert!(ready(&mut settling, folder.path(), 11, None).is_empty());
        assert!(ready(&mut settling, folder.path(), 20, Some(Over::Torn)).is_empty());
        assert_eq!(ready(&mut settling, folder.path(), 20, Some(Over::Orderly)), [5]);
        assert_eq!(ready(&mut settling, folder.path(), 21, None), [5]);
        fs::write(at("step-5/.complete"), "").unwrap();
        assert!(ready(&mut settling, folder.path(), 22, None).is_empty());
        assert_eq!(ready(&mut settling, folder.path(), 22, None), [5], "a marker counts at the second look");
        assert_eq!(
            Settling::new(Framework::Auto, Duration::MAX)
                .ready(scan(folder.path(), Place::Told).unwrap(), Duration::ZERO, Some(Over::Torn))
                .len(),
            1
        );
    }
}
