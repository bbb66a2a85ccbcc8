//! What doctor found: accounts, permissions that are missing, quotas that block, each with what to type next.

use schemars::JsonSchema;
use serde::Serialize;

use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_market::bucket::{BucketRules, LIFECYCLE, Loss, LossRule, Trouble, Writers};
use gpuplan_market::{Permission, Quota, Tried, Verdict};

/// Credentials of one cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccountRow {
    Found {
        account: String,
        /// The user or role that the credentials belong to.
        principal: String,
        /// Where the credentials were found.
        found_in: String,
    },
    /// No credentials, and what says so.
    Missing(String),
    /// This binary cannot ask the cloud's account: it was built without this feature.
    NotBuilt(&'static str),
    /// A key opens its prices; gpuplan knows no more of its accounts.
    PricesOnly,
    /// Everything that gpuplan asks is public.
    NotNeeded,
}

/// Everything found about one cloud.
#[derive(Clone, Debug)]
pub struct Check {
    pub cloud: String,
    pub public_sources: usize,
    pub account: AccountRow,
    /// Where credentials were looked for.
    pub tried: Vec<Tried>,
    pub permissions: Vec<Permission>,
    pub quotas: Vec<Quota>,
    /// Of the stores of runs.
    pub buckets: Vec<BucketRules>,
    /// Questions that got no answer.
    pub problems: Vec<String>,
}

pub struct Context {
    pub has_plan: bool,
    pub width: u16,
}

/// `gpuplan doctor -o json`.
#[derive(Serialize, JsonSchema)]
pub struct CloudChecks<'a> {
    version: u32,
    clouds: Vec<CloudCheck<'a>>,
}

/// What was found about one cloud.
#[derive(Serialize, JsonSchema)]
struct CloudCheck<'a> {
    cloud: &'a str,
    account: &'a AccountRow,
    /// Where credentials were looked for, in that order.
    credentials: Vec<CredentialPlace<'a>>,
    /// Sources that answer without an account.
    public_sources: usize,
    permissions: Vec<PermissionCheck<'a>>,
    quotas: Vec<QuotaCheck<'a>>,
    buckets: Vec<BucketCheck<'a>>,
    /// Questions that got no answer.
    problems: &'a [String],
}

/// A place where credentials may stand.
#[derive(Serialize, JsonSchema)]
struct CredentialPlace<'a> {
    /// Such as a variable, a profile, a file or a service.
    place: &'a str,
    /// What stands there; `null`: nothing.
    found: Option<&'a str>,
}

/// Whether the account may do what a launch needs.
#[derive(Serialize, JsonSchema)]
struct PermissionCheck<'a> {
    /// As the cloud names it.
    action: &'a str,
    needed_for: &'a str,
    /// `allowed`, `denied` or `unknown`.
    verdict: &'static str,
    detail: &'a str,
}

/// What the bucket of a store does by itself to what runs keep there.
#[derive(Serialize, JsonSchema)]
struct BucketCheck<'a> {
    bucket: &'a str,
    /// Whether what was deleted or overwritten can be brought back for a while; `null`: the cloud did not say.
    can_undelete: Option<bool>,
    /// Why runs may not do there what they do in a bucket that `gpuplan setup` made, such as one of another account.
    troubles: Vec<String>,
    /// Whose machines may write to a run there: `of-the-run`, which has a role of its own, `of-any-run`, or `unknown`.
    writers: &'static str,
    losses: Vec<LossCheck<'a>>,
}

/// A rule of the bucket that takes checkpoints away.
#[derive(Serialize, JsonSchema)]
struct LossCheck<'a> {
    /// As the cloud names it; empty where rules have no names.
    rule: &'a str,
    /// `deletes` or `archives`.
    does: &'static str,
    /// `null`: at a date, or on another condition.
    after_days: Option<u32>,
}

/// Whether a quota leaves room for the plan.
#[derive(Serialize, JsonSchema)]
struct QuotaCheck<'a> {
    /// As the cloud names it.
    code: &'a str,
    name: &'a str,
    region: &'a str,
    /// What `limit`, `used` and `needed` count.
    unit: &'a str,
    limit: f64,
    /// `null` where the cloud does not say.
    used: Option<f64>,
    needed: f64,
    /// Whether the plan would be refused.
    blocks: bool,
    /// The command that asks for more.
    request: &'a str,
}

pub fn json(checks: &[Check]) -> String {
    pretty(&CloudChecks { version: VERSION, clouds: checks.iter().map(cloud_check).collect() })
}

fn cloud_check(check: &Check) -> CloudCheck<'_> {
    CloudCheck {
        cloud: &check.cloud,
        account: &check.account,
        credentials: check
            .tried
            .iter()
            .map(|tried| CredentialPlace { place: &tried.place, found: tried.found.as_deref() })
            .collect(),
        public_sources: check.public_sources,
        permissions: check.permissions.iter().map(permission_check).collect(),
        quotas: check.quotas.iter().map(quota_check).collect(),
        buckets: check.buckets.iter().map(bucket_check).collect(),
        problems: &check.problems,
    }
}

fn permission_check(permission: &Permission) -> PermissionCheck<'_> {
    let (verdict, detail) = verdict(&permission.verdict);
    PermissionCheck { action: &permission.action, needed_for: permission.needed_for, verdict, detail }
}

fn bucket_check<'a>(rules: &'a BucketRules) -> BucketCheck<'a> {
    let loss = |rule: &'a LossRule| LossCheck { rule: &rule.rule, does: does(rule.loss), after_days: rule.after_days };
    let losses = rules.losses.iter().map(loss);
    let writers = match rules.writers {
        Writers::OfTheRun => "of-the-run",
        Writers::OfAnyRun { .. } => "of-any-run",
        Writers::Unknown(_) => "unknown",
    };
    let troubles = rules.troubles.iter().map(trouble).collect();
    let BucketRules { bucket, can_undelete, .. } = rules;
    BucketCheck { bucket, can_undelete: *can_undelete, troubles, writers, losses: losses.collect() }
}

fn trouble(trouble: &Trouble) -> String {
    match trouble {
        Trouble::NotReadable { what, permission } => {
            format!("its {what} cannot be read: its owner has to allow you `{permission}` on it")
        }
        Trouble::AnotherRegion { there, asked } => format!(
            "it lies in {there}, and runs look for it in {asked}: set AWS_REGION={there}; machines elsewhere pay for what they fetch and send"
        ),
        Trouble::RequesterPays => {
            "whoever asks pays there, and no run says that it does: every request is refused; keep runs in another bucket".to_owned()
        }
    }
}

fn does(loss: Loss) -> &'static str {
    match loss {
        Loss::Deleted => "deletes",
        Loss::Archived => "archives",
    }
}

fn quota_check(quota: &Quota) -> QuotaCheck<'_> {
    QuotaCheck {
        code: &quota.code,
        name: &quota.name,
        region: &quota.region,
        unit: quota.unit,
        limit: quota.limit,
        used: quota.used,
        needed: quota.needed,
        blocks: quota.blocks(),
        request: &quota.request,
    }
}

fn verdict(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Allowed => ("allowed", ""),
        Verdict::Denied { detail } => ("denied", detail),
        Verdict::Unknown { detail } => ("unknown", detail),
    }
}

pub fn text(checks: &[Check], context: &Context) -> String {
    let columns = [
        Column::left("cloud", 0),
        Column::left("account", 0),
        Column::right("permissions", 0),
        Column::right("quotas", 0),
        Column::right("public sources", 100),
    ];
    let mut text = render(&columns, checks.iter().map(row), context.width);
    for check in checks {
        section(check, context, &mut text);
    }
    if !context.has_plan {
        text.push('\n');
        text.push_str(&wrap(
            "Quotas are checked for a plan: `gpuplan doctor FILE`, or with the flags of `plan`, names those that would block it.",
            context.width,
            "",
        ));
        text.push('\n');
    }
    text
}

fn row(check: &Check) -> Vec<String> {
    let account = match &check.account {
        AccountRow::Found { account, principal, found_in } => format!("{account} as {principal}, from {found_in}"),
        AccountRow::Missing(why) => why.clone(),
        AccountRow::NotBuilt(feature) => format!("this build cannot ask; build with the feature `{feature}`"),
        AccountRow::PricesOnly => "a key opens its prices (`gpuplan refresh` says which)".to_owned(),
        AccountRow::NotNeeded => "none needed".to_owned(),
    };
    let denied =
        check.permissions.iter().filter(|permission| matches!(permission.verdict, Verdict::Denied { .. })).count();
    let unknown =
        check.permissions.iter().filter(|permission| matches!(permission.verdict, Verdict::Unknown { .. })).count();
    let permissions = match (check.permissions.len(), denied, unknown) {
        (0, ..) => String::new(),
        (all, 0, 0) => format!("all {all}"),
        (all, 0, unknown) => format!("{} of {all}, {unknown} unknown", all - unknown),
        (all, denied, _) => format!("{denied} of {all} MISSING"),
    };
    let blocked = check.quotas.iter().filter(|quota| quota.blocks()).count();
    let quotas = match (check.quotas.len(), blocked) {
        (0, _) => String::new(),
        (all, 0) => format!("{all} suffice"),
        (all, blocked) => format!("{blocked} of {all} BLOCK"),
    };
    vec![check.cloud.clone(), account, permissions, quotas, check.public_sources.to_string()]
}

/// Where credentials were looked for, and what was there. `None`: the cloud has no such places.
fn looked_in(tried: &[Tried]) -> Option<String> {
    let place = |tried: &Tried| format!("{} ({})", tried.place, tried.found.as_deref().unwrap_or("nothing"));
    let places: Vec<String> = tried.iter().map(place).collect();
    (!places.is_empty()).then(|| format!("- looked for credentials in {}", places.join(", ")))
}

fn section(check: &Check, context: &Context, text: &mut String) {
    let mut say = |line: String| text.push_str(&(wrap(&line, context.width, "  ") + "\n"));
    let doubtful: Vec<&Permission> =
        check.permissions.iter().filter(|permission| permission.verdict != Verdict::Allowed).collect();
    let blocking: Vec<&Quota> = check.quotas.iter().filter(|quota| quota.blocks()).collect();
    let looked = if matches!(check.account, AccountRow::Missing(_)) { looked_in(&check.tried) } else { None };
    let is_fine = doubtful.is_empty() && check.quotas.is_empty() && check.problems.is_empty();
    if is_fine && check.buckets.is_empty() && looked.is_none() {
        return;
    }
    say(String::new());
    say(format!("{}:", check.cloud));
    if let Some(looked) = looked {
        say(looked);
    }
    for permission in doubtful {
        let (word, detail) = verdict(&permission.verdict);
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        say(format!("- {word}: {}, needed {}{detail}", permission.action, permission.needed_for));
    }
    for quota in &check.quotas {
        let used = quota.used.map_or(String::new(), |used| format!(", {used} in use"));
        let word = if quota.blocks() { "BLOCKS" } else { "suffices" };
        say(format!(
            "- quota {word}: {} {} in {}: {} of {} {} needed{used}",
            quota.code, quota.name, quota.region, quota.needed, quota.limit, quota.unit
        ));
    }
    for quota in blocking {
        say(format!("- to ask for more: {}", quota.request));
    }
    for rules in &check.buckets {
        bucket(rules, &mut say);
    }
    for problem in &check.problems {
        say(format!("- not known: {problem}"));
    }
}

fn bucket(rules: &BucketRules, say: &mut impl FnMut(String)) {
    let BucketRules { bucket, losses, can_undelete, troubles, writers } = rules;
    for one in troubles {
        let mark = if matches!(one, Trouble::RequesterPays) { "REFUSES" } else { "differs" };
        say(format!("- bucket {mark}: {bucket}: {}", trouble(one)));
    }
    let rules_are_known = !troubles.iter().any(|one| matches!(one, Trouble::NotReadable { what: LIFECYCLE, .. }));
    for LossRule { rule, loss, after_days } in losses {
        let name = if rule.is_empty() { String::new() } else { format!(" `{rule}`") };
        let after =
            after_days.map_or_else(|| "at some time".to_owned(), |days| format!("{days} days after it was written"));
        say(format!(
            "- bucket LOSES: a rule{name} of {bucket} {} what runs keep, {after}: checkpoints share files that stay the same, so a run \
             that lasts longer cannot be restored; limit the rule to another prefix",
            does(*loss)
        ));
    }
    if losses.is_empty() && rules_are_known {
        say(format!("- bucket {bucket}: no rule takes away what runs keep"));
    }
    say(match writers {
        Writers::OfTheRun => format!("- bucket {bucket}: each run has a role of its own, which writes to no other run"),
        Writers::OfAnyRun { remedy } => {
            format!(
                "- bucket {bucket}: machines of all its runs have one role, which writes below any of them; {remedy}"
            )
        }
        Writers::Unknown(why) => format!("- not known: whether runs in {bucket} have a role each: {why}"),
    });
    if *can_undelete == Some(false) {
        say(format!(
            "- bucket {bucket}: what is deleted or overwritten is lost; `gpuplan setup` makes buckets that keep it for days"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_loses_checkpoints_says_so() {
        let shared = || Writers::OfAnyRun { remedy: "do this".to_owned() };
        let rules = |losses: Vec<LossRule>, can_undelete| BucketRules {
            bucket: "s3://b".to_owned(),
            losses,
            can_undelete: Some(can_undelete),
            troubles: Vec::new(),
            writers: shared(),
        };
        let said = |rules: BucketRules| {
            let mut text = String::new();
            bucket(&rules, &mut |line| text += &(line + "\n"));
            text
        };
        let loss = |loss, after_days| LossRule { rule: "old".to_owned(), loss, after_days };
        let text = said(rules(vec![loss(Loss::Deleted, Some(30)), loss(Loss::Archived, None)], false));
        for part in [
            "a rule `old` of s3://b deletes what runs keep, 30 days after",
            "archives what runs keep, at some time",
            "overwritten is lost",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = said(rules(Vec::new(), true));
        assert!(
            text.starts_with("- bucket s3://b: no rule takes away what runs keep\n") && text.contains("one role"),
            "{text}"
        );
        assert!(!text.contains("LOSES") && !text.contains("lost") && text.contains("; do this\n"), "{text}");
        let text = said(BucketRules { writers: Writers::OfTheRun, ..rules(Vec::new(), true) });
        assert!(text.contains("each run has a role of its own") && !text.contains("one role"), "{text}");
    }

    #[test]
    fn what_is_not_known_of_a_foreign_bucket_is_not_said_to_be_fine() {
        let not_readable = |what, permission| Trouble::NotReadable { what, permission };
        let rules = BucketRules {
            bucket: "theirs".to_owned(),
            losses: Vec::new(),
            can_undelete: None,
            troubles: vec![
                not_readable(LIFECYCLE, "s3:GetLifecycleConfiguration"),
                not_readable("versioning", "s3:GetBucketVersioning"),
                Trouble::AnotherRegion { there: "eu-west-1".to_owned(), asked: "us-east-1".to_owned() },
                Trouble::RequesterPays,
            ],
            writers: Writers::OfTheRun,
        };
        let mut text = String::new();
        bucket(&rules, &mut |line| text += &(line + "\n"));
        for part in
            ["allow you `s3:GetLifecycleConfiguration`", "AWS_REGION=eu-west-1", "REFUSES: theirs: whoever asks pays"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("no rule takes") && !text.contains("is lost"), "{text}");
        assert_eq!((bucket_check(&rules).can_undelete, bucket_check(&rules).troubles.len()), (None, 4));
    }

    #[test]
    fn a_missing_permission_and_a_zero_quota_are_named_with_what_to_type() {
        let quota = Quota {
            code: "L-7212CCBC".to_owned(),
            name: "All P Spot Instance Requests".to_owned(),
            region: "us-east-1".to_owned(),
            unit: "vCPUs",
            limit: 0.0,
            used: None,
            needed: 192.0,
            request: "aws service-quotas request-service-quota-increase".to_owned(),
        };
        let denied = Permission {
            action: "ec2:RunInstances".to_owned(),
            needed_for: "to start machines",
            verdict: Verdict::Denied { detail: "UnauthorizedOperation".to_owned() },
        };
        let check = Check {
            cloud: "aws".to_owned(),
            public_sources: 3,
            account: AccountRow::Found {
                account: "1".to_owned(),
                principal: "me".to_owned(),
                found_in: "environment".to_owned(),
            },
            tried: vec![
                Tried { place: "profile work".to_owned(), found: Some("single sign-on".to_owned()) },
                Tried { place: "AWS_ACCESS_KEY_ID".to_owned(), found: None },
            ],
            permissions: vec![denied],
            quotas: vec![quota],
            buckets: Vec::new(),
            problems: Vec::new(),
        };
        let said = text(std::slice::from_ref(&check), &Context { has_plan: true, width: 100 });
        for part in [
            "1 of 1 MISSING",
            "1 of 1 BLOCK",
            "denied: ec2:RunInstances",
            "L-7212CCBC",
            "192 of 0 vCPUs",
            "to ask for more: aws service-quotas",
        ] {
            assert!(said.contains(part), "{part} in\n{said}");
        }
        let missing = Check { account: AccountRow::Missing("no credentials".to_owned()), ..check.clone() };
        let said = text(&[missing], &Context { has_plan: true, width: 200 });
        assert!(
            said.contains("looked for credentials in profile work (single sign-on), AWS_ACCESS_KEY_ID (nothing)"),
            "{said}"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&[check])).unwrap();
        assert_eq!(value["clouds"][0]["credentials"][1]["found"], serde_json::Value::Null);
        assert_eq!(value["clouds"][0]["quotas"][0]["blocks"], true);
        assert_eq!(value["clouds"][0]["permissions"][0]["verdict"], "denied");
    }
}
