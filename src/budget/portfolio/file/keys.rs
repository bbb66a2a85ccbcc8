//! The keys of a portfolio file, each with its place in the text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use gpuplan_market::capacity::{Committed, Own};
use gpuplan_workload::file::{LimitsSection, Scalar};

/// Runs of many months: what each is, when it starts, who pays, and what capacity is committed to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortfolioFile {
    /// Default: `portfolio`.
    pub name: Option<String>,
    /// Of every amount but those whose key says `usd`: `USD`, or another code such as `EUR` with its rate in `exchange`.
    #[schemars(with = "Option<String>")]
    pub currency: Option<Spanned<String>>,
    /// What one unit of `currency` is in dollars, where it is not the dollar: prices are in dollars, and no rate is assumed.
    #[schemars(with = "Option<ExchangeSection>")]
    pub exchange: Option<Spanned<ExchangeSection>>,
    /// `excluded`, or the percentage that is added to every amount, such as `19 %`.
    #[schemars(with = "Option<Scalar>")]
    pub tax: Option<Spanned<Scalar>>,
    /// For everything.
    #[schemars(with = "Option<Scalar>")]
    pub budget: Option<Spanned<Scalar>>,
    /// The first month, such as `2027-01`.
    #[schemars(with = "Option<String>")]
    pub start: Option<Spanned<String>>,
    /// 1 to 120.
    #[schemars(with = "Option<i64>")]
    pub months: Option<Spanned<i64>>,
    /// Percentage by which the data may turn out larger or smaller.
    #[schemars(with = "Option<Scalar>")]
    pub data_spread: Option<Spanned<Scalar>>,
    #[serde(default)]
    #[schemars(with = "Vec<TeamSection>")]
    pub team: Vec<Spanned<TeamSection>>,
    #[serde(default)]
    #[schemars(with = "Vec<RunSection>")]
    pub run: Vec<Spanned<RunSection>>,
    #[serde(default)]
    #[schemars(with = "Vec<CommitmentSection>")]
    pub commitment: Vec<Spanned<CommitmentSection>>,
    /// What the budget has to keep.
    #[serde(default)]
    #[schemars(with = "Vec<RuleSection>")]
    pub rule: Vec<Spanned<RuleSection>>,
    /// What bills have that is of no run and who pays for it, for `budget --actual`.
    #[serde(default)]
    #[schemars(with = "Vec<SharedSection>")]
    pub shared: Vec<Spanned<SharedSection>>,
    /// Own machines, as in `capacity.toml`: no two runs are given the same hours of them.
    #[serde(default)]
    pub own: Vec<Own>,
    /// Machines that are paid for whether used or not, as in `capacity.toml`.
    #[serde(default)]
    pub committed: Vec<Committed>,
}

/// A rate of exchange, with its source and its day.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSection {
    /// US dollars for one unit of the currency, such as `1.0842`.
    #[schemars(with = "Option<Scalar>")]
    pub usd_per_unit: Option<Spanned<Scalar>>,
    pub source: Option<String>,
    /// Day of the rate, such as `2026-10-30`.
    #[schemars(with = "Option<Scalar>")]
    pub as_of: Option<Spanned<Scalar>>,
}

/// Lines of bills that are of no run, such as notebooks. The first section that fits a line takes it; what no section takes is not counted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedSection {
    pub cloud: Option<String>,
    /// Billing account.
    pub account: Option<String>,
    /// Value of the tag `team`.
    pub team: Option<String>,
    /// Instance types, each with an optional `*` at the end. Default: any, and what is no machine.
    pub machines: Option<Vec<String>>,
    /// `even`: all teams alike. `spent`: by what runs of each team cost in the month. `team`: the team of the tag. Or shares by team, such as
    /// `{ vision = 1, language = 3 }`.
    #[schemars(with = "SplitKey")]
    pub split: Spanned<SplitKey>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SplitKey {
    Word(String),
    Shares(BTreeMap<String, f64>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TeamSection {
    pub name: String,
    #[schemars(with = "Option<Scalar>")]
    pub budget: Option<Spanned<Scalar>>,
}

/// A run or a phase of one. What it costs comes from exactly one of `workload`, `plan`, `usd_per_hour` and `price_per_hour`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSection {
    pub name: Option<String>,
    /// Name of a `[[team]]`. Where there is none, everything is of the team `all`.
    #[schemars(with = "Option<String>")]
    pub team: Option<Spanned<String>>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Workload file to be planned; its path is relative to the portfolio.
    #[schemars(with = "Option<String>")]
    pub workload: Option<Spanned<String>>,
    /// Laid over the limits of the workload file.
    pub limits: Option<LimitsSection>,
    /// Plan as `gpuplan plan --output json` wrote it; its path is relative to the portfolio.
    #[schemars(with = "Option<String>")]
    pub plan: Option<Spanned<String>>,
    /// Of a plan in that file. Default: the recommended one.
    pub id: Option<String>,
    /// Stated price of one machine in US dollars.
    #[schemars(with = "Option<Scalar>")]
    pub usd_per_hour: Option<Spanned<Scalar>>,
    /// The same in the currency of the portfolio, in place of `usd_per_hour`.
    #[schemars(with = "Option<Scalar>")]
    pub price_per_hour: Option<Spanned<Scalar>>,
    /// Stated time from begin to end of one run, in which each of its machines is paid: hours, or a duration such as `12h` or `3d`.
    #[schemars(with = "Option<Scalar>")]
    pub hours: Option<Spanned<Scalar>>,
    /// What nine of ten such runs stay under. Default: `hours`.
    #[schemars(with = "Option<Scalar>")]
    pub hours_p90: Option<Spanned<Scalar>>,
    /// Machines. Default: 1.
    #[schemars(with = "Option<i64>")]
    pub nodes: Option<Spanned<i64>>,
    pub cloud: Option<String>,
    pub region: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    /// Default: 1.
    #[schemars(with = "Option<i64>")]
    pub gpus_per_node: Option<Spanned<i64>>,
    /// Default: `on-demand`.
    #[schemars(with = "Option<String>")]
    pub purchase: Option<Spanned<String>>,
    /// Of the stated price.
    pub source: Option<String>,
    /// Day of the stated price, such as `2026-10-01`.
    #[schemars(with = "Option<Scalar>")]
    pub as_of: Option<Spanned<Scalar>>,
    /// Times that it is done, 1 to 10000. Default: 1.
    #[schemars(with = "Option<i64>")]
    pub repeats: Option<Spanned<i64>>,
    /// The first month. Default: the month after what it waits for, or the first of the portfolio.
    #[schemars(with = "Option<String>")]
    pub start: Option<Spanned<String>>,
    /// Months over which its cost is spread evenly. Default: 1.
    #[schemars(with = "Option<i64>")]
    pub months: Option<Spanned<i64>>,
    /// Runs and phases that must have ended.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub after: Vec<Spanned<String>>,
    /// Names of the runs that are launched for it, for `budget --actual`: `train-7b`, or `train-7b-*`. Default: its own name.
    #[serde(default)]
    pub launched_as: Vec<String>,
    /// Nothing more of it is to come, for `budget --actual`.
    #[serde(default)]
    pub ended: bool,
    #[serde(default)]
    #[schemars(with = "Vec<RunSection>")]
    pub phase: Vec<Spanned<RunSection>>,
}

/// A reservation or a savings plan that runs share.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitmentSection {
    pub name: String,
    /// `reservation` or `savings-plan`.
    #[schemars(with = "String")]
    pub kind: Spanned<String>,
    pub cloud: String,
    /// Default: every region.
    pub region: Option<String>,
    /// Of a reservation.
    pub instance_type: Option<String>,
    /// Of a savings plan: beginnings of the names of its machines. Default: all.
    #[serde(default)]
    pub machines: Vec<String>,
    /// Of a reservation.
    #[schemars(with = "Option<i64>")]
    pub nodes: Option<Spanned<i64>>,
    /// Of one machine of a reservation, or what a savings plan commits to spend, in US dollars.
    #[schemars(with = "Option<Scalar>")]
    pub usd_per_hour: Option<Spanned<Scalar>>,
    /// The same in the currency of the portfolio, in place of `usd_per_hour`.
    #[schemars(with = "Option<Scalar>")]
    pub price_per_hour: Option<Spanned<Scalar>>,
    /// Of a savings plan: off the on-demand price.
    #[schemars(with = "Option<Scalar>")]
    pub percent: Option<Spanned<Scalar>>,
    /// Default: the first month of the portfolio.
    #[schemars(with = "Option<String>")]
    pub start: Option<Spanned<String>>,
    /// Default: all months of the portfolio.
    #[schemars(with = "Option<i64>")]
    pub months: Option<Spanned<i64>>,
    pub source: Option<String>,
    /// Day of the price, such as `2026-10-01`.
    #[schemars(with = "Option<Scalar>")]
    pub as_of: Option<Spanned<Scalar>>,
}

/// The `[[rule]]` of `policy.toml`, which hold for every budget; its other keys are read elsewhere.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PolicyRules {
    /// Of the amounts of `[[rule]]`: `USD`, or another code such as `EUR`. Default: US dollars, as every amount whose key says `usd`.
    #[schemars(with = "Option<String>")]
    pub currency: Option<Spanned<String>>,
    /// What one unit of `currency` is in dollars, for portfolios that are not in it: in one that is, its own rate holds.
    #[schemars(with = "Option<ExchangeSection>")]
    pub exchange: Option<Spanned<ExchangeSection>>,
    #[schemars(with = "Vec<RuleSection>")]
    pub rule: Vec<Spanned<RuleSection>>,
}

/// What a budget has to keep: exactly one of `min_chance`, `max_price_age` and `max_spent`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSection {
    /// For this team, or `*` for each one. Default: for everything.
    #[schemars(with = "Option<String>")]
    pub team: Option<Spanned<String>>,
    /// For this month, such as `2027-01`, or `*` for each one.
    #[schemars(with = "Option<String>")]
    pub month: Option<Spanned<String>>,
    /// In the `currency` of the file, in `policy.toml` in US dollars where it states none. Default: the budget of the portfolio or of the team; a month has none of
    /// its own.
    #[schemars(with = "Option<Scalar>")]
    pub budget: Option<Spanned<Scalar>>,
    /// Least probability that the budget is kept: `0.8` or `80 %`.
    #[schemars(with = "Option<Scalar>")]
    pub min_chance: Option<Spanned<Scalar>>,
    /// Days that a price may be old: `30d`.
    #[schemars(with = "Option<Scalar>")]
    pub max_price_age: Option<Spanned<Scalar>>,
    /// Most of the money that may rest on older prices, or on prices without a date. Default: none.
    #[schemars(with = "Option<Scalar>")]
    pub max_old_share: Option<Spanned<Scalar>>,
    /// Most of the budget that may be spent, for `budget --actual`: `80 %`.
    #[schemars(with = "Option<Scalar>")]
    pub max_spent: Option<Spanned<Scalar>>,
    /// `fail` (exit code 4) or `warn`. Default: `fail`.
    #[schemars(with = "Option<String>")]
    pub on_break: Option<Spanned<String>>,
    /// Who allows that the rule is broken, until `approved_until`.
    #[schemars(with = "Option<String>")]
    pub approved_by: Option<Spanned<String>>,
    /// The last day of the approval, such as `2026-12-31`.
    #[schemars(with = "Option<Scalar>")]
    pub approved_until: Option<Spanned<Scalar>>,
}

impl RunSection {
    /// Whether it says of itself what is to be done, or when.
    pub fn is_work(&self) -> bool {
        [&self.workload, &self.plan, &self.start].iter().any(|key| key.is_some())
            || [&self.usd_per_hour, &self.price_per_hour, &self.hours, &self.hours_p90].iter().any(|key| key.is_some())
            || [&self.repeats, &self.months, &self.nodes].iter().any(|key| key.is_some())
            || self.limits.is_some()
            || !self.after.is_empty()
    }
}
