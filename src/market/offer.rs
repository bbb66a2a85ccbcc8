//! `Offer`: an instance type in a place on terms at a quote, with what is known about its availability and risk.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::booking::Booking;
use crate::capacity::owned::Owned;
use crate::quote::{LIST_FRESH, Origin, Quote, SPOT_FRESH};
use gpuplan_hardware::InstanceId;
use gpuplan_units::UsdPerHour;

/// Position of an offer in its market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfferId(pub u32);

/// Region of rows whose source names none.
pub const ANYWHERE: &str = "any";

/// Region, and the zone id where prices differ by zone. Zone *names* are shuffled for each account, ids are not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    pub region: Arc<str>,
    pub zone_id: Option<Arc<str>>,
}

/// Terms of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purchase {
    OnDemand,
    Spot,
    /// A promise of one or three years.
    Commitment {
        years: u8,
    },
    CapacityBlock,
    Calendar,
    FlexStart,
    Reserved,
}

impl Purchase {
    /// Reads the two columns of the catalog.
    pub fn parse(purchase: &str, term: &str) -> Result<Self, String> {
        match (purchase, term) {
            ("on-demand", "") => Ok(Self::OnDemand),
            ("spot", "") => Ok(Self::Spot),
            ("commitment", "1y") => Ok(Self::Commitment { years: 1 }),
            ("commitment", "3y") => Ok(Self::Commitment { years: 3 }),
            ("capacity-block", _) => Ok(Self::CapacityBlock),
            ("calendar", _) => Ok(Self::Calendar),
            ("flex-start", _) => Ok(Self::FlexStart),
            ("reserved", _) => Ok(Self::Reserved),
            _ => Err(format!("`{purchase}` with term `{term}` is not a valid purchase option")),
        }
    }

    /// Word of files and JSON, such as `on-demand`.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Commitment { .. } => "commitment",
            Self::CapacityBlock => "capacity-block",
            Self::Calendar => "calendar",
            Self::FlexStart => "flex-start",
            Self::Reserved => "reserved",
        }
    }

    /// The longest that one machine can be had in one go: seven days (cloud.google.com/compute/docs/instances/about-flex-start-vms), 90
    /// days (cloud.google.com/compute/docs/instances/create-future-reservations-calendar-mode). Hours.
    pub fn longest_hours(self) -> Option<u32> {
        match self {
            Self::FlexStart => Some(7 * 24),
            Self::Calendar => Some(90 * 24),
            _ => None,
        }
    }

    /// Can be started now and stopped at any time.
    pub fn is_by_the_hour(self) -> bool {
        matches!(self, Self::OnDemand | Self::Spot)
    }
}

impl fmt::Display for Purchase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commitment { years } => write!(f, "commitment {years}y"),
            other => f.write_str(other.word()),
        }
    }
}

impl Serialize for Purchase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl JsonSchema for Purchase {
    fn schema_name() -> Cow<'static, str> {
        "Purchase".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = ["on-demand", "spot", "commitment", "capacity-block", "calendar", "flex-start", "reserved"];
        json_schema!({ "description": "Terms of a sale", "enum": words })
    }
}

/// Share of capacity reclaimed within a month, as the cloud publishes it. Not a rate per hour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RiskEvidence {
    pub monthly_percent_low: u8,
    pub monthly_percent_high: u8,
    pub observed_at: Timestamp,
    pub source: Arc<str>,
}

/// What a cloud says of its capacity in a place at a moment. It informs a choice; none of these is a rate of interruptions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// AWS spot placement score, 1 (hardly) to 10 (very likely).
    PlacementScore(u8),
    /// Google's obtainability of the whole request, 0 to 1.
    Obtainability(f64),
    /// Google's estimate of how long such a spot machine stays up. Hours.
    UptimeHours(f64),
    /// Google's share of those preempted among such spot machines that stopped in a day, whatever stopped the others.
    DailyPreemptionShare(f64),
    /// Azure's band of percent of such spot machines evicted within an hour, over the last days. It is no share of a month.
    HourlyEvictionPercent { low: u8, high: u8 },
}

/// A signal, and when it was said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    pub signal: Signal,
    /// `None`: nobody kept it.
    pub observed_at: Option<Timestamp>,
}

/// Whether a machine can be had now, as far as its cloud says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// Nobody said.
    #[default]
    Unknown,
    /// The cloud lists the machine type for this place.
    Listed,
    /// The cloud said that it has some.
    Seen,
    /// The cloud said that it has none.
    SoldOut,
}

impl Availability {
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Listed => "listed",
            Self::Seen => "seen",
            Self::SoldOut => "sold-out",
        }
    }
}

/// Why a price may not be recommended unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Suspicion {
    SpotAboveOnDemand,
    FarFromMedian,
    SourcesDisagree,
    /// A price in a region where no zone is known to have the machine.
    ZoneUnverified,
    /// A price without a place: nobody knows where, or whether, it can be had.
    PlaceUnknown,
    /// Spot far from the other zones of its region: real now and then, and gone when many notice.
    ZoneOutlier,
    /// A zone outside the region's own, where accounts have no subnet by default.
    LocalZone,
    /// A floor for bids, not a price.
    BidFloor,
    /// Marked as an estimate by its source.
    Estimated,
    /// The cloud has not repeated the price for days, so nobody knows whether the pool still exists.
    NotRepeated,
}

impl Suspicion {
    pub const ALL: [Self; 10] = [
        Self::SpotAboveOnDemand,
        Self::FarFromMedian,
        Self::SourcesDisagree,
        Self::ZoneUnverified,
        Self::PlaceUnknown,
        Self::ZoneOutlier,
        Self::LocalZone,
        Self::BidFloor,
        Self::Estimated,
        Self::NotRepeated,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::SpotAboveOnDemand => "spot-above-on-demand",
            Self::FarFromMedian => "far-from-median",
            Self::SourcesDisagree => "sources-disagree",
            Self::ZoneUnverified => "zone-unverified",
            Self::PlaceUnknown => "place-unknown",
            Self::ZoneOutlier => "zone-outlier",
            Self::LocalZone => "local-zone",
            Self::BidFloor => "bid-floor",
            Self::Estimated => "estimated",
            Self::NotRepeated => "not-repeated",
        }
    }

    pub fn explanation(self) -> &'static str {
        match self {
            Self::SpotAboveOnDemand => "spot is priced above on-demand in the same place; one of the two is wrong",
            Self::FarFromMedian => "the rate is far from the median of this machine over its regions",
            Self::SourcesDisagree => "another source gives a different price for this machine in this place",
            Self::ZoneUnverified => "a price is listed, but no zone of this region is known to have the machine",
            Self::PlaceUnknown => {
                "its source names no region, so nobody knows where it can be had; name the cloud to take it"
            }
            Self::ZoneOutlier => {
                "the spot price is less than half of what the other zones of its region ask; name the zone to take it"
            }
            Self::LocalZone => "it is a local zone, where accounts have no network by default",
            Self::BidFloor => "it is the floor of an auction, not a price",
            Self::Estimated => "its source marks it as an estimate",
            Self::NotRepeated => "its cloud has not repeated this price for days; the pool may be gone",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub instance: InstanceId,
    pub place: Location,
    pub purchase: Purchase,
    pub quote: Quote,
    /// Id of the source in the manifest.
    pub source: Arc<str>,
    /// Notes of the catalog that are no suspicion, such as `single_source`.
    pub flags: Arc<str>,
    pub suspicions: Vec<Suspicion>,
    pub risk: Option<Arc<RiskEvidence>>,
    pub availability: Availability,
    /// The span that it is for, where machines are sold ahead; `None`: for as long as one likes, or nobody said.
    pub booking: Option<Box<Booking>>,
    pub signals: Vec<Heard>,
    /// Machines that the user has already; the quote is what using them costs beside that.
    pub owned: Option<Arc<Owned>>,
}

impl Offer {
    /// An offer as a cloud just said it, with nothing known beside its price.
    pub fn live(
        instance: InstanceId,
        place: Location,
        purchase: Purchase,
        rate: UsdPerHour,
        source: &str,
        answered_at: Timestamp,
    ) -> Self {
        Self {
            instance,
            place,
            purchase,
            quote: Quote { rate, origin: Origin::Live, observed_at: answered_at },
            source: source.into(),
            flags: Arc::from(""),
            suspicions: Vec::new(),
            risk: None,
            availability: Availability::Unknown,
            booking: None,
            signals: Vec::new(),
            owned: None,
        }
    }

    pub fn is_suspect(&self) -> bool {
        !self.suspicions.is_empty()
    }

    /// What its cloud says of its capacity, whenever it was said.
    pub fn signals(&self) -> Vec<Signal> {
        self.signals.iter().map(|heard| heard.signal).collect()
    }

    /// When the oldest signal was said, as far as that was kept.
    pub fn signals_observed_at(&self) -> Option<Timestamp> {
        self.signals.iter().filter_map(|heard| heard.observed_at).min()
    }

    /// Too old to launch on.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let fresh = if self.purchase == Purchase::Spot { SPOT_FRESH } else { LIST_FRESH };
        self.quote.age(now) > fresh
    }

    /// A partition that needs an account of its own.
    pub fn needs_special_account(&self) -> bool {
        self.place.region.starts_with("us-gov-")
            || self.place.region.starts_with("usgov")
            || self.place.region.starts_with("cn-")
    }
}
