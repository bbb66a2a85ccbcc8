//! The ports that a cloud implements so that it can be asked: `PriceSource`, `RiskSource` and `AccountSource`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::answer::{PriceAnswer, RiskAnswer};
use crate::booking::Span;
use crate::bucket::BucketRules;
use crate::catalog::snapshot::Market;
use crate::machines::MachineList;
use crate::offer::{Offer, Purchase};
use gpuplan_hardware::{CloudId, Hardware, InstanceId, InstanceType};

/// How long an answer may take where nobody says.
const PATIENCE: Duration = Duration::from_secs(50);

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What to price: machine types by region.
#[derive(Clone, Debug)]
pub struct OfferQuery<'a> {
    pub hardware: &'a Hardware,
    pub wanted: BTreeMap<Arc<str>, Vec<InstanceId>>,
    /// Earlier prices are wanted too, from sources where they cost many questions more.
    pub history: bool,
    /// Machine types that the answer is wanted for: a source that may ask little asks about these first. Empty: all are alike.
    pub candidates: BTreeSet<InstanceId>,
    /// What is wished of machine types that are sold ahead; of any other `Span::DAY`.
    pub spans: BTreeMap<InstanceId, Span>,
    /// By when a span has to end; `None`: whenever.
    pub until: Option<Timestamp>,
    /// How long the whole answer may take. What a source has heard by then is its answer.
    pub patience: Duration,
    /// Folder in which a source may keep public documents, to ask later only whether they changed. `None`: nothing is kept.
    pub documents: Option<PathBuf>,
}

impl<'a> OfferQuery<'a> {
    pub fn for_instances(hardware: &'a Hardware, wanted: BTreeMap<Arc<str>, Vec<InstanceId>>) -> Self {
        let (candidates, spans) = (BTreeSet::new(), BTreeMap::new());
        Self { hardware, wanted, history: false, candidates, spans, until: None, patience: PATIENCE, documents: None }
    }

    pub fn with_history(self) -> Self {
        Self { history: true, ..self }
    }

    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The pools of a cloud that the market knows to exist, without partitions that need an account of their own.
    pub fn known(market: &Market, hardware: &'a Hardware, cloud: &CloudId) -> Self {
        let mut wanted: BTreeMap<Arc<str>, Vec<InstanceId>> = BTreeMap::new();
        for offer in market
            .offers()
            .iter()
            .filter(|offer| is_known_pool(offer) && hardware.instance(offer.instance).cloud == *cloud)
        {
            wanted.entry(offer.place.region.clone()).or_default().push(offer.instance);
        }
        for instances in wanted.values_mut() {
            instances.sort();
            instances.dedup();
        }
        Self::for_instances(hardware, wanted)
    }

    /// The same question about the pools that the cloud lists. Regions that did not say keep those that the market knows.
    pub fn listed(mut self, cloud: &CloudId, list: &MachineList) -> Self {
        for (region, names) in &list.regions {
            let found = names.iter().filter_map(|name| self.hardware.find_instance(cloud, name));
            let mut instances: Vec<_> = found.collect();
            instances.sort();
            if instances.is_empty() {
                self.wanted.remove(region);
            } else {
                self.wanted.insert(region.clone(), instances);
            }
        }
        self
    }

    /// What to ask for of a machine type that is sold ahead.
    pub fn span(&self, instance: InstanceId) -> Span {
        self.spans.get(&instance).copied().unwrap_or(Span::DAY)
    }

    /// Names of the wanted machine types in every region together, with their places in the catalog.
    pub fn instances(&self) -> BTreeMap<&'a str, InstanceId> {
        self.wanted.values().flatten().map(|id| (self.hardware.instance(*id).name.as_str(), *id)).collect()
    }
}

fn is_known_pool(offer: &Offer) -> bool {
    use crate::offer::Suspicion::ZoneUnverified;
    matches!(offer.purchase, Purchase::OnDemand | Purchase::Spot | Purchase::CapacityBlock)
        && !offer.suspicions.contains(&ZoneUnverified)
        && !offer.needs_special_account()
}

/// Which source it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub cloud: &'static str,
    /// Name among all sources, such as `aws-spot-history`; the offers of it carry the same as their `source`.
    pub id: &'static str,
    pub access: Access,
}

impl About {
    pub const fn public(cloud: &'static str, id: &'static str) -> Self {
        Self { cloud, id, access: Access::Public }
    }

    pub const fn account(cloud: &'static str, id: &'static str) -> Self {
        Self { cloud, id, access: Access::Account }
    }
}

/// Who may ask a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// Who has credentials of the cloud.
    Account,
}

/// A place where a cloud lists which machines it has.
///
/// Contract: that of `PriceSource`. A region that did not answer is absent from the list, which is not the same as a region that has
/// nothing. A machine type that the catalog lacks comes with a sheet, or with a note of what the cloud does not say of it.
pub trait MachineSource: Send + Sync {
    fn about(&self) -> About;

    /// Where it asks, as of `PriceSource`.
    fn address(&self) -> String;

    /// `known`: the pools that the market knows, for a cloud whose regions cannot be listed.
    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>>;
}

/// A place where a cloud says its prices.
///
/// Contract:
/// - Only reads; asking twice is harmless. A call ends within about a minute, whatever the network does.
/// - Every offer has `Origin::Live` and the time of the answer it stands on, never the time of asking. It is of one of the
///   wanted machine types; where prices differ by zone it names the zone's id, not the account's name for it. A source that
///   answers for all regions at once may name regions, and machine types of the catalog, that nobody asked for.
/// - A value that cannot be read, a price of zero, and a region that does not answer or refuses are a note and cost only
///   themselves. No price is ever replaced by another.
/// - An error means that nothing could be had at all. The caller keeps what it had, with its old time, and says so.
/// - No secret stands in an error, a note or an offer.
pub trait PriceSource: Send + Sync {
    fn about(&self) -> About;

    /// Where it asks, for a manifest; what differs by question is in capitals. Never with a secret.
    fn address(&self) -> String;

    /// Whether it sells spans of time, so that it is asked again once a plan says how many machines are needed for how long.
    fn sells_ahead(&self) -> bool {
        false
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>>;
}

/// A place where a cloud says how likely its capacity is had and kept. The contract is that of `PriceSource`.
pub trait RiskSource: Send + Sync {
    fn about(&self) -> About;

    /// Whether it says when spans of time can be had, so that it is asked only once a plan says how many machines are needed for how long.
    fn is_about_spans(&self) -> bool {
        false
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>>;
}

/// Whose credentials were found, and where. Never the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Account or project.
    pub account: String,
    /// User, role or service account, as far as the cloud says it.
    pub principal: String,
    /// Such as `environment` or `profile default`.
    pub found_in: String,
}

/// Whether an action that a launch needs is allowed, as a dry run or a test of permissions says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// As the cloud names it, such as `ec2:RunInstances`.
    pub action: String,
    pub needed_for: &'static str,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Denied {
        detail: String,
    },
    /// The cloud did not say, so nobody may claim either.
    Unknown {
        detail: String,
    },
}

/// Machines that somebody wants to start.
#[derive(Clone, Copy, Debug)]
pub struct QuotaNeed<'a> {
    pub region: &'a str,
    pub instance: &'a InstanceType,
    pub gpus_per_node: f64,
    pub gpu: &'a str,
    pub purchase: Purchase,
    pub nodes: u32,
}

/// An account's limit that these machines count against.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// The cloud's code or metric, such as `L-7212CCBC`.
    pub code: String,
    pub name: String,
    pub region: String,
    /// Such as `vCPUs`.
    pub unit: &'static str,
    pub limit: f64,
    /// What runs already, where the cloud says it.
    pub used: Option<f64>,
    pub needed: f64,
    /// A command that asks for more.
    pub request: String,
}

impl Quota {
    pub fn blocks(&self) -> bool {
        self.used.unwrap_or(0.0) + self.needed > self.limit
    }
}

/// An account of a cloud: who it is, what it may do, how much it may start.
///
/// Contract:
/// - Nothing is changed or started: an action is tried as a dry run, or the cloud is asked for permissions.
/// - A refusal for lack of permission is `Verdict::Denied`, any other failure of a try is `Verdict::Unknown`.
/// - A quota is that of the machine's family, market and region, never a default of the documentation.
/// - No secret stands in an answer or an error.
pub trait AccountSource: Send + Sync {
    fn cloud(&self) -> CloudId;

    fn identity(&self) -> BoxFuture<'_, Result<Identity, SourceError>>;

    fn permissions<'a>(&'a self, region: &'a str) -> BoxFuture<'a, Result<Vec<Permission>, SourceError>>;

    /// Every quota that these machines count against.
    fn quotas<'a>(&'a self, need: QuotaNeed<'a>) -> BoxFuture<'a, Result<Vec<Quota>, SourceError>>;

    /// What a bucket does by itself to what lies below a prefix.
    fn bucket<'a>(&'a self, bucket: &'a str, prefix: &'a str) -> BoxFuture<'a, Result<BucketRules, SourceError>>;
}

/// Why a source could not answer, by what the caller does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Ask the person to sign in; naming the first variable that would do.
    #[error("no credentials: `{variable}` is not set and no other source of them answered")]
    MissingCredentials { variable: &'static str },
    /// May be tried again later.
    #[error("cannot reach {place}: {detail}")]
    Unreachable { place: String, detail: String },
    /// The cloud answered no. Trying again changes nothing.
    #[error("refused with {code}: {detail}")]
    Refused { code: String, detail: String },
    /// The answer is not what its interface promises. Worth a report.
    #[error("unexpected value of `{field}`: {detail}")]
    Malformed { field: String, detail: String },
}

/// A place where credentials are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Such as a variable, a profile, a file or a service.
    pub place: String,
    /// What stands there, in words and without a secret; `None`: nothing.
    pub found: Option<String>,
}

/// Everything that can be asked of one cloud, as the environment names its addresses and credentials.
#[derive(Default)]
pub struct Sources {
    pub machines: Vec<Box<dyn MachineSource>>,
    pub prices: Vec<Box<dyn PriceSource>>,
    pub risks: Vec<Box<dyn RiskSource>>,
    pub account: Option<Box<dyn AccountSource>>,
    /// Where credentials are looked for, in that order.
    pub tried: Vec<Tried>,
    /// The feature without which this binary cannot ask the cloud's account.
    pub needs_feature: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_asked_and_silence_keeps_what_is_known() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let market = Market::embedded(&hardware).unwrap();
        let known = OfferQuery::known(&market, &hardware, &cloud);
        let kept = known.wanted["eu-west-1"].clone();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut list = MachineList::default();
        list.regions.insert("mx-central-1".into(), names(&["g6.xlarge", "inf1.xlarge"]));
        list.regions.insert("us-east-1".into(), names(&["p5.48xlarge"]));
        list.regions.insert("us-west-2".into(), names(&[]));
        let asked = known.listed(&cloud, &list);
        let names = |region: &str| -> Vec<&str> {
            asked.wanted[region].iter().map(|id| hardware.instance(*id).name.as_str()).collect()
        };
        assert_eq!((names("mx-central-1"), names("us-east-1")), (vec!["g6.xlarge"], vec!["p5.48xlarge"]));
        assert!(!asked.wanted.contains_key("us-west-2"), "it answered and has nothing");
        assert_eq!(asked.wanted["eu-west-1"], kept);
    }
}
