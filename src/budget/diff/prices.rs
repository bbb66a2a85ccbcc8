//! Two price lists: offers whose rate changed, came or went.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::diff::{Amount, Cause, Diff, Mark, Reason, changed};
use gpuplan_units::Usd;

pub fn diff(before: &Value, after: &Value) -> Diff {
    let (old, new) = (amounts(before), amounts(after));
    let (lines, unchanged) = changed(&old, &new, |_, _| Cause::Price);
    let count = |mark| lines.iter().filter(|line| line.mark == mark).count();
    let mut shares: Vec<f64> = lines
        .iter()
        .filter_map(|line| Some((line.before_usd?, line.after_usd?)))
        .filter(|(before, _)| *before > Usd::ZERO)
        .map(|(before, after)| after.dollars() / before.dollars() - 1.0)
        .collect();
    shares.sort_by(f64::total_cmp);
    let middle = shares
        .get(shares.len() / 2)
        .map_or(String::new(), |share| format!(", half of them by less than {:+.1} %", share * 100.0));
    let detail = format!(
        "{} offers changed{middle}; {} came, {} went",
        count(Mark::Changed),
        count(Mark::Added),
        count(Mark::Removed)
    );
    Diff {
        kind: "prices",
        total: None,
        p90_usd: None,
        reasons: vec![Reason { cause: Cause::Price, detail }],
        lines,
        unchanged,
        rented: Vec::new(),
    }
}

/// Offers that no key tells apart, such as commitments of one and three years, are matched by their order of price.
fn amounts(list: &Value) -> Vec<Amount> {
    let mut rates: BTreeMap<String, Vec<Usd>> = BTreeMap::new();
    for row in list.as_array().into_iter().flatten() {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
        let place = if text("zone_id").is_empty() { text("region") } else { text("zone_id") };
        let name = format!("{} {place} {} {}", text("cloud"), text("instance_type"), text("purchase"));
        if let Ok(rate) = Usd::parse(text("rate_usd_per_hour")) {
            rates.entry(name).or_default().push(rate);
        }
    }
    let mut found = Vec::new();
    for (name, mut rates) in rates {
        rates.sort();
        for (at, rate) in rates.into_iter().enumerate() {
            found.push(Amount {
                key: format!("{name} {at}"),
                of: String::new(),
                what: name.clone(),
                machines: String::new(),
                quantity: 1.0,
                unit_price: rate,
                cost: rate,
            });
        }
    }
    found
}
