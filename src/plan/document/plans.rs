//! `Plans`: the plans of an answer, of which one is recommended and each can be picked by its id.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::document::error::DocumentError;
use crate::document::reading::{Misread, read};
use crate::document::view::PlanView;
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

/// One plan of a document.
pub trait RecordedPlan: DeserializeOwned {
    /// What it has in common with plans of the other kind.
    fn view(&self) -> PlanView<'_>;

    /// Place, machine, count and terms; stable between runs. A plan is picked by it.
    fn id(&self) -> &str {
        self.view().id
    }

    /// What is wrong in the first group of fields that cannot be read; `None` where all groups can be.
    fn misread(plan: &Value) -> Option<Misread>;

    /// A plan, or what is wrong with which field.
    fn read(plan: &Value) -> Result<Self, Misread> {
        // Fields of a group are read together, so their error does not know which it is.
        read(plan).map_err(|error| Self::misread(plan).unwrap_or(error))
    }
}

impl<P: RecordedPlan> Plans<P> {
    /// The recommended plan first.
    pub fn all(&self) -> impl Iterator<Item = &P> {
        self.recommendation.iter().chain(&self.frontier).chain(&self.alternatives)
    }

    /// The plan with this id, else the recommended one.
    pub fn pick(&self, id: Option<&str>) -> Result<&P, DocumentError> {
        let Some(id) = id else { return self.recommendation.as_ref().ok_or(DocumentError::NoRecommendation) };
        self.all().find(|plan| plan.id() == id).ok_or_else(|| DocumentError::UnknownPlan {
            id: id.to_owned(),
            similar: did_you_mean(id, self.all().map(P::id)).map(str::to_owned),
        })
    }

    /// The cheapest of each other cloud among those that are shown beside the recommended one, cheapest first.
    pub fn on_other_clouds(&self, than: &P) -> Vec<&P> {
        let here = than.view().cloud;
        let shown = self.frontier.iter().chain(&self.alternatives);
        let mut plans: Vec<&P> = shown.filter(|plan| plan.view().cloud != here).collect();
        plans.sort_by(|a, b| {
            let (a, b) = (a.view(), b.view());
            a.cost.expected.cmp(&b.cost.expected).then_with(|| a.id.cmp(b.id))
        });
        let mut clouds = BTreeSet::new();
        plans.retain(|plan| clouds.insert(plan.view().cloud));
        plans
    }

    /// What is wrong with which plan of a document that cannot be read, where it is one of the plans.
    pub(super) fn misread(document: &Value) -> Option<Misread> {
        let recommended = document.get("recommendation").filter(|plan| !plan.is_null());
        let recommended = recommended.map(|plan| (".recommendation".to_owned(), plan));
        let listed = ["frontier", "alternatives"].into_iter().flat_map(|list| {
            let plans = document.get(list).and_then(Value::as_array).into_iter().flatten();
            plans.enumerate().map(move |(index, plan)| (format!(".{list}[{index}]"), plan))
        });
        recommended.into_iter().chain(listed).find_map(|(path, plan)| Some(P::read(plan).err()?.below(&path)))
    }
}
