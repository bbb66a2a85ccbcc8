//! Error codes of AWS that a question can meet, and what each means for the rest of the question.

/// How far a refusal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No region will answer these credentials.
    Everywhere,
    /// This region only: it is not enabled for the account, it is busy, or its own rules forbid the call.
    Region,
    /// A code this table does not know. It stops this region, is shown as it came, and is not tried again.
    Unknown,
}

/// `AuthFailure` is what a region that an account has not opted in to answers, so it does not end the whole question;
/// where the credentials really are void, every region says it, and then nothing was answered at all.
pub fn reach(code: &str) -> Reach {
    match code {
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "IncompleteSignature"
        | "InvalidSignatureException"
        | "MissingAuthenticationToken"
        | "Blocked"
        | "PendingVerification" => Reach::Everywhere,
        "AuthFailure"
        | "OptInRequired"
        | "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "MaxConfigLimitExceeded"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "Throttling"
        | "ThrottlingException"
        | "InternalError"
        | "ServiceUnavailable"
        | "Unavailable"
        | "InvalidParameterValue" => Reach::Region,
        _ => Reach::Unknown,
    }
}

/// What to add to the cloud's own words, where they do not say it.
pub fn explanation(code: &str) -> Option<&'static str> {
    match code {
        "AuthFailure" | "OptInRequired" => Some("the region may not be enabled for this account"),
        "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => Some("the policy of the account must allow this action"),
        "MaxConfigLimitExceeded" => Some("the account asked for too many different placement scores today"),
        "RequestExpired" | "SignatureDoesNotMatch" | "InvalidSignatureException" => {
            Some("check the clock of this machine and the secret key")
        }
        "ExpiredToken" | "ExpiredTokenException" => Some("sign in again"),
        "RequestLimitExceeded" | "TooManyRequestsException" | "Throttling" | "ThrottlingException" => {
            Some("the account asks too often; wait a minute")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_is_not_enabled_is_no_end_of_the_question() {
        assert_eq!(reach("AuthFailure"), Reach::Region);
        assert_eq!(reach("ExpiredToken"), Reach::Everywhere);
        assert_eq!(reach("SomethingNew"), Reach::Unknown);
        assert_eq!(explanation("SomethingNew"), None);
    }
}
