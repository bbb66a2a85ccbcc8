//! Commands about money: budgets, costs, bills, differences and reports.

pub mod actual;
pub mod alert;
pub mod bill_files;
pub mod bill_import;
pub mod bill_increment;
pub mod bill_versions;
pub mod budget;
pub mod costs;
pub mod diff;
pub mod entries;
pub mod gather;
pub mod phase_costs;
pub mod report;
pub mod run_page;
pub mod watch;
