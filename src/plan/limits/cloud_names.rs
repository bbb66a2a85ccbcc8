//! Clouds by the names that people use for them.

use crate::limits::error::LimitsError;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_units::names::did_you_mean;

/// A cloud by its name or by one that people use for it.
pub fn cloud(name: &str, hardware: &Hardware) -> Result<CloudId, LimitsError> {
    let alias = match name.to_ascii_lowercase().as_str() {
        "google" | "gce" | "google cloud" | "googlecloud" | "google-cloud" => "gcp".to_owned(),
        "amazon" | "ec2" | "amazon web services" => "aws".to_owned(),
        "microsoft" | "microsoft azure" => "azure".to_owned(),
        "oracle" => "oci".to_owned(),
        other => other.to_owned(),
    };
    let known = hardware.clouds();
    known.iter().find(|cloud| cloud.as_str() == alias).cloned().ok_or_else(|| LimitsError::UnknownCloud {
        name: name.to_owned(),
        nearest: did_you_mean(name, known.iter().map(CloudId::as_str)).map(str::to_owned),
        known: known.iter().map(ToString::to_string).collect(),
    })
}
