//! Facts as terminal table, JSON and CSV. Text out; decides nothing.

pub mod catalog;
pub mod doctor;
pub mod finance;
pub mod measure;
pub mod page;
pub mod plan;
pub mod runs;
pub mod sentences;
pub mod text;
