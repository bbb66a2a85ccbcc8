//! How wrong the estimate is: published runs, what is predicted for them, and the error by source, family, GPU and regime.

pub mod band_fit;
pub mod fit;
pub mod held_out;
mod least_squares;
pub mod measured;
pub mod memory_band_fit;
pub mod memory_fit;
pub mod nearest;
pub mod own_table;
pub mod peers;
pub mod prediction;
pub mod published;
mod quantile;
mod ratio;
pub mod regret;
pub mod score;
mod two_sided;
mod unfamiliar_fit;
pub mod unfitted;

pub use measured::{CountedFlops, Measured};
pub use prediction::{Prediction, answers, predict};
pub use published::{Published, Quality, Run};
pub use regret::Regret;
pub use score::{ErrorGroup, Errors, FitFacts, GroupErrors, RunError, Scores};
