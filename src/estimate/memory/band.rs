//! Band of a peak of memory: how far measured peaks of strangers lay above and below the expected one, by what is new about a run.

use std::sync::OnceLock;

use crate::doubts::Doubts;
use crate::memory::constants::FittedMemory;
use gpuplan_workload::Measure;

/// Part of the doubt about a peak. Half-widths are of ln(measured / expected), and are added in quadrature, each side for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryDoubt {
    /// Of every run.
    Peak,
    /// The figure holds what the allocator has cached, and perhaps the driver's own.
    Cached,
    /// A loop of one's own around a library, or no stack is named.
    Loop,
    /// Mixtures of experts: buffers of their tokens on the way.
    Experts,
    /// What is recomputed, or how the run was split, is chosen here.
    Setting,
}

impl MemoryDoubt {
    pub const ALL: [Self; 5] = [Self::Peak, Self::Cached, Self::Loop, Self::Experts, Self::Setting];

    /// Half-width on either side before any run is looked at. Judged.
    pub const GUESS: f64 = 0.10;

    /// Word of the constants file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Cached => "cached",
            Self::Loop => "loop",
            Self::Experts => "experts",
            Self::Setting => "setting",
        }
    }

    pub fn is_in(self, measure: Measure, doubts: Doubts) -> bool {
        match self {
            Self::Peak => true,
            Self::Cached => matches!(measure, Measure::Reserved | Measure::Device),
            Self::Loop => doubts.library || doubts.stack,
            Self::Experts => doubts.experts,
            Self::Setting => doubts.setting,
        }
    }
}

/// Factors of the expected peak that hold 80 % of those of strangers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryBand {
    less: f64,
    more: f64,
}

/// Deviations of a normal distribution in half of a band.
const NORMAL_90: f64 = 1.281_551_6;

impl MemoryBand {
    /// Of what has no backward pass: 0.92 to 1.12. Judged, no peak of a stranger is of one.
    const SERVED: Self = Self { less: 0.083, more: 0.113 };

    pub fn of(measure: Measure, doubts: Doubts) -> Self {
        if !doubts.training {
            return Self::SERVED;
        }
        let mut squares = [0.0, 0.0];
        for (_, [more, less]) in widths().iter().filter(|(doubt, _)| doubt.is_in(measure, doubts)) {
            squares[0] += more * more;
            squares[1] += less * less;
        }
        Self { more: f64::sqrt(squares[0]), less: f64::sqrt(squares[1]) }
    }

    pub fn factors(self) -> (f64, f64) {
        ((-self.less).exp(), self.more.exp())
    }

    /// Chance that a peak of which so much is expected stays below `room`: log-normal, each side for itself.
    pub fn chance_within(self, expected: f64, room: f64) -> f64 {
        let above = (room / expected).ln();
        let half = if above > 0.0 { self.more } else { self.less };
        cumulative(above * NORMAL_90 / half.max(f64::MIN_POSITIVE))
    }
}

/// Distribution function of the standard normal (Abramowitz and Stegun 1964, 26.2.17, within 7.5e-8).
fn cumulative(deviations: f64) -> f64 {
    const TERMS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let at = 1.0 / (1.0 + 0.231_641_9 * deviations.abs());
    let density = (-deviations * deviations / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let upper = density * TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * at);
    if deviations < 0.0 { upper } else { 1.0 - upper }
}

fn widths() -> &'static [(MemoryDoubt, [f64; 2]); MemoryDoubt::ALL.len()] {
    static READ: OnceLock<[(MemoryDoubt, [f64; 2]); MemoryDoubt::ALL.len()]> = OnceLock::new();
    READ.get_or_init(|| {
        let listed = &FittedMemory::embedded().bands;
        let of = |word: &str| listed.iter().find(|one| one.name == word);
        MemoryDoubt::ALL
            .map(|doubt| (doubt, of(doubt.word()).map_or([MemoryDoubt::GUESS; 2], |one| [one.more, one.less])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_that_of_the_band() {
        let band = MemoryBand { more: 0.4, less: 0.2 };
        let (low, high) = band.factors();
        for (room, chance) in [(low, 0.1), (1.0, 0.5), (high, 0.9)] {
            assert!((band.chance_within(50e9, 50e9 * room) - chance).abs() < 1e-6, "{room}");
        }
        assert!(band.chance_within(50e9, 500e9) > 0.999_999 && band.chance_within(500e9, 50e9) < 1e-6);
    }

    #[test]
    fn what_is_new_widens() {
        let wide = |measure, doubts| {
            let (low, high) = MemoryBand::of(measure, doubts).factors();
            high / low
        };
        let training = Doubts { training: true, ..Doubts::default() };
        let known = wide(Measure::Allocated, training);
        assert!(known > wide(Measure::Allocated, Doubts::default()));
        assert!(wide(Measure::Allocated, Doubts { library: true, ..training }) >= known);
        assert!(wide(Measure::Device, training) >= known);
    }
}
