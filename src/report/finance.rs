//! Money over time: budgets, differences, charges, bills of the clouds, forecast against actual.

pub mod bill;
pub mod budget_json;
pub mod budget_text;
pub mod carbon_text;
pub mod costs;
pub mod diff_text;
pub mod focus;
pub mod mine;
pub mod money;
pub mod rules_text;
pub mod sections;
pub mod status_text;
