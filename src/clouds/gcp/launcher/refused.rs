//! What Google says against an order, from an HTTP error or from an operation, as the table of codes reads it.

use std::collections::BTreeMap;

use google_cloud_compute_v1::Error as CallError;
use google_cloud_compute_v1::model::Operation;
use google_cloud_gax::error::rpc::StatusDetails;

use crate::CLOUD;
use crate::account::quotas;
use crate::errors::{Exceeded, INVALID_CREDENTIALS, Objection, launch_error};
use crate::sdk::unauthenticated;
use gpuplan_clouds_http::{one_line, root_cause};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_launch::{CreateRequest, LaunchError};
use gpuplan_market::SourceError;

/// Refused here, before Google is asked.
pub fn wrong(detail: String) -> LaunchError {
    LaunchError::Request { code: "not asked".to_owned(), detail }
}

/// A call that had no answer, or one that is no answer, leaves everything open.
pub fn call_error(error: &CallError, how_to_ask: impl FnOnce(&Exceeded) -> String) -> LaunchError {
    if error.is_authentication() {
        return source_error(&unauthenticated(error));
    }
    let Some(status) = error.http_status_code() else { return LaunchError::Unclear { code: root_cause(error) } };
    let said = error.status();
    let reason = said.and_then(|said| {
        said.details.iter().find_map(|detail| match detail {
            StatusDetails::ErrorInfo(info) if !info.reason.is_empty() => Some(info.reason.clone()),
            _ => None,
        })
    });
    let objection = Objection {
        code: reason.unwrap_or_else(|| format!("HTTP {status}")),
        message: one_line(said.map_or("", |said| &said.message)),
        status: Some(status),
        quota: None,
    };
    launch_error(&objection, how_to_ask)
}

/// What came of an operation that is done; `None`: what was asked.
pub fn operation_error(operation: &Operation, how_to_ask: impl FnOnce(&Exceeded) -> String) -> Option<LaunchError> {
    objection(operation).map(|objection| launch_error(&objection, how_to_ask))
}

pub fn objection(operation: &Operation) -> Option<Objection> {
    let status = operation.http_error_status_code.and_then(|status| u16::try_from(status).ok());
    if let Some(error) = operation.error.as_ref().and_then(|error| error.errors.first()) {
        let quota = error.error_details.iter().find_map(|detail| detail.quota_info.as_ref());
        let exceeded = quota.map(|quota| Exceeded {
            id: quota.limit_name.clone().unwrap_or_default(),
            limit: quota.limit,
            dimensions: quota
                .dimensions
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<BTreeMap<_, _>>(),
        });
        return Some(Objection {
            code: error.code.clone().unwrap_or_default(),
            message: one_line(error.message.as_deref().unwrap_or_default()),
            status: None,
            quota: exceeded.filter(|exceeded| !exceeded.id.is_empty()),
        });
    }
    let failed = operation.error.is_some() || status.is_some() || operation.http_error_message.is_some();
    failed.then(|| Objection {
        code: operation.http_error_message.clone().unwrap_or_else(|| "an operation without a reason".to_owned()),
        status,
        ..Objection::default()
    })
}

/// The command that asks for as many more GPUs as the order needs.
pub fn how_to_ask(exceeded: &Exceeded, request: &CreateRequest, project: &str) -> String {
    let gpus = Hardware::embedded().ok().and_then(|hardware| {
        let instance = hardware.find_instance(&CloudId::new(CLOUD), &request.pool.instance_type)?;
        Some(hardware.instance(instance).node.gpus.as_f64().ceil() * f64::from(request.nodes))
    });
    match exceeded.limit.zip(gpus) {
        Some((limit, gpus)) => quotas::request_of(&exceeded.id, limit + gpus, &exceeded.dimensions, project),
        None => "gpuplan doctor".to_owned(),
    }
}

/// The same for what is asked without the SDK.
pub fn source_error(error: &SourceError) -> LaunchError {
    let detail = error.to_string();
    match error {
        SourceError::MissingCredentials { variable } => {
            LaunchError::Credentials { code: (*variable).to_owned(), detail }
        }
        SourceError::Refused { code, .. }
            if code.ends_with("401")
                || code.ends_with("403")
                || [INVALID_CREDENTIALS, "GPUPLAN_GCP_ENDPOINT"].contains(&code.as_str()) =>
        {
            LaunchError::Credentials { code: code.clone(), detail }
        }
        _ => LaunchError::Unclear { code: detail },
    }
}
