//! `Framework`: the training stack of a run, by its id.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Training stack by its id in `catalogs/stacks.toml`, by what it does differently on the GPU and on the host. Empty: none was
/// named. Text of a user becomes one in `Stacks::framework`, which knows every name.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Framework {
    id: String,
    /// Its row of the stacks inside this binary, once it was asked for: a search asks many times for each layout.
    #[serde(skip)]
    row: OnceLock<Option<usize>>,
}

impl Framework {
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), row: OnceLock::new() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// None was named.
    pub fn is_open(&self) -> bool {
        self.id.is_empty()
    }

    /// As `find` says, which is asked once: it always looks into the same stacks.
    pub(crate) fn row(&self, find: impl FnOnce(&str) -> Option<usize>) -> Option<usize> {
        *self.row.get_or_init(|| find(&self.id))
    }
}

impl fmt::Debug for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Framework").field(&self.id).finish()
    }
}

impl PartialEq for Framework {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Framework {}

impl Hash for Framework {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}
