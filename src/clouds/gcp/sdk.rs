//! What the other files need of Google's SDK: credentials, signed requests, the list of machine types, and its errors.

use std::collections::BTreeMap;
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
use serde::Deserialize;

use crate::CLOUD;
use crate::account::identity;
use crate::account::project::Project;
use crate::encoded::percent_encoded;
use crate::errors::{INVALID_CREDENTIALS, Reach, explained, reach};
use crate::prices::cards::{self, Accelerator};
use crate::prices::pools::Failure;
use crate::prices::zones::{Listing, Zones, last_segment};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_clouds_http::{install_tls, one_line, root_cause};
use gpuplan_market::{SourceError, SourceNote};

/// One call and its answer.
const ATTEMPT: Duration = Duration::from_secs(15);
/// Machine series with GPUs, those to come included: A and G with a number and at most a letter, as Google's filters write a regular
/// expression over the whole name; and N1, to which cards are attached.
const GPU_SERIES: &str = r#"name eq "(a|g)[0-9]+[a-z]?-.*|n1-standard-[0-9]+""#;
/// The cards that N1 takes and that a catalog has.
const CARDS: &str = r#"name eq "nvidia-tesla-(t4|v100|p100)""#;
const COMPUTE: &str = "https://compute.googleapis.com";
/// Some 130 zones with three kinds of cards at most make one page; an answer that goes on and on is broken.
const MOST_PAGES: usize = 20;

/// Where the project's clients ask, and as whom.
pub fn access(project: &Project) -> Result<Access, SourceError> {
    install_tls();
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
    let listed = listings(project, patience).await?;
    Ok(Zones::new(listed.machines, listed.unreachable))
}

/// What Compute Engine lists.
pub struct Listed {
    /// Every machine type with GPUs in every zone, those of N1 with the cards that are attached.
    pub machines: Vec<Listing>,
    /// Zones that did not say.
    pub unreachable: Vec<String>,
    /// Why the machines of N1 are not known, where they are not.
    pub note: Option<SourceNote>,
}

/// Every machine with GPUs in every zone. That cards are not told costs the machines of N1 alone.
pub async fn listings(project: &Project, patience: Duration) -> Result<Listed, SourceError> {
    let late = |place: &str| SourceError::Unreachable {
        place: place.to_owned(),
        detail: format!("no answer within {} s", patience.as_secs()),
    };
    let machines = tokio::time::timeout(patience, machine_types(project));
    let cards = tokio::time::timeout(patience, accelerators(project));
    let (machines, cards) = tokio::join!(machines, cards);
    let (mut machines, unreachable) = machines.map_err(|_| late("machine types"))??;
    let (attached, note) = match cards.unwrap_or_else(|_| Err(late("accelerator types"))) {
        Ok(cards) => (cards::compose(&machines, &cards), None),
        Err(error) => {
            let detail = format!("which cards can be attached to N1 is not known ({error}); its machines are left out");
            (Vec::new(), Some(SourceNote { place: CLOUD.to_owned(), detail }))
        }
    };
    machines.retain(|machine| machine.accelerator.is_some() || !machine.machine_type.starts_with("n1-"));
    machines.extend(attached);
    Ok(Listed { machines, unreachable, note })
}

/// Every machine type of the series above, and the zones that did not say.
async fn machine_types(project: &Project) -> Result<(Vec<Listing>, Vec<String>), SourceError> {
    let client = access(project)?.machine_types().await.map_err(|error| not_built(&error))?;
    let list = client.aggregated_list().set_project(project.id()?).set_filter(GPU_SERIES);
    let (mut listings, mut unreachable) = (Vec::new(), Vec::new());
    let mut pages = list.by_page();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| refusal("machine types", "compute.machineTypes.list", &error))?;
        unreachable.extend(page.unreachables);
        listings.extend(page.items.into_values().flat_map(|scope| scope.machine_types).filter_map(listing));
    }
    Ok((listings, unreachable))
}

/// `acceleratorTypes.aggregatedList`, as far as it is read. Asked without the SDK: its client of accelerator types would be compiled for
/// this call alone.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AcceleratorPage {
    items: BTreeMap<String, AcceleratorScope>,
    next_page_token: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AcceleratorScope {
    accelerator_types: Vec<AcceleratorType>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AcceleratorType {
    name: String,
    zone: String,
    maximum_cards_per_instance: u32,
    deprecated: Option<Deprecation>,
}

#[derive(Deserialize)]
struct Deprecation {
    state: Option<String>,
}

/// The cards of N1 in every zone.
async fn accelerators(project: &Project) -> Result<Vec<Accelerator>, SourceError> {
    let (http, address) = (Http::new()?, project.address(COMPUTE));
    let url = format!("{address}/compute/v1/projects/{}/aggregated/acceleratorTypes", project.id()?);
    let filter = percent_encoded(CARDS);
    let (mut all, mut token) = (Vec::new(), String::new());
    for _ in 0..MOST_PAGES {
        let further = if token.is_empty() { String::new() } else { format!("&pageToken={}", percent_encoded(&token)) };
        let request = signed(project, Request::get(format!("{url}?filter={filter}{further}"))).await?;
        let page = http.json::<AcceleratorPage>(&request).await?.value;
        let types = page.items.into_values().flat_map(|scope| scope.accelerator_types);
        let is_sold = |one: &AcceleratorType| {
            one.deprecated.as_ref().and_then(|status| status.state.as_deref()).is_none_or(|state| state == "ACTIVE")
        };
        all.extend(types.filter(is_sold).map(|one| Accelerator {
            zone: last_segment(&one.zone).to_owned(),
            name: one.name,
            most: one.maximum_cards_per_instance,
        }));
        token = page.next_page_token;
        if token.is_empty() {
            return Ok(all);
        }
    }
    Err(SourceError::Malformed { field: "nextPageToken".to_owned(), detail: format!("{MOST_PAGES} pages and no end") })
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
