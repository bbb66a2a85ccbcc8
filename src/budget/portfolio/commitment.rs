//! `Commitment`: a reservation or a savings plan that several runs share.

use jiff::Timestamp;

use crate::portfolio::calendar::Month;
use gpuplan_units::{Usd, UsdPerHour};

/// Counts an hour of a machine of a reservation that costs nothing.
pub const FREE_HOUR: Usd = Usd::from_nanos(1_000_000_000);

/// Paid for every hour of its months, used or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    pub name: String,
    pub kind: CommitmentKind,
    pub cloud: String,
    /// `None`: everywhere.
    pub region: Option<String>,
    /// Of one machine of a reservation, or what a savings plan obliges to spend.
    pub usd_per_hour: UsdPerHour,
    pub start: Month,
    pub months: u32,
    pub source: String,
    pub as_of: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CommitmentKind {
    Reservation {
        instance_type: String,
        nodes: u32,
    },
    /// Off the on-demand price of machines whose names begin so; none: of all.
    SavingsPlan {
        machines: Vec<String>,
        discount: f64,
    },
}

impl Commitment {
    pub fn is_in(&self, month: Month) -> bool {
        (0..i64::from(self.months)).contains(&i64::from(month.since(self.start)))
    }

    /// What is paid for an hour.
    fn each_hour(&self) -> Usd {
        match self.kind {
            CommitmentKind::Reservation { nodes, .. } => self.usd_per_hour.times(nodes),
            CommitmentKind::SavingsPlan { .. } => self.usd_per_hour.times(1),
        }
    }

    /// What is paid for a month.
    pub fn in_month(&self, month: Month) -> Usd {
        // Months have whole hours.
        self.each_hour().share(month.hours() as i128, 1)
    }

    /// As the file has it.
    pub fn kind_word(&self) -> &'static str {
        match self.kind {
            CommitmentKind::Reservation { .. } => "reservation",
            CommitmentKind::SavingsPlan { .. } => "savings-plan",
        }
    }

    /// A reservation that costs nothing, used or not.
    pub fn is_free(&self) -> bool {
        matches!(self.kind, CommitmentKind::Reservation { .. }) && self.usd_per_hour == UsdPerHour::default()
    }

    /// What it can cover in a month: as much as is paid for, or, where nothing is, a dollar for each hour of each machine.
    pub fn capacity(&self, month: Month) -> Usd {
        match self.kind {
            CommitmentKind::Reservation { nodes, .. } if self.is_free() => {
                FREE_HOUR.share(i128::from(nodes) * month.hours() as i128, 1)
            }
            _ => self.in_month(month),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paid_for_a_month_is_counted_up_to_the_largest_price() {
        let month = Month::parse("2027-01").unwrap();
        let reservation = |usd_per_hour| Commitment {
            name: "block".to_owned(),
            kind: CommitmentKind::Reservation { instance_type: "p5".to_owned(), nodes: u32::MAX },
            cloud: "aws".to_owned(),
            region: None,
            usd_per_hour,
            start: month,
            months: 1,
            source: String::new(),
            as_of: Timestamp::UNIX_EPOCH,
        };
        let dearest = reservation(UsdPerHour::from_nanos(i64::MAX));
        assert_eq!(dearest.in_month(month).nanos(), i128::from(i64::MAX) * i128::from(u32::MAX) * 744);
        assert_eq!(dearest.capacity(month), dearest.in_month(month));
        let free = reservation(UsdPerHour::default());
        let hours = i128::from(u32::MAX) * 744;
        assert_eq!((free.in_month(month), free.capacity(month).nanos()), (Usd::ZERO, hours * FREE_HOUR.nanos()));
    }
}
