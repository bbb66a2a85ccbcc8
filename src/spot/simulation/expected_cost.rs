//! The least expected cost of a job on one pool: a dynamic programme over time left, slack and the phase of the pool.

use crate::availability::AvailabilityModel;
use crate::availability::chain::onward;
use crate::simulation::actions::Actions;
pub use crate::simulation::actions::Start;
use crate::simulation::elsewhere::{Costs, Elsewhere};
use crate::simulation::programme::{Done, Solver, Values, pass};
use crate::simulation::slack::{MOST_CELLS, cells, width};
pub use crate::simulation::terms::{Terms, WAITING};

/// The best action in every cell.
#[derive(Clone, Debug)]
pub struct Table {
    step: f64,
    steps: usize,
    /// Work and slack together of what is asked, at most. Seconds.
    horizon: f64,
    /// Slack of each cell, in seconds.
    slacks: Vec<f64>,
    /// By whole steps of slack: cells with less.
    cells_below: Vec<u8>,
    actions: Actions,
    /// Where pools are weighed against each other.
    costs: Option<Costs>,
}

impl Table {
    /// Of a job on this pool alone, or on others to which it moves at no cost.
    pub fn new(model: &AvailabilityModel, terms: &Terms) -> Self {
        Self::beside(model, terms, None)
    }

    /// Solves backwards from the deadline. Costs are in hours of spot.
    pub fn beside(model: &AvailabilityModel, terms: &Terms, elsewhere: Option<Elsewhere>) -> Self {
        let step = terms.step();
        let slacks = cells(terms.horizon, step);
        // Rows that fill a processor's vectors: most horizons need no more than the narrower ones.
        match slacks.len() {
            ..=32 => Self::solved::<32>(model, terms, slacks, elsewhere),
            33..=48 => Self::solved::<48>(model, terms, slacks, elsewhere),
            _ => Self::solved::<MOST_CELLS>(model, terms, slacks, elsewhere),
        }
    }

    /// In rows of so many cells, no fewer than there are.
    fn solved<const CELLS: usize>(
        model: &AvailabilityModel,
        terms: &Terms,
        slacks: Vec<f64>,
        elsewhere: Option<Elsewhere>,
    ) -> Self {
        let (step, count) = (terms.step(), slacks.len());
        // The nearest cell may have half a cell more slack than what is asked, and work is counted in whole steps.
        let steps = ((terms.horizon + width(terms.horizon, step) / 2.0) / step).ceil() as usize + 1;
        let mut solver = Solver::<CELLS>::new(terms, step, &slacks, elsewhere);
        let ways = onward(model, step);
        let mut actions = Actions::new(steps, CELLS);
        let mut costs = elsewhere.map(|_| Costs::new(steps, count));
        let mut keep = |left: usize, now: &Values<CELLS>| {
            if let Some(costs) = &mut costs {
                costs.keep(left, &now.idle, &now.on_demand);
            }
        };
        keep(0, &solver.then);
        let mut done = Done::default();
        for left in 1..=steps {
            done.then = done.now;
            while done.now < count && slacks[done.now] < left as f64 * step - 1e-6 {
                done.now += 1;
            }
            pass(&mut solver, &ways, done, left, &mut actions);
            keep(left, &solver.then);
        }
        let most_steps = (slacks[count - 1] / step) as usize + 1;
        let below = |steps: usize| slacks.partition_point(|slack| *slack < steps as f64 * step) as u8;
        let cells_below = (0..=most_steps).map(below).collect();
        Self { step, steps, horizon: terms.horizon, slacks, cells_below, actions, costs }
    }

    /// From idle, and from on-demand, with this slack (time left less work and changeover left) and work left.
    pub fn best(&self, work: f64, slack: f64, phase: usize) -> (Start, bool) {
        let (slack, below, above) = self.cells(work, slack);
        // The nearest cell, and between two the lower one, whatever a sum of seconds was rounded to.
        let cell = if slack - self.slacks[below] < self.slacks[above] - slack + 1e-3 { below } else { above };
        // With the slack of the cell: what is rounded is slack, and never work, which may be less than a cell.
        let left = whole_up((work + self.slacks[cell]) / self.step - 1e-6).min(self.steps);
        self.actions.at(phase, left, cell)
    }

    /// Seconds between two decisions.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Whether it was made to weigh pools.
    pub fn has_costs(&self) -> bool {
        self.costs.is_some()
    }

    /// Hours of spot that are left to pay, from idle or from on-demand. `None`: pools are not weighed.
    pub fn cost(&self, on_demand: bool, work: f64, slack: f64, phase: usize) -> Option<f64> {
        let costs = self.costs.as_ref()?;
        let (slack, below, above) = self.cells(work, slack);
        let at = |cell: usize| costs.at(on_demand, (work + self.slacks[cell]) / self.step, phase, cell);
        let (from, to) = (at(below), at(above));
        let width = self.slacks[above] - self.slacks[below];
        Some(if width > 0.0 { from + (slack - self.slacks[below]) / width * (to - from) } else { from })
    }

    /// The slack that counts, and the cells below and above it.
    fn cells(&self, work: f64, slack: f64) -> (f64, usize, usize) {
        // Beyond the horizon more slack changes nothing, and the work stays the one that is asked for.
        let most = (self.horizon - work).max(0.0);
        let slack = slack.clamp(0.0, most.min(self.slacks[self.slacks.len() - 1]));
        // The first cell with no less: the one of the whole steps, or one beside it.
        let mut above = usize::from(self.cells_below[(slack / self.step) as usize]);
        while above > 0 && self.slacks[above - 1] >= slack {
            above -= 1;
        }
        while above < self.slacks.len() - 1 && self.slacks[above] < slack {
            above += 1;
        }
        (slack, above.saturating_sub(1), above)
    }
}

/// Up to a whole number, of what is above -1: `ceil` is a call where a processor need not know it.
fn whole_up(steps: f64) -> usize {
    let below = steps as usize;
    below + usize::from(steps > below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::chain::{PHASES, phase};
    use crate::policy::PoolView;

    const WORK: f64 = 48.0 * 3600.0;
    const TERMS: Terms =
        Terms { horizon: 60.0 * 3600.0, tick: 600.0, changeover: 720.0, worst_changeover: 2160.0, price_ratio: 3.0 };

    fn view(up: bool, hours: f64) -> usize {
        phase(&PoolView { up, age: hours * 3600.0, availability: 0.5, frailty: 1.0 })
    }

    /// Whoever had ten days more than the horizon waited for all of them.
    #[test]
    fn more_slack_than_the_horizon_changes_nothing() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        for phase in 0..PHASES {
            let within = table.best(WORK, TERMS.horizon - WORK, phase);
            assert_eq!(table.best(WORK, 1000.0 * 3600.0, phase), within, "{phase}");
        }
    }

    #[test]
    fn cells_are_found_as_a_search_finds_them() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        let most = table.slacks[table.slacks.len() - 1];
        let near = table.slacks.iter().flat_map(|slack| [slack - 1e-9, *slack, slack + 1e-9]);
        let steps = (0..=(most / 7.0) as u32).map(|at| 7.0 * f64::from(at));
        for slack in near.chain(steps).map(|slack| slack.clamp(0.0, most.min(TERMS.horizon))) {
            let above = table.slacks.partition_point(|of| *of < slack).min(table.slacks.len() - 1);
            assert_eq!(table.cells(0.0, slack), (slack, above.saturating_sub(1), above), "{slack}");
        }
    }

    #[test]
    fn slack_is_waited_with_and_its_lack_is_not() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert_eq!(table.best(WORK, 12.0 * 3600.0, view(false, 0.0)).0, Start::Wait);
        assert_eq!(table.best(WORK, 2000.0, view(false, 0.0)).0, Start::OnDemand);
        assert_eq!(table.best(WORK, 12.0 * 3600.0, view(true, 5.0)).0, Start::Spot);
    }

    #[test]
    fn on_demand_is_left_for_spot_that_has_lasted() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert!(table.best(WORK, 2.0 * 3600.0, view(true, 8.0)).1);
        assert!(!table.best(WORK, 2.0 * 3600.0, view(true, 0.0)).1);
    }

    /// The whole changeover was charged, and an hour of it was not begun before a pool had been up for one.
    #[test]
    fn a_machine_that_is_lost_on_its_way_costs_the_steps_that_it_had() {
        let hour = Terms { horizon: 40.0 * 3600.0, changeover: 3600.0, worst_changeover: 3600.0, ..TERMS };
        let table = Table::new(&AvailabilityModel::prior(), &hour);
        for slack in [2.5, 5.5, 9.0] {
            assert_eq!(table.best(WORK / 2.0, slack * 3600.0, view(true, 0.5)).0, Start::Spot, "{slack} h");
        }
    }

    #[test]
    fn a_step_is_no_longer_than_the_rates_of_its_age_hold() {
        for (tick, changeover, horizon, step) in [
            (600.0, 3600.0, 40.0, 600.0),
            (32.0, 720.0, 40.0, 352.0),
            (600.0, 36_000.0, 40.0, 3000.0),
            (600.0, 720.0, 400.0, 1200.0),
        ] {
            let terms =
                Terms { horizon: horizon * 3600.0, tick, changeover, worst_changeover: changeover, price_ratio: 3.0 };
            assert_eq!(terms.step(), step, "{terms:?}");
        }
    }

    #[test]
    fn spot_that_saves_nothing_is_never_started() {
        let table = Table::new(&AvailabilityModel::prior(), &Terms { price_ratio: 0.9, ..TERMS });
        assert!((0..PHASES).all(|phase| !table.best(WORK, 3.0 * 3600.0, phase).1));
    }

    #[test]
    fn odd_terms_give_a_table_all_the_same() {
        for (work, deadline, changeover) in [(3600.0, 1800.0, 0.0), (1e7, 1e9, 7200.0), (60.0, 60.0, 36_000.0)] {
            let horizon = Terms::horizon_of(work, deadline, 600.0);
            let terms = Terms { horizon, changeover, worst_changeover: 3.0 * changeover, ..TERMS };
            let table = Table::new(&AvailabilityModel::prior(), &terms);
            let _ = table.best(work, deadline - work, 0);
        }
    }

    #[test]
    fn wider_rows_say_the_same() {
        let model = AvailabilityModel::prior();
        for hours in [6.0, 20.0, 40.0] {
            let terms = Terms { horizon: hours * 3600.0, ..TERMS };
            let slacks = cells(terms.horizon, terms.step());
            assert!(slacks.len() <= 48);
            let wide = Table::solved::<MOST_CELLS>(&model, &terms, slacks, None);
            let narrow = Table::new(&model, &terms);
            for (left, cell) in
                (0..=narrow.steps).flat_map(|left| (0..narrow.slacks.len()).map(move |cell| (left, cell)))
            {
                for phase in 0..PHASES {
                    let of = |table: &Table| table.actions.at(phase, left, cell);
                    assert_eq!(of(&narrow), of(&wide), "{hours} h, {left} {cell} {phase}");
                }
            }
        }
    }

    #[test]
    fn a_longer_table_says_the_same() {
        let longer = Terms { horizon: 100.0 * 3600.0, ..TERMS };
        assert!(longer.cover(&TERMS) && !TERMS.cover(&longer));
        assert!(!Terms { changeover: 900.0, ..longer }.cover(&TERMS));
        assert!(!Terms { horizon: 1e7, ..TERMS }.cover(&TERMS), "its steps are longer");
        let (short, long) =
            (Table::new(&AvailabilityModel::prior(), &TERMS), Table::new(&AvailabilityModel::prior(), &longer));
        for work in (0..48).map(|hours| f64::from(hours) * 3600.0) {
            for slack in (0..24).map(|halves| f64::from(halves) * 1800.0) {
                for phase in 0..PHASES {
                    assert_eq!(short.best(work, slack, phase), long.best(work, slack, phase), "{work} {slack} {phase}");
                }
            }
        }
    }
}
