//! The clients of Google Compute Engine that gpuplan asks, built here and nowhere else.
//!
//! Why a package of its own: to build a client is to make a table of all its calls, and the futures of those calls are compiled
//! by the crate that builds it. Most are never made, yet they were a sixth of gpuplan's own code, optimised, and compiled
//! once more for its tests. Here they are compiled once and without optimising (`Cargo.toml` of gpuplan).

#![cfg(feature = "gcp")]

use std::pin::Pin;
use std::time::Duration;

use google_cloud_auth::credentials::Credentials;
use google_cloud_compute_v1::client::{Advice, Instances, MachineTypes, Projects, Regions, ZoneOperations};
use google_cloud_gax::client_builder::{ClientBuilder, Error};
use google_cloud_gax::retry_policy::NeverRetry;

/// A client in the making. Boxed here, so that its future is compiled here.
pub type Build<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Where and as whom to ask. No call is repeated: what may be, only the caller knows.
#[derive(Clone, Debug)]
pub struct Access {
    pub credentials: Credentials,
    /// `None`: Google's own.
    pub endpoint: Option<String>,
    /// Longest time of one call.
    pub attempt: Duration,
}

impl Access {
    fn configured<F>(self, builder: ClientBuilder<F, Credentials>) -> ClientBuilder<F, Credentials> {
        let builder =
            builder.with_attempt_timeout(self.attempt).with_retry_policy(NeverRetry).with_credentials(self.credentials);
        match self.endpoint {
            Some(endpoint) => builder.with_endpoint(endpoint),
            None => builder,
        }
    }

    pub fn advice(self) -> Build<Advice> {
        Box::pin(self.configured(Advice::builder()).build())
    }

    pub fn instances(self) -> Build<Instances> {
        Box::pin(self.configured(Instances::builder()).build())
    }

    pub fn machine_types(self) -> Build<MachineTypes> {
        Box::pin(self.configured(MachineTypes::builder()).build())
    }

    pub fn projects(self) -> Build<Projects> {
        Box::pin(self.configured(Projects::builder()).build())
    }

    pub fn regions(self) -> Build<Regions> {
        Box::pin(self.configured(Regions::builder()).build())
    }

    pub fn zone_operations(self) -> Build<ZoneOperations> {
        Box::pin(self.configured(ZoneOperations::builder()).build())
    }
}
