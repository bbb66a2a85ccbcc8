//! `Seller`: the port of a cloud that sells machines for a span of days, paid up front, and the block that a run stands on.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ports::launch_error::LaunchError;
use gpuplan_market::{BoxFuture, Purchase};
use gpuplan_units::{Usd, UsdPerHour};

/// Machines of a block end so long before it does (EC2 user guide, "Capacity Blocks for ML": instances are terminated beginning
/// 30 minutes before the end).
pub const LAST_MINUTES: SignedDuration = SignedDuration::from_mins(30);
/// Blocks are sold in whole days up to a fortnight, and in whole weeks up to half a year beyond (the same page). Hours.
const DAY: u32 = 24;
const FORTNIGHT: u32 = 14 * DAY;
const WEEK: u32 = 7 * DAY;
const LONGEST: u32 = 182 * DAY;

/// Machines that are sold ahead end so long before what is paid for does: of Google's reservations nothing is said of that.
pub fn last_minutes(purchase: Purchase) -> SignedDuration {
    if purchase == Purchase::CapacityBlock { LAST_MINUTES } else { SignedDuration::ZERO }
}

/// The shortest span on these terms that holds so many hours of machines that work; `None`: none is as long. A reservation in calendar mode is for
/// whole days (judged: Google takes any length from a day on).
pub fn hours_for(purchase: Purchase, work: f64) -> Option<u32> {
    if purchase == Purchase::CapacityBlock {
        return block_hours(work);
    }
    let days = (work / f64::from(DAY)).ceil().max(1.0);
    let longest = purchase.longest_hours().map_or(f64::INFINITY, f64::from);
    Some(days * f64::from(DAY)).filter(|hours| *hours <= longest.min(f64::from(u32::MAX))).map(|hours| hours as u32)
}

/// The same of capacity blocks.
fn block_hours(work: f64) -> Option<u32> {
    let needed = work + LAST_MINUTES.as_secs_f64() / 3600.0;
    let rounded = |step: u32| (needed / f64::from(step)).ceil().max(1.0) * f64::from(step);
    let hours = if rounded(DAY) <= f64::from(FORTNIGHT) { rounded(DAY) } else { rounded(WEEK) };
    (hours <= f64::from(LONGEST)).then_some(hours as u32)
}

/// What is wanted of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockQuery {
    pub region: String,
    pub instance_type: String,
    pub machines: u32,
    pub hours: u32,
    /// Of one machine as the plan has it, for a cloud that names no price with a span.
    pub rate_usd_per_hour: UsdPerHour,
}

/// A block that can be bought now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOffer {
    /// The cloud's own, which soon means nothing any more.
    pub id: String,
    pub zone_id: String,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    /// For all machines and the whole span, used or not.
    pub upfront_usd: Usd,
}

/// A block as a run agreed on it: written down before it is bought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOrder {
    pub region: String,
    /// What is booked; empty and zero in orders of before it was kept.
    #[serde(default)]
    pub instance_type: String,
    #[serde(default)]
    pub machines: u32,
    pub offer: BlockOffer,
    /// The cloud's name of what was bought; `None`: nobody has heard of it yet.
    pub reservation: Option<String>,
}

/// Contract:
/// - `offered` gives blocks that are sold now, the earliest first, and changes nothing.
/// - `buy` pays. It bears the marks of the run, and is called once: the call has no token that would make a second one harmless.
/// - `bought` finds by its marks what was paid for and has not ended. It may be late by a minute.
pub trait Seller: Send + Sync {
    fn offered<'a>(&'a self, wish: &'a BlockQuery) -> BoxFuture<'a, Result<Vec<BlockOffer>, LaunchError>>;

    fn buy<'a>(&'a self, run: &'a str, order: &'a BlockOrder) -> BoxFuture<'a, Result<String, LaunchError>>;

    fn bought<'a>(&'a self, run: &'a str, region: &'a str) -> BoxFuture<'a, Result<Option<String>, LaunchError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_days_and_then_whole_weeks() {
        let block = |work| hours_for(Purchase::CapacityBlock, work);
        assert_eq!([0.1, 23.5, 23.6, 24.0 * 13.9].map(block), [Some(24), Some(24), Some(48), Some(336)]);
        assert_eq!([24.0 * 14.5, 24.0 * 181.0, 24.0 * 182.0].map(block), [Some(21 * 24), Some(182 * 24), None]);
        let calendar = |work| hours_for(Purchase::Calendar, work);
        assert_eq!([0.1, 24.0, 24.1, 2160.0, 2160.1].map(calendar), [Some(24), Some(24), Some(48), Some(2160), None]);
        assert_eq!(calendar(f64::NAN), Some(24), "what is no number is caught where it is planned");
    }
}
