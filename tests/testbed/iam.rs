//! A small evaluator of IAM policies, and a reader of the policies that `setup.tf` writes: what a role may do, and what not.
//!
//! By AWS's rules for one account and identity policies alone: an explicit refusal beats everything, and what nothing allows is refused.
//! The operators, wildcards and variables are those that the policies here and AWS's own examples use; any other fails the test.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// What a request brings with it besides action and resource: condition keys, in lower case since they have no case.
pub type Context = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Nothing allows it.
    NotAllowed,
    /// A statement refuses it.
    Denied,
}

pub fn context(pairs: &[(&str, &str)]) -> Context {
    pairs.iter().map(|(key, value)| (key.to_lowercase(), (*value).to_owned())).collect()
}

/// Evaluates one request.
pub fn evaluate(policy: &Value, action: &str, resource: &str, context: &Context) -> Verdict {
    let statements = list(&policy["Statement"]);
    let fits = |statement: &&&Value| applies(statement, action, resource, context);
    let effects: Vec<&str> =
        statements.iter().filter(fits).map(|statement| statement["Effect"].as_str().unwrap()).collect();
    match effects {
        effects if effects.contains(&"Deny") => Verdict::Denied,
        effects if effects.contains(&"Allow") => Verdict::Allowed,
        _ => Verdict::NotAllowed,
    }
}

fn applies(statement: &Value, action: &str, resource: &str, context: &Context) -> bool {
    let known = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];
    let unknown = statement.as_object().unwrap().keys().find(|key| !known.contains(&key.as_str()));
    assert!(unknown.is_none(), "the evaluator does not know {unknown:?}");
    // Actions have no case.
    let acts =
        |key: &str| list(&statement[key]).iter().any(|one| like(&text(one).to_lowercase(), &action.to_lowercase()));
    let names = |key: &str| {
        list(&statement[key])
            .iter()
            .any(|one| filled(text(one), context).is_some_and(|pattern| like(&pattern, resource)))
    };
    let acts = if statement.get("NotAction").is_some() { !acts("NotAction") } else { acts("Action") };
    let is_named = if statement.get("NotResource").is_some() { !names("NotResource") } else { names("Resource") };
    acts && is_named && holds(&statement["Condition"], context)
}

/// All operators and all keys have to hold, and one value of each key.
fn holds(condition: &Value, context: &Context) -> bool {
    let Some(operators) = condition.as_object() else { return true };
    operators.iter().all(|(operator, keys)| {
        keys.as_object().unwrap().iter().all(|(key, values)| one_holds(operator, key, &list(values), context))
    })
}

fn one_holds(operator: &str, key: &str, values: &[&Value], context: &Context) -> bool {
    let given = context.get(&key.to_lowercase());
    if operator == "Null" {
        return values.iter().any(|value| (text(value) == "true") == given.is_none());
    }
    let (operator, or_missing) = operator.strip_suffix("IfExists").map_or((operator, false), |plain| (plain, true));
    let is_negated = operator.contains("Not");
    let Some(given) = given else { return or_missing || is_negated };
    let fits = |value: &&Value| {
        let Some(wanted) = filled(text(value), context) else { return false };
        match operator {
            "StringEquals" | "StringNotEquals" | "Bool" => wanted == *given,
            "StringEqualsIgnoreCase" => wanted.eq_ignore_ascii_case(given),
            "StringLike" | "StringNotLike" => like(&wanted, given),
            "ArnEquals" | "ArnLike" | "ArnNotEquals" | "ArnNotLike" => arn_like(&wanted, given),
            "IpAddress" | "NotIpAddress" => is_within(&wanted, given),
            _ => panic!("the evaluator does not know {operator}"),
        }
    };
    let any = values.iter().any(fits);
    if is_negated { !any } else { any }
}

/// `*` is any text, `?` any sign.
fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for sign in pattern {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            next[at] = match sign {
                '*' => reached[at] || at > 0 && next[at - 1],
                '?' => at > 0 && reached[at - 1],
                sign => at > 0 && reached[at - 1] && text[at - 1] == sign,
            };
        }
        reached = next;
    }
    reached[text.len()]
}

/// Each of the six parts by itself.
fn arn_like(pattern: &str, arn: &str) -> bool {
    let (wanted, given): (Vec<&str>, Vec<&str>) = (pattern.splitn(6, ':').collect(), arn.splitn(6, ':').collect());
    wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| like(wanted, given))
}

fn is_within(block: &str, address: &str) -> bool {
    let number = |text: &str| text.split('.').fold(0_u32, |sum, part| (sum << 8) + part.parse::<u32>().unwrap());
    let (start, bits) =
        block.split_once('/').map_or((block, 32), |(start, bits)| (start, bits.parse::<u32>().unwrap()));
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    number(start) & mask == number(address) & mask
}

/// A pattern with its variables; `None` if the request does not bring one, which then fits nothing.
fn filled(pattern: &str, context: &Context) -> Option<String> {
    let mut parts = pattern.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        whole += context.get(&name.to_lowercase())?;
        whole += rest;
    }
    Some(whole)
}

fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().collect(),
        one => vec![one],
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The policy of a resource of `setup.tf`, with names of other resources as `known` says.
pub fn policy_of(setup: &str, resource: &str, known: &[(&str, &str)]) -> Value {
    let body = setup.split_once(resource).unwrap_or_else(|| panic!("no {resource}")).1;
    let body = body.split_once("policy = jsonencode(").unwrap().1;
    let mut reader = Reader { rest: body, known };
    reader.value()
}

/// An expression of HCL as far as policies need it.
struct Reader<'a> {
    rest: &'a str,
    known: &'a [(&'a str, &'a str)],
}

impl Reader<'_> {
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\n', ',']);
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.split_once('\n').unwrap().1;
        }
    }

    fn takes(&mut self, sign: char) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> String {
        self.skip();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && !"_.".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn quoted(&mut self) -> String {
        let (quoted, rest) = self.rest.split_once('"').unwrap();
        self.rest = rest;
        let kept = quoted.replace("$${", "\u{0}");
        let mut filled = kept.clone();
        for (name, value) in self.known {
            filled = filled.replace(&format!("${{{name}}}"), value);
        }
        assert!(!filled.contains("${"), "`{quoted}` names what is not known");
        filled.replace('\u{0}', "${")
    }

    fn value(&mut self) -> Value {
        if self.takes('{') {
            let mut object = Map::new();
            while !self.takes('}') {
                let key = if self.takes('"') { self.quoted() } else { self.word() };
                assert!(self.takes('='), "{}", &self.rest[..40.min(self.rest.len())]);
                object.insert(key, self.value());
            }
            Value::Object(object)
        } else if self.takes('[') {
            let mut values = Vec::new();
            while !self.takes(']') {
                values.push(self.value());
            }
            Value::Array(values)
        } else if self.takes('"') {
            json!(self.quoted())
        } else {
            let word = self.word();
            let found = self.known.iter().find(|(name, _)| *name == word);
            json!(found.unwrap_or_else(|| panic!("`{word}` is not known")).1)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use Verdict::{Allowed, Denied, NotAllowed};

    /// What agents write below the place of their run, on every cloud.
    pub const WRITTEN_BY_AGENTS: [&str; 16] = [
        "epochs/1",
        "manifests/step-000000000500-e3.json",
        "data/e1/1/step-5/w.pt",
        "data/e1/1/keep/spec.json",
        "nodes/e1/0.json",
        "start/e1.json",
        "wanted/e1/5.json",
        "parts/e1/5-1.json",
        "leaving/e1/0.json",
        "status/0.json",
        "billed/e1-0.json",
        "logs/e1/0/00000000.zst",
        "events/x.json",
        "dataset.json",
        "sweep.json",
        "result.json",
    ];

    /// Examples of the IAM User Guide, `reference_policies_examples`, with what it says of each.
    #[test]
    fn the_examples_of_aws_come_out_as_aws_says() {
        // "Limits terminating EC2 instances to an IP address range": https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_examples_ec2_terminate-ip.html
        let by_address = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["ec2:TerminateInstances"], "Resource": ["*"]},
            {"Effect": "Deny", "Action": ["ec2:TerminateInstances"],
                "Condition": {"NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "203.0.113.0/24"]}}, "Resource": ["*"]}]});
        let one = "arn:aws:ec2:us-east-1:123456789012:instance/i-1";
        let from =
            |address| evaluate(&by_address, "ec2:TerminateInstances", one, &context(&[("aws:SourceIp", address)]));
        assert_eq!([from("192.0.2.7"), from("203.0.113.255"), from("198.51.100.1")], [Allowed, Allowed, Denied]);
        assert_eq!(evaluate(&by_address, "ec2:StartInstances", one, &Context::new()), NotAllowed);

        // "Allows users to access their own home directory": ..._s3_home-directory-console.html, with ${aws:username}.
        let home = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["s3:ListAllMyBuckets", "s3:GetBucketLocation"], "Resource": "*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket-name",
                "Condition": {"StringLike": {"s3:prefix": ["", "home/", "home/${aws:username}/*"]}}},
            {"Effect": "Allow", "Action": "s3:*",
                "Resource": ["arn:aws:s3:::bucket-name/home/${aws:username}", "arn:aws:s3:::bucket-name/home/${aws:username}/*"]}]});
        let zoe = |action, key: &str, prefix| {
            evaluate(
                &home,
                action,
                &format!("arn:aws:s3:::{key}"),
                &context(&[("aws:username", "zoe"), ("s3:prefix", prefix)]),
            )
        };
        assert_eq!(zoe("s3:PutObject", "bucket-name/home/zoe/a", ""), Allowed);
        assert_eq!(zoe("s3:PutObject", "bucket-name/home/adam/a", ""), NotAllowed);
        assert_eq!(zoe("s3:ListBucket", "bucket-name", "home/zoe/x"), Allowed);
        assert_eq!(zoe("s3:ListBucket", "bucket-name", "home/adam/x"), NotAllowed);
        assert_eq!(zoe("s3:ListBucket", "bucket-name/home", ""), NotAllowed);
        let nobody = evaluate(&home, "s3:PutObject", "arn:aws:s3:::bucket-name/home/zoe/a", &Context::new());
        assert_eq!(nobody, NotAllowed, "a variable without a value fits nothing");

        // "Start or stop instances that a user has tagged": ..._ec2_tag-owner.html.
        let owner = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["ec2:StartInstances", "ec2:StopInstances"], "Resource": "arn:aws:ec2:*:*:instance/*",
                "Condition": {"StringEquals": {"aws:ResourceTag/Owner": "${aws:username}"}}},
            {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}]});
        let whose = |name| {
            evaluate(
                &owner,
                "ec2:StopInstances",
                one,
                &context(&[("aws:username", "zoe"), ("aws:ResourceTag/Owner", name)]),
            )
        };
        assert_eq!([whose("zoe"), whose("adam"), whose("Zoe")], [Allowed, NotAllowed, NotAllowed]);
        let untagged = evaluate(&owner, "ec2:StopInstances", one, &context(&[("aws:username", "zoe")]));
        assert_eq!(untagged, NotAllowed, "a key that the request does not have fits no value");

        // "Denies access to AWS based on the requested region": ..._aws_deny-requested-region.html, NotAction.
        let region = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "*", "Resource": "*"},
            {"Effect": "Deny", "NotAction": ["cloudfront:*", "iam:*", "route53:*", "support:*"], "Resource": "*",
                "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["eu-central-1", "eu-west-1"]}}}]});
        let there = |action, name| evaluate(&region, action, "*", &context(&[("aws:RequestedRegion", name)]));
        assert_eq!(
            [
                there("ec2:RunInstances", "eu-west-1"),
                there("ec2:RunInstances", "us-east-1"),
                there("iam:ListUsers", "us-east-1")
            ],
            [Allowed, Denied, Allowed]
        );
    }

    #[test]
    fn an_arn_is_compared_part_by_part_and_actions_have_no_case() {
        assert!(arn_like("arn:aws:ec2:*:*:instance/i-1", "arn:aws:ec2:us-east-1:1:instance/i-1"));
        assert!(!arn_like("arn:aws:ec2:*:instance/i-1", "arn:aws:ec2:us-east-1:1:instance/i-1"));
        let policy = json!({"Statement": {"Effect": "Allow", "Action": "EC2:run*", "Resource": "*"}});
        assert_eq!(evaluate(&policy, "ec2:RunInstances", "x", &Context::new()), Allowed);
        assert!(like("a*c?", "abbcd") && !like("a*c?", "abbc") && like("*", ""));
    }

    const ACCOUNT: &str = "123456789012";
    const BUCKET: &str = "arn:aws:s3:::gpuplan-runs-123456789012-us-east-1";

    fn role(resource: &str) -> Value {
        let setup = concat!(
            include_str!("../../src/clouds/aws/setup/account.tf"),
            include_str!("../../src/clouds/aws/setup/run_roles.tf")
        );
        let role = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-machine");
        let leader = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-leader");
        let end = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-end");
        let known = [
            ("aws_s3_bucket.runs.arn", BUCKET),
            ("data.aws_caller_identity.me.account_id", ACCOUNT),
            ("var.name", "gpuplan"),
            ("aws_iam_role.machine.arn", &role),
            ("aws_iam_role.leader.arn", &leader),
            ("aws_iam_role.end.arn", &end),
        ];
        policy_of(setup, resource, &known)
    }

    #[test]
    fn a_machine_writes_what_agents_write_reads_its_secrets_and_ends_itself() {
        let machine = role("\"aws_iam_role_policy\" \"machine\"");
        let instance = |id: &str| format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/{id}");
        let me = |about: &[(&str, &str)]| {
            let own = instance("i-0me");
            context(&[&[("ec2:SourceInstanceARN", own.as_str())], about].concat())
        };
        let ask = |action: &str, resource: &str| evaluate(&machine, action, resource, &me(&[]));
        let object = |key: &str| format!("{BUCKET}/{key}");
        for key in WRITTEN_BY_AGENTS {
            for place in ["runs/r", "team/runs/r"] {
                assert_eq!(ask("s3:PutObject", &object(&format!("{place}/{key}"))), Allowed, "{place}/{key}");
            }
        }
        for key in [
            "runs/_bin/ab/gpuplan",
            "runs/r/spec.json",
            "runs/r/next/0123ab.json",
            "team/runs/r/spec.json",
            "runs/r/workdir/ab.tar.gz",
            "runs/r/dataset/ab/x",
            "runs/r/keep/500",
            "runs/r/rented.json",
            "other/file",
            "terraform.tfstate",
        ] {
            assert_eq!(ask("s3:PutObject", &object(key)), NotAllowed, "{key}");
            assert_eq!(ask("s3:GetObject", &object(key)), Allowed, "{key}");
        }
        // Folders and files of a job's data may be called as those of a run.
        let digest = "0123456789abcdef".repeat(4);
        for file in ["data/x", "logs/2026/x", "result.json", "a/parts/x", "a/dataset.json"] {
            for place in ["runs/r", "team/runs/r"] {
                let key = format!("{place}/dataset/{digest}/{file}");
                for action in ["s3:PutObject", "s3:DeleteObject"] {
                    assert_ne!(ask(action, &object(&key)), Allowed, "{action} {key}");
                }
                assert_eq!(ask("s3:GetObject", &object(&key)), Allowed, "{key}");
            }
        }
        for key in ["data/e1/1/step-5/dataset/state.json", "data/e1/1/step-5/dataset/shards/0.pt"] {
            assert_eq!(ask("s3:PutObject", &object(&format!("runs/r/{key}"))), Allowed, "a checkpoint may have {key}");
        }
        for key in ["runs/r/manifests/step-000000000500-e3.json", "runs/r/data/e1/1/w"] {
            assert_eq!(ask("s3:DeleteObject", &object(key)), Allowed, "{key}");
        }
        for key in ["runs/r/epochs/1", "runs/r/spec.json", "runs/r/status/0.json", "runs/r/logs/e1/0/00000000.zst"] {
            assert_eq!(ask("s3:DeleteObject", &object(key)), NotAllowed, "{key}");
        }
        assert_eq!(ask("s3:ListBucket", BUCKET), Allowed);
        // With these, what was deleted could not be brought back.
        let all = [
            "s3:DeleteObjectVersion",
            "s3:PutBucketVersioning",
            "s3:PutLifecycleConfiguration",
            "s3:DeleteBucket",
            "s3:PutBucketPolicy",
        ];
        for action in
            all.into_iter().chain(["ec2:RunInstances", "iam:PassRole", "ec2:CreateTags", "secretsmanager:ListSecrets"])
        {
            for resource in [BUCKET, &object("runs/r/data/e1/1/w"), "*", &instance("i-0me")] {
                assert_ne!(ask(action, resource), Allowed, "{action} {resource}");
            }
        }
        assert_eq!(ask("s3:PutObject", "arn:aws:s3:::another-team-runs/runs/r/status/0.json"), NotAllowed);
        let secret = |name: &str| {
            ask("secretsmanager:GetSecretValue", &format!("arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:{name}"))
        };
        assert_eq!(
            [secret("gpuplan/hf-token-AbCdEf"), secret("production/db-AbCdEf"), secret("gpuplan2/x")],
            [Allowed, NotAllowed, NotAllowed]
        );
        let ends = |id: &str| {
            evaluate(
                &machine,
                "ec2:TerminateInstances",
                &instance(id),
                &me(&[("ec2:InstanceID", id), ("aws:ResourceTag/gpuplan:run", "r")]),
            )
        };
        assert_eq!([ends("i-0me"), ends("i-0other")], [Allowed, NotAllowed]);
        let nobody =
            evaluate(&machine, "ec2:TerminateInstances", &instance("i-0me"), &context(&[("ec2:InstanceID", "i-0me")]));
        assert_eq!(nobody, NotAllowed, "keys that no machine was given");
        let fleet = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:fleet/fleet-1");
        let marked = |tags: &[(&str, &str)]| evaluate(&machine, "ec2:DeleteFleets", &fleet, &me(tags));
        assert_eq!([marked(&[("aws:ResourceTag/gpuplan:run", "r")]), marked(&[])], [Allowed, NotAllowed]);
    }

    #[test]
    fn whoever_launches_rents_and_ends_what_bears_the_mark_alone() {
        let launch = role("\"aws_iam_policy\" \"launch\"");
        let trains = role("\"aws_iam_role_policy\" \"machine\"");
        let ask =
            |action: &str, resource: &str, about: &[(&str, &str)]| evaluate(&launch, action, resource, &context(about));
        let machine = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1");
        let (asked, bears) = ([("aws:RequestTag/gpuplan:run", "r")], [("aws:ResourceTag/gpuplan:run", "r")]);
        assert_eq!(
            [ask("ec2:RunInstances", &machine, &asked), ask("ec2:RunInstances", &machine, &[])],
            [Allowed, NotAllowed]
        );
        assert_eq!(
            [ask("ec2:TerminateInstances", &machine, &bears), ask("ec2:TerminateInstances", &machine, &[])],
            [Allowed, NotAllowed]
        );
        let lend = |about| ask("ec2-instance-connect:SendSSHPublicKey", &machine, about);
        assert_eq!([lend(&bears), lend(&[][..])], [Allowed, NotAllowed]);
        let session =
            |document: &str| ask("ssm:StartSession", &format!("arn:aws:ssm:us-east-1::document/{document}"), &[]);
        assert_eq!([session("AWS-StartSSHSession"), session("AWS-RunShellScript")], [Allowed, NotAllowed]);
        let role = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-machine");
        let pass = |role: &str, to: &str| ask("iam:PassRole", role, &[("iam:PassedToService", to)]);
        let other = format!("arn:aws:iam::{ACCOUNT}:role/admin");
        assert_eq!(
            [pass(&role, "ec2.amazonaws.com"), pass(&role, "lambda.amazonaws.com"), pass(&other, "ec2.amazonaws.com")],
            [Allowed, NotAllowed, NotAllowed]
        );
        let end = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-end");
        assert_eq!(
            [pass(&end, "scheduler.amazonaws.com"), pass(&end, "ec2.amazonaws.com")],
            [Allowed, NotAllowed],
            "schedules end machines, and machines end no other"
        );
        let schedule = |name: &str| format!("arn:aws:scheduler:us-east-1:{ACCOUNT}:schedule/default/{name}");
        assert_eq!(
            [
                ask("scheduler:CreateSchedule", &schedule("gpuplan-i-1"), &[]),
                ask("scheduler:UpdateSchedule", &schedule("gpuplan-i-1"), &[]),
                ask("scheduler:DeleteSchedule", &schedule("payroll"), &[])
            ],
            [Allowed, Allowed, NotAllowed]
        );
        // Whoever may move a schedule may have it end another machine, so machines that train may not.
        for action in ["scheduler:CreateSchedule", "scheduler:UpdateSchedule", "scheduler:DeleteSchedule"] {
            assert_eq!(evaluate(&trains, action, &schedule("gpuplan-i-1"), &Context::new()), NotAllowed, "{action}");
        }
        for action in [
            "s3:DeleteObjectVersion",
            "iam:CreateRole",
            "ec2:AuthorizeSecurityGroupIngress",
            "secretsmanager:GetSecretValue",
        ] {
            assert_eq!(ask(action, "*", &bears), NotAllowed, "{action}");
        }
    }

    /// Its role has the policies of machines, of whoever launches, and its own.
    #[test]
    fn a_leader_launches_but_starts_no_leader_and_buys_nothing() {
        let launch = role("\"aws_iam_policy\" \"launch\"");
        let machine = role("\"aws_iam_role_policy\" \"machine\"");
        let own = role("\"aws_iam_role_policy\" \"leader\"");
        let setup = include_str!("../../src/clouds/aws/setup/account.tf");
        for given in [
            "role       = aws_iam_role.leader.name\n  policy_arn = aws_iam_policy.launch.arn",
            "role   = aws_iam_role.leader.id\n  policy = aws_iam_role_policy.machine.policy",
        ] {
            assert!(setup.contains(given), "{given}");
        }
        let ask = |action: &str, resource: &str, about: &[(&str, &str)]| {
            let verdicts = [&launch, &machine, &own].map(|policy| evaluate(policy, action, resource, &context(about)));
            if verdicts.contains(&Denied) {
                Denied
            } else if verdicts.contains(&Allowed) {
                Allowed
            } else {
                NotAllowed
            }
        };
        let object = |key: &str| format!("{BUCKET}/{key}");
        for key in ["lead/2", "lead-over/2", "lead-keeps/2", "lease/7", "stop/3", "rented.json", "status/0.json"] {
            assert_eq!(ask("s3:PutObject", &object(&format!("team/runs/r/{key}")), &[]), Allowed, "{key}");
        }
        for key in ["runs/_bin/ab/gpuplan", "runs/r/spec.json", "runs/r/workdir/ab.tar.gz"] {
            assert_eq!(ask("s3:PutObject", &object(key), &[]), Denied, "{key}");
        }
        let to_ec2 = [("iam:PassedToService", "ec2.amazonaws.com")];
        let passes = |role: &str| ask("iam:PassRole", &format!("arn:aws:iam::{ACCOUNT}:role/{role}"), &to_ec2);
        assert_eq!(["gpuplan-machine", "gpuplan-leader", "admin"].map(passes), [Allowed, Denied, NotAllowed]);
        let instance = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/*");
        assert_eq!(ask("ec2:RunInstances", &instance, &[("aws:RequestTag/gpuplan:run", "r")]), Allowed);
        let block = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:capacity-reservation/cr-1");
        assert_eq!(ask("ec2:PurchaseCapacityBlock", &block, &[("aws:RequestTag/gpuplan:run", "r")]), Denied);
        for action in ["iam:CreateRole", "iam:AttachRolePolicy", "s3:DeleteObjectVersion", "s3:DeleteBucket"] {
            assert_eq!(ask(action, "*", &[]), NotAllowed, "{action}");
        }
        // Whoever launches gives a leader its role; a machine that trains does not.
        let leader = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan-leader");
        assert_eq!(evaluate(&launch, "iam:PassRole", &leader, &context(&to_ec2)), Allowed);
        assert_eq!(evaluate(&machine, "iam:PassRole", &leader, &context(&to_ec2)), NotAllowed);
    }

    /// As whoever launches tags its role.
    #[test]
    fn a_machine_with_a_role_of_its_run_touches_no_other_run() {
        let policy = role("\"aws_iam_policy\" \"run\"");
        // Managed policies have 6,144 characters at most, white space not counted (IAM, "IAM and AWS STS quotas").
        assert!(policy.to_string().len() < 6144, "{}", policy.to_string().len());
        let own = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-0me");
        let me = [
            ("aws:PrincipalTag/gpuplan-run", "llama"),
            ("aws:PrincipalTag/gpuplan-prefix", "team/runs/llama"),
            ("aws:PrincipalTag/gpuplan-secret-1", "hf-token"),
            ("aws:PrincipalTag/gpuplan-secret-2", "//"),
            ("aws:PrincipalTag/gpuplan-within", "//"),
            ("ec2:SourceInstanceARN", own.as_str()),
        ];
        let ask = |action: &str, resource: &str, about: &[(&str, &str)]| {
            evaluate(&policy, action, resource, &context(&[&me[..], about].concat()))
        };
        let puts = |key: &str| ask("s3:PutObject", &format!("{BUCKET}/{key}"), &[]);
        let deletes = |key: &str| ask("s3:DeleteObject", &format!("{BUCKET}/{key}"), &[]);
        for key in WRITTEN_BY_AGENTS {
            assert_eq!(puts(&format!("team/runs/llama/{key}")), Allowed, "{key}");
            for other in [
                "runs/llama",
                "team/runs/llama-2",
                "team/runs/llama-007",
                "team/runs/other",
                "other/team/runs/llama",
                "team/runs/other/data/team/runs/llama",
            ] {
                assert_eq!(puts(&format!("{other}/{key}")), NotAllowed, "{other}/{key}");
                assert_eq!(deletes(&format!("{other}/{key}")), NotAllowed, "{other}/{key}");
            }
        }
        for key in ["spec.json", "workdir/a.tar.gz", "lease/7", "lead/2", "stop/3", "rented.json", "keep/500"] {
            assert_eq!(puts(&format!("team/runs/llama/{key}")), NotAllowed, "{key}");
        }
        assert_eq!(
            [deletes("team/runs/llama/data/e1/1/w"), deletes("team/runs/llama/epochs/1")],
            [Allowed, NotAllowed]
        );
        assert_eq!(ask("s3:GetObject", &format!("{BUCKET}/team/runs/llama/spec.json"), &[]), Allowed);
        let secret = |name: &str| {
            ask(
                "secretsmanager:GetSecretValue",
                &format!("arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:{name}"),
                &[],
            )
        };
        assert_eq!(
            ["gpuplan/hf-token-AbCdEf", "gpuplan/wandb-AbCdEf", "gpuplan/hf-token-2-AbCdEf", "hf-token-AbCdEf"]
                .map(secret),
            [Allowed, NotAllowed, NotAllowed, NotAllowed]
        );
        let ends = |id: &str| {
            let instance = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/{id}");
            ask(
                "ec2:TerminateInstances",
                &instance,
                &[("ec2:InstanceID", id), ("aws:ResourceTag/gpuplan:run", "llama")],
            )
        };
        assert_eq!(["i-0me", "i-0other"].map(ends), [Allowed, NotAllowed]);
        let fleet = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:fleet/fleet-1");
        let fleet_of = |run| ask("ec2:DeleteFleets", &fleet, &[("aws:ResourceTag/gpuplan:run", run)]);
        assert_eq!(["llama", "other"].map(fleet_of), [Allowed, NotAllowed]);
        for action in [
            "ec2:RunInstances",
            "iam:PassRole",
            "iam:TagRole",
            "s3:DeleteObjectVersion",
            "s3:DeleteBucket",
            "ec2:CreateTags",
        ] {
            assert_eq!(ask(action, "*", &[("aws:ResourceTag/gpuplan:run", "llama")]), NotAllowed, "{action}");
        }
        // A role that nobody tagged may write nowhere.
        let untagged =
            evaluate(&policy, "s3:PutObject", &format!("{BUCKET}/team/runs/llama/status/0.json"), &Context::new());
        assert_eq!(untagged, NotAllowed);
    }

    /// Those of its runs: its name, a dash and three digits.
    #[test]
    fn a_machine_of_a_sweep_writes_its_runs_and_no_other() {
        let policy = role("\"aws_iam_policy\" \"run\"");
        let me = [
            ("aws:PrincipalTag/gpuplan-run", "llama"),
            ("aws:PrincipalTag/gpuplan-prefix", "team/runs/llama"),
            ("aws:PrincipalTag/gpuplan-within", "team/runs/llama-"),
        ];
        let ask = |action: &str, key: &str| evaluate(&policy, action, &format!("{BUCKET}/{key}"), &context(&me));
        for key in
            ["epochs/1", "manifests/step-5-e1.json", "data/e1/1/w", "status/0.json", "logs/e1/0/0.zst", "result.json"]
        {
            for run in ["llama", "llama-000", "llama-999"] {
                assert_eq!(ask("s3:PutObject", &format!("team/runs/{run}/{key}")), Allowed, "{run}/{key}");
            }
            for run in ["llama-1000", "llama-2", "other", "other-007", "llama-007/../other", "llama2-007"] {
                assert_eq!(ask("s3:PutObject", &format!("team/runs/{run}/{key}")), NotAllowed, "{run}/{key}");
            }
        }
        for key in ["llama-007/spec.json", "llama-007/lead/2", "llama-007/workdir/a.tar.gz", "llama-007/stop/1"] {
            assert_eq!(ask("s3:PutObject", &format!("team/runs/{key}")), NotAllowed, "{key}");
        }
        assert_eq!(ask("s3:PutObject", "team/runs/llama/sweep.json"), Allowed);
        let deletes = |key: &str| ask("s3:DeleteObject", &format!("team/runs/{key}"));
        assert_eq!(
            ["llama-007/data/e1/1/w", "llama-007/epochs/1", "other-007/data/e1/1/w"].map(deletes),
            [Allowed, NotAllowed, NotAllowed]
        );
    }

    /// Whether IAM shows a condition the tags of a role that is being made as those of the resource or not at all, it is made; afterwards every tag stays.
    #[test]
    fn a_role_of_a_run_is_tagged_as_it_is_made_and_never_again() {
        let makes = role("\"aws_iam_policy\" \"run_roles\"");
        let one = format!("arn:aws:iam::{ACCOUNT}:role/gpuplan/llama-0123456789ab");
        let secrets: Vec<String> = (1..=5).map(|number| format!("gpuplan-secret-{number}")).collect();
        let mut own: Vec<(&str, &str)> = secrets.iter().map(|key| (key.as_str(), "-")).collect();
        own.extend([("gpuplan-run", "llama"), ("gpuplan-prefix", "team/runs/llama"), ("gpuplan-within", "-")]);
        let tags = |kind: &str, tags: &[(&str, &str)]| {
            tags.iter().map(|(key, value)| (format!("aws:{kind}/{key}"), (*value).to_owned())).collect::<Vec<_>>()
        };
        let ask = |requested: &[(&str, &str)], there: &[(&str, &str)]| {
            let all = [tags("RequestTag", requested), tags("ResourceTag", there)].concat();
            let pairs: Vec<(&str, &str)> = all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            evaluate(&makes, "iam:TagRole", &one, &context(&pairs))
        };
        assert_eq!([ask(&own, &[]), ask(&own, &own)], [Allowed, Allowed]);
        for index in 0..own.len() {
            let mut other = own.clone();
            other[index].1 = "other";
            assert_eq!(ask(&other, &own), NotAllowed, "{:?}", own[index]);
            assert_eq!(ask(&own[index..=index], &own), NotAllowed, "alone");
        }
        assert_eq!(ask(&[("colour", "blue")], &own), NotAllowed);
    }

    #[test]
    fn roles_of_runs_are_made_within_their_boundary_alone() {
        let (makes, launch) = (role("\"aws_iam_policy\" \"run_roles\""), role("\"aws_iam_policy\" \"launch\""));
        let arn = |what: &str| format!("arn:aws:iam::{ACCOUNT}:{what}");
        let ask = |action: &str, resource: &str, about: &[(&str, &str)]| {
            evaluate(&makes, &format!("iam:{action}"), &arn(resource), &context(about))
        };
        let (policy, admin) = (arn("policy/gpuplan-run"), "arn:aws:iam::aws:policy/AdministratorAccess");
        let ours = "role/gpuplan/llama-0123456789ab";
        let within = |boundary: &str, role: &str| ask("CreateRole", role, &[("iam:PermissionsBoundary", boundary)]);
        assert_eq!(
            [within(&policy, ours), within(admin, ours), within(&policy, "role/admin"), ask("CreateRole", ours, &[])],
            [Allowed, NotAllowed, NotAllowed, NotAllowed]
        );
        for action in ["AttachRolePolicy", "DetachRolePolicy"] {
            let gives = |given: &str, role: &str| ask(action, role, &[("iam:PolicyARN", given)]);
            assert_eq!(
                [gives(&policy, ours), gives(admin, ours), gives(&policy, "role/gpuplan-leader")],
                [Allowed, NotAllowed, NotAllowed],
                "{action}"
            );
        }
        assert_eq!(
            [ask("DeleteRole", ours, &[]), ask("DeleteRole", "role/gpuplan-machine", &[])],
            [Allowed, NotAllowed]
        );
        assert_eq!([ask("TagRole", ours, &[]), ask("TagRole", "role/gpuplan-machine", &[])], [Allowed, NotAllowed]);
        for action in [
            "GetInstanceProfile",
            "CreateInstanceProfile",
            "AddRoleToInstanceProfile",
            "RemoveRoleFromInstanceProfile",
            "DeleteInstanceProfile",
        ] {
            let profiles = ["instance-profile/gpuplan/llama-0123456789ab", "instance-profile/gpuplan-leader"];
            assert_eq!(profiles.map(|profile| ask(action, profile, &[])), [Allowed, NotAllowed], "{action}");
        }
        // With any of these a role could outgrow its boundary, or another be changed.
        for action in [
            "PutRolePolicy",
            "DeleteRolePermissionsBoundary",
            "PutRolePermissionsBoundary",
            "UpdateAssumeRolePolicy",
            "CreatePolicy",
            "CreatePolicyVersion",
            "CreateUser",
        ] {
            assert_eq!(
                ask(action, ours, &[("iam:PermissionsBoundary", &policy), ("iam:PolicyARN", &policy)]),
                NotAllowed,
                "{action}"
            );
        }
        let to_ec2 = [("iam:PassedToService", "ec2.amazonaws.com")];
        let passes = |role: &str, to| evaluate(&launch, "iam:PassRole", &arn(role), &context(to));
        assert_eq!(
            [passes(ours, &to_ec2[..]), passes(ours, &[]), passes("role/admin", &to_ec2)],
            [Allowed, NotAllowed, NotAllowed]
        );
        assert_eq!(
            evaluate(&launch, "iam:CreateRole", &arn(ours), &context(&[("iam:PermissionsBoundary", &policy)])),
            NotAllowed
        );
        assert_eq!(evaluate(&launch, "iam:GetPolicy", &policy, &Context::new()), Allowed);
    }

    #[test]
    fn a_schedule_ends_what_bears_the_mark_and_does_nothing_else() {
        let end = role("\"aws_iam_role_policy\" \"end\"");
        let machine = format!("arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1");
        let ask = |action: &str, about: &[(&str, &str)]| evaluate(&end, action, &machine, &context(about));
        let bears = [("aws:ResourceTag/gpuplan:run", "r")];
        assert_eq!(
            [
                ask("ec2:TerminateInstances", &bears),
                ask("ec2:TerminateInstances", &[]),
                ask("ec2:RunInstances", &bears)
            ],
            [Allowed, NotAllowed, NotAllowed]
        );
    }
}
