//! In the place of `sdk.rs` in a build without Google's SDK: an API key is then the only way to be answered.

use std::time::Duration;

use crate::account::project::Project;
use crate::prices::zones::Zones;
use gpuplan_clouds_http::Request;
use gpuplan_market::SourceError;

const KEY: SourceError = SourceError::MissingCredentials { variable: "GPUPLAN_GCP_API_KEY" };

#[expect(clippy::unused_async, reason = "the same words as with the SDK")]
pub async fn signed(project: &Project, request: Request) -> Result<Request, SourceError> {
    if project.is_stand_in() { Ok(request) } else { Err(KEY) }
}

#[expect(clippy::unused_async, reason = "the same words as with the SDK")]
pub async fn zones(_: &Project, _: Duration) -> Result<Zones, SourceError> {
    let detail = "this build has no SDK; build with the feature `gcp`".to_owned();
    Err(SourceError::Unreachable { place: "machine types".to_owned(), detail })
}
