//! `Preemptions`: how large a share of spot machines Compute Engine preempted lately, a question a machine type and region.

use google_cloud_compute_v1::model::capacity_history_request::Types;

use crate::CLOUD;
use crate::account::project::Project;
use crate::prices::history::daily_preemption_share;
use crate::prices::pools::{Failure, ask_each, sold_as_spot};
use crate::prices::spot_prices::{client, history_of, zone};
use gpuplan_market::{About, BoxFuture, OfferQuery, RiskAnswer, RiskSource, Signal, SourceError};

/// The preemption history, some thirty days of it, read with the application default credentials.
pub struct Preemptions {
    pub project: Project,
}

impl Preemptions {
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let (project, client) = (self.project.id()?, client(&self.project).await?);
        let answers = ask_each(sold_as_spot(query), query.patience, |pool| {
            let client = client.clone();
            async move {
                let history = history_of(&client, project, &pool, Types::Preemption).await?;
                let days: Vec<_> = history.preemption_history.iter().map(|day| day.preemption_rate).collect();
                let share = daily_preemption_share(&days).map_err(Failure::Nothing)?;
                Ok((pool.instance, pool.place(zone(&history)), Signal::DailyPreemptionShare(share)))
            }
        });
        let answers = answers.await?;
        Ok(RiskAnswer { signals: answers.values, notes: answers.notes, ..RiskAnswer::default() })
    }
}

impl RiskSource for Preemptions {
    fn about(&self) -> About {
        About::account(CLOUD, "gcp-preemption-history")
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
