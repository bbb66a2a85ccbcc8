//! A run goes on under another leader, who knows a journal: which gang is kept.

use crate::controller::Controller;
use crate::controller::events::{ResumeState, Terms};
use crate::controller::liveness::Liveness;
use crate::controller::phase::{Beside, Gang, Next, Phase, Which};
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
        // Whoever has the store alone knows from its leases how far the run was.
        resumed.done = resumed.done.max(resumed.ledger.done());
        resumed.rentals = past.rentals.clone();
        (resumed.unclear_until, resumed.heard_of) = (now + resumed.terms.settles, now);
        let mut gangs = resumed.whole_gangs(&past, now).into_iter();
        let kept = gangs.next();
        resumed.beside = gangs.next_back().map(|gang| Beside { gang, open: None });
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
                    has_started: true,
                    leaving: None,
                }
            }
            None => Phase::Ending { until: resumed.unclear_until, looked_at: f64::NEG_INFINITY, next: Next::Choose },
        };
        resumed
    }

    /// Gangs with all their machines, the oldest first: that one goes on, and one that was ordered beside it only if it turns out to be gone.
    fn whole_gangs(&self, past: &ResumeState, now: f64) -> Vec<Gang> {
        let mut epochs: Vec<u64> = past.standing.iter().map(|standing| standing.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs.into_iter().filter_map(|epoch| self.whole_gang(past, epoch, now)).collect()
    }

    fn whole_gang(&self, past: &ResumeState, epoch: u64, now: f64) -> Option<Gang> {
        let standing = || past.standing.iter().filter(|standing| standing.epoch == epoch);
        let pool = &standing().next()?.pool;
        let of_gang = |rental: &&Rental| standing().any(|standing| standing.machine == rental.machine);
        let machines: Vec<&Rental> = self.rentals.open().filter(of_gang).collect();
        let since = machines.iter().map(|rental| rental.since).fold(f64::INFINITY, f64::min);
        // An order without an answer may be of this gang only if it is the last, and was sent since the gang was.
        let is_open = past.open_since.is_some_and(|at| at >= since) && epoch >= past.epoch;
        let is_whole = machines.len() == self.terms.nodes as usize && !is_open;
        let spot = self.terms.spot.iter().position(|choice| choice.pool == *pool).map(Which::Spot);
        let which =
            spot.or_else(|| self.terms.on_demand.iter().position(|choice| choice.pool == *pool).map(Which::OnDemand));
        let machines: Vec<_> = machines.iter().map(|rental| rental.machine.clone()).collect();
        // Who has the store alone learns from the first list which lease is whose. Until then no machine is ended for that.
        let ends_at = self.lease_of(&machines).unwrap_or(now + self.terms.lifetime);
        let done_before = self.ledger.done_before(|id| machines.iter().any(|machine| machine.0 == id));
        let changeover = self.changeover(which?);
        which.filter(|_| is_whole).map(|which| Gang { epoch, which, since, changeover, ends_at, done_before, machines })
    }
}
