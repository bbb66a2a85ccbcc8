//! Two price lists: offers whose rate changed, came or went.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::diff::change::{Amount, Cause, Diff, DiffError, Mark, Reason, changed};
use gpuplan_units::Usd;

/// What this comparison reads of a row of `prices --output json`.
#[derive(Deserialize)]
struct OfferRecord {
    cloud: String,
    region: String,
    zone_id: Option<String>,
    instance_type: String,
    purchase: String,
    rate_usd_per_hour: Usd,
}

/// The rows of a price list: under `offers`, or the bare list that versions before the envelope wrote. What a job was priced
/// with is none.
pub fn offers(document: &Value) -> Option<&Vec<Value>> {
    let list = document.get("offers").filter(|_| document.get("job").is_none()).unwrap_or(document);
    list.as_array().filter(|rows| rows.iter().all(|row| row.get("rate_usd_per_hour").is_some()))
}

pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    let read = |side, document: &Value| {
        let offers =
            offers(document).into_iter().flatten().map(OfferRecord::deserialize).collect::<Result<Vec<_>, _>>();
        offers.map_err(|error| DiffError::Unknown { side, detail: error.to_string() }).map(amounts)
    };
    let (old, new) = (read("the first", before)?, read("the second", after)?);
    let (lines, unchanged) = changed(&old, &new, |_| Cause::Price);
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
    Ok(Diff {
        kind: "prices",
        total: None,
        p90_usd: None,
        exchange: None,
        figures: Vec::new(),
        reasons: vec![Reason { cause: Cause::Price, detail }],
        lines,
        unchanged,
        rented: Vec::new(),
    })
}

/// Offers that no key tells apart, such as commitments of one and three years, are matched by their order of price.
fn amounts(list: Vec<OfferRecord>) -> Vec<Amount> {
    let mut rates: BTreeMap<String, Vec<Usd>> = BTreeMap::new();
    for OfferRecord { cloud, region, zone_id, instance_type, purchase, rate_usd_per_hour } in list {
        let place = zone_id.filter(|zone| !zone.is_empty()).unwrap_or(region);
        rates.entry(format!("{cloud} {place} {instance_type} {purchase}")).or_default().push(rate_usd_per_hour);
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
