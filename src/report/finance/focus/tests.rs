//! Actual and forecast charges of every kind, in every version, against what the specification demands.
#![cfg(test)]

use std::collections::BTreeMap;

use crate::finance::focus::checker::problems;
use crate::finance::focus::{FocusError, FocusVersion, write};
use gpuplan_budget::{Allocation, Charge, Costs, Invoice, Item, Nature, Resource, Waste};
use gpuplan_units::Usd;

const VERSIONS: [FocusVersion; 3] = [FocusVersion::V1_2, FocusVersion::V1_3, FocusVersion::V1_4];

fn usd(text: &str) -> Usd {
    text.strip_prefix('-').map_or_else(|| Usd::parse(text).unwrap(), |size| Usd::ZERO - Usd::parse(size).unwrap())
}

/// Four hours of one machine on spot.
fn charge() -> Charge {
    Charge {
        id: "run-1/1/0".to_owned(),
        nature: Nature::Actual,
        item: Item::Machines,
        allocation: Allocation {
            run: Some("run-1".to_owned()),
            team: Some("vision".to_owned()),
            tags: BTreeMap::from([("project".to_owned(), "a \"b\" <c>, d".to_owned())]),
        },
        start: "2026-10-31T22:30:15.5Z".parse().unwrap(),
        end: "2026-11-01T02:30:15.5Z".parse().unwrap(),
        resource: Resource {
            cloud: "aws".to_owned(),
            region: Some("us-east-1".to_owned()),
            zone: Some("use1-az4".to_owned()),
            id: Some("i-0123".to_owned()),
            instance_type: Some("p5.48xlarge".to_owned()),
            gpu: Some("h100-sxm5-80".to_owned()),
            gpus: Some(8.0),
            purchase: Some("spot".to_owned()),
        },
        quantity: 4.0,
        unit: "hour".to_owned(),
        unit_price: usd("20.015625"),
        costs: Costs {
            list: usd("220.16"),
            contracted: usd("80.0625"),
            effective: usd("80.0625"),
            billed: Some(usd("80.0625")),
        },
        waste: None,
        source: "aws spot price".to_owned(),
        priced_at: Some("2026-10-31T22:00:00Z".parse().unwrap()),
        assumption: String::new(),
        invoice: None,
    }
}

fn forecast() -> Charge {
    let costs = Costs {
        list: usd("35209.922883871"),
        contracted: usd("35209.922883871"),
        effective: usd("35209.922883871"),
        billed: None,
    };
    Charge {
        id: "portfolio/3".to_owned(),
        nature: Nature::Forecast { p50: usd("32449.67"), p90: usd("49576.34") },
        resource: Resource { id: None, zone: None, ..charge().resource },
        quantity: 1759.7,
        unit: "machine-hour".to_owned(),
        unit_price: usd("20.01"),
        costs,
        assumption: "10 interruptions".to_owned(),
        ..charge()
    }
}

fn every_kind() -> Vec<Charge> {
    let items = [
        Item::Machines,
        Item::Fallback,
        Item::LostWork,
        Item::Disk,
        Item::CheckpointStorage,
        Item::Egress,
        Item::UnusedCommitment,
        Item::Credit,
        Item::Tax,
        Item::Other,
    ];
    let mut all: Vec<Charge> =
        items.into_iter().flat_map(|item| [Charge { item, ..charge() }, Charge { item, ..forecast() }]).collect();
    for purchase in ["on-demand", "commitment", "reserved", "capacity-block", "spot-with-fallback"] {
        let resource = Resource { purchase: Some(purchase.to_owned()), ..charge().resource };
        all.push(Charge { resource, ..charge() });
    }
    let back = usd("-12.50");
    let costs = Costs { list: back, contracted: back, effective: back, billed: Some(back) };
    all.push(Charge {
        item: Item::Credit,
        unit_price: back,
        quantity: 1.0,
        unit: "unit".to_owned(),
        costs,
        ..charge()
    });
    // A late line of September on the invoice of October, and usage that an invoice takes back.
    let invoice = Invoice { account: "7".to_owned(), month: "2026-11".to_owned(), id: Some("INV-1".to_owned()) };
    all.push(Charge { unit: "sum".to_owned(), quantity: 1.0, invoice: Some(invoice), ..charge() });
    all.push(Charge { unit_price: back, quantity: 1.0, unit: "sum".to_owned(), costs, ..charge() });
    all.push(Charge { item: Item::UnusedCommitment, unit: "committed dollar".to_owned(), ..charge() });
    all.push(Charge { item: Item::Tax, unit: "USD".to_owned(), ..charge() });
    all.push(Charge { waste: Some(Waste::Redone), ..charge() });
    all.push(Charge {
        resource: Resource { cloud: "nebius".to_owned(), ..Resource::default() },
        allocation: Allocation::default(),
        quantity: 0.0,
        ..charge()
    });
    all
}

/// Rows of a file by the names of their columns.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn every_kind_of_charge_keeps_every_rule_of_every_version() {
    for version in VERSIONS {
        let text = write(version, &every_kind(), None).unwrap();
        let found = problems(version, &text);
        assert!(found.is_empty(), "FOCUS {version}:\n{}", found.join("\n"));
        assert_eq!(rows(&text).len(), every_kind().len());
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let text = write(FocusVersion::V1_3, &[charge()], None).unwrap();
    let broken = [
        (FocusVersion::V1_3, "BilledCost", "BilledCosts", "BilledCost is missing"),
        (FocusVersion::V1_4, "", "", "ProviderName is no column of FOCUS 1.4"),
        (FocusVersion::V1_2, "", "", "ServiceProviderName is no column of FOCUS 1.2"),
        (FocusVersion::V1_4, "", "", "InvoiceDetailId is missing"),
        (FocusVersion::V1_3, "USD", "usd", "BillingCurrency is `usd`"),
        (FocusVersion::V1_3, "2026-10-31T22:30:15Z", "2026-10-31 22:30:15", "ChargePeriodStart is"),
        (FocusVersion::V1_3, "80.0625", "8.0e1", "EffectiveCost is `8.0e1`"),
        (FocusVersion::V1_3, "20.015625", "20.5", "is not the cost"),
        (FocusVersion::V1_3, "Dynamic", "Spot", "PricingCategory is `Spot`"),
        (FocusVersion::V1_3, "Dynamic", "", "PricingCategory is null where something was used"),
        (FocusVersion::V1_3, "Dynamic", "Committed", "go together"),
        (FocusVersion::V1_3, "Usage-Based", "", "ChargeFrequency is null"),
        (FocusVersion::V1_3, ",Usage,", ",Tax,", "SkuPriceId is not null for a tax"),
        (FocusVersion::V1_3, "2026-11-01T00:00:00Z", "2026-10-15T00:00:00Z", "begins after its billing period"),
    ];
    for (version, from, to, expected) in broken {
        let found = problems(version, &text.replace(from, to));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn a_forecast_bills_nothing_and_says_that_it_is_one() {
    let text = write(FocusVersion::V1_4, &[charge(), forecast()], None).unwrap();
    let rows = rows(&text);
    let cells = |row: usize, names: [&str; 5]| names.map(|name| rows[row][name].clone());
    let names = ["BilledCost", "EffectiveCost", "x_Forecast", "x_P50Cost", "x_P90Cost"];
    assert_eq!(cells(0, names), ["80.0625", "80.0625", "false", "", ""]);
    assert_eq!(cells(1, names), ["0.00", "35209.922883871", "true", "32449.67", "49576.34"]);
    assert!(rows[1]["ChargeDescription"].starts_with("Forecast: machines of run run-1"));
    // The month of the begin, in UTC.
    assert_eq!(
        (&*rows[0]["BillingPeriodStart"], &*rows[0]["BillingPeriodEnd"]),
        ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    );
    assert_eq!(
        (&*rows[0]["PricingCategory"], &*rows[0]["ListUnitPrice"], &*rows[0]["ContractedUnitPrice"]),
        ("Dynamic", "55.04", "20.015625")
    );
    let tags: serde_json::Value = serde_json::from_str(&rows[0]["Tags"]).unwrap();
    assert_eq!((&tags["project"], &tags["gpuplan:run"]), (&"a \"b\" <c>, d".into(), &"run-1".into()));
}

#[test]
fn a_line_of_a_bill_stays_with_its_invoice() {
    let invoice = Invoice { account: "7".to_owned(), month: "2026-11".to_owned(), id: Some("INV-1".to_owned()) };
    let text = write(FocusVersion::V1_2, &[Charge { invoice: Some(invoice), ..charge() }], None).unwrap();
    let row = &rows(&text)[0];
    let cells = ["BillingAccountId", "InvoiceId", "BillingPeriodStart", "ChargePeriodStart", "PricingQuantity"];
    assert_eq!(cells.map(|name| &*row[name]), ["7", "INV-1", "2026-11-01T00:00:00Z", "2026-10-31T22:30:15Z", "4.0"]);
    // Usage that was charged before counts backwards: its prices are not negative.
    let back = usd("-80.0625");
    let costs = Costs { list: back, contracted: back, effective: back, billed: Some(back) };
    let text =
        write(FocusVersion::V1_2, &[Charge { costs, unit_price: back, quantity: 1.0, ..charge() }], None).unwrap();
    let row = &rows(&text)[0];
    assert_eq!(
        (&*row["PricingQuantity"], &*row["ListUnitPrice"], &*row["BilledCost"]),
        ("-1.0", "80.0625", "-80.0625")
    );
}

#[test]
fn the_columns_of_each_version_are_its_own() {
    let header = |version| write(version, &[], None).unwrap().trim().split(',').map(str::to_owned).collect::<Vec<_>>();
    let has = |version, name: &str| header(version).iter().any(|known| known == name);
    for (name, expected) in [
        ("ProviderName", [true, true, false]),
        ("PublisherName", [true, true, false]),
        ("ServiceProviderName", [false, true, true]),
        ("HostProviderName", [false, true, true]),
        ("InvoiceDetailId", [false, false, true]),
    ] {
        assert_eq!(VERSIONS.map(|version| has(version, name)), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_written_is_named() {
    let refused = |charge: Charge| write(FocusVersion::V1_2, &[charge], None).unwrap_err();
    assert!(matches!(refused(Charge { unit: "furlong".to_owned(), ..charge() }), FocusError::Unit { .. }));
    assert!(matches!(refused(Charge { quantity: f64::NAN, ..charge() }), FocusError::Quantity { .. }));
    let (start, end) = (charge().end, charge().start);
    assert!(matches!(refused(Charge { start, end, ..charge() }), FocusError::Period { .. }));
    assert_eq!(
        "1.5".parse::<FocusVersion>().unwrap_err().to_string(),
        "`1.5` is not a supported version of FOCUS; try 1.2, 1.3 or 1.4"
    );
}
