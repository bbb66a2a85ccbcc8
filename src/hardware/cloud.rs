//! `CloudId`: the name of a seller of machines, as it stands in catalogs, tables and JSON.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lower case name of a cloud: the stem of its catalog files.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CloudId(Arc<str>);

impl CloudId {
    pub fn new(name: &str) -> Self {
        Self(name.to_ascii_lowercase().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name for people.
    pub fn label(&self) -> &str {
        match self.as_str() {
            "aws" => "AWS",
            "gcp" => "Google Cloud",
            "azure" => "Azure",
            "oci" => "Oracle Cloud",
            other => other,
        }
    }
}

impl fmt::Display for CloudId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
