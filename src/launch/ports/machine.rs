//! A machine of a cloud: what is asked for and where, and how its cloud describes it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use gpuplan_units::UsdPerHour;

/// The cloud's own name of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(pub String);

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    Spot,
    OnDemand,
    /// Within a block of time that was paid for: a capacity block of EC2, a reservation of Google in calendar mode.
    CapacityBlock,
    /// For a week at most, at a lower price, when there is room: Google's flex-start.
    FlexStart,
}

impl fmt::Display for Market {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
            Self::CapacityBlock => "capacity-block",
            Self::FlexStart => "flex-start",
        })
    }
}

/// What is asked for, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pool {
    pub cloud: String,
    pub region: String,
    pub zone_id: Option<String>,
    pub instance_type: String,
    pub market: Market,
}

impl Pool {
    /// Quotas count machine types of one family together: the name up to its first `.` or second `-`.
    pub fn family(&self) -> &str {
        let name = self.instance_type.as_str();
        let end =
            name.find('.').or_else(|| name.match_indices('-').map(|(at, _)| at).nth(1).or_else(|| name.find('-')));
        &name[..end.unwrap_or(name.len())]
    }

    pub fn place(&self) -> &str {
        self.zone_id.as_deref().unwrap_or(&self.region)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} {}", self.cloud, self.place(), self.instance_type, self.market)
    }
}

/// One machine to rent. The same token is the same machine: a call that is repeated after a lost answer must not rent twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    pub run: String,
    pub epoch: u64,
    pub node: u32,
    /// Machines of the gang: where there are several they stand as close together as the cloud can place them.
    pub nodes: u32,
    pub pool: Pool,
    pub token: String,
    pub name: String,
    /// The machine ends itself then, whoever else is still alive.
    pub expires_at: Timestamp,
    /// Run by the machine as it starts.
    pub boot: String,
    /// The cloud's own name of a machine image; `None`: the cloud's current one with GPU drivers.
    pub image: Option<String>,
    /// Root disk. GiB; an image that needs more gets it.
    pub disk_gib: u32,
    /// Tags that the user wants, beside the marks of the run.
    pub tags: Vec<(String, String)>,
    /// No spot machine is taken, or kept, that costs more than this an hour. A cloud that takes no such word leaves it out.
    pub most: Option<UsdPerHour>,
    /// Where the pool names no zone: the zones that may be taken. Empty: any.
    pub zones: Vec<String>,
    /// The block that the machine stands on, by the cloud's own name.
    pub reservation: Option<String>,
    pub role: Role,
    /// What it needs of its cloud besides, where machines of a run can have an identity for that alone.
    pub access: Access,
}

/// What the machines of a run read and write at their cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub run: String,
    /// Address of the store.
    pub store: String,
    /// Names of the secrets that they read.
    pub secrets: Vec<String>,
    /// They write runs beside this one, too: those of a sweep, so many.
    pub runs_within: Option<u32>,
    /// Other runs have the machine after this one, so an identity for this one alone would be too little.
    pub is_shared: bool,
}

/// What a machine may do at its cloud, by the identity that it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Read and write the store of its run, and end itself.
    #[default]
    Work,
    /// Rent and end machines besides: it leads a run, and no program of the user runs there.
    Lead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineState {
    Starting,
    Running,
    /// It was told to end, or is being taken away, and may still cost money.
    Ending,
    /// It costs nothing any more.
    Gone,
}

/// A machine as its cloud describes it, with the tags that it was created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub id: MachineId,
    pub run: String,
    pub epoch: u64,
    pub node: u32,
    pub token: String,
    pub pool: Pool,
    pub state: MachineState,
    /// Why it ended, in the cloud's words.
    pub reason: Option<String>,
    /// The cloud took it away.
    pub was_taken: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Who rented it, as `Launcher::owner` names them; empty where it does not say.
    #[serde(default)]
    pub owner: String,
}

/// A machine that waits for the next run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmMachine {
    /// The one that keeps it.
    pub run: String,
    /// The one that rented it, whose tags it bears; `None`: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rented_by: Option<String>,
    /// Of its order there.
    pub token: String,
    pub machine: MachineId,
    pub pool: Pool,
    /// Later nobody takes it over: it may be about to end.
    pub until: Timestamp,
    /// It ends itself then, whoever has it.
    pub expires_at: Timestamp,
}

impl WarmMachine {
    /// The run that its cloud lists it for.
    pub fn tagged(&self) -> &str {
        self.rented_by.as_deref().unwrap_or(&self.run)
    }
}

/// From the end of its time until a machine is gone: minutes of a timer, a shutdown and a list that is late. Judgement.
const ENDING: SignedDuration = SignedDuration::from_mins(10);

impl Machine {
    /// It should have ended itself by now, and did not: its timer was never armed, or its cloud forgot it.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.state != MachineState::Gone && now.duration_since(self.expires_at) > ENDING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_past_its_time_is_overdue_once_it_had_time_to_end() {
        let at = |minutes| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let machine = |state| Machine {
            id: MachineId("m".to_owned()),
            run: "r".to_owned(),
            epoch: 1,
            node: 0,
            token: String::new(),
            pool: Pool {
                cloud: "aws".to_owned(),
                region: "us-east-1".to_owned(),
                zone_id: None,
                instance_type: "p5.48xlarge".to_owned(),
                market: Market::Spot,
            },
            state,
            reason: None,
            was_taken: false,
            created_at: at(0),
            expires_at: at(60),
            owner: String::new(),
        };
        let running = machine(MachineState::Running);
        assert_eq!([59, 70, 71].map(|minutes| running.is_overdue(at(minutes))), [false, false, true]);
        assert!(!machine(MachineState::Gone).is_overdue(at(600)));
    }

    #[test]
    fn a_family_is_what_a_quota_counts() {
        let pool = |name: &str| Pool {
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            zone_id: None,
            instance_type: name.to_owned(),
            market: Market::Spot,
        };
        let families = ["p5.48xlarge", "a3-highgpu-8g", "Standard_ND96isr_H100_v5", "gpu-1x"]
            .map(|name| pool(name).family().to_owned());
        assert_eq!(families, ["p5", "a3-highgpu", "Standard_ND96isr_H100_v5", "gpu"]);
    }
}
