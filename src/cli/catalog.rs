//! Commands that list and renew the catalog and its prices.

pub mod list;
pub mod local_gpus;
pub mod prices;
pub mod publish;
pub mod refresh;
pub mod snapshot;
