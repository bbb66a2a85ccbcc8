//! `AwsAccount`: who the account is, what a launch may do in it, and how many vCPUs it may start.

use aws_sdk_ec2::types::{Filter, Instance, InstanceLifecycleType, InstanceType};
use aws_sdk_servicequotas::types::ServiceQuota;

use crate::CLOUD;
use crate::account::bucket;
use crate::account::permissions;
use crate::account::session::{Account, Session};
use crate::account::vcpu_quotas::{Bought, counts, likely_code, request};
use gpuplan_hardware::CloudId;
use gpuplan_market::bucket::BucketRules;
use gpuplan_market::{AccountSource, BoxFuture, Identity, Permission, Quota, QuotaNeed, SourceError};

/// STS and the rest answer everywhere; this is asked where no region is configured.
const ANY_REGION: &str = "us-east-1";
/// Name of EC2 among the services that have quotas.
const SERVICE: &str = "ec2";

/// The account that the environment, a profile or this machine's role names.
pub struct AwsAccount {
    session: Session,
}

impl AwsAccount {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn who(&self) -> Result<Identity, SourceError> {
        let account = &self.session.sign_in().await?;
        let region = account.home_region().unwrap_or(ANY_REGION);
        let said = async {
            account.sts(region).get_caller_identity().send().await.map_err(|error| account.error(region, &error))
        };
        let said = account.in_time(region, said).await?;
        let text = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
        Ok(Identity {
            account: text(said.account()),
            principal: text(said.arn()),
            found_in: account.found_in().to_owned(),
        })
    }

    async fn allowed(&self, region: &str) -> Result<Vec<Permission>, SourceError> {
        let account = &self.session.sign_in().await?;
        account.in_time(region, async { Ok(Box::pin(permissions::try_all(account, region)).await) }).await
    }

    async fn rules_of(&self, name: &str, prefix: &str) -> Result<BucketRules, SourceError> {
        let account = &self.session.sign_in().await?;
        // Where runs are stored, too: their buckets are asked in no other region.
        let region = account.home_region().unwrap_or(ANY_REGION);
        account.in_time(region, bucket::rules(account, region, name, prefix)).await
    }

    async fn quota(&self, need: QuotaNeed<'_>) -> Result<Vec<Quota>, SourceError> {
        let machine = need.instance.name.as_str();
        let Some(bought) = Bought::for_purchase(need.purchase) else {
            let detail = format!("which quota a {} of {machine} counts against is not known", need.purchase);
            return Err(SourceError::Refused { code: "UnknownQuota".to_owned(), detail });
        };
        let account = &self.session.sign_in().await?;
        let (quota, used) = tokio::join!(
            account.in_time(need.region, find(account, need.region, machine, bought)),
            account.in_time(need.region, running(account, need.region, bought)),
        );
        let (quota, running) = (quota?, used.ok());
        let missing = |field: &str| SourceError::Malformed {
            field: field.to_owned(),
            detail: "the quota does not say it".to_owned(),
        };
        let name = quota.quota_name().unwrap_or_default().to_owned();
        let code = quota.quota_code().ok_or_else(|| missing("QuotaCode"))?.to_owned();
        let limit = quota.value().ok_or_else(|| missing("Value"))?;
        let counted = |vcpus: Vec<(String, f64)>| -> f64 {
            vcpus.iter().filter(|(machine, _)| counts(&name, machine, bought)).fold(0.0, |sum, (_, vcpus)| sum + vcpus)
        };
        let used = running.map(counted);
        let needed = f64::from(need.instance.vcpus) * f64::from(need.nodes);
        // Where nobody says how much is used, it may be all of it.
        let request = request(&code, need.region, used.unwrap_or(limit) + needed);
        Ok(vec![Quota { code, name, region: need.region.to_owned(), unit: "vCPUs", limit, used, needed, request }])
    }
}

/// The likely code first; where its name does not count this machine, the one among all quotas whose name does.
pub async fn find(account: &Account, region: &str, machine: &str, bought: Bought) -> Result<ServiceQuota, SourceError> {
    let client = account.service_quotas(region);
    let is_right = |quota: &ServiceQuota| counts(quota.quota_name().unwrap_or_default(), machine, bought);
    if let Some(code) = likely_code(machine, bought) {
        let answer = client.get_service_quota().service_code(SERVICE).quota_code(code).send().await;
        match answer.map_err(|error| account.error(region, &error)) {
            Ok(answer) => {
                if let Some(quota) = answer.quota.filter(is_right) {
                    return Ok(quota);
                }
            }
            Err(SourceError::Refused { code, .. }) if code == "NoSuchResourceException" => {}
            Err(error) => return Err(error),
        }
    }
    let mut pages = client.list_service_quotas().service_code(SERVICE).into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        if let Some(quota) = page.quotas().iter().find(|quota| is_right(quota)) {
            return Ok(quota.clone());
        }
    }
    let detail = format!("no quota of EC2 in {region} names the family of {machine}");
    Err(SourceError::Refused { code: "UnknownQuota".to_owned(), detail })
}

/// Machine type and vCPUs of everything that runs and was bought so.
pub async fn running(account: &Account, region: &str, bought: Bought) -> Result<Vec<(String, f64)>, SourceError> {
    let alive = Filter::builder().name("instance-state-name").values("pending").values("running").build();
    let mut pages = account.ec2(region).describe_instances().filters(alive).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        let machines = page.reservations().iter().flat_map(aws_sdk_ec2::types::Reservation::instances);
        for machine in machines.filter(|machine| was_bought(machine) == Some(bought)) {
            let unsaid = || SourceError::Malformed {
                field: "CpuOptions".to_owned(),
                detail: "a machine does not say its vCPUs".to_owned(),
            };
            found.push(vcpus(machine).ok_or_else(unsaid)?);
        }
    }
    Ok(found)
}

fn was_bought(machine: &Instance) -> Option<Bought> {
    match machine.instance_lifecycle() {
        None => Some(Bought::OnDemand),
        Some(InstanceLifecycleType::Spot) => Some(Bought::Spot),
        Some(_) => None,
    }
}

fn vcpus(machine: &Instance) -> Option<(String, f64)> {
    let options = machine.cpu_options()?;
    let vcpus = options.core_count()?.checked_mul(options.threads_per_core()?)?;
    Some((machine.instance_type().map(InstanceType::as_str)?.to_owned(), f64::from(vcpus)))
}

impl AccountSource for AwsAccount {
    fn cloud(&self) -> CloudId {
        CloudId::new(CLOUD)
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity, SourceError>> {
        Box::pin(self.who())
    }

    fn permissions<'a>(&'a self, region: &'a str) -> BoxFuture<'a, Result<Vec<Permission>, SourceError>> {
        Box::pin(self.allowed(region))
    }

    fn quotas<'a>(&'a self, need: QuotaNeed<'a>) -> BoxFuture<'a, Result<Vec<Quota>, SourceError>> {
        Box::pin(self.quota(need))
    }

    fn bucket<'a>(&'a self, bucket: &'a str, prefix: &'a str) -> BoxFuture<'a, Result<BucketRules, SourceError>> {
        Box::pin(self.rules_of(bucket, prefix))
    }
}
