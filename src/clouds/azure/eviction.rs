//! From rows of Azure's `SpotResources` table to eviction bands. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::listing::Rows;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_market::{Location, RiskAnswer, Signal, SourceNote};

/// Id of this source.
pub const SOURCE: &str = "azure-eviction-rates";

/// One answer of Resource Graph. Unknown fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Page {
    pub data: Rows<EvictionRow>,
    #[serde(rename = "$skipToken")]
    pub skip_token: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EvictionRow {
    sku: Value,
    location: Value,
    rate: Value,
}

/// The bands of known machine types. A band is percent of machines within an hour, as Azure documents it, so it is a signal
/// and not a monthly share.
pub fn list(rows: &Rows<EvictionRow>, hardware: &Hardware, cloud: &CloudId, answer: &mut RiskAnswer) {
    if rows.unreadable > 0 {
        let detail = format!("{} rows cannot be read; they are left out", rows.unreadable);
        answer.notes.push(SourceNote { place: cloud.to_string(), detail });
    }
    for row in &rows.read {
        let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
        let (sku, location) = (text(&row.sku), text(&row.location).to_ascii_lowercase());
        // Resource Graph writes names in lower case.
        let found = hardware.instance_ids().find(|id| {
            let instance = hardware.instance(*id);
            instance.cloud == *cloud && instance.name.eq_ignore_ascii_case(&sku)
        });
        let Some(instance) = found.filter(|_| !location.is_empty()) else { continue };
        match band(row.rate.as_str().unwrap_or_default()) {
            Some((low, high)) => {
                let place = Location { region: location.as_str().into(), zone_id: None };
                answer.signals.push((instance, place, Signal::HourlyEvictionPercent { low, high }));
            }
            None => answer.notes.push(SourceNote {
                place: format!("{location}, {}", hardware.instance(instance).name),
                detail: format!("`{}` is not a band of percent; it is left out", text(&row.rate)),
            }),
        }
    }
}

/// `0-5`, `5-10` … or `20+`.
fn band(text: &str) -> Option<(u8, u8)> {
    let (low, high) = match text.trim().strip_suffix('+') {
        Some(low) => (low, "100"),
        None => text.trim().split_once('-')?,
    };
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low < high && high <= 100).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;

    fn read(rows: Value) -> RiskAnswer {
        let page: Page = serde_json::from_value(json!({ "data": rows })).unwrap();
        let mut answer = RiskAnswer::default();
        list(&page.data, &HARDWARE, &CloudId::new("azure"), &mut answer);
        answer
    }

    #[test]
    fn bands_are_signals_of_their_region() {
        let answer = read(json!([
            { "sku": "standard_nd96isr_h100_v5", "location": "EastUS", "rate": "5-10" },
            { "sku": "Standard_NC24ads_A100_v4", "location": "westus3", "rate": "20+" },
            { "sku": "Standard_NC24ads_A100_v4", "location": "westus", "rate": "N/A*" },
            { "sku": "Standard_D2s_v5", "location": "eastus", "rate": "0-5" },
            { "sku": null, "location": 7 },
        ]));
        let found: Vec<_> = answer.signals.iter().map(|(_, place, signal)| (&*place.region, *signal)).collect();
        let band = |low, high| Signal::HourlyEvictionPercent { low, high };
        assert_eq!(found, [("eastus", band(5, 10)), ("westus3", band(20, 100))]);
        assert_eq!(answer.notes.len(), 1);
        assert!(answer.risks.is_empty(), "a share an hour is no share of a month");
    }

    proptest! {
        #[test]
        fn any_text_is_a_band_or_none(text in ".{0,12}") {
            prop_assert!(band(&text).is_none_or(|(low, high)| low < high && high <= 100));
        }
    }
}
