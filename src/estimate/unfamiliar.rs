//! What a run may have that hardly a published source of the fit has, and how much slower or faster such runs were than estimated.
//!
//! Runs of the tables are those of vendors and of programs that many people tuned. What strangers run is slower than that far more often than it
//! is faster: a loop of one's own, a port, a small model whose kernels wait for the host, the same program on another cluster. So these widths
//! have two sides.

use serde::{Deserialize, Serialize};

use crate::doubts::Doubts;

/// Host launches over GPU work of a layer from which on a run counts as `Launches`: below it a tenth of the runs of `benchmarks/unfitted` took
/// more than 1.4 times the estimate, above it 1.9 times.
pub const LAUNCHES: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfamiliar {
    /// A training as anybody sets it up: on a cluster, with flags and in a version of their own. Those who published the runs of the tables tuned
    /// them.
    Setup,
    /// A library and no program: the loop around it is its user's. Where no stack is named it may be that.
    Library,
    /// Transformers on patches of images.
    Images,
    /// The host launches kernels for a good part of the time that they take.
    Launches,
    /// Chips of a vendor of which one suite is in the fit.
    Vendor,
    /// Mixtures of experts.
    Experts,
}

impl Unfamiliar {
    pub const ALL: [Self; 6] = [Self::Setup, Self::Library, Self::Images, Self::Launches, Self::Vendor, Self::Experts];

    /// Word of the constants file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Library => "library",
            Self::Images => "images",
            Self::Launches => "launches",
            Self::Vendor => "vendor",
            Self::Experts => "experts",
        }
    }

    /// Of training alone: what is served has errors of its own.
    pub fn is_in(self, doubts: Doubts) -> bool {
        doubts.training
            && match self {
                Self::Setup => true,
                Self::Library => doubts.library || doubts.stack,
                Self::Images => doubts.images,
                Self::Launches => doubts.launches,
                Self::Vendor => doubts.vendor,
                Self::Experts => doubts.experts,
            }
    }
}

/// Side of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The run takes longer than expected.
    Slower,
    Faster,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Slower, Self::Faster];

    /// Half-width before any run is looked at, which a fit on few sources stays near. Judged.
    pub fn guess(self) -> f64 {
        match self {
            Self::Slower => 0.30,
            Self::Faster => 0.15,
        }
    }
}

/// What runs with one of these were off by beside their band, of ln(measured / predicted).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TwoSided {
    pub name: String,
    pub slower: f64,
    pub faster: f64,
    /// Sources that it rests on.
    pub sources: usize,
}

/// Half-widths of each, slower and faster, in the order of their list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnfamiliarWidths(pub [[f64; 2]; Unfamiliar::ALL.len()]);

impl UnfamiliarWidths {
    /// Those of a list; what it lacks has none.
    pub fn from_list(list: &[TwoSided]) -> Self {
        let of = |name: &str| list.iter().find(|one| one.name == name);
        Self(Unfamiliar::ALL.map(|one| of(one.word()).map_or([0.0; 2], |width| [width.slower, width.faster])))
    }

    pub fn guessed() -> Self {
        Self([Side::BOTH.map(Side::guess); Unfamiliar::ALL.len()])
    }

    /// Square of what a run has of them, each weighed.
    pub fn square(&self, side: Side, doubts: Doubts, weight: impl Fn(Unfamiliar) -> f64) -> f64 {
        let widths = Unfamiliar::ALL.iter().zip(self.0);
        let held = widths.filter(|(one, _)| one.is_in(doubts));
        held.map(|(one, [slower, faster])| {
            let width = if side == Side::Slower { slower } else { faster };
            weight(*one) * width.powi(2)
        })
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_of_training_and_of_what_a_run_has() {
        let widths = UnfamiliarWidths::guessed();
        let square = |doubts| widths.square(Side::Slower, doubts, |_| 1.0);
        let one = Side::Slower.guess().powi(2);
        assert!(square(Doubts { library: true, ..Doubts::default() }).abs() < 1e-12, "nothing is trained");
        let program = Doubts { framework: true, training: true, ..Doubts::default() };
        assert!((square(program) - one).abs() < 1e-12, "every training is set up by somebody");
        let library = Doubts { library: true, ..program };
        assert!((square(library) - 2.0 * one).abs() < 1e-12);
        assert!((square(Doubts { stack: true, ..program }) - 2.0 * one).abs() < 1e-12, "it may be a library's");
        assert!((square(Doubts { launches: true, ..library }) - 3.0 * one).abs() < 1e-12);
        assert!(widths.square(Side::Faster, library, |_| 1.0) < square(library));
    }
}
