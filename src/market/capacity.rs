//! `Capacity`: what the user pays or owns already, from `capacity.toml`: private discounts, commitments, own machines.

pub mod owned;
pub mod pool;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::{Timestamp, civil, tz::TimeZone};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::area::names_region;
use crate::capacity::owned::Owned;
use crate::catalog::snapshot::Market;
use crate::offer::{Location, Offer, Purchase};
use crate::quote::{Origin, Quote};
use gpuplan_hardware::{CloudId, Fabric, Hardware, InstanceId, InstanceType, MeasuredLinks, NodeShape, SoldAs};
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount, UsdPerHour};

/// Name that own machines have in place of a cloud.
pub const OWN: &str = "own";
const SOURCE: &str = "capacity.toml";
/// Parts of a percent that a discount may state: 12.345 %.
const PERCENT_PARTS: f64 = 1000.0;

/// What the user pays or owns already, as `capacity.toml` says it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// Negotiated rates, `[[discount]]`.
    discount: Vec<Discount>,
    /// Reservations and committed use, `[[committed]]`.
    committed: Vec<Committed>,
    /// Own machines, `[[own]]`.
    own: Vec<Own>,
}

/// A day as TOML has it, quoted or not.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "DayText")]
struct Day(civil::Date);

#[derive(Deserialize)]
#[serde(untagged)]
enum DayText {
    Plain(toml::value::Datetime),
    Quoted(String),
}

impl TryFrom<DayText> for Day {
    type Error = String;

    fn try_from(text: DayText) -> Result<Self, String> {
        let text = match text {
            DayText::Plain(date) => date.to_string(),
            DayText::Quoted(text) => text,
        };
        text.parse().map(Self).map_err(|_| format!("`{text}` is not a valid day; try 2027-01-31"))
    }
}

impl JsonSchema for Day {
    fn schema_name() -> Cow<'static, str> {
        "Day".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date" })
    }
}

/// A negotiated rate: savings plans, private pricing, credits by percent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Discount {
    /// Cloud that gives it.
    cloud: String,
    /// Terms that it holds for; on-demand where nothing is said.
    #[serde(default = "on_demand")]
    purchase: String,
    /// Instance types that it holds for: exact names, or beginnings that end in `*`; all where none is named.
    #[serde(default)]
    machines: Vec<String>,
    /// Regions that it holds for, or beginnings of their names; all where none is named.
    #[serde(default)]
    regions: Vec<String>,
    /// Percent off the list rate.
    percent: Option<f64>,
    /// Rate of a machine in place of the list rate, in dollars.
    usd_per_hour: Option<String>,
    /// Day on which it ends, not included.
    until: Option<Day>,
}

/// Reservations and committed use: paid for whether they run or not.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Committed {
    /// Name by which plans show it.
    name: String,
    /// Cloud of the machines.
    cloud: String,
    /// Instance type, as the cloud calls it.
    instance_type: String,
    /// Region of the machines.
    region: String,
    /// Id of their zone.
    zone_id: Option<String>,
    /// Machines.
    nodes: u32,
    /// What a machine costs an hour, used or not.
    usd_per_hour: String,
    /// What using it costs beside that.
    marginal_usd_per_hour: Option<String>,
    /// First day.
    from: Option<Day>,
    /// Day on which it ends, not included.
    until: Option<Day>,
}

/// Own machines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// Name by which plans show them.
    name: String,
    /// GPU of the machines, by any name of the catalog.
    gpu: String,
    /// GPUs of a machine.
    gpus_per_node: u32,
    /// Machines.
    nodes: u32,
    /// Power, cooling, people: what using one costs beside owning it.
    usd_per_hour: Option<String>,
    /// With depreciation.
    full_usd_per_hour: String,
    /// Link between the GPUs of a machine, an id of `links.toml`; else that of the usual machine.
    gpu_link: Option<String>,
    /// Network of a machine, one direction; none where it is left out.
    network_gbit_per_s: Option<f64>,
    /// vCPUs of a machine; 0: not known.
    #[serde(default)]
    vcpus: u32,
    /// Memory of a machine; 0: not known.
    #[serde(default)]
    memory_gib: f64,
    /// First day.
    from: Option<Day>,
    /// Day on which it ends, not included.
    until: Option<Day>,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CapacityError {
    #[error("capacity.toml: {0}")]
    Syntax(String),
    #[error("capacity.toml: {of}: {detail}")]
    Invalid { of: String, detail: String },
}

fn on_demand() -> String {
    Purchase::OnDemand.word().to_owned()
}

impl Capacity {
    pub fn read(text: &str) -> Result<Self, CapacityError> {
        toml::from_str(text).map_err(|error| CapacityError::Syntax(error.to_string().trim_end().to_owned()))
    }

    /// The market with private rates in the place of list rates, and with what is owned as offers of its own.
    pub fn apply(&self, market: Market, hardware: &mut Hardware, now: Timestamp) -> Result<Market, CapacityError> {
        let mut offers = Vec::new();
        for discount in &self.discount {
            let rate = discount.rate()?;
            let of = format!("discount of {}", discount.cloud);
            let purchase =
                Purchase::parse(&discount.purchase, "").map_err(|detail| CapacityError::Invalid { of, detail })?;
            if discount.until.is_some_and(|date| beginning(date) < now) {
                continue;
            }
            let priced =
                market.offers().iter().filter(|offer| offer.purchase == purchase && discount.is_for(offer, hardware));
            offers.extend(priced.map(|offer| Offer {
                quote: Quote { rate: rate.discounted(offer.quote.rate), origin: Origin::User, ..offer.quote },
                source: SOURCE.into(),
                flags: format!("list={}", offer.quote.rate).into(),
                ..offer.clone()
            }));
        }
        let market = market.merged(offers, hardware);
        let mut owned = Vec::new();
        for committed in self.committed.iter().filter(|row| is_now(row.from, row.until, now)) {
            owned.push(committed.offer(hardware, now)?);
        }
        for own in self.own.iter().filter(|row| is_now(row.from, row.until, now)) {
            owned.push(own.offer(hardware, now)?);
        }
        Ok(market.with_offers(owned, hardware))
    }
}

/// A fixed rate, or a part of the list rate in thousandths of a percent.
enum Rate {
    Fixed(UsdPerHour),
    Less(i128),
}

impl Rate {
    fn discounted(&self, list: UsdPerHour) -> UsdPerHour {
        let whole = (100.0 * PERCENT_PARTS) as i128;
        match self {
            Self::Fixed(rate) => *rate,
            // Rounded up: a plan may not promise a fraction of a nano-dollar that nobody gives.
            Self::Less(parts) => {
                UsdPerHour::from_nanos(((i128::from(list.nanos()) * (whole - parts) + whole - 1) / whole) as i64)
            }
        }
    }
}

impl Discount {
    fn rate(&self) -> Result<Rate, CapacityError> {
        let invalid = |detail: String| CapacityError::Invalid { of: format!("discount of {}", self.cloud), detail };
        match (&self.usd_per_hour, self.percent) {
            (Some(rate), None) => match UsdPerHour::parse(rate) {
                Ok(rate) if rate == UsdPerHour::default() => Err(invalid("usd_per_hour = 0 is not a price".to_owned())),
                Ok(rate) => Ok(Rate::Fixed(rate)),
                Err(error) => Err(invalid(error.to_string())),
            },
            // What is so near to 100 that nothing would be left is no discount either.
            (None, Some(percent)) if (0.0..100.0 - 0.5 / PERCENT_PARTS).contains(&percent) => {
                Ok(Rate::Less((percent * PERCENT_PARTS).round() as i128))
            }
            (None, Some(percent)) => Err(invalid(format!("percent = {percent} is not from 0 to under 100"))),
            _ => Err(invalid("state either percent or usd_per_hour".to_owned())),
        }
    }

    fn is_for(&self, offer: &Offer, hardware: &Hardware) -> bool {
        let instance = hardware.instance(offer.instance);
        let named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => instance.name.starts_with(start),
            None => instance.name == *pattern,
        };
        instance.cloud.as_str() == self.cloud
            && (self.machines.is_empty() || self.machines.iter().any(named))
            && (self.regions.is_empty() || self.regions.iter().any(|region| names_region(region, &offer.place.region)))
    }
}

impl Committed {
    fn offer(&self, hardware: &Hardware, now: Timestamp) -> Result<Offer, CapacityError> {
        let invalid = |detail: String| CapacityError::Invalid { of: self.name.clone(), detail };
        let cloud = CloudId::new(&self.cloud);
        let instance = hardware.find_instance(&cloud, &self.instance_type).ok_or_else(|| {
            invalid(format!(
                "`{}` is not a machine of {cloud}; `gpuplan catalog instances --cloud {cloud}` lists them",
                self.instance_type
            ))
        })?;
        let place = Location { region: self.region.as_str().into(), zone_id: self.zone_id.as_deref().map(Into::into) };
        let owned = owned(&self.name, self.nodes, &self.usd_per_hour, self.until).map_err(invalid)?;
        offer(instance, place, self.marginal_usd_per_hour.as_deref(), owned, now).map_err(invalid)
    }
}

impl Own {
    fn offer(&self, hardware: &mut Hardware, now: Timestamp) -> Result<Offer, CapacityError> {
        let invalid = |detail: String| CapacityError::Invalid { of: self.name.clone(), detail };
        let id = hardware.find_gpu(&self.gpu).ok_or_else(|| {
            let of_family = hardware.gpus().iter().filter(|gpu| gpu.family.eq_ignore_ascii_case(&self.gpu));
            let ids: Vec<&str> = of_family.map(|gpu| gpu.id.as_str()).collect();
            invalid(if ids.is_empty() {
                format!("`{}` is not in the catalog; `gpuplan catalog gpus` lists every GPU", self.gpu)
            } else {
                format!("`{}` is any of {}: say which", self.gpu, ids.join(", "))
            })
        })?;
        if let Some(gbit) = self.network_gbit_per_s.filter(|gbit| !(gbit.is_finite() && *gbit > 0.0)) {
            return Err(invalid(format!(
                "network_gbit_per_s = {gbit} is not a valid rate; leave it out if there is no network"
            )));
        }
        if !(self.memory_gib.is_finite() && self.memory_gib >= 0.0) {
            return Err(invalid(format!("memory_gib = {} is not a valid amount of memory", self.memory_gib)));
        }
        let gpu = hardware.gpu(id);
        let count = GpuCount::parse(&self.gpus_per_node.to_string()).map_err(|error| invalid(error.to_string()))?;
        let link_id = self.gpu_link.clone().unwrap_or_else(|| gpu.link.clone());
        let node = NodeShape {
            gpu: id,
            gpus: count,
            gpu_memory: gpu.memory(),
            link: hardware.gpu_link(gpu, &link_id, count.devices()).map_err(invalid)?,
            measured: MeasuredLinks::default(),
            fabric: self
                .network_gbit_per_s
                .map(|gbit| Fabric { bandwidth: BytesPerSecond::from_gbit(gbit), rdma: true }),
        };
        let nothing = SoldAs {
            on_demand: false,
            spot: false,
            commitment: false,
            capacity_block: false,
            calendar: false,
            reserved: true,
        };
        let instance = hardware.add_instance(InstanceType {
            cloud: CloudId::new(OWN),
            name: self.name.clone(),
            node,
            link_id,
            fabric_id: String::new(),
            vcpus: self.vcpus,
            memory: Bytes::from_gib(self.memory_gib),
            local_nvme: None,
            host_network_gbit_per_s: self.network_gbit_per_s,
            front_network_gbit_per_s: self.network_gbit_per_s,
            disk_link: None,
            cpu_architecture: String::new(),
            sold_as: nothing,
            notes: String::new(),
            source: SOURCE.to_owned(),
            as_of: now.strftime("%Y-%m-%d").to_string(),
        });
        let instance = instance.ok_or_else(|| invalid("the name is used twice".to_owned()))?;
        let place = Location { region: "here".into(), zone_id: None };
        let owned = owned(&self.name, self.nodes, &self.full_usd_per_hour, self.until).map_err(invalid)?;
        offer(instance, place, self.usd_per_hour.as_deref(), owned, now).map_err(invalid)
    }
}

fn owned(name: &str, nodes: u32, full_rate: &str, until: Option<Day>) -> Result<Owned, String> {
    if nodes == 0 {
        return Err("nodes = 0 is not a capacity".to_owned());
    }
    Ok(Owned { name: name.to_owned(), nodes, full_rate: rate(full_rate)?, until: until.map(beginning) })
}

/// What is owned is used at its marginal rate, and its price is as certain as the user's own word of today.
fn offer(
    instance: InstanceId,
    place: Location,
    marginal_rate: Option<&str>,
    owned: Owned,
    now: Timestamp,
) -> Result<Offer, String> {
    let marginal_rate = marginal_rate.map_or(Ok(UsdPerHour::default()), rate)?;
    let mut offer = Offer::live(instance, place, Purchase::Reserved, marginal_rate, SOURCE, now);
    offer.quote.origin = Origin::User;
    offer.owned = Some(Arc::new(owned));
    Ok(offer)
}

fn rate(text: &str) -> Result<UsdPerHour, String> {
    UsdPerHour::parse(text).map_err(|error| error.to_string())
}

fn is_now(from: Option<Day>, until: Option<Day>, now: Timestamp) -> bool {
    from.is_none_or(|date| beginning(date) <= now) && until.is_none_or(|date| beginning(date) > now)
}

/// Beginning of a day, UTC. What ends on `2027-01-01` ends with the year before.
fn beginning(day: Day) -> Timestamp {
    // The last day of the calendar, written for ever, and its first are beyond the moments that are counted.
    let beyond = if day.0.year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
    day.0.to_zoned(TimeZone::UTC).map_or(beyond, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().unwrap()
    }

    fn applied(text: &str) -> Result<(Market, Hardware), CapacityError> {
        let mut hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let market = Capacity::read(text)?.apply(market, &mut hardware, now())?;
        Ok((market, hardware))
    }

    #[test]
    fn a_discount_replaces_the_list_rate_and_keeps_it_in_sight() {
        let text = "[[discount]]\ncloud = \"aws\"\nmachines = [\"p5.*\"]\nregions = [\"us-east-1\"]\npercent = 12.5\n";
        let (market, hardware) = applied(text).unwrap();
        let yours: Vec<&Offer> = market.offers().iter().filter(|offer| offer.quote.origin == Origin::User).collect();
        assert!(!yours.is_empty());
        for offer in yours {
            assert!(hardware.instance(offer.instance).name.starts_with("p5.") && &*offer.place.region == "us-east-1");
            let list = UsdPerHour::parse(offer.flags.strip_prefix("list=").unwrap()).unwrap();
            assert_eq!(offer.quote.rate.nanos(), (list.nanos() * 7 + 7) / 8, "an eighth less, rounded up");
        }
        for (limit, holds) in
            [("until = 2026-01-01", false), ("until = 9999-12-31", true), ("until = \"-009999-01-01\"", false)]
        {
            let market = applied(&format!("{text}{limit}\n")).unwrap().0;
            assert_eq!(market.offers().iter().any(|offer| offer.quote.origin == Origin::User), holds, "{limit}");
        }
    }

    #[test]
    fn what_is_owned_is_an_offer_at_its_marginal_rate() {
        let text = "[[committed]]\nname = \"year\"\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nregion = \"us-east-1\"\nnodes = 2\n\
            usd_per_hour = \"31.46\"\nuntil = 2027-01-01\n\n\
            [[own]]\nname = \"lab\"\ngpu = \"h100-sxm5-80\"\ngpus_per_node = 8\nnodes = 4\nusd_per_hour = \"2.5\"\nfull_usd_per_hour = \"14\"\n\
            network_gbit_per_s = 3200\n";
        let (market, hardware) = applied(text).unwrap();
        let owned: Vec<&Offer> = market.offers().iter().filter(|offer| offer.owned.is_some()).collect();
        assert_eq!(owned.len(), 2);
        assert_eq!(owned[0].quote.rate, UsdPerHour::default());
        assert_eq!(owned[0].owned.as_ref().unwrap().full_rate.to_string(), "31.46");
        assert_eq!(owned[1].quote.rate.to_string(), "2.50");
        let lab = hardware.instance(owned[1].instance);
        assert_eq!((lab.cloud.as_str(), lab.node.devices(), lab.node.fabric.is_some()), (OWN, 8, true));
        for (limit, count) in [("until = 2026-01-01", 1), ("from = 9999-12-31", 1), ("from = \"-009999-01-01\"", 2)] {
            let market = applied(&text.replace("until = 2027-01-01", limit)).unwrap().0;
            assert_eq!(market.offers().iter().filter(|offer| offer.owned.is_some()).count(), count, "{limit}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let refused = |text: &str| applied(text).unwrap_err().to_string();
        assert!(refused("[[discount]]\ncloud = \"aws\"\n").contains("state either percent or usd_per_hour"));
        assert!(refused("[[discount]]\ncloud = \"aws\"\npercent = 120\n").contains("percent = 120"));
        let own = "[[own]]\nname = \"a\"\ngpu = \"x\"\ngpus_per_node = 8\nnodes = 1\nfull_usd_per_hour = \"1\"\n";
        assert!(refused(own).starts_with("capacity.toml: a: `x` is not in the catalog"));
        let family = refused(&own.replace("\"x\"", "\"a100\""));
        assert!(family.contains("`a100` is any of ") && family.contains("a100-sxm4-80"), "{family}");
        assert!(refused(&own.replace("\"x\"", "\"h100-sxm5-80\"").repeat(2)).contains("used twice"));
        assert!(refused("[[owned]]").contains("unknown field `owned`"));
    }
}
