//! Keys for the store, found as the AWS tools find them: profiles, single sign-on and roles, which the store's own client does
//! not know.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_ec2::config::{Credentials, ProvideCredentials};
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, OnceCell};

use crate::account::session::https;
use gpuplan_clouds_http::root_cause;
use gpuplan_runstore::store::{KeySource, Keys};

/// Before their end keys are found anew, so that no request is signed with ones that end on the way.
const MARGIN: Duration = Duration::from_mins(5);
/// Keys that say no end, such as those of a user, are looked for again all the same: they may have been replaced.
const WITHOUT_END: Duration = Duration::from_mins(15);

/// Reads the environment and the files of the AWS tools, and keeps keys until they end.
#[derive(Debug, Default)]
pub struct SharedKeys {
    config: OnceCell<SdkConfig>,
    found: Mutex<Option<(SystemTime, Credentials)>>,
}

impl SharedKeys {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    async fn config(&self) -> &SdkConfig {
        self.config.get_or_init(|| aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load()).await
    }

    async fn current(&self) -> Result<Credentials, String> {
        let mut kept = self.found.lock().await;
        if let Some((_, keys)) = kept.as_ref().filter(|(until, _)| SystemTime::now() < *until) {
            return Ok(keys.clone());
        }
        let provider = self.config().await.credentials_provider().ok_or("there is no AWS account in sight")?;
        let keys = provider.provide_credentials().await.map_err(|error| root_cause(&error))?;
        let until = keys.expiry().map_or_else(|| SystemTime::now() + WITHOUT_END, |end| end - MARGIN);
        *kept = Some((until, keys.clone()));
        Ok(keys)
    }

    /// Region that the environment or a profile names, if any.
    pub async fn region(&self) -> Option<String> {
        self.config().await.region().map(ToString::to_string)
    }
}

impl KeySource for SharedKeys {
    fn keys(&self) -> BoxFuture<'_, Result<Keys, String>> {
        Box::pin(async move {
            let found = self.current().await?;
            Ok(Keys {
                id: found.access_key_id().to_owned(),
                secret: found.secret_access_key().to_owned(),
                token: found.session_token().map(str::to_owned),
            })
        })
    }
}
