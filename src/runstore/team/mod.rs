//! What the machines of one epoch tell each other. All objects but the status are created once.

pub mod epoch;
mod exchange;

use serde::{Deserialize, Serialize};

use crate::checkpoint::manifest::{Manifest, StoredFile};
use crate::layout::ManifestName;
use crate::team::epoch::Owner;

/// `nodes/eN/NODE.json`: a machine takes part in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub owner: Owner,
}

/// `start/eN.json`: what every machine of the epoch starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// `None`: from nothing, or from what lies in the folder of each.
    pub restored: Option<ManifestName>,
    /// Mark of the first machine's agent. Who finds it in the own folder shares that folder with the first machine.
    pub folder_of: String,
    /// `None`: the first machine knows no address of its own.
    #[serde(default)]
    pub rendezvous: Option<Rendezvous>,
}

/// Where the programs of all machines meet: on the first one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    pub host: String,
    pub port: u16,
}

/// `wanted/eN/STEP.json`: the first machine has a complete checkpoint and wants the other machines' files of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub step: u64,
    /// File or folder in the checkpoint folder.
    pub name: String,
    pub framework: String,
}

/// `parts/eN/STEP-NODE.json`: a machine's files of a checkpoint, which are in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub files: Vec<StoredFile>,
}

/// `leaving/eN/NODE.json`: a machine was told to go, so all go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    pub from: String,
    pub seconds_left: f64,
    /// Because a budget or a lifetime is used up: nobody starts again elsewhere.
    #[serde(default)]
    pub is_cap: bool,
    /// Because its program was stalled, which is to end the run: nobody starts again either.
    #[serde(default)]
    pub is_stall: bool,
    /// Because its program failed: to start all again may come to the same.
    #[serde(default)]
    pub is_failure: bool,
}

/// The files of all machines as one list. What several machines have alike is listed once; what differs belongs to its machine.
pub fn union(parts: Vec<(u32, Vec<StoredFile>)>) -> Vec<StoredFile> {
    let mut all: Vec<(u32, StoredFile)> = Vec::new();
    for (node, files) in parts {
        for file in files {
            let is_same = |(_, known): &(u32, StoredFile)| known.path == file.path && known.sha256 == file.sha256;
            if !all.iter().any(is_same) {
                all.push((node, file));
            }
        }
    }
    let differs = |path: &str| all.iter().filter(|(_, file)| file.path == path).count() > 1;
    let owned: Vec<bool> = all.iter().map(|(_, file)| differs(&file.path)).collect();
    all.into_iter()
        .zip(owned)
        .map(|((node, file), is_owned)| StoredFile { node: is_owned.then_some(node), ..file })
        .collect()
}

impl Manifest {
    /// What a machine restores: everything, as any rank may read any shard, except what belongs to another machine.
    pub fn files_of(&self, node: u32) -> Vec<&StoredFile> {
        self.files.iter().filter(|file| file.node.is_none_or(|owner| owner == node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, sha: &str) -> StoredFile {
        StoredFile {
            path: path.to_owned(),
            key: format!("data/e1/{sha}/{path}"),
            sha256: sha.to_owned(),
            size: 1,
            node: None,
        }
    }

    #[test]
    fn shards_of_all_are_one_list_and_what_differs_belongs_to_its_machine() {
        let first = vec![file("s/shard-0", "a"), file("s/config", "c"), file("s/random", "x")];
        let second = vec![file("s/shard-1", "b"), file("s/config", "c"), file("s/random", "y")];
        let all = union(vec![(0, first), (1, second)]);
        let shown: Vec<_> = all.iter().map(|file| (file.path.as_str(), file.sha256.as_str(), file.node)).collect();
        assert_eq!(
            shown,
            [
                ("s/shard-0", "a", None),
                ("s/config", "c", None),
                ("s/random", "x", Some(0)),
                ("s/shard-1", "b", None),
                ("s/random", "y", Some(1))
            ]
        );
        let manifest = Manifest::new(ManifestName { step: 1, epoch: 1 }, "s", "files", None, all);
        let paths = |node| manifest.files_of(node).iter().map(|file| file.sha256.clone()).collect::<String>();
        assert_eq!((paths(0), paths(1), paths(2)), ("acxb".to_owned(), "acby".to_owned(), "acb".to_owned()));
    }
}
