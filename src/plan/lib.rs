//! Joins physics, offers and risk into plans: candidates, filters with reasons, bills, the frontier, the choice.

pub mod advice;
pub mod bill;
pub mod candidate;
pub mod choose;
pub mod cures;
pub mod explain;
pub mod filters;
pub mod from;
pub mod layouts;
pub mod limits;
pub mod loading;
pub mod measured;
pub mod outlook;
pub mod packing;
pub mod phases;
pub mod physics;
pub mod policy;
pub mod price;
pub mod processing;
pub mod refused;
pub mod run;
pub mod service;
pub mod serving;
pub mod serving_advice;
pub mod shown;
pub mod spot;
pub mod staging;
pub mod terms;
pub mod what_if;
pub mod work_offers;

pub use bill::{Bill, BillLine};
pub use candidate::Plan;
pub use choose::{PlanSet, plan};
pub use filters::{Reason, Rejection};
pub use limits::{Limits, Objective, PurchaseChoice};
pub use policy::{Policy, PolicyError};
