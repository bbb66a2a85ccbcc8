//! `Owned`: machines that the user has already, as an offer carries them.

use gpuplan_units::UsdPerHour;
use jiff::Timestamp;

/// Machines that are there already.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    pub name: String,
    pub nodes: u32,
    /// Cost of a machine whether it is used or not, or what it would be worth; beside the marginal cash of the quote.
    pub full_rate: UsdPerHour,
    pub until: Option<Timestamp>,
}
