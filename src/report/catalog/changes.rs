//! Prices that moved since a moment: as a table, and as JSON.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::fit::{FlexibleColumn, fit};
use crate::text::format::rate;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_hardware::Hardware;
use gpuplan_market::Purchase;
use gpuplan_market::changes::{Change, Sighting};
use gpuplan_units::UsdPerHour;

pub fn table(changes: &[Change], hardware: &Hardware, width: u16) -> String {
    let flexible = [
        FlexibleColumn::elastic(Column::left("machine", 0), 14),
        FlexibleColumn::elastic(Column::left("place", 0), 14),
        FlexibleColumn::needed(Column::left("terms", 0), 9),
        FlexibleColumn::needed(Column::right("$/h before", 0), 8),
        FlexibleColumn::needed(Column::right("$/h now", 0), 8),
        FlexibleColumn::needed(Column::right("change", 0), 8),
    ];
    let seen = |sighting: Option<Sighting>| {
        sighting.map_or(String::new(), |sighting| rate(sighting.rate).trim_start_matches('$').to_owned())
    };
    let row = |change: &Change| {
        let instance = hardware.instance(change.instance);
        let word = match (change.rise(), change.after) {
            (Some(rise), _) => format!("{:+.1} %", rise * 100.0),
            (None, Some(_)) => "new".to_owned(),
            (None, None) => "gone".to_owned(),
        };
        vec![
            instance.name.clone(),
            format!("{} {}", instance.cloud, change.place.zone_id.as_deref().unwrap_or(&change.place.region)),
            change.purchase.to_string(),
            seen(change.before),
            seen(change.after),
            word,
        ]
    };
    let mut rows: Vec<Vec<String>> = changes.iter().map(row).collect();
    let columns = fit(&flexible, &mut rows, width);
    render(&columns, rows, width)
}

/// `gpuplan prices --since TIME -o json`.
#[derive(Serialize, JsonSchema)]
pub struct PriceChanges<'a> {
    version: u32,
    since: Timestamp,
    changes: Vec<PriceChange<'a>>,
}

/// What became of one machine's price in one place on one kind of terms.
#[derive(Serialize, JsonSchema)]
struct PriceChange<'a> {
    cloud: &'a str,
    /// What the cloud calls the machine.
    instance_type: &'a str,
    region: &'a str,
    zone_id: Option<&'a str>,
    purchase: Purchase,
    /// `null`: it is new.
    before_usd_per_hour: Option<UsdPerHour>,
    before_observed_at: Option<Timestamp>,
    /// `null`: the cloud lists the machine there no more.
    after_usd_per_hour: Option<UsdPerHour>,
    after_observed_at: Option<Timestamp>,
    /// Share by which the price rose; `null` where one end is missing.
    rise: Option<f64>,
}

pub fn json(changes: &[Change], since: Timestamp, hardware: &Hardware) -> String {
    let changes = changes.iter().map(|change| PriceChange {
        cloud: hardware.instance(change.instance).cloud.as_str(),
        instance_type: &hardware.instance(change.instance).name,
        region: &change.place.region,
        zone_id: change.place.zone_id.as_deref(),
        purchase: change.purchase,
        before_usd_per_hour: change.before.map(|seen| seen.rate),
        before_observed_at: change.before.map(|seen| seen.observed_at),
        after_usd_per_hour: change.after.map(|seen| seen.rate),
        after_observed_at: change.after.map(|seen| seen.observed_at),
        rise: change.rise(),
    });
    pretty(&PriceChanges { version: VERSION, since, changes: changes.collect() })
}
