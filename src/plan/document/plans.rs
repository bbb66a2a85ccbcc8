//! `Plans`: the plans of an answer, of which one is recommended and each can be picked by its id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::error::DocumentError;
use gpuplan_units::names::did_you_mean;

/// The plans of an answer; each can be picked by its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plans<P> {
    /// `null` where no plan keeps every limit.
    pub recommendation: Option<P>,
    /// Nothing else is both cheaper and faster; cheapest first.
    #[serde(default = "Vec::<P>::new")]
    pub frontier: Vec<P>,
    /// The best of other machines that are not on the frontier, cheapest first.
    #[serde(default = "Vec::<P>::new")]
    pub alternatives: Vec<P>,
}

/// What has an id by which it can be picked.
pub trait Identified {
    /// Place, machine, count and terms; stable between runs.
    fn id(&self) -> &str;
}

impl<P: Identified> Plans<P> {
    /// The recommended plan first.
    pub fn all(&self) -> impl Iterator<Item = &P> {
        self.recommendation.iter().chain(&self.frontier).chain(&self.alternatives)
    }

    /// The plan with this id, else the recommended one.
    pub fn pick(&self, id: Option<&str>) -> Result<&P, DocumentError> {
        let Some(id) = id else { return self.recommendation.as_ref().ok_or(DocumentError::NoRecommendation) };
        self.all().find(|plan| plan.id() == id).ok_or_else(|| DocumentError::UnknownPlan {
            id: id.to_owned(),
            similar: did_you_mean(id, self.all().map(Identified::id)).map(str::to_owned),
        })
    }
}
