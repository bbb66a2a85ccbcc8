//! `Sums`: the lines of a bill added up by run, day, item and dimensions, exactly, and rounded once; lines of no run by month.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::bill::dimensions::{Dimensions, RunTag};
use crate::bill::export::{BillError, ImportedBill};
use crate::bill::parts::Identity;
use crate::bill::survey::Pass;
use crate::charge::{Allocation, Charge, Costs, Invoice, Item, Nature, Resource, utc_day};
use crate::exchange::ExchangeRate;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_units::{FineUsd, Usd};

/// One line of a bill.
#[derive(Clone, Debug)]
pub struct BillLine {
    pub cloud: String,
    pub account: String,
    /// Billing period, `2026-10`; `None`: the export does not say, and the month in which the usage began is taken.
    pub period: Option<String>,
    /// As the tag or label says it; `None`: it bears no mark of a run.
    pub run: Option<String>,
    /// `None`: nobody asks for parts.
    pub identity: Option<Identity>,
    pub dimensions: Dimensions,
    pub start: Timestamp,
    pub end: Timestamp,
    pub item: Item,
    /// Of machines, where the line counts in hours.
    pub hours: Option<f64>,
    pub billed: FineUsd,
    /// `None`: the line does not say, and is taken as billed.
    pub list: Option<FineUsd>,
    pub contracted: Option<FineUsd>,
    pub effective: Option<FineUsd>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cloud: String,
    account: String,
    period: String,
    run: Option<String>,
    /// Of a line of no run its month: bills may have millions of them.
    day: String,
    item: Item,
    dimensions: Dimensions,
}

#[derive(Clone, Debug)]
struct Sum {
    start: Timestamp,
    end: Timestamp,
    hours: f64,
    lines: u64,
    billed: FineUsd,
    list: FineUsd,
    contracted: FineUsd,
    effective: FineUsd,
}

/// Grows with runs and days, not with lines.
#[derive(Debug, Default)]
pub struct Sums {
    by_key: BTreeMap<Key, Sum>,
    /// Lines of all files.
    pub lines: u64,
    /// Of them, those of runs; one may have credits beside its cost, which are added too.
    pub ours: u64,
    /// Amounts of runs whose billing period the export does not say.
    pub without_period: u64,
    /// Lines of no run that cannot be read, or are in a currency without a rate; nothing is known of their amounts.
    pub unread: u64,
    /// What is wrong with the first of them that cannot be read.
    pub first_unread: Option<String>,
    /// Their currencies that have no rate.
    pub unrated: BTreeSet<String>,
    /// By what lines are of runs.
    pub mark: RunTag,
    /// US dollars for one unit of other currencies, as they are stated.
    pub rates: BTreeMap<String, ExchangeRate>,
    /// The currency of lines that name none, as it is stated.
    pub unnamed: Option<String>,
    /// Which lines are added up.
    pub pass: Pass,
}

impl BillLine {
    /// From another currency. `None`: beyond counting.
    fn converted(self, rate: ExchangeRate) -> Option<Self> {
        let billionths = rate.billionths();
        let other = |amount: Option<FineUsd>| match amount {
            None => Some(None),
            Some(amount) => amount.times_billionths(billionths).map(Some),
        };
        Some(Self {
            billed: self.billed.times_billionths(billionths)?,
            list: other(self.list)?,
            contracted: other(self.contracted)?,
            effective: other(self.effective)?,
            ..self
        })
    }
}

/// How the amounts of a line become dollars.
enum Conversion {
    None,
    At(ExchangeRate),
}

impl Sums {
    /// Of the lines that a pass takes.
    pub fn of(pass: Pass) -> Self {
        Self { pass, ..Self::default() }
    }

    /// Whether amounts of this currency are dollars or have a rate; of a line that names none, whether it was stated.
    pub fn knows(&self, currency: &str) -> bool {
        self.conversion(currency).is_some()
    }

    fn conversion(&self, named: &str) -> Option<Conversion> {
        let name = if named.is_empty() { self.unnamed.as_deref()? } else { named };
        if name.eq_ignore_ascii_case("usd") {
            return Some(Conversion::None);
        }
        self.rates.get(&name.to_ascii_uppercase()).copied().map(Conversion::At)
    }

    /// A line in a currency that is known. `None` where a sum is beyond counting.
    pub fn add_in(&mut self, currency: &str, line: BillLine) -> Option<()> {
        match self.conversion(currency)? {
            Conversion::None => self.add(line),
            Conversion::At(rate) => self.add(line.converted(rate)?),
        }
    }

    /// A line of no run, with its credits. Nothing of it is worth refusing a bill for.
    pub fn add_others(&mut self, currency: &str, lines: Result<Vec<BillLine>, BillError>) {
        let lines = lines.unwrap_or_else(|error| {
            self.first_unread.get_or_insert_with(|| error.to_string());
            Vec::new()
        });
        let is_known = self.knows(currency) && !lines.is_empty();
        let is_code = currency.len() == 3 && currency.bytes().all(|letter| letter.is_ascii_alphabetic());
        if is_code && !self.knows(currency) {
            self.unrated.insert(currency.to_ascii_uppercase());
        }
        let added = is_known && lines.into_iter().all(|line| self.add_in(currency, line).is_some());
        self.unread += u64::from(!added);
    }

    /// Whether lines have to say what they are parts of.
    pub fn tells_parts(&self) -> bool {
        !matches!(self.pass, Pass::Whole)
    }

    /// `None` where a sum is beyond counting.
    pub fn add(&mut self, line: BillLine) -> Option<()> {
        self.without_period += u64::from(line.period.is_none() && line.run.is_some());
        let month_of_usage = || line.start.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string();
        let period = line.period.clone().unwrap_or_else(month_of_usage);
        if let Some(identity) = &line.identity {
            let of = (line.cloud.clone(), line.account.clone(), period.clone());
            if !self.pass.takes(identity, of, line.start, line.billed)? {
                return Some(());
            }
        }
        let key = Key {
            period,
            cloud: line.cloud,
            account: line.account,
            day: if line.run.is_some() { utc_day(line.start) } else { month_of_usage() },
            run: line.run,
            item: line.item,
            dimensions: line.dimensions,
        };
        let zero = FineUsd::ZERO;
        let empty = Sum {
            start: line.start,
            end: line.end,
            hours: 0.0,
            lines: 0,
            billed: zero,
            list: zero,
            contracted: zero,
            effective: zero,
        };
        let sum = self.by_key.entry(key).or_insert(empty);
        (sum.start, sum.end) = (sum.start.min(line.start), sum.end.max(line.end));
        sum.lines += 1;
        sum.hours += line.hours.unwrap_or(0.0);
        sum.billed = sum.billed.checked_add(line.billed)?;
        sum.list = sum.list.checked_add(line.list.unwrap_or(line.billed))?;
        sum.contracted = sum.contracted.checked_add(line.contracted.unwrap_or(line.billed))?;
        sum.effective = sum.effective.checked_add(line.effective.unwrap_or(line.billed))?;
        Some(())
    }

    /// A bill for each account and billing period. `hash` is of the files. The sums become its charges and are gone: there is no need to
    /// hold both.
    pub fn take_bills(&mut self, hash: &str, source: &str, known: &Known) -> Vec<ImportedBill> {
        let mut bills: BTreeMap<(String, String, String), ImportedBill> = BTreeMap::new();
        for (key, sum) in std::mem::take(&mut self.by_key) {
            let Key { cloud, account, period, .. } = &key;
            let bill = bills.entry((cloud.clone(), account.clone(), period.clone())).or_insert_with(|| ImportedBill {
                id: format!("bill/{hash}/{cloud}/{account}/{period}"),
                cloud: cloud.clone(),
                account: account.clone(),
                month: period.clone(),
                lines: 0,
                ..ImportedBill::default()
            });
            let into = if key.run.is_some() { &bill.charges } else { &bill.others };
            let charge = charge(&format!("{}/{}", bill.id, into.len()), &key, &sum, source, known);
            if key.run.is_some() {
                bill.lines += sum.lines;
                bill.charges.push(charge);
            } else {
                bill.others.push(charge);
            }
        }
        bills.into_values().collect()
    }
}

/// What names on a bill may mean.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Names of runs that are known here, as a label may have lost letters of them.
    pub runs: &'a BTreeSet<String>,
    pub hardware: &'a Hardware,
}

impl Known<'_> {
    /// The GPU of a machine, and how many it has; of words that name one, that one by itself.
    fn gpu(&self, cloud: &str, dimensions: &Dimensions) -> (Option<String>, Option<f64>) {
        let machine = dimensions.instance_type.as_deref();
        let found = machine.and_then(|name| self.hardware.find_instance(&CloudId::new(cloud), name));
        if let Some(node) = found.map(|id| &self.hardware.instance(id).node) {
            return (Some(self.hardware.gpu(node.gpu).id.clone()), Some(node.gpus.as_f64()));
        }
        let gpu = dimensions.gpu.as_deref().map(|words| {
            let (_, model) = words.split_once(' ').unwrap_or(("", words));
            let found = self.hardware.find_gpu(words).or_else(|| self.hardware.find_gpu(model));
            // A GPU that no catalog has is one all the same.
            found.map_or_else(|| words.to_owned(), |id| self.hardware.gpu(id).id.clone())
        });
        (gpu, None)
    }
}

fn charge(id: &str, key: &Key, sum: &Sum, source: &str, known: &Known) -> Charge {
    let billed = sum.billed.rounded();
    let an_hour = Usd::from_dollars(billed.dollars() / sum.hours).filter(|_| sum.hours > 0.0 && sum.hours.is_finite());
    let (quantity, unit, unit_price) = an_hour.map_or((1.0, "sum", billed), |price| (sum.hours, "hour", price));
    let Dimensions { tags, region, instance_type, purchase, invoice, .. } = &key.dimensions;
    let (gpu, gpus) = known.gpu(&key.cloud, &key.dimensions);
    Charge {
        id: id.to_owned(),
        nature: Nature::Actual,
        item: key.item,
        allocation: Allocation {
            run: key.run.as_ref().map(|run| run_of_tag(run, known.runs)),
            team: tags.get("team").cloned(),
            tags: tags.clone(),
        },
        start: sum.start,
        end: sum.end,
        resource: Resource {
            cloud: key.cloud.clone(),
            region: region.clone(),
            instance_type: instance_type.clone(),
            gpu,
            gpus,
            purchase: purchase.map(str::to_owned),
            ..Resource::default()
        },
        quantity,
        unit: unit.to_owned(),
        unit_price,
        costs: Costs {
            list: sum.list.rounded(),
            contracted: sum.contracted.rounded(),
            effective: sum.effective.rounded(),
            billed: Some(billed),
        },
        waste: None,
        source: source.to_owned(),
        priced_at: None,
        assumption: format!("{} lines added up exactly and rounded once; the unit price is their mean", sum.lines),
        invoice: Some(Invoice { account: key.account.clone(), month: key.period.clone(), id: invoice.clone() }),
    }
}

/// The run that a tag means: its name, or the one known run whose name is written so where capitals and dots are forbidden.
fn run_of_tag(tag: &str, runs: &BTreeSet<String>) -> String {
    if runs.contains(tag) {
        return tag.to_owned();
    }
    let mut alike = runs.iter().filter(|run| as_label(run) == tag);
    match (alike.next(), alike.next()) {
        (Some(run), None) => run.clone(),
        _ => tag.to_owned(),
    }
}

/// As a label of Google Cloud holds a name (cloud.google.com/compute/docs/labeling-resources, "Requirements for labels").
fn as_label(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).take(63).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: &str, second: i64, item: Item, amount: &str) -> BillLine {
        let start = Timestamp::from_second(second).unwrap();
        BillLine {
            cloud: "gcp".to_owned(),
            account: "1".to_owned(),
            period: None,
            run: Some(run.to_owned()),
            identity: None,
            dimensions: Dimensions::default(),
            start,
            end: Timestamp::from_second(second + 3600).unwrap(),
            item,
            hours: Some(1.0),
            billed: FineUsd::parse(amount).unwrap(),
            list: None,
            contracted: None,
            effective: FineUsd::parse("0.5").ok(),
        }
    }

    #[test]
    fn lines_finer_than_a_nano_dollar_are_added_before_they_are_rounded() {
        let mut sums = Sums::default();
        for hour in 0..24 {
            sums.add(line("life_1-0", hour * 3600, Item::Machines, "0.0000000001")).unwrap();
        }
        sums.add(line("life_1-0", 0, Item::Credit, "-2")).unwrap();
        sums.add(line("life_1-0", 40 * 86_400, Item::Machines, "1")).unwrap();
        let runs = BTreeSet::from(["Life_1.0".to_owned(), "other".to_owned()]);
        let bills = sums.take_bills("h", "google a.json", &Known { runs: &runs, hardware: &Hardware::default() });
        assert_eq!(bills.iter().map(|bill| bill.month.as_str()).collect::<Vec<_>>(), ["1970-01", "1970-02"]);
        let first = &bills[0].charges;
        assert_eq!(first.len(), 2, "{first:#?}");
        assert_eq!(
            (first[0].costs.billed.unwrap().nanos(), first[0].quantity, first[0].allocation.run.as_deref()),
            (2, 24.0, Some("Life_1.0"))
        );
        assert_eq!(
            (first[0].costs.effective.to_string().as_str(), first[1].costs.billed.unwrap().to_string().as_str()),
            ("12.00", "-2.00")
        );
    }
}
