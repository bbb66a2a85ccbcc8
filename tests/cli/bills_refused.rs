//! Bills that are refused: what they lack is named as their export writes it, with what to type.

use std::fs;

use crate::cli::bills::{ask, billed, expected};

#[test]
fn a_bill_of_which_no_amount_is_known_is_refused_and_not_a_month_without_cost() {
    let home = tempfile::tempdir().unwrap();
    let bill = home.path().join("azure.csv");
    let rows = "Date,ResourceGroup,Tags,CostInBillingCurrency,BillingCurrency\n2026-06-01,rg-a,,15,GBP\n2026-06-02,rg-b,,2.5,GBP\n";
    fs::write(&bill, rows).unwrap();
    let import = |more: &[&str]| ask(home.path(), &[&["costs", "import", bill.to_str().unwrap()], more].concat());
    let refused = import(&[]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the amount of any of the 2 lines is not known"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--rate GBP=RATE"), "{}", refused.stderr);
    let kept = import(&["--rate", "GBP=1.25", "--rate-source", "a test"]);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    assert_eq!(billed(home.path(), &["--all", "--by", "month"]), expected(&[("2026-06", "21.875")]));
}

#[test]
fn what_an_export_lacks_is_named_as_that_export_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, head: &str, more: &[&str]| {
        let path = folder.path().join(name);
        fs::write(&path, format!("{head}\n")).unwrap();
        let ran = ask(folder.path(), &[&["costs", "import", path.to_str().unwrap()], more].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    let legacy = "lineItem/UsageStartDate,lineItem/LineItemType,lineItem/UnblendedCost";
    let currency = refused("legacy.csv", legacy, &[]);
    assert!(
        currency.contains("`lineItem/CurrencyCode` is missing") && currency.contains("--currency USD"),
        "{currency}"
    );
    let start = refused("start.csv", "lineItem/LineItemType,lineItem/UnblendedCost", &["--currency", "USD"]);
    assert!(start.contains("`lineItem/UsageStartDate` is missing"), "{start}");
    // A column of amounts is not one of currencies, whatever its name has in it.
    let amount = refused("azure.csv", "Date,CostINR,Currency", &["--format", "azure"]);
    assert!(amount.contains("`CostInBillingCurrency` is missing") && !amount.contains("--currency"), "{amount}");
}
