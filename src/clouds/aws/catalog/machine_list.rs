//! `ListedMachines`: asks every region of the account which machine types with GPUs it has, and what those are that no catalog has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_sdk_ec2::types::{GpuDeviceInfo, InstanceType, InstanceTypeInfo, LocationType};
use futures_util::future::join_all;
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::{Account, Session};
use crate::catalog::offerings::{cards, named};
use crate::catalog::sheets::Described;
use crate::feeds::addresses::service;
use crate::prices::gather::gather;
use gpuplan_hardware::{CloudId, MachineSheet};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, SourceError, SourceNote};

const SOURCE: &str = "aws-machine-types";
/// Families of EC2 with GPUs are G (graphics) and P (accelerated), as of every generation so far (EC2 documentation,
/// "Accelerated computing").
const FAMILIES: [char; 2] = ['g', 'p'];
/// Rows of a page, the most that EC2 gives (documentation of DescribeInstanceTypeOfferings).
const ROWS: i32 = 1000;
/// Regions are listed here where no region is configured.
const ANY_REGION: &str = "us-east-1";

/// What the account's own regions list.
pub struct ListedMachines {
    session: Session,
}

impl ListedMachines {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let account = &self.session.sign_in_for(known.patience).await?;
        let mut list = MachineList::default();
        let regions = match regions(account).await {
            Ok(regions) => regions,
            // Who may not list regions may still ask them.
            Err(error @ SourceError::Refused { .. }) => {
                list.notes.push(SourceNote { place: "regions".to_owned(), detail: error.to_string() });
                known.wanted.keys().cloned().collect()
            }
            Err(error) => return Err(error),
        };
        let questions = regions.into_iter().map(|region| async move {
            let answer = account.in_time(&region, offered(account, &region)).await;
            (region.to_string(), answer.map(|names| (region, names)))
        });
        let answered = gather(join_all(questions).await, &mut list.notes)?;
        list.regions = answered.into_iter().collect();
        let unknown = unknown(known, &list.regions);
        let questions = unknown.into_iter().map(|(region, names)| async move {
            (region.to_string(), account.in_time(&region, described(account, &region, &names)).await)
        });
        // What cannot be described is a note already, and what is known can be asked all the same.
        let sheets = gather(join_all(questions).await, &mut list.notes).unwrap_or_default();
        list.sheets = sheets.into_iter().flatten().collect();
        Ok(list)
    }
}

/// Regions that the account has turned on.
async fn regions(account: &Account) -> Result<Vec<Arc<str>>, SourceError> {
    let home = account.home_region().unwrap_or(ANY_REGION);
    let client = account.ec2(home);
    let asked = async { client.describe_regions().send().await.map_err(|error| account.error(home, &error)) };
    let answer = account.in_time(home, asked).await?;
    Ok(answer.regions().iter().filter_map(|region| Some(region.region_name()?.into())).collect())
}

/// Machine types of the families with GPUs that any zone of a region lists. Everything is asked for: some 800 rows, and no list of
/// families to come stands in a question.
#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the paths of the SDK's types are longer than what they say"
)]
async fn offered(account: &Account, region: &str) -> Result<BTreeSet<String>, SourceError> {
    let client = account.ec2(region);
    let question = client.describe_instance_type_offerings().location_type(LocationType::Region).max_results(ROWS);
    let mut pages = question.into_paginator().send();
    let mut found = BTreeSet::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        let types = page.instance_type_offerings().iter().filter_map(|offering| offering.instance_type());
        found.extend(types.map(|name| name.as_str().to_owned()).filter(|name| name.starts_with(FAMILIES)));
    }
    Ok(found)
}

/// Machine types that the catalog lacks, each to be asked about in the first region that has it.
fn unknown(known: &OfferQuery, regions: &BTreeMap<Arc<str>, BTreeSet<String>>) -> BTreeMap<Arc<str>, Vec<String>> {
    let (cloud, mut seen) = (CloudId::new(CLOUD), BTreeSet::new());
    let mut unknown: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    for (region, names) in regions {
        for name in names.iter().filter(|name| known.hardware.find_instance(&cloud, name).is_none()) {
            if seen.insert(name) {
                unknown.entry(region.clone()).or_default().push(name.clone());
            }
        }
    }
    unknown
}

/// Sheets of machine types; one without a GPU has none.
async fn described(account: &Account, region: &str, names: &[String]) -> Result<Vec<MachineSheet>, SourceError> {
    let client = account.ec2(region);
    let mut pages = client.describe_instance_types().filters(named(names)).into_paginator().send();
    let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
    let mut sheets = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        sheets.extend(page.instance_types().iter().filter_map(read).map(|described| described.sheet(&today)));
    }
    Ok(sheets)
}

#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the paths of the SDK's types are longer than what they say"
)]
fn read(info: &InstanceTypeInfo) -> Option<Described> {
    let gpu: &GpuDeviceInfo = info.gpu_info()?.gpus().first()?;
    let network = info.network_info();
    let cards_of_network = network.map(|network| network.network_cards()).unwrap_or_default();
    Some(Described {
        name: info.instance_type().map(InstanceType::as_str)?.to_owned(),
        gpu: gpu.name()?.to_owned(),
        vendor: gpu.manufacturer().unwrap_or_default().to_owned(),
        cards: cards(gpu),
        vcpus: info.v_cpu_info().and_then(|it| it.default_v_cpus()).unwrap_or_default(),
        memory_mib: info.memory_info().and_then(|it| it.size_in_mib()).unwrap_or_default(),
        nvme_gb: info.instance_storage_info().and_then(|it| it.total_size_in_gb()),
        network: network.and_then(|it| it.network_performance()).unwrap_or_default().to_owned(),
        baseline_gbit: cards_of_network.first().and_then(|card| card.baseline_bandwidth_in_gbps()),
        architectures: info
            .processor_info()
            .map(|it| it.supported_architectures().iter().map(|it| it.as_str().to_owned()).collect())
            .unwrap_or_default(),
        usages: info.supported_usage_classes().iter().map(|it| it.as_str().to_owned()).collect(),
    })
}

impl MachineSource for ListedMachines {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        service("EC2", "DescribeInstanceTypeOfferings")
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(self.ask(known))
    }
}
