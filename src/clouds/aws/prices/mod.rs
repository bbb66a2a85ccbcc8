//! Prices as an account sees them: on demand, spot with its history and chances, capacity blocks.

pub mod block;
#[cfg(feature = "aws")]
pub mod capacity_blocks;
pub mod gather;
#[cfg(feature = "aws")]
pub mod on_demand;
#[cfg(feature = "aws")]
pub mod placement_scores;
pub mod price_list;
pub mod spot;
#[cfg(feature = "aws")]
pub mod spot_prices;
pub mod spot_series;
