//! The bill of a run: machine time by place and by what it was good for, then what was paid beside it.

use crate::page::bill::{self, BillRow};
use crate::page::document::{Section, day};
use crate::page::run::facts::{Rented, RunFacts};
use crate::text::format;
use gpuplan_budget::{Charge, Item, Waste};
use gpuplan_units::Usd;

/// What is charged alike is one line. Machines first, the dearest of each first.
fn rows(run: &RunFacts) -> Vec<BillRow> {
    let mut machines: Vec<BillRow> = Vec::new();
    for machine in &run.machines {
        for line in machine_rows(machine, run.hours) {
            add(&mut machines, line);
        }
    }
    let mut beside: Vec<BillRow> = Vec::new();
    for one in &run.beside {
        add(&mut beside, charge_row(&one.charge));
    }
    for lines in [&mut machines, &mut beside] {
        lines.sort_by(|a, b| b.cost.cmp(&a.cost).then_with(|| a.item.cmp(&b.item)));
    }
    machines.into_iter().chain(beside).collect()
}

fn add(lines: &mut Vec<BillRow>, line: BillRow) {
    match lines.iter_mut().find(|known| known.item == line.item && known.unit == line.unit && known.basis == line.basis)
    {
        None => lines.push(line),
        Some(known) => {
            known.unit_price = known.unit_price.filter(|price| line.unit_price == Some(*price));
            known.quantity += line.quantity;
            known.cost = known.cost + line.cost;
        }
    }
}

/// Divided into work, lost work and idle time where the run's store or the ledger knows it.
fn machine_rows(machine: &Rented, hours: f64) -> Vec<BillRow> {
    let name = format!("{} in {}, {}", machine.instance_type, machine.place, machine.terms());
    let unit_price = Some(machine.rate.times(1));
    if machine.charges.is_empty() {
        let basis = "agreed at launch".to_owned();
        let (quantity, unit) = (machine.end(hours) - machine.from, "machine-hour".to_owned());
        return vec![BillRow { item: name, quantity, unit, unit_price, cost: machine.cost, basis }];
    }
    let line = |charge: &Charge| {
        let what = match charge.waste {
            None => "",
            Some(Waste::Idle) => "idle: ",
            Some(Waste::Redone) => "lost work: ",
            Some(Waste::Failed) => "failed: ",
        };
        BillRow {
            item: format!("{what}{name}"),
            quantity: charge.quantity,
            unit: "machine-hour".to_owned(),
            unit_price,
            cost: charge.costs.contracted,
            basis: basis(charge),
        }
    };
    machine.charges.iter().map(line).collect()
}

fn charge_row(charge: &Charge) -> BillRow {
    let names = [Some(charge.resource.cloud.as_str()), charge.resource.region.as_deref()];
    let place = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let item = match charge.item {
        Item::Disk => format!("disks in {place}"),
        Item::CheckpointStorage => format!("checkpoint storage in {place}"),
        Item::Egress => format!("data out of {place}"),
        other => format!("{} in {place}", other.word()),
    };
    BillRow {
        item,
        quantity: charge.quantity,
        unit: charge.unit.clone(),
        unit_price: Some(charge.unit_price),
        cost: charge.costs.contracted,
        basis: basis(charge),
    }
}

fn basis(charge: &Charge) -> String {
    let of = charge.priced_at.map_or_else(String::new, |at| format!(" of {}", day(at)));
    format!("{}{of}; {}", charge.source, charge.assumption)
}

/// The sum of the lines is what the run has spent, to the nano-dollar.
pub fn section(run: &RunFacts) -> Section {
    let rows = rows(run);
    let total = format::usd(bill::total(&rows));
    let lost: Usd = run
        .machines
        .iter()
        .flat_map(|machine| &machine.charges)
        .filter(|charge| charge.waste.is_some())
        .map(|charge| charge.costs.contracted)
        .sum();
    let mut text = vec![format!("The lines add up to what the run has spent, {total}.")];
    if lost > Usd::ZERO {
        text.push(format!(
            "{} of it bought no progress: machines that waited, and work that was lost and done again.",
            format::usd(lost)
        ));
    }
    if run.beside.iter().any(|one| one.is_open) {
        text.push("Of what is stored, this month's part still grows, until `gpuplan delete` deletes it.".to_owned());
    }
    let description = format!("{} items that add up to {total}.", rows.len());
    bill::section(&rows, description, "What was paid: quantity times unit price", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::run::tests::{beside, charge, facts, rented};

    #[test]
    fn the_lines_are_told_apart_and_add_up() {
        let mut run = facts();
        let mut work = charge(Item::Machines, "3");
        work.quantity = 1.5;
        let mut redone = charge(Item::LostWork, "1");
        (redone.waste, redone.quantity) = (Some(Waste::Redone), 0.5);
        run.machines = vec![
            Rented { charges: vec![work.clone(), redone], ..rented("4") },
            Rented { charges: vec![work], ..rented("3") },
            Rented { until: None, ..rented("0.000000001") },
        ];
        run.beside = vec![beside(Item::Disk, "0.25"), beside(Item::Disk, "0.25"), beside(Item::Egress, "2")];
        let found: Vec<(String, f64, String)> =
            rows(&run).into_iter().map(|line| (line.item, line.quantity, line.cost.to_string())).collect();
        let line = |item: &str, quantity, cost: &str| (item.to_owned(), quantity, cost.to_owned());
        assert_eq!(
            found,
            [
                line("t in p, spot", 3.0, "6.00"),
                line("lost work: t in p, spot", 0.5, "1.00"),
                line("t in p, spot", 9.0, "0.000000001"),
                line("data out of c r", 1.0, "2.00"),
                line("disks in c r", 2.0, "0.50"),
            ]
        );
        let section = section(&run);
        assert_eq!(section.figures[0].table.rows.last().unwrap()[4].exact, "9.500000001");
        assert_eq!(run.spent().to_string(), "9.500000001");
        assert!(section.text[1].starts_with("$1.00 of it bought no progress"), "{:?}", section.text);
    }
}
