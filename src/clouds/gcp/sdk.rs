//! What the other files need of Google's SDK: credentials, signed requests, the list of machine types, and its errors.

use std::error::Error;
use std::time::Duration;

use google_cloud_auth::credentials::{self, CacheableResource, Credentials, anonymous};
use google_cloud_compute_v1::Error as CallError;
use google_cloud_compute_v1::model::MachineType;
use google_cloud_compute_v1::model::deprecation_status::State;
use google_cloud_compute_v1::model::machine_type::Architecture;
use google_cloud_gax::client_builder::Error as BuildError;
use google_cloud_gax::error::CredentialsError;
use google_cloud_gax::paginator::Paginator;
use gpuplan_clouds_gcp_clients::Access;

use crate::account::identity;
use crate::account::project::Project;
use crate::errors::{INVALID_CREDENTIALS, Reach, explained, reach};
use crate::prices::pools::Failure;
use crate::prices::zones::{Listing, Zones, last_segment};
use gpuplan_clouds_http::Request;
use gpuplan_clouds_http::{one_line, root_cause};
use gpuplan_market::SourceError;

/// One call and its answer.
const ATTEMPT: Duration = Duration::from_secs(15);
/// Machine series with GPUs, those to come included: A and G with a number and at most a letter, as Google's filters write a regular
/// expression over the whole name.
const GPU_SERIES: &str = r#"name eq "(a|g)[0-9]+[a-z]?-.*""#;

/// Where the project's clients ask, and as whom.
pub fn access(project: &Project) -> Result<Access, SourceError> {
    Ok(Access { credentials: credentials(project)?, endpoint: project.endpoint().map(str::to_owned), attempt: ATTEMPT })
}

pub fn not_built(error: &BuildError) -> SourceError {
    SourceError::Unreachable { place: "Compute Engine".to_owned(), detail: root_cause(error) }
}

/// Nobody's for a stand-in on this machine.
fn credentials(project: &Project) -> Result<Credentials, SourceError> {
    if project.is_stand_in() {
        return Ok(anonymous::Builder::new().build());
    }
    project.may_have_keys()?;
    credentials::Builder::default().build().map_err(|error| no_token(root_cause(&error), false))
}

/// Why there is no access token: nobody has signed in here, or the account that has gets none.
fn no_token(detail: String, is_transient: bool) -> SourceError {
    if !identity::is_in_sight() {
        return SourceError::MissingCredentials { variable: "GOOGLE_APPLICATION_CREDENTIALS" };
    }
    if is_transient {
        return SourceError::Unreachable { place: "Google's token service".to_owned(), detail };
    }
    let detail = format!("{detail} (sign in with `gcloud auth application-default login`)");
    SourceError::Refused { code: INVALID_CREDENTIALS.to_owned(), detail }
}

fn refused_token(error: &CredentialsError) -> SourceError {
    no_token(one_line(&error.to_string()), error.is_transient())
}

/// Of a call that was not made for want of an access token.
pub fn unauthenticated(error: &CallError) -> SourceError {
    let token = error.source().and_then(|source| source.downcast_ref::<CredentialsError>());
    token.map_or_else(|| no_token(root_cause(error), false), refused_token)
}

/// The request with the application default credentials, and the project that pays for the question where they name one.
pub async fn signed(project: &Project, request: Request) -> Result<Request, SourceError> {
    if project.is_stand_in() {
        return Ok(request);
    }
    #[expect(clippy::default_trait_access, reason = "the type is of a crate that is no dependency of this one")]
    let headers = credentials(project)?.headers(Default::default()).await.map_err(|error| refused_token(&error))?;
    let empty = || no_token("they hold no access token".to_owned(), false);
    let CacheableResource::New { data: headers, .. } = headers else { return Err(empty()) };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let request = request.secret("authorization", text("authorization").ok_or_else(empty)?, "");
    Ok(match text("x-goog-user-project") {
        Some(payer) => request.header("x-goog-user-project", payer),
        None => request,
    })
}

/// Which zones list which machine types with GPUs.
pub async fn zones(project: &Project, patience: Duration) -> Result<Zones, SourceError> {
    let (listings, unreachable) = listings(project, patience).await?;
    Ok(Zones::new(listings, unreachable))
}

/// Every machine type with GPUs in every zone, and the zones that did not say.
pub async fn listings(project: &Project, patience: Duration) -> Result<(Vec<Listing>, Vec<String>), SourceError> {
    let client = access(project)?.machine_types().await.map_err(|error| not_built(&error))?;
    let list = client.aggregated_list().set_project(project.id()?).set_filter(GPU_SERIES);
    let (mut listings, mut unreachable) = (Vec::new(), Vec::new());
    let read = async {
        let mut pages = list.by_page();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| refusal("machine types", "compute.machineTypes.list", &error))?;
            unreachable.extend(page.unreachables);
            listings.extend(page.items.into_values().flat_map(|scope| scope.machine_types).filter_map(listing));
        }
        Ok(())
    };
    let late = |_| SourceError::Unreachable {
        place: "machine types".to_owned(),
        detail: format!("no answer within {} s", patience.as_secs()),
    };
    tokio::time::timeout(patience, read).await.map_err(late)??;
    Ok((listings, unreachable))
}

fn listing(machine: MachineType) -> Option<Listing> {
    let is_deprecated = machine.deprecated.and_then(|status| status.state).is_some_and(|state| state != State::Active);
    let accelerator = machine.accelerators.into_iter().next().and_then(|gpus| {
        let kind = last_segment(&gpus.guest_accelerator_type?).to_owned();
        Some((kind, u32::try_from(gpus.guest_accelerator_count?).ok()?))
    });
    Some(Listing {
        zone: last_segment(&machine.zone?).to_owned(),
        machine_type: machine.name?,
        is_deprecated,
        accelerator,
        vcpus: machine.guest_cpus.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
        memory_mib: f64::from(machine.memory_mb.unwrap_or_default()),
        ssd_partitions: machine.bundled_local_ssds.and_then(|ssds| u32::try_from(ssds.partition_count?).ok()),
        architecture: match machine.architecture {
            Some(Architecture::Arm64) => "arm64".to_owned(),
            _ => "x86_64".to_owned(),
        },
    })
}

/// A call's error for what asks once.
pub fn refusal(place: &str, permission: &str, error: &CallError) -> SourceError {
    match failure(place, permission, error) {
        Failure::Pool(error) | Failure::Everywhere(error) => error,
        Failure::Nothing(detail) => SourceError::Malformed { field: place.to_owned(), detail },
    }
}

/// A call's error for what asks for many pools.
pub fn failure(place: &str, permission: &str, error: &CallError) -> Failure {
    if error.is_authentication() {
        return Failure::Everywhere(unauthenticated(error));
    }
    if error.is_deserialization() {
        return Failure::Pool(SourceError::Malformed {
            field: "answer of Compute Engine".to_owned(),
            detail: root_cause(error),
        });
    }
    let Some(status) = error.http_status_code() else {
        return Failure::Everywhere(SourceError::Unreachable { place: place.to_owned(), detail: root_cause(error) });
    };
    let words = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
    let refused = SourceError::Refused {
        code: format!("HTTP {status}"),
        detail: explained(status, &one_line(&words), permission),
    };
    if reach(status) == Reach::Pool { Failure::Pool(refused) } else { Failure::Everywhere(refused) }
}
