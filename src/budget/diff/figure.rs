//! `FigureChange`: what a reviewer compares beside the expected sum: the bad case, hours, GPU-hours, how old the prices are.

use schemars::JsonSchema;
use serde::Serialize;

/// A figure of a plan or budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// 90th percentile of the cost, in dollars.
    P90Usd,
    /// Expected, from the request to the end of one run.
    RunHours,
    /// That are paid, of all GPUs.
    GpuHours,
    /// Of the price of the machines, when the document was made.
    PriceAgeDays,
    /// Share of the money on prices older than the budget counts as old.
    OldPriceShare,
}

/// A figure on either side; null: that side does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FigureChange {
    pub figure: Figure,
    pub before: Option<f64>,
    pub after: Option<f64>,
}

/// Those that at least one side says.
pub fn figures<const N: usize>(
    before: [(Figure, Option<f64>); N],
    after: [(Figure, Option<f64>); N],
) -> Vec<FigureChange> {
    let pairs =
        before.into_iter().zip(after).map(|((figure, before), (_, after))| FigureChange { figure, before, after });
    pairs.filter(|change| change.before.is_some() || change.after.is_some()).collect()
}
