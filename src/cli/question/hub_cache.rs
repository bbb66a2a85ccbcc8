//! The cache of `huggingface_hub`: configurations of models that were downloaded before (docs, "Understand caching").

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The `config.json` of a model by its name on the Hub, or the `model_index.json` of a pipeline. `None`: it was never downloaded here, or the name is none of the Hub.
pub fn config_of(name: &str) -> Option<PathBuf> {
    folder().and_then(|folder| config_below(&folder, name))
}

/// `HF_HUB_CACHE`, `HF_HOME/hub`, or the folder of caches of this user.
fn folder() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("HF_HUB_CACHE")
        .or_else(|| Some(variable("HF_HOME")?.join("hub")))
        .or_else(|| Some(home()?.join("huggingface/hub")))
}

/// `models--ORG--NAME/snapshots/REVISION/config.json`, of the revision that `refs/main` names, or else the only one.
fn config_below(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_part = |part: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(is_letter)
    };
    let (organisation, model) = name.split_once('/')?;
    if !is_part(organisation) || !is_part(model) {
        return None;
    }
    let folder = folder.join(format!("models--{organisation}--{model}"));
    let snapshots = folder.join("snapshots");
    let revision = fs::read_to_string(folder.join("refs/main")).ok();
    let config = |revision: &str| {
        let snapshot = snapshots.join(revision);
        ["config.json", "model_index.json"].map(|name| snapshot.join(name)).into_iter().find(|path| path.is_file())
    };
    if let Some(path) = revision.as_deref().map(str::trim).filter(|text| is_part(text)).and_then(config) {
        return Some(path);
    }
    let mut all: Vec<PathBuf> =
        fs::read_dir(&snapshots).ok()?.filter_map(|entry| config(entry.ok()?.file_name().to_str()?)).collect();
    (all.len() == 1).then(|| all.remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downloaded_configuration_is_found_by_its_revision() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = folder.path().join("models--acme--Kolibri-7B/snapshots");
        let add = |revision: &str| {
            fs::create_dir_all(snapshots.join(revision)).unwrap();
            fs::write(snapshots.join(revision).join("config.json"), "{}").unwrap();
        };
        let found = |name: &str| config_below(folder.path(), name);
        assert_eq!(found("acme/Kolibri-7B"), None);
        add("abc");
        assert_eq!(found("acme/Kolibri-7B"), Some(snapshots.join("abc/config.json")));
        add("def");
        assert_eq!(found("acme/Kolibri-7B"), None, "which of two is meant is not known");
        fs::create_dir_all(snapshots.with_file_name("refs")).unwrap();
        fs::write(snapshots.with_file_name("refs").join("main"), "def").unwrap();
        assert_eq!(found("acme/Kolibri-7B"), Some(snapshots.join("def/config.json")));
        for name in ["Kolibri-7B", "acme/..", "../acme/Kolibri-7B", "acme/"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
