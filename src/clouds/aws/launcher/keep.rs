//! Fleets of one as a `Keeper`: made with their template, found by their marks in every region, and ended with both.

use aws_sdk_ec2::types::{
    CreateFleetError, CreateFleetInstance, FleetData, FleetStateCode, FleetType, RequestLaunchTemplateData,
    ResourceType,
};
use futures_util::future::try_join_all;
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::Account;
use crate::errors::launch_error;
use crate::launcher::filter::filter;
use crate::launcher::fleet;
use crate::launcher::known::AwsLauncher;
use crate::launcher::site::{self, Site, Subnet};
use gpuplan_launch::keeper::{Group, KeepRequest, Keeper};
use gpuplan_launch::{CreateRequest, LaunchError, Machine, MachineId, MachineState, Pool, names};
use gpuplan_market::{BoxFuture, SourceError};

/// States in which a fleet starts machines (EC2 API reference, `DescribeFleets`).
const AT_WORK: [FleetStateCode; 3] = [FleetStateCode::Submitted, FleetStateCode::Active, FleetStateCode::Modifying];
/// What EC2 says of a template whose name is taken, or that nobody knows.
const IS_THERE: &str = "InvalidLaunchTemplateName.AlreadyExistsException";
/// The same token with a boot script that was made anew: the template of the first call counts.
const OTHER_WORDS: &str = "IdempotentParameterMismatch";
const NO_TEMPLATE: &str = "InvalidLaunchTemplateId.NotFound";

impl AwsLauncher {
    async fn make_group(&self, request: &KeepRequest) -> Result<Group, LaunchError> {
        let account = &self.account().await?;
        let (machine, region) = (&request.machine, request.machine.pool.region.as_str());
        let owner = &self.caller(account).await?;
        self.has_enabled(account, region).await?;
        let site = self.site(account, &machine.pool, machine.image.as_deref()).await?;
        let fleet = fleet::fleet(machine, &subnets(&request.pools, &site)?, owner)?;
        let profile = self.known_profile(account, machine, owner).await;
        let template = fleet::kept_template(machine, &site, &profile, owner)?;
        make_template(account, machine, template, owner).await?;
        let made = fleet
            .send_with(&account.ec2_to_rent(region))
            .await
            .map_err(|error| launch_error(account.error(region, &error)))?;
        let missing = || LaunchError::Unclear { code: "the answer names no fleet".to_owned() };
        Ok(Group {
            id: made.fleet_id().ok_or_else(missing)?.to_owned(),
            run: machine.run.clone(),
            cloud: CLOUD.to_owned(),
            region: region.to_owned(),
            expires_at: machine.expires_at,
            owner: owner.clone(),
        })
    }

    /// One spot machine in any zone of a region, in a call that lets EC2 choose among all of them.
    pub(super) async fn rent_anywhere(
        &self,
        account: &Account,
        request: &CreateRequest,
    ) -> Result<Machine, LaunchError> {
        let (region, owner) = (request.pool.region.as_str(), &self.caller(account).await?);
        self.has_enabled(account, region).await?;
        let site = self.site(account, &request.pool, request.image.as_deref()).await?;
        let places = subnets(&allowed(request), &site)?;
        let profile = self.known_profile(account, request, owner).await;
        make_template(account, request, fleet::single_template(request, &site, &profile, owner)?, owner).await?;
        let made = fleet::instant(request, &places, owner).send_with(&account.ec2_to_rent(region)).await;
        let made = made.map_err(|error| launch_error(account.error(region, &error)))?;
        // The answer is clear, so nobody asks with this template again.
        let own = filter("launch-template-name", &fleet::name(request));
        let _ = remove_templates(account, region, own, |_| true).await;
        let id = made.instances().iter().flat_map(CreateFleetInstance::instance_ids).next();
        let Some(id) = id else { return Err(nowhere(made.errors())) };
        Ok(Machine {
            id: MachineId(id.clone()),
            run: request.run.clone(),
            epoch: request.epoch,
            node: request.node,
            token: request.token.clone(),
            pool: request.pool.clone(),
            state: MachineState::Starting,
            reason: None,
            was_taken: false,
            created_at: Timestamp::now(),
            expires_at: request.expires_at,
            owner: owner.clone(),
        })
    }

    async fn all_groups(&self, run: Option<&str>) -> Result<Vec<Group>, LaunchError> {
        let account = &self.account().await?;
        let regions = self.regions(account).await?;
        let found = try_join_all(regions.iter().map(|region| groups_in(account, region))).await?;
        Ok(found.into_iter().flatten().filter(|group| run.is_none_or(|run| group.run == run)).collect())
    }

    async fn end_group(&self, group: &Group) -> Result<(), LaunchError> {
        let account = &self.account().await?;
        let client = account.ec2(&group.region);
        let ended = client.delete_fleets().fleet_ids(&group.id).terminate_instances(true).send().await;
        let ended = ended.map_err(|error| launch_error(account.error(&group.region, &error)))?;
        for left in ended.unsuccessful_fleet_deletions() {
            let error = left.error();
            let code = error.and_then(|error| error.code()).map(|code| code.as_str().to_owned()).unwrap_or_default();
            if code != "fleetIdDoesNotExist" {
                let detail = error.and_then(|error| error.message()).unwrap_or_default().to_owned();
                return Err(launch_error(SourceError::Refused { code, detail }));
            }
        }
        let own = filter(&format!("tag:{}", names::RUN), &group.run);
        remove_templates(account, &group.region, own, |_| true).await
    }
}

/// Every zone said why; what is not for want of capacity goes before, since another call would meet it too.
fn nowhere(errors: &[CreateFleetError]) -> LaunchError {
    let said = errors.iter().map(|error| {
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        launch_error(SourceError::Refused { code: text(error.error_code()), detail: text(error.error_message()) })
    });
    let is_local = |error: &LaunchError| matches!(error, LaunchError::Capacity { .. } | LaunchError::NotSold { .. });
    let none = LaunchError::Capacity { code: "no zone has one".to_owned() };
    said.fold(none, |worst, error| if is_local(&worst) { error } else { worst })
}

/// One that is there already is as good.
async fn make_template(
    account: &Account,
    machine: &CreateRequest,
    data: RequestLaunchTemplateData,
    owner: &str,
) -> Result<(), LaunchError> {
    let region = machine.pool.region.as_str();
    let tags = fleet::shared_tags(machine, owner, ResourceType::LaunchTemplate)?;
    let template = account.ec2_to_rent(region).create_launch_template().launch_template_name(fleet::name(machine));
    let template = template.client_token(&machine.token).launch_template_data(data).tag_specifications(tags);
    match template.send().await.map_err(|error| account.error(region, &error)) {
        Err(SourceError::Refused { code, .. }) if [IS_THERE, OTHER_WORDS].contains(&code.as_str()) => Ok(()),
        made => made.map(drop).map_err(launch_error),
    }
}

/// Templates of fleets that are past their time: they cost nothing, so what does not answer is left for the next time.
pub async fn sweep(account: &Account, region: &str, now: Timestamp) {
    let is_past = |expires: Option<Timestamp>| expires.is_some_and(|expires| expires < now);
    let _ = remove_templates(account, region, filter("tag-key", names::RUN), is_past).await;
}

async fn remove_templates(
    account: &Account,
    region: &str,
    which: aws_sdk_ec2::types::Filter,
    goes: impl Fn(Option<Timestamp>) -> bool,
) -> Result<(), LaunchError> {
    let client = account.ec2(region);
    let mut pages = client.describe_launch_templates().filters(which).into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
        for template in page.launch_templates() {
            let expires = fleet::mark(template.tags(), names::EXPIRES).and_then(|time| time.parse().ok());
            let Some(id) = template.launch_template_id().filter(|_| goes(expires)) else { continue };
            match client
                .delete_launch_template()
                .launch_template_id(id)
                .send()
                .await
                .map_err(|error| account.error(region, &error))
            {
                Err(SourceError::Refused { code, .. }) if code == NO_TEMPLATE => {}
                gone => drop(gone.map_err(launch_error)?),
            }
        }
    }
    Ok(())
}

/// The pool in each zone that may be taken, or in whichever.
fn allowed(request: &CreateRequest) -> Vec<Pool> {
    let zones = request.zones.iter().map(|zone| Pool { zone_id: Some(zone.clone()), ..request.pool.clone() });
    let zones: Vec<Pool> = zones.collect();
    if zones.is_empty() { vec![request.pool.clone()] } else { zones }
}

/// A subnet for each zone that was named, or one in every zone of the network.
fn subnets(pools: &[Pool], site: &Site) -> Result<Vec<Subnet>, LaunchError> {
    let is_wanted =
        |subnet: &&Subnet| pools.iter().any(|pool| pool.zone_id.as_ref().is_none_or(|zone| *zone == subnet.zone_id));
    let mut found: Vec<Subnet> = Vec::new();
    for subnet in site.subnets.iter().filter(is_wanted) {
        if !found.iter().any(|known| known.zone_id == subnet.zone_id) {
            found.push(subnet.clone());
        }
    }
    if found.is_empty() {
        return Err(LaunchError::NotSold {
            code: format!("no subnet in any of the zones in the network of `{}`", site::MACHINE),
        });
    }
    Ok(found)
}

async fn groups_in(account: &Account, region: &str) -> Result<Vec<Group>, LaunchError> {
    let mut pages = account.ec2(region).describe_fleets().into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
        found.extend(page.fleets().iter().filter_map(|fleet| group(fleet, region)));
    }
    Ok(found)
}

/// `None`: it is not ours, or starts nothing any more. One whose time cannot be read is past it, so that it is found and ended.
fn group(found: &FleetData, region: &str) -> Option<Group> {
    found.fleet_state().filter(|state| AT_WORK.contains(state) && found.r#type() == Some(&FleetType::Maintain))?;
    let expires = fleet::mark(found.tags(), names::EXPIRES).and_then(|time| time.parse().ok());
    Some(Group {
        id: found.fleet_id()?.to_owned(),
        run: fleet::mark(found.tags(), names::RUN)?.to_owned(),
        cloud: CLOUD.to_owned(),
        region: region.to_owned(),
        expires_at: expires.unwrap_or_default(),
        owner: fleet::mark(found.tags(), names::OWNER).unwrap_or_default().to_owned(),
    })
}

impl Keeper for AwsLauncher {
    fn keep(&self, request: KeepRequest) -> BoxFuture<'_, Result<Group, LaunchError>> {
        Box::pin(async move { Box::pin(self.make_group(&request)).await })
    }

    fn groups<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Group>, LaunchError>> {
        Box::pin(self.all_groups(run))
    }

    fn dissolve<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(self.end_group(group))
    }
}
