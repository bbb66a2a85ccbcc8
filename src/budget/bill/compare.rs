//! What a bill says against what was charged here, run by run, and why the two differ.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::bill::export::ImportedBill;
use crate::charge::{Charge, Item, UNALLOCATED};
use gpuplan_units::Usd;

/// Why a bill differs from what was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceReason {
    /// Machine hours that the bill counts and nobody here saw, or the other way round, at the price that was charged.
    Hours,
    /// The same hours at another price; where the bill does not count in hours, everything about machines.
    Price,
    /// What covered hours are billed above what they cost of the commitment: on AWS a covered line has the on-demand rate, and a
    /// line without the tag of the run takes it back.
    Covered,
    Disk,
    CheckpointStorage,
    Egress,
    Credits,
    Tax,
    Other,
    /// The bill has nothing for the run.
    NotBilled,
    /// Nothing was charged here for the run.
    NotCharged,
}

impl DifferenceReason {
    pub fn label(self) -> &'static str {
        match self {
            Self::Hours => "machine hours",
            Self::Price => "price of machines",
            Self::Covered => "covered by a commitment",
            Self::Disk => "disks",
            Self::CheckpointStorage => "storage",
            Self::Egress => "data out",
            Self::Credits => "credits",
            Self::Tax => "tax",
            Self::Other => "other",
            Self::NotBilled => "not on the bill",
            Self::NotCharged => "not known here",
        }
    }

    fn for_item(item: Item) -> Self {
        match item {
            Item::Disk => Self::Disk,
            Item::CheckpointStorage => Self::CheckpointStorage,
            Item::Egress => Self::Egress,
            Item::Credit => Self::Credits,
            Item::Tax => Self::Tax,
            Item::Machines | Item::Fallback | Item::LostWork | Item::UnusedCommitment => Self::Price,
            Item::Other => Self::Other,
        }
    }
}

/// One run. `billed` is `charged` and every reason added to it, to the nano-dollar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    pub run: String,
    pub charged_usd: Usd,
    pub billed_usd: Usd,
    pub charged_hours: f64,
    /// `None`: the bill does not count in hours.
    pub billed_hours: Option<f64>,
    pub reasons: BTreeMap<DifferenceReason, Usd>,
}

impl Difference {
    fn add(&mut self, reason: DifferenceReason, amount: Usd) {
        if amount != Usd::ZERO {
            let sum = self.reasons.entry(reason).or_default();
            *sum = *sum + amount;
        }
    }
}

/// Of the clouds and months of these bills. `charged` are the lines of the runs in those months.
pub fn compare(bills: &[ImportedBill], charged: &[Charge]) -> Vec<Difference> {
    let clouds: BTreeSet<&str> = bills.iter().map(|bill| bill.cloud.as_str()).collect();
    let mut runs: BTreeMap<&str, (Vec<&Charge>, Vec<&Charge>)> = BTreeMap::new();
    for charge in charged.iter().filter(|charge| clouds.contains(charge.resource.cloud.as_str())) {
        runs.entry(charge.allocation.run.as_deref().unwrap_or(UNALLOCATED)).or_default().0.push(charge);
    }
    for charge in bills.iter().flat_map(|bill| &bill.charges) {
        runs.entry(charge.allocation.run.as_deref().unwrap_or(UNALLOCATED)).or_default().1.push(charge);
    }
    runs.into_iter().map(|(run, (charged, billed))| difference(run, &charged, &billed)).collect()
}

fn difference(run: &str, charged: &[&Charge], billed: &[&Charge]) -> Difference {
    let on_bill = |charge: &&&Charge| DifferenceReason::for_item(charge.item) == DifferenceReason::Price;
    let machines: Vec<&&Charge> = billed.iter().filter(on_bill).collect();
    let counted: f64 = machines.iter().filter(|charge| charge.unit == "hour").map(|charge| charge.quantity).sum();
    let mut found = Difference {
        run: run.to_owned(),
        charged_usd: charged.iter().map(|charge| charge.costs.contracted).sum(),
        billed_usd: billed.iter().map(|charge| charge.on_bill()).sum(),
        charged_hours: charged.iter().filter(on_bill).map(|charge| charge.quantity).sum(),
        billed_hours: (counted > 0.0).then_some(counted),
        reasons: BTreeMap::new(),
    };
    if billed.is_empty() {
        found.add(DifferenceReason::NotBilled, Usd::ZERO - found.charged_usd);
        return found;
    }
    if charged.is_empty() {
        found.add(DifferenceReason::NotCharged, found.billed_usd);
        return found;
    }
    for charge in billed.iter().filter(|charge| DifferenceReason::for_item(charge.item) != DifferenceReason::Price) {
        found.add(DifferenceReason::for_item(charge.item), charge.on_bill());
    }
    for charge in charged.iter().filter(|charge| DifferenceReason::for_item(charge.item) != DifferenceReason::Price) {
        found.add(DifferenceReason::for_item(charge.item), Usd::ZERO - charge.costs.contracted);
    }
    let of_machines: Usd = machines.iter().map(|charge| charge.costs.effective).sum();
    found.add(DifferenceReason::Covered, machines.iter().map(|charge| charge.on_bill() - charge.costs.effective).sum());
    let charged_machines: Usd = charged.iter().filter(on_bill).map(|charge| charge.costs.contracted).sum();
    let more = of_machines - charged_machines;
    // Where hours are not known on both sides, or are beyond counting, all of it is the price.
    let hours = found
        .billed_hours
        .filter(|_| found.charged_hours > 0.0)
        .and_then(|hours| {
            Usd::from_dollars((hours - found.charged_hours) * charged_machines.dollars() / found.charged_hours)
        })
        .unwrap_or(Usd::ZERO);
    found.add(DifferenceReason::Hours, hours);
    found.add(DifferenceReason::Price, more - hours);
    found.reasons.retain(|_, amount| *amount != Usd::ZERO);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::charge::{Costs, examples};

    fn charge(run: &str, item: Item, amount: Usd, hours: Option<f64>, is_billed: bool) -> Charge {
        let charge = examples::charge("", run, amount);
        Charge {
            item,
            quantity: hours.unwrap_or(1.0),
            unit: if hours.is_some() { "hour" } else { "sum" }.to_owned(),
            costs: Costs { billed: is_billed.then_some(amount), ..charge.costs },
            ..charge
        }
    }

    fn usd(text: &str) -> Usd {
        Usd::parse_signed(text).unwrap()
    }

    fn bill(charges: Vec<Charge>) -> ImportedBill {
        ImportedBill { cloud: "aws".to_owned(), charges, ..ImportedBill::default() }
    }

    #[test]
    fn what_a_savings_plan_covers_is_not_dearer_than_planned() {
        let covered = charge("a", Item::Machines, usd("55.04"), Some(1.0), true);
        let covered = Charge { costs: Costs { effective: usd("31.46"), ..covered.costs }, ..covered };
        let found = compare(&[bill(vec![covered])], &[charge("a", Item::Machines, usd("31.46"), Some(1.0), false)]);
        assert_eq!(
            found[0].reasons,
            BTreeMap::from([(DifferenceReason::Covered, usd("23.58"))]),
            "no word of the price"
        );
    }

    #[test]
    fn hours_price_and_the_rest_are_told_apart() {
        let billed = bill(vec![
            charge("a", Item::Machines, usd("13.2"), Some(12.0), true),
            charge("a", Item::Disk, usd("0.7"), None, true),
            charge("a", Item::Credit, usd("-2"), None, true),
            charge("stranger", Item::Machines, usd("5"), Some(5.0), true),
        ]);
        let charged = vec![
            charge("a", Item::Machines, usd("9"), Some(9.0), false),
            charge("a", Item::LostWork, usd("1"), Some(1.0), false),
            charge("unbilled", Item::Machines, usd("4"), Some(4.0), false),
        ];
        let found = compare(&[billed], &charged);
        let names: Vec<&str> = found.iter().map(|difference| difference.run.as_str()).collect();
        assert_eq!(names, ["a", "stranger", "unbilled"]);
        let reason = |at: usize, reason| found[at].reasons.get(&reason).copied();
        assert_eq!(
            (reason(0, DifferenceReason::Hours), reason(0, DifferenceReason::Price)),
            (Some(usd("2")), Some(usd("1.2")))
        );
        assert_eq!(
            (reason(0, DifferenceReason::Disk), reason(0, DifferenceReason::Credits)),
            (Some(usd("0.7")), Some(usd("-2")))
        );
        assert_eq!(
            (reason(1, DifferenceReason::NotCharged), reason(2, DifferenceReason::NotBilled)),
            (Some(usd("5")), Some(usd("-4")))
        );
    }

    proptest! {
        #[test]
        fn the_reasons_explain_the_whole_difference(
            lines in proptest::collection::vec((0_u8..3, 0_u8..7, -1_000_000_000_007_i128..1_000_000_000_007, any::<bool>(), 0.0..100.0_f64), 0..20),
        ) {
            let items = [Item::Machines, Item::LostWork, Item::Disk, Item::Credit, Item::Tax, Item::Other, Item::Egress];
            let (mut billed, mut charged) = (Vec::new(), Vec::new());
            for (run, item, nanos, is_billed, hours) in lines {
                let item = items[usize::from(item)];
                let line = charge(&format!("r{run}"), item, Usd::from_nanos(nanos), Some(hours), is_billed);
                if is_billed { billed.push(line) } else { charged.push(line) }
            }
            for found in compare(&[bill(billed)], &charged) {
                let explained: Usd = found.reasons.values().copied().sum();
                prop_assert_eq!(found.charged_usd + explained, found.billed_usd);
            }
        }
    }
}
