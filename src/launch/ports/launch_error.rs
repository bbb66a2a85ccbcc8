//! `LaunchError`: why a machine was not created, by what to do next.

/// How far something that is missing is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Region,
    Cloud,
}

/// Why a machine was not created, by what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// This pool has none now.
    #[error("no capacity ({code})")]
    Capacity { code: String },
    /// The zone does not sell the machine type.
    #[error("not sold there ({code})")]
    NotSold { code: String },
    /// The account may not have more of this family, in this region, on these terms.
    #[error("quota {code} is used up; to ask for more: {request}")]
    Quota { code: String, request: String },
    /// The same for a quota that the whole cloud shares: no region of it has more.
    #[error("quota {code} of the whole cloud is used up; to ask for more: {request}")]
    CloudQuota { code: String, request: String },
    /// What machines stand on, such as a network or a role, is not in the account. `command` makes it.
    #[error("{missing}; `{command}` creates it")]
    NotSetUp { missing: String, command: String, reach: Reach },
    /// The account may not do this at all.
    #[error("not allowed ({code}): {detail}")]
    Credentials { code: String, detail: String },
    /// The request is wrong: the next place would refuse it too.
    #[error("the request was refused ({code}): {detail}")]
    Request { code: String, detail: String },
    /// Nobody knows whether a machine was created: the answer was lost, late, or says to try later.
    #[error("no clear answer ({code})")]
    Unclear { code: String },
}
