//! What two documents differ in: the total, the lines with their causes, and the reasons that the inputs give.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::diff::figure::FigureChange;
use crate::diff::rented::Rented;
use crate::exchange::Exchange;
use gpuplan_plan::document::InputsRecord;
use gpuplan_units::Usd;

/// What two documents of one kind differ in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Diff {
    /// `plans`, `budgets` or `prices`.
    pub kind: &'static str,
    /// Null: price lists have no sum.
    pub total: Option<Change>,
    /// The 90th percentile of the second.
    pub p90_usd: Option<Usd>,
    /// The currency of both budgets, where it is not the dollar and its rate is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// The bad case, hours, GPU-hours and age of prices before and after; empty for price lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureChange>,
    pub reasons: Vec<Reason>,
    /// Greatest change first.
    pub lines: Vec<ChangedLine>,
    pub unchanged: usize,
    /// What the second would rent, for the guardrails.
    #[serde(skip)]
    pub rented: Vec<Rented>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    pub before_usd: Usd,
    pub after_usd: Usd,
    pub change_usd: Usd,
    /// Of the first; null: it was nothing.
    pub share: Option<f64>,
}

/// An input that differs, in words.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reason {
    pub cause: Cause,
    pub detail: String,
}

/// Where a change comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Something else was asked.
    Request,
    /// The rules of the house allow something else.
    Policy,
    /// Constants, measurements or the catalog of machines are others.
    Estimate,
    /// Prices or what is known of the market are others.
    Price,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    Changed,
    Added,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangedLine {
    pub mark: Mark,
    pub what: String,
    pub before_usd: Option<Usd>,
    pub after_usd: Option<Usd>,
    pub change_usd: Usd,
    /// The change by cause: its parts add up to it.
    pub parts: Vec<ChangePart>,
    /// What of it changed.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangePart {
    pub cause: Cause,
    pub change_usd: Usd,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum DiffError {
    #[error("the first is {0} and the second {1}")]
    Kinds(&'static str, &'static str),
    #[error("{side} cannot be compared: {detail}")]
    Unknown { side: &'static str, detail: String },
}

/// One amount of either side, in one vocabulary.
#[derive(Clone, Debug)]
pub struct Amount {
    pub key: String,
    /// Phase that it belongs to.
    pub of: String,
    pub what: String,
    /// Which machines; a change of them is no change of price.
    pub machines: String,
    pub quantity: f64,
    pub unit_price: Usd,
    pub cost: Usd,
}

impl Mark {
    pub fn sign(self) -> char {
        match self {
            Self::Changed => '~',
            Self::Added => '+',
            Self::Removed => '-',
        }
    }
}

impl Cause {
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Policy => "policy",
            Self::Estimate => "estimate",
            Self::Price => "price",
        }
    }
}

impl Change {
    pub fn new(before: Usd, after: Usd) -> Self {
        let share = (before > Usd::ZERO).then(|| after.dollars() / before.dollars() - 1.0);
        Self { before_usd: before, after_usd: after, change_usd: after - before, share }
    }
}

/// Causes that the hashes of the inputs tell, most specific first.
pub fn input_changes(before: &InputsRecord, after: &InputsRecord) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |cause, differs: bool, detail: String| {
        if differs {
            reasons.push(Reason { cause, detail });
        }
    };
    let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
    let of_policy = |inputs: &InputsRecord| inputs.policy_sha256.as_deref().map_or_else(|| "none".to_owned(), short);
    add(
        Cause::Policy,
        before.policy_sha256 != after.policy_sha256,
        format!("rules of the house: {} -> {}", of_policy(before), of_policy(after)),
    );
    let (a, b) = (&before.constants_version, &after.constants_version);
    add(Cause::Estimate, a != b, format!("constants of the estimate: {a} -> {b}"));
    let (a, b) = (&before.catalog_sha256, &after.catalog_sha256);
    add(Cause::Estimate, a != b, format!("catalog of machines and models: {} -> {}", short(a), short(b)));
    let measured = |inputs: &InputsRecord| inputs.measured_sha256.as_deref().map_or_else(|| "none".to_owned(), short);
    add(
        Cause::Estimate,
        before.measured_sha256 != after.measured_sha256,
        format!("measurements: {} -> {}", measured(before), measured(after)),
    );
    let names = |inputs: &InputsRecord| inputs.own_runs.iter().map(|own| own.run.clone()).collect::<BTreeSet<String>>();
    let (was, is) = (names(before), names(after));
    let list = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let (new, gone) = (list(is.difference(&was).collect()), list(was.difference(&is).collect()));
    let changes = [("new", new), ("gone", gone)].into_iter().filter(|(_, names)| !names.is_empty());
    let changes: Vec<String> = changes.map(|(word, names)| format!("{word}: {names}")).collect();
    let changes = if changes.is_empty() { "what is known of them".to_owned() } else { changes.join("; ") };
    add(
        Cause::Estimate,
        before.own_runs != after.own_runs,
        format!("your own finished runs that count: {} -> {} ({changes})", was.len(), is.len()),
    );
    let (a, b) = (&before.offers_sha256, &after.offers_sha256);
    add(Cause::Price, a != b, format!("prices and what is known of the market: {} -> {}", short(a), short(b)));
    reasons
}

/// What is behind a change that no price explains: the first of request, policy, estimate that differs, else the market.
pub fn behind(reasons: &[Reason]) -> Cause {
    let causes = [Cause::Request, Cause::Policy, Cause::Estimate];
    causes.into_iter().find(|cause| reasons.iter().any(|reason| reason.cause == *cause)).unwrap_or(Cause::Price)
}

/// Differences of two lists of amounts, matched by key. `cause` says what is behind a change of an amount that no price explains.
pub fn changed(before: &[Amount], after: &[Amount], cause: impl Fn(&Amount) -> Cause) -> (Vec<ChangedLine>, usize) {
    let mut lines = Vec::new();
    let mut unchanged = 0;
    let by_key =
        |all: &[Amount]| -> BTreeMap<String, usize> { all.iter().map(|amount| amount.key.clone()).zip(0..).collect() };
    let (in_before, in_after) = (by_key(before), by_key(after));
    for old in before {
        match in_after.get(&old.key).map(|at| &after[*at]) {
            Some(new) if (new.cost, new.unit_price, &new.machines) == (old.cost, old.unit_price, &old.machines) => {
                unchanged += 1;
            }
            Some(new) => lines.push(changed_line(old, new, cause(old))),
            None => lines.push(added_or_removed(Mark::Removed, old, cause(old))),
        }
    }
    lines.extend(
        after
            .iter()
            .filter(|new| !in_before.contains_key(&new.key))
            .map(|new| added_or_removed(Mark::Added, new, cause(new))),
    );
    lines.sort_by_key(|line| std::cmp::Reverse(line.change_usd.nanos().abs()));
    (lines, unchanged)
}

fn added_or_removed(mark: Mark, amount: &Amount, cause: Cause) -> ChangedLine {
    let is_new = mark == Mark::Added;
    let change = if is_new { amount.cost } else { Usd::ZERO - amount.cost };
    ChangedLine {
        mark,
        what: amount.what.clone(),
        before_usd: (!is_new).then_some(amount.cost),
        after_usd: is_new.then_some(amount.cost),
        change_usd: change,
        parts: vec![ChangePart { cause, change_usd: change }],
        detail: amount.machines.clone(),
    }
}

/// On the same machines, the price moved what was bought before; the rest is another quantity.
fn changed_line(old: &Amount, new: &Amount, cause: Cause) -> ChangedLine {
    let change = new.cost - old.cost;
    let same = old.machines == new.machines;
    // A quantity that is beyond counting at this price contradicts the cost beside it: nothing is put down to the price.
    let by_price = Usd::from_dollars((new.unit_price - old.unit_price).dollars() * old.quantity)
        .filter(|_| same)
        .unwrap_or(Usd::ZERO);
    let parts = [(Cause::Price, by_price), (cause, change - by_price)];
    let mut detail = Vec::new();
    if !same {
        detail.push(format!("{} -> {}", old.machines, new.machines));
    }
    if old.unit_price != new.unit_price {
        detail.push(format!("${} -> ${} each", old.unit_price, new.unit_price));
    }
    if (old.quantity - new.quantity).abs() > 1e-9 * old.quantity.abs() {
        detail.push(format!("{:.2} -> {:.2} of them", old.quantity, new.quantity));
    }
    ChangedLine {
        mark: Mark::Changed,
        what: new.what.clone(),
        before_usd: Some(old.cost),
        after_usd: Some(new.cost),
        change_usd: change,
        parts: parts
            .into_iter()
            .filter(|(_, change)| *change != Usd::ZERO)
            .map(|(cause, change_usd)| ChangePart { cause, change_usd })
            .collect(),
        detail: detail.join("; "),
    }
}

/// Keys of two JSON values that differ, with both values.
pub fn differing(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if let (Value::Object(a), Value::Object(b)) = (before, after) {
        let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            differing(&inner, a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null), found);
        }
    } else if before != after {
        let shown = |value: &Value| match value {
            Value::Null => "not stated".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        found.push(format!("{path}: {} -> {}", shown(before), shown(after)));
    }
}
