//! Why a plan was chosen and others were not, what to do about it, and what to know beside it: enums with their figures.
//! `report::sentences` makes the words.

pub mod advice;
pub mod annotate;
pub mod comparison;
pub mod input_wait;
pub mod reason;
pub mod rejection;
pub mod warning;

pub use advice::Advice;
pub use reason::Reason;
pub use rejection::{Rejected, Rejection, RejectionReason};
pub use warning::Warning;
