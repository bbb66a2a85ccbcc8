//! A machine as EC2 describes it.

use aws_sdk_ec2::types::{
    Instance, InstanceLifecycleType, InstanceState, InstanceStateName, InstanceType, StateReason, Tag,
};
use jiff::Timestamp;

use crate::CLOUD;
use crate::errors::was_taken;
use crate::launcher::order::{TOKEN, ZONE};
use gpuplan_launch::names;
use gpuplan_launch::{Machine, MachineId, MachineState, Market, Pool};

/// `None` without an id or the tag of a run. Other marks that somebody took off leave a machine that is still listed, so that it is
/// found and ended: of epoch 0, without a token, past its time.
pub fn machine(found: &Instance, region: &str) -> Option<Machine> {
    let tag = |key: &str| found.tags().iter().find(|tag| tag.key() == Some(key)).and_then(Tag::value);
    let number = |key: &str| tag(key).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    let created_at = found.launch_time().and_then(|time| Timestamp::from_second(time.secs()).ok()).unwrap_or_default();
    let reason = found.state_reason().and_then(StateReason::code).filter(|code| !code.is_empty());
    let state = state(found.state().and_then(InstanceState::name));
    let zone = tag(ZONE).or_else(|| found.placement().and_then(|placement| placement.availability_zone_id()));
    Some(Machine {
        id: MachineId(found.instance_id()?.to_owned()),
        run: tag(names::RUN)?.to_owned(),
        epoch: number(names::EPOCH),
        node: u32::try_from(number(names::NODE)).unwrap_or_default(),
        token: tag(TOKEN).or(found.client_token()).unwrap_or_default().to_owned(),
        pool: Pool {
            cloud: CLOUD.to_owned(),
            region: region.to_owned(),
            zone_id: zone.filter(|zone| !zone.is_empty()).map(str::to_owned),
            instance_type: found.instance_type().map(InstanceType::as_str).unwrap_or_default().to_owned(),
            market: match found.instance_lifecycle() {
                Some(InstanceLifecycleType::Spot) => Market::Spot,
                Some(InstanceLifecycleType::CapacityBlock) => Market::CapacityBlock,
                _ => Market::OnDemand,
            },
        },
        state,
        was_taken: matches!(state, MachineState::Ending | MachineState::Gone) && reason.is_some_and(was_taken),
        reason: reason.map(str::to_owned),
        created_at,
        expires_at: tag(names::EXPIRES).and_then(|time| time.parse().ok()).unwrap_or(created_at),
        owner: tag(names::OWNER).unwrap_or_default().to_owned(),
    })
}

/// A stopped machine costs its disk and can be started again, so it is not gone. What EC2 does not say may cost money.
fn state(name: Option<&InstanceStateName>) -> MachineState {
    match name {
        Some(InstanceStateName::Pending) => MachineState::Starting,
        Some(InstanceStateName::Running) => MachineState::Running,
        Some(InstanceStateName::Terminated) => MachineState::Gone,
        _ => MachineState::Ending,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::Placement;

    use super::*;

    fn found(state: InstanceStateName, reason: &str, tags: &[(&str, &str)]) -> Instance {
        let tags = tags.iter().map(|(key, value)| Tag::builder().key(*key).value(*value).build()).collect();
        Instance::builder()
            .instance_id("i-1")
            .client_token("token")
            .instance_type(InstanceType::G5Xlarge)
            .instance_lifecycle(InstanceLifecycleType::Spot)
            .placement(Placement::builder().availability_zone("us-east-1a").availability_zone_id("use1-az6").build())
            .state(InstanceState::builder().name(state).build())
            .state_reason(StateReason::builder().code(reason).build())
            .launch_time(aws_sdk_ec2::primitives::DateTime::from_secs(1_790_000_000))
            .set_tags(Some(tags))
            .build()
    }

    #[test]
    fn it_is_the_machine_that_was_ordered() {
        let tags = [
            (names::RUN, "r"),
            (names::EPOCH, "7"),
            (names::NODE, "1"),
            (names::EXPIRES, "2026-11-22T00:00:00Z"),
            (ZONE, ""),
        ];
        let machine = machine(&found(InstanceStateName::Running, "", &tags), "us-east-1").unwrap();
        assert_eq!((machine.run.as_str(), machine.epoch, machine.node, machine.token.as_str()), ("r", 7, 1, "token"));
        assert_eq!(machine.pool.to_string(), "aws/us-east-1/g5.xlarge spot", "any zone was asked for");
        assert_eq!((machine.state, machine.reason, machine.was_taken), (MachineState::Running, None, false));
        assert_eq!(machine.expires_at, "2026-11-22T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn who_ended_it_is_said() {
        let of = |state, reason| {
            let machine = machine(&found(state, reason, &[(names::RUN, "r")]), "us-east-1").unwrap();
            (machine.state, machine.was_taken)
        };
        assert_eq!(of(InstanceStateName::Pending, "pending"), (MachineState::Starting, false));
        assert_eq!(of(InstanceStateName::ShuttingDown, "Server.SpotInstanceTermination"), (MachineState::Ending, true));
        assert_eq!(
            of(InstanceStateName::Terminated, "Server.InsufficientInstanceCapacity"),
            (MachineState::Gone, true)
        );
        assert_eq!(of(InstanceStateName::Terminated, "Client.UserInitiatedShutdown"), (MachineState::Gone, false));
        assert_eq!(of(InstanceStateName::Terminated, "Client.InstanceInitiatedShutdown"), (MachineState::Gone, false));
        assert_eq!(of(InstanceStateName::Stopped, "Client.UserInitiatedShutdown"), (MachineState::Ending, false));
        assert_eq!(of(InstanceStateName::Running, "Server.Something"), (MachineState::Running, false));
    }

    #[test]
    fn a_machine_without_its_marks_is_found_all_the_same() {
        let bare =
            machine(&found(InstanceStateName::Running, "", &[(names::RUN, "r"), (names::EPOCH, "x")]), "us-east-1")
                .unwrap();
        assert_eq!((bare.epoch, bare.expires_at), (0, bare.created_at));
        assert_eq!(bare.pool.zone_id.as_deref(), Some("use1-az6"));
        assert!(machine(&found(InstanceStateName::Running, "", &[]), "us-east-1").is_none(), "it is not ours");
    }
}
