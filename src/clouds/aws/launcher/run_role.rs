//! A role for each run, where the account has the policy for it: its machines write below the prefix of their run alone and read the secrets of
//! their run alone. What the role may do is the setup's, by its tags; nothing that is made here can do more (`gpuplan-run` is its boundary, too).

use std::time::Duration;

use gpuplan_runstore::layout::Layout;
use gpuplan_runstore::sha256;
use serde_json::json;

use crate::account::session::Account;
use crate::account::signed::Asked;
use gpuplan_launch::Access;
use gpuplan_market::SourceError;

/// Of `setup.tf`, with `role_per_run`: the policy of such roles.
pub const POLICY: &str = "gpuplan-run";
/// Of roles and their profiles: the setup allows to make and pass what lies here, and nothing else.
const PATH: &str = "/gpuplan/";
/// Buckets that the setup makes begin so; the account and the region follow.
const BUCKET: &str = "gpuplan-runs-";
/// Secrets that the setup lets machines read begin so.
const SECRETS: &str = "gpuplan/";
/// Tags of a role, which the policy names: the run, its place in the bucket, its secrets by number, and how the places of a sweep's runs begin.
const RUN: &str = "gpuplan-run";
const PREFIX: &str = "gpuplan-prefix";
const SECRET: &str = "gpuplan-secret";
const WITHIN: &str = "gpuplan-within";
/// In the place of a secret or a sweep that the run does not have: a role has every tag from the first, since nobody may change one that is
/// there. No store has such a key, and nobody such a secret.
const NONE: &str = "//";
/// The policy takes three digits behind the name of a sweep.
const MOST_WITHIN: u32 = 1000;
/// As many secrets as the policy has lines for.
const MOST_SECRETS: usize = 5;
/// Names of roles have 64 characters at most (IAM, "Name requirements"): a dash and twelve of a hash follow.
const LONGEST_NAME: usize = 50;
const MARK: usize = 12;
/// Of a tag's value (IAM, "Tagging limits"). Characters.
const LONGEST_TAG: usize = 256;
/// IAM is one for all regions, and asked in this one.
const REGION: &str = "us-east-1";
const SERVICE: &str = "iam";
/// Of no run.
const NO_PROFILE: &str = "gpuplan-dry-run";
const VERSION: &str = "2010-05-08";
/// Until EC2 knows a new profile. IAM says "within seconds" (IAM, "Changes that I make are not always immediately visible").
pub const KNOWN_AFTER: Duration = Duration::from_secs(10);

/// A role as it has to be for one run. Its name is another with everything that it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRole {
    pub name: String,
    account: String,
    tags: Vec<(String, String)>,
}

impl RunRole {
    /// `None`: the policy has no words for it, so the machines have the role of the setup. `owner`: the ARN of the caller.
    pub fn of(access: &Access, owner: &str) -> Option<Self> {
        let account = owner.split(':').nth(4).filter(|account| !account.is_empty())?;
        let (bucket, prefix) =
            access.store.strip_prefix("s3://").map(|place| place.split_once('/').unwrap_or((place, "")))?;
        let is_ours = bucket.strip_prefix(BUCKET).is_some_and(|rest| rest.starts_with(&format!("{account}-")));
        let is_small =
            access.secrets.len() <= MOST_SECRETS && access.runs_within.is_none_or(|runs| runs <= MOST_WITHIN);
        if !is_ours || !is_small || access.is_shared {
            return None;
        }
        let prefix = prefix.trim_matches('/');
        let own = Layout::new(&access.run).ok()?.folder();
        let place = if prefix.is_empty() { own } else { format!("{prefix}/{own}") };
        let within = access.runs_within.map_or_else(|| NONE.to_owned(), |_| format!("{place}-"));
        let mut tags = vec![(RUN.to_owned(), access.run.clone()), (PREFIX.to_owned(), place)];
        for number in 0..MOST_SECRETS {
            // What is called otherwise no machine may read.
            let name = access.secrets.get(number).and_then(|secret| secret.strip_prefix(SECRETS)).unwrap_or(NONE);
            tags.push((format!("{SECRET}-{}", number + 1), name.to_owned()));
        }
        tags.push((WITHIN.to_owned(), within));
        if tags.iter().any(|(_, value)| value.chars().count() > LONGEST_TAG) {
            return None;
        }
        let mark: String = sha256(format!("{bucket} {tags:?}").as_bytes()).chars().take(MARK).collect();
        let run: String = access.run.chars().take(LONGEST_NAME).collect();
        Some(Self { name: format!("{run}-{mark}"), account: account.to_owned(), tags })
    }

    fn policy(&self) -> String {
        format!("arn:aws:iam::{}:policy/{POLICY}", self.account)
    }
}

/// Whether the account has the policy, and lets the caller see it.
pub async fn is_allowed(account: &Account, role: &RunRole) -> Result<bool, SourceError> {
    has_policy(account, &role.policy()).await
}

async fn has_policy(account: &Account, policy: &str) -> Result<bool, SourceError> {
    match asked(account, "GetPolicy", &[("PolicyArn", policy)]).await {
        Err(error) if is_said(&error, &["NoSuchEntity", "AccessDenied"]) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Whether runs in this bucket have roles of their own when the caller launches them, as far as it can be asked without making one.
pub async fn has_roles(account: &Account, bucket: &str) -> Result<bool, SourceError> {
    // The bucket of a setup names its account.
    let id = bucket.strip_prefix(BUCKET).and_then(|rest| rest.split('-').next());
    let Some(id) = id.filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())) else {
        return Ok(false);
    };
    if !has_policy(account, &format!("arn:aws:iam::{id}:policy/{POLICY}")).await? {
        return Ok(false);
    }
    // Allowed with the actions that make roles, by one policy.
    match asked(account, "GetInstanceProfile", &[("InstanceProfileName", NO_PROFILE)]).await {
        Err(error) if is_said(&error, &["NoSuchEntity"]) => Ok(true),
        Err(error) if is_said(&error, &["AccessDenied"]) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Makes what is not there yet; whether the profile is new.
pub async fn ensure(account: &Account, role: &RunRole) -> Result<bool, SourceError> {
    let profile = ("InstanceProfileName", role.name.as_str());
    match asked(account, "GetInstanceProfile", &[profile]).await {
        // One that another call was about to fill has no role yet.
        Ok(found) if found.contains("<RoleName>") => return Ok(false),
        Err(error) if !is_said(&error, &["NoSuchEntity"]) => return Err(error),
        _ => {}
    }
    let (named, policy) = (("RoleName", role.name.as_str()), role.policy());
    let trust = json!({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}],
    });
    let trust = trust.to_string();
    let attached = ("PolicyArn", policy.as_str());
    let mut create = vec![named, ("Path", PATH), ("AssumeRolePolicyDocument", trust.as_str())];
    create.push(("PermissionsBoundary", policy.as_str()));
    let tags: Vec<[(String, &str); 2]> = (1..)
        .zip(&role.tags)
        .map(|(number, (key, value))| {
            [
                (format!("Tags.member.{number}.Key"), key.as_str()),
                (format!("Tags.member.{number}.Value"), value.as_str()),
            ]
        })
        .collect();
    create.extend(tags.iter().flatten().map(|(name, value)| (name.as_str(), *value)));
    make(account, "CreateRole", &create).await?;
    asked(account, "AttachRolePolicy", &[named, attached]).await?;
    make(account, "CreateInstanceProfile", &[profile, ("Path", PATH)]).await?;
    match asked(account, "AddRoleToInstanceProfile", &[profile, named]).await {
        // A profile has one role.
        Err(error) if is_said(&error, &["LimitExceeded"]) => Ok(true),
        answer => answer.map(|_| true),
    }
}

/// Deletes what `ensure` made. What is gone is done.
pub async fn remove(account: &Account, role: &RunRole) -> Result<(), SourceError> {
    let (profile, named) = (("InstanceProfileName", role.name.as_str()), ("RoleName", role.name.as_str()));
    let policy = role.policy();
    for (action, words) in [
        ("RemoveRoleFromInstanceProfile", &[profile, named][..]),
        ("DeleteInstanceProfile", &[profile][..]),
        ("DetachRolePolicy", &[named, ("PolicyArn", policy.as_str())][..]),
        ("DeleteRole", &[named][..]),
    ] {
        match asked(account, action, words).await {
            Err(error) if !is_said(&error, &["NoSuchEntity"]) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What is there already is as good: its name says what it may do.
async fn make(account: &Account, action: &str, words: &[(&str, &str)]) -> Result<(), SourceError> {
    match asked(account, action, words).await {
        Err(error) if is_said(&error, &["EntityAlreadyExists"]) => Ok(()),
        answer => answer.map(drop),
    }
}

async fn asked(account: &Account, action: &str, words: &[(&str, &str)]) -> Result<String, SourceError> {
    let all = [&[("Action", action), ("Version", VERSION)][..], words].concat();
    account.signed(SERVICE, REGION, "/", &Asked::form(&all)).await
}

/// IAM says which error it is in the body, beside a status that several share (IAM API reference, "Common errors").
pub fn is_said(error: &SourceError, codes: &[&str]) -> bool {
    let SourceError::Refused { detail, .. } = error else { return false };
    codes.iter().any(|code| detail.contains(&format!("<Code>{code}</Code>")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &str = "arn:aws:iam::123456789012:user/me";

    fn access() -> Access {
        Access {
            run: "llama".to_owned(),
            store: "s3://gpuplan-runs-123456789012-us-east-1/team/".to_owned(),
            secrets: vec!["gpuplan/hf-token".to_owned(), "production/db".to_owned()],
            runs_within: None,
            is_shared: false,
        }
    }

    #[test]
    fn a_role_is_tagged_with_what_its_run_may_touch() {
        let role = RunRole::of(&access(), ME).unwrap();
        let tags = [
            (RUN, "llama"),
            (PREFIX, "team/runs/llama"),
            ("gpuplan-secret-1", "hf-token"),
            // production/db is not for machines.
            ("gpuplan-secret-2", "//"),
            ("gpuplan-secret-3", "//"),
            ("gpuplan-secret-4", "//"),
            ("gpuplan-secret-5", "//"),
            (WITHIN, "//"),
        ];
        assert_eq!(role.tags, tags.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let sweep = RunRole::of(&Access { runs_within: Some(1000), ..access() }, ME).unwrap();
        assert_eq!(sweep.tags.last(), Some(&(WITHIN.to_owned(), "team/runs/llama-".to_owned())));
        assert_eq!(role.policy(), "arn:aws:iam::123456789012:policy/gpuplan-run");
        assert!(role.name.starts_with("llama-") && role.name.len() == "llama-".len() + MARK, "{}", role.name);
        assert_eq!(RunRole::of(&access(), ME), Some(role.clone()), "the same for every leader");
        for other in [
            Access { store: "s3://gpuplan-runs-123456789012-us-east-1".to_owned(), ..access() },
            Access { secrets: Vec::new(), ..access() },
        ] {
            assert_ne!(RunRole::of(&other, ME).unwrap().name, role.name, "{other:?}");
        }
        let long = RunRole::of(&Access { run: "l".repeat(60), ..access() }, ME);
        assert!(long.is_none_or(|role| role.name.len() <= 64));
    }

    #[test]
    fn what_the_policy_has_no_words_for_has_the_role_of_the_setup() {
        let many = (0..=MOST_SECRETS).map(|number| format!("gpuplan/{number}")).collect();
        for other in [
            Access { store: "s3://gpuplan-runs-999999999999-us-east-1/team".to_owned(), ..access() },
            Access { store: "s3://bucket/team".to_owned(), ..access() },
            Access { store: "file:///tmp/x".to_owned(), ..access() },
            Access { runs_within: Some(1001), ..access() },
            Access { secrets: many, ..access() },
        ] {
            assert_eq!(RunRole::of(&other, ME), None, "{other:?}");
        }
        assert_eq!(RunRole::of(&access(), "nobody"), None);
    }
}
