//! Which limits of a project machines count against, found in Google's answers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::prices::attached::Attached;
use crate::prices::zones::last_segment;
use gpuplan_market::{Purchase, Quota, QuotaNeed, SourceError};

/// Every GPU of a project counts against it, spot machines included.
pub const ALL_REGIONS: &str = "GPUS_ALL_REGIONS";
/// Limits of newer GPUs on demand; Compute Engine itself does not list them.
pub const FAMILY_QUOTA: &str = "GPUS-PER-GPU-FAMILY-per-project-region";

/// Machine types, the GPU in the names of their limits, and whether on-demand machines have a limit of their own in the
/// region's list. Newer ones are limited by family (Google's page of allocation quotas, cloud.google.com/compute/resource-usage;
/// the identifiers as infrastructure code in use requests them, 2026).
const GPUS: &[(&str, &str, bool)] = &[
    ("a2-highgpu-", "A100", true),
    ("a2-megagpu-", "A100", true),
    ("a2-ultragpu-", "A100_80GB", true),
    ("a3-highgpu-", "H100", false),
    ("a3-megagpu-", "H100_MEGA", false),
    ("a3-ultragpu-", "H200", false),
    ("a4-highgpu-", "B200", false),
    ("a4x-highgpu-", "GB200", false),
    ("g2-", "L4", true),
    ("g4-", "RTX_PRO_6000", false),
];

/// Where a limit of GPUs stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Among the quotas of the region.
    Regional(String),
    /// In the Cloud Quotas interface, by GPU family.
    Family(String),
}

/// A metric of `regions.get` or `projects.get`.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: String,
    pub limit: f64,
    /// `None`: Google does not say.
    pub usage: Option<f64>,
}

/// `quotaInfos.get` of Cloud Quotas, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaInfo {
    dimensions_infos: Vec<DimensionsInfo>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DimensionsInfo {
    dimensions: BTreeMap<String, String>,
    details: Details,
    applicable_locations: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    /// A text, since it is a 64-bit integer; -1 is no limit.
    value: String,
}

/// The limit of this machine's GPUs on these terms. Queued machines count as preemptible ones although nothing preempts them.
pub fn limit_of(machine_type: &str, purchase: Purchase) -> Result<Limit, SourceError> {
    let unknown = || SourceError::Malformed {
        field: machine_type.to_owned(),
        detail: "it is not known which quota limits it".to_owned(),
    };
    let of_series = GPUS.iter().find(|(start, _, _)| machine_type.starts_with(start));
    // Cards that are attached have limits of their own on all terms.
    let of_cards = || Attached::named(machine_type).map(|attached| (attached.kind.short.to_uppercase(), true));
    let of_series = of_series.map(|(_, gpu, has_own)| ((*gpu).to_owned(), *has_own));
    let (gpu, has_own) = of_series.or_else(of_cards).ok_or_else(unknown)?;
    Ok(match purchase {
        Purchase::Spot | Purchase::FlexStart => Limit::Regional(format!("PREEMPTIBLE_NVIDIA_{gpu}_GPUS")),
        _ if has_own => Limit::Regional(format!("NVIDIA_{gpu}_GPUS")),
        _ => Limit::Family(format!("NVIDIA_{gpu}")),
    })
}

/// A metric among those of a region or of the project. One that is not listed is an error: no limit is assumed.
pub fn of_metric(name: &str, metrics: &[Metric], need: &QuotaNeed, project: &str) -> Result<Quota, SourceError> {
    let is_global = name == ALL_REGIONS;
    let region = if is_global { "global" } else { need.region };
    let not_listed =
        || SourceError::Malformed { field: name.to_owned(), detail: format!("{region} lists no such quota") };
    let metric = metrics.iter().find(|metric| metric.name == name).ok_or_else(not_listed)?;
    let (id, dimensions) = if is_global {
        (format!("{}-per-project", name.replace('_', "-")), String::new())
    } else {
        (format!("{}-per-project-region", name.replace('_', "-")), format!(" --dimensions=region={region}"))
    };
    // Where nobody says how much is used, it may be all of it.
    let missing = metric.usage.unwrap_or(metric.limit) + needed(need);
    Ok(Quota {
        code: name.to_owned(),
        name: name.to_lowercase().replace('_', " "),
        region: region.to_owned(),
        unit: "GPUs",
        limit: metric.limit,
        used: metric.usage,
        needed: needed(need),
        request: request(&id, missing, &dimensions, project),
    })
}

/// The limit of a GPU family in a region: the most particular entry that holds there.
pub fn of_family(family: &str, info: &QuotaInfo, need: &QuotaNeed, project: &str) -> Result<Quota, SourceError> {
    let holds = |entry: &&DimensionsInfo| {
        let fits = |key: &str, wanted: &str| entry.dimensions.get(key).is_none_or(|value| value == wanted);
        let is_here = |location: &String| last_segment(location) == need.region;
        fits("gpu_family", family)
            && fits("region", need.region)
            && (entry.applicable_locations.is_empty() || entry.applicable_locations.iter().any(is_here))
    };
    let missing = |detail: String| SourceError::Malformed { field: FAMILY_QUOTA.to_owned(), detail };
    let entry = info.dimensions_infos.iter().filter(holds).max_by_key(|entry| entry.dimensions.len());
    let entry = entry.ok_or_else(|| missing(format!("no entry for {family} in {}", need.region)))?;
    let value: i64 =
        entry.details.value.parse().map_err(|_| missing(format!("`{}` is not a valid limit", entry.details.value)))?;
    let dimensions = format!(" --dimensions=region={},gpu_family={family}", need.region);
    Ok(Quota {
        code: format!("{FAMILY_QUOTA}/{family}"),
        name: format!("{family} GPUs on demand"),
        region: need.region.to_owned(),
        unit: "GPUs",
        limit: if value < 0 { f64::INFINITY } else { value as f64 },
        used: None,
        needed: needed(need),
        request: request(FAMILY_QUOTA, needed(need), &dimensions, project),
    })
}

/// A part of a card counts as one.
fn needed(need: &QuotaNeed) -> f64 {
    need.gpus_per_node.ceil() * f64::from(need.nodes)
}

/// The command that asks for a limit of `value`, with what an operation said of the limit.
pub fn request_of(id: &str, value: f64, dimensions: &BTreeMap<String, String>, project: &str) -> String {
    let named: Vec<String> = dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let dimensions = if named.is_empty() { String::new() } else { format!(" --dimensions={}", named.join(",")) };
    request(id, value, &dimensions, project)
}

fn request(id: &str, value: f64, dimensions: &str, project: &str) -> String {
    format!(
        "gcloud beta quotas preferences create --project={project} --service=compute.googleapis.com --quota-id={id} \
         --preferred-value={value}{dimensions}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::{CloudId, Hardware};
    use proptest::prelude::*;
    use serde_json::json;

    fn need<'a>(hardware: &'a Hardware, name: &str, purchase: Purchase, nodes: u32) -> QuotaNeed<'a> {
        let instance = hardware.instance(hardware.find_instance(&CloudId::new("gcp"), name).unwrap());
        let gpus_per_node = instance.node.gpus.as_f64();
        QuotaNeed { region: "us-central1", instance, gpus_per_node, gpu: "", purchase, nodes }
    }

    #[test]
    fn the_limit_is_that_of_gpu_and_market() {
        for (machine, purchase, expected) in [
            ("a3-highgpu-8g", Purchase::Spot, "PREEMPTIBLE_NVIDIA_H100_GPUS"),
            ("a3-megagpu-8g", Purchase::FlexStart, "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS"),
            ("a2-ultragpu-8g", Purchase::OnDemand, "NVIDIA_A100_80GB_GPUS"),
            ("g2-standard-48", Purchase::Commitment { years: 1 }, "NVIDIA_L4_GPUS"),
            ("n1-standard-8-t4x1", Purchase::OnDemand, "NVIDIA_T4_GPUS"),
            ("n1-standard-16-v100x2", Purchase::Spot, "PREEMPTIBLE_NVIDIA_V100_GPUS"),
        ] {
            assert_eq!(limit_of(machine, purchase), Ok(Limit::Regional(expected.to_owned())));
        }
        assert_eq!(limit_of("a3-highgpu-8g", Purchase::OnDemand), Ok(Limit::Family("NVIDIA_H100".to_owned())));
        assert!(limit_of("n1-standard-4", Purchase::OnDemand).is_err());
        let hardware = Hardware::embedded().unwrap();
        for instance in hardware.instances().iter().filter(|instance| instance.cloud.as_str() == "gcp") {
            assert!(limit_of(&instance.name, Purchase::Spot).is_ok(), "{}", instance.name);
        }
    }

    #[test]
    fn a_zero_limit_blocks_and_says_how_to_ask_for_more() {
        let hardware = Hardware::embedded().unwrap();
        let metrics = [Metric { name: "PREEMPTIBLE_NVIDIA_H100_GPUS".to_owned(), limit: 8.0, usage: Some(8.0) }];
        let need = need(&hardware, "a3-highgpu-8g", Purchase::Spot, 2);
        let quota = of_metric("PREEMPTIBLE_NVIDIA_H100_GPUS", &metrics, &need, "p").unwrap();
        assert!(quota.blocks());
        assert_eq!(
            quota.request,
            "gcloud beta quotas preferences create --project=p --service=compute.googleapis.com \
             --quota-id=PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region --preferred-value=24 --dimensions=region=us-central1"
        );
        assert!(of_metric("NVIDIA_L4_GPUS", &metrics, &need, "p").is_err(), "no default is assumed");
        let all = [Metric { name: ALL_REGIONS.to_owned(), limit: 64.0, usage: Some(0.0) }];
        let quota = of_metric(ALL_REGIONS, &all, &need, "p").unwrap();
        assert!(
            !quota.blocks() && quota.request.ends_with("--quota-id=GPUS-ALL-REGIONS-per-project --preferred-value=16"),
            "{quota:?}"
        );
        let unsaid = [Metric { usage: None, ..all[0].clone() }];
        let quota = of_metric(ALL_REGIONS, &unsaid, &need, "p").unwrap();
        assert!(quota.used.is_none() && quota.request.ends_with("--preferred-value=80"), "{quota:?}");
    }

    #[test]
    fn a_slice_of_a_card_counts_as_one() {
        let hardware = Hardware::embedded().unwrap();
        assert_eq!(needed(&need(&hardware, "g4-standard-6", Purchase::Spot, 3)), 3.0);
    }

    #[test]
    fn the_most_particular_entry_of_a_family_holds() {
        let hardware = Hardware::embedded().unwrap();
        let info: QuotaInfo = serde_json::from_value(json!({"dimensionsInfos": [
            {"dimensions": {}, "details": {"value": "0"}},
            {"dimensions": {"gpu_family": "NVIDIA_H100"}, "details": {"value": "8"}, "applicableLocations": ["us-central1", "us-east4"]},
            {"dimensions": {"gpu_family": "NVIDIA_H100", "region": "us-east4"}, "details": {"value": "64"}},
            {"dimensions": {"gpu_family": "NVIDIA_H200"}, "details": {"value": "-1"}},
        ]}))
        .unwrap();
        let need = need(&hardware, "a3-highgpu-8g", Purchase::OnDemand, 1);
        let limit = |family: &str| of_family(family, &info, &need, "p").unwrap().limit;
        assert_eq!((limit("NVIDIA_H100"), limit("NVIDIA_H200"), limit("NVIDIA_B200")), (8.0, f64::INFINITY, 0.0));
        assert!(of_family("NVIDIA_H100", &QuotaInfo::default(), &need, "p").is_err());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(value in ".{0,12}", region in "[a-z0-9-]{0,12}", family in "[A-Z_0-9]{0,12}") {
            let hardware = Hardware::embedded().unwrap();
            let info = json!({"dimensionsInfos": [{"dimensions": {"region": region, "gpu_family": family}, "details": {"value": value.clone()}}]});
            let info: QuotaInfo = serde_json::from_value(info).unwrap();
            if let Ok(quota) = of_family(&family, &info, &need(&hardware, "a3-highgpu-8g", Purchase::OnDemand, 1), "p") {
                prop_assert!(quota.limit >= 0.0 && value.parse::<i64>().is_ok());
            }
        }
    }
}
