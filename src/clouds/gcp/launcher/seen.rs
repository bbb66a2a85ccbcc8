//! `Seen`: an instance of Compute Engine as a machine of a run, by its marks.

use std::collections::BTreeMap;

use google_cloud_compute_v1::model::Instance;
use google_cloud_compute_v1::model::instance::Status;
use google_cloud_compute_v1::model::scheduling::ProvisioningModel;
use jiff::Timestamp;

use crate::CLOUD;
use crate::launcher::marks::{ITEM, Marks};
use crate::prices::attached::Attached;
use crate::prices::zones::{last_segment, region};
use gpuplan_launch::{LaunchError, Machine, MachineId, MachineState, Market, Pool};

/// A machine and the number that Google gives it, which no other ever has.
#[derive(Clone, Debug)]
pub struct Seen {
    pub machine: Machine,
    pub number: u64,
}

/// Zone and name; `None`: no machine of this cloud is called so. A group calls the next machine as the last one: of those, the id ends with
/// the number that Google gave each.
pub fn place_of(machine: &MachineId) -> Option<(&str, &str)> {
    let (zone, rest) = machine.0.split_once('/')?;
    Some((zone, rest.split('/').next().unwrap_or(rest)))
}

/// `Ok(None)`: it carries no mark of a run.
pub fn seen(instance: &Instance) -> Result<Option<Seen>, LaunchError> {
    let unreadable = |what: &str| {
        let name = instance.name.as_deref().unwrap_or("without a name");
        LaunchError::Unclear { code: format!("the machine {name} says no {what}") }
    };
    let zone = instance.zone.as_deref().map(last_segment).ok_or_else(|| unreadable("zone"))?;
    let name = instance.name.as_deref().ok_or_else(|| unreadable("name"))?;
    let created = instance.creation_timestamp.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let created_at = created.ok_or_else(|| unreadable("time of its creation"))?;
    let labels: BTreeMap<&str, &str> =
        instance.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut items = instance.metadata.iter().flat_map(|metadata| &metadata.items);
    let item = items.find(|item| item.key.as_deref() == Some(ITEM)).and_then(|item| item.value.as_deref());
    let pool = Pool {
        cloud: CLOUD.to_owned(),
        region: region(zone).unwrap_or(zone).to_owned(),
        zone_id: Some(zone.to_owned()),
        instance_type: instance_type(instance),
        market: market(instance),
    };
    let Some(marks) = Marks::read(item, &labels, pool, created_at) else { return Ok(None) };
    let (state, reason) = state(instance);
    let number = instance.id.ok_or_else(|| unreadable("number"))?;
    let machine = Machine {
        id: MachineId(if marks.is_kept { format!("{zone}/{name}/{number}") } else { format!("{zone}/{name}") }),
        run: marks.run,
        epoch: marks.epoch,
        node: marks.node,
        token: marks.token,
        pool: marks.pool,
        state,
        reason,
        was_taken: false,
        created_at,
        expires_at: marks.expires_at,
        owner: marks.owner,
    };
    Ok(Some(Seen { machine, number }))
}

/// The machine type, with the cards that are attached to it.
fn instance_type(instance: &Instance) -> String {
    let machine_type = instance.machine_type.as_deref().map(last_segment).unwrap_or_default();
    let cards = instance.guest_accelerators.first().and_then(|cards| {
        let count = u32::try_from(cards.accelerator_count?).ok()?;
        Attached::of(machine_type, last_segment(cards.accelerator_type.as_deref()?), count)
    });
    cards.map_or_else(|| machine_type.to_owned(), |attached| attached.name())
}

fn market(instance: &Instance) -> Market {
    let model = instance.scheduling.as_ref().and_then(|scheduling| scheduling.provisioning_model.as_ref());
    match model {
        Some(ProvisioningModel::Spot) => Market::Spot,
        Some(ProvisioningModel::FlexStart) => Market::FlexStart,
        Some(ProvisioningModel::ReservationBound) => Market::CapacityBlock,
        _ => Market::OnDemand,
    }
}

/// One that has stopped still pays for its disk: only a deleted machine costs nothing.
fn state(instance: &Instance) -> (MachineState, Option<String>) {
    let stopped = || Some("it stopped, and its disk is still there".to_owned());
    match &instance.status {
        Some(Status::Pending | Status::Provisioning | Status::Staging) => (MachineState::Starting, None),
        Some(Status::Stopping | Status::PendingStop | Status::Suspending | Status::Deprovisioning) => {
            (MachineState::Ending, None)
        }
        Some(Status::Terminated | Status::Stopped | Status::Suspended) => (MachineState::Ending, stopped()),
        // A word that this program does not know may well be paid for.
        _ => (MachineState::Running, None),
    }
}
