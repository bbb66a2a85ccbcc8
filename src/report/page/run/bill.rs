//! The bill of a run: machine time by place and by what it was good for, then what was paid beside it.

use crate::format;
use crate::page::chart::{Bars, Chart, Kind, Row};
use crate::page::document::{Cell, Column, Figure, Section, Table, day};
use crate::page::run::{Rented, RunFacts};
use gpuplan_budget::{Charge, Item, Waste};
use gpuplan_units::Usd;

/// What is charged alike is one line.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    item: String,
    unit: String,
    /// Of machines, what was agreed; `None`: more than one.
    price: Option<Usd>,
    basis: String,
    quantity: f64,
    cost: Usd,
}

/// Machines first, the dearest of each first.
fn lines(run: &RunFacts) -> Vec<Line> {
    let mut machines: Vec<Line> = Vec::new();
    for machine in &run.machines {
        for line in of_machine(machine, run.hours) {
            add(&mut machines, line);
        }
    }
    let mut beside: Vec<Line> = Vec::new();
    for one in &run.beside {
        add(&mut beside, of_charge(&one.charge));
    }
    for lines in [&mut machines, &mut beside] {
        lines.sort_by(|a, b| b.cost.cmp(&a.cost).then_with(|| a.item.cmp(&b.item)));
    }
    machines.into_iter().chain(beside).collect()
}

fn add(lines: &mut Vec<Line>, line: Line) {
    match lines.iter_mut().find(|known| known.item == line.item && known.unit == line.unit && known.basis == line.basis)
    {
        None => lines.push(line),
        Some(known) => {
            known.price = known.price.filter(|price| line.price == Some(*price));
            known.quantity += line.quantity;
            known.cost = known.cost + line.cost;
        }
    }
}

/// Divided into work, lost work and idle time where the run's store or the ledger knows it.
fn of_machine(machine: &Rented, hours: f64) -> Vec<Line> {
    let name = format!("{} in {}, {}", machine.instance_type, machine.place, machine.terms());
    let price = Some(machine.rate.times(1));
    if machine.charges.is_empty() {
        let basis = "agreed at launch".to_owned();
        let quantity = machine.end(hours) - machine.from;
        return vec![Line { item: name, unit: "machine-hour".to_owned(), price, basis, quantity, cost: machine.cost }];
    }
    let line = |charge: &Charge| {
        let what = match charge.waste {
            None => "",
            Some(Waste::Idle) => "idle: ",
            Some(Waste::Redone) => "lost work: ",
            Some(Waste::Failed) => "failed: ",
        };
        let cost = charge.costs.contracted;
        Line {
            item: format!("{what}{name}"),
            unit: "machine-hour".to_owned(),
            price,
            basis: basis(charge),
            quantity: charge.quantity,
            cost,
        }
    };
    machine.charges.iter().map(line).collect()
}

fn of_charge(charge: &Charge) -> Line {
    let place = [Some(charge.resource.cloud.as_str()), charge.resource.region.as_deref()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let item = match charge.item {
        Item::Disk => format!("disks in {place}"),
        Item::CheckpointStorage => format!("checkpoint storage in {place}"),
        Item::Egress => format!("data out of {place}"),
        other => format!("{} in {place}", other.word()),
    };
    let (unit, price) = (charge.unit.clone(), Some(charge.unit_price));
    Line { item, unit, price, basis: basis(charge), quantity: charge.quantity, cost: charge.costs.contracted }
}

fn basis(charge: &Charge) -> String {
    let of = charge.priced_at.map_or_else(String::new, |at| format!(" of {}", day(at)));
    format!("{}{of}; {}", charge.source, charge.assumption)
}

/// The sum of the lines is what the run has spent, to the nano-dollar.
pub fn section(run: &RunFacts) -> Section {
    let lines = lines(run);
    let total: Usd = lines.iter().map(|line| line.cost).sum();
    let bars = lines.iter().map(|line| Row {
        name: line.item.clone(),
        value: line.cost.dollars(),
        words: format::usd(line.cost),
    });
    let chart = Chart::new(
        "The bill by item",
        format!("{} items that add up to {}.", lines.len(), format::usd(total)),
        Kind::Bars(Bars { rows: bars.collect() }),
    );
    let price =
        |line: &Line| line.price.map_or_else(Cell::none, |price| Cell::new(format!("${price}"), price.to_string()));
    let row = |line: &Line| {
        let (quantity, cost) = (Cell::count(line.quantity), Cell::usd(line.cost));
        vec![Cell::text(&*line.item), quantity, Cell::text(&*line.unit), price(line), cost, Cell::text(&*line.basis)]
    };
    let mut rows: Vec<Vec<Cell>> = lines.iter().map(row).collect();
    rows.push(vec![
        Cell::text("total"),
        Cell::none(),
        Cell::none(),
        Cell::none(),
        Cell::usd(total),
        Cell::text("the sum of the lines"),
    ]);
    let table = Table {
        id: "bill",
        caption: "What was paid: quantity times unit price".to_owned(),
        columns: vec![
            Column::text("item", "Item"),
            Column::number("quantity", "Quantity"),
            Column::text("unit", "Unit"),
            Column::number("unit_price_usd", "Unit price"),
            Column::number("cost_usd", "Cost"),
            Column::text("basis", "Rests on"),
        ],
        rows,
    };
    let lost: Usd = run
        .machines
        .iter()
        .flat_map(|machine| &machine.charges)
        .filter(|charge| charge.waste.is_some())
        .map(|charge| charge.costs.contracted)
        .sum();
    let mut text = vec![format!("The lines add up to what the run has spent, {}.", format::usd(total))];
    if lost > Usd::ZERO {
        text.push(format!(
            "{} of it bought no progress: machines that waited, and work that was lost and done again.",
            format::usd(lost)
        ));
    }
    if run.beside.iter().any(|one| one.is_open) {
        text.push("Of what is stored, this month's part still grows, until `gpuplan down` deletes it.".to_owned());
    }
    Section {
        id: "bill",
        heading: "The bill",
        text,
        figures: vec![Figure { chart: Some(chart), table }],
        ..Section::default()
    }
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
            lines(&run).into_iter().map(|line| (line.item, line.quantity, line.cost.to_string())).collect();
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
