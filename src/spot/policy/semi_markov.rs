//! Semi-Markov policy: the least expected cost to the end, from a table over time left, slack and what the pool does.

use crate::spot::availability::{AGES, Availability, REGIMES, bin};
use crate::spot::policy::reason::Reason;
use crate::spot::policy::safety::keep_deadline;
use crate::spot::policy::{Action, Decision, Limits, Observation, State, pools};
use crate::spot::watch::HALF_LIFE_HOURS;

const PHASES: usize = REGIMES.len() * 2 * AGES.len();

#[derive(Clone, Debug)]
pub struct Tables {
    step: f64,
    cell: f64,
    cells: usize,
    steps: usize,
    /// Bits 0-1: from idle 0 idle, 1 spot, 2 on-demand. Bit 2: from on-demand to spot.
    actions: Vec<u8>,
    /// Expected cost from the start in hours of spot
    pub start_values: Vec<f32>,
}

fn phase(regime: usize, up: bool, age: usize) -> usize {
    (regime * 2 + usize::from(up)) * AGES.len() + age
}

/// One step of the availability from a phase.
struct Onward {
    flip: f32,
    flipped: [(usize, f32); 2],
    stays: [(usize, f32); 4],
}

fn onward(model: &Availability, step: f64) -> Vec<Onward> {
    let mut all = Vec::new();
    let drift = std::f64::consts::LN_2 / HALF_LIFE_HOURS * step / 3600.0;
    for regime in 0..REGIMES.len() {
        for state in 0..2 {
            for age in 0..AGES.len() {
                let up = state == 1;
                let flip = 1.0 - (-model.rates[regime][state][age] * step / 3600.0).exp();
                let end = REGIMES.get(regime + 1).copied().unwrap_or(1.0);
                let (mid, width) = ((REGIMES[regime] + end) / 2.0, end - REGIMES[regime]);
                let next = if up { (regime + 1).min(REGIMES.len() - 1) } else { regime.saturating_sub(1) };
                let moves = (drift * if up { 1.0 - mid } else { mid } / width).min(1.0);
                let older = (age + 1).min(AGES.len() - 1);
                let ages = AGES.get(age + 1).map_or(0.0, |end| (step / 3600.0 / (end - AGES[age])).min(1.0));
                all.push(Onward {
                    flip: flip as f32,
                    flipped: [(phase(regime, !up, 0), (1.0 - moves) as f32), (phase(next, !up, 0), moves as f32)],
                    stays: [
                        (phase(regime, up, age), ((1.0 - moves) * (1.0 - ages)) as f32),
                        (phase(next, up, age), (moves * (1.0 - ages)) as f32),
                        (phase(regime, up, older), ((1.0 - moves) * ages) as f32),
                        (phase(next, up, older), (moves * ages) as f32),
                    ],
                });
            }
        }
    }
    all
}

/// Value rows by phase.
type Rows = Vec<Vec<f32>>;

fn mix(out: &mut [f32], rows: &Rows, parts: &[(usize, f32)]) {
    out.fill(0.0);
    for (from, share) in parts.iter().filter(|(_, share)| *share > 0.0) {
        for (o, v) in out.iter_mut().zip(&rows[*from]) {
            *o += share * v;
        }
    }
}

/// `row` at slack lower by `cells` (a fraction).
fn shifted(out: &mut [f32], row: &[f32], cells: f64) {
    let whole = cells.floor() as usize;
    let part = (cells - cells.floor()) as f32;
    for index in 0..row.len() {
        let a = row[index.saturating_sub(whole)];
        let b = row[index.saturating_sub(whole + 1)];
        out[index] = a + part * (b - a);
    }
}

impl Tables {
    pub fn new(model: &Availability, limits: &Limits, ratio: f64, cells: usize) -> Self {
        let step = limits.tick * (limits.changeover / 2.0 / limits.tick).floor().max(1.0);
        let steps = (limits.deadline / step + 1e-9).floor() as usize;
        let slack = (limits.deadline - limits.work).max(limits.tick);
        let cell = slack / (cells - 1) as f64;
        let onward = onward(model, step);
        let d = limits.changeover;
        let dw = limits.worst_changeover;
        let k = (ratio * step / 3600.0) as f32;
        let c = (step / 3600.0) as f32;
        let zero = vec![vec![0.0_f32; cells]; PHASES];
        let (mut idle, mut spot, mut od) = (zero.clone(), zero.clone(), zero.clone());
        let mut actions = vec![0_u8; (steps + 1) * PHASES * cells];
        // at time 0 left: work left w = -s... slack>=0 means done.
        let mut e = vec![0.0_f32; cells];
        let mut wait = vec![0.0_f32; cells];
        let mut start_od = vec![0.0_f32; cells];
        let mut start_spot = vec![0.0_f32; cells];
        let mut lost = vec![0.0_f32; cells];
        let idle_from = ((dw + step) / cell - 1e-6).ceil().max(0.0) as usize;
        let spot_from = ((dw + dw.min(step)) / cell - 1e-6).ceil().max(0.0) as usize;
        for n in 1..=steps {
            let left = n as f64 * step;
            let (mut new_idle, mut new_spot, mut new_od) = (zero.clone(), zero.clone(), zero.clone());
            // slack index from which the work is done
            let done = ((left / cell - 1e-9).ceil() as usize).min(cells);
            for z in 0..PHASES {
                let way = &onward[z];
                let up = (z / AGES.len()) % 2 == 1;
                let both = |rows: &Rows, out: &mut Vec<f32>, t: &mut Vec<f32>| {
                    mix(out, rows, &way.stays);
                    mix(t, rows, &way.flipped);
                    for (o, f) in out.iter_mut().zip(t.iter()) {
                        *o += way.flip * (*f - *o);
                    }
                };
                both(&idle, &mut e, &mut lost);
                shifted(&mut wait, &e, step / cell);
                both(&od, &mut e, &mut lost);
                shifted(&mut start_od, &e, d / cell);
                let stay_od = e.clone();
                if up {
                    mix(&mut e, &spot, &way.stays);
                    mix(&mut lost, &idle, &way.flipped);
                    for s in 0..cells {
                        new_spot[z][s] = c + e[s] + way.flip * (lost[s] - e[s]);
                    }
                    shifted(&mut start_spot, &e, d / cell);
                    let mut gone = vec![0.0; cells];
                    shifted(&mut gone, &lost, d.min(step) / cell);
                    for s in 0..cells {
                        start_spot[s] = c + start_spot[s] + way.flip * (gone[s] - start_spot[s]);
                    }
                }
                let at = (n * PHASES + z) * cells;
                for s in 0..cells {
                    let o = k + start_od[s];
                    let (mut best, mut act) = (o, 2_u8);
                    if s >= idle_from && wait[s] <= best {
                        (best, act) = (wait[s], 0);
                    }
                    let mut od_best = k + stay_od[s];
                    if up && s >= spot_from {
                        if start_spot[s] <= best {
                            (best, act) = (start_spot[s], 1);
                        }
                        if start_spot[s] < od_best {
                            od_best = start_spot[s];
                            act |= 4;
                        }
                    }
                    new_idle[z][s] = best;
                    new_od[z][s] = od_best;
                    actions[at + s] = act;
                }
                for s in done..cells {
                    new_idle[z][s] = 0.0;
                    new_od[z][s] = 0.0;
                    new_spot[z][s] = 0.0;
                }
            }
            (idle, spot, od) = (new_idle, new_spot, new_od);
        }
        let start_values = idle.iter().map(|row| row[cells - 1]).collect();
        Self { step, cell, cells, steps, actions, start_values }
    }
}

pub fn decide(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let best = pools::best(state, observation, limits);
    let view = observation.pools[best.unwrap_or(0)];
    let until = state.until(limits);
    let n = ((until / tables.step + 1e-6).floor() as usize).min(tables.steps);
    let slack = until - state.left - state.pending;
    let s = ((slack / tables.cell + 0.5).floor().max(0.0) as usize).min(tables.cells - 1);
    let z = phase(bin(view.availability, &REGIMES), view.up, bin(view.age / 3600.0, &AGES));
    let act = tables.actions[(n * PHASES + z) * tables.cells + s];
    let wish = match (state.running, best) {
        (Action::Spot(_), _) => Decision { action: state.running, reason: Reason::StayOnSpot },
        (Action::OnDemand(_), Some(pool)) if act & 4 != 0 => Decision { action: Action::Spot(pool), reason: Reason::SpotHasLasted },
        (Action::OnDemand(_), _) => Decision { action: state.running, reason: Reason::StayOnDemand },
        (Action::Idle, Some(pool)) if act & 3 == 1 => Decision { action: Action::Spot(pool), reason: Reason::SpotIsUp },
        (Action::Idle, _) if act & 3 == 2 => Decision { action: limits.cheapest_on_demand(), reason: Reason::NoTimeToWait },
        (Action::Idle, _) => Decision { action: Action::Idle, reason: Reason::WaitForSpot },
    };
    keep_deadline(wish, state, limits)
}
