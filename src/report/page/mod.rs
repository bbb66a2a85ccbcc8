//! The report that is handed on: one self-contained HTML page, and the same facts as Markdown, CSV and JSON.

mod bill;
pub mod budget;
pub mod chart;
pub mod csv;
pub mod document;
pub mod html;
pub mod json;
pub mod markdown;
pub mod overview;
pub mod plan;
pub mod run;
pub mod status;
