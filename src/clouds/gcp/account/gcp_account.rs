//! `Account`: whose project is asked, what it may do and how many GPUs it may start.

use google_cloud_compute_v1::model;

use crate::CLOUD;
use crate::account::bucket::{Bucket, FIELDS, STORAGE, foreign};
use crate::account::identity;
use crate::account::permissions::{GROUPS, Granted, Group};
use crate::account::project::Project;
use crate::account::quotas::{self, ALL_REGIONS, FAMILY_QUOTA, Limit, Metric, QuotaInfo};
use crate::account::service_accounts;
use crate::sdk::{access, not_built, refusal, signed};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_hardware::CloudId;
use gpuplan_market::bucket::BucketRules;
use gpuplan_market::{AccountSource, BoxFuture, Identity, Permission, Quota, QuotaNeed, SourceError};

const RESOURCE_MANAGER: &str = "https://cloudresourcemanager.googleapis.com";
const CLOUD_QUOTAS: &str = "https://cloudquotas.googleapis.com";

/// A project, asked with the application default credentials.
pub struct Account {
    pub project: Project,
}

impl Account {
    /// Proves that the credentials reach the project before it says whose they are.
    async fn identify(&self) -> Result<Identity, SourceError> {
        let project = self.described().await?;
        let account = project.name.unwrap_or_else(|| self.project.id().unwrap_or_default().to_owned());
        if self.project.is_stand_in() {
            return Ok(Identity {
                account,
                principal: "nobody".to_owned(),
                found_in: "address of this machine".to_owned(),
            });
        }
        let found = identity::find();
        Ok(Identity { account, principal: found.principal, found_in: found.found_in })
    }

    async fn tested(&self) -> Result<Vec<Permission>, SourceError> {
        let http = Http::new()?;
        let mut permissions = Vec::new();
        for group in GROUPS {
            permissions.extend(group.verdicts(self.granted(&http, group).await));
        }
        permissions.extend(service_accounts::verdicts(&http, &self.project).await?);
        Ok(permissions)
    }

    async fn granted(&self, http: &Http, group: &Group) -> Result<Granted, SourceError> {
        let url =
            format!("{}/v1/projects/{}:testIamPermissions", self.project.address(RESOURCE_MANAGER), self.project.id()?);
        let request =
            signed(&self.project, Request::post(url, "application/json", group.question().to_string())).await?;
        Ok(http.json(&request).await?.value)
    }

    async fn limits(&self, need: QuotaNeed<'_>) -> Result<Vec<Quota>, SourceError> {
        let id = self.project.id()?;
        let of_gpu = match quotas::limit_of(&need.instance.name, need.purchase)? {
            Limit::Regional(metric) => quotas::of_metric(&metric, &self.of_region(need.region).await?, &need, id)?,
            Limit::Family(family) => quotas::of_family(&family, &self.of_families().await?, &need, id)?,
        };
        let of_project = metrics(self.described().await?.quotas);
        Ok(vec![of_gpu, quotas::of_metric(ALL_REGIONS, &of_project, &need, id)?])
    }

    async fn rules_of(&self, name: &str, prefix: &str) -> Result<BucketRules, SourceError> {
        let url = format!("{}/storage/v1/b/{name}?fields={FIELDS}", self.project.address(STORAGE));
        let request = signed(&self.project, Request::get(url)).await?;
        match Http::new()?.json::<Bucket>(&request).await {
            Ok(bucket) => Ok(bucket.value.rules(name, prefix)),
            Err(error) => foreign(error, name),
        }
    }

    async fn described(&self) -> Result<model::Project, SourceError> {
        let client = access(&self.project)?.projects().await.map_err(|error| not_built(&error))?;
        let call = client.get().set_project(self.project.id()?);
        call.send().await.map_err(|error| refusal("project", "compute.projects.get", &error))
    }

    async fn of_region(&self, region: &str) -> Result<Vec<Metric>, SourceError> {
        let client = access(&self.project)?.regions().await.map_err(|error| not_built(&error))?;
        let call = client.get().set_project(self.project.id()?).set_region(region);
        let region = call.send().await.map_err(|error| refusal(region, "compute.regions.get", &error))?;
        Ok(metrics(region.quotas))
    }

    async fn of_families(&self) -> Result<QuotaInfo, SourceError> {
        let (address, project) = (self.project.address(CLOUD_QUOTAS), self.project.id()?);
        let service = format!("projects/{project}/locations/global/services/compute.googleapis.com");
        let request =
            signed(&self.project, Request::get(format!("{address}/v1/{service}/quotaInfos/{FAMILY_QUOTA}"))).await?;
        Ok(Http::new()?.json(&request).await?.value)
    }
}

fn metrics(quotas: Vec<model::Quota>) -> Vec<Metric> {
    let metric = |quota: model::Quota| {
        Some(Metric { name: quota.metric?.name()?.to_owned(), limit: quota.limit?, usage: quota.usage })
    };
    quotas.into_iter().filter_map(metric).collect()
}

impl AccountSource for Account {
    fn cloud(&self) -> CloudId {
        CloudId::new(CLOUD)
    }

    fn identity(&self) -> BoxFuture<'_, Result<Identity, SourceError>> {
        Box::pin(self.identify())
    }

    /// A project grants for all regions alike.
    fn permissions<'a>(&'a self, _region: &'a str) -> BoxFuture<'a, Result<Vec<Permission>, SourceError>> {
        Box::pin(self.tested())
    }

    fn quotas<'a>(&'a self, need: QuotaNeed<'a>) -> BoxFuture<'a, Result<Vec<Quota>, SourceError>> {
        Box::pin(self.limits(need))
    }

    fn bucket<'a>(&'a self, bucket: &'a str, prefix: &'a str) -> BoxFuture<'a, Result<BucketRules, SourceError>> {
        Box::pin(self.rules_of(bucket, prefix))
    }
}
