//! Tests of `table.rs`.

#![cfg(test)]

use std::collections::BTreeSet;

use super::*;
use crate::bill::sums::Known;
use crate::charge::Costs;
use crate::exchange::ExchangeRate;
use gpuplan_hardware::Hardware;
use gpuplan_units::Usd;

fn read_text(text: &str) -> Result<(Format, Sums), BillError> {
    let mut sums = Sums::default();
    read("bill.csv", None, text.as_bytes(), &mut sums).map(|format| (format, sums))
}

fn billed(text: &str) -> Vec<(String, String, Item, String, f64)> {
    let (format, mut sums) = read_text(text).unwrap();
    let bills = sums.take_bills("h", format.name(), &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
    let charges = bills.iter().flat_map(|bill| &bill.charges);
    charges
        .map(|charge| {
            (
                charge.resource.cloud.clone(),
                charge.allocation.run.clone().unwrap(),
                charge.item,
                charge.costs.billed.unwrap().to_string(),
                charge.quantity,
            )
        })
        .collect()
}

const CUR: &str = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,line_item_unblended_cost,\
    line_item_line_item_type,line_item_usage_type,line_item_usage_amount,resource_tags\n";

#[test]
fn a_cost_and_usage_report_is_read_old_and_new() {
    let lines = format!(
        "{CUR}1,2026-10-01T00:00:00.000Z,2026-10-01T01:00:00.000Z,USD,1.0000000001,Usage,SpotUsage:g5.xlarge,1.0,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
         1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,0.5,Usage,SpotUsage:g5.xlarge,0.5,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
         1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,0.01,Usage,EBS:VolumeUsage.gp3,0.5,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
         1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,9,Usage,BoxUsage:m5.large,0.5,\"{{\"\"user_name\"\":\"\"b\"\"}}\"\n"
    );
    let one = |item, amount: &str, quantity| ("aws".to_owned(), "a".to_owned(), item, amount.to_owned(), quantity);
    assert_eq!(billed(&lines), [one(Item::Machines, "1.50", 1.5), one(Item::Disk, "0.01", 1.0)]);
    let old = "lineItem/UsageStartDate,lineItem/CurrencyCode,lineItem/UnblendedCost,lineItem/LineItemType,lineItem/UsageType,resourceTags/user:gpuplan:run\n\
        2026-10-01T00:00:00Z,USD,-3,EdpDiscount,BoxUsage:p5.48xlarge,a\n";
    assert_eq!(billed(old), [one(Item::Credit, "-3.00", 1.0)]);
}

#[test]
fn effective_cost_follows_the_type_of_the_line_in_an_export_that_is_filled_with_zeros() {
    let head = CUR.replace(
        "line_item_unblended_cost",
        "line_item_unblended_cost,savings_plan_savings_plan_effective_cost,reservation_effective_cost,bill_billing_period_start_date",
    );
    let line = |kind: &str, billed: &str, plan: &str, reservation: &str| {
        format!(
            "1,2026-09-30T23:00:00Z,2026-10-01T00:00:00Z,USD,{billed},{plan},{reservation},2026-10-01T00:00:00Z,{kind},BoxUsage:p5.48xlarge,1,\
             \"{{\"\"user_gpuplan_run\"\":\"\"{kind}\"\"}}\"\n"
        )
    };
    let text = [
        line("Usage", "55.04", "0.0", "0.0"),
        line("SavingsPlanCoveredUsage", "55.04", "31.46", "0.0"),
        line("DiscountedUsage", "0", "0.0", "29.5"),
        line("SavingsPlanNegation", "-55.04", "0.0", "0.0"),
    ];
    let (_, mut sums) = read_text(&format!("{head}{}", text.concat())).unwrap();
    let bills = sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
    assert_eq!(
        (bills.len(), bills[0].month.as_str(), sums.without_period),
        (1, "2026-10", 0),
        "the month of the invoice"
    );
    let effective: Vec<(&str, String)> = bills[0]
        .charges
        .iter()
        .map(|charge| (charge.allocation.run.as_deref().unwrap(), charge.costs.effective.to_string()))
        .collect();
    let expected = [
        ("DiscountedUsage", "29.50"),
        ("SavingsPlanCoveredUsage", "31.46"),
        ("SavingsPlanNegation", "0.00"),
        ("Usage", "55.04"),
    ];
    assert_eq!(effective, expected.map(|(run, amount)| (run, amount.to_owned())));
}

#[test]
fn focus_azure_and_google_are_told_by_their_header() {
    let focus = "BilledCost,ListCost,ContractedCost,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceCategory,\
        ServiceName,ProviderName,BillingAccountId,ConsumedQuantity,ConsumedUnit,Tags\n\
        2.5,5,2.5,2,USD,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,Usage,Compute,Virtual Machines,Microsoft,7,24,Hours,\"{\"\"gpuplan:run\"\":\"\"a\"\"}\"\n\
        0.3,,,,USD,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,Tax,Other,,Microsoft,7,,,\"{\"\"gpuplan:run\"\":\"\"a\"\"}\"\n";
    let one = |cloud: &str, item, amount: &str, quantity| {
        (cloud.to_owned(), "a".to_owned(), item, amount.to_owned(), quantity)
    };
    assert_eq!(billed(focus), [one("azure", Item::Machines, "2.50", 24.0), one("azure", Item::Tax, "0.30", 1.0)]);
    let azure = "\u{feff}Date,CostInBillingCurrency,BillingCurrency,ChargeType,MeterCategory,MeterName,Quantity,UnitOfMeasure,Tags\n\
        10/31/2026,3.2040163817600001E-05,USD,Usage,Virtual Machines,NC24,2,1 Hour,\"\"\"gpuplan_run\"\": \"\"a\"\",\"\"x\"\":\"\"y\"\"\"\n";
    assert_eq!(billed(azure), [one("azure", Item::Machines, "0.00003204", 2.0)]);
    let google = "billing_account_id,usage_start_time,usage_end_time,cost,currency,labels,credits,service.description,sku.description\n\
        A,2026-10-01 00:00:00 UTC,2026-10-01 01:00:00 UTC,2.25,USD,\"[{\"\"key\"\":\"\"gpuplan_run\"\",\"\"value\"\":\"\"a\"\"}]\",\
        \"[{\"\"name\"\":\"\"sud\"\",\"\"amount\"\":-0.25}]\",Compute Engine,Spot Preemptible A100 GPU\n";
    assert_eq!(billed(google), [one("gcp", Item::Machines, "2.25", 1.0), one("gcp", Item::Credit, "-0.25", 1.0)]);
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_column() {
    let said = |text: &str| read_text(text).err().map(|error| error.to_string()).unwrap_or_default();
    let line = |currency: &str, amount: &str, at: &str| {
        format!("{CUR}1,{at},,{currency},{amount},Usage,BoxUsage,1,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n")
    };
    let day = "2026-10-01T00:00:00Z";
    assert!(
        said(&line("EUR", "1", day))
            .starts_with("bill.csv line 2, column `line_item_currency_code`: the bill is in `EUR`")
    );
    assert_eq!(
        said(&line("USD", "1,5", day).replace("1,5", "\"1,5\"")),
        "bill.csv line 2, column `line_item_unblended_cost`: `1,5` is not an amount in dollars, such as 55.04"
    );
    assert_eq!(
        said(&line("USD", "1", "yesterday")),
        "bill.csv line 2, column `line_item_usage_start_date`: `yesterday` is not a valid time, such as 2026-10-01T00:00:00Z"
    );
    assert_eq!(
        said(&CUR.replace("line_item_currency_code", "x")),
        "bill.csv line 1: the column `line_item_currency_code` is missing"
    );
    for (text, why) in [
        ("a,b\n1,2\n", "its columns fit none of them"),
        ("BilledCost;ChargeCategory;Tags\n1;Usage;\n", "separated by `;`"),
        ("BilledCost\tChargeCategory\n1\tUsage\n", "separated by tabs"),
        ("lineItem/referenceNo,lineItem/intervalUsageStart,cost/myCost,cost/currencyCode\n", "FOCUS reports are read"),
        ("InvoiceIssuer,ChargeType,BilledCurrency,BilledCost\n", "FOCUS of before 1.0"),
        ("BillingPeriodStart,BilledCost,ResourceName,Tags\n", "no `ChargeCategory`, which FOCUS demands"),
        ("ChargePeriodStart,ChargeCategory,ContractedCost,Tags\n", "no `BilledCost`, which FOCUS demands"),
    ] {
        let said = said(text);
        assert!(said.contains("is not a known export") && said.contains(why), "{said}");
    }
    assert!(said(&format!("{CUR}1,2\n")).starts_with("bill.csv line 2: "), "{}", said(&format!("{CUR}1,2\n")));
    assert!(
        said(&line("USD", "1", day).replace("\"\"a\"\"}", "\"\"a\"\""))
            .contains("column `resource_tags`: these tags are not valid JSON")
    );
    assert_eq!(
        said(&line("USD", "1", day).replace(",BoxUsage,1,", ",BoxUsage,an hour,")),
        "bill.csv line 2, column `line_item_usage_amount`: `an hour` is not a number of hours"
    );
    let google = "usage_start_time,cost,currency,labels,credits\n\
        2026-10-01,2,USD,\"[{\"\"key\"\":\"\"gpuplan_run\"\",\"\"value\"\":\"\"a\"\"}]\",\"[{\"\"name\"\":\"\"free\"\"}]\"\n";
    assert_eq!(said(google), "bill.csv line 2, column `credits`: the credit {\"name\":\"free\"} has no amount");
}

#[test]
fn an_export_without_tags_is_of_no_run_and_counts() {
    let row = "1,2026-04-02T00:00:00Z,,USD,2.345,Usage,USE1-BoxUsage:p4d.24xlarge,1,prod\n";
    for tags in ["x", "resourceTags/user:environment"] {
        let (_, mut sums) = read_text(&format!("{}{row}", CUR.replace("resource_tags", tags))).unwrap();
        assert_eq!((sums.lines, sums.ours, sums.unread), (1, 0, 0));
        let bills = sums.take_bills("h", "cur", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
        assert_eq!((bills[0].charges.len(), bills[0].others[0].costs.effective.to_string()), (0, "2.345".to_owned()));
    }
}

#[test]
fn lines_of_no_run_in_a_currency_without_a_rate_are_named_by_it() {
    let row = |currency: &str| format!("{CUR}1,2026-04-02T00:00:00Z,,{currency},2.345,Usage,BoxUsage,1,\n");
    for (currency, unread, unrated) in [("inr", 1, &["INR"][..]), ("USD", 0, &[]), ("rupees", 1, &[])] {
        let (_, sums) = read_text(&row(currency)).unwrap();
        assert_eq!(
            (sums.unread, sums.unrated.iter().map(String::as_str).collect::<Vec<_>>()),
            (unread, unrated.to_vec())
        );
    }
}

/// Nobody guesses what it is in: it is stated, as dollars or at a rate.
#[test]
fn a_bill_that_names_no_currency_is_read_in_the_one_that_is_stated() {
    let line = |currency: &str| {
        format!(
            "{CUR}1,2026-10-01T00:00:00Z,,{currency},3.5,Usage,BoxUsage,1,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n"
        )
    };
    let without_column = "bill_payer_account_id,line_item_usage_start_date,line_item_unblended_cost,line_item_line_item_type,line_item_usage_type,\
        resource_tags\n1,2026-10-01T00:00:00Z,3.5,Usage,BoxUsage,\"{\"\"user_gpuplan_run\"\":\"\"a\"\"}\"\n";
    let total = |text: &str, stated: Option<&str>| {
        let rates = BTreeMap::from([("EUR".to_owned(), ExchangeRate::parse("EUR=2").unwrap().1)]);
        let mut sums = Sums::default();
        (sums.unnamed, sums.rates) = (stated.map(str::to_owned), rates);
        read("bill.csv", None, text.as_bytes(), &mut sums).map_err(|error| error.to_string())?;
        let bills = sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
        Ok(bills[0].charges[0].costs.billed.unwrap().to_string())
    };
    for text in [&line(""), without_column] {
        assert_eq!(total(text, Some("usd")), Ok("3.50".to_owned()));
        assert_eq!(total(text, Some("EUR")), Ok("7.00".to_owned()));
    }
    assert_eq!(total(&line("USD"), Some("EUR")), Ok("3.50".to_owned()), "what a line names comes first");
    let column = "column `line_item_currency_code`";
    assert_eq!(total(&line(""), None), Err(format!("bill.csv line 2, {column}: it names no currency")));
    assert_eq!(
        total(without_column, None),
        Err("bill.csv line 1: the column `line_item_currency_code` is missing".to_owned())
    );
    let (_, others) = read_text(&line("").replace("gpuplan_run", "team")).unwrap();
    assert_eq!((others.unread, others.first_unread.is_some()), (1, true));
}

/// What a commitment costs is counted once: in the lines that it covers, and what no line used in the line of its fee.
#[test]
fn the_effective_cost_of_a_commitment_is_what_it_costs() {
    let head = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,line_item_unblended_cost,\
        line_item_line_item_type,line_item_usage_type,line_item_usage_amount,savings_plan_savings_plan_effective_cost,\
        savings_plan_total_commitment_to_date,savings_plan_used_commitment,reservation_effective_cost,\
        reservation_unused_amortized_upfront_fee_for_billing_period,reservation_unused_recurring_fee,reservation_reservation_a_r_n\n";
    let row = |kind: &str, cost: &str, more: &str| format!("1,2026-10-01,,USD,{cost},{kind},BoxUsage,1,{more}\n");
    let effective = |rows: &[String]| {
        let (_, mut sums) = read_text(&format!("{head}{}", rows.concat())).unwrap();
        let bills = sums.take_bills("h", "cur", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
        let sum =
            |of: fn(&Costs) -> Usd| bills[0].others.iter().map(|charge| of(&charge.costs)).sum::<Usd>().to_string();
        (sum(|costs| costs.billed.unwrap()), sum(|costs| costs.effective))
    };
    let plan = [
        row("SavingsPlanCoveredUsage", "0.10", "0.07,0.0,0.0,0.0,0.0,0.0,"),
        row("SavingsPlanNegation", "-0.10", "0.0,0.0,0.0,0.0,0.0,0.0,"),
        row("SavingsPlanRecurringFee", "1.00", "0.0,1.00,0.07,0.0,0.0,0.0,"),
    ];
    assert_eq!(effective(&plan), ("1.00".to_owned(), "1.00".to_owned()));
    let reservation = [
        row("DiscountedUsage", "0.0", "0.0,0.0,0.0,26.5,0.0,0.0,arn"),
        row("RIFee", "36.00", "0.0,0.0,0.0,0.0,0.5,10.00,arn"),
        row("Fee", "12.00", "0.0,0.0,0.0,0.0,0.0,0.0,arn"),
        row("Fee", "5.00", "0.0,0.0,0.0,0.0,0.0,0.0,"),
    ];
    assert_eq!(
        effective(&reservation),
        ("53.00".to_owned(), "42.00".to_owned()),
        "37 of the reservation, 5 of another fee"
    );
    assert_eq!(
        effective(&[row("RIFee", "36.00", ",,,,,,")]).1,
        "36.00",
        "a report that does not say is taken as billed"
    );
}

/// A line of a run in a cost and usage report, and its cells that cannot be read.
fn cur_line(currency: &str, start: &str, amount: &str, hours: &str) -> (String, Vec<String>) {
    let tags = r#""{""user_gpuplan_run"":""a""}""#;
    let line = format!("{CUR}1,{start},,{currency},\"{amount}\",Usage,BoxUsage:p5.48xlarge,{hours},{tags}\n");
    let readable = [
        (currency, matches!(currency, "USD" | "usd")),
        (start, parse_moment(start).is_some()),
        // What is wrong with an amount is told without its sign.
        (amount.strip_prefix('-').unwrap_or(amount), FineUsd::parse(amount).is_ok()),
        (hours, hours.is_empty() || hours.parse::<f64>().is_ok_and(f64::is_finite)),
    ];
    let wrong = readable.into_iter().filter(|(_, is_readable)| !is_readable).map(|(cell, _)| format!("`{cell}`"));
    (line, wrong.chain(currency.is_empty().then(|| "names no currency".to_owned())).collect())
}

/// Columns and kinds of values as github.com/microsoft/finops-toolkit (`EA_ActualCost_Small.csv`, MIT) and github.com/opencost/opencost
/// (`billingexports/headersets`, Apache-2.0) have them; tags are ours.
#[test]
fn bills_of_enterprise_agreements_and_pay_as_you_go_are_read_in_any_language() {
    let tags = "\"\"\"gpuplan:run\"\": \"\"a\"\"\"";
    let one = |amount: &str, hours| ("azure".to_owned(), "a".to_owned(), Item::Machines, amount.to_owned(), hours);
    let enterprise = format!(
        "BillingAccountId,BillingPeriodStartDate,Date,MeterCategory,MeterName,Quantity,EffectivePrice,Cost,BillingCurrency,Tags,UnitOfMeasure,ChargeType\n\
         8611537,09/01/2023,09/04/2023,Virtual Machines,D2 v3/D2s v3,24,0.11,2.64,USD,{tags},1 Hour,Usage\n"
    );
    assert_eq!(billed(&enterprise), [one("2.64", 24.0)]);
    let pay_as_you_go = format!(
        "\u{feff}SubscriptionGuid,UsageDateTime,MeterCategory,MeterName,UsageQuantity,ResourceRate,PreTaxCost,Tags,Currency,UnitOfMeasure\n\
         1,2021-02-02,Virtual Machines,D2 v3,3,0.025,0.075,{tags},USD,1 Hour\n"
    );
    assert_eq!(billed(&pay_as_you_go), [one("0.075", 3.0)]);
    let german = format!(
        "Abonnement-GUID (SubscriptionGuid),UsageDateTime (UsageDateTime),Kategorie der Verbrauchseinheit (MeterCategory),\
         Name der Verbrauchseinheit (MeterName),UsageQuantity (UsageQuantity),PreTaxCost (PreTaxCost),Tags (Tags),Currency,Maßeinheit (UnitOfMeasure)\n\
         1,2021-02-02,Virtual Machines,D2 v3,3,0.075,{tags},USD,1 Hour\n"
    );
    assert_eq!(billed(&german), [one("0.075", 3.0)]);
}

#[test]
fn words_for_nothing_are_nothing() {
    let focus = "BilledCost,BillingAccountId,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ContractedCost,EffectiveCost,ListCost,\
        ProviderName,ServiceCategory,Tags\n0.5,1,USD,Usage,2024-10-01T00:00:00Z,NULL,NULL,None,NULL,AWS,Compute,\"{\"\"gpuplan:run\"\": \"\"a\"\"}\"\n";
    let (_, mut sums) = read_text(focus).unwrap();
    let costs = sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() })[0].charges
        [0]
    .costs;
    assert_eq!([costs.list, costs.contracted, costs.effective].map(|cost| cost.to_string()), ["0.50", "0.50", "0.50"]);
    let said = read_text(&focus.replace("0.5,1,USD", "NULL,1,USD")).unwrap_err().to_string();
    assert!(said.contains("column `BilledCost`"), "what must be there is not nothing: {said}");
}

#[test]
fn other_currencies_are_converted_at_the_rate_that_is_stated_and_at_no_other() {
    use crate::exchange::ExchangeRate;
    let line = |currency: &str, amount: &str, run: &str| {
        format!(
            "1,2026-10-01T00:00:00Z,,{currency},{amount},Usage,BoxUsage,1,\"{{\"\"user_gpuplan_{run}\"\":\"\"a\"\"}}\"\n"
        )
    };
    let text = format!("{CUR}{}{}{}", line("EUR", "-2.5", "run"), line("USD", "1", "run"), line("CAD", "7", "other"));
    assert!(read_text(&text).unwrap_err().to_string().contains("no rate of exchange is stated"));
    let mut sums = Sums::default();
    sums.rates.extend(ExchangeRate::parse("eur = 1.0842"));
    read("bill.csv", None, text.as_bytes(), &mut sums).unwrap();
    let costs = sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() })[0].charges
        [0]
    .costs;
    assert_eq!(costs.billed.unwrap().to_string(), "-1.7105", "a line of nobody's run needs no rate");
    for text in ["EUR", "EUR=0", "EUR=-1", "USD=1", "EURO=1", "EUR=x"] {
        assert_eq!(ExchangeRate::parse(text), None, "{text}");
    }
}

#[test]
fn a_file_that_has_no_lines_of_text_is_told_by_its_beginning() {
    let said = |bytes: &[u8]| crate::bill::read("bill", None, bytes, &mut Sums::default()).unwrap_err().to_string();
    for (bytes, what) in [
        (&b"PK\x03\x04\x14\x00"[..], "zip archive or an Excel workbook"),
        (&[0xff, 0xfe, b'B', 0], "iconv -f UTF-16"),
        (b"[{\"cost\": 1}]", "jq -c '.[]' FILE"),
        (b"PAR1", "gunzip"),
    ] {
        assert!(said(bytes).contains(what), "{}", said(bytes));
    }
}

/// As a set of the FOCUS specification has it, which supports no tags (`BilledCurrency` is the name of its preview), and as a query
/// writes credits that are none.
#[test]
fn focus_without_tags_is_of_no_run_and_credits_may_be_one_or_none() {
    let focus = "BilledCost,BilledCurrency,BillingPeriodStart,ChargeCategory,ChargePeriodStart,EffectiveCost,ProviderName,ServiceCategory\n\
        258000.0,USD,2026-01-01T00:00:00Z,Purchase,2026-01-01T00:00:00Z,0,Google Cloud Platform,Compute\n";
    let (format, mut sums) = read_text(focus).unwrap();
    assert_eq!((format, sums.lines, sums.ours, sums.unread), (Format::Focus, 1, 0, 0));
    let known = Known { runs: &BTreeSet::new(), hardware: &Hardware::default() };
    let bills = sums.take_bills("h", "s", &known);
    assert_eq!(bills[0].others[0].costs.billed.unwrap().to_string(), "258000.00");
    let google = |credits: &str| {
        billed(&format!(
            "usage_start_time,cost,currency,labels,credits\n\
            2026-10-01,2,USD,\"{{\"\"gpuplan_run\"\": \"\"a\"\"}}\",\"{credits}\"\n"
        ))
    };
    assert_eq!((google("{}").len(), google("[]").len()), (1, 1));
    let amounts: BTreeSet<String> = google("{\"\"amount\"\": -0.5}").into_iter().map(|row| row.3).collect();
    assert_eq!(amounts, BTreeSet::from(["-0.50".to_owned(), "2.00".to_owned()]));
}

/// Columns as a report of Oracle has them: names of the preview of FOCUS, moments without seconds.
#[test]
fn the_focus_reports_of_oracle_are_read() {
    let text = "BilledCost,BillingAccountId,BillingCurrency,BillingPeriodStart,ChargeCategory,ChargePeriodEnd,ChargePeriodStart,EffectiveCost,\
        InvoiceIssuer,ListCost,Provider,Publisher,Region,ServiceCategory,ServiceName,Tags,UsageQuantity,UsageUnit\n\
        12.50,12345,USD,2026-01-01T00:00Z,Usage,2026-01-02T00:00Z,2026-01-01T00:00Z,12.50,Oracle,12.50,OCI,Oracle,us-ashburn-1,Compute,\
        Compute,\"{\"\"gpuplan:run\"\":\"\"a\"\"}\",24,Hours\n";
    assert_eq!(billed(text), [("oci".to_owned(), "a".to_owned(), Item::Machines, "12.50".to_owned(), 24.0)]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_by_the_name_of_its_file(text in ".{0,80}") {
        for text in [text.clone(), format!("{CUR}{text}")] {
            match read_text(&text) {
                Ok((_, mut sums)) => assert!(sums.ours <= sums.lines && sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() }).len() as u64 <= sums.ours),
                Err(error) => assert!(error.to_string().starts_with("bill.csv"), "{error}"),
            }
        }
    }

    #[test]
    fn a_line_is_read_to_its_amount_or_its_wrong_cell_is_quoted(
        currency in "USD|usd|EUR||[A-Z]{3}",
        start in "20[0-9]{2}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:00:00Z)?|[0-9]{1,2}/[0-9]{1,2}/2026|[a-z0-9:-]{0,8}",
        amount in "-?[0-9]{1,9}([.][0-9]{1,15})?([eE]-?[0-9])?|[0-9.,e-]{0,8}",
        hours in "[0-9]{1,4}([.][0-9]{1,6})?||[a-z0-9.-]{1,5}",
    ) {
        let (text, unreadable) = cur_line(&currency, &start, &amount, &hours);
        match read_text(&text) {
            Ok((format, mut sums)) => {
                assert_eq!((format, sums.lines, sums.ours, unreadable), (Format::Cur, 1, 1, Vec::new()));
                let bills = sums.take_bills("h", "s", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
                let charges: Vec<_> = bills.iter().flat_map(|bill| &bill.charges).collect();
                assert_eq!(charges.len(), 1);
                assert_eq!(charges[0].costs.billed, Some(FineUsd::parse(&amount).unwrap().rounded()));
                assert!(charges[0].start <= charges[0].end && crate::charge::utc_day(charges[0].start).starts_with(&bills[0].month));
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.starts_with("bill.csv line 2, column `line_item_"), "{said}");
                assert!(unreadable.iter().any(|cell| said.contains(cell)), "{said}: {unreadable:?}");
            }
        }
    }
}
