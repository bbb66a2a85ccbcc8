//! Answers of AWS that moto does not have or has as a constant, from rows that a test gives.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::proxy::{Call, Rule};

/// A spot price that EC2 wrote down some hours ago.
#[derive(Clone, Debug)]
pub struct Spot {
    pub machine: &'static str,
    /// Name of the zone; the region is the name without its last letter.
    pub zone: &'static str,
    pub price: &'static str,
    pub hours_ago: i64,
}

/// DescribeSpotPriceHistory over these rows, `page` rows at a time. From now on, EC2 gives the last price of each pool; from an
/// earlier time on, every price since.
pub fn spot_history(rows: Vec<Spot>, page: usize) -> Rule {
    Rule::answer("DescribeSpotPriceHistory", move |call| {
        let (machines, now) = (call.parameters("InstanceType"), Timestamp::now());
        let is_asked =
            |row: &&Spot| machines.iter().any(|machine| machine == row.machine) && row.zone.starts_with(&call.region);
        let mut found: Vec<&Spot> = rows.iter().filter(is_asked).collect();
        found.sort_by_key(|row| row.hours_ago);
        let since: Timestamp = call.parameter("StartTime").and_then(|time| time.parse().ok()).unwrap_or(now);
        if now.duration_since(since) < SignedDuration::from_hours(1) {
            let mut pools = std::collections::HashSet::new();
            found.retain(|row| pools.insert((row.machine, row.zone)));
        }
        let start: usize = call.parameter("NextToken").and_then(|token| token.parse().ok()).unwrap_or(0);
        let items = found.iter().skip(start).take(page).map(|row| {
            let written = now - SignedDuration::from_hours(row.hours_ago);
            format!(
                "<item><instanceType>{}</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>{}</spotPrice>\
                 <timestamp>{written:.3}</timestamp><availabilityZone>{}</availabilityZone></item>",
                row.machine, row.price, row.zone
            )
        });
        let token = if start + page < found.len() { (start + page).to_string() } else { String::new() };
        let items = format!(
            "<spotPriceHistorySet>{}</spotPriceHistorySet><nextToken>{token}</nextToken>",
            items.collect::<String>()
        );
        call.reply(ec2("DescribeSpotPriceHistory", &items))
    })
}

/// An answer of EC2 around its content.
pub fn ec2(action: &str, content: &str) -> String {
    format!(
        "<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>{content}</{action}Response>"
    )
}

/// Machine type, region, zone id, score.
pub fn placement_scores(rows: Vec<(&'static str, &'static str, &'static str, u8)>) -> Rule {
    Rule::answer("GetSpotPlacementScores", move |call| {
        let (machines, regions) = (call.parameters("InstanceType"), call.parameters("RegionName"));
        let is_asked = |(machine, region, ..): &&(&str, &str, &str, u8)| {
            machines.iter().any(|m| m == machine) && regions.iter().any(|r| r == region)
        };
        let item = |(_, region, zone, score): &(&str, &str, &str, u8)| {
            format!(
                "<item><region>{region}</region><availabilityZoneId>{zone}</availabilityZoneId><score>{score}</score></item>"
            )
        };
        let items: String = rows.iter().filter(is_asked).map(item).collect();
        call.reply(ec2("GetSpotPlacementScores", &format!("<spotPlacementScoreSet>{items}</spotPlacementScoreSet>")))
    })
}

/// Machine type, name of the zone, hours until the start, upfront fee of the whole. As many machines for as long as is asked.
pub fn capacity_blocks(rows: Vec<(&'static str, &'static str, i64, &'static str)>) -> Rule {
    Rule::answer("DescribeCapacityBlockOfferings", move |call| {
        let machine = call.parameter("InstanceType").unwrap_or_default();
        let (count, span) = (call.parameter("InstanceCount"), call.parameter("CapacityDurationHours"));
        let (count, span) = (count.unwrap_or_default(), span.unwrap_or_default());
        let item = |(machine, zone, hours, fee): &(&str, &str, i64, &str)| {
            let starts = Timestamp::now() + SignedDuration::from_hours(*hours);
            format!(
                "<item><capacityBlockOfferingId>cb-{hours}</capacityBlockOfferingId><instanceType>{machine}</instanceType>\
                 <availabilityZone>{zone}</availabilityZone><instanceCount>{count}</instanceCount><startDate>{starts:.3}</startDate>\
                 <capacityBlockDurationHours>{span}</capacityBlockDurationHours><upfrontFee>{fee}</upfrontFee><currencyCode>USD</currencyCode></item>"
            )
        };
        let is_asked = |(name, zone, ..): &&(&str, &str, i64, &str)| *name == machine && zone.starts_with(&call.region);
        let items: String = rows.iter().filter(is_asked).map(item).collect();
        call.reply(ec2(
            "DescribeCapacityBlockOfferings",
            &format!("<capacityBlockOfferingSet>{items}</capacityBlockOfferingSet>"),
        ))
    })
}

/// Machine type, region, currency, price: products of the price list, which are JSON in a text.
pub fn products(rows: Vec<(&'static str, &'static str, &'static str, &'static str)>) -> Rule {
    Rule::answer("GetProducts", move |call| {
        let question: Value = serde_json::from_str(&call.body).unwrap_or_default();
        let filter = |wanted: &str| {
            let filters = question["Filters"].as_array().into_iter().flatten();
            filters.filter(|filter| filter["Field"] == wanted).find_map(|filter| filter["Value"].as_str())
        };
        let found = rows.iter().filter(|(machine, ..)| filter("instanceType") == Some(*machine));
        let products: Vec<String> =
            found.map(|(machine, region, currency, price)| product(machine, region, currency, price)).collect();
        call.reply(json!({"FormatVersion": "aws_v1", "PriceList": products}).to_string())
    })
}

fn product(machine: &str, region: &str, currency: &str, price: &str) -> String {
    let attributes = json!({"instanceType": machine, "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", "locationType": "AWS Region"});
    let mut of_unit = json!({});
    of_unit[currency] = price.into();
    let dimensions = json!({"sku.1": {"unit": "Hrs", "pricePerUnit": of_unit}});
    json!({"product": {"productFamily": "Compute Instance", "attributes": attributes},
        "terms": {"OnDemand": {"sku": {"priceDimensions": dimensions}}}})
    .to_string()
}

/// Code, name, value: what GetServiceQuota and ListServiceQuotas say.
pub fn quotas(rows: Vec<(&'static str, &'static str, f64)>) -> Vec<Rule> {
    let quota = |(code, name, value): &(&str, &str, f64)| json!({"ServiceCode": "ec2", "QuotaCode": code, "QuotaName": name, "Value": value});
    let all: Vec<Value> = rows.iter().map(quota).collect();
    let one = all.clone();
    let get = move |call: &Call| {
        let question: Value = serde_json::from_str(&call.body).unwrap_or_default();
        match one.iter().find(|quota| quota["QuotaCode"] == question["QuotaCode"]) {
            Some(quota) => call.reply(json!({"Quota": quota}).to_string()),
            None => call.refusal(400, "NoSuchResourceException", "no such quota"),
        }
    };
    let list = move |call: &Call| call.reply(json!({"Quotas": all}).to_string());
    vec![Rule::answer("GetServiceQuota", get), Rule::answer("ListServiceQuotas", list)]
}
