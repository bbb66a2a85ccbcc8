//! A run goes on under another leader, who knows a journal: which gang is kept.

use crate::controller::Controller;
use crate::controller::events::{ResumeState, Terms};
use crate::controller::liveness::Liveness;
use crate::controller::phase::{Gang, Next, Phase, Which};
use crate::controller::rental::Rental;
use gpuplan_runstore::Ledger;

impl Controller {
    /// The run as a journal knows it, after the one who led it is gone: a whole gang is kept, anything less is ended.
    pub fn resume(terms: Terms, past: ResumeState, now: f64) -> Self {
        let mut resumed = Self::new(terms, past.epoch, now);
        (resumed.orders, resumed.done, resumed.interruptions) = (past.orders, past.done, past.interruptions);
        resumed.ledger = past
            .ledger
            .clone()
            .map_or_else(|| Ledger::settled(past.rentals.spent(now), resumed.terms.launch.moment()), Ledger::inherited);
        resumed.rentals = past.rentals.clone();
        (resumed.unclear_until, resumed.heard_of) = (now + resumed.terms.settles, now);
        let kept = resumed.whole_gang(&past, now);
        resumed.phase = match kept {
            Some(gang) => {
                let since = gang.since;
                if let Which::Spot(pool) = gang.which {
                    resumed.last_pool = Some(pool);
                    resumed.watch.gave(pool);
                }
                Phase::Running {
                    gang,
                    // A store that nobody has read yet says nothing of the gang.
                    liveness: Liveness::default(),
                    looked_at: f64::NEG_INFINITY,
                    decided_at: now,
                    // A gang that may still boot has its time to.
                    is_working: now - since > resumed.terms.limits.worst_changeover,
                    has_spoken: true,
                    leaving: None,
                }
            }
            None => Phase::Ending { until: resumed.unclear_until, looked_at: f64::NEG_INFINITY, next: Next::Choose },
        };
        resumed
    }

    /// The gang that goes on: the oldest that is whole. One that was ordered beside it is not needed.
    fn whole_gang(&self, past: &ResumeState, now: f64) -> Option<Gang> {
        let open: Vec<&Rental> = self.rentals.open().collect();
        let standing =
            || past.standing.iter().filter(|standing| open.iter().any(|rental| rental.machine == standing.machine));
        let epoch = standing().map(|standing| standing.epoch).min()?;
        let pool = &standing().find(|standing| standing.epoch == epoch)?.pool;
        let of_gang = |rental: &&&Rental| {
            standing().any(|standing| standing.epoch == epoch && standing.machine == rental.machine)
        };
        let machines: Vec<&&Rental> = open.iter().filter(of_gang).collect();
        // An order without an answer may be of this gang only if it is the last.
        let is_whole = machines.len() == self.terms.nodes as usize && (past.open_since.is_none() || epoch < past.epoch);
        let spot = self.terms.spot.iter().position(|choice| choice.pool == *pool).map(Which::Spot);
        let which =
            spot.or_else(|| self.terms.on_demand.iter().position(|choice| choice.pool == *pool).map(Which::OnDemand));
        which.filter(|_| is_whole).map(|which| Gang {
            epoch,
            which,
            since: machines.iter().map(|rental| rental.since).fold(f64::INFINITY, f64::min),
            changeover: self.changeover(which),
            ends_at: self.ledger.ends_at(now + self.terms.lifetime),
            machines: machines.iter().map(|rental| rental.machine.clone()).collect(),
        })
    }
}
