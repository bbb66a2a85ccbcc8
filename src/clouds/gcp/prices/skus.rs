//! From rows of the Cloud Billing Catalog to priced parts of GPU machines. Pure: rows in, parts or notes out.
//!
//! A row says what it is in a sentence, such as `Spot Preemptible A3 Instance Core running in Americas`. Only sentences whose
//! subject stands in the tables below are parts; every other of the tens of thousands of rows is none of ours. That is why
//! `Custom`, `Sole Tenancy`, `Premium` and `suspended` need no rule: no subject of the tables has such a word.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use gpuplan_market::{Purchase, SourceNote};

/// Something that a machine is billed for. The text is for people and the same for every name of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A vCPU of a machine series.
    Core(&'static str),
    /// Memory of a machine series.
    Memory(&'static str),
    Gpu(&'static str),
    /// A whole machine's share of one GPU, or of an eighth of one: cores, memory and disks are in its price.
    Share(&'static str),
    LocalSsd,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(series) => write!(f, "cores of {series}"),
            Self::Memory(series) => write!(f, "memory of {series}"),
            Self::Gpu(name) => write!(f, "the GPU {name}"),
            Self::Share(name) => write!(f, "the machine share of {name}"),
            Self::LocalSsd => f.write_str("local SSD"),
        }
    }
}

/// What a rate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Hour,
    GibibyteHour,
    /// Decimal, 10^9 bytes.
    GigabyteHour,
    GibibyteMonth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRate {
    /// Nano-dollars for one unit, above zero.
    pub nanos: i64,
    pub unit: Unit,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    pub part: Part,
    pub purchase: Purchase,
    pub regions: Vec<Arc<str>>,
    pub rate: PartRate,
    /// The catalog's own id, for a note.
    pub id: String,
}

pub const A2: &str = "A2";
pub const A3: &str = "A3";
pub const A3_MEGA: &str = "A3 Mega";
pub const A3_ULTRA: &str = "A3 Ultra";
pub const G2: &str = "G2";
pub const G4: &str = "G4";
pub const N1: &str = "N1";

/// Machine series as the catalog spells them, in lower case.
const SERIES: &[(&str, &str)] = &[
    ("a2", A2),
    ("a3", A3),
    ("a3plus", A3_MEGA),
    ("a3ultra", A3_ULTRA),
    ("g2", G2),
    ("g4", G4),
    ("n1 predefined", N1),
];

pub const A100_40: &str = "A100 40GB";
pub const A100_80: &str = "A100 80GB";
pub const H100: &str = "H100 80GB";
pub const H100_MEGA: &str = "H100 80GB Mega";
pub const H200: &str = "H200 141GB";
pub const B200: &str = "B200";
pub const L4: &str = "L4";
pub const P100: &str = "P100";
pub const T4: &str = "T4";
pub const V100: &str = "V100";
pub const RTX_PRO_6000: &str = "RTX PRO 6000";
pub const RTX_PRO_6000_EIGHTH: &str = "an eighth of RTX PRO 6000";

/// Other subjects, in lower case. The Mega GPU has three names, B200 is sold with all that is around it, and an eighth of an
/// RTX PRO 6000 costs more than an eighth of the whole machine.
const SUBJECTS: &[(&str, Part)] = &[
    ("nvidia tesla a100 gpu", Part::Gpu(A100_40)),
    ("nvidia tesla a100 80gb gpu", Part::Gpu(A100_80)),
    ("nvidia a100 80gb gpu", Part::Gpu(A100_80)),
    ("nvidia h100 80gb gpu", Part::Gpu(H100)),
    ("nvidia h100 80gb mega gpu", Part::Gpu(H100_MEGA)),
    ("nvidia h100 mega 80gb gpu", Part::Gpu(H100_MEGA)),
    ("nvidia h100 80gb plus gpu", Part::Gpu(H100_MEGA)),
    ("h200 141gb gpu", Part::Gpu(H200)),
    ("nvidia h200 141gb gpu", Part::Gpu(H200)),
    ("nvidia l4 gpu", Part::Gpu(L4)),
    ("nvidia tesla t4 gpu", Part::Gpu(T4)),
    ("nvidia tesla v100 gpu", Part::Gpu(V100)),
    ("nvidia tesla p100 gpu", Part::Gpu(P100)),
    ("rtx 6000 96gb", Part::Gpu(RTX_PRO_6000)),
    ("a4 nvidia b200 (1 gpu slice)", Part::Share(B200)),
    ("1/8 vgpu no lssd", Part::Share(RTX_PRO_6000_EIGHTH)),
    ("ssd backed local storage", Part::LocalSsd),
    ("local ssd", Part::LocalSsd),
];

/// A page of the catalog. Rows are read one by one, so that a strange one costs only itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Page {
    pub skus: Vec<Value>,
    pub next_page_token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkuRow {
    sku_id: String,
    #[serde(default)]
    service_regions: Vec<Arc<str>>,
    #[serde(default)]
    pricing_info: Vec<Pricing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pricing {
    pricing_expression: Expression,
    effective_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expression {
    usage_unit: String,
    tiered_rates: Vec<Tier>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tier {
    #[serde(default)]
    start_usage_amount: f64,
    unit_price: Money,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Money {
    currency_code: String,
    /// Whole dollars; a text, since it is a 64-bit integer.
    #[serde(default)]
    units: Value,
    /// Thousand-millionths of a dollar.
    #[serde(default)]
    nanos: i64,
}

/// `None`: the row is about something else. A row that is about a part and has no usable price is a note.
pub fn read(row: &Value, answered_at: Timestamp) -> Option<Result<Priced, SourceNote>> {
    let description = row.get("description")?.as_str()?;
    let usage_type = row.pointer("/category/usageType").and_then(Value::as_str).unwrap_or_default();
    let (part, purchase) = classify(description, usage_type)?;
    let note =
        |detail: String| SourceNote { place: format!("`{description}`"), detail: format!("{detail}; it is left out") };
    let priced = SkuRow::deserialize(row)
        .map_err(|error| error.to_string())
        .and_then(|row| price(row, part, purchase, answered_at));
    Some(priced.map_err(note))
}

fn price(row: SkuRow, part: Part, purchase: Purchase, answered_at: Timestamp) -> Result<Priced, String> {
    // A timeline in the order of time; without a range in the question it has one entry.
    let newest = row.pricing_info.last().ok_or("it has no price")?;
    if newest.effective_time.is_some_and(|time| time > answered_at) {
        return Err("its price holds only in the future".to_owned());
    }
    let expression = &newest.pricing_expression;
    let unit = match (part, expression.usage_unit.as_str()) {
        (Part::Core(_) | Part::Gpu(_) | Part::Share(_), "h") => Unit::Hour,
        (Part::Memory(_) | Part::LocalSsd, "GiBy.h") => Unit::GibibyteHour,
        (Part::Memory(_), "GBy.h") => Unit::GigabyteHour,
        (Part::LocalSsd, "GiBy.mo") => Unit::GibibyteMonth,
        (_, other) => return Err(format!("its unit `{other}` is not one of this part")),
    };
    let [Tier { start_usage_amount, unit_price }] = expression.tiered_rates.as_slice() else {
        return Err(format!("it has {} rates by amount", expression.tiered_rates.len()));
    };
    if *start_usage_amount != 0.0 {
        return Err(format!("its rate begins at {start_usage_amount} units"));
    }
    if unit_price.currency_code != "USD" {
        return Err(format!("its price is in `{}`, not in dollars", unit_price.currency_code));
    }
    let nanos = nanos(unit_price).filter(|nanos| *nanos > 0).ok_or("its price is zero or unreadable")?;
    if row.service_regions.is_empty() {
        return Err("it names no region".to_owned());
    }
    Ok(Priced { part, purchase, regions: row.service_regions, rate: PartRate { nanos, unit }, id: row.sku_id })
}

fn nanos(money: &Money) -> Option<i64> {
    let units = match &money.units {
        Value::Null => 0,
        Value::String(text) => text.parse().ok()?,
        Value::Number(number) => number.as_i64()?,
        _ => return None,
    };
    // A negative fraction beside a whole part would be another price than the sum.
    if units < 0 || !(0..1_000_000_000).contains(&money.nanos) {
        return None;
    }
    units.checked_mul(1_000_000_000)?.checked_add(money.nanos)
}

/// Part and terms of a sentence. What the words say goes before `usageType`: Google files spot B200 and all of its
/// scheduled terms under `OnDemand`.
fn classify(description: &str, usage_type: &str) -> Option<(Part, Purchase)> {
    let sentence = description.to_lowercase();
    let (lead, rest) = [
        "commitment v1: ",
        "spot preemptible ",
        "preemptible ",
        "dws calendar mode ",
        "dws defined duration ",
        "reserved ",
    ]
    .into_iter()
    .find_map(|lead| Some((lead.trim_end(), sentence.strip_prefix(lead)?)))
    .unwrap_or(("", &sentence));
    let (subject, tail) = match rest.split_once(" attached to ").or_else(|| rest.split_once(" running in ")) {
        Some(split) => split,
        None => rest.split_once(" in ").unwrap_or((rest, "")),
    };
    let part = part(subject)?;
    let purchase = match (lead, usage_type) {
        ("commitment v1:", "Commit1Yr") if has_years(tail, "1") => Purchase::Commitment { years: 1 },
        ("commitment v1:", "Commit3Yr") if has_years(tail, "3") => Purchase::Commitment { years: 3 },
        ("commitment v1:", _) => return None,
        (_, "OnDemand" | "Preemptible") => hourly(lead, tail, usage_type)?,
        _ => return None,
    };
    Some((part, purchase))
}

/// `for 1 Year`, which is not always in the singular.
fn has_years(tail: &str, years: &str) -> bool {
    [format!("for {years} year"), format!("for {years} years")].iter().any(|end| tail.ends_with(end.as_str()))
}

fn hourly(lead: &str, tail: &str, usage_type: &str) -> Option<Purchase> {
    let attached = |what: &str| tail.starts_with(what);
    match lead {
        // A reservation alone is billed as what runs in it; only a booked one has a price of its own.
        "reserved" if tail.ends_with("in calendar mode") => Some(Purchase::Calendar),
        "reserved" => None,
        "dws calendar mode" => Some(Purchase::Calendar),
        "dws defined duration" => Some(Purchase::FlexStart),
        "spot preemptible" | "preemptible" => Some(Purchase::Spot),
        _ if attached("spot preemptible vms") || attached("preemptible vms") => Some(Purchase::Spot),
        _ if attached("dws defined duration vms") => Some(Purchase::FlexStart),
        _ if attached("dws calendar mode vms") => Some(Purchase::Calendar),
        _ if usage_type == "Preemptible" => Some(Purchase::Spot),
        _ => Some(Purchase::OnDemand),
    }
}

fn part(subject: &str) -> Option<Part> {
    if let Some((_, part)) = SUBJECTS.iter().find(|(known, _)| *known == subject) {
        return Some(*part);
    }
    let (series, kind) = subject.rsplit_once(' ')?;
    let series = series.strip_suffix(" instance").unwrap_or(series);
    let (_, series) = SERIES.iter().find(|(known, _)| *known == series)?;
    match kind {
        "core" | "cpu" => Some(Part::Core(series)),
        "ram" => Some(Part::Memory(series)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn at() -> Timestamp {
        "2026-07-30T06:13:17Z".parse().unwrap()
    }

    fn row(description: &str, usage_type: &str, unit: &str, units: &Value, nanos: i64) -> Value {
        json!({"skuId": "0", "description": description, "category": {"usageType": usage_type}, "serviceRegions": ["us-central1"],
            "pricingInfo": [{"effectiveTime": "2026-07-01T00:00:00Z", "pricingExpression": {"usageUnit": unit,
                "tieredRates": [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": units, "nanos": nanos}}]}}]})
    }

    #[test]
    fn sentences_of_the_catalog_say_part_and_terms() {
        let (year, years) = (Purchase::Commitment { years: 1 }, Purchase::Commitment { years: 3 });
        for (sentence, usage_type, part, purchase) in [
            ("A2 Instance Core running in Americas", "OnDemand", Part::Core(A2), Purchase::OnDemand),
            ("Spot Preemptible A3 Instance Ram running in Americas", "Preemptible", Part::Memory(A3), Purchase::Spot),
            ("A3Plus Instance Core running in Americas", "OnDemand", Part::Core(A3_MEGA), Purchase::OnDemand),
            ("Commitment v1: A3 Cpu in Iowa for 1 Year", "Commit1Yr", Part::Core(A3), year),
            ("Commitment v1: Nvidia L4 GPU running in Frankfurt for 3 Years", "Commit3Yr", Part::Gpu(L4), years),
            ("DWS Defined Duration A3 Core running in Americas", "OnDemand", Part::Core(A3), Purchase::FlexStart),
            (
                "Nvidia L4 GPU attached to DWS Defined Duration VMs running in Frankfurt",
                "OnDemand",
                Part::Gpu(L4),
                Purchase::FlexStart,
            ),
            ("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", Part::Gpu(H100_MEGA), Purchase::OnDemand),
            (
                "Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Tokyo",
                "Preemptible",
                Part::Gpu(H100),
                Purchase::Spot,
            ),
            (
                "Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode",
                "OnDemand",
                Part::Gpu(H100_MEGA),
                Purchase::Calendar,
            ),
            ("A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", Part::Share(B200), Purchase::OnDemand),
            (
                "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas",
                "OnDemand",
                Part::Share(B200),
                Purchase::Spot,
            ),
            (
                "DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) running in Americas",
                "OnDemand",
                Part::Share(B200),
                Purchase::Calendar,
            ),
            (
                "RTX 6000 96GB attached to Spot Preemptible VMs running in Iowa",
                "Preemptible",
                Part::Gpu(RTX_PRO_6000),
                Purchase::Spot,
            ),
            ("1/8 vGPU no lssd running in Iowa", "OnDemand", Part::Share(RTX_PRO_6000_EIGHTH), Purchase::OnDemand),
            ("SSD backed Local Storage", "OnDemand", Part::LocalSsd, Purchase::OnDemand),
            (
                "SSD backed Local Storage attached to Spot Preemptible VMs",
                "Preemptible",
                Part::LocalSsd,
                Purchase::Spot,
            ),
            ("Commitment v1: Local SSD In Iowa for 1 Year", "Commit1Yr", Part::LocalSsd, year),
            ("Nvidia Tesla A100 GPU running in Americas", "Preemptible", Part::Gpu(A100_40), Purchase::Spot),
            ("N1 Predefined Instance Core running in Americas", "OnDemand", Part::Core(N1), Purchase::OnDemand),
            (
                "Spot Preemptible N1 Predefined Instance Ram running in Americas",
                "Preemptible",
                Part::Memory(N1),
                Purchase::Spot,
            ),
            ("Nvidia Tesla T4 GPU running in Americas", "OnDemand", Part::Gpu(T4), Purchase::OnDemand),
            (
                "Nvidia Tesla V100 GPU attached to Spot Preemptible VMs running in Americas",
                "Preemptible",
                Part::Gpu(V100),
                Purchase::Spot,
            ),
        ] {
            assert_eq!(classify(sentence, usage_type), Some((part, purchase)), "{sentence}");
        }
    }

    #[test]
    fn other_rows_are_no_parts() {
        for (sentence, usage_type) in [
            ("Reserved A2 Ram in Netherlands", "OnDemand"),
            ("N2 Custom Instance Core running in Americas", "OnDemand"),
            ("Sole Tenancy Premium for A2 Sole Tenancy Instance Core running in Americas", "OnDemand"),
            ("Nvidia L4 Virtual Workstation GPU running in Americas", "OnDemand"),
            ("Commitment v1: A2 Cpu in Iowa for 5 Years", "Commit"),
            ("Commitment v1: A2 Cpu in Iowa for 3 Years", "Commit1Yr"),
            ("Committed Use Discount Premium for A2 Instance Core running in Iowa", "CmtCudPremium"),
            ("VM state: preserved local SSD in Bangkok", "OnDemand"),
            ("A2 Instance Core running in Americas", "Commit1Yr"),
            ("Network Vpn Internet Egress from Americas to Africa", "OnDemand"),
            ("", "OnDemand"),
        ] {
            assert_eq!(classify(sentence, usage_type), None, "{sentence}");
        }
    }

    #[test]
    fn a_price_is_whole_dollars_and_nanos_and_nothing_else() {
        let gpu = "Nvidia H100 80GB GPU running in Americas";
        let read = |row: &Value| read(row, at()).unwrap();
        let priced = read(&row(gpu, "OnDemand", "h", &json!("9"), 796_550_569)).unwrap();
        assert_eq!(
            (priced.rate.nanos, priced.rate.unit, &*priced.regions[0]),
            (9_796_550_569, Unit::Hour, "us-central1")
        );
        for bad in [
            row(gpu, "OnDemand", "h", &json!("0"), 0),
            row(gpu, "OnDemand", "h", &json!("-1"), 0),
            row(gpu, "OnDemand", "h", &json!("1"), -5),
            row(gpu, "OnDemand", "h", &json!("nine"), 0),
            row(gpu, "OnDemand", "h", &json!("9223372036854775807"), 0),
            row(gpu, "OnDemand", "GiBy.h", &json!("9"), 0),
            json!({"description": gpu, "category": {"usageType": "OnDemand"}}),
        ] {
            let note = read(&bad).unwrap_err();
            assert!(note.place.contains(gpu) && note.detail.ends_with("it is left out"), "{note}");
        }
        let mut later = row(gpu, "OnDemand", "h", &json!("9"), 0);
        later["pricingInfo"][0]["effectiveTime"] = json!("2027-01-01T00:00:00Z");
        assert!(read(&later).unwrap_err().detail.contains("future"));
        let mut euro = row(gpu, "OnDemand", "h", &json!("9"), 0);
        euro["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]["currencyCode"] = json!("EUR");
        assert!(read(&euro).unwrap_err().detail.contains("EUR"));
    }

    proptest! {
        #[test]
        fn what_is_no_row_of_a_part_is_none_and_a_part_has_a_price_or_a_note(
            text in ".{0,200}", units in any::<i64>(), nanos in any::<i64>(), unit in "h|[A-Za-z.]{0,8}",
        ) {
            for row in [json!(text), json!({"description": text, "category": text})] {
                prop_assert!(read(&row, at()).is_none(), "{row}");
            }
            let gpu = row("Nvidia L4 GPU running in Americas", "OnDemand", &unit, &json!(units.to_string()), nanos);
            let amount = i128::from(units) * 1_000_000_000 + i128::from(nanos);
            let is_price = units >= 0 && (0..1_000_000_000).contains(&nanos) && (1..=i128::from(i64::MAX)).contains(&amount) && unit == "h";
            match read(&gpu, at()) {
                Some(Ok(priced)) => prop_assert!(is_price && i128::from(priced.rate.nanos) == amount),
                Some(Err(note)) => prop_assert!(!is_price && note.place.contains("Nvidia L4 GPU")),
                None => prop_assert!(false, "a GPU is a part"),
            }
        }
    }
}
