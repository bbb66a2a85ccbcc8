//! What a bucket of Cloud Storage does by itself: its lifecycle rules, soft deletion and versions.

use serde::Deserialize;

use gpuplan_market::SourceError;
use gpuplan_market::bucket::{BucketRules, LIFECYCLE, Loss, LossRule, Trouble, VERSIONS, Writers, concerns};

pub const STORAGE: &str = "https://storage.googleapis.com";
/// Of a bucket, as far as it takes objects away or brings them back.
pub const FIELDS: &str = "lifecycle,softDeletePolicy,versioning,billing";

/// A bucket (cloud.google.com/storage/docs/json_api/v1/buckets).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Bucket {
    lifecycle: Lifecycle,
    soft_delete_policy: SoftDelete,
    versioning: Versioning,
    billing: Billing,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Billing {
    requester_pays: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lifecycle {
    rule: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rule {
    action: Action,
    condition: Condition,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Action {
    r#type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    age: Option<u32>,
    is_live: Option<bool>,
    /// Versions that are no longer the current one have such a number.
    num_newer_versions: Option<u32>,
    days_since_noncurrent_time: Option<u32>,
    noncurrent_time_before: Option<String>,
    matches_prefix: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SoftDelete {
    /// A number as text.
    retention_duration_seconds: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Versioning {
    enabled: bool,
}

impl Bucket {
    /// Rules that act on objects below the prefix. Archive classes of Google are read as any other.
    pub fn rules(&self, bucket: &str, prefix: &str) -> BucketRules {
        let deletes = self.lifecycle.rule.iter().filter(|rule| rule.action.r#type == "Delete");
        let losses = deletes.filter(|rule| rule.condition.takes_current(prefix));
        let retention = &self.soft_delete_policy.retention_duration_seconds;
        let keeps_deleted = retention.parse::<u64>().is_ok_and(|seconds| seconds > 0);
        BucketRules {
            bucket: bucket.to_owned(),
            losses: losses
                .map(|rule| LossRule { rule: String::new(), loss: Loss::Deleted, after_days: rule.condition.age })
                .collect(),
            can_undelete: Some(self.versioning.enabled || keeps_deleted),
            troubles: if self.billing.requester_pays { vec![Trouble::RequesterPays] } else { Vec::new() },
            writers: writers(),
        }
    }
}

/// A setup has one service account for all its machines.
fn writers() -> Writers {
    Writers::OfAnyRun { remedy: "teams that do not trust each other need a project each".to_owned() }
}

/// What a bucket that does not answer says by that, as one of another project does: whoever may use its objects need not see its rules
/// (cloud.google.com/storage/docs/access-control/iam-permissions, `storage.buckets.get`), and one whose requesters pay wants a project named
/// (cloud.google.com/storage/docs/requester-pays).
pub fn foreign(error: SourceError, bucket: &str) -> Result<BucketRules, SourceError> {
    let SourceError::Refused { code, detail } = &error else { return Err(error) };
    let pays = detail.contains("requester pays");
    if !pays && code != "403" {
        return Err(error);
    }
    let not_readable = |what| Trouble::NotReadable { what, permission: "storage.buckets.get" };
    let mut troubles = vec![not_readable(LIFECYCLE), not_readable(VERSIONS)];
    troubles.extend(pays.then_some(Trouble::RequesterPays));
    Ok(BucketRules { bucket: bucket.to_owned(), losses: Vec::new(), can_undelete: None, troubles, writers: writers() })
}

impl Condition {
    fn takes_current(&self, prefix: &str) -> bool {
        let is_of_old_versions = self.is_live == Some(false)
            || self.num_newer_versions.is_some()
            || self.days_since_noncurrent_time.is_some()
            || self.noncurrent_time_before.is_some();
        let is_near = self.matches_prefix.is_empty() || self.matches_prefix.iter().any(|own| concerns(own, prefix));
        !is_of_old_versions && is_near
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(bucket: Value) -> BucketRules {
        serde_json::from_value::<Bucket>(bucket).unwrap().rules("b", "team/runs/")
    }

    /// The examples of Google's guide, "Configuration examples for Object Lifecycle Management".
    #[test]
    fn only_rules_that_delete_current_objects_of_runs_are_losses() {
        let rule = |kind: &str, condition: Value| json!({"action": {"type": kind}, "condition": condition});
        let all = json!([
            rule("Delete", json!({"age": 30})),
            rule("Delete", json!({"age": 365, "isLive": false})),
            rule("Delete", json!({"numNewerVersions": 2})),
            rule("Delete", json!({"daysSinceNoncurrentTime": 7})),
            rule("Delete", json!({"age": 1, "matchesPrefix": ["tmp/"]})),
            rule("Delete", json!({"createdBefore": "2027-01-01", "matchesPrefix": ["team/"]})),
            rule("SetStorageClass", json!({"age": 365})),
            rule("AbortIncompleteMultipartUpload", json!({"age": 1})),
        ]);
        let found =
            rules(json!({"lifecycle": {"rule": all}, "softDeletePolicy": {"retentionDurationSeconds": "604800"}}));
        assert_eq!(found.losses.iter().map(|loss| loss.after_days).collect::<Vec<_>>(), [Some(30), None]);
        let versions = rules(json!({"versioning": {"enabled": true}}));
        assert_eq!((found.can_undelete, versions.can_undelete), (Some(true), Some(true)));
        let nothing = rules(json!({"softDeletePolicy": {"retentionDurationSeconds": "0"}}));
        assert!(nothing.can_undelete == Some(false) && nothing.losses.is_empty());
    }

    #[test]
    fn a_bucket_of_another_project_says_what_it_keeps_to_itself() {
        let refused =
            |code: &str, detail: &str| SourceError::Refused { code: code.to_owned(), detail: detail.to_owned() };
        let hidden = foreign(refused("403", "x does not have storage.buckets.get access"), "b").unwrap();
        assert_eq!((hidden.can_undelete, hidden.troubles.len()), (None, 2));
        let pays = "Bucket is a requester pays bucket but no user project provided.";
        assert!(foreign(refused("400", pays), "b").unwrap().troubles.contains(&Trouble::RequesterPays));
        assert!(foreign(refused("404", "The specified bucket does not exist."), "b").is_err());
        assert_eq!(rules(json!({"billing": {"requesterPays": true}})).troubles, [Trouble::RequesterPays]);
    }
}
