//! Deliveries: which bill counts for an account and a billing period, and what a newer one would take away.

use std::collections::{BTreeMap, BTreeSet};

use crate::bill::export::ImportedBill;
use crate::charge::{Charge, Item, utc_day};
use gpuplan_units::Usd;

/// Of each account and billing period the delivery that came last, and what was added to it: clouds write a period again until its
/// invoice is final. `bills` are in the order in which they were imported.
pub fn current<'a>(bills: impl IntoIterator<Item = &'a ImportedBill>) -> Vec<&'a ImportedBill> {
    let mut counting: BTreeMap<_, Vec<&ImportedBill>> = BTreeMap::new();
    for bill in bills {
        let of_period = counting.entry(period_of(bill)).or_default();
        if !bill.adds {
            of_period.clear();
        }
        of_period.push(bill);
    }
    counting.into_values().flatten().collect()
}

/// The same of one period.
pub fn counted<'a>(
    bills: impl IntoIterator<Item = &'a ImportedBill>,
    period: (&str, &str, &str),
) -> Vec<&'a ImportedBill> {
    current(bills.into_iter().filter(|bill| period_of(bill) == period))
}

/// Source, account and billing period.
pub fn period_of(bill: &ImportedBill) -> (&str, &str, &str) {
    (&bill.cloud, &bill.account, &bill.month)
}

/// What came of importing bills: all of them are kept, or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivered {
    /// They count from now on.
    pub new: usize,
    /// They count already.
    pub known: usize,
    /// They were imported before, and a newer delivery of the same period has replaced them since: that one still counts.
    pub superseded: Vec<ImportedBill>,
    /// What the new deliveries would take away. Where there is any, nothing is kept.
    pub losses: Vec<Loss>,
    /// They would add to something else than what counts now: another import was faster. Where there is any, nothing is kept.
    pub outrun: usize,
}

/// What a billing period would lose.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub cloud: String,
    pub account: String,
    /// The billing period, `2026-10`.
    pub month: String,
    /// Sums of a run, day and item that the newer delivery has no line for.
    pub missing: usize,
    /// Lines of runs.
    pub kept_lines: u64,
    pub lines: u64,
    /// Billed for runs before credits.
    pub kept_usd: Usd,
    pub usd: Usd,
    /// With what is of no run, of which no lines are kept: a part of a bill shows by its sum alone.
    pub kept_all_usd: Usd,
    pub all_usd: Usd,
}

impl Loss {
    /// `kept` is all that counts of the period. `None`: the newer delivery has everything that it has. Credits, refunds and tax may
    /// lower what is billed; lines and charges do not go away by themselves.
    pub fn between(kept: &[&ImportedBill], newer: &ImportedBill) -> Option<Self> {
        let (had, has) = (kept.iter().flat_map(|bill| sums_of(bill)).collect::<BTreeSet<_>>(), sums_of(newer));
        let (kept_usd, usd) = (kept.iter().map(|bill| of_runs(bill)).sum(), of_runs(newer));
        let (kept_all_usd, all_usd) = (kept.iter().map(|bill| of_all(bill)).sum(), of_all(newer));
        let kept_lines = kept.iter().map(|bill| bill.lines).sum();
        let missing = had.difference(&has).count();
        // Lines that bear the tag of a run now, and did not before, are rounded in other sums.
        let sums = |bill: &ImportedBill| bill.charges.len() + bill.others.len();
        let rounded = sums(newer) + kept.iter().map(|bill| sums(bill)).sum::<usize>();
        let shrinks = kept_all_usd - all_usd > Usd::from_nanos(rounded as i128);
        (missing > 0 || newer.lines < kept_lines || usd < kept_usd || shrinks).then(|| Self {
            cloud: newer.cloud.clone(),
            account: newer.account.clone(),
            month: newer.month.clone(),
            missing,
            kept_lines,
            lines: newer.lines,
            kept_usd,
            usd,
            kept_all_usd,
            all_usd,
        })
    }
}

/// Run, day and item of every sum.
fn sums_of(bill: &ImportedBill) -> BTreeSet<(&str, (String, Item))> {
    let key = |charge: &'_ Charge| (utc_day(charge.start), charge.item);
    bill.charges.iter().map(|charge| (charge.allocation.run.as_deref().unwrap_or_default(), key(charge))).collect()
}

fn of_runs(bill: &ImportedBill) -> Usd {
    bill.charges.iter().map(before_credits).sum()
}

fn of_all(bill: &ImportedBill) -> Usd {
    bill.charges.iter().chain(&bill.others).map(before_credits).sum()
}

fn before_credits(charge: &Charge) -> Usd {
    if matches!(charge.item, Item::Credit | Item::Tax) { Usd::ZERO } else { charge.on_bill() }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::bill::read;
    use crate::bill::sums::{Known, Sums};
    use crate::ledger::Ledger;
    use gpuplan_hardware::Hardware;

    const GOOGLE: &str = "billing_account_id,invoice.month,usage_start_time,usage_end_time,cost,currency,labels,service.description,sku.description\n";

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        (folder, ledger)
    }

    fn google_row(invoice: &str, start: &str, cost: &str) -> String {
        let label = "\"[{\"\"key\"\":\"\"gpuplan_run\"\",\"\"value\"\":\"\"a\"\"}]\"";
        format!("A,{invoice},{start} 22:00:00 UTC,{start} 23:00:00 UTC,{cost},USD,{label},Compute Engine,A100 GPU\n")
    }

    fn bills(text: &str) -> Vec<ImportedBill> {
        let mut sums = Sums::default();
        read("bill.csv", None, text.as_bytes(), &mut sums).unwrap();
        sums.take_bills(
            &gpuplan_runstore::sha256(text.as_bytes()),
            "a bill",
            &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() },
        )
    }

    fn total(ledger: &Ledger) -> Usd {
        let kept = ledger.bills().unwrap();
        current(&kept).iter().flat_map(|bill| &bill.charges).map(Charge::on_bill).sum()
    }

    fn usd(text: &str) -> Usd {
        Usd::parse_signed(text).unwrap()
    }

    #[test]
    fn usage_of_october_on_the_invoice_of_november_leaves_october_as_it_is() {
        let october =
            [GOOGLE, &google_row("202610", "2026-10-30", "13572"), &google_row("202610", "2026-10-31", "0")].concat();
        let november =
            [GOOGLE, &google_row("202611", "2026-10-31", "33"), &google_row("202611", "2026-11-01", "21800")].concat();
        let (_folder, mut ledger) = ledger();
        for text in [&october, &november, &october, &november] {
            let delivered = ledger.deliver(&bills(text), false, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!((delivered.losses, delivered.superseded), (Vec::new(), Vec::new()));
        }
        assert_eq!(total(&ledger), usd("35405"));
    }

    #[test]
    fn the_correction_of_another_month_stays_with_its_invoice() {
        let head = "BillingPeriodStart,BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceCategory,ProviderName,\
            BillingAccountId,Tags\n";
        let row = |period: &str, start: &str, cost: &str| {
            format!(
                "{period}-01T00:00:00Z,{cost},USD,{start}T00:00:00Z,{start}T01:00:00Z,Usage,Compute,Oracle,7,\"{{\"\"gpuplan:run\"\":\"\"a\"\"}}\"\n"
            )
        };
        let (_folder, mut ledger) = ledger();
        for text in [
            [head, &row("2026-09", "2026-09-12", "10000")].concat(),
            [head, &row("2026-10", "2026-10-02", "8000"), &row("2026-10", "2026-09-12", "-50")].concat(),
        ] {
            assert_eq!(ledger.deliver(&bills(&text), false, Timestamp::UNIX_EPOCH).unwrap().new, 1);
        }
        assert_eq!(total(&ledger), usd("17950"));
    }

    #[test]
    fn a_part_of_a_bill_does_not_replace_the_whole_unless_somebody_says_so() {
        let (one, two) = (google_row("202610", "2026-10-01", "5"), google_row("202610", "2026-10-02", "9"));
        let (whole, part) = (bills(&[GOOGLE, &one, &two].concat()), bills(&[GOOGLE, &two].concat()));
        let (_folder, mut ledger) = ledger();
        ledger.deliver(&whole, false, Timestamp::UNIX_EPOCH).unwrap();
        let refused = ledger.deliver(&part, false, Timestamp::UNIX_EPOCH).unwrap();
        let loss = &refused.losses[0];
        assert_eq!((refused.new, loss.missing, loss.kept_lines, loss.lines), (0, 1, 2, 1));
        assert_eq!((loss.kept_usd, loss.usd, total(&ledger)), (usd("14"), usd("9"), usd("14")));
        assert_eq!(ledger.deliver(&part, true, Timestamp::UNIX_EPOCH).unwrap().new, 1);
        assert_eq!(total(&ledger), usd("9"));
        // Back again: the first delivery is known, and counts once it is asked for.
        assert_eq!(ledger.deliver(&whole, false, Timestamp::UNIX_EPOCH).unwrap().superseded, whole);
        assert_eq!(total(&ledger), usd("9"));
        for _ in 0..2 {
            ledger.deliver(&whole, true, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!((total(&ledger), ledger.bills().unwrap().len()), (usd("14"), 3));
        }
    }

    /// Of the FOCUS specification: what corrects a line of an open period, delivered by itself, is not the period.
    #[test]
    fn what_is_of_no_run_does_not_shrink_without_a_word_and_may_get_the_tag_of_one() {
        let untagged = |cost: &str| google_row("202610", "2026-10-01", cost).replace("gpuplan_run", "team");
        let (_folder, mut ledger) = ledger();
        let kept = bills(&[GOOGLE, &untagged("1500"), &untagged("0.0000000004")].concat());
        assert_eq!(ledger.deliver(&kept, false, Timestamp::UNIX_EPOCH).unwrap().new, 1);
        let part = bills(&[GOOGLE, &untagged("-300"), &untagged("300")].concat());
        let refused = ledger.deliver(&part, false, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            (refused.new, refused.losses[0].kept_all_usd, refused.losses[0].all_usd),
            (0, usd("1500"), usd("0"))
        );
        assert_eq!((refused.losses[0].kept_usd, refused.losses[0].kept_lines), (Usd::ZERO, 0));
        // The same lines with the tag of a run: nothing is gone, but what is rounded in other sums.
        let tagged = bills(&[GOOGLE, &google_row("202610", "2026-10-01", "1500"), &untagged("0.0000000004")].concat());
        assert_eq!(ledger.deliver(&tagged, false, Timestamp::UNIX_EPOCH).unwrap().new, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn importing_deliveries_twice_is_importing_them_once(
            files in proptest::collection::vec(proptest::collection::vec((9_u8..12, 1_u8..29, 0_i64..1000), 1..6), 1..5),
        ) {
            let text = |rows: &Vec<(u8, u8, i64)>| {
                let row = |(month, day, cost): &(u8, u8, i64)| {
                    google_row(&format!("2026{month:02}"), &format!("2026-09-{day:02}"), &cost.to_string())
                };
                format!("{GOOGLE}{}", rows.iter().map(row).collect::<String>())
            };
            let texts: Vec<String> = files.iter().map(text).collect();
            let (_folder, mut ledger) = ledger();
            for text in &texts {
                ledger.deliver(&bills(text), false, Timestamp::UNIX_EPOCH).unwrap();
            }
            let (once, rows) = (total(&ledger), ledger.bills().unwrap());
            // Whatever was kept is kept as it is, and adds up to its own lines.
            let kept = current(&rows);
            let independent: i64 = files.iter().zip(&texts).flat_map(|(rows, text)| {
                let of_file = bills(text);
                let counts: BTreeSet<String> = of_file.iter().filter(|bill| kept.iter().any(|kept| kept.id == bill.id)).map(|bill| bill.month.clone()).collect();
                rows.iter().filter(move |(month, ..)| counts.contains(&format!("2026-{month:02}"))).map(|(.., cost)| *cost)
            }).sum();
            if texts.iter().collect::<BTreeSet<_>>().len() == texts.len() {
                prop_assert_eq!(once, Usd::from_nanos(i128::from(independent) * 1_000_000_000));
            }
            for text in &texts {
                let again = ledger.deliver(&bills(text), false, Timestamp::UNIX_EPOCH).unwrap();
                if again.losses.is_empty() {
                    prop_assert_eq!(total(&ledger), once);
                }
            }
        }
    }
}
