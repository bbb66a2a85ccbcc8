//! `SpotPrices`: Compute Engine's history of spot prices, a question a machine type and region.

use google_cloud_compute_v1::client::Advice;
use google_cloud_compute_v1::model::capacity_history_request::Types;
use google_cloud_compute_v1::model::capacity_history_request_instance_properties_scheduling::ProvisioningModel;
use google_cloud_compute_v1::model::{
    CapacityHistoryRequest, CapacityHistoryRequestInstanceProperties,
    CapacityHistoryRequestInstancePropertiesScheduling, CapacityHistoryResponse, CapacityHistoryResponsePriceRecord,
};
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::project::Project;
use crate::prices::history::{self, Record};
use crate::prices::pools::{Failure, Pool, ask_each, sold_as_spot};
use crate::prices::zones::last_segment;
use crate::sdk::{access, failure, not_built};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError};

/// What the question needs.
const PERMISSION: &str = "compute.advice.capacityHistory";

/// Compute Engine's price history of spot machines, read with the application default credentials.
pub struct SpotPrices {
    pub project: Project,
}

impl SpotPrices {
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (project, client) = (self.project.id()?, client(&self.project).await?);
        let answers = ask_each(sold_as_spot(query), query.patience, |pool| {
            let client = client.clone();
            async move { prices(&history_of(&client, project, &pool, Types::Price).await?, &pool) }
        });
        let answers = answers.await?;
        let mut answer = PriceAnswer { notes: answers.notes, ..PriceAnswer::default() };
        for pool in answers.values {
            answer.offers.extend(pool.offers);
            answer.history.extend(pool.history);
            answer.notes.extend(pool.notes);
        }
        Ok(answer)
    }
}

impl PriceSource for SpotPrices {
    fn about(&self) -> About {
        About::account(CLOUD, history::SOURCE)
    }

    fn address(&self) -> String {
        format!(
            "{}/compute/v1/projects/PROJECT/regions/REGION/advice/capacityHistory",
            self.project.address("https://compute.googleapis.com")
        )
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

pub async fn client(project: &Project) -> Result<Advice, SourceError> {
    access(project)?.advice().await.map_err(|error| not_built(&error))
}

/// One kind of history of one pool.
pub(super) async fn history_of(
    client: &Advice,
    project: &str,
    pool: &Pool,
    kind: Types,
) -> Result<CapacityHistoryResponse, Failure> {
    let scheduling =
        CapacityHistoryRequestInstancePropertiesScheduling::new().set_provisioning_model(ProvisioningModel::Spot);
    let machine = CapacityHistoryRequestInstanceProperties::new()
        .set_machine_type(pool.machine_type.clone())
        .set_scheduling(scheduling);
    let request = CapacityHistoryRequest::new().set_instance_properties(machine).set_types([kind]);
    let call = client.capacity_history().set_project(project).set_region(pool.region.to_string()).set_body(request);
    call.send().await.map_err(|error| failure(&pool.region, PERMISSION, &error))
}

/// The zone that a history is of, where it is not the whole region's.
pub(super) fn zone(history: &CapacityHistoryResponse) -> Option<&str> {
    history.location.as_deref().filter(|location| location.contains("zones/")).map(last_segment)
}

fn prices(history: &CapacityHistoryResponse, pool: &Pool) -> Result<PriceAnswer, Failure> {
    let records: Vec<Record> = history.price_history.iter().map(record).collect();
    let offer = history::offer(pool, zone(history), &records, Timestamp::now()).map_err(Failure::Nothing)?;
    let (history, note) = history::points(pool, zone(history), &records);
    Ok(PriceAnswer { offers: vec![offer], history, notes: note.into_iter().collect() })
}

fn record(price: &CapacityHistoryResponsePriceRecord) -> Record {
    let interval = price.interval.as_ref();
    let start = interval.and_then(|interval| interval.start_time.as_ref());
    let end = interval.and_then(|interval| interval.end_time.as_ref());
    let money = price.list_price.as_ref();
    Record {
        start: start.and_then(|time| Timestamp::new(time.seconds(), time.nanos()).ok()),
        end: end.and_then(|time| Timestamp::new(time.seconds(), time.nanos()).ok()),
        currency: money.and_then(|money| money.currency_code.clone()).unwrap_or_default(),
        units: money.and_then(|money| money.units).unwrap_or_default(),
        nanos: money.and_then(|money| money.nanos).unwrap_or_default(),
    }
}
