//! Fitting the bands: half-widths by regime and by doubt, on the errors of runs whose code base the constants never saw.
//!
//! A run of a code base errs by what its base has in common and by what is its own; a band for a new base must hold both. Half-widths are
//! such that 80 % of the left-out runs are inside, every base weighing the same; those that few bases decide stay near all the others, or
//! near a guess. Then every base is left out of this fit too, and all half-widths grow by the one factor with which 80 % of the runs are
//! inside bands that never saw their base (conformal prediction by groups: Dunn et al. 2018, arXiv 1809.07441), and half of those of every
//! source: a band that holds everyone but one source says nothing to whoever is like that one.
//!
//! What runs of others have beside those of the tables (`Unfamiliar`) is added to either side, by runs that no constant was fitted on
//! (`unfamiliar_fit`), in turns with that factor.

use std::collections::{BTreeMap, BTreeSet};

use crate::held_out::HeldOut;
use crate::quantile::{percent, quantile, rounded};
use crate::unfamiliar_fit::{self, Known};
use gpuplan_estimate::band::{FittedBands, HalfWidth, SourceCoverage, Widths};
use gpuplan_estimate::unfamiliar::{Side, UnfamiliarWidths};
use gpuplan_estimate::{Doubt, Doubts, Regime};

/// Share of runs that a band holds.
const INSIDE: f64 = 0.8;
/// Share of the runs of a source, where it has so many.
const LEAST_INSIDE: f64 = 0.5;
const FEWEST_RUNS: usize = 8;
/// Of what is doubted few code bases have runs, and some of those one or two: one of fewer than `FEWEST_RUNS` counts in proportion there, as in
/// the fit of the constants. In a regime every code base counts the same.
const WHOLE: f64 = 1.0;
/// A half-width counts as its number of code bases, what it is shrunk to as this many.
const SHRUNK_TO: f64 = 2.0;
/// Regimes and doubts are solved in turns; by then they move no more.
const TURNS: usize = 6;
/// Nothing is believed to be met better than this.
const LEAST: f64 = 0.02;
/// No half-width is wider.
const MOST: f64 = 2.0;

/// One left-out run.
#[derive(Clone, Copy)]
struct Miss<'a> {
    held: &'a HeldOut<'a>,
    /// |ln(predicted / measured)|.
    size: f64,
}

impl<'a> Miss<'a> {
    fn from_held_out(held: &'a HeldOut<'a>) -> Self {
        Self { held, size: held.log_error.abs() }
    }

    fn group(&self) -> &str {
        self.held.run.run.group()
    }

    /// Squares of the half-width that a new code base multiplies, and of that which is left open.
    fn squares(&self, widths: &Widths) -> (f64, f64) {
        let of =
            |left_open| widths.doubt_square(self.held.doubts, |doubt| f64::from(doubt.is_left_open() == left_open));
        (widths.of_regime(self.held.regime).powi(2) + of(false), of(true))
    }
}

/// One run by bands that never saw its code base: the factor from which on it is inside, the squares of its half-width (known, left open).
struct Share<'a> {
    factor: f64,
    squares: (f64, f64),
    miss: Miss<'a>,
}

impl Share<'_> {
    fn source(&self) -> &str {
        &self.miss.held.run.run.source
    }

    /// The factor from which on it is inside with what is unfamiliar about it.
    fn needed(&self, unfamiliar: &UnfamiliarWidths) -> f64 {
        let side = if self.miss.held.log_error < 0.0 { Side::Slower } else { Side::Faster };
        let (known, left_open) = self.squares;
        let beside = left_open + unfamiliar.square(side, self.miss.held.doubts, |_| 1.0);
        // The run that decides is inside, whatever squares and roots round to.
        ((self.miss.size.powi(2) - beside).max(0.0) / known).sqrt() * (1.0 + 1e-9)
    }

    fn known(&self, new_source: f64) -> Known<'_> {
        Known { held: self.miss.held, square: new_source.powi(2) * self.squares.0 + self.squares.1 }
    }
}

/// Bands of the runs as constants that never saw their code base missed them. `open` are runs of which something was left open
/// (`held_out::left_open`): they decide the doubts about that and nothing else. `strangers` are runs that no constant was fitted on.
pub fn fit(held: &[HeldOut], open: &[HeldOut], strangers: &[HeldOut]) -> FittedBands {
    let misses: Vec<Miss> = held.iter().map(Miss::from_held_out).collect();
    let open: Vec<Miss> = open.iter().map(Miss::from_held_out).collect();
    let (widths, regimes, doubts) = widths(&misses, &open);
    let shares = left_out(&misses, &open);
    let inside = |factor: f64| percent(shares.iter().filter(|share| share.factor <= factor).count(), shares.len());
    let (new_source, unfamiliar, beside) = in_turns(&shares, strangers, &widths);
    let covered = unfamiliar_fit::by_looks(&beside);
    let of_tables: Vec<Known> = shares.iter().map(|share| share.known(new_source)).collect();
    let is_inside: Vec<bool> = of_tables.iter().map(|known| known.is_inside(&unfamiliar.widths)).collect();
    let mut sources: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (share, inside) in shares.iter().zip(&is_inside) {
        let (runs, held) = sources.entry(share.source()).or_default();
        *runs += 1;
        *held += usize::from(*inside);
    }
    let coverage = |(name, (runs, held)): (&str, (usize, usize))| SourceCoverage {
        name: name.to_owned(),
        runs,
        inside_percent: rounded(percent(held, runs), 1),
    };
    let named = |name: &str, half_width: f64, groups: usize| HalfWidth {
        name: name.to_owned(),
        half_width: rounded(half_width, 4),
        groups,
    };
    let known = of_tables.iter().filter(|known| is_dense_on_a_known_program(known.held.doubts));
    let wide = known.map(|known| (known.log_high_over_low(&unfamiliar.widths), 1.0)).collect();
    FittedBands {
        runs: misses.len(),
        inside_before_percent: rounded(inside(1.0), 1),
        inside_percent: rounded(percent(is_inside.iter().filter(|inside| **inside).count(), is_inside.len()), 1),
        new_source: rounded(new_source, 4),
        median_high_over_low: rounded(quantile(wide, 0.5).exp(), 3),
        unfitted_runs: strangers.len(),
        unfitted_inside_percent: rounded(covered.runs_percent, 1),
        unfitted_inside_by_source_percent: rounded(covered.by_source_percent, 1),
        unfitted_high_over_low: rounded(covered.high_over_low, 3),
        regimes: (0..regimes.len()).map(|at| named(Regime::ALL[at].word(), widths.regimes[at], regimes[at])).collect(),
        doubts: (0..doubts.len()).map(|at| named(Doubt::ALL[at].word(), widths.doubts[at], doubts[at])).collect(),
        unfamiliar: unfamiliar.listed(),
        looks: covered.looks.into_iter().map(|(name, runs, inside)| coverage((&name, (runs, inside)))).collect(),
        sources: sources.into_iter().map(coverage).collect(),
    }
}

/// The factor of a new code base and the widths of what is unfamiliar, which make room for one another; the strangers beside that factor.
fn in_turns<'a>(
    shares: &[Share],
    strangers: &'a [HeldOut<'a>],
    widths: &Widths,
) -> (f64, unfamiliar_fit::Fitted, Vec<Known<'a>>) {
    let mut by_source: BTreeMap<&str, Vec<&Share>> = BTreeMap::new();
    for share in shares {
        by_source.entry(share.source()).or_default().push(share);
    }
    let everybody: Vec<&Share> = shares.iter().collect();
    let mut turn = (1.0, unfamiliar_fit::fit(&[]), Vec::new());
    for _ in 0..TURNS {
        let known = |held| {
            let (known, left_open) = Miss::from_held_out(held).squares(widths);
            Known { held, square: f64::powi(turn.0, 2) * known + left_open }
        };
        let beside: Vec<Known> = strangers.iter().map(known).collect();
        let unfamiliar = unfamiliar_fit::fit(&beside);
        let needed = |shares: &[&Share], inside| {
            quantile(shares.iter().map(|share| (share.needed(&unfamiliar.widths), 1.0)).collect(), inside)
        };
        let large = by_source.values().filter(|shares| shares.len() >= FEWEST_RUNS);
        let half_of_each = large.map(|shares| needed(shares, LEAST_INSIDE));
        let factor = half_of_each.fold(needed(&everybody, INSIDE), f64::max).max(1.0);
        turn = (factor, unfamiliar, beside);
    }
    turn
}

fn is_dense_on_a_known_program(doubts: Doubts) -> bool {
    doubts.training && !(doubts.experts || doubts.images || doubts.library || doubts.framework || doubts.stack)
}

/// Every run by bands that never saw its code base.
fn left_out<'a>(misses: &[Miss<'a>], open: &[Miss]) -> Vec<Share<'a>> {
    let groups: BTreeSet<&str> = misses.iter().map(Miss::group).collect();
    let mut shares = Vec::new();
    for group in groups {
        let (out, others): (Vec<Miss>, Vec<Miss>) = misses.iter().partition(|miss| miss.group() == group);
        let open_others: Vec<Miss> = open.iter().filter(|miss| miss.group() != group).copied().collect();
        let without = widths(&others, &open_others).0;
        shares.extend(out.into_iter().map(|miss| {
            let (known, left_open) = miss.squares(&without);
            let factor = ((miss.size.powi(2) - left_open).max(0.0) / known).sqrt();
            Share { factor, squares: (known, left_open), miss }
        }));
    }
    shares
}

/// Half-widths with 80 % of these runs inside, and the code bases that each rests on.
fn widths(misses: &[Miss], open: &[Miss]) -> (Widths, [usize; Regime::ALL.len()], [usize; Doubt::ALL.len()]) {
    let mut widths = Widths { regimes: [0.0; Regime::ALL.len()], doubts: Doubt::ALL.map(Doubt::guess) };
    let (mut in_regime, mut in_doubt) = ([0; Regime::ALL.len()], [0; Doubt::ALL.len()]);
    for _ in 0..TURNS {
        // The little that a published run leaves open counts as what its code base is wrong by.
        let known = |miss: &Miss| widths.doubt_square(miss.held.doubts, |doubt| f64::from(!doubt.is_left_open()));
        let (pooled, _) = solved(misses.iter().map(|miss| (*miss, known(miss))).collect(), WHOLE);
        let mut regimes = widths.regimes;
        for (at, regime) in Regime::ALL.into_iter().enumerate() {
            let own: Vec<(Miss, f64)> =
                misses.iter().filter(|miss| miss.held.regime == regime).map(|miss| (*miss, known(miss))).collect();
            in_regime[at] = groups(&own);
            let count = in_regime[at] as f64;
            let solved = if own.is_empty() { pooled } else { solved(own, WHOLE).0 };
            regimes[at] = ((count * solved.ln() + SHRUNK_TO * pooled.ln()) / (count + SHRUNK_TO)).exp();
        }
        widths.regimes = regimes;
        for (at, doubt) in Doubt::ALL.into_iter().enumerate() {
            let counts = |one: Doubt| one != doubt && (doubt.is_left_open() || !one.is_left_open());
            let rest = |miss: &Miss| {
                let others = widths.doubt_square(miss.held.doubts, |one| f64::from(counts(one)));
                widths.of_regime(miss.held.regime).powi(2) + others
            };
            let runs = if doubt.is_left_open() { open } else { misses };
            let doubted = runs.iter().filter(|miss| miss.held.doubts.holds(doubt));
            let own: Vec<(Miss, f64)> = doubted.map(|miss| (*miss, rest(miss))).collect();
            in_doubt[at] = groups(&own);
            let (solved, count) = if own.is_empty() { (doubt.guess(), 0.0) } else { solved(own, FEWEST_RUNS as f64) };
            widths.doubts[at] = (count * solved + SHRUNK_TO * doubt.guess()) / (count + SHRUNK_TO);
        }
    }
    (widths, in_regime, in_doubt)
}

fn groups(misses: &[(Miss, f64)]) -> usize {
    misses.iter().map(|(miss, _)| miss.group()).collect::<BTreeSet<_>>().len()
}

/// The half-width that, beside what each run has already (squared), holds 80 % of the runs, every code base of `full` runs weighing the same and
/// those of fewer in proportion; and how many code bases that makes.
fn solved(misses: Vec<(Miss, f64)>, full: f64) -> (f64, f64) {
    let mut sizes: BTreeMap<String, f64> = BTreeMap::new();
    for (miss, _) in &misses {
        *sizes.entry(miss.group().to_owned()).or_default() += 1.0;
    }
    // A run is inside from the half-width on that fills what its own square leaves open.
    let needed = misses
        .iter()
        .map(|(miss, known)| ((miss.size.powi(2) - known).max(0.0).sqrt(), 1.0 / sizes[miss.group()].max(full)))
        .collect();
    let count = sizes.values().map(|size| (size / full).min(1.0)).sum();
    (quantile(needed, INSIDE).clamp(LEAST, MOST), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::FitRun;
    use crate::published::Published;
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    #[test]
    fn bands_hold_what_they_promise_of_code_bases_that_differ() {
        let published = Published::embedded().unwrap();
        let runs = FitRun::all(&published.runs, &Hardware::embedded().unwrap(), &Models::embedded().unwrap());
        // A bias of each code base beside a scatter of its runs, and twice both where there are experts.
        let noise =
            |text: &str| text.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let between = |text: &str| f64::from(noise(text) % 1000) / 500.0 - 1.0;
        let held: Vec<HeldOut> = runs
            .iter()
            .map(|run| {
                let experts = run.run.case.model.kind == Some(gpuplan_workload::ModelKind::Moe);
                let size = 0.15 * between(run.run.group()) + 0.15 * between(&run.run.id);
                HeldOut {
                    run,
                    log_error: if experts { 2.0 * size } else { size },
                    regime: Regime::Compute,
                    doubts: Doubts { experts, ..Doubts::default() },
                }
            })
            .collect();
        let bands = fit(&held, &[], &[]);
        assert_eq!(bands.runs, held.len());
        assert!(bands.inside_percent >= 79.9 && bands.new_source >= 1.0, "{bands:?}");
        assert!(bands.sources.iter().all(|one| one.runs < FEWEST_RUNS || one.inside_percent >= 50.0), "{bands:?}");
        let half_width = |list: &[HalfWidth], name: &str| list.iter().find(|one| one.name == name).unwrap().half_width;
        let compute = half_width(&bands.regimes, "compute");
        assert!((0.1..0.3).contains(&compute) && half_width(&bands.doubts, "experts") > 0.1, "{bands:?}");
        // What no run has keeps its guess.
        assert!((half_width(&bands.doubts, "vendor") - Doubt::Vendor.guess()).abs() < 1e-9);
    }
}
