//! Why limits make no sense, with the nearest that would.

use jiff::Timestamp;

use gpuplan_hardware::selector::SelectorError;

/// Why limits make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitsError {
    /// `nearest` has values of this key that are probably meant.
    #[error("limits.{key}: {detail}")]
    Invalid { key: &'static str, detail: String, nearest: Vec<String> },
    #[error("the deadline {deadline} has passed; it is {now}")]
    DeadlinePassed { deadline: Timestamp, now: Timestamp },
    #[error("no cloud is called `{name}`")]
    UnknownCloud { name: String, nearest: Option<String>, known: Vec<String> },
    /// A cloud that exists, and none of whose machines the catalog prices.
    #[error("the catalog has no prices of `{name}`")]
    CloudWithoutPrices { name: String },
    #[error("no region is called `{name}`{}", within(.clouds))]
    UnknownRegion { name: String, clouds: Vec<String>, nearest: Vec<String> },
    /// The name of a zone: another zone in each account where zones have ids beside, else one that no offer is of.
    #[error("`{name}` is the name of a zone, {}; the region is {region}", zone_says(zone_ids))]
    ZoneName { name: String, region: String, zone_ids: Vec<String> },
    /// A region, and the cloud that has it was left out.
    #[error("`{name}` is a region of {owner}, and only {asked} may be used")]
    RegionOfOther { name: String, owner: String, asked: String, nearest: Vec<String> },
    /// The cloud that is said to store the data does not exist.
    #[error("`data.place`: `{place}` is not a place of a known cloud; try aws/us-east-1")]
    DataPlace { place: String, nearest: Vec<String> },
    #[error("limits.gpus: {0}")]
    Gpus(#[from] SelectorError),
}

fn zone_says(zone_ids: &[String]) -> &'static str {
    if zone_ids.is_empty() { "of which no price is known" } else { "which means another zone in each account" }
}

fn within(clouds: &[String]) -> String {
    if clouds.is_empty() { String::new() } else { format!(" at {}", clouds.join(", ")) }
}
