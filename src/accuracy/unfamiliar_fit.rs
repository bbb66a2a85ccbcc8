//! Fitting what is unfamiliar: by how much more than their band holds runs were off that no constant was fitted on, slower and faster.
//!
//! Each half-width is such that, beside the band and all others, nine of ten of the runs that have it are within its side, every source weighing
//! the same. Turns are taken, since a run may have several. How the widths do on sources that they never saw is found by leaving out one look
//! after the other: a file of `benchmarks/unfitted`, whose sources nobody had seen when it was written.

use std::collections::{BTreeMap, BTreeSet};

use crate::held_out::HeldOut;
use crate::quantile::{percent, quantile, rounded};
use gpuplan_estimate::unfamiliar::{Side, TwoSided, Unfamiliar, UnfamiliarWidths};

/// Share of the runs within one side of a band of which 80 % are inside, in the mean over sources of looks that are left out (`by_looks`; 79.7 by
/// these, 83 with 0.90 on the slower side and widths a fifth wider, 76 with 0.85).
fn within(side: Side) -> f64 {
    match side {
        Side::Slower => 0.88,
        Side::Faster => 0.90,
    }
}
/// A source of fewer runs counts in proportion. Most have one to five.
const WHOLE: f64 = 2.0;
/// A half-width counts as its number of sources, the guess as this many.
const SHRUNK_TO: f64 = 2.0;
/// By then widths move no more.
const TURNS: usize = 8;
/// No half-width is wider.
const MOST: f64 = 2.0;

/// A run, and the square of the half-width that it has without anything unfamiliar.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub held: &'a HeldOut<'a>,
    pub square: f64,
}

impl Known<'_> {
    fn source(&self) -> &str {
        &self.held.run.run.source
    }

    fn look(&self) -> &str {
        &self.held.run.run.locator
    }

    /// How far on a side. The log error is of predicted over measured time: below 0 the run was slower.
    fn size(&self, side: Side) -> f64 {
        match side {
            Side::Slower => (-self.held.log_error).max(0.0),
            Side::Faster => self.held.log_error.max(0.0),
        }
    }

    fn half_width(&self, side: Side, widths: &UnfamiliarWidths) -> f64 {
        (self.square + widths.square(side, self.held.doubts, |_| 1.0)).sqrt()
    }

    pub fn is_inside(&self, widths: &UnfamiliarWidths) -> bool {
        Side::BOTH.iter().all(|side| self.size(*side) <= self.half_width(*side, widths))
    }

    pub fn log_high_over_low(&self, widths: &UnfamiliarWidths) -> f64 {
        Side::BOTH.iter().map(|side| self.half_width(*side, widths)).sum()
    }
}

/// Half-widths, and the sources that each rests on.
pub struct Fitted {
    pub widths: UnfamiliarWidths,
    sources: [usize; Unfamiliar::ALL.len()],
}

impl Fitted {
    pub fn listed(&self) -> Vec<TwoSided> {
        let widths = Unfamiliar::ALL.iter().zip(self.widths.0).zip(self.sources);
        widths
            .map(|((one, [slower, faster]), sources)| TwoSided {
                name: one.word().to_owned(),
                slower: rounded(slower, 4),
                faster: rounded(faster, 4),
                sources,
            })
            .collect()
    }
}

/// Of widths that never saw a look, how many of its runs are inside.
pub struct Covered {
    pub runs_percent: f64,
    /// Every source weighing the same.
    pub by_source_percent: f64,
    /// Median.
    pub high_over_low: f64,
    /// Name, runs, and those inside.
    pub looks: Vec<(String, usize, usize)>,
}

pub fn fit(runs: &[Known]) -> Fitted {
    let mut widths = UnfamiliarWidths::guessed();
    let mut sources = [0; Unfamiliar::ALL.len()];
    for _ in 0..TURNS {
        for (at, one) in Unfamiliar::ALL.into_iter().enumerate() {
            let having: Vec<&Known> = runs.iter().filter(|run| one.is_in(run.held.doubts)).collect();
            let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
            for run in &having {
                *sizes.entry(run.source()).or_default() += 1.0;
            }
            sources[at] = sizes.len();
            let count: f64 = sizes.values().map(|size| (size / WHOLE).min(1.0)).sum();
            for (side_at, side) in Side::BOTH.into_iter().enumerate() {
                let others = |other: Unfamiliar| if other == one { 0.0 } else { 1.0 };
                let needed = |run: &&Known| {
                    let has = run.square + widths.square(side, run.held.doubts, others);
                    let lacks = (run.size(side).powi(2) - has).max(0.0).sqrt();
                    (lacks, 1.0 / sizes[run.source()].max(WHOLE))
                };
                let solved = quantile(having.iter().map(needed).collect(), within(side)).min(MOST);
                widths.0[at][side_at] = (count * solved + SHRUNK_TO * side.guess()) / (count + SHRUNK_TO);
            }
        }
    }
    Fitted { widths, sources }
}

/// The runs of every look by widths that were fitted on the other looks.
pub fn by_looks(runs: &[Known]) -> Covered {
    let looks: BTreeSet<&str> = runs.iter().map(Known::look).collect();
    let mut sources: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut covered = Vec::new();
    let mut wide = Vec::new();
    for look in looks {
        let (out, others): (Vec<Known>, Vec<Known>) = runs.iter().partition(|run| run.look() == look);
        let widths = fit(&others).widths;
        for run in &out {
            let (count, held) = sources.entry(&run.held.run.run.source).or_default();
            *count += 1;
            *held += usize::from(run.is_inside(&widths));
            wide.push((run.log_high_over_low(&widths), 1.0));
        }
        let inside = out.iter().filter(|run| run.is_inside(&widths)).count();
        covered.push((look.to_owned(), out.len(), inside));
    }
    let by_source: f64 = sources.values().map(|(count, held)| percent(*held, *count)).sum();
    Covered {
        runs_percent: percent(covered.iter().map(|(_, _, inside)| inside).sum(), runs.len()),
        by_source_percent: by_source / sources.len().max(1) as f64,
        high_over_low: quantile(wide, 0.5).exp(),
        looks: covered,
    }
}
