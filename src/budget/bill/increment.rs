//! `Increment`: what of a delivery adds to what counts of its billing periods, part by part.

use std::collections::{BTreeMap, BTreeSet};

use crate::bill::delivery::{counted, period_of};
use crate::bill::export::ImportedBill;
use crate::bill::parts::Period;
use crate::bill::survey::Survey;
use crate::ledger::{Ledger, LedgerError};
use gpuplan_units::Usd;

/// What of a delivery does not count yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Increment {
    /// Parts that count, and are left out of it.
    pub known: usize,
    /// What was billed for them.
    pub known_usd: Usd,
    /// How many others there are, of every period that the delivery is about.
    pub new: BTreeMap<Period, u64>,
    /// Periods of which something counts, to which the new parts are added.
    adds: BTreeSet<Period>,
}

/// Why a delivery cannot be added to what counts of a period.
#[derive(Clone, Debug, PartialEq)]
pub enum Conflict {
    /// What counts was imported as a whole, and nothing is known of its parts.
    Whole { period: Period },
    /// Parts have other lines here than those that count: which of the two is right, no part says.
    Differs { period: Period, parts: usize, first: String, kept_usd: Usd, usd: Usd },
}

impl Increment {
    /// Notes in the survey which parts count. With `replace` the periods of the delivery begin anew, and none does.
    pub fn new(survey: &Survey, ledger: &Ledger, replace: bool) -> Result<Result<Self, Vec<Conflict>>, LedgerError> {
        let (mut found, mut conflicts) = (Self::default(), Vec::new());
        let bills = ledger.bills()?;
        for period in survey.periods() {
            let (source, account, month) = &period;
            let kept = if replace { Vec::new() } else { counted(&bills, (source, account, month)) };
            if kept.iter().any(|bill| bill.part_count == 0) {
                conflicts.push(Conflict::Whole { period });
                continue;
            }
            match found.add(&period, kept.first().copied(), survey, ledger)? {
                Some(conflict) => conflicts.push(conflict),
                None if kept.is_empty() => {}
                None => {
                    found.adds.insert(period);
                }
            }
        }
        Ok(if conflicts.is_empty() { Ok(found) } else { Err(conflicts) })
    }

    /// The parts of one period, of which the bill that was imported first is `began`.
    fn add(
        &mut self,
        period: &Period,
        began: Option<&ImportedBill>,
        survey: &Survey,
        ledger: &Ledger,
    ) -> Result<Option<Conflict>, LedgerError> {
        let (mut new, mut differing, mut conflict) = (0, 0, None);
        survey.judge(period, |name, part| {
            let kept = began.map(|bill| ledger.part(bill, name)).transpose()?.flatten();
            match kept {
                None => new += 1,
                Some(kept) if kept == part => {
                    self.known += 1;
                    self.known_usd = self.known_usd + part.billed_usd;
                }
                Some(kept) => {
                    differing += 1;
                    conflict.get_or_insert_with(|| (name.to_owned(), kept.billed_usd, part.billed_usd));
                }
            }
            Ok::<bool, LedgerError>(kept.is_some())
        })?;
        self.new.insert(period.clone(), new);
        Ok(conflict.map(|(first, kept_usd, usd)| Conflict::Differs {
            period: period.clone(),
            parts: differing,
            first,
            kept_usd,
            usd,
        }))
    }

    /// Says of bills that were read without the known parts how many others they have.
    pub fn mark(&self, bills: &mut [ImportedBill]) {
        for bill in bills {
            let (source, account, month) = period_of(bill);
            let period = (source.to_owned(), account.to_owned(), month.to_owned());
            bill.adds = self.adds.contains(&period);
            bill.part_count = self.new.get(&period).copied().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::bill::delivery::{Delivered, current};
    use crate::bill::read;
    use crate::bill::sums::{Known, Sums};
    use crate::bill::survey::Pass;
    use crate::charge::Charge;
    use gpuplan_hardware::Hardware;

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        (folder, ledger)
    }

    fn sums(text: &str, pass: Pass) -> Sums {
        let mut sums = Sums::of(pass);
        read("bill.csv", None, text.as_bytes(), &mut sums).unwrap();
        sums
    }

    fn bills(text: &str, sums: &mut Sums) -> Vec<ImportedBill> {
        let known = Known { runs: &BTreeSet::new(), hardware: &Hardware::default() };
        sums.take_bills(&gpuplan_runstore::sha256(text.as_bytes()), "a bill", &known)
    }

    fn whole(ledger: &mut Ledger, text: &str) -> Delivered {
        ledger.deliver(&bills(text, &mut sums(text, Pass::Whole)), false, Timestamp::UNIX_EPOCH).unwrap()
    }

    fn survey(text: &str) -> Survey {
        let Pass::Survey(mut survey) = sums(text, Pass::Survey(Survey::new().unwrap())).pass else {
            panic!("another pass")
        };
        survey.end().unwrap().unwrap();
        survey
    }

    /// What of a text does not count yet, with the survey in which that is noted.
    fn plan(ledger: &Ledger, text: &str, replace: bool) -> Result<(Increment, Survey), Vec<Conflict>> {
        let survey = survey(text);
        Increment::new(&survey, ledger, replace).unwrap().map(|increment| (increment, survey))
    }

    fn deliver(ledger: &mut Ledger, text: &str, (increment, survey): (Increment, Survey), replace: bool) -> Delivered {
        let mut sums = sums(text, Pass::Rest(survey));
        // As `costs import` names them: what is left of a file is not the file.
        let mut bills = bills(&format!("{text}incremental"), &mut sums);
        increment.mark(&mut bills);
        let Pass::Rest(survey) = &mut sums.pass else { panic!("another pass") };
        survey.check().unwrap();
        ledger.add_parts(&bills, survey, replace, Timestamp::UNIX_EPOCH).unwrap()
    }

    /// What was added, and how many parts were left out.
    fn add(ledger: &mut Ledger, text: &str) -> Result<(usize, usize), Vec<Conflict>> {
        let (increment, survey) = plan(ledger, text, false)?;
        let known = increment.known;
        let delivered = deliver(ledger, text, (increment, survey), false);
        assert_eq!((&delivered.losses, delivered.outrun), (&Vec::new(), 0));
        Ok((delivered.new, known))
    }

    fn total(ledger: &Ledger) -> Usd {
        let kept = ledger.bills().unwrap();
        current(&kept).iter().flat_map(|bill| bill.charges.iter().chain(&bill.others)).map(Charge::on_bill).sum()
    }

    fn usd(text: &str) -> Usd {
        Usd::parse_signed(text).unwrap()
    }

    const CUR: &str = "identity_line_item_id,bill_payer_account_id,bill_billing_period_start_date,line_item_usage_start_date,line_item_currency_code,\
        line_item_unblended_cost,line_item_line_item_type,line_item_usage_type,resource_tags_user_gpuplan_run\n";

    fn cur(id: &str, hour: u8, cost: &str, run: &str) -> String {
        format!("{id},1,2026-10-01T00:00:00Z,2026-10-05T{hour:02}:00:00Z,USD,{cost},Usage,BoxUsage:p5.48xlarge,{run}\n")
    }

    #[test]
    fn extracts_of_one_report_that_overlap_count_each_hour_once() {
        let (one, two, three) = (cur("a", 1, "10", "r"), cur("b", 2, "20", "r"), cur("c", 2, "5", ""));
        let (_folder, mut ledger) = ledger();
        assert_eq!(add(&mut ledger, &[CUR, &one, &two, &three].concat()), Ok((1, 0)));
        let later = [CUR, &three, &two, &cur("d", 3, "40", "r")].concat();
        assert_eq!(add(&mut ledger, &later), Ok((1, 1)));
        assert_eq!(total(&ledger), usd("75"), "of runs and of none");
        assert_eq!(add(&mut ledger, &later), Ok((0, 2)), "again it adds nothing");
        assert_eq!((total(&ledger), ledger.bills().unwrap().len()), (usd("75"), 2));
    }

    /// AWS numbers the lines of every version of a report anew: the same hour may have other amounts, and no id says so.
    #[test]
    fn another_version_of_an_hour_is_refused_and_the_whole_period_takes_its_place() {
        let (_folder, mut ledger) = ledger();
        add(&mut ledger, &[CUR, &cur("a", 1, "10", "r"), &cur("b", 2, "20", "r")].concat()).unwrap();
        let newer = [CUR, &cur("x", 2, "21", "r"), &cur("y", 3, "5", "r")].concat();
        let period = ("aws".to_owned(), "1".to_owned(), "2026-10".to_owned());
        let refused = Conflict::Differs {
            period: period.clone(),
            parts: 1,
            first: "2026-10-05T02".to_owned(),
            kept_usd: usd("20"),
            usd: usd("21"),
        };
        assert_eq!(add(&mut ledger, &newer), Err(vec![refused]));
        assert_eq!(total(&ledger), usd("30"));
        // As a whole it would lose the first hour, and is refused as before; the newest report has all three.
        assert_eq!(whole(&mut ledger, &newer).losses.len(), 1);
        let all = [CUR, &cur("w", 1, "10", "r"), &newer[CUR.len()..]].concat();
        assert_eq!((whole(&mut ledger, &all).new, total(&ledger)), (1, usd("36")));
        // Of what was imported as a whole no parts are known, until it is imported with them.
        assert_eq!(add(&mut ledger, &newer), Err(vec![Conflict::Whole { period }]));
        let anew = plan(&ledger, &all, true).unwrap();
        assert_eq!(deliver(&mut ledger, &all, anew, true).new, 1);
        assert_eq!(add(&mut ledger, &[CUR, &cur("z", 4, "4", "r")].concat()), Ok((1, 0)));
        assert_eq!(total(&ledger), usd("40"));
    }

    #[test]
    fn an_import_that_was_faster_is_added_to_and_not_overwritten() {
        let (_folder, mut ledger) = ledger();
        add(&mut ledger, &[CUR, &cur("a", 1, "10", "r")].concat()).unwrap();
        let text = [CUR, &cur("b", 2, "20", "r")].concat();
        let slow = plan(&ledger, &text, false).unwrap();
        add(&mut ledger, &text).unwrap();
        let delivered = deliver(&mut ledger, &text, slow, false);
        assert_eq!((delivered.new, delivered.outrun, total(&ledger)), (0, 1, usd("30")));
    }

    #[test]
    fn the_same_lines_by_another_tag_of_runs_are_no_lines_that_count() {
        let (_folder, mut ledger) = ledger();
        let text = [CUR, &cur("a", 1, "10", "r")].concat();
        add(&mut ledger, &text).unwrap();
        let mut sums = Sums::of(Pass::Survey(Survey::new().unwrap()));
        sums.mark = crate::bill::dimensions::RunTag::named("cluster");
        read("bill.csv", None, text.as_bytes(), &mut sums).unwrap();
        let Pass::Survey(mut survey) = sums.pass else { panic!("another pass") };
        survey.end().unwrap().unwrap();
        assert!(Increment::new(&survey, &ledger, false).unwrap().is_err());
    }

    /// By a batch of Google or a reference of Oracle: `(day, name, cents)`.
    fn named(is_google: bool, lines: &[(u8, u8, i32)]) -> String {
        let head = if is_google {
            "billing_account_id,invoice.month,usage_start_time,usage_end_time,cost,currency,labels,export_time\n"
        } else {
            "BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,BilledCost,BillingCurrency,Tags,oci_ReferenceNumber,ChargeCategory,ProviderName\n"
        };
        let line = |(day, name, cents): &(u8, u8, i32)| {
            let sign = if *cents < 0 { "-" } else { "" };
            let cost = format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100);
            if is_google {
                format!(
                    "A,202610,2026-10-{day:02} 01:00:00 UTC,2026-10-{day:02} 02:00:00 UTC,{cost},USD,,2026-10-07 0{name}:00:00 UTC\n"
                )
            } else {
                format!(
                    "2026-10-01T00:00:00Z,2026-10-{day:02}T01:00Z,2026-10-{day:02}T02:00Z,{cost},USD,,R{name},Usage,Oracle\n"
                )
            }
        };
        lines.iter().fold(head.to_owned(), |text, one| text + &line(one))
    }

    #[test]
    fn late_lines_and_corrections_of_an_hour_that_counts_are_added() {
        for is_google in [true, false] {
            let (_folder, mut ledger) = ledger();
            add(&mut ledger, &named(is_google, &[(1, 1, 500), (2, 2, 100)])).unwrap();
            // The next export has the second again, and what takes back a part of the first, in its hour.
            assert_eq!(add(&mut ledger, &named(is_google, &[(2, 2, 100), (1, 3, -25)])), Ok((1, 1)));
            assert_eq!(total(&ledger), usd("5.75"));
            // One that has the name of another line with another amount is neither.
            let refused = add(&mut ledger, &named(is_google, &[(2, 2, 150)])).unwrap_err();
            assert!(matches!(&refused[..], [Conflict::Differs { parts: 1, .. }]), "{refused:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn deliveries_that_overlap_add_up_to_what_any_of_them_has(
            amounts in proptest::collection::vec(-9999_i32..9999, 12),
            deliveries in proptest::collection::vec(proptest::collection::btree_set(0_usize..12, 1..12), 1..6),
            is_google in any::<bool>(),
        ) {
            // Two lines in each append of Google, and one for each reference of Oracle.
            let lines = |part: usize| {
                let line = |which: usize| (1 + (which % 20) as u8, part as u8 % 10, amounts[which]);
                if is_google { vec![line(2 * part), line(2 * part + 1)] } else { vec![line(part)] }
            };
            let all = if is_google { 6 } else { 10 };
            let (_folder, mut ledger) = ledger();
            let mut had = BTreeSet::new();
            for delivery in &deliveries {
                let parts: BTreeSet<usize> = delivery.iter().map(|part| part % all).collect();
                let text: Vec<_> = parts.iter().flat_map(|part| lines(*part)).collect();
                let (new, left_out) = add(&mut ledger, &named(is_google, &text)).unwrap();
                prop_assert_eq!(left_out, parts.intersection(&had).count());
                prop_assert_eq!(new, usize::from(left_out < parts.len()));
                had.extend(parts);
            }
            let cents: i128 = had.iter().flat_map(|part| lines(*part)).map(|(.., cents)| i128::from(cents)).sum();
            prop_assert_eq!(total(&ledger), Usd::from_nanos(cents * 10_000_000));
        }
    }
}
