//! `SharedCost`: what bills have that is of no run, and who pays for it.

use std::collections::BTreeMap;

use crate::charge::Charge;
use gpuplan_units::Usd;

/// Parts of a whole, as shares are counted.
const PARTS: i128 = 1_000_000_000;

/// Lines that fit everything that is stated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedCost {
    pub cloud: Option<String>,
    pub account: Option<String>,
    /// Of the tag.
    pub team: Option<String>,
    /// Instance types, each with an optional `*` at the end.
    pub machines: Option<Vec<String>>,
    pub split: Split,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Split {
    /// All teams alike.
    #[default]
    Even,
    /// By what each team spent in the month; evenly where none did.
    Spent,
    /// The team of the tag; evenly where it is no team of the portfolio.
    Team,
    Shares(BTreeMap<String, f64>),
}

impl SharedCost {
    pub fn takes(&self, charge: &Charge) -> bool {
        let is =
            |stated: &Option<String>, found: Option<&str>| stated.as_deref().is_none_or(|stated| found == Some(stated));
        let kind = charge.resource.instance_type.as_deref();
        let is_machine = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => kind.is_some_and(|kind| kind.starts_with(start)),
            None => kind == Some(pattern),
        };
        is(&self.cloud, Some(&charge.resource.cloud))
            && is(&self.account, charge.invoice.as_ref().map(|invoice| invoice.account.as_str()))
            && is(&self.team, charge.allocation.team.as_deref())
            && self.machines.as_ref().is_none_or(|machines| machines.iter().any(is_machine))
    }

    /// Of one amount what each team pays: the parts add up to it. `spent` is what runs of each team cost in the month.
    pub fn parts(&self, charge: &Charge, amount: Usd, spent: &[(String, Usd)]) -> Vec<(String, Usd)> {
        let tagged = charge.allocation.team.as_deref();
        let weight = |(team, usd): &(String, Usd)| match &self.split {
            Split::Even => 1.0,
            Split::Spent => usd.dollars().max(0.0),
            Split::Team => f64::from(u8::from(tagged == Some(team))),
            Split::Shares(shares) => shares.get(team).copied().unwrap_or_default(),
        };
        let mut weights: Vec<f64> = spent.iter().map(weight).collect();
        if weights.iter().sum::<f64>() <= 0.0 {
            weights = vec![1.0; spent.len()];
        }
        let (all, mut until, mut taken) = (weights.iter().sum::<f64>(), 0.0, Usd::ZERO);
        let part = |((team, _), weight): (&(String, Usd), f64)| {
            until += weight;
            let upto = amount.share((until / all * PARTS as f64).round() as i128, PARTS);
            let part = upto - taken;
            taken = upto;
            (team.clone(), part)
        };
        spent.iter().zip(weights).map(part).filter(|(_, usd)| *usd != Usd::ZERO).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::{Resource, examples};

    fn usd(text: &str) -> Usd {
        Usd::parse(text).unwrap()
    }

    #[test]
    fn the_parts_of_a_shared_cost_are_the_cost() {
        let spent = [("a".to_owned(), usd("1")), ("b".to_owned(), usd("2")), ("c".to_owned(), Usd::ZERO)];
        let mut charge = examples::charge("", "", usd("10"));
        charge.allocation.team = Some("b".to_owned());
        let parts = |split: Split| {
            let parts = SharedCost { split, ..SharedCost::default() }.parts(&charge, usd("10"), &spent);
            assert_eq!(parts.iter().map(|(_, usd)| *usd).sum::<Usd>(), usd("10"));
            parts.into_iter().map(|(team, usd)| format!("{team} {usd}")).collect::<Vec<_>>()
        };
        assert_eq!(parts(Split::Even), ["a 3.33333333", "b 3.33333334", "c 3.33333333"]);
        assert_eq!(parts(Split::Spent), ["a 3.33333333", "b 6.66666667"]);
        assert_eq!(parts(Split::Team), ["b 10.00"]);
        assert_eq!(
            parts(Split::Shares(BTreeMap::from([("a".to_owned(), 3.0), ("c".to_owned(), 1.0)]))),
            ["a 7.50", "c 2.50"]
        );
    }

    #[test]
    fn a_section_takes_what_fits_all_that_it_says() {
        let charge = examples::charge("", "", usd("1"));
        let notebook = Resource { instance_type: Some("g5.12xlarge".to_owned()), ..charge.resource.clone() };
        let notebook = Charge { resource: notebook, ..charge.clone() };
        let section = SharedCost { machines: Some(vec!["g5.*".to_owned()]), ..SharedCost::default() };
        assert!(section.takes(&notebook) && !section.takes(&charge));
        let other = SharedCost { cloud: Some("gcp".to_owned()), ..section };
        assert!(!other.takes(&notebook) && SharedCost::default().takes(&charge));
    }
}
