//! `AwsLauncher`: rents machines of EC2 one call at a time, finds them again by their tags in every region, and ends them.

pub mod blocks;
pub mod end_schedule;
mod filter;
pub mod fleet;
pub mod gang;
mod identity;
pub mod keep;
mod known;
pub mod listed;
pub mod order;
pub mod run_role;
pub mod site;
mod spot_price;

use std::time::{Duration, Instant};

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;
use aws_sdk_ec2::types::{Filter, Instance, Reservation};
use futures_util::future::{join_all, try_join_all};
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::Account;
use crate::account::vcpu_quotas::{Bought, counts, request as request_quota};
use crate::account::{find, running};
use crate::catalog::offerings::listed as listed_in_zones;
use crate::errors::{NO_PROFILE, launch_error};
use crate::launcher::filter::filter;
use crate::launcher::gang::Group;
pub use crate::launcher::known::AwsLauncher;
use crate::launcher::known::is_fresh;
use crate::launcher::site::{Site, Subnet};
use gpuplan_launch::block::Seller;
use gpuplan_launch::names;
use gpuplan_launch::{
    Access, CreateRequest, Keeper, LaunchError, Launcher, Machine, MachineId, Market, Pool, SelfDestruct,
};
use gpuplan_market::{BoxFuture, SourceError};
use gpuplan_units::UsdPerHour;

/// EC2 may deny for a while that a machine exists (EC2 API reference, "Eventual consistency"); the contract's minute, twice.
const LATE: Duration = Duration::from_mins(2);
/// Nobody waits longer for the schedule of a machine that is there.
const SCHEDULING: Duration = Duration::from_secs(10);
/// Between two calls with a profile that EC2 does not know yet.
const PROFILE_PAUSE: Duration = Duration::from_secs(2);
const NOT_FOUND: &str = "InvalidInstanceID.NotFound";

impl AwsLauncher {
    /// Everything that the one call says, the same for the same token.
    async fn prepared(
        &self,
        account: &Account,
        request: &CreateRequest,
    ) -> Result<RunInstancesInputBuilder, LaunchError> {
        if let Some(order) = self.known().orders.get(&request.token).cloned() {
            return Ok(order);
        }
        let region = &request.pool.region;
        let ((), owner) = tokio::try_join!(self.has_enabled(account, region), self.caller(account))?;
        let site = self.site(account, &request.pool, request.image.as_deref()).await?;
        let (subnet, profile) = tokio::join!(subnet(account, request, &site), self.profile(account, request, &owner));
        let subnet = subnet?;
        let group = (request.nodes > 1 && site.machine.stands_close).then(|| Group::for_request(request));
        if let Some(group) = &group {
            gang::ensure(account, group, request, &owner).await?;
            self.known().groups.insert(group.clone());
        }
        let group = group.as_ref().map(|group| group.name.as_str());
        let order = order::order(request, &site, &profile, subnet.as_ref(), group, &owner)?;
        self.known().orders.insert(request.token.clone(), order.clone());
        Ok(order)
    }

    async fn rent(&self, request: &CreateRequest) -> Result<Machine, LaunchError> {
        let account = &self.account().await?;
        let region = request.pool.region.as_str();
        if request.pool.zone_id.is_none() && request.pool.market == Market::Spot && request.nodes == 1 {
            return match self.rent_anywhere(account, request).await {
                Err(LaunchError::Quota { code, request: otherwise }) => {
                    Err(self.quota(account, request, &code, otherwise).await)
                }
                Ok(machine) => {
                    self.known().region_of.insert(machine.id.clone(), (region.to_owned(), Some(Instant::now())));
                    Ok(machine)
                }
                error => error,
            };
        }
        let order = self.prepared(account, request).await?;
        let answer = match Box::pin(self.run(account, region, order.clone())).await {
            Err(SourceError::Refused { code, .. }) if code == "UnauthorizedOperation" => {
                // AWS does not say what it is that may not be done: perhaps only the tags of the disk, which goes with the machine.
                let bare = order::without_tags_of_disks(order);
                self.known().orders.insert(request.token.clone(), bare.clone());
                Box::pin(self.run(account, region, bare)).await
            }
            answer => answer,
        };
        match answer {
            Ok(found) => {
                let missing = || LaunchError::Unclear { code: "the answer names no machine".to_owned() };
                let machine = listed::machine(&found, region).ok_or_else(missing)?;
                self.known().region_of.insert(machine.id.clone(), (region.to_owned(), Some(Instant::now())));
                Ok(machine)
            }
            Err(error) => {
                let error = launch_error(error);
                if !matches!(error, LaunchError::Unclear { .. }) {
                    // Nobody repeats what was refused.
                    self.known().orders.remove(&request.token);
                }
                match error {
                    LaunchError::Quota { code, request: otherwise } => {
                        Err(self.quota(account, request, &code, otherwise).await)
                    }
                    error => Err(error),
                }
            }
        }
    }

    /// EC2 refuses a profile for some seconds after it was made.
    async fn run(
        &self,
        account: &Account,
        region: &str,
        order: RunInstancesInputBuilder,
    ) -> Result<Instance, SourceError> {
        loop {
            match run_once(account, region, order.clone()).await {
                Err(SourceError::Refused { detail, .. })
                    if detail.contains(NO_PROFILE) && self.has_new_profile(&order) =>
                {
                    tokio::time::sleep(PROFILE_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Which quota it is, what it allows, and the command that asks for more; `otherwise` where AWS does not say it.
    async fn quota(&self, account: &Account, request: &CreateRequest, code: &str, otherwise: String) -> LaunchError {
        let unsaid = LaunchError::Quota { code: code.to_owned(), request: otherwise };
        let (pool, bought) = (&request.pool, Bought::from(request.pool.market));
        let Ok(site) = self.site(account, pool, request.image.as_deref()).await else { return unsaid };
        let (quota, used) = tokio::join!(
            find(account, &pool.region, &pool.instance_type, bought),
            running(account, &pool.region, bought)
        );
        let Ok(quota) = quota else { return unsaid };
        let (Some(of), Some(limit), Some(vcpus)) = (quota.quota_code(), quota.value(), site.machine.vcpus) else {
            return unsaid;
        };
        let name = quota.quota_name().unwrap_or_default();
        // Where nobody says how much is used, it may be all of it.
        let used = used.map_or(limit, |used| {
            used.iter().filter(|(machine, _)| counts(name, machine, bought)).map(|(_, vcpus)| vcpus).sum()
        });
        let needed = f64::from(vcpus) * f64::from(request.nodes.max(1));
        let code = format!("{of} of {limit} vCPUs in {} ({code})", pool.region);
        LaunchError::Quota { code, request: request_quota(of, &pool.region, used + needed) }
    }

    /// Every region or none: a region that does not answer would be one where nobody looks.
    async fn all(&self, run: Option<&str>) -> Result<Vec<Machine>, LaunchError> {
        let account = &self.account().await?;
        let ours = &match run {
            Some(run) => filter(&format!("tag:{}", names::RUN), run),
            None => filter("tag-key", names::RUN),
        };
        let regions = self.regions(account).await?;
        let found = try_join_all(regions.iter().map(|region| described(account, region, ours))).await?;
        let of_region = |(region, found): (&String, &Vec<Instance>)| -> Vec<Machine> {
            found.iter().filter_map(|found| listed::machine(found, region)).collect()
        };
        let machines: Vec<Machine> = regions.iter().zip(&found).flat_map(of_region).collect();
        for machine in &machines {
            self.known().region_of.entry(machine.id.clone()).or_insert_with(|| (machine.pool.region.clone(), None));
        }
        let groups = std::mem::take(&mut self.known().groups);
        let left = gang::tidy(account, groups, &machines).await;
        self.known().groups.extend(left);
        // By the clock of EC2: this computer's may be ahead, and what machines still need would go.
        if let Some(now) = self.dates().now().filter(|_| run.is_none()) {
            join_all(regions.iter().map(|region| gang::sweep(account, region, now))).await;
            join_all(regions.iter().map(|region| keep::sweep(account, region, now))).await;
        }
        Ok(machines)
    }

    /// The machine is there whatever becomes of this, and has its own timers: what fails is said. `is_new`: no schedule of it stands yet, and
    /// one that does all the same is its own. False if it failed.
    async fn schedule_end(&self, machine: &MachineId, region: &str, ends_at: Timestamp, is_new: bool) -> bool {
        let call = async {
            let account = &self.account().await?;
            let owner = self.caller(account).await?;
            let answer = if is_new {
                end_schedule::make(account, region, machine, ends_at, &owner).await
            } else {
                end_schedule::set(account, region, machine, ends_at, &owner).await
            };
            answer.map_err(launch_error)
        };
        let answer = tokio::time::timeout(SCHEDULING, call).await;
        let why = match answer {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", SCHEDULING.as_secs()),
        };
        self.known().warnings.push(format!(
            "{machine} ends itself at {ends_at:.0}, and no schedule of EventBridge would then if it hangs until then: {why}; \
             `gpuplan setup aws --region {region}` makes what a schedule needs"
        ));
        false
    }

    async fn end(&self, machine: &MachineId) -> Result<(), LaunchError> {
        let account = &self.account().await?;
        let known = self.known().region_of.get(machine).cloned();
        let (regions, created) = match known {
            Some((region, created)) => (vec![region], created),
            None => (self.regions_with(account, machine).await?, None),
        };
        let is_young = created.is_some_and(|created| is_fresh(created, LATE));
        for region in regions {
            let ended = account.ec2(&region).terminate_instances().instance_ids(&machine.0).send().await;
            match ended.map_err(|error| account.error(&region, &error)) {
                Ok(_) => {
                    // One that stays ends what is gone, and goes with that.
                    let _ = tokio::time::timeout(SCHEDULING, end_schedule::remove(account, &region, machine)).await;
                }
                // What was created just now may not be known everywhere yet, and goes on.
                Err(SourceError::Refused { code, .. }) if code == NOT_FOUND && is_young => {
                    return Err(LaunchError::Unclear { code });
                }
                Err(SourceError::Refused { code, .. }) if code == NOT_FOUND => {}
                Err(error) => return Err(launch_error(error)),
            }
        }
        Ok(())
    }

    /// At most one region, found by asking all of them: a filter is no error where nothing has this id.
    async fn regions_with(&self, account: &Account, machine: &MachineId) -> Result<Vec<String>, LaunchError> {
        let named = &filter("instance-id", &machine.0);
        let regions = self.regions(account).await?;
        let found = try_join_all(regions.iter().map(|region| described(account, region, named))).await?;
        Ok(regions.into_iter().zip(found).filter(|(_, found)| !found.is_empty()).map(|(region, _)| region).collect())
    }
}

/// The one call. Nobody repeats it but whoever holds the token.
async fn run_once(account: &Account, region: &str, order: RunInstancesInputBuilder) -> Result<Instance, SourceError> {
    let answer = order.send_with(&account.ec2_to_rent(region)).await.map_err(|error| account.error(region, &error))?;
    let nothing =
        || SourceError::Malformed { field: "Instances".to_owned(), detail: "the answer names no machine".to_owned() };
    answer.instances.and_then(|all| all.into_iter().next()).ok_or_else(nothing)
}

async fn described(account: &Account, region: &str, filter: &Filter) -> Result<Vec<Instance>, LaunchError> {
    let mut pages = account.ec2(region).describe_instances().filters(filter.clone()).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
        found.extend(page.reservations().iter().flat_map(Reservation::instances).cloned());
    }
    Ok(found)
}

/// Where the machine stands. Without a zone EC2 chooses among those of the default network, which it knows best. The machines of a
/// gang share a zone: one that lists the type, another with every epoch.
async fn subnet(account: &Account, request: &CreateRequest, site: &Site) -> Result<Option<Subnet>, LaunchError> {
    let pool = &request.pool;
    if let Some(zone) = &pool.zone_id {
        let found = site.subnets.iter().find(|subnet| subnet.zone_id == *zone).cloned();
        let missing =
            || LaunchError::NotSold { code: format!("no subnet in {zone} in the network of `{}`", site::MACHINE) };
        return found.map(Some).ok_or_else(missing);
    }
    if request.nodes == 1 && site.subnets.iter().any(|subnet| subnet.is_default) {
        return Ok(None);
    }
    let listed = listed_in_zones(account, &account.ec2(&pool.region), &pool.region, &[&pool.instance_type]).await;
    let listed = listed.map_err(launch_error)?;
    let mut zones: Vec<&String> = listed.iter().map(|(_, zone)| zone).collect();
    zones.retain(|zone| site.subnets.iter().any(|subnet| subnet.zone_id == **zone));
    zones.sort();
    let turn = usize::try_from(request.epoch).unwrap_or_default();
    let zone = zones.get(turn % zones.len().max(1));
    let found = zone.and_then(|zone| site.subnets.iter().find(|subnet| subnet.zone_id == **zone)).cloned();
    let missing = || LaunchError::NotSold {
        code: format!("no subnet in a zone of {} that has {}", pool.region, pool.instance_type),
    };
    found.map(Some).ok_or_else(missing)
}

impl Launcher for AwsLauncher {
    fn cloud(&self) -> &str {
        CLOUD
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        Box::pin(async move {
            let machine = Box::pin(self.rent(&request)).await?;
            self.schedule_end(&machine.id, &request.pool.region, request.expires_at, true).await;
            Ok(machine)
        })
    }

    fn ends_by<'a>(&'a self, machine: &'a Machine, at: Timestamp) -> BoxFuture<'a, bool> {
        Box::pin(self.schedule_end(&machine.id, &machine.pool.region, at, false))
    }

    fn forget<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(self.remove_role(access))
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.known().warnings)
    }

    fn list<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(self.all(run))
    }

    fn find<'a>(&'a self, pool: &'a Pool, token: &'a str) -> BoxFuture<'a, Result<Option<Machine>, LaunchError>> {
        Box::pin(async move {
            if pool.cloud != CLOUD {
                return Ok(None);
            }
            let found = described(&self.account().await?, &pool.region, &filter("client-token", token)).await?;
            Ok(found.first().and_then(|found| listed::machine(found, &pool.region)))
        })
    }

    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(self.end(machine))
    }

    fn spot_prices<'a>(
        &'a self,
        places: &'a [(Pool, Vec<String>)],
    ) -> BoxFuture<'a, Result<Vec<Option<UsdPerHour>>, LaunchError>> {
        Box::pin(self.prices_now(places))
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async move { self.caller(&self.account().await?).await })
    }

    fn time(&self) -> Option<Timestamp> {
        self.dates().now()
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        Some(SelfDestruct::Timer)
    }

    fn keeper(&self) -> Option<&dyn Keeper> {
        Some(self)
    }

    fn seller(&self) -> Option<&dyn Seller> {
        Some(self)
    }
}
