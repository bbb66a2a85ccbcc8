//! Integrity of the whole market: sources, dates, and how many prices the rules doubt. Used by a command and by the tests.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::catalog::snapshot::Market;
use crate::machines::MachineList;
use crate::offer::{ANYWHERE, Offer, Suspicion};
use gpuplan_hardware::rules::{Finding, Severity};
use gpuplan_hardware::{CloudId, Hardware};

/// Offers named as examples of a finding.
const EXAMPLES: usize = 2;

/// Offers that carry a suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectCount {
    pub suspicion: Suspicion,
    pub offers: usize,
    pub examples: Vec<String>,
}

/// Every finding: missing sources and dates to come are errors, doubts are notes.
pub fn check(market: &Market, hardware: &Hardware, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    check_sources(market, &mut findings);
    check_dates(market, hardware, now, &mut findings);
    for count in suspects(market, hardware).into_iter().filter(|count| count.offers > 0) {
        let detail = format!(
            "{} of {} prices: {}; such as {}",
            count.offers,
            market.offers().len(),
            count.suspicion.explanation(),
            count.examples.join(", ")
        );
        findings.push(Finding {
            severity: Severity::Note,
            row: "prices".to_owned(),
            rule: count.suspicion.word(),
            detail,
        });
    }
    let unverified = market.charges.rows().iter().filter(|charge| charge.is_unverified).count();
    if unverified > 0 {
        let detail = format!("{unverified} of {} side charges have an unverified figure", market.charges.rows().len());
        findings.push(Finding {
            severity: Severity::Note,
            row: "charges".to_owned(),
            rule: "unverified charges",
            detail,
        });
    }
    findings
}

/// Prices of places that a cloud's own list denies. Where no list is known, or a region did not answer, nothing is found.
pub fn offered_there(market: &Market, hardware: &Hardware, cloud: &CloudId, list: &MachineList) -> Option<Finding> {
    let denied = |offer: &&Offer| {
        let instance = hardware.instance(offer.instance);
        instance.cloud == *cloud && list.denies(offer, &instance.name)
    };
    let denied: Vec<&Offer> = market.offers().iter().filter(denied).collect();
    let examples: Vec<String> = denied.iter().take(EXAMPLES).map(|offer| name(offer, hardware)).collect();
    (!denied.is_empty()).then(|| Finding {
        severity: Severity::Note,
        row: format!("prices/{cloud}.csv"),
        rule: "offered there",
        detail: format!(
            "{} prices are of places that {cloud} does not list; such as {}",
            denied.len(),
            examples.join(", ")
        ),
    })
}

/// Prices of places of which no list says whether they have the machine. A price that names no place claims none, and has a suspicion
/// of its own.
pub fn not_listed(market: &Market, hardware: &Hardware, lists: &BTreeMap<CloudId, MachineList>) -> Option<Finding> {
    let cloud = |offer: &Offer| &hardware.instance(offer.instance).cloud;
    let is_listed =
        |offer: &Offer| lists.get(cloud(offer)).is_some_and(|list| list.regions.contains_key(&offer.place.region));
    let names_place = |offer: &Offer| offer.owned.is_none() && &*offer.place.region != ANYWHERE;
    let unknown: Vec<&Offer> = market.offers().iter().filter(|offer| names_place(offer) && !is_listed(offer)).collect();
    let clouds: BTreeSet<&CloudId> = unknown.iter().map(|offer| cloud(offer)).collect();
    let clouds: Vec<String> = clouds.into_iter().map(ToString::to_string).collect();
    (!unknown.is_empty()).then(|| Finding {
        severity: Severity::Note,
        row: "prices".to_owned(),
        rule: "no list of machines",
        detail: format!(
            "of {} of {} prices no list of their cloud says whether the place has the machine: {}",
            unknown.len(),
            market.offers().len(),
            clouds.join(", ")
        ),
    })
}

/// How many offers each suspicion marks, in the order of `Suspicion::ALL`.
pub fn suspects(market: &Market, hardware: &Hardware) -> Vec<SuspectCount> {
    let count = |suspicion: Suspicion| {
        let found: Vec<&Offer> = market.offers().iter().filter(|offer| offer.suspicions.contains(&suspicion)).collect();
        let examples = found.iter().take(EXAMPLES).map(|offer| name(offer, hardware)).collect();
        SuspectCount { suspicion, offers: found.len(), examples }
    };
    Suspicion::ALL.into_iter().map(count).collect()
}

fn name(offer: &Offer, hardware: &Hardware) -> String {
    let instance = hardware.instance(offer.instance);
    let place = offer.place.zone_id.as_deref().unwrap_or(&offer.place.region);
    format!("{}/{} {place} {}", instance.cloud, instance.name, offer.purchase)
}

fn check_sources(market: &Market, findings: &mut Vec<Finding>) {
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    let risks = market.offers().iter().filter_map(|offer| offer.risk.as_ref()).map(|risk| &*risk.source);
    let hosts = market.host_offers().iter().map(|offer| &*offer.source);
    for source in market
        .offers()
        .iter()
        .map(|offer| &*offer.source)
        .chain(risks)
        .chain(hosts)
        .chain(market.sites.sources())
        .filter(|source| market.source(source).is_none())
    {
        *unknown.entry(source).or_default() += 1;
    }
    for (source, rows) in unknown {
        let detail = format!("{rows} rows name a source that SNAPSHOT.toml does not have");
        findings.push(Finding { severity: Severity::Error, row: source.to_owned(), rule: "source exists", detail });
    }
}

fn check_dates(market: &Market, hardware: &Hardware, now: Timestamp, findings: &mut Vec<Finding>) {
    let mut report = |row: &str, count: usize, example: String| {
        let detail = format!("{count} rows are dated after {now}, such as {example}");
        findings.push(Finding { severity: Severity::Error, row: row.to_owned(), rule: "date not to come", detail });
    };
    let early: Vec<&Offer> = market.offers().iter().filter(|offer| offer.quote.observed_at > now).collect();
    if let Some(offer) = early.first() {
        report("prices", early.len(), name(offer, hardware));
    }
    let early: Vec<_> = market.charges.rows().iter().filter(|charge| charge.observed_at > now).collect();
    if let Some(charge) = early.first() {
        report("charges", early.len(), format!("{} {}", charge.cloud, charge.region));
    }
}
