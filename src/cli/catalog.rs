//! Commands that list and renew the catalog and its prices.

pub mod list;
pub mod local_gpus;
mod price_filters;
mod price_query;
pub mod prices;
pub mod publish;
pub mod refresh;
pub mod snapshot;
