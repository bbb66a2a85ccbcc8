//! `Capacity`: how likely Compute Engine says that a spot machine is had now, and how long it would run.

use google_cloud_compute_v1::client::Advice;
use google_cloud_compute_v1::model::capacity_advice_request_distribution_policy::TargetShape;
use google_cloud_compute_v1::model::capacity_advice_request_instance_properties_scheduling::ProvisioningModel;
use google_cloud_compute_v1::model::{
    CapacityAdviceRequest, CapacityAdviceRequestDistributionPolicy, CapacityAdviceRequestInstanceFlexibilityPolicy,
    CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection, CapacityAdviceRequestInstanceProperties,
    CapacityAdviceRequestInstancePropertiesScheduling, CapacityAdviceResponseRecommendation,
};

use crate::CLOUD;
use crate::account::project::Project;
use crate::prices::advice::{self, Recommendation};
use crate::prices::pools::{Failure, Pool, ask_each, sold_as_spot};
use crate::prices::spot_prices::client;
use crate::sdk::failure;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{About, BoxFuture, Location, OfferQuery, RiskAnswer, RiskSource, Signal, SourceError};

/// What the question needs.
const PERMISSION: &str = "compute.advice.capacity";
/// Machines asked for. The sources do not know how many a plan wants; the score of one is the most that can be hoped for.
const SIZE: i32 = 1;

/// The capacity advisor, read with the application default credentials.
pub struct Capacity {
    pub project: Project,
}

impl Capacity {
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let (project, client) = (self.project.id()?, client(&self.project).await?);
        let answers = ask_each(sold_as_spot(query), query.patience, |pool| {
            let client = client.clone();
            async move { signals(&client, project, &pool).await }
        });
        let answers = answers.await?;
        let signals = answers.values.into_iter().flatten().collect();
        Ok(RiskAnswer { signals, notes: answers.notes, ..RiskAnswer::default() })
    }
}

impl RiskSource for Capacity {
    fn about(&self) -> About {
        About::account(CLOUD, "gcp-capacity")
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

async fn signals(client: &Advice, project: &str, pool: &Pool) -> Result<Vec<(InstanceId, Location, Signal)>, Failure> {
    let scheduling =
        CapacityAdviceRequestInstancePropertiesScheduling::new().set_provisioning_model(ProvisioningModel::Spot);
    let selection = CapacityAdviceRequestInstanceFlexibilityPolicyInstanceSelection::new()
        .set_machine_types([pool.machine_type.clone()]);
    let request = CapacityAdviceRequest::new()
        .set_size(SIZE)
        .set_instance_properties(CapacityAdviceRequestInstanceProperties::new().set_scheduling(scheduling))
        .set_instance_flexibility_policy(
            CapacityAdviceRequestInstanceFlexibilityPolicy::new().set_instance_selections([("machine", selection)]),
        )
        .set_distribution_policy(
            CapacityAdviceRequestDistributionPolicy::new().set_target_shape(TargetShape::AnySingleZone),
        );
    let call = client.capacity().set_project(project).set_region(pool.region.to_string()).set_body(request);
    let answer = call.send().await.map_err(|error| failure(&pool.region, PERMISSION, &error))?;
    let recommendations: Vec<_> = answer.recommendations.iter().map(recommendation).collect();
    advice::signals(pool, &recommendations).map_err(Failure::Nothing)
}

fn recommendation(said: &CapacityAdviceResponseRecommendation) -> Recommendation {
    let scores = said.scores.as_ref();
    let uptime = scores.and_then(|scores| scores.estimated_uptime.as_ref());
    Recommendation {
        obtainability: scores.and_then(|scores| scores.obtainability),
        uptime_seconds: uptime.map(|uptime| uptime.seconds() as f64 + f64::from(uptime.nanos()) / 1e9),
        zones: said.shards.iter().filter_map(|shard| shard.zone.clone()).collect(),
    }
}
