//! `DocumentError`: why a text is not a plan that this program reads; the version of a document.

use serde_json::Value;

use crate::document::reading::Misread;

/// Version of the document. A newer one is refused: a figure read in another meaning is worse than none.
pub const VERSION: u64 = 1;

/// Why a text is not a plan document, or not one with the wanted plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("it is not JSON: {detail}")]
    NotJson { detail: String },
    /// JSON, but of something else.
    #[error("it is not a plan of this program: {found}")]
    NotAPlan { found: String },
    #[error(
        "this plan has version {found}, written by a newer gpuplan; this program reads version {VERSION}: \
         update gpuplan, or plan again with this one"
    )]
    Newer { found: u64 },
    /// A plan with a field that is missing or wrong; the detail says which.
    #[error("it is not a plan of this program: {detail}")]
    Malformed { detail: String },
    /// Machines without GPU, where a plan with GPUs is needed.
    #[error("it is a plan for data processing on machines without GPU")]
    Processing,
    #[error("it recommends no plan")]
    NoRecommendation,
    #[error("no plan in it has the id `{id}`{}", similar.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?")))]
    UnknownPlan { id: String, similar: Option<String> },
}

impl From<Misread> for DocumentError {
    fn from(misread: Misread) -> Self {
        Self::Malformed { detail: misread.to_string().trim_start_matches('.').to_owned() }
    }
}

impl DocumentError {
    /// What to type next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoRecommendation => "gpuplan plan FILE   says what is in the way",
            Self::UnknownPlan { .. } => "gpuplan plan FILE --output json   lists the ids of all plans",
            Self::Processing => "gpuplan plan FILE   plans it; give a workload with a [model] here",
            _ => "gpuplan plan FILE --output json >plan.json",
        }
    }
}

/// The JSON of a text whose version this program reads.
pub(super) fn checked(text: &str) -> Result<Value, DocumentError> {
    let value = serde_json::from_str(text).map_err(|error| DocumentError::NotJson { detail: error.to_string() })?;
    check_version(&value)?;
    Ok(value)
}

/// Refuses what is not a plan, and a plan of a newer version.
pub(super) fn check_version(value: &Value) -> Result<(), DocumentError> {
    let found = match value {
        Value::Object(fields) => match fields.get("version").map(Value::as_u64) {
            Some(Some(version)) if version > VERSION => return Err(DocumentError::Newer { found: version }),
            Some(Some(VERSION)) if fields.contains_key("recommendation") => return Ok(()),
            Some(Some(VERSION)) => "`recommendation` is missing".to_owned(),
            Some(_) => format!("`version` is not {VERSION}"),
            None => "`version` is missing".to_owned(),
        },
        Value::Array(_) => "it is a list".to_owned(),
        _ => "it is a single value".to_owned(),
    };
    Err(DocumentError::NotAPlan { found })
}
