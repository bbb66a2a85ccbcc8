//! The permissions that a plan and a launch need, asked of a project and read from its answer. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use gpuplan_market::{Permission, SourceError, Verdict};

/// Where a permission is usually granted. What a project does not grant, something smaller in it still may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    ByProject,
    ByBucket,
}

/// Permissions that are asked for together: where one is unknown to the project, the whole question is refused.
pub struct Group {
    held: Held,
    needed: &'static [(&'static str, &'static str)],
}

/// What the methods used here and by a launch need, as their references name it (cloud.google.com/compute/docs/reference/rest/v1
/// and cloud.google.com/storage/docs/access-control/iam-permissions).
pub const GROUPS: &[Group] = &[
    Group {
        held: Held::ByProject,
        needed: &[
            ("compute.instances.create", "starting machines"),
            ("compute.instances.delete", "ending machines"),
            ("compute.instances.get", "watching machines"),
            ("compute.instances.list", "finding machines that were left behind"),
            ("compute.instances.setMetadata", "handing a machine its instructions"),
            ("compute.instances.setLabels", "marking machines as rented by a run"),
            ("compute.instances.setServiceAccount", "giving a machine access to its bucket"),
            ("compute.disks.create", "the disk that a machine starts from"),
            ("compute.disks.setLabels", "marking that disk as rented by a run"),
            ("compute.subnetworks.use", "a machine's network"),
            ("compute.resourcePolicies.create", "machines close together"),
            ("compute.resourcePolicies.use", "machines close together"),
            ("compute.resourcePolicies.get", "machines close together"),
            ("compute.resourcePolicies.list", "machines close together"),
            ("compute.resourcePolicies.delete", "machines close together"),
            ("compute.zoneOperations.get", "learning whether a start succeeded"),
            ("compute.zoneOperations.list", "learning why a machine ended"),
            ("compute.machineTypes.list", "the zones that have a machine"),
            ("compute.acceleratorTypes.list", "the zones that have cards for N1"),
            ("compute.regions.get", "quotas of a region"),
            ("compute.projects.get", "quotas of the project"),
            ("compute.instanceTemplates.create", "--keep-alive"),
            ("compute.instanceTemplates.useReadOnly", "--keep-alive"),
            ("compute.instanceTemplates.list", "--keep-alive"),
            ("compute.instanceTemplates.delete", "--keep-alive"),
            ("compute.instanceGroupManagers.create", "--keep-alive"),
            ("compute.instanceGroupManagers.list", "--keep-alive"),
            ("compute.instanceGroupManagers.delete", "--keep-alive"),
            ("compute.regionOperations.get", "--keep-alive"),
        ],
    },
    Group {
        held: Held::ByProject,
        needed: &[
            ("compute.advice.capacity", "how likely spot machines are had"),
            ("compute.advice.capacityHistory", "spot prices and preemptions"),
        ],
    },
    Group {
        held: Held::ByBucket,
        needed: &[
            ("storage.objects.create", "saving checkpoints"),
            ("storage.objects.get", "restoring checkpoints"),
            ("storage.objects.list", "finding checkpoints"),
            ("storage.objects.delete", "removing old checkpoints"),
        ],
    },
    Group {
        held: Held::ByProject,
        needed: &[
            ("compute.futureReservations.create", "--buy-capacity-block"),
            ("compute.futureReservations.get", "--buy-capacity-block"),
            ("compute.futureReservations.list", "--buy-capacity-block"),
        ],
    },
];

/// What `testIamPermissions` of Cloud Resource Manager answers: those of the asked ones that are granted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Granted {
    permissions: Vec<String>,
}

impl Granted {
    pub fn has(&self, permission: &str) -> bool {
        self.permissions.iter().any(|granted| granted == permission)
    }
}

impl Group {
    /// Body of `projects.testIamPermissions`.
    pub fn question(&self) -> Value {
        json!({"permissions": self.needed.iter().map(|(action, _)| *action).collect::<Vec<_>>()})
    }

    pub fn verdicts(&self, answer: Result<Granted, SourceError>) -> Vec<Permission> {
        let verdict = |action: &str| match &answer {
            Err(error) => Verdict::Unknown { detail: error.to_string() },
            Ok(granted) if granted.has(action) => Verdict::Allowed,
            Ok(_) => not_granted(self.held),
        };
        let permission = |(action, needed_for): &(&str, &'static str)| Permission {
            action: (*action).to_owned(),
            needed_for,
            verdict: verdict(action),
        };
        self.needed.iter().map(permission).collect()
    }
}

fn not_granted(held: Held) -> Verdict {
    let unknown =
        |place: &str| Verdict::Unknown { detail: format!("the project does not grant it; {place} still may") };
    match held {
        Held::ByProject => Verdict::Denied { detail: "the project does not grant it".to_owned() },
        Held::ByBucket => unknown("the bucket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_the_project_alone_could_grant_is_denied() {
        let granted = || Ok(Granted { permissions: vec!["compute.instances.create".to_owned()] });
        let launch = GROUPS[0].verdicts(granted());
        assert_eq!((launch[0].action.as_str(), &launch[0].verdict), ("compute.instances.create", &Verdict::Allowed));
        assert!(launch[1..].iter().all(|permission| matches!(permission.verdict, Verdict::Denied { .. })));
        for group in GROUPS.iter().filter(|group| group.held == Held::ByBucket) {
            assert!(
                group
                    .verdicts(granted())
                    .iter()
                    .all(|permission| matches!(&permission.verdict, Verdict::Unknown { .. }))
            );
        }
    }

    #[test]
    fn a_question_that_failed_says_nothing_about_permissions() {
        let refused = SourceError::Refused { code: "400".to_owned(), detail: "not valid for this resource".to_owned() };
        let verdicts = GROUPS[1].verdicts(Err(refused));
        assert!(verdicts.iter().all(
            |permission| matches!(&permission.verdict, Verdict::Unknown { detail } if detail.contains("not valid"))
        ));
        assert_eq!(GROUPS[1].question()["permissions"][1], "compute.advice.capacityHistory");
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(names in proptest::collection::vec(".{0,20}", 0..5)) {
            let granted: Granted = serde_json::from_value(json!({"permissions": names})).unwrap();
            let verdicts = GROUPS[0].verdicts(Ok(granted));
            prop_assert!(verdicts.iter().all(|permission| permission.verdict != Verdict::Allowed || names.contains(&permission.action)));
        }
    }
}
