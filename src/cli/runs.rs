//! What is known of runs: the journal, their stores, the ledger, and the clouds that rent their machines.

pub mod agent_reports;
pub mod clouds;
pub mod groups;
pub mod journal;
pub mod launchers;
pub mod leader;
pub mod ledger;
pub mod quotas;
pub mod store;
