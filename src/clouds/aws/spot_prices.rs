//! `SpotPrices`: asks EC2 in every region at once for the spot price in force now.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region as RegionName, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::config::{Credentials, ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{InstanceType, SpotPrice};
use jiff::Timestamp;

use crate::clouds::aws::CLOUD;
use crate::clouds::aws::errors::{Reach, explanation, reach};
use crate::clouds::aws::spot::{self, Region, Row};
use crate::clouds::{one_line, root_cause};
use crate::hardware::{CloudId, InstanceId};
use crate::market::{Access, Answer, BoxFuture, Offer, OfferQuery, PriceSource, SourceError, SourceNote};

/// Both are asked for: accounts of before 2014 have the first, all others the second.
const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// How long to wait. A region that hangs must not hold up the others.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    pub connect: Duration,
    /// One request and its answer.
    pub attempt: Duration,
    pub attempts: u32,
    /// All pages of one region together.
    pub region: Duration,
    /// Finding credentials, which may ask a network address.
    pub credentials: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), attempt: seconds(15), attempts: 2, region: seconds(40), credentials: seconds(15) }
    }
}

/// EC2's spot price history, read with the account's own credentials.
pub struct SpotPrices {
    /// `None`: as the environment and the files of the AWS tools say, `AWS_ENDPOINT_URL` included.
    config: Option<SdkConfig>,
    limits: TimeLimits,
}

impl SpotPrices {
    pub fn from_environment() -> Self {
        Self { config: None, limits: TimeLimits::default() }
    }

    pub fn with_config(config: SdkConfig, limits: TimeLimits) -> Self {
        Self { config: Some(config), limits }
    }

    /// A given address with given keys; reads neither environment nor files.
    pub fn at(endpoint: &str, access_key: &str, secret_key: &str, limits: TimeLimits) -> Self {
        let credentials = Credentials::new(access_key, secret_key, None, None, "given");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(endpoint)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Self::with_config(config, limits)
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<Answer, SourceError> {
        let config = match &self.config {
            Some(config) => config.clone(),
            None => aws_config::defaults(BehaviorVersion::latest()).load().await,
        };
        let credentials = self.credentials(&config).await?;
        let regions: Vec<_> = query
            .wanted
            .iter()
            .map(|(region, instances)| {
                let names = instances.iter().map(|id| (query.hardware.instance(*id).name.clone(), *id)).collect();
                let client = self.client(&config, &credentials, region);
                (region.clone(), tokio::spawn(ask_region(client, region.clone(), names, self.limits.region)))
            })
            .collect();
        let mut answer = Answer::default();
        let mut first_error = None;
        for (region, task) in regions {
            let outcome = task.await.map_err(|error| unreachable(&region, &error)).flatten();
            match outcome {
                Ok((offers, notes)) => {
                    answer.offers.extend(offers);
                    answer.notes.extend(notes);
                }
                Err(SourceError::Refused { code, detail }) if reach(&code) == Reach::Everywhere => {
                    return Err(SourceError::Refused { code, detail });
                }
                Err(error) => {
                    answer.notes.push(SourceNote { place: region.to_string(), detail: error.to_string() });
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) if answer.offers.is_empty() => Err(error),
            _ => Ok(answer),
        }
    }

    /// Once for all regions: a chain that ends at a network address must not be walked thirty times.
    async fn credentials(&self, config: &SdkConfig) -> Result<Credentials, SourceError> {
        let missing = SourceError::MissingCredentials { variable: "AWS_ACCESS_KEY_ID" };
        let Some(provider) = config.credentials_provider() else { return Err(missing) };
        match tokio::time::timeout(self.limits.credentials, provider.provide_credentials()).await {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(CredentialsError::CredentialsNotLoaded(_))) => Err(missing),
            Ok(Err(error)) => Err(SourceError::Refused { code: "credentials".to_owned(), detail: root_cause(&error) }),
            Err(error) => Err(unreachable("the source of credentials", &error)),
        }
    }

    fn client(&self, config: &SdkConfig, credentials: &Credentials, region: &str) -> Client {
        let timeouts = TimeoutConfig::builder().connect_timeout(self.limits.connect).operation_attempt_timeout(self.limits.attempt).build();
        let config = aws_sdk_ec2::config::Builder::from(config)
            .region(RegionName::new(region.to_owned()))
            .credentials_provider(credentials.clone())
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(self.limits.attempts));
        Client::from_conf(config.build())
    }
}

impl PriceSource for SpotPrices {
    fn id(&self) -> &'static str {
        spot::SOURCE
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

type RegionAnswer = Result<(Vec<Offer>, Vec<SourceNote>), SourceError>;

async fn ask_region(client: Client, region: Arc<str>, instances: HashMap<String, InstanceId>, limit: Duration) -> RegionAnswer {
    let asked = async {
        let rows = history(&client, &region, instances.keys()).await?;
        let answered_at = Timestamp::now();
        let (zone_ids, note) = zone_ids(&client, &region, &rows).await;
        let (offers, mut notes) = Region { name: &region, zone_ids: &zone_ids, instances: &instances, answered_at }.offers(&rows);
        notes.extend(note);
        Ok((offers, notes))
    };
    match tokio::time::timeout(limit, asked).await {
        Ok(outcome) => outcome,
        Err(_) => {
            Err(SourceError::Unreachable { place: region.to_string(), detail: format!("no answer within {} s", limit.as_secs_f64()) })
        }
    }
}

/// From now on means the price in force now, once for each pool and product.
async fn history(client: &Client, region: &str, types: impl Iterator<Item = &String>) -> Result<Vec<Row>, SourceError> {
    let mut pages = client
        .describe_spot_price_history()
        .start_time(SystemTime::now().into())
        .set_instance_types(Some(types.map(|name| InstanceType::from(name.as_str())).collect()))
        .set_product_descriptions(Some(PRODUCTS.map(str::to_owned).to_vec()))
        .into_paginator()
        .send();
    let mut rows = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| price_error(region, &error))?;
        rows.extend(page.spot_price_history().iter().map(row));
    }
    Ok(rows)
}

fn row(price: &SpotPrice) -> Row {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    Row {
        instance_type: text(price.instance_type().map(InstanceType::as_str)),
        zone_name: text(price.availability_zone()),
        zone_id: price.availability_zone_id().filter(|id| !id.is_empty()).map(str::to_owned),
        price: text(price.spot_price()),
        since: price.timestamp().and_then(|time| Timestamp::new(time.secs(), 0).ok()),
    }
}

/// Ids of the zones, asked for only where a row does not name its own. Without them rows are dropped, not misplaced.
async fn zone_ids(client: &Client, region: &str, rows: &[Row]) -> (HashMap<String, String>, Option<SourceNote>) {
    if rows.iter().all(|row| row.zone_id.is_some()) {
        return (HashMap::new(), None);
    }
    match client.describe_availability_zones().all_availability_zones(true).send().await {
        Ok(answer) => {
            let ids = answer.availability_zones().iter();
            (ids.filter_map(|zone| Some((zone.zone_name()?.to_owned(), zone.zone_id()?.to_owned()))).collect(), None)
        }
        Err(error) => {
            let detail = format!("no zone ids: {}", price_error(region, &error));
            (HashMap::new(), Some(SourceNote { place: region.to_owned(), detail }))
        }
    }
}

fn price_error<E: ProvideErrorMetadata + Error + 'static>(region: &str, error: &SdkError<E, HttpResponse>) -> SourceError {
    match error {
        SdkError::ServiceError(refusal) => {
            let status = refusal.raw().status();
            let code = match refusal.err().code() {
                Some(code) => code.to_owned(),
                // A success that could not be read; EC2 names every refusal of its own, so the rest is somebody between.
                None if status.is_success() => {
                    return SourceError::Malformed { field: "answer of EC2".to_owned(), detail: root_cause(error) };
                }
                None => format!("HTTP {}", status.as_u16()),
            };
            let message = one_line(refusal.err().message().unwrap_or_default());
            let detail = explanation(&code).map_or_else(|| message.clone(), |more| format!("{message} ({more})"));
            SourceError::Refused { code, detail }
        }
        SdkError::ResponseError(_) => SourceError::Malformed { field: "answer of EC2".to_owned(), detail: root_cause(error) },
        _ => unreachable(region, error),
    }
}

fn unreachable(place: &str, error: &(dyn Error + 'static)) -> SourceError {
    SourceError::Unreachable { place: place.to_owned(), detail: root_cause(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::ask;
    use crate::hardware::Hardware;

    #[test]
    fn without_keys_the_missing_variable_is_named() {
        let hardware = Hardware::default();
        let nothing = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let source = SpotPrices::with_config(nothing, TimeLimits::default());
        let answer =
            ask(&[(&source, OfferQuery { hardware: &hardware, wanted: std::collections::BTreeMap::default() })]).unwrap().remove(0);
        assert_eq!(answer.unwrap_err(), SourceError::MissingCredentials { variable: "AWS_ACCESS_KEY_ID" });
    }
}
