//! Widths that have two sides, of what a run has beside a band of its own: fitted on strangers' runs, and judged by looks that are left out.
//!
//! Each half-width is such that, beside the band and all others, a share of the runs that have it is within its side, every source weighing the same.
//! Turns are taken, since a run may have several.

use std::collections::{BTreeMap, BTreeSet};

use crate::quantile::{percent, quantile};

/// A source of fewer runs counts in proportion. Most have one to five.
const WHOLE: f64 = 2.0;
/// A half-width counts as its number of sources, the guess as this many.
const SHRUNK_TO: f64 = 2.0;
/// By then widths move no more.
const TURNS: usize = 8;
/// No half-width is wider.
const MOST: f64 = 2.0;

/// One run.
pub struct Point<'a> {
    pub source: &'a str,
    /// The file that it came in.
    pub look: &'a str,
    /// Square of the half-width that it has without any of these.
    pub square: f64,
    /// How far off it is on each side: 0 on one of them.
    pub size: [f64; 2],
    /// Which of the widths it has.
    pub has: Vec<bool>,
}

/// How many are within a side, and the half-width before any run is looked at.
#[derive(Clone, Copy)]
pub struct Rule {
    pub within: [f64; 2],
    pub guess: [f64; 2],
}

/// Half-widths on both sides, and the sources that each rests on.
pub struct Widths {
    pub widths: Vec<[f64; 2]>,
    pub sources: Vec<usize>,
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

impl Point<'_> {
    /// Square of its half-width on a side without one of the widths.
    fn square_without(&self, side: usize, widths: &[[f64; 2]], without: Option<usize>) -> f64 {
        let held = (0..widths.len()).filter(|at| self.has[*at] && Some(*at) != without);
        self.square + held.map(|at| widths[at][side].powi(2)).sum::<f64>()
    }

    fn half_width(&self, side: usize, widths: &[[f64; 2]]) -> f64 {
        self.square_without(side, widths, None).sqrt()
    }

    pub fn is_inside(&self, widths: &[[f64; 2]]) -> bool {
        (0..2).all(|side| self.size[side] <= self.half_width(side, widths))
    }

    fn log_high_over_low(&self, widths: &[[f64; 2]]) -> f64 {
        (0..2).map(|side| self.half_width(side, widths)).sum()
    }
}

/// So many `kinds` of widths.
pub fn fit(points: &[Point], kinds: usize, rule: Rule) -> Widths {
    let mut widths = vec![rule.guess; kinds];
    let mut sources = vec![0; kinds];
    for _ in 0..TURNS {
        for at in 0..kinds {
            let having: Vec<&Point> = points.iter().filter(|point| point.has[at]).collect();
            let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
            for point in &having {
                *sizes.entry(point.source).or_default() += 1.0;
            }
            sources[at] = sizes.len();
            let count: f64 = sizes.values().map(|size| (size / WHOLE).min(1.0)).sum();
            for side in 0..2 {
                let needed = |point: &&Point| {
                    let has = point.square_without(side, &widths, Some(at));
                    let lacks = (point.size[side].powi(2) - has).max(0.0).sqrt();
                    (lacks, 1.0 / sizes[point.source].max(WHOLE))
                };
                let solved = quantile(having.iter().map(needed).collect(), rule.within[side]).min(MOST);
                widths[at][side] = (count * solved + SHRUNK_TO * rule.guess[side]) / (count + SHRUNK_TO);
            }
        }
    }
    Widths { widths, sources }
}

/// The runs of every look by widths that were fitted on the other looks.
pub fn by_looks(points: &[Point], kinds: usize, rule: Rule) -> Covered {
    let looks: BTreeSet<&str> = points.iter().map(|point| point.look).collect();
    let mut sources: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut covered = Vec::new();
    let mut wide = Vec::new();
    for look in looks {
        let others: Vec<Point> = points.iter().filter(|point| point.look != look).map(Point::again).collect();
        let widths = fit(&others, kinds, rule).widths;
        let out: Vec<&Point> = points.iter().filter(|point| point.look == look).collect();
        for point in &out {
            let (count, held) = sources.entry(point.source).or_default();
            *count += 1;
            *held += usize::from(point.is_inside(&widths));
            wide.push((point.log_high_over_low(&widths), 1.0));
        }
        let inside = out.iter().filter(|point| point.is_inside(&widths)).count();
        covered.push((look.to_owned(), out.len(), inside));
    }
    let by_source: f64 = sources.values().map(|(count, held)| percent(*held, *count)).sum();
    Covered {
        runs_percent: percent(covered.iter().map(|(_, _, inside)| inside).sum(), points.len()),
        by_source_percent: by_source / sources.len().max(1) as f64,
        high_over_low: quantile(wide, 0.5).exp(),
        looks: covered,
    }
}

impl<'a> Point<'a> {
    fn again(&self) -> Point<'a> {
        Point { has: self.has.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { within: [0.9, 0.9], guess: [0.1, 0.1] };

    fn point<'a>(source: &'a str, look: &'a str, size: [f64; 2]) -> Point<'a> {
        Point { source, look, square: 0.01, size, has: vec![true] }
    }

    #[test]
    fn a_width_holds_its_side_alone() {
        let names: Vec<String> = (0..40).map(|at| format!("s{at}")).collect();
        let points: Vec<Point> = names.iter().map(|name| point(name, "look", [0.5, 0.0])).collect();
        let made = fit(&points, 1, RULE);
        assert_eq!(made.sources, [40]);
        let [one, other] = made.widths[0];
        assert!((0.4..0.5).contains(&one) && other < 0.02, "{one} {other}");
    }

    #[test]
    fn a_look_that_is_left_out_is_judged_by_the_others() {
        let near: Vec<Point> = ["a", "b", "c"].map(|name| point(name, "near", [0.1, 0.0])).into();
        let far = ["d", "e", "f"].map(|name| point(name, "far", [1.5, 0.0]));
        let covered = by_looks(&near.into_iter().chain(far).collect::<Vec<_>>(), 1, RULE);
        assert_eq!(covered.looks, [("far".to_owned(), 3, 0), ("near".to_owned(), 3, 3)]);
        assert!((covered.by_source_percent - 50.0).abs() < 1e-9);
    }
}
