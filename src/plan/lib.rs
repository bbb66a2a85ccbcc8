//! Joins physics, offers and risk into plans: candidates, filters with reasons, bills, the frontier, the choice.
//!
//! | room | what is in it |
//! | --- | --- |
//! | `choice` | `plan` itself: offers to candidates to the frontier and the recommendation |
//! | `limits` | what the user and the house allow |
//! | `training`, `serving`, `processing` | how each kind of work runs on machines, and for how long |
//! | `input` | how samples come to the GPUs |
//! | `spot` | what may become of a plan on spot machines |
//! | `money` | prices of candidates, bills, side charges |
//! | `energy` | electricity of the machines, and what it emits |
//! | `explanation` | why, what to do, what to know: enums with figures, of which `report` makes sentences |
//! | `document` | the plan document, which every command writes and reads |

pub mod candidate;
pub mod choice;
pub mod context;
pub mod document;
pub mod energy;
pub mod explanation;
pub mod filters;
pub mod input;
pub mod job;
pub mod limits;
pub mod money;
pub mod normal;
pub mod plan_set;
pub mod processing;
pub mod serving;
pub mod spot;
pub mod training;

pub use candidate::{Plan, plan_id};
pub use choice::breadth::Breadth;
pub use choice::picks::{Pick, PickReason, Role};
pub use choice::value_of_time::ValueOfTime;
pub use choice::{plan, plan_from};
pub use context::{Context, World};
pub use explanation::{Advice, Reason, Rejected, Rejection, RejectionReason, Warning};
pub use limits::policy::{Policy, PolicyError};
pub use limits::{Limits, Objective, OfferFilter, PurchaseChoice, QuotaRoom, Quotas};
pub use money::bill::{Bill, BillLine};
pub use plan_set::PlanSet;
