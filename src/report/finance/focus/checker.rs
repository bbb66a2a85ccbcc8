//! What the specification demands of a file, checked against column lists that are kept with their source.
#![cfg(test)]

use std::collections::BTreeMap;

use crate::finance::focus::FocusVersion;

const COLUMNS: &str = include_str!("../../../../tests/fixtures/focus/columns.csv");

struct Known {
    level: String,
    kind: String,
    may_be_null: bool,
    allowed: Vec<String>,
}

fn known(version: FocusVersion) -> BTreeMap<String, Known> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(COLUMNS.as_bytes());
    let rows = reader.records().map(|row| row.unwrap());
    let read = |text: &str| text.parse::<FocusVersion>().unwrap();
    let stands = |row: &csv::StringRecord| (read(&row[1])..=read(&row[2])).contains(&version);
    rows.filter(stands)
        .map(|row| {
            let allowed = row[6].split('|').filter(|value| !value.is_empty()).map(str::to_owned).collect();
            (
                row[0].to_owned(),
                Known { level: row[3].to_owned(), kind: row[4].to_owned(), may_be_null: &row[5] == "yes", allowed },
            )
        })
        .collect()
}

/// Everything in the file that the specification forbids.
pub fn problems(version: FocusVersion, text: &str) -> Vec<String> {
    let (known, mut problems) = (known(version), Vec::new());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    for (name, column) in &known {
        if column.level == "mandatory" && !header.contains(name) {
            problems.push(format!("{name} is missing"));
        }
    }
    let first_own = header.iter().position(|name| name.starts_with("x_")).unwrap_or(header.len());
    for (index, name) in header.iter().enumerate() {
        if name.starts_with("x_") {
            continue;
        }
        if index > first_own {
            problems.push(format!("{name} stands after a column of our own"));
        }
        if !known.contains_key(name) {
            problems.push(format!("{name} is no column of FOCUS {version}"));
        }
        if header[..index].contains(name) {
            problems.push(format!("{name} stands twice"));
        }
    }
    let mut categories: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.unwrap();
        let row: BTreeMap<&str, &str> = header.iter().map(String::as_str).zip(record.iter()).collect();
        let cells = row.iter().filter_map(|(name, value)| cell(name, value, known.get(*name)?));
        problems.extend(cells.chain(rules(&row)).map(|problem| format!("row {}: {problem}", index + 1)));
        // ServiceName: "MUST have one and only one ServiceCategory", and should have one ServiceSubcategory.
        let of = |name: &str| row.get(name).copied().unwrap_or_default().to_owned();
        let (service, category) = (of("ServiceName"), ["ServiceCategory", "ServiceSubcategory"].map(of));
        if *categories.entry(service.clone()).or_insert_with(|| category.clone()) != category {
            problems.push(format!("row {}: {service} is of two categories", index + 1));
        }
    }
    problems
}

fn cell(name: &str, value: &str, column: &Known) -> Option<String> {
    if value.is_empty() {
        return (!column.may_be_null).then(|| format!("{name} is null"));
    }
    let is_decimal = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
        [whole, part].iter().all(|half| !half.is_empty() && half.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_right = match column.kind.as_str() {
        "decimal" => is_decimal(value),
        "price" => is_decimal(value) && !value.starts_with('-'),
        "datetime" => value.len() == 20 && value.ends_with('Z') && value.parse::<jiff::Timestamp>().is_ok(),
        "currency" => value.len() == 3 && value.bytes().all(|byte| byte.is_ascii_uppercase()),
        "json" => serde_json::from_str::<serde_json::Value>(value).is_ok_and(|value| value.is_object()),
        "unit" => [
            "Hours",
            "Months",
            "GB",
            "GiB",
            "TB",
            "TiB",
            "GB-Months",
            "GiB-Months",
            "Tokens",
            "Requests",
            "Units",
            "USD",
        ]
        .contains(&value),
        _ => {
            value.trim() == value
                && (column.allowed.is_empty() || column.allowed.iter().any(|allowed| allowed == value))
        }
    };
    (!is_right).then(|| format!("{name} is `{value}`, which is no {} of its column", column.kind))
}

/// What one cell demands of another, by the pages of the columns.
fn rules(row: &BTreeMap<&str, &str>) -> Vec<String> {
    let is_null = |name: &str| row.get(name).is_none_or(|value| value.is_empty());
    let is = |name: &str, value: &str| row.get(name) == Some(&value);
    let mut problems = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            problems.push(what.to_owned());
        }
    };
    let of_sku = [
        "PricingQuantity",
        "PricingUnit",
        "PricingCategory",
        "ListUnitPrice",
        "ContractedUnitPrice",
        "SkuPriceDetails",
    ];
    let is_usage = is("ChargeCategory", "Usage") || is("ChargeCategory", "Purchase");
    for name in [
        "SkuId",
        "SkuPriceId",
        "PricingQuantity",
        "PricingUnit",
        "PricingCategory",
        "ListUnitPrice",
        "ContractedUnitPrice",
    ] {
        demand(!(is_usage && is_null(name)), &format!("{name} is null where something was used"));
        demand(!is("ChargeCategory", "Tax") || is_null(name), &format!("{name} is not null for a tax"));
    }
    for name in of_sku {
        demand(!is_null("SkuPriceId") || is_null(name), &format!("{name} is not null without a SKU price"));
    }
    demand(is_null("SkuMeter") == is_null("SkuId"), "SkuMeter and SkuId are not null together");
    let is_consumed = is("ChargeCategory", "Usage") && !is("CommitmentDiscountStatus", "Unused");
    for name in ["ConsumedQuantity", "ConsumedUnit"] {
        demand(is_null(name) != is_consumed, &format!("{name} is null where it must not be, or the reverse"));
    }
    for name in
        ["CommitmentDiscountCategory", "CommitmentDiscountType", "CommitmentDiscountQuantity", "CommitmentDiscountUnit"]
    {
        demand(
            is_null(name) == is_null("CommitmentDiscountId"),
            &format!("{name} and the commitment are not null together"),
        );
    }
    demand(
        is("PricingCategory", "Committed") != is_null("CommitmentDiscountId"),
        "Committed prices and a commitment go together",
    );
    demand(is_null("RegionName") == is_null("RegionId"), "RegionName and RegionId are not null together");
    demand(is_null("ResourceType") == is_null("ResourceId"), "ResourceType and ResourceId are not null together");
    demand(
        !(is("ChargeFrequency", "Usage-Based") && is("ChargeCategory", "Purchase")),
        "a purchase is not usage-based",
    );
    // One format, so that text compares as time.
    let at = |name: &str| row.get(name).copied().unwrap_or_default();
    demand(at("ChargePeriodStart") <= at("ChargePeriodEnd"), "the charge ends before it begins");
    // Usage that was reported late comes on a later invoice.
    demand(at("ChargePeriodStart") < at("BillingPeriodEnd"), "the charge begins after its billing period");
    // Costs are rounded to the nano-dollar, so a product is right within that.
    let number = |name: &str| at(name).parse::<f64>().ok();
    for (price, cost) in [("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")] {
        if let (Some(price), Some(quantity), Some(cost)) = (number(price), number("PricingQuantity"), number(cost)) {
            let far = (price * quantity - cost).abs() > 2e-9 + 1e-9 * cost.abs();
            demand(!far || quantity == 0.0, "a unit price times its quantity is not the cost");
        }
    }
    problems
}
