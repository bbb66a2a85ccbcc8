//! Fitting the band of a peak of memory on strangers' runs, none of which a constant of memory has seen (`benchmarks/unfitted`).

use crate::measured::Measured;
use crate::prediction::Prediction;
use crate::published::Run;
use crate::quantile::rounded;
use crate::two_sided::{self, Covered, Point, Rule, Widths};
use gpuplan_estimate::memory_band::MemoryDoubt;
use gpuplan_estimate::memory_constants::{FittedMemory, MemoryCoverage, MemoryWidth};

/// Share within either side of a band of which 80 % are inside in the mean over sources of looks that are left out.
const RULE: Rule = Rule { within: [0.94, 0.90], guess: [MemoryDoubt::GUESS; 2] };

/// A measured peak with what was expected.
pub struct Peak<'a> {
    run: &'a Run,
    /// ln(measured / expected).
    log_error: f64,
    has: Vec<bool>,
}

impl<'a> Peak<'a> {
    /// Those of runs whose peak was measured.
    pub fn all(runs: &'a [Run], predictions: &[Option<Prediction>]) -> Vec<Self> {
        let one = |(run, made): (&'a Run, &Option<Prediction>)| {
            let Measured::PeakMemory { bytes, summed: false } = run.measured else { return None };
            let made = made.as_ref()?;
            let measure = run.case.training.measure.unwrap_or_default();
            Some(Self {
                run,
                log_error: (bytes.0 / made.peak_memory.expected).ln(),
                has: MemoryDoubt::ALL.iter().map(|doubt| doubt.is_in(measure, made.doubts)).collect(),
            })
        };
        runs.iter().zip(predictions).filter_map(one).collect()
    }

    fn point(&self) -> Point<'_> {
        Point {
            source: &self.run.source,
            look: &self.run.locator,
            square: 0.0,
            size: [self.log_error.max(0.0), (-self.log_error).max(0.0)],
            has: self.has.clone(),
        }
    }
}

/// The constants of memory with bands that were fitted on these peaks.
pub fn with_bands(memory: FittedMemory, peaks: &[Peak]) -> FittedMemory {
    let points: Vec<Point> = peaks.iter().map(Peak::point).collect();
    let Widths { widths, sources } = two_sided::fit(&points, MemoryDoubt::ALL.len(), RULE);
    let listed = MemoryDoubt::ALL.iter().zip(widths).zip(sources);
    let bands = listed.map(|((doubt, [more, less]), sources)| MemoryWidth {
        name: doubt.word().to_owned(),
        more: rounded(more, 4),
        less: rounded(less, 4),
        sources,
    });
    let Covered { runs_percent, by_source_percent, high_over_low, .. } =
        two_sided::by_looks(&points, MemoryDoubt::ALL.len(), RULE);
    let coverage = MemoryCoverage {
        runs: points.len(),
        inside_percent: rounded(runs_percent, 1),
        inside_by_source_percent: rounded(by_source_percent, 1),
        high_over_low: rounded(high_over_low, 3),
    };
    FittedMemory { bands: bands.collect(), coverage, ..memory }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::unfitted::{self, LAST_LOOKS, PROJECTS, WRONG};
    use gpuplan_hardware::Hardware;
    use gpuplan_workload::Models;

    /// The peaks of the looks that the widths are of, or of those that they have not seen.
    fn coverage(of_last: bool) -> (FittedMemory, usize, usize) {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/unfitted"));
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .filter(|path| LAST_LOOKS.iter().any(|look| path.file_stem().unwrap() == *look) == of_last)
            .map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()))
            .collect();
        files.sort();
        let published = unfitted::read(&files, &(text(PROJECTS) + &text(WRONG))).unwrap();
        let (hardware, models) = (Hardware::embedded().unwrap(), Models::embedded().unwrap());
        let predictions = crate::predict(&published, &hardware, &models);
        let peaks = Peak::all(&published.runs, &predictions);
        let inside = published.runs.iter().zip(&predictions).filter(|(run, made)| {
            let Measured::PeakMemory { bytes, .. } = run.measured else { return false };
            made.as_ref().is_some_and(|made| (made.peak_memory.low..=made.peak_memory.high).contains(&bytes.0))
        });
        let inside = inside.count();
        (with_bands(FittedMemory::embedded().clone(), &peaks), peaks.len(), inside)
    }

    #[test]
    fn the_widths_are_this_fit_and_hold_what_they_promise() {
        let (made, _, _) = coverage(false);
        let embedded = FittedMemory::embedded();
        for (fitted, embedded) in made.bands.iter().zip(&embedded.bands) {
            assert!((fitted.more - embedded.more).abs() < 0.02, "{fitted:?} {embedded:?}");
            assert!((fitted.less - embedded.less).abs() < 0.02, "{fitted:?} {embedded:?}");
        }
        assert_eq!(made.bands.len(), embedded.bands.len());
        assert!((75.0..=87.0).contains(&embedded.coverage.inside_by_source_percent), "{:?}", embedded.coverage);
    }

    #[test]
    fn looks_that_the_widths_never_saw_are_inside_as_often() {
        let (_, peaks, inside) = coverage(true);
        assert!(100 * inside >= 70 * peaks, "{inside} of {peaks}");
    }
}
