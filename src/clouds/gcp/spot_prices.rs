//! `SpotPrices`: asks Compute Engine's advice interface for the price history of spot machines, a question a machine type and region.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use google_cloud_auth::credentials::{Credentials, anonymous};
use google_cloud_compute_v1::Error as CallError;
use google_cloud_compute_v1::client::Advice;
use google_cloud_compute_v1::model::capacity_history_request::Types;
use google_cloud_compute_v1::model::capacity_history_request_instance_properties_scheduling::ProvisioningModel;
use google_cloud_compute_v1::model::{
    CapacityHistoryRequest, CapacityHistoryRequestInstanceProperties, CapacityHistoryRequestInstancePropertiesScheduling,
    CapacityHistoryResponsePriceRecord,
};
use google_cloud_gax::retry_policy::NeverRetry;
use jiff::Timestamp;

use crate::clouds::gcp::CLOUD;
use crate::clouds::gcp::errors::{Reach, explanation, reach};
use crate::clouds::gcp::history::{self, Record};
use crate::clouds::{is_loopback, one_line, root_cause, variable};
use crate::hardware::{CloudId, InstanceId};
use crate::market::{Access, Answer, BoxFuture, Offer, OfferQuery, PriceSource, SourceError, SourceNote};

/// Questions under way at a time; each is answered for one machine type in one region.
const LANES: usize = 12;
/// One question and its answer. It is not repeated: the next pool is as good a second try.
const ATTEMPT: Duration = Duration::from_secs(15);
/// The whole question; pools that it does not reach are named in a note.
const WHOLE: Duration = Duration::from_secs(50);

/// Compute Engine's price history of spot machines, read with the application default credentials.
pub struct SpotPrices {
    project: Option<String>,
    endpoint: Option<String>,
}

impl SpotPrices {
    /// Project and address as the environment names them; empty is the same as not set.
    pub fn from_environment() -> Self {
        Self { project: variable("GOOGLE_CLOUD_PROJECT"), endpoint: variable("GPUPLAN_GCP_ENDPOINT") }
    }

    /// A given address and project; reads no environment where the address is of this machine.
    pub fn at(endpoint: &str, project: &str) -> Self {
        Self { project: Some(project.to_owned()), endpoint: Some(endpoint.to_owned()) }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<Answer, SourceError> {
        let project = self.project.as_deref().ok_or(SourceError::MissingCredentials { variable: "GOOGLE_CLOUD_PROJECT" })?;
        let queue = Arc::new(Queue::new(query, project, self.client().await?));
        let lanes: Vec<_> = (0..LANES).map(|_| tokio::spawn(lane(queue.clone()))).collect();
        for lane in lanes {
            lane.await.map_err(|error| SourceError::Unreachable { place: self.place(), detail: error.to_string() })?;
        }
        queue.answer()
    }

    async fn client(&self) -> Result<Advice, SourceError> {
        let mut builder = Advice::builder().with_attempt_timeout(ATTEMPT).with_retry_policy(NeverRetry);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        builder = builder.with_credentials(self.credentials()?);
        builder.build().await.map_err(|error| SourceError::Unreachable { place: self.place(), detail: root_cause(&error) })
    }

    /// Nobody's for a stand-in on this machine, so that no real key is ever sent to one.
    fn credentials(&self) -> Result<Credentials, SourceError> {
        if self.endpoint.as_deref().is_some_and(is_loopback) {
            return Ok(anonymous::Builder::new().build());
        }
        let missing = |_| SourceError::MissingCredentials { variable: "GOOGLE_APPLICATION_CREDENTIALS" };
        google_cloud_auth::credentials::Builder::default().build().map_err(missing)
    }

    fn place(&self) -> String {
        self.endpoint.clone().unwrap_or_else(|| "Compute Engine".to_owned())
    }
}

impl PriceSource for SpotPrices {
    fn id(&self) -> &'static str {
        history::SOURCE
    }

    fn access(&self) -> Access {
        Access::Account
    }

    fn cloud(&self) -> CloudId {
        CloudId::new(CLOUD)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<Answer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

struct Pool {
    order: usize,
    region: Arc<str>,
    instance: InstanceId,
    machine_type: String,
}

#[derive(Default)]
struct Progress {
    waiting: VecDeque<Pool>,
    offers: Vec<(usize, Offer)>,
    notes: Vec<(usize, SourceNote)>,
    first_error: Option<SourceError>,
    /// An error after which nothing more is asked.
    end: Option<SourceError>,
}

/// What the lanes share.
struct Queue {
    client: Advice,
    project: String,
    until: Instant,
    progress: Mutex<Progress>,
}

impl Queue {
    fn new(query: &OfferQuery, project: &str, client: Advice) -> Self {
        let pools = query.wanted.iter().flat_map(|(region, instances)| instances.iter().map(move |instance| (region, *instance)));
        let sold = pools.filter(|(_, instance)| query.hardware.instance(*instance).sold_as.spot).enumerate();
        let waiting = sold.map(|(order, (region, instance))| Pool {
            order,
            region: region.clone(),
            instance,
            machine_type: query.hardware.instance(instance).name.clone(),
        });
        let progress = Progress { waiting: waiting.collect(), ..Progress::default() };
        Self { client, project: project.to_owned(), until: Instant::now() + WHOLE, progress: Mutex::new(progress) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn next(&self) -> Option<Pool> {
        if Instant::now() >= self.until {
            return None;
        }
        self.with(|progress| if progress.end.is_some() { None } else { progress.waiting.pop_front() })
    }

    fn record(&self, pool: &Pool, outcome: Result<Offer, Failure>) {
        let place = format!("{}, {}", pool.region, pool.machine_type);
        self.with(|progress| match outcome {
            Ok(offer) => progress.offers.push((pool.order, offer)),
            Err(Failure::NoPrice(detail)) => progress.notes.push((pool.order, SourceNote { place, detail })),
            Err(Failure::Pool(error)) => {
                progress.notes.push((pool.order, SourceNote { place, detail: error.to_string() }));
                progress.first_error.get_or_insert(error);
            }
            Err(Failure::Everywhere(error)) => {
                progress.end.get_or_insert(error);
            }
        });
    }

    fn answer(&self) -> Result<Answer, SourceError> {
        let Progress { waiting, mut offers, mut notes, first_error, end } = self.with(std::mem::take);
        if offers.is_empty()
            && let Some(error) = end.or(first_error)
        {
            return Err(error);
        } else if !waiting.is_empty() {
            let detail = format!("{} machine types were not asked for any more", waiting.len());
            notes.push((usize::MAX, SourceNote { place: CLOUD.to_owned(), detail }));
        }
        offers.sort_by_key(|(order, _)| *order);
        notes.sort_by_key(|(order, _)| *order);
        Ok(Answer {
            history: Vec::new(),
            offers: offers.into_iter().map(|(_, offer)| offer).collect(),
            notes: notes.into_iter().map(|(_, note)| note).collect(),
        })
    }
}

enum Failure {
    NoPrice(String),
    Pool(SourceError),
    Everywhere(SourceError),
}

async fn lane(queue: Arc<Queue>) {
    while let Some(pool) = queue.next() {
        let outcome = match tokio::time::timeout(ATTEMPT, history(&queue, &pool)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Everywhere(SourceError::Unreachable {
                place: pool.region.to_string(),
                detail: format!("no answer within {} s", ATTEMPT.as_secs()),
            })),
        };
        queue.record(&pool, outcome);
    }
}

async fn history(queue: &Queue, pool: &Pool) -> Result<Offer, Failure> {
    let scheduling = CapacityHistoryRequestInstancePropertiesScheduling::new().set_provisioning_model(ProvisioningModel::Spot);
    let machine = CapacityHistoryRequestInstanceProperties::new().set_machine_type(pool.machine_type.clone()).set_scheduling(scheduling);
    let request = CapacityHistoryRequest::new().set_instance_properties(machine).set_types([Types::Price]);
    let call = queue.client.capacity_history().set_project(&queue.project).set_region(pool.region.to_string()).set_body(request);
    let answer = call.send().await.map_err(|error| failure(&pool.region, &error))?;
    let records: Vec<Record> = answer.price_history.iter().map(record).collect();
    history::offer(pool.instance, &pool.region, &records, Timestamp::now()).map_err(Failure::NoPrice)
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

fn failure(region: &str, error: &CallError) -> Failure {
    if error.is_authentication() {
        return Failure::Everywhere(SourceError::MissingCredentials { variable: "GOOGLE_APPLICATION_CREDENTIALS" });
    }
    if error.is_deserialization() {
        return Failure::Pool(SourceError::Malformed { field: "answer of Compute Engine".to_owned(), detail: root_cause(error) });
    }
    let Some(status) = error.http_status_code() else {
        return Failure::Everywhere(SourceError::Unreachable { place: region.to_owned(), detail: root_cause(error) });
    };
    let words = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
    let detail = match explanation(status) {
        Some(more) => format!("{} ({more})", one_line(&words)),
        None => one_line(&words),
    };
    let refused = SourceError::Refused { code: format!("HTTP {status}"), detail };
    if reach(status) == Reach::Pool { Failure::Pool(refused) } else { Failure::Everywhere(refused) }
}
