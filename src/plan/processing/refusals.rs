//! Refused candidates for work without GPU, each machine type represented by the one that came closest.

use std::collections::BTreeMap;

use crate::explanation::rejection::Nearest;
use crate::explanation::{Rejected, Rejection};
use crate::processing::machines::Rented;

/// Refused candidates by machine type and terms, represented by the one that came closest.
#[derive(Default)]
pub struct Refusals {
    by_type: BTreeMap<String, Nearest>,
}

impl Refusals {
    pub fn add(&mut self, rented: &Rented, nodes: u32, why: Rejection) {
        let key = match why {
            Rejection::OtherCloud { .. } => "other clouds".to_owned(),
            Rejection::OtherRegion { .. } => "other regions".to_owned(),
            _ => format!("{}/{} {}", rented.host.cloud, rented.host.name, rented.purchase),
        };
        self.by_type.entry(key).or_insert_with(|| Nearest::new(why.clone(), nodes)).add(why, nodes);
    }

    /// Whether money alone keeps a plan out.
    pub fn has_money_in_the_way(&self) -> bool {
        self.by_type.values().any(|held| match &held.why {
            Rejection::Budget { .. } | Rejection::MaxPrice { .. } => true,
            Rejection::Policy(broken) => broken.violation.is_about_cost(),
            _ => false,
        })
    }

    /// Closest first.
    pub fn lines(self) -> Vec<Rejected> {
        let mut lines: Vec<_> = self.by_type.into_iter().collect();
        lines.sort_by(|(_, a), (_, b)| {
            let by_progress = b.why.progress().cmp(&a.why.progress());
            by_progress.then(a.why.distance().total_cmp(&b.why.distance()))
        });
        let line = |(what, Nearest { why, nodes, count }): (String, Nearest)| {
            let what = if why.is_about_request() { what } else { format!("{what} x{nodes}") };
            Rejected { what, why, count }
        };
        lines.into_iter().map(line).collect()
    }
}
