//! `Dimensions`: by what lines of a bill are told apart besides run, day and item: tags, place, machine and terms.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bill::cell::normalized;
use crate::bill::export::Format;

/// Of one line; `None` where the export does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dimensions {
    /// Of whoever rented, without the mark of the run and without what a cloud adds by itself.
    pub tags: BTreeMap<String, String>,
    /// In the words of the export.
    pub region: Option<String>,
    pub instance_type: Option<String>,
    /// Words that name a GPU, where a line is of nothing else.
    pub gpu: Option<String>,
    /// `on-demand`, `spot` or `commitment`.
    pub purchase: Option<&'static str>,
    /// Number of the invoice.
    pub invoice: Option<String>,
}

/// Tags that are kept of lines of no run: who spends it.
pub const OTHERS_HAVE: [&str; 2] = ["team", "project"];

/// The mark by which lines are of runs: the tag `gpuplan:run`, or another one that somebody names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTag {
    normalized: String,
    is_own: bool,
}

impl Default for RunTag {
    fn default() -> Self {
        Self { normalized: "gpuplanrun".to_owned(), is_own: true }
    }
}

/// What exports write before the names of tags.
const BEFORE_TAGS: [&str; 6] = ["", "user", "resourcetags", "resourcetagsuser", "tags", "labels"];

impl RunTag {
    pub fn named(name: &str) -> Self {
        let given = Self { normalized: normalized(name), is_own: false };
        if given.normalized == Self::default().normalized { Self::default() } else { given }
    }

    /// As it is compared.
    pub fn name(&self) -> &str {
        &self.normalized
    }

    /// Whether a tag, label or column is it, in every spelling that exports have, such as `resource_tags_user_gpuplan_run` and
    /// `user_gpuplan_run`.
    pub fn is(&self, name: &str) -> bool {
        let name = normalized(name);
        name.strip_suffix(&self.normalized).is_some_and(|before| self.is_own || BEFORE_TAGS.contains(&before))
    }

    /// Whether it may stand in this text: most lines have other tags, and are not taken apart.
    pub fn may_be_in(&self, text: &str) -> bool {
        normalized(text).contains(&self.normalized)
    }

    /// From `{"gpuplan:run": "a"}`, or `[{"key": "gpuplan_run", "value": "a"}]` as Google writes labels.
    pub fn run_of(&self, tags: &Value) -> Option<String> {
        let found = pairs(tags).into_iter().find(|(name, _)| self.is(name)).map(|(_, run)| run);
        found.filter(|run| !run.is_empty()).map(str::to_owned)
    }
}

/// Tags of a line, in the order of the export.
fn pairs(tags: &Value) -> Vec<(&str, &str)> {
    match tags {
        Value::Object(tags) => tags.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect(),
        Value::Array(labels) => {
            labels.iter().filter_map(|label| Some((label["key"].as_str()?, label["value"].as_str()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Tags that somebody set, by their own names: `user_team` and `user:team` of AWS are `team`.
pub fn own_tags(tags: &Value, mark: &RunTag) -> BTreeMap<String, String> {
    let own = pairs(tags).into_iter().filter_map(|(name, value)| Some((own_tag(name, mark)?, value)));
    own.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `None`: the mark of a run, of a machine of ours, or of the cloud.
pub fn own_tag<'a>(name: &'a str, mark: &RunTag) -> Option<&'a str> {
    let name = name.trim_start_matches("user:").trim_start_matches("user_");
    let is_of_others = ["aws:", "aws_", "goog-"].iter().any(|start| name.starts_with(start));
    (!is_of_others && !name.is_empty() && !mark.is(name) && !normalized(name).starts_with("gpuplan")).then_some(name)
}

/// Of a usage type of AWS such as `USE1-SpotUsage:p5.48xlarge` or `USW2-ML-Train:ml.p4d.24xlarge`; machines of SageMaker have the
/// name of those that they are.
pub fn instance_of_usage(usage: &str) -> Option<&str> {
    let (_, kind) = usage.split_once(':')?;
    let kind = kind.strip_prefix("ml.").unwrap_or(kind);
    let kind = kind.split(['-', ' ']).next().unwrap_or(kind);
    let (family, size) = kind.split_once('.')?;
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // `EBS:VolumeUsage.gp3` has a capital, which no machine has.
    (is_word(family) && is_word(size) && !kind.bytes().any(|byte| byte.is_ascii_uppercase())).then_some(kind)
}

/// The words before `GPU` in a SKU of Google such as `Nvidia H100 80GB GPU running in Iowa`.
pub fn gpu_of_sku(sku: &str) -> Option<&str> {
    let (words, rest) = sku.split_once(" GPU")?;
    let is_whole = rest.is_empty() || rest.starts_with(' ');
    let start = words.find("Nvidia").or_else(|| words.find("NVIDIA")).unwrap_or(0);
    is_whole.then(|| &words[start..])
}

/// Terms in the words of each export: usage and line types of AWS, `PricingCategory` of FOCUS, SKUs of Google, `PricingModel` of Azure.
pub fn purchase(format: Format, terms: &str, usage: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| terms.contains(word) || usage.contains(word));
    match format {
        Format::Google if has(&["Commitment"]) => Some("commitment"),
        Format::Google if has(&["Spot Preemptible", "Preemptible"]) => Some("spot"),
        Format::Google => Some("on-demand"),
        _ => match normalized(terms).as_str() {
            "spot" | "dynamic" => Some("spot"),
            "committed"
            | "reservation"
            | "savingsplan"
            | "savingsplancoveredusage"
            | "savingsplannegation"
            | "discountedusage"
            | "rifee"
            | "savingsplanrecurringfee"
            | "savingsplanupfrontfee" => Some("commitment"),
            _ if has(&["SpotUsage"]) => Some("spot"),
            "standard" | "ondemand" => Some("on-demand"),
            _ if has(&["BoxUsage"]) => Some("on-demand"),
            _ => None,
        },
    }
}

/// The machine in a cell of JSON: `machine_spec` of Google's system labels, `ServiceType` of Azure, `InstanceType` of FOCUS.
pub fn instance_in_json(text: &str) -> Option<String> {
    const KEYS: [&str; 5] =
        ["compute.googleapis.com/machine_spec", "ServiceType", "VMType", "InstanceType", "x_InstanceType"];
    if !KEYS.iter().any(|key| text.contains(key)) {
        return None;
    }
    let value: Value = serde_json::from_str(&crate::bill::cell::braced(text)).ok()?;
    let found = pairs(&value).into_iter().find(|(name, value)| KEYS.contains(name) && !value.is_empty());
    found.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_machine_of_a_line_is_found_in_the_words_of_its_cloud() {
        for (usage, kind) in [
            ("BoxUsage:p5.48xlarge", Some("p5.48xlarge")),
            ("USE1-SpotUsage:g5.xlarge", Some("g5.xlarge")),
            ("USW2-ML-Train:ml.p4d.24xlarge", Some("p4d.24xlarge")),
            ("UnusedBox:p5.48xlarge", Some("p5.48xlarge")),
            ("EBS:VolumeUsage.gp3", None),
            ("DataTransfer-Out-Bytes", None),
        ] {
            assert_eq!(instance_of_usage(usage), kind, "{usage}");
        }
        assert_eq!(gpu_of_sku("Nvidia H100 80GB GPU running in Iowa"), Some("Nvidia H100 80GB"));
        assert_eq!(gpu_of_sku("Spot Preemptible Nvidia L4 GPU attached"), Some("Nvidia L4"));
        assert_eq!(gpu_of_sku("A2 Instance Core running in Iowa"), None);
        let azure = r#""ServiceType": "Standard_NC24ads_A100_v4", "VMName": "a""#;
        assert_eq!(instance_in_json(azure).as_deref(), Some("Standard_NC24ads_A100_v4"));
        let google = r#"[{"key":"compute.googleapis.com/machine_spec","value":"a3-highgpu-8g"}]"#;
        assert_eq!(instance_in_json(google).as_deref(), Some("a3-highgpu-8g"));
        assert_eq!(instance_in_json("no json, InstanceType"), None);
    }

    #[test]
    fn terms_are_told_apart() {
        for (format, terms, usage, expected) in [
            (Format::Cur, "Usage", "USE1-SpotUsage:p5.48xlarge", Some("spot")),
            (Format::Cur, "Usage", "BoxUsage:p5.48xlarge", Some("on-demand")),
            (Format::Cur, "SavingsPlanCoveredUsage", "BoxUsage:p5.48xlarge", Some("commitment")),
            (Format::Cur, "Usage", "EBS:VolumeUsage.gp3", None),
            (Format::Focus, "Dynamic", "", Some("spot")),
            (Format::Azure, "Reservation", "NC24ads A100 v4", Some("commitment")),
            (Format::Google, "", "Spot Preemptible A2 Instance Core", Some("spot")),
        ] {
            assert_eq!(purchase(format, terms, usage), expected, "{terms} {usage}");
        }
    }

    #[test]
    fn a_tag_that_somebody_names_is_the_mark_and_no_longer_one() {
        let mark = RunTag::named("skypilot-cluster-name");
        let tags = json!({"user_skypilot_cluster_name": "train-7", "user_team": "vision", "aws:createdBy": "x",
            "user_my_skypilot_cluster_name": "no", "gpuplan:owner": "me"});
        assert_eq!(mark.run_of(&tags).as_deref(), Some("train-7"));
        let own = own_tags(&tags, &mark);
        assert_eq!(own.keys().collect::<Vec<_>>(), ["my_skypilot_cluster_name", "team"]);
        assert!(RunTag::default().is("resourceTags/user:gpuplan:run") && !RunTag::default().is("run"));
        assert_eq!(RunTag::named("gpuplan:run"), RunTag::default());
    }
}
