//! Fitting what is unfamiliar: by how much more than their band holds runs were off that no constant was fitted on, slower and faster.
//!
//! How the widths do on sources that they never saw is found by leaving out one look after the other: a file of `benchmarks/unfitted`, whose sources
//! nobody had seen when it was written.

use crate::held_out::HeldOut;
use crate::quantile::rounded;
use crate::two_sided::{self, Covered, Point, Rule};
use gpuplan_estimate::unfamiliar::{Side, TwoSided, Unfamiliar, UnfamiliarWidths};

/// Share of the runs within one side of a band of which 80 % are inside, in the mean over sources of looks that are left out (`by_looks`; 79.7 by
/// these, 83 with 0.90 on the slower side and widths a fifth wider, 76 with 0.85).
fn within(side: Side) -> f64 {
    match side {
        Side::Slower => 0.88,
        Side::Faster => 0.90,
    }
}
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

pub fn fit(runs: &[Known]) -> Fitted {
    let made = two_sided::fit(&points(runs), Unfamiliar::ALL.len(), rule());
    let mut fitted = Fitted { widths: UnfamiliarWidths::guessed(), sources: [0; Unfamiliar::ALL.len()] };
    for (at, (width, sources)) in made.widths.into_iter().zip(made.sources).enumerate() {
        (fitted.widths.0[at], fitted.sources[at]) = (width, sources);
    }
    fitted
}

/// The runs of every look by widths that were fitted on the other looks.
pub fn by_looks(runs: &[Known]) -> Covered {
    two_sided::by_looks(&points(runs), Unfamiliar::ALL.len(), rule())
}

fn rule() -> Rule {
    Rule { within: Side::BOTH.map(within), guess: Side::BOTH.map(Side::guess) }
}

fn points<'a>(runs: &'a [Known]) -> Vec<Point<'a>> {
    let one = |run: &'a Known| Point {
        source: run.source(),
        look: run.look(),
        square: run.square,
        size: Side::BOTH.map(|side| run.size(side)),
        has: Unfamiliar::ALL.iter().map(|one| one.is_in(run.held.doubts)).collect(),
    };
    runs.iter().map(one).collect()
}
