//! `Session`: the account that is asked, its time limits, and a client for each service. Says every error without a secret.

use std::error::Error;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::credential_feature::AwsCredentialFeature as Feature;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::config::{
    Credentials, ProvideCredentials, RuntimeComponents, SharedCredentialsProvider, SharedHttpClient,
};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, Connector};
use tokio::time::Instant;

use crate::account::whole_answers::{BROKEN, WholeAnswers};
use crate::errors::explanation;
use gpuplan_clouds_http::{Dates, one_line, redacted, root_cause};
use gpuplan_market::SourceError;

/// The client of every call, as the SDK's own: proxies of the environment, roots of the system; but with the TLS of the rest of the program.
pub fn https() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let tls = Provider::Rustls(CryptoMode::Ring);
        let mut connector = Connector::builder().tls_provider(tls).proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}

/// How long to wait. A region that hangs must not hold up the others.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    pub connect: Duration,
    /// One request and its answer.
    pub attempt: Duration,
    pub attempts: u32,
    /// One call that rents a machine, and its answer.
    pub rent: Duration,
    /// A whole answer, all its regions and pages together. What was not said by then costs only itself.
    pub answer: Duration,
    /// Finding credentials, which may ask a network address.
    pub credentials: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        // The first question to a region may wait for much that later ones find ready, so one try may take long.
        let (attempt, rent) = (seconds(25), seconds(40));
        Self { connect: seconds(5), attempt, attempts: 2, rent, answer: seconds(55), credentials: seconds(15) }
    }
}

/// Where to find an account. Nothing is read before `sign_in`.
#[derive(Clone)]
pub struct Session {
    /// `None`: as the environment and the files of the AWS tools say, `AWS_ENDPOINT_URL` included.
    config: Option<SdkConfig>,
    limits: TimeLimits,
    dates: Dates,
}

impl Session {
    pub fn from_environment() -> Self {
        Self { config: None, limits: TimeLimits::default(), dates: Dates::default() }
    }

    pub fn with_config(config: SdkConfig, limits: TimeLimits) -> Self {
        Self { config: Some(config), limits, dates: Dates::default() }
    }

    /// A given address with given keys; reads neither environment nor files.
    pub fn at(endpoint: &str, access_key: &str, secret_key: &str, limits: TimeLimits) -> Self {
        let credentials = Credentials::new(access_key, secret_key, None, None, "given");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(endpoint)
            .http_client(https())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Self::with_config(config, limits)
    }

    /// What EC2 says the time is.
    pub fn dates(&self) -> &Dates {
        &self.dates
    }

    /// For a question that may take so long in all, finding the credentials included.
    pub async fn sign_in_for(&self, patience: Duration) -> Result<Account, SourceError> {
        let until = Instant::now() + patience;
        let account = self.sign_in().await?;
        Ok(Account { deadline: account.deadline.min(until), ..account })
    }

    /// Finds the credentials once for all regions: a chain that ends at a network address must not be walked thirty times.
    pub async fn sign_in(&self) -> Result<Account, SourceError> {
        let config = match &self.config {
            Some(config) => config.clone(),
            None => aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load().await,
        };
        let missing = SourceError::MissingCredentials { variable: "AWS_ACCESS_KEY_ID" };
        let Some(provider) = config.credentials_provider() else { return Err(missing) };
        match tokio::time::timeout(self.limits.credentials, provider.provide_credentials()).await {
            Ok(Ok(credentials)) => {
                let (deadline, dates) = (Instant::now() + self.limits.answer, self.dates.clone());
                Ok(Account { config, credentials, limits: self.limits, deadline, dates })
            }
            Ok(Err(CredentialsError::CredentialsNotLoaded(_))) => Err(missing),
            Ok(Err(error)) => Err(SourceError::Refused { code: "credentials".to_owned(), detail: root_cause(&error) }),
            Err(error) => Err(SourceError::Unreachable {
                place: "the source of credentials".to_owned(),
                detail: root_cause(&error),
            }),
        }
    }
}

/// An account whose credentials were found. It has no `Debug`, so that they are never printed.
#[derive(Clone)]
pub struct Account {
    config: SdkConfig,
    credentials: Credentials,
    limits: TimeLimits,
    deadline: Instant,
    dates: Dates,
}

impl Account {
    pub fn ec2(&self, region: &str) -> aws_sdk_ec2::Client {
        let config =
            aws_sdk_ec2::config::Builder::from(&self.config_in(region)).interceptor(WholeAnswers(self.dates.clone()));
        aws_sdk_ec2::Client::from_conf(config.build())
    }

    /// For a call that rents: the caller alone decides what is repeated, and waits longer than for a question.
    pub fn ec2_to_rent(&self, region: &str) -> aws_sdk_ec2::Client {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(self.limits.connect)
            .operation_attempt_timeout(self.limits.rent)
            .build();
        let config =
            aws_sdk_ec2::config::Builder::from(&self.config_in(region)).interceptor(WholeAnswers(self.dates.clone()));
        aws_sdk_ec2::Client::from_conf(config.retry_config(RetryConfig::disabled()).timeout_config(timeouts).build())
    }

    pub fn pricing(&self, region: &str) -> aws_sdk_pricing::Client {
        aws_sdk_pricing::Client::new(&self.config_in(region))
    }

    pub fn service_quotas(&self, region: &str) -> aws_sdk_servicequotas::Client {
        aws_sdk_servicequotas::Client::new(&self.config_in(region))
    }

    pub fn sts(&self, region: &str) -> aws_sdk_sts::Client {
        aws_sdk_sts::Client::new(&self.config_in(region))
    }

    /// Half-way to the deadline, for a part that must not cost the others anything.
    pub fn soon(&self) -> Instant {
        Instant::now() + self.deadline.saturating_duration_since(Instant::now()) / 2
    }

    fn config_in(&self, region: &str) -> SdkConfig {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(self.limits.connect)
            .operation_attempt_timeout(self.limits.attempt)
            .build();
        let config = self.config.to_builder();
        let config = config.region(Region::new(region.to_owned())).timeout_config(timeouts);
        let config = config.credentials_provider(SharedCredentialsProvider::new(self.credentials.clone()));
        config.retry_config(RetryConfig::standard().with_max_attempts(self.limits.attempts)).build()
    }

    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Of a service of which no SDK is linked.
    pub fn address_of(&self, service: &str, region: &str) -> String {
        // IAM is one for all regions (AWS General Reference, "IAM endpoints").
        let own = || match service {
            "iam" => "https://iam.amazonaws.com".to_owned(),
            _ => format!("https://{service}.{region}.amazonaws.com"),
        };
        self.config.endpoint_url().map_or_else(own, str::to_owned)
    }

    /// Region that the environment or a profile names, if any.
    pub fn home_region(&self) -> Option<&str> {
        self.config.region().map(AsRef::as_ref)
    }

    /// Where the credentials came from, in words.
    pub fn found_in(&self) -> &'static str {
        let features = self.credentials.get_property::<Vec<Feature>>().map_or(&[][..], Vec::as_slice);
        let among = |wanted: &[Feature]| wanted.iter().any(|feature| features.contains(feature));
        if among(&[Feature::CredentialsEnvVars, Feature::CredentialsEnvVarsStsWebIdToken]) {
            "environment"
        } else if among(&[Feature::CredentialsProfileSso, Feature::CredentialsSso]) {
            "single sign-on"
        } else if among(&[
            Feature::CredentialsProfile,
            Feature::CredentialsProfileSourceProfile,
            Feature::CredentialsProfileNamedProvider,
        ]) {
            "profile"
        } else if among(&[Feature::CredentialsProcess, Feature::CredentialsProfileProcess]) {
            "credential process"
        } else if among(&[Feature::CredentialsImds]) {
            "metadata of this machine"
        } else if among(&[Feature::CredentialsHttp]) {
            "metadata of this container"
        } else {
            "another place that the AWS tools know"
        }
    }

    /// Gives up a part of the question when the time for the whole answer is over.
    pub async fn in_time<T>(
        &self,
        place: &str,
        part: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        tokio::time::timeout_at(self.deadline, part).await.unwrap_or_else(|_| {
            let detail = "no answer in time".to_owned();
            Err(SourceError::Unreachable { place: place.to_owned(), detail })
        })
    }

    /// What an error of any service means for the caller.
    pub fn error<E>(&self, place: &str, error: &SdkError<E, HttpResponse>) -> SourceError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let malformed = || SourceError::Malformed {
            field: format!("answer of AWS in {place}"),
            detail: self.blanked(&root_cause(error)),
        };
        match error {
            SdkError::ServiceError(refusal) => {
                let status = refusal.raw().status();
                let code = match refusal.err().code() {
                    Some(code) => one_line(&self.blanked(code)),
                    // A success that could not be read; AWS names every refusal of its own, so the rest is somebody between.
                    None if status.is_success() => return malformed(),
                    None => format!("HTTP {}", status.as_u16()),
                };
                let message = refusal.err().message().filter(|message| !message.trim().is_empty());
                let message = message.map_or_else(
                    || format!("without a word, asked about {place}"),
                    |text| one_line(&self.blanked(text)),
                );
                let detail = explanation(&code).map_or_else(|| message.clone(), |more| format!("{message} ({more})"));
                SourceError::Refused { code, detail }
            }
            SdkError::ResponseError(_) => malformed(),
            _ if root_cause(error) == BROKEN => malformed(),
            _ => SourceError::Unreachable { place: place.to_owned(), detail: self.blanked(&root_cause(error)) },
        }
    }

    /// Some refusals repeat the whole signed request.
    fn blanked(&self, text: &str) -> String {
        let secrets = [self.credentials.secret_access_key(), self.credentials.access_key_id()].into_iter();
        let secrets = secrets.chain(self.credentials.session_token());
        redacted(text, secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign_in(config: SdkConfig) -> Result<Account, SourceError> {
        let session = Session::with_config(config, TimeLimits::default());
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(session.sign_in())
    }

    #[test]
    fn without_keys_the_missing_variable_is_named() {
        let nothing = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let error = sign_in(nothing).err().unwrap();
        assert_eq!(error, SourceError::MissingCredentials { variable: "AWS_ACCESS_KEY_ID" });
    }

    #[test]
    fn a_key_that_a_server_repeats_is_blanked() {
        let credentials = Credentials::new("AKIAEXAMPLE", "the-secret", Some("the-token".to_owned()), None, "given");
        let config = SdkConfig::builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build();
        let account = sign_in(config).ok().unwrap();
        let said = account.blanked("credential AKIAEXAMPLE, the-secret and the-token");
        assert_eq!(said, "credential [redacted], [redacted] and [redacted]");
        assert_eq!(account.found_in(), "another place that the AWS tools know");
    }
}
