//! Cities and states that people name where clouds have regions.

/// As the lists of AWS ("AWS Regions"), Google Cloud ("Regions and zones") and Azure ("Azure regions list") place them.
const PLACES: [(&str, &[&str]); 37] = [
    ("belgium", &["europe-west1"]),
    ("california", &["us-west-1", "us-west2", "westus"]),
    ("canada", &["ca-central-1", "northamerica-northeast1", "canadacentral"]),
    ("columbus", &["us-east-2", "us-east5"]),
    ("dallas", &["us-south1", "us-dallas-1", "southcentralus"]),
    ("dublin", &["eu-west-1", "northeurope"]),
    ("finland", &["europe-north1", "eu-north1"]),
    ("frankfurt", &["eu-central-1", "europe-west3", "germanywestcentral", "eu-frankfurt-1"]),
    ("germany", &["eu-central-1", "europe-west3", "germanywestcentral"]),
    ("hyderabad", &["ap-south-2"]),
    ("iowa", &["us-central1", "centralus"]),
    ("ireland", &["eu-west-1", "northeurope"]),
    ("japan", &["ap-northeast-1", "asia-northeast1", "japaneast"]),
    ("las vegas", &["us-west4"]),
    ("london", &["eu-west-2", "europe-west2", "uksouth"]),
    ("los angeles", &["us-west2", "us-west-2-lax-1"]),
    ("milan", &["eu-south-1", "europe-west8", "italynorth"]),
    ("montreal", &["ca-central-1", "northamerica-northeast1"]),
    ("mumbai", &["ap-south-1", "asia-south1", "centralindia"]),
    ("netherlands", &["europe-west4", "westeurope"]),
    ("ohio", &["us-east-2", "us-east5"]),
    ("oregon", &["us-west-2", "us-west1", "westus2"]),
    ("northern virginia", &["us-east-1", "us-east4", "eastus"]),
    ("osaka", &["ap-northeast-3", "asia-northeast2", "japanwest"]),
    ("paris", &["eu-west-3", "europe-west9", "fr-par-1", "fr-par-2", "francecentral"]),
    ("sao paulo", &["sa-east-1", "southamerica-east1", "brazilsouth"]),
    ("salt lake city", &["us-west3"]),
    ("seoul", &["ap-northeast-2", "asia-northeast3", "koreacentral"]),
    ("singapore", &["ap-southeast-1", "asia-southeast1", "southeastasia"]),
    ("stockholm", &["eu-north-1", "swedencentral"]),
    ("sweden", &["eu-north-1", "swedencentral"]),
    ("sydney", &["ap-southeast-2", "australia-southeast1", "australiaeast"]),
    ("taiwan", &["asia-east1"]),
    ("tokyo", &["ap-northeast-1", "asia-northeast1", "japaneast"]),
    ("virginia", &["us-east-1", "us-east4", "eastus"]),
    ("warsaw", &["europe-central2", "pl-waw-2", "polandcentral"]),
    ("zurich", &["eu-central-2", "europe-west6", "switzerlandnorth"]),
];

/// Regions there, whatever sells GPUs; none for a name that is no such place.
pub fn regions_at(name: &str) -> &'static [&'static str] {
    let plain = name.to_lowercase().replace(['-', '_'], " ").replace("são", "sao");
    PLACES.iter().find(|(place, _)| plain == *place).map_or(&[], |(_, regions)| regions)
}
