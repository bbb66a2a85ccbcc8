//! Adapters: one folder a cloud, each implementing the ports that the stages own. No stage imports this one; `cli` wires it in.

pub mod akamai;
pub mod ask;
pub mod azure;
pub mod client;
pub mod crusoe;
pub mod digitalocean;
pub mod euro;
pub mod fake;
pub mod hyperstack;
pub mod jarvis_labs;
pub mod kubernetes;
pub mod lambda;
pub mod listing;
pub mod mail;
pub mod nebius;
pub mod notices;
pub mod oci;
pub mod price;
pub mod reader;
pub mod runpod;
pub mod scaleway;
pub mod skypilot;
pub mod slurm;
pub mod vast;
pub mod verda;
pub mod vultr;
pub mod webhook;

pub use ask::ask;
pub use gpuplan_clouds_aws as aws;
pub use gpuplan_clouds_gcp as gcp;
pub use gpuplan_clouds_http as http;
pub use gpuplan_market::Sources;

use std::sync::Arc;

use gpuplan_hardware::CloudId;
use gpuplan_launch::{Engine, Launcher};
use gpuplan_market::{MachineSource, PriceSource};
use gpuplan_runstore::store::KeySource;

/// The registry: one line a cloud. `None` where nobody has written an adapter.
pub fn sources(cloud: &CloudId) -> Option<Sources> {
    Some(match cloud.as_str() {
        aws::CLOUD => aws::sources(),
        azure::CLOUD => Sources {
            risks: vec![Box::new(azure::eviction_rates::EvictionRates::from_environment())],
            tried: azure::sign_in::tried(),
            ..both_of(azure::retail_prices::RetailPrices::from_environment)
        },
        gcp::CLOUD => gcp::sources(),
        akamai::CLOUD => both_of(akamai::linode::Linode::from_environment),
        hyperstack::CLOUD => both_of(hyperstack::Hyperstack::from_environment),
        jarvis_labs::CLOUD => both_of(jarvis_labs::Servers::from_environment),
        lambda::CLOUD => both_of(lambda::instance_types::InstanceTypes::from_environment),
        crusoe::CLOUD | nebius::CLOUD => Sources::default(),
        digitalocean::CLOUD => both_of(digitalocean::droplet_sizes::DropletSizes::from_environment),
        oci::CLOUD => both_of(oci::cost_estimator::CostEstimator::from_environment),
        scaleway::CLOUD => both_of(scaleway::instances::Instances::from_environment),
        runpod::CLOUD => both_of(runpod::gpu_types::GpuTypes::from_environment),
        vast::CLOUD => both_of(vast::machines::Machines::from_environment),
        verda::CLOUD => both_of(verda::instance_types::InstanceTypes::from_environment),
        vultr::CLOUD => both_of(vultr::gpu_plans::GpuPlans::from_environment),
        _ => return None,
    })
}

/// A list that says which machines there are and what they cost.
fn both_of<T: MachineSource + PriceSource + 'static>(source: fn() -> T) -> Sources {
    Sources { machines: vec![Box::new(source())], prices: vec![Box::new(source())], ..Sources::default() }
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
    clouds.extend(gcp::account::identity::is_in_sight().then_some(gcp::CLOUD));
    clouds
}

/// Region and keys for a store of S3, where the AWS tools know an account.
#[cfg(feature = "aws")]
pub async fn store_keys() -> Option<(String, Arc<dyn KeySource>)> {
    let keys = aws::account::keys::SharedKeys::new();
    Some((keys.region().await?, keys))
}

/// Without the AWS tools' own library the store's client finds keys in the environment.
#[cfg(not(feature = "aws"))]
pub async fn store_keys() -> Option<(String, Arc<dyn KeySource>)> {
    std::future::ready(None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_without_an_adapter_is_said_to_have_none() {
        assert!(sources(&CloudId::new("nowhere")).is_none());
        let clouds = ["aws", "gcp", "azure", "lambda", "runpod", "vast", "verda", "nebius", "oci", "crusoe"];
        for cloud in
            clouds.into_iter().chain(["akamai", "digitalocean", "hyperstack", "jarvis-labs", "scaleway", "vultr"])
        {
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
}
