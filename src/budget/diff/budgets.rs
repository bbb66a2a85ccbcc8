//! Two budgets: their lines by id, and what was planned for each phase.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::charge::Item;
use crate::diff::change::{Amount, Cause, Change, Diff, DiffError, Reason, behind, changed, differing, input_changes};
use crate::diff::figure::{Figure, figures};
use crate::diff::rented::Rented;
use crate::exchange::Exchange;
use crate::portfolio::NO_TEAM;
use crate::portfolio::planned::MACHINE_HOUR;
use gpuplan_plan::document::InputsRecord;
use gpuplan_units::{Quantiles, Usd};

/// What this comparison reads of `budget --output json`.
#[derive(Deserialize)]
struct BudgetRecord {
    inputs: InputsRecord,
    #[serde(default)]
    tax: String,
    #[serde(default)]
    exchange: Option<Exchange>,
    total: TotalRecord,
    #[serde(default)]
    phases: Vec<PhaseRecord>,
    lines: Vec<LineRecord>,
}

#[derive(Deserialize)]
struct TotalRecord {
    cost_usd: Quantiles<Usd>,
    #[serde(default)]
    price_age: Option<PriceAgeRecord>,
}

#[derive(Deserialize)]
struct PriceAgeRecord {
    older_share: f64,
}

#[derive(Deserialize, PartialEq)]
struct PhaseRecord {
    phase: String,
    team: String,
    start: String,
    months: u32,
    repeats: u32,
    #[serde(default)]
    question: Value,
    cloud: String,
    gpu: Option<String>,
    purchase: String,
    cost_each_usd: Quantiles<Usd>,
}

#[derive(Deserialize)]
struct LineRecord {
    id: String,
    run: Option<String>,
    phase: Option<String>,
    month: String,
    item: String,
    cloud: String,
    region: Option<String>,
    instance_type: Option<String>,
    #[serde(default)]
    gpus_per_node: Option<u32>,
    purchase: Option<String>,
    quantity: f64,
    #[serde(default)]
    unit: String,
    unit_price_usd: Usd,
    cost_usd: Usd,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    let read = |side, document: &Value| {
        BudgetRecord::deserialize(document).map_err(|error| DiffError::Unknown { side, detail: error.to_string() })
    };
    let (old, new) = rayon::join(|| read("the first", before), || read("the second", after));
    let (old, new) = (old?, new?);
    let mut reasons = request_changes(&old, &new);
    reasons.extend(input_changes(&old.inputs, &new.inputs));
    let known = input_changes(&old.inputs, &new.inputs);
    let (was, is) = (by_path(&old.phases), by_path(&new.phases));
    let cause = |amount: &Amount| {
        let path = amount.of.as_str();
        match (was.get(path), is.get(path)) {
            // Nobody asked for anything else.
            (Some(was), Some(is))
                if request(was) == request(is) && was.question == is.question && !known.is_empty() =>
            {
                behind(&known)
            }
            _ => Cause::Request,
        }
    };
    let (lines, unchanged) = changed(&amounts(&old.lines), &amounts(&new.lines), cause);
    let rented = new.phases.iter().map(|phase| rented(phase, &new.lines)).collect();
    Ok(Diff {
        kind: "budgets",
        total: Some(Change::new(old.total.cost_usd.expected, new.total.cost_usd.expected)),
        p90_usd: Some(new.total.cost_usd.p90),
        // At another rate the same amount is another one: both are then in dollars.
        exchange: new.exchange.clone().filter(|exchange| old.exchange.as_ref() == Some(exchange)),
        figures: figures(figures_of(&old), figures_of(&new)),
        reasons,
        lines,
        unchanged,
        rented,
    })
}

fn figures_of(budget: &BudgetRecord) -> [(Figure, Option<f64>); 3] {
    let is_time = |line: &&LineRecord| {
        let items = [Item::Machines, Item::Fallback, Item::LostWork];
        line.unit == MACHINE_HOUR && items.iter().any(|item| item.word() == line.item)
    };
    let gpu_hours = |line: &LineRecord| line.quantity * f64::from(line.gpus_per_node.unwrap_or(0));
    [
        (Figure::P90Usd, Some(budget.total.cost_usd.p90.dollars())),
        (Figure::GpuHours, Some(budget.lines.iter().filter(is_time).map(gpu_hours).sum())),
        (Figure::OldPriceShare, budget.total.price_age.as_ref().map(|age| age.older_share)),
    ]
}

fn by_path(phases: &[PhaseRecord]) -> BTreeMap<&str, &PhaseRecord> {
    phases.iter().map(|phase| (phase.phase.as_str(), phase)).collect()
}

/// When and how often, and by whom.
fn request(phase: &PhaseRecord) -> (&str, &str, u32, u32) {
    (&phase.team, &phase.start, phase.months, phase.repeats)
}

fn request_changes(old: &BudgetRecord, new: &BudgetRecord) -> Vec<Reason> {
    let (was, is) = (by_path(&old.phases), by_path(&new.phases));
    let mut found = Vec::new();
    for (path, phase) in &is {
        let Some(before) = was.get(path) else {
            found.push(format!("{path}: new, {} times", phase.repeats));
            continue;
        };
        if request(before) != request(phase) {
            let text = |phase: &PhaseRecord| {
                format!("{} times in {} months from {} by {}", phase.repeats, phase.months, phase.start, phase.team)
            };
            found.push(format!("{path}: {} -> {}", text(before), text(phase)));
        }
        let mut keys = Vec::new();
        differing("", &before.question, &phase.question, &mut keys);
        found.extend(keys.into_iter().map(|key| format!("{path}: {key}")));
    }
    found.extend(was.keys().filter(|path| !is.contains_key(*path)).map(|path| format!("{path}: gone")));
    if old.tax != new.tax {
        found.push(format!("tax: {} -> {}", old.tax, new.tax));
    }
    if old.exchange != new.exchange {
        let words =
            |exchange: &Option<Exchange>| exchange.as_ref().map_or_else(|| "US dollars".to_owned(), Exchange::words);
        found.push(format!(
            "currency: {} -> {}; amounts are in US dollars",
            words(&old.exchange),
            words(&new.exchange)
        ));
    }
    found.into_iter().map(|detail| Reason { cause: Cause::Request, detail }).collect()
}

fn amounts(lines: &[LineRecord]) -> Vec<Amount> {
    let one = |line: &LineRecord| {
        let run = [line.run.as_deref(), line.phase.as_deref().filter(|phase| line.run.as_deref() != Some(*phase))];
        let path = run.into_iter().flatten().collect::<Vec<_>>().join("/");
        let machine = [line.instance_type.as_deref(), Some(line.cloud.as_str()), line.purchase.as_deref()];
        Amount {
            key: line.id.clone(),
            of: path.clone(),
            what: if path.is_empty() { line.id.clone() } else { format!("{path}, {}, {}", line.month, line.item) },
            machines: machine.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "),
            quantity: line.quantity,
            unit_price: line.unit_price_usd,
            cost: line.cost_usd,
        }
    };
    lines.iter().map(one).collect()
}

fn rented(phase: &PhaseRecord, lines: &[LineRecord]) -> Rented {
    let start = format!("{}/", phase.phase);
    let own = || lines.iter().filter(|line| line.id.starts_with(&start));
    let places = own().find_map(|line| line.region.clone());
    // Who is charged is a tag like the others, as it is of a launch.
    let team = Some("team".to_owned()).filter(|_| phase.team != NO_TEAM);
    let tags = own().flat_map(|line| line.tags.keys().cloned()).chain(team).collect();
    Rented {
        what: phase.phase.clone(),
        cloud: phase.cloud.clone(),
        places: places.into_iter().collect(),
        gpu: phase.gpu.clone(),
        purchase: phase.purchase.clone(),
        usd_per_hour: None,
        p90: phase.cost_each_usd.p90,
        tags: Some(tags),
    }
}
