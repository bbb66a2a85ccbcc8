//! What a bucket of S3 does by itself: its lifecycle rules, and whether it keeps versions.

use quick_xml::de::from_str;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::account::session::Account;
use crate::account::signed::Asked;
use crate::launcher::run_role;
use gpuplan_market::SourceError;
use gpuplan_market::bucket::{BucketRules, LIFECYCLE, Loss, LossRule, Trouble, VERSIONS, Writers, concerns};

const SERVICE: &str = "s3";
const REMEDY: &str = "`TF_VAR_role_per_run=true gpuplan setup aws` lets whoever has the policy `gpuplan-run-roles` make one for each run, in the bucket of the setup";
/// Objects there are read only once they were restored (S3 user guide, "Amazon S3 Glacier storage classes"); those of GLACIER_IR at once.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// Rules that act on objects below the prefix. A bucket of another account keeps to itself what its owner allows nobody else.
pub async fn rules(account: &Account, region: &str, bucket: &str, prefix: &str) -> Result<BucketRules, SourceError> {
    let (asked, mut troubles) = (region, Vec::new());
    let mut versioning = about(account, asked, bucket, "versioning=").await;
    let there = versioning.as_ref().err().and_then(region_of).filter(|there| there != asked);
    let region = there.as_deref().unwrap_or(asked);
    if there.is_some() {
        versioning = about(account, region, bucket, "versioning=").await;
    }
    troubles.extend(there.clone().map(|there| Trouble::AnotherRegion { there, asked: asked.to_owned() }));
    let versioning: Option<Versioning> = readable(versioning, (VERSIONS, "s3:GetBucketVersioning"), &mut troubles)?;
    let lifecycle = match about(account, region, bucket, "lifecycle=").await {
        // A bucket without rules says so.
        Err(SourceError::Refused { detail, .. }) if detail.contains("NoSuchLifecycleConfiguration") => None,
        answer => readable(answer, (LIFECYCLE, "s3:GetLifecycleConfiguration"), &mut troubles)?,
    };
    let lifecycle: Lifecycle = lifecycle.unwrap_or_default();
    // Who may not ask is told so by the first request that is refused.
    let payment = about(account, region, bucket, "requestPayment=").await;
    if payment.is_ok_and(|text| text.contains("<Payer>Requester</Payer>")) {
        troubles.push(Trouble::RequesterPays);
    }
    Ok(BucketRules {
        bucket: bucket.to_owned(),
        losses: lifecycle.losses(prefix),
        can_undelete: versioning.map(|versioning| versioning.status.as_deref() == Some("Enabled")),
        troubles,
        writers: match run_role::has_roles(account, bucket).await {
            Ok(true) => Writers::OfTheRun,
            Ok(false) => Writers::OfAnyRun { remedy: REMEDY.to_owned() },
            Err(error) => Writers::Unknown(error.to_string()),
        },
    })
}

async fn about(account: &Account, region: &str, bucket: &str, what: &str) -> Result<String, SourceError> {
    account.signed(SERVICE, region, &format!("/{bucket}?{what}"), &Asked::Get).await
}

/// Where the bucket lies instead, as S3 says it to a request that was signed for another region (S3, "Error responses",
/// AuthorizationHeaderMalformed and PermanentRedirect).
fn region_of(error: &SourceError) -> Option<String> {
    let SourceError::Refused { detail, .. } = error else { return None };
    let named = detail.split_once("<Region>")?.1.split_once("</Region>")?.0;
    (!named.is_empty() && named.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        .then(|| named.to_owned())
}

/// `None`, and a trouble more, where the owner does not allow it.
fn readable<T: DeserializeOwned>(
    answer: Result<String, SourceError>,
    (what, permission): (&'static str, &'static str),
    troubles: &mut Vec<Trouble>,
) -> Result<Option<T>, SourceError> {
    match answer {
        Err(SourceError::Refused { detail, .. }) if detail.contains("AccessDenied") => {
            troubles.push(Trouble::NotReadable { what, permission });
            Ok(None)
        }
        answer => read(&answer?).map(Some),
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, SourceError> {
    from_str(text)
        .map_err(|error| SourceError::Malformed { field: "answer of S3".to_owned(), detail: error.to_string() })
}

/// `GetBucketLifecycleConfiguration`, as far as it takes current objects away.
#[derive(Debug, Default, Deserialize)]
struct Lifecycle {
    #[serde(default, rename = "Rule")]
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    #[serde(default, rename = "ID")]
    id: String,
    /// Of rules from before there were filters.
    prefix: Option<String>,
    filter: Option<Filter>,
    status: String,
    expiration: Option<Expiration>,
    #[serde(default, rename = "Transition")]
    transitions: Vec<Transition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filter {
    prefix: Option<String>,
    tag: Option<IgnoredAny>,
    and: Option<And>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct And {
    prefix: Option<String>,
    #[serde(default, rename = "Tag")]
    tags: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Expiration {
    days: Option<u32>,
    date: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Transition {
    days: Option<u32>,
    storage_class: String,
}

/// `GetBucketVersioning`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Versioning {
    status: Option<String>,
}

impl Lifecycle {
    fn losses(self, prefix: &str) -> Vec<LossRule> {
        let acts =
            |rule: &Rule| rule.status == "Enabled" && rule.prefix_of_objects().is_some_and(|own| concerns(own, prefix));
        self.rules.into_iter().filter(acts).flat_map(Rule::losses).collect()
    }
}

impl Rule {
    /// `None`: it acts on objects with tags alone, and agents set none.
    fn prefix_of_objects(&self) -> Option<&str> {
        let Some(filter) = &self.filter else { return Some(self.prefix.as_deref().unwrap_or_default()) };
        let (inner, has_tags) = match &filter.and {
            Some(and) => (and.prefix.as_deref(), !and.tags.is_empty()),
            None => (filter.prefix.as_deref(), filter.tag.is_some()),
        };
        (!has_tags).then_some(inner.unwrap_or_default())
    }

    fn losses(self) -> Vec<LossRule> {
        let loss = |loss, after_days| LossRule { rule: self.id.clone(), loss, after_days };
        // One that only takes delete markers away has neither.
        let expires = self.expiration.filter(|when| when.days.is_some() || when.date.is_some());
        let deleted = expires.map(|when| loss(Loss::Deleted, when.days));
        let archives = self.transitions.into_iter().filter(|to| ARCHIVES.contains(&to.storage_class.as_str()));
        deleted.into_iter().chain(archives.map(|to| loss(Loss::Archived, to.days))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(rules: &str) -> Vec<(String, Loss, Option<u32>)> {
        let text = format!(
            "<?xml version=\"1.0\"?><LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{rules}</LifecycleConfiguration>"
        );
        let read: Lifecycle = read(&text).unwrap();
        read.losses("team/runs/").into_iter().map(|rule| (rule.rule, rule.loss, rule.after_days)).collect()
    }

    /// The examples of the S3 user guide, "Examples of S3 Lifecycle configurations", cut to what a rule is.
    #[test]
    fn a_rule_that_takes_current_objects_away_is_named() {
        let all = "<Rule><ID>all</ID><Filter></Filter><Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>";
        assert_eq!(losses(all), [("all".to_owned(), Loss::Deleted, Some(30))]);
        let archive = "<Rule><ID>old</ID><Filter><Prefix>team/</Prefix></Filter><Status>Enabled</Status>\
            <Transition><Days>90</Days><StorageClass>GLACIER</StorageClass></Transition>\
            <Transition><Days>1</Days><StorageClass>STANDARD_IA</StorageClass></Transition>\
            <Expiration><Days>365</Days></Expiration></Rule>";
        assert_eq!(
            losses(archive),
            [("old".to_owned(), Loss::Deleted, Some(365)), ("old".to_owned(), Loss::Archived, Some(90))]
        );
        let dated = "<Rule><Prefix></Prefix><Status>Enabled</Status><Expiration><Date>2027-01-01T00:00:00.000Z</Date></Expiration></Rule>";
        assert_eq!(losses(dated), [(String::new(), Loss::Deleted, None)]);
        let sized = "<Rule><ID>big</ID><Filter><And><Prefix>team/runs/a/</Prefix><ObjectSizeGreaterThan>500</ObjectSizeGreaterThan></And>\
            </Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>";
        assert_eq!(losses(sized), [("big".to_owned(), Loss::Deleted, Some(1))]);
    }

    #[test]
    fn a_rule_that_takes_nothing_of_a_run_away_is_no_loss() {
        for rule in [
            "<Rule><ID>a</ID><Filter/><Status>Disabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
            "<Rule><ID>b</ID><Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
            "<Rule><ID>c</ID><Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
            "<Rule><ID>d</ID><Filter><And><Prefix></Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter><Status>Enabled</Status>\
             <Expiration><Days>1</Days></Expiration></Rule>",
            "<Rule><ID>e</ID><Filter/><Status>Enabled</Status><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
             <NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration></Rule>",
            "<Rule><ID>f</ID><Filter/><Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
             </AbortIncompleteMultipartUpload></Rule>",
            "<Rule><ID>g</ID><Filter/><Status>Enabled</Status><Transition><Days>1</Days><StorageClass>GLACIER_IR</StorageClass></Transition></Rule>",
        ] {
            assert_eq!(losses(rule), [], "{rule}");
        }
        assert_eq!(losses(""), []);
        assert!(read::<Lifecycle>("<html>").is_err());
        let versioning: Versioning =
            read("<VersioningConfiguration xmlns=\"x\"><Status>Suspended</Status></VersioningConfiguration>").unwrap();
        assert_eq!(versioning.status.as_deref(), Some("Suspended"));
        assert_eq!(read::<Versioning>("<VersioningConfiguration xmlns=\"x\"/>").unwrap().status, None);
    }

    /// Answers of S3 as its reference has them ("Error responses"; "REST error responses").
    #[test]
    fn a_foreign_bucket_says_where_it_lies_and_what_it_keeps_to_itself() {
        let refused = |detail: &str| SourceError::Refused { code: "403".to_owned(), detail: detail.to_owned() };
        let elsewhere = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; the region \
            'us-east-1' is wrong; expecting 'eu-west-1'</Message><Region>eu-west-1</Region></Error>";
        assert_eq!(region_of(&refused(elsewhere)).as_deref(), Some("eu-west-1"));
        for other in
            ["<Error><Code>AccessDenied</Code></Error>", "<Region></Region>", "<Region>a/../b</Region>", "<Region>x"]
        {
            assert_eq!(region_of(&refused(other)), None, "{other}");
        }
        let mut troubles = Vec::new();
        let denied = refused("<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>");
        let read = readable::<Versioning>(Err(denied), (VERSIONS, "s3:GetBucketVersioning"), &mut troubles).unwrap();
        assert!(read.is_none());
        assert_eq!(troubles, [Trouble::NotReadable { what: VERSIONS, permission: "s3:GetBucketVersioning" }]);
        assert!(
            readable::<Versioning>(Err(refused("<Code>NoSuchBucket</Code>")), (VERSIONS, ""), &mut troubles).is_err()
        );
    }
}
