//! Adapters: one folder a cloud, each implementing the ports that the stages own. No stage imports this one; `cli` wires it in.

pub mod ask;
pub mod aws;
pub mod azure;
pub mod client;
pub mod crusoe;
pub mod fake;
pub mod gcp;
pub mod http;
pub mod kubernetes;
pub mod lambda;
pub mod listing;
pub mod metadata;
pub mod nebius;
pub mod notices;
pub mod oci;
pub mod price;
pub mod runpod;
pub mod skypilot;
pub mod slurm;
pub mod vast;
pub mod verda;
pub mod webhook;

pub use ask::ask;

use std::error::Error;
use std::sync::Arc;

use crate::hardware::CloudId;
use crate::launch::{Engine, Launcher};
use crate::market::{AccountSource, PriceSource, RiskSource};
use crate::runstore::store::KeySource;

/// Everything that can be asked of one cloud, as the environment names its addresses and credentials.
#[derive(Default)]
pub struct Sources {
    pub prices: Vec<Box<dyn PriceSource>>,
    pub risks: Vec<Box<dyn RiskSource>>,
    pub account: Option<Box<dyn AccountSource>>,
    /// The feature without which this binary cannot ask the cloud's account.
    pub needs_feature: Option<&'static str>,
}

/// The registry: one line a cloud. `None` where nobody has written an adapter.
pub fn sources(cloud: &CloudId) -> Option<Sources> {
    Some(match cloud.as_str() {
        aws::CLOUD => aws::sources(),
        azure::CLOUD => azure::sources(),
        crusoe::CLOUD => crusoe::sources(),
        gcp::CLOUD => gcp::sources(),
        lambda::CLOUD => lambda::sources(),
        nebius::CLOUD => nebius::sources(),
        oci::CLOUD => oci::sources(),
        runpod::CLOUD => runpod::sources(),
        vast::CLOUD => vast::sources(),
        verda::CLOUD => verda::sources(),
        _ => return None,
    })
}

/// Clouds whose machines this program rents.
pub const LAUNCHERS: [&str; 3] = [aws::CLOUD, gcp::CLOUD, fake::CLOUD];

/// Rents at a cloud. `None` where nobody has written that, or where it is not built in.
pub fn launcher(cloud: &str) -> Option<Box<dyn Launcher>> {
    match cloud {
        #[cfg(feature = "aws")]
        aws::CLOUD => Some(Box::new(aws::launcher::AwsLauncher::from_environment())),
        #[cfg(feature = "gcp")]
        gcp::CLOUD => Some(Box::new(gcp::launcher::GcpLauncher::from_environment())),
        _ => None,
    }
}

/// Engines that runs are handed to.
pub const ENGINES: [&str; 3] = [slurm::ENGINE, kubernetes::ENGINE, skypilot::ENGINE];

/// An engine by its name, with the clients of this machine.
pub fn engine(name: &str) -> Option<Box<dyn Engine>> {
    match name {
        slurm::ENGINE => Some(Box::new(slurm::Slurm::new(None))),
        kubernetes::ENGINE => Some(Box::new(kubernetes::Kubernetes::new(None))),
        skypilot::ENGINE => Some(Box::new(skypilot::Skypilot::new(None))),
        _ => None,
    }
}

/// Clouds that rent, and of which an account is in sight. The one on this machine always is.
pub fn with_account() -> Vec<&'static str> {
    let mut clouds = vec![fake::CLOUD];
    clouds.extend(aws::has_account().then_some(aws::CLOUD));
    clouds.extend(gcp::identity::is_in_sight().then_some(gcp::CLOUD));
    clouds
}

/// Region and keys for a store of S3, where the AWS tools know an account.
#[cfg(feature = "aws")]
pub async fn store_keys() -> Option<(String, Arc<dyn KeySource>)> {
    let keys = aws::keys::SharedKeys::new();
    Some((keys.region().await?, keys))
}

/// Without the AWS tools' own library the store's client finds keys in the environment.
#[cfg(not(feature = "aws"))]
pub async fn store_keys() -> Option<(String, Arc<dyn KeySource>)> {
    std::future::ready(None).await
}

/// A variable of the environment; empty is the same as not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Address of an interface: what the variable says, else the cloud's own. Without a slash at the end.
pub fn endpoint(name: &str, base: &str) -> String {
    variable(name).as_deref().unwrap_or(base).trim_end_matches('/').to_owned()
}

/// Host of an address is this machine's own.
pub fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Longest text of a cloud's own words that goes into an error.
const LONGEST_DETAIL: usize = 240;

/// The innermost cause, which is what a person can act on: the outer ones say only that a request failed.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string())
}

/// A cloud's words on one line and of bounded length.
pub fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_DETAIL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_cloud_stay_short_and_on_one_line() {
        assert_eq!(one_line("a\n  b\tc "), "a b c");
        assert_eq!(one_line(&"ä".repeat(1000)).chars().count(), LONGEST_DETAIL + 1);
        let outer = std::io::Error::other(std::io::Error::other("connection\nrefused"));
        assert_eq!(root_cause(&outer), "connection refused");
    }

    #[test]
    fn a_cloud_without_an_adapter_is_said_to_have_none() {
        assert!(sources(&CloudId::new("nowhere")).is_none());
        for cloud in ["aws", "gcp", "azure", "lambda", "runpod", "vast", "verda", "nebius", "oci", "crusoe"] {
            let sources = sources(&CloudId::new(cloud)).unwrap();
            assert!(
                sources
                    .prices
                    .iter()
                    .all(|source| source.about().cloud == cloud && source.about().id.starts_with(cloud))
            );
            assert!(
                sources
                    .risks
                    .iter()
                    .all(|source| source.about().cloud == cloud && source.about().id.starts_with(cloud))
            );
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for endpoint in ["http://127.0.0.1:5000", "http://localhost/x", "http://[::1]:80/", "127.1.2.3:9"] {
            assert!(is_loopback(endpoint), "{endpoint}");
        }
        for endpoint in ["https://compute.googleapis.com", "http://localhost.example.com", "http://10.0.0.1", ""] {
            assert!(!is_loopback(endpoint), "{endpoint}");
        }
    }
}
