//! Placement groups: machines of one epoch stand close together, and their group goes when they are gone.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{PlacementGroup, PlacementStrategy, ResourceType, Tag, TagSpecification};
use jiff::Timestamp;

use crate::account::session::Account;
use crate::errors::launch_error;
use crate::launcher::filter::filter;
use crate::launcher::order::tags;
use gpuplan_launch::names;
use gpuplan_launch::{CreateRequest, LaunchError, Machine, MachineState};
use gpuplan_market::SourceError;

/// Of one epoch of one run, in one region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub region: String,
    pub name: String,
    pub run: String,
    pub epoch: u64,
}

impl Group {
    /// The name of a machine without its node.
    pub fn for_request(request: &CreateRequest) -> Self {
        let end = format!("-n{}", request.node);
        Self {
            region: request.pool.region.clone(),
            name: request.name.strip_suffix(&end).unwrap_or(&request.name).to_owned(),
            run: request.run.clone(),
            epoch: request.epoch,
        }
    }

    /// Machines of it were seen, and all of them are gone.
    fn is_over(&self, machines: &[Machine]) -> bool {
        let mut own =
            machines.iter().filter(|machine| machine.run == self.run && machine.epoch == self.epoch).peekable();
        own.peek().is_some() && own.all(|machine| machine.state == MachineState::Gone)
    }
}

/// Makes the group; one that is there already is as good.
pub async fn ensure(account: &Account, group: &Group, request: &CreateRequest, owner: &str) -> Result<(), LaunchError> {
    let mut tags = tags(request, owner)?;
    // It belongs to no node.
    tags.retain(|tag| ![Some(names::NODE), Some("Name")].contains(&tag.key()));
    let tags = TagSpecification::builder().resource_type(ResourceType::PlacementGroup).set_tags(Some(tags)).build();
    let question = account.ec2(&group.region).create_placement_group().group_name(&group.name);
    match question.strategy(PlacementStrategy::Cluster).tag_specifications(tags).send().await {
        Ok(_) => Ok(()),
        Err(error) => match account.error(&group.region, &error) {
            SourceError::Refused { code, .. } if code == "InvalidPlacementGroup.Duplicate" => Ok(()),
            error => Err(launch_error(error)),
        },
    }
}

/// Removes those of `known` whose machines are gone, and gives the others. A group that is still in use stays for the next time:
/// it costs nothing.
pub async fn tidy(account: &Account, known: BTreeSet<Group>, machines: &[Machine]) -> BTreeSet<Group> {
    let mut left = BTreeSet::new();
    for group in known {
        if !group.is_over(machines) || !is_removed(account, &group).await {
            left.insert(group);
        }
    }
    left
}

async fn is_removed(account: &Account, group: &Group) -> bool {
    match account.ec2(&group.region).delete_placement_group().group_name(&group.name).send().await {
        Ok(_) => true,
        Err(error) => {
            let error = account.error(&group.region, &error);
            matches!(error, SourceError::Refused { code, .. } if code == "InvalidPlacementGroup.Unknown")
        }
    }
}

/// Removes groups of former processes in a region, once their machines are past their time: younger ones may be about to be used.
pub async fn sweep(account: &Account, region: &str, now: Timestamp) {
    let ours = filter("tag-key", names::RUN);
    // A list of machines is not given up for what costs nothing.
    let Ok(answer) = account.ec2(region).describe_placement_groups().filters(ours).send().await else { return };
    for group in answer.placement_groups().iter().filter(|group| is_past(group, now)) {
        let Some(name) = group.group_name() else { continue };
        let (region, name) = (region.to_owned(), name.to_owned());
        is_removed(account, &Group { region, name, run: String::new(), epoch: 0 }).await;
    }
}

fn is_past(group: &PlacementGroup, now: Timestamp) -> bool {
    let expires = group.tags().iter().find(|tag| tag.key() == Some(names::EXPIRES)).and_then(Tag::value);
    expires.and_then(|time| time.parse::<Timestamp>().ok()).is_some_and(|time| time < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_over_when_all_its_machines_are() {
        let group =
            Group { region: "us-east-1".to_owned(), name: "gpuplan-r-e2".to_owned(), run: "r".to_owned(), epoch: 2 };
        let machine = |epoch, state| {
            let instance = aws_sdk_ec2::types::Instance::builder().instance_id("i-1");
            let tag = |key: &str, value: &str| Tag::builder().key(key).value(value).build();
            let tagged = instance.tags(tag(names::RUN, "r")).tags(tag(names::EPOCH, epoch)).build();
            Machine { state, ..crate::launcher::listed::machine(&tagged, "us-east-1").unwrap() }
        };
        assert!(!group.is_over(&[]), "its machines may not be listed yet");
        assert!(!group.is_over(&[machine("1", MachineState::Gone)]));
        assert!(!group.is_over(&[machine("2", MachineState::Gone), machine("2", MachineState::Ending)]));
        assert!(group.is_over(&[machine("2", MachineState::Gone), machine("3", MachineState::Running)]));
    }

    #[test]
    fn only_what_says_that_it_is_past_is_swept() {
        let now = "2026-11-22T00:00:00Z".parse().unwrap();
        let group = |expires: &str| {
            PlacementGroup::builder().tags(Tag::builder().key(names::EXPIRES).value(expires).build()).build()
        };
        assert!(is_past(&group("2026-11-21T23:59:59Z"), now));
        assert!(!is_past(&group("2026-11-22T00:00:01Z"), now) && !is_past(&group("soon"), now));
        assert!(!is_past(&PlacementGroup::builder().build(), now));
    }
}
