//! Error codes of AWS that a question or a launch can meet, and what each means for what comes next.

use gpuplan_launch::{LaunchError, Reach as Missed};
use gpuplan_market::SourceError;

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
        "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" => {
            Some("the policy of the account must allow this action")
        }
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

/// What a refusal means for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The zone has none of this type, on these terms, now.
    Capacity,
    /// The zone does not have the type at all.
    NotSold,
    /// vCPUs of the family, in this region, on these terms.
    Quota,
    /// Credentials, permission, or the standing of the account.
    Account,
    /// A network or group that machines stand on is not in the region.
    Missing,
    /// The request itself is wrong.
    Ours,
    /// It may have happened, or may happen the next time.
    Unclear,
}

/// The codes are those of the EC2 API reference ("Error codes for the Amazon EC2 API"); a code that this table does not know
/// stops the launch and is not tried again.
pub fn refusal(code: &str) -> Refusal {
    match code {
        "InsufficientInstanceCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientReservedInstanceCapacity"
        | "UnfulfillableCapacity"
        | "InsufficientFreeAddressesInSubnet"
        // The price has moved past the highest that is paid: as good as none to be had.
        | "SpotMaxPriceTooLow" => Refusal::Capacity,
        "Unsupported" => Refusal::NotSold,
        "MaxSpotInstanceCountExceeded" | "VcpuLimitExceeded" | "InstanceLimitExceeded" => Refusal::Quota,
        "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "RequestExpired"
        | "OptInRequired"
        | "PendingVerification"
        | "Blocked"
        // `Session` says it where keys are in sight and could not be had.
        | "credentials" => Refusal::Account,
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequestsException"
        | "ServerInternal"
        | "InternalError"
        | "InternalFailure"
        | "ServiceUnavailable"
        | "Unavailable"
        // Whoever stands between us and AWS has no codes.
        | "HTTP 429" => Refusal::Unclear,
        code if code.starts_with("HTTP 5") => Refusal::Unclear,
        "InvalidSubnetID.NotFound" | "InvalidGroup.NotFound" | "InvalidSecurityGroupID.NotFound" => Refusal::Missing,
        // Invalid..., IdempotentParameterMismatch, and whatever is new.
        _ => Refusal::Ours,
    }
}

/// EC2 has no code of its own for a role that is not there: `InvalidParameterValue: Value (gpuplan-machine) for parameter
/// iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name`.
pub const NO_PROFILE: &str = "Invalid IAM Instance Profile";

/// What a failed call means for a launch. Which quota it was is not said here: `doctor` shows it, and a launcher that knows more
/// says more.
pub fn launch_error(error: SourceError) -> LaunchError {
    let (code, detail) = match error {
        SourceError::Refused { code, detail } => (code, detail),
        SourceError::MissingCredentials { .. } => {
            return LaunchError::Credentials { code: "no credentials".to_owned(), detail: error.to_string() };
        }
        other => return LaunchError::Unclear { code: other.to_string() },
    };
    if detail.contains(NO_PROFILE) {
        return not_set_up(detail, None, Missed::Cloud);
    }
    match refusal(&code) {
        Refusal::Capacity => LaunchError::Capacity { code },
        Refusal::NotSold => LaunchError::NotSold { code },
        Refusal::Quota => LaunchError::Quota { code, request: "gpuplan doctor".to_owned() },
        Refusal::Account => LaunchError::Credentials { code, detail },
        Refusal::Unclear => LaunchError::Unclear { code },
        Refusal::Missing => not_set_up(format!("{code}: {detail}"), None, Missed::Region),
        Refusal::Ours => LaunchError::Request { code, detail },
    }
}

/// What `setup.tf` makes is not there.
pub fn not_set_up(missing: String, region: Option<&str>, reach: Missed) -> LaunchError {
    let region = region.map_or_else(String::new, |region| format!(" --region {region}"));
    LaunchError::NotSetUp { missing, command: format!("gpuplan setup aws{region}"), reach }
}

/// Whether the cloud itself ended a machine, by the reason it gives (EC2 API reference, `StateReason`): capacity that was taken
/// back or that came to nothing, and room for its disk. Anything else was a person, the machine itself or a wrong request.
pub fn was_taken(reason: &str) -> bool {
    reason.starts_with("Server.") || reason == "Client.VolumeLimitExceeded"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> LaunchError {
        launch_error(SourceError::Refused { code: code.to_owned(), detail: "d".to_owned() })
    }

    #[test]
    fn every_code_of_a_launch_has_its_reaction() {
        let capacity = [
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "UnfulfillableCapacity",
            "SpotMaxPriceTooLow",
        ];
        for code in capacity {
            assert_eq!(refused(code), LaunchError::Capacity { code: code.to_owned() });
        }
        assert_eq!(refused("Unsupported"), LaunchError::NotSold { code: "Unsupported".to_owned() });
        for code in ["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded"] {
            assert!(matches!(refused(code), LaunchError::Quota { .. }), "{code}");
        }
        for code in
            ["UnauthorizedOperation", "AuthFailure", "ExpiredToken", "OptInRequired", "PendingVerification", "Blocked"]
        {
            assert_eq!(refused(code), LaunchError::Credentials { code: code.to_owned(), detail: "d".to_owned() });
        }
        let ours = [
            "InvalidAMIID.NotFound",
            "InvalidParameterValue",
            "InvalidParameterCombination",
            "IdempotentParameterMismatch",
            "SomethingNew",
        ];
        for code in ours {
            assert_eq!(refused(code), LaunchError::Request { code: code.to_owned(), detail: "d".to_owned() });
        }
        for code in ["InvalidSubnetID.NotFound", "InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound"] {
            assert_eq!(refused(code), not_set_up(format!("{code}: d"), None, Missed::Region));
        }
        let detail = "Value (gpuplan-machine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
        let profile =
            launch_error(SourceError::Refused { code: "InvalidParameterValue".to_owned(), detail: detail.to_owned() });
        assert!(profile.to_string().ends_with("`gpuplan setup aws` creates it"), "{profile}");
        assert!(
            matches!(profile, LaunchError::NotSetUp { reach: Missed::Cloud, .. }),
            "a role is the same in every region"
        );
        let unclear = [
            "RequestLimitExceeded",
            "ServerInternal",
            "ServiceUnavailable",
            "InternalError",
            "Unavailable",
            "Throttling",
            "HTTP 502",
            "HTTP 429",
        ];
        for code in unclear {
            assert_eq!(refused(code), LaunchError::Unclear { code: code.to_owned() });
        }
        assert!(
            matches!(refused("HTTP 404"), LaunchError::Request { .. }),
            "a proxy that knows no such page does not get better"
        );
    }

    #[test]
    fn no_answer_is_unclear_and_no_key_is_not() {
        let silent = SourceError::Unreachable { place: "us-east-1".to_owned(), detail: "connection reset".to_owned() };
        assert!(matches!(launch_error(silent), LaunchError::Unclear { code } if code.contains("connection reset")));
        let torn = SourceError::Malformed { field: "answer".to_owned(), detail: "breaks off".to_owned() };
        assert!(matches!(launch_error(torn), LaunchError::Unclear { .. }), "the machine may be there");
        let none = launch_error(SourceError::MissingCredentials { variable: "AWS_ACCESS_KEY_ID" });
        assert!(matches!(none, LaunchError::Credentials { detail, .. } if detail.contains("AWS_ACCESS_KEY_ID")));
    }

    #[test]
    fn the_cloud_takes_and_a_person_ends() {
        for reason in
            ["Server.SpotInstanceTermination", "Server.InsufficientInstanceCapacity", "Client.VolumeLimitExceeded"]
        {
            assert!(was_taken(reason), "{reason}");
        }
        for reason in ["Client.UserInitiatedShutdown", "Client.InstanceInitiatedShutdown", "Client.InternalError", ""] {
            assert!(!was_taken(reason), "{reason}");
        }
    }

    #[test]
    fn a_region_that_is_not_enabled_is_no_end_of_the_question() {
        assert_eq!(reach("AuthFailure"), Reach::Region);
        assert_eq!(reach("ExpiredToken"), Reach::Everywhere);
        assert_eq!(reach("SomethingNew"), Reach::Unknown);
        assert_eq!(explanation("SomethingNew"), None);
    }
}
