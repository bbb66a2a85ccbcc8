//! `BucketRules`: what a bucket does by itself to what runs keep in it.

/// What the rules of a bucket take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The object is gone.
    Deleted,
    /// It is there, and cannot be read until somebody has it brought back, which takes hours.
    Archived,
}

/// A rule that acts on what runs keep: a file that stays the same over many checkpoints grows older than all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRule {
    /// As the cloud names it; empty where rules have no names.
    pub rule: String,
    pub loss: Loss,
    /// Days after an object was written; `None`: at a date, or on another condition.
    pub after_days: Option<u32>,
}

/// What a bucket does below one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRules {
    pub bucket: String,
    /// Of its current objects.
    pub losses: Vec<LossRule>,
    /// What was deleted or overwritten can be brought back for a while. `None`: the cloud did not say.
    pub can_undelete: Option<bool>,
    /// Why runs may not do there what they do in a bucket of the setup.
    pub troubles: Vec<Trouble>,
    pub writers: Writers,
}

/// What a trouble may be about: without these nobody knows whether checkpoints stay.
pub const LIFECYCLE: &str = "lifecycle rules";
pub const VERSIONS: &str = "versioning";

/// What a bucket that no setup made has of its own, as that of another account, project or region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// This cannot be read, so what it would say is not known.
    NotReadable { what: &'static str, permission: &'static str },
    /// It lies there, and is asked elsewhere.
    AnotherRegion { there: String, asked: String },
    /// Whoever asks pays, and says so with each request, which runs do not.
    RequesterPays,
}

/// Whose machines may write to a run that lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Those of the run: it has a role of its own.
    OfTheRun,
    /// Those of all runs, which share a role; and what would change that.
    OfAnyRun { remedy: String },
    /// The cloud did not say, and why.
    Unknown(String),
}

/// Whether a rule for one prefix acts on anything below another.
pub fn concerns(rule: &str, prefix: &str) -> bool {
    rule.starts_with(prefix) || prefix.starts_with(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_concerns_what_lies_below_it_and_what_it_lies_below() {
        for (rule, prefix, is_so) in [
            ("", "team/runs/", true),
            ("team/", "team/runs/", true),
            ("team/runs/a/", "team/runs/", true),
            ("tmp/", "team/runs/", false),
        ] {
            assert_eq!(concerns(rule, prefix), is_so, "{rule}");
        }
    }
}
