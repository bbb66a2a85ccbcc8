//! The end of a machine that nobody on it can miss: a one-time schedule of EventBridge Scheduler that terminates it after its own timers.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::account::session::Account;
use crate::account::signed::Asked;
use gpuplan_launch::MachineId;
use gpuplan_market::SourceError;

/// Of `setup.tf`: what the schedule acts as. It may end what bears `gpuplan:run`.
pub const ROLE: &str = "gpuplan-end";
const SERVICE: &str = "scheduler";
/// After the machine should have ended itself, so that the schedule acts only where its timers failed. Judgement.
const AFTER: SignedDuration = SignedDuration::from_mins(5);
/// A call of the schedule that fails is repeated for so long. Seconds.
const REPEATED_FOR: u32 = 3600;

fn path(machine: &MachineId) -> String {
    format!("/schedules/gpuplan-{machine}")
}

/// `owner`: the ARN of the caller, which names the account.
fn schedule(machine: &MachineId, expires_at: Timestamp, owner: &str) -> Result<String, SourceError> {
    let account = owner.split(':').nth(4).filter(|account| !account.is_empty());
    let account = account.ok_or_else(|| SourceError::Malformed {
        field: "the caller's ARN".to_owned(),
        detail: format!("`{owner}` names no account"),
    })?;
    let at = expires_at.checked_add(AFTER).unwrap_or(expires_at);
    Ok(json!({
        "ScheduleExpression": format!("at({})", at.strftime("%Y-%m-%dT%H:%M:%S")),
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Description": "gpuplan ends this machine, if it has not ended itself",
        "Target": {
            "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
            "RoleArn": format!("arn:aws:iam::{account}:role/{ROLE}"),
            "Input": json!({"InstanceIds": [machine.0]}).to_string(),
            "RetryPolicy": {"MaximumEventAgeInSeconds": REPEATED_FOR, "MaximumRetryAttempts": 60},
        },
    })
    .to_string())
}

/// Once for a machine: one that has its schedule keeps it.
pub async fn make(
    account: &Account,
    region: &str,
    machine: &MachineId,
    expires_at: Timestamp,
    owner: &str,
) -> Result<(), SourceError> {
    let asked = Asked::Post(schedule(machine, expires_at, owner)?);
    match account.signed(SERVICE, region, &path(machine), &asked).await {
        Err(error) if is_refused(&error, "409", "ConflictException") => Ok(()),
        answer => answer.map(drop),
    }
}

/// To another end of the same machine. One that is not there, as of a setup from before there were any, is made.
pub async fn set(
    account: &Account,
    region: &str,
    machine: &MachineId,
    ends_at: Timestamp,
    owner: &str,
) -> Result<(), SourceError> {
    let asked = Asked::Put(schedule(machine, ends_at, owner)?);
    match account.signed(SERVICE, region, &path(machine), &asked).await {
        Err(error) if is_refused(&error, "404", "ResourceNotFoundException") => {
            make(account, region, machine, ends_at, owner).await
        }
        answer => answer.map(drop),
    }
}

/// One that stays ends a machine that is gone, which changes nothing, and is deleted then by the cloud.
pub async fn remove(account: &Account, region: &str, machine: &MachineId) -> Result<(), SourceError> {
    match account.signed(SERVICE, region, &path(machine), &Asked::Delete).await {
        Err(error) if is_refused(&error, "404", "ResourceNotFoundException") => Ok(()),
        answer => answer.map(drop),
    }
}

/// AWS says which error it is by the status (EventBridge Scheduler API reference, "Errors" of each action), stand-ins in the body.
fn is_refused(error: &SourceError, status: &str, name: &str) -> bool {
    matches!(error, SourceError::Refused { code, detail } if code == status || detail.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_ends_one_machine_after_its_own_time() {
        let at = "2026-11-23T22:00:00Z".parse().unwrap();
        let owner = "arn:aws:sts::123456789012:assumed-role/a/b";
        let text = schedule(&MachineId("i-0a".to_owned()), at, owner).unwrap();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(said["ScheduleExpression"], "at(2026-11-23T22:05:00)");
        assert_eq!(said["Target"]["RoleArn"], "arn:aws:iam::123456789012:role/gpuplan-end");
        assert_eq!(said["Target"]["Input"], r#"{"InstanceIds":["i-0a"]}"#);
        assert!(schedule(&MachineId("i-0a".to_owned()), at, "nobody").is_err());
    }
}
