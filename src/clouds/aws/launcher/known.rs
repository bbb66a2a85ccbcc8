//! `AwsLauncher`: as whom it rents, and what it learned on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;

use crate::account::session::{Account, Session};
use crate::errors::launch_error;
use crate::launcher::gang::Group;
use crate::launcher::site::{self, Site};
use gpuplan_clouds_http::Dates;
use gpuplan_launch::{LaunchError, MachineId, Pool};

/// Answers everywhere; asked where no region is configured.
const ANY_REGION: &str = "us-east-1";
/// What a region is like seldom changes, and images come out every few weeks.
const KNOWN_FOR: Duration = Duration::from_mins(10);
/// Credentials of a role end, so they are found anew, well within the quarter of an hour that the shortest live.
const SIGNED_IN_FOR: Duration = Duration::from_mins(5);

/// Rents as the account that the environment, a profile or this machine's role names, with what `setup.tf` made in it.
pub struct AwsLauncher {
    session: Session,
    signed_in: tokio::sync::Mutex<Option<(Instant, Account)>>,
    known: Mutex<Known>,
}

/// What was learned on the way. All of it can be lost.
#[derive(Default)]
pub(super) struct Known {
    owner: Option<String>,
    regions: Option<(Instant, Vec<String>)>,
    sites: BTreeMap<(String, String, Option<String>), (Instant, Site)>,
    /// Orders by their token: a repeated call has to say the same in every word, or EC2 refuses it.
    pub(super) orders: BTreeMap<String, RunInstancesInputBuilder>,
    /// And when this process created it.
    pub(super) region_of: BTreeMap<MachineId, (String, Option<Instant>)>,
    pub(super) groups: BTreeSet<Group>,
    /// Whether the account has roles of runs; `None`: nobody asked yet.
    pub(super) run_roles: Option<bool>,
    /// Profiles of runs that are there, and when this process made them.
    pub(super) profiles: BTreeMap<String, Option<Instant>>,
    /// Whether it was said that prices may not be asked.
    pub(super) has_no_prices: bool,
    /// To be said to whoever rents.
    pub(super) warnings: Vec<String>,
}

pub(super) fn is_fresh(since: Instant, life: Duration) -> bool {
    since.elapsed() < life
}

impl AwsLauncher {
    /// Nothing is asked before the first call.
    pub fn from_environment() -> Self {
        Self::new(Session::from_environment())
    }

    pub fn new(session: Session) -> Self {
        Self { session, signed_in: tokio::sync::Mutex::new(None), known: Mutex::new(Known::default()) }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What EC2 says the time is.
    pub(super) fn dates(&self) -> &Dates {
        self.session.dates()
    }

    pub(super) async fn account(&self) -> Result<Account, LaunchError> {
        let mut kept = self.signed_in.lock().await;
        if let Some((_, account)) = kept.as_ref().filter(|(since, _)| is_fresh(*since, SIGNED_IN_FOR)) {
            return Ok(account.clone());
        }
        let account = self.session.sign_in().await.map_err(launch_error)?;
        *kept = Some((Instant::now(), account.clone()));
        Ok(account)
    }

    /// Who rents, as AWS names them: the one mark that says whom to ask.
    pub(super) async fn caller(&self, account: &Account) -> Result<String, LaunchError> {
        if let Some(owner) = self.known().owner.clone() {
            return Ok(owner);
        }
        let region = account.home_region().unwrap_or(ANY_REGION);
        let said = account.sts(region).get_caller_identity().send().await;
        let said = said.map_err(|error| launch_error(account.error(region, &error)))?;
        let unnamed = || LaunchError::Unclear { code: "sts:GetCallerIdentity names nobody".to_owned() };
        let owner = said.arn().ok_or_else(unnamed)?.to_owned();
        self.known().owner = Some(owner.clone());
        Ok(owner)
    }

    /// Those that are enabled for the account.
    pub(super) async fn regions(&self, account: &Account) -> Result<Vec<String>, LaunchError> {
        if let Some((_, regions)) = self.known().regions.as_ref().filter(|(since, _)| is_fresh(*since, KNOWN_FOR)) {
            return Ok(regions.clone());
        }
        let region = account.home_region().unwrap_or(ANY_REGION);
        let answer = account.ec2(region).describe_regions().send().await;
        let answer = answer.map_err(|error| launch_error(account.error(region, &error)))?;
        let regions: Vec<String> =
            answer.regions().iter().filter_map(|region| region.region_name().map(str::to_owned)).collect();
        self.known().regions = Some((Instant::now(), regions.clone()));
        Ok(regions)
    }

    pub(super) async fn has_enabled(&self, account: &Account, region: &str) -> Result<(), LaunchError> {
        let is_enabled = self.regions(account).await?.iter().any(|enabled| enabled == region);
        let closed = || LaunchError::NotSold { code: format!("{region} is not enabled for this account") };
        if is_enabled { Ok(()) } else { Err(closed()) }
    }

    pub(super) async fn site(&self, account: &Account, pool: &Pool, image: Option<&str>) -> Result<Site, LaunchError> {
        let key = (pool.region.clone(), pool.instance_type.clone(), image.map(str::to_owned));
        if let Some((_, site)) = self.known().sites.get(&key).filter(|(since, _)| is_fresh(*since, KNOWN_FOR)) {
            return Ok(site.clone());
        }
        let site = site::find(account, &pool.region, &pool.instance_type, image).await?;
        self.known().sites.insert(key, (Instant::now(), site.clone()));
        Ok(site)
    }
}
