//! What the answer to a dry run means. Names no SDK.

use gpuplan_market::{SourceError, Verdict};

/// A dry run never succeeds: the code of its refusal is the answer.
pub fn verdict(error: &SourceError) -> Verdict {
    match error {
        SourceError::Refused { code, .. } if code == "DryRunOperation" => Verdict::Allowed,
        SourceError::Refused { code, detail }
            if ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"].contains(&code.as_str()) =>
        {
            Verdict::Denied { detail: detail.clone() }
        }
        other => Verdict::Unknown { detail: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_codes_say_yes_or_no() {
        let refused = |code: &str| verdict(&SourceError::Refused { code: code.to_owned(), detail: "d".to_owned() });
        assert_eq!(refused("DryRunOperation"), Verdict::Allowed);
        assert_eq!(refused("UnauthorizedOperation"), Verdict::Denied { detail: "d".to_owned() });
        assert_eq!(
            refused("InvalidInstanceID.NotFound"),
            Verdict::Unknown { detail: "refused with InvalidInstanceID.NotFound: d".to_owned() }
        );
        assert_eq!(refused("AuthFailure"), Verdict::Unknown { detail: "refused with AuthFailure: d".to_owned() });
        let silent = SourceError::Unreachable { place: "us-east-1".to_owned(), detail: "d".to_owned() };
        assert!(matches!(verdict(&silent), Verdict::Unknown { .. }));
    }
}
