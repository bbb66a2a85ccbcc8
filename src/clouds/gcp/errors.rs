//! Error codes of Google's interfaces: what each means for a question, and for a machine that was ordered. Pure.

use std::collections::BTreeMap;

use gpuplan_launch::{LaunchError, Reach as Missed};

/// What a refusal means for the rest of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No pool will answer these credentials or this project.
    Everywhere,
    /// This machine type in this region only: it is not sold there, or the service is busy.
    Pool,
    /// A status this table does not know. It stops the question and is shown as it came.
    Unknown,
}

/// Code of a refusal by Google's token service: the account that signed in here gets no access token.
pub const INVALID_CREDENTIALS: &str = "invalid credentials";

pub fn reach(status: u16) -> Reach {
    match status {
        401 | 403 => Reach::Everywhere,
        400 | 404 | 408 | 412 | 429 | 500..=599 => Reach::Pool,
        _ => Reach::Unknown,
    }
}

/// The cloud's own words, and what to do where they do not say it. `permission` is what the question needs.
pub fn explained(status: u16, words: &str, permission: &str) -> String {
    match status {
        401 => format!("{words} (sign in with `gcloud auth application-default login`)"),
        403 => format!("{words} (the account needs {permission} on the project, and the interface enabled)"),
        429 => format!("{words} (the project asks too often; wait a minute)"),
        _ => words.to_owned(),
    }
}

/// What Compute Engine says against an order: an entry of `error.errors[]` of an operation, or the reason of an HTTP error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objection {
    pub code: String,
    pub message: String,
    /// Of the HTTP answer, where the order was refused at once.
    pub status: Option<u16>,
    pub quota: Option<Exceeded>,
}

/// The limit that an order would have passed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exceeded {
    /// As Cloud Quotas calls it, such as `PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region`.
    pub id: String,
    /// `None`: Google does not say.
    pub limit: Option<f64>,
    /// What the limit holds for, such as a region.
    pub dimensions: BTreeMap<String, String>,
}

/// What an objection is about.
enum About {
    Capacity,
    Quota,
    /// Something that the order names is not there: which, its words say.
    Missing,
    Account,
    Unclear,
    Order,
}

/// Codes of operations are in capitals, those of HTTP errors are not. The first group is what another launcher takes for a zone
/// without capacity (SkyPilot, cloud_vm_ray_backend.py, `_gcp_handler`): `UNSUPPORTED_OPERATION` is a spot machine that was taken while
/// it was made. The others are in Google's lists (cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability,
/// cloud.google.com/compute/docs/reference/rest/v1/errors).
fn about(objection: &Objection) -> About {
    match objection.code.as_str() {
        "ZONE_RESOURCE_POOL_EXHAUSTED"
        | "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
        | "UNSUPPORTED_OPERATION"
        | "RESOURCE_NOT_READY"
        | "resourceNotReady"
        | "RESOURCE_OPERATION_RATE_EXCEEDED"
        | "insufficientCapacity" => About::Capacity,
        "QUOTA_EXCEEDED" | "quotaExceeded" => About::Quota,
        "RESOURCE_NOT_FOUND" | "VPC_NOT_FOUND" | "SUBNET_NOT_FOUND" | "notFound" => About::Missing,
        // A field that names what is not there: `The referenced resource does not exist.`
        "invalid" if objection.message.contains("does not exist") => About::Missing,
        "PERMISSIONS_ERROR" | "accessNotConfigured" | "authError" | "billingNotEnabled" | "forbidden" | "required" => {
            About::Account
        }
        "INTERNAL_ERROR"
        | "SERVICE_UNAVAILABLE"
        | "backendError"
        | "internalError"
        | "rateLimitExceeded"
        | "userRateLimitExceeded" => About::Unclear,
        _ => match objection.status {
            Some(401 | 403) => About::Account,
            Some(408 | 429 | 500..=599) => About::Unclear,
            // An unknown code stops and is not tried again.
            _ => About::Order,
        },
    }
}

/// By what to do next. `how_to_ask` gives the command that asks for more of a quota.
pub fn launch_error(objection: &Objection, how_to_ask: impl FnOnce(&Exceeded) -> String) -> LaunchError {
    let (code, detail) = (objection.code.clone(), objection.message.clone());
    match about(objection) {
        About::Capacity => LaunchError::Capacity { code },
        About::Quota => quota(objection, how_to_ask),
        About::Missing => missing(&code, &detail),
        About::Account => LaunchError::Credentials { code, detail },
        About::Unclear => LaunchError::Unclear { code },
        About::Order => LaunchError::Request { code, detail },
    }
}

/// `GPUS_ALL_REGIONS` counts the GPUs of the project wherever they are: no region has more
/// (cloud.google.com/compute/resource-usage, "GPU quota").
fn quota(objection: &Objection, how_to_ask: impl FnOnce(&Exceeded) -> String) -> LaunchError {
    let (code, request) = match &objection.quota {
        Some(exceeded) => (exceeded.id.clone(), how_to_ask(exceeded)),
        None => {
            (named_quota(&objection.message).unwrap_or_else(|| objection.code.clone()), "gpuplan doctor".to_owned())
        }
    };
    // Cloud Quotas calls it `GPUS-ALL-REGIONS-per-project`.
    let is_shared = [&code, &objection.message].iter().any(|text| text.replace('-', "_").contains("GPUS_ALL_REGIONS"));
    if is_shared { LaunchError::CloudQuota { code, request } } else { LaunchError::Quota { code, request } }
}

/// Other zones have what one lacks, other regions have subnetworks; a network, an image or a service account is missing everywhere.
fn missing(code: &str, detail: &str) -> LaunchError {
    let speaks_of = |kinds: &[&str]| {
        kinds.iter().any(|kind| detail.contains(&format!("/{kind}/")) || detail.contains(&format!("'{kind}/")))
    };
    let is_leader = detail.contains("-leader@");
    let command = if is_leader { "TF_VAR_leader=true gpuplan setup gcp" } else { "gpuplan setup gcp" };
    let not_set_up = |missing: String, reach| LaunchError::NotSetUp { missing, command: command.to_owned(), reach };
    if speaks_of(&["machineTypes", "acceleratorTypes", "diskTypes"]) {
        LaunchError::NotSold { code: code.to_owned() }
    } else if code == "SUBNET_NOT_FOUND" || speaks_of(&["subnetworks"]) {
        not_set_up(format!("{code}: the region has no subnetwork for machines"), Missed::Region)
    } else if code == "VPC_NOT_FOUND" || speaks_of(&["networks", "serviceAccounts"]) {
        not_set_up(
            format!("{code}: {}", if detail.is_empty() { "machines have no network" } else { detail }),
            Missed::Cloud,
        )
    } else {
        LaunchError::Request { code: code.to_owned(), detail: detail.to_owned() }
    }
}

/// `Quota 'NVIDIA_L4_GPUS' exceeded. Limit: 1.0 in region us-central1.`
fn named_quota(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("uota '")?;
    rest.split_once('\'').map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_machine_that_is_not_sold_somewhere_is_no_end_of_the_question() {
        assert_eq!(reach(404), Reach::Pool);
        assert_eq!(reach(403), Reach::Everywhere);
        assert_eq!(reach(302), Reach::Unknown);
    }

    #[test]
    fn a_refusal_names_the_permission() {
        assert!(explained(403, "No.", "compute.regions.get").contains("compute.regions.get"));
        assert_eq!(explained(404, "No.", "compute.regions.get"), "No.");
    }

    fn means(code: &str, status: Option<u16>, message: &str) -> &'static str {
        let objection = Objection { code: code.to_owned(), message: message.to_owned(), status, quota: None };
        match launch_error(&objection, |_| String::new()) {
            LaunchError::Capacity { .. } => "capacity",
            LaunchError::NotSold { .. } => "not sold",
            LaunchError::Quota { .. } => "quota",
            LaunchError::CloudQuota { .. } => "quota of the cloud",
            LaunchError::NotSetUp { reach: Missed::Region, .. } => "not set up in the region",
            LaunchError::NotSetUp { reach: Missed::Cloud, .. } => "not set up",
            LaunchError::Credentials { .. } => "credentials",
            LaunchError::Request { .. } => "request",
            LaunchError::Unclear { .. } => "unclear",
        }
    }

    #[test]
    fn every_code_of_the_table_says_what_to_do_next() {
        for (code, status, message, expected) in [
            ("ZONE_RESOURCE_POOL_EXHAUSTED", None, "", "capacity"),
            ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", None, "", "capacity"),
            ("UNSUPPORTED_OPERATION", None, "Instance failed to start due to preemption.", "capacity"),
            ("insufficientCapacity", Some(503), "", "capacity"),
            ("RESOURCE_NOT_READY", None, "", "capacity"),
            ("resourceNotReady", Some(400), "", "capacity"),
            ("RESOURCE_OPERATION_RATE_EXCEEDED", None, "", "capacity"),
            ("QUOTA_EXCEEDED", None, "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.", "quota of the cloud"),
            ("quotaExceeded", Some(403), "Quota 'NVIDIA_L4_GPUS' exceeded.", "quota"),
            (
                "RESOURCE_NOT_FOUND",
                None,
                "The resource 'projects/p/zones/z/machineTypes/a3-highgpu-8g' was not found",
                "not sold",
            ),
            (
                "invalid",
                Some(400),
                "'projects/p/zones/z/machineTypes/x'. The referenced resource does not exist.",
                "not sold",
            ),
            ("invalid", Some(400), "Invalid value for field 'resource.name'", "request"),
            ("SUBNET_NOT_FOUND", None, "", "not set up in the region"),
            (
                "notFound",
                Some(404),
                "The resource 'projects/p/regions/r/subnetworks/gpuplan' was not found",
                "not set up in the region",
            ),
            ("VPC_NOT_FOUND", None, "", "not set up"),
            (
                "notFound",
                Some(404),
                "The resource 'projects/p/serviceAccounts/gpuplan-machine' was not found",
                "not set up",
            ),
            ("notFound", Some(404), "The resource 'projects/p/global/images/mine' was not found", "request"),
            ("forbidden", Some(403), "Required 'compute.instances.create' permission", "credentials"),
            ("authError", Some(401), "Invalid Credentials", "credentials"),
            ("accessNotConfigured", Some(403), "", "credentials"),
            ("rateLimitExceeded", Some(403), "", "unclear"),
            ("INTERNAL_ERROR", None, "", "unclear"),
            ("backendError", Some(503), "", "unclear"),
            ("new-code", Some(502), "", "unclear"),
            ("new-code", Some(403), "", "credentials"),
            ("new-code", Some(412), "", "request"),
            ("NEW_CODE", None, "", "request"),
        ] {
            assert_eq!(means(code, status, message), expected, "{code} {status:?} {message}");
        }
    }

    #[test]
    fn a_quota_is_named_with_the_command_that_asks_for_more() {
        let exceeded = Exceeded {
            id: "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region".to_owned(),
            limit: Some(8.0),
            ..Exceeded::default()
        };
        let objection =
            Objection { code: "QUOTA_EXCEEDED".to_owned(), quota: Some(exceeded.clone()), ..Objection::default() };
        let error = launch_error(&objection, |exceeded| {
            format!("ask for {} more than {}", exceeded.id, exceeded.limit.unwrap())
        });
        let request = format!("ask for {} more than 8", exceeded.id);
        assert_eq!(error, LaunchError::Quota { code: exceeded.id, request });
        let shared = Exceeded { id: "GPUS-ALL-REGIONS-per-project".to_owned(), ..Exceeded::default() };
        let shared = launch_error(&Objection { quota: Some(shared), ..objection.clone() }, |_| "ask".to_owned());
        assert!(matches!(shared, LaunchError::CloudQuota { request, .. } if request == "ask"), "no region has more");
        let words = Objection { message: "Quota 'NVIDIA_L4_GPUS' exceeded.".to_owned(), quota: None, ..objection };
        assert!(
            matches!(launch_error(&words, |_| String::new()), LaunchError::Quota { code, .. } if code == "NVIDIA_L4_GPUS")
        );
    }

    proptest! {
        #[test]
        fn an_unknown_objection_is_named_and_goes_by_its_status(code in ".{0,30}", message in ".{0,80}", status in proptest::option::of(100_u16..600)) {
            let objection = Objection { code: code.clone(), message: message.clone(), status, quota: None };
            let said = launch_error(&objection, |_| String::new()).to_string();
            prop_assert!(said.contains(&code), "{said}");
            let expected = match status {
                Some(401 | 403) => "credentials",
                Some(408 | 429 | 500..=599) => "unclear",
                _ => "request",
            };
            prop_assert_eq!(means(&format!("new-code {code}"), status, ""), expected);
        }
    }
}
