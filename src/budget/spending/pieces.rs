//! A charge cut by time: day by day, month by month, and what of it lies in the time that is asked for.

use jiff::{SignedDuration, Timestamp};

use crate::charge::{Charge, Costs};
use crate::portfolio::calendar::Month;
use gpuplan_units::Usd;

/// What an invoice has for longer than the month in which it begins, such as a commitment for a year that is paid at once, is paid in
/// that month and not a little in each.
fn as_paid(mut charge: Charge) -> Charge {
    if charge.invoice.is_some() {
        charge.end = charge.end.min(Month::containing(charge.start).ahead(1).begin());
    }
    charge
}

/// The part of a charge that lies in the time that is shown: by its share of time.
pub fn within(charge: Charge, since: Option<Timestamp>, until: Option<Timestamp>) -> Option<Charge> {
    let whole = charge;
    let charge = as_paid(whole.clone());
    let from = since.map_or(charge.start, |since| since.max(charge.start));
    let to = until.map_or(charge.end, |until| until.min(charge.end));
    if (from, to) == (charge.start, charge.end) {
        return Some(whole);
    }
    // What takes no time lies where it begins.
    if charge.start == charge.end {
        return (from == charge.start && to == charge.end).then_some(charge);
    }
    (from < to).then(|| piece(&charge, from, to))
}

/// The charge day by day, by its share of time. The pieces add up to it.
pub fn by_day(charge: &Charge) -> Vec<Charge> {
    pieces(&as_paid(charge.clone()), next_midnight)
}

/// The same month by month.
pub fn by_month(charge: &Charge) -> Vec<Charge> {
    pieces(&as_paid(charge.clone()), |time| Some(Month::containing(time).ahead(1).begin()))
}

fn pieces(charge: &Charge, next: impl Fn(Timestamp) -> Option<Timestamp>) -> Vec<Charge> {
    let (mut pieces, mut from) = (Vec::new(), charge.start);
    while let Some(border) = next(from).filter(|border| *border < charge.end) {
        pieces.push(piece(charge, from, border));
        from = border;
    }
    pieces.push(piece(charge, from, charge.end));
    pieces
}

fn piece(charge: &Charge, from: Timestamp, to: Timestamp) -> Charge {
    if (from, to) == (charge.start, charge.end) {
        return charge.clone();
    }
    let nanos = |to: Timestamp| to.duration_since(charge.start).as_nanos();
    let whole = nanos(charge.end);
    let part = |amount: Usd| amount.share(nanos(to), whole) - amount.share(nanos(from), whole);
    let Costs { list, contracted, effective, billed } = charge.costs;
    Charge {
        start: from,
        end: to,
        quantity: charge.quantity * (nanos(to) - nanos(from)) as f64 / whole as f64,
        costs: Costs {
            list: part(list),
            contracted: part(contracted),
            effective: part(effective),
            billed: billed.map(part),
        },
        ..charge.clone()
    }
}

fn next_midnight(time: Timestamp) -> Option<Timestamp> {
    let day = SignedDuration::from_hours(24).as_secs();
    Timestamp::from_second((time.as_second().div_euclid(day) + 1) * day).ok()
}
