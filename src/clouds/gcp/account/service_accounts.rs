//! The service accounts of a setup, which its machines are, and whether whoever asks may start machines as them.

use serde_json::json;

use crate::account::permissions::Granted;
use crate::account::project::Project;
use crate::sdk::signed;
use gpuplan_clouds_http::{Http, Request, variable};
use gpuplan_market::{Permission, SourceError, Verdict};

pub const IAM: &str = "https://iam.googleapis.com";
/// What a launch needs on an account of machines.
pub const ACT_AS: &str = "iam.serviceAccounts.actAs";
/// The name that `setup.tf` is given where nobody says another.
pub const SETUP_NAME: &str = "gpuplan";

/// The name that the setup was given.
pub fn setup_name() -> String {
    variable("GPUPLAN_GCP_NAME").unwrap_or_else(|| SETUP_NAME.to_owned())
}

/// All machines of a setup but those of groups.
pub fn of_machines(setup: &str, project: &str) -> String {
    format!("{setup}-machine@{project}.iam.gserviceaccount.com")
}

/// Machines that a group of the cloud's own starts, and which end it.
pub fn of_kept(setup: &str, project: &str) -> String {
    format!("{setup}-kept@{project}.iam.gserviceaccount.com")
}

/// A machine that leads a run.
pub fn of_leaders(setup: &str, project: &str) -> String {
    format!("{setup}-leader@{project}.iam.gserviceaccount.com")
}

/// What is to be asked of one account alone.
pub fn question(project: &Project, account: &str) -> Result<Request, SourceError> {
    let (address, id) = (project.address(IAM), project.id()?);
    let url = format!("{address}/v1/projects/{id}/serviceAccounts/{account}:testIamPermissions");
    Ok(Request::post(url, "application/json", json!({"permissions": [ACT_AS]}).to_string()))
}

/// Of an account that is not there Google says the one or the other.
pub fn is_missing(error: &SourceError) -> bool {
    matches!(error, SourceError::Refused { code, .. } if ["404", "403"].contains(&code.as_str()))
}

/// Whether machines of a setup, and those of its groups, can be started as who they are. Nobody needs the second who keeps nothing alive.
pub async fn verdicts(http: &Http, project: &Project) -> Result<[Permission; 2], SourceError> {
    let (setup, id) = (setup_name(), project.id()?);
    let (machines, kept) = (of_machines(&setup, id), of_kept(&setup, id));
    let of_machines = verdict(ask(http, project, &machines).await, "gpuplan setup gcp");
    let of_kept = verdict(ask(http, project, &kept).await, "TF_VAR_keep_alive=true gpuplan setup gcp");
    let row =
        |account, needed_for, verdict| Permission { action: format!("{ACT_AS} on {account}"), needed_for, verdict };
    let of_kept = match of_kept {
        Verdict::Denied { detail } => Verdict::Unknown { detail },
        verdict => verdict,
    };
    Ok([
        row(machines, "starting machines, which are this account in every run", of_machines),
        row(kept, "--keep-alive group, whose machines are this account", of_kept),
    ])
}

async fn ask(http: &Http, project: &Project, account: &str) -> Result<Granted, SourceError> {
    Ok(http.json(&signed(project, question(project, account)?).await?).await?.value)
}

fn verdict(answer: Result<Granted, SourceError>, setup: &str) -> Verdict {
    match answer {
        Ok(granted) if granted.has(ACT_AS) => Verdict::Allowed,
        Ok(_) => Verdict::Denied { detail: "grant yourself roles/iam.serviceAccountUser on it".to_owned() },
        Err(error) if is_missing(&error) => {
            Verdict::Denied { detail: format!("there is no such account, or you may not ask: `{setup}` makes it") }
        }
        Err(error) => Verdict::Unknown { detail: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_may_be_used_is_not_there_or_is_not_known() {
        let granted = |words: &[&str]| serde_json::from_value::<Granted>(json!({"permissions": words})).unwrap();
        let refused = |code: &str| SourceError::Refused { code: code.to_owned(), detail: "no".to_owned() };
        assert_eq!(verdict(Ok(granted(&[ACT_AS])), "x"), Verdict::Allowed);
        let of = |answer| match verdict(answer, "gpuplan setup gcp") {
            Verdict::Denied { detail } => format!("denied: {detail}"),
            Verdict::Unknown { detail } => format!("unknown: {detail}"),
            Verdict::Allowed => "allowed".to_owned(),
        };
        assert!(of(Ok(granted(&[]))).starts_with("denied: grant yourself roles/iam.serviceAccountUser"));
        for code in ["403", "404"] {
            assert!(of(Err(refused(code))).ends_with("`gpuplan setup gcp` makes it"), "{code}");
        }
        assert!(of(Err(refused("500"))).starts_with("unknown: "));
        assert_eq!(of_kept("team", "p"), "team-kept@p.iam.gserviceaccount.com");
    }
}
