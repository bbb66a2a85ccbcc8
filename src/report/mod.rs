//! Facts as terminal table, JSON and CSV. Text out; decides nothing.

pub mod accuracy;
pub mod bench_text;
pub mod bill;
pub mod budget_json;
pub mod budget_text;
pub mod catalog;
pub mod costs;
pub mod diff_text;
pub mod doctor;
pub mod estimate;
pub mod explain;
pub mod fit;
pub mod focus;
pub mod format;
pub mod history;
pub mod job;
pub mod mine;
pub mod page;
pub mod plan_csv;
pub mod plan_json;
pub mod plan_text;
pub mod prices;
pub mod profile_text;
pub mod refresh;
pub mod simulate;
pub mod snapshot;
pub mod spot_json;
pub mod spot_text;
pub mod table;

