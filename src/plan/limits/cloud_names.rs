//! Names of clouds as people write them, and clouds that people ask for and that the catalog has no prices of.

use crate::limits::error::LimitsError;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_units::names::did_you_mean;

/// Sellers of GPUs that no file of the catalog prices, in letters and digits. catalogs/README.md says why of some.
const WITHOUT_PRICES: [&str; 38] = [
    "akash",
    "alibaba",
    "alibabacloud",
    "baseten",
    "beam",
    "cerebrium",
    "cirrascale",
    "civo",
    "coreweave",
    "cudo",
    "cudocompute",
    "fal",
    "fluidstack",
    "hotaisle",
    "ibm",
    "ibmcloud",
    "ionet",
    "latitude",
    "lightning",
    "massedcompute",
    "mithril",
    "modal",
    "ovh",
    "ovhcloud",
    "paperspace",
    "primeintellect",
    "replicate",
    "salad",
    "seeweb",
    "sfcompute",
    "shadeform",
    "spheron",
    "tensordock",
    "tensorwave",
    "thundercompute",
    "together",
    "togetherai",
    "voltagepark",
];

/// A cloud by its name or by one that people use for it.
pub fn cloud(name: &str, hardware: &Hardware) -> Result<CloudId, LimitsError> {
    let bare: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let alias = match bare.as_str() {
        "google" | "gce" | "googlecloud" => "gcp".to_owned(),
        "amazon" | "ec2" | "amazonwebservices" => "aws".to_owned(),
        "microsoft" | "microsoftazure" => "azure".to_owned(),
        "oracle" | "oraclecloud" => "oci".to_owned(),
        "datacrunch" => "verda".to_owned(),
        "digitalocean" => "digitalocean".to_owned(),
        "lambdalabs" | "lambdacloud" => "lambda".to_owned(),
        "linode" => "akamai".to_owned(),
        "vastai" => "vast".to_owned(),
        _ => name.to_ascii_lowercase(),
    };
    let known = hardware.clouds();
    if let Some(cloud) = known.iter().find(|cloud| cloud.as_str() == alias) {
        return Ok(cloud.clone());
    }
    if WITHOUT_PRICES.contains(&bare.as_str()) {
        return Err(LimitsError::CloudWithoutPrices { name: name.to_owned() });
    }
    Err(LimitsError::UnknownCloud {
        name: name.to_owned(),
        nearest: did_you_mean(name, known.iter().map(CloudId::as_str)).map(str::to_owned),
        known: known.iter().map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_has_the_names_that_people_use_for_it() {
        let hardware = Hardware::embedded().unwrap();
        let named = |name: &str| cloud(name, &hardware).map(|cloud| cloud.to_string());
        for (name, meant) in [
            ("Google Cloud", "gcp"),
            ("DataCrunch", "verda"),
            ("Lambda Labs", "lambda"),
            ("vast.ai", "vast"),
            ("Linode", "akamai"),
            ("Digital Ocean", "digitalocean"),
            ("genesis-cloud", "genesis-cloud"),
        ] {
            assert_eq!(named(name), Ok(meant.to_owned()), "{name}");
        }
        assert!(
            matches!(named("lamda"), Err(LimitsError::UnknownCloud { nearest: Some(near), .. }) if near == "lambda")
        );
    }

    #[test]
    fn a_cloud_without_prices_is_no_misspelling() {
        let hardware = Hardware::embedded().unwrap();
        for name in ["CoreWeave", "Together AI", "hot-aisle", "io.net", "ovh"] {
            let refused = cloud(name, &hardware);
            assert_eq!(refused, Err(LimitsError::CloudWithoutPrices { name: name.to_owned() }));
        }
        let priced = WITHOUT_PRICES.iter().find(|name| hardware.clouds().iter().any(|cloud| cloud.as_str() == **name));
        assert_eq!(priced, None, "the catalog has it now");
        assert!(WITHOUT_PRICES.is_sorted());
    }
}
