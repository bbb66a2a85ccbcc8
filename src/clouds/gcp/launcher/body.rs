//! The body of an insertion: everything that a machine is, in the one call that creates it.

use std::collections::BTreeMap;

use google_cloud_compute_v1::model::metadata::Items;
use google_cloud_compute_v1::model::network_interface::NicType;
use google_cloud_compute_v1::model::reservation_affinity::ConsumeReservationType;
use google_cloud_compute_v1::model::scheduling::{InstanceTerminationAction, OnHostMaintenance, ProvisioningModel};
use google_cloud_compute_v1::model::{
    AcceleratorConfig, AttachedDisk, AttachedDiskInitializeParams, Duration, Instance, InstanceProperties, Metadata,
    NetworkInterface, ReservationAffinity, Scheduling, ServiceAccount,
};
use jiff::{SignedDuration, Timestamp};

use crate::account::project::Project;
use crate::account::service_accounts::{of_kept, of_leaders, of_machines};
use crate::launcher::marks::{ITEM, Marks};
use crate::launcher::refused::{source_error, wrong};
use crate::launcher::shape::Shape;
use crate::prices::attached::Attached;
use crate::prices::zones::region;
use gpuplan_launch::{CreateRequest, LaunchError, Market, Role};
use gpuplan_market::Purchase;

pub const COMPUTE: &str = "https://compute.googleapis.com";
/// What the account may do is said by its roles, not by a scope (cloud.google.com/compute/docs/access/service-accounts, "Best practice").
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The key under which a machine names its reservation (compute API v1, `ReservationAffinity.key`).
const RESERVATION: &str = "compute.googleapis.com/reservation-name";

/// Shortest and longest `maxRunDuration` (cloud.google.com/compute/docs/instances/limit-vm-runtime, "Limitations"). Seconds. A minute
/// is paid at least, so half of one costs nothing more.
const SHORTEST_LIFE: i64 = 30;
const LONGEST_LIFE: i64 = 120 * 24 * 3600;

/// How a machine's own end is its deletion: with the token of its service account, from the metadata service. A secret goes from one
/// program to the next and stands in no list of processes.
const END: &str = r#"host="${GCE_METADATA_HOST:-metadata.google.internal}"
account="http://${host#http://}/computeMetadata/v1/instance/service-accounts/default/token"
curl -fsS --retry 5 -H 'Metadata-Flavor: Google' "$account" |
  sed 's/.*"access_token" *: *"\([^"]*\)".*/Authorization: Bearer \1/' |
  curl -fsS --retry 5 -X DELETE -H @- "$1" >/dev/null || shutdown -P now
"#;

/// How a machine ends the group that would start the next one: with the token of an account that machines of groups alone have.
const END_GROUP: &str = r#"host="${GCE_METADATA_HOST:-metadata.google.internal}"
account="http://${host#http://}/computeMetadata/v1/instance/service-accounts/default/token"
tries=1
until curl -fsS --retry 5 -H 'Metadata-Flavor: Google' "$account" |
  sed 's/.*"access_token" *: *"\([^"]*\)".*/Authorization: Bearer \1/' |
  curl -fsS -X DELETE -H @- "$1" >/dev/null; do
  [ $tries -lt 6 ] || exit 1
  sleep $((tries * 2))
  tries=$((tries + 1))
done
"#;

/// How a machine of a group learns its own address: its template does not know where it will stand, nor its name.
const ITSELF: &str = r#"host="${GCE_METADATA_HOST:-metadata.google.internal}"
own() { curl -fsS --retry 5 -H 'Metadata-Flavor: Google' "http://${host#http://}/computeMetadata/v1/instance/$1"; }
zone=$(own zone) name=$(own name)
"#;

/// What the order does not say of its machine.
pub struct Frame<'a> {
    pub project: &'a Project,
    pub zone: &'a str,
    pub shape: Shape,
    /// Path below `compute/v1/`.
    pub image: &'a str,
    pub disk_gib: u32,
    pub owner: &'a str,
    /// The name that `setup.tf` was given: the subnetwork of every region is called so, the account of machines begins so.
    pub setup: &'a str,
    /// The placement policy by which it stands close to others, as a path below `compute/v1/`.
    pub policy: Option<&'a str>,
    /// By Google's clock: a machine's life is a length there, and the end that was agreed to is a moment.
    pub now: Timestamp,
}

impl Frame<'_> {
    pub fn instance(&self, request: &CreateRequest, name: &str) -> Result<Instance, LaunchError> {
        let project = self.project.id().map_err(|error| source_error(&error))?;
        let marks = Marks::for_request(request, self.owner);
        let labels = marks.labels(&request.tags);
        let (scheduling, affinity) = (scheduling(request, self.now)?, affinity(request)?);
        Ok(Instance::new()
            .set_name(name)
            .set_machine_type(format!("zones/{}/machineTypes/{}", self.zone, machine_type(request)))
            .set_guest_accelerators(cards(
                request,
                &format!("projects/{project}/zones/{}/acceleratorTypes/", self.zone),
            ))
            .set_metadata(metadata(self.startup(request, project, name), &marks)?)
            .set_disks([self.disk(&labels, &format!("zones/{}/diskTypes/", self.zone))])
            .set_labels(labels)
            .set_scheduling(scheduling)
            .set_or_clear_reservation_affinity(affinity)
            .set_resource_policies(self.policy)
            .set_network_interfaces([self.network(request, project)])
            .set_service_accounts([account_of(&self.account(request.role, project))]))
    }

    /// What every machine of a group is: where each stands and what it is called are the group's choice, and they all end at one time.
    pub fn kept(&self, request: &CreateRequest, group: &str) -> Result<InstanceProperties, LaunchError> {
        let market = request.pool.market;
        if let Market::FlexStart | Market::CapacityBlock = market {
            // Its template would need a length of life where that of a group is a moment, or end with a reservation.
            return Err(wrong(format!("no group keeps machines on {market} terms alive; leave --keep-alive out")));
        }
        let project = self.project.id().map_err(|error| source_error(&error))?;
        let marks = Marks { is_kept: true, ..Marks::for_request(request, self.owner) };
        let labels = marks.labels(&request.tags);
        life(request, self.now)?;
        let ends_at = request.expires_at.max(self.now + SignedDuration::from_secs(SHORTEST_LIFE));
        Ok(InstanceProperties::new()
            .set_machine_type(machine_type(request))
            .set_guest_accelerators(cards(request, ""))
            .set_metadata(metadata(self.startup_of_kept(request, project, group), &marks)?)
            .set_disks([self.disk(&labels, "")])
            .set_labels(labels)
            .set_scheduling(terms(request).set_termination_time(ends_at.to_string()))
            .set_network_interfaces([self.network(request, project)])
            .set_service_accounts([account_of(&of_kept(self.setup, project))]))
    }

    fn account(&self, role: Role, project: &str) -> String {
        match role {
            Role::Work => of_machines(self.setup, project),
            Role::Lead => of_leaders(self.setup, project),
        }
    }

    /// Without an address of its own a machine is reached by nobody, and reaches Google's services through its subnetwork.
    fn network(&self, request: &CreateRequest, project: &str) -> NetworkInterface {
        let region = region(self.zone).unwrap_or(&request.pool.region);
        NetworkInterface::new()
            .set_subnetwork(format!("projects/{project}/regions/{region}/subnetworks/{}", self.setup))
            .set_nic_type(NicType::Gvnic)
    }

    /// `types`: the path of disk types, or nothing where a template takes their names alone.
    fn disk(&self, labels: &BTreeMap<String, String>, types: &str) -> AttachedDisk {
        let made = AttachedDiskInitializeParams::new()
            .set_source_image(self.image)
            .set_disk_size_gb(i64::from(self.disk_gib))
            .set_disk_type(format!("{types}{}", self.shape.disk_type))
            .set_labels(labels.clone());
        AttachedDisk::new().set_boot(true).set_auto_delete(true).set_initialize_params(made)
    }

    /// A machine that only shuts down keeps its disk, which costs money: before all else it learns how to delete itself.
    fn startup(&self, request: &CreateRequest, project: &str, name: &str) -> String {
        let address = self.project.address(COMPUTE);
        let machine = format!("{address}/compute/v1/projects/{project}/zones/{}/instances/{name}", self.zone);
        format!(
            "#!/bin/sh\ncat >end-machine <<'GPUPLAN_END'\n{END}GPUPLAN_END\n\
             export GPUPLAN_END_MACHINE=\"sh $PWD/end-machine {machine}\"\n{}",
            request.boot
        )
    }

    fn startup_of_kept(&self, request: &CreateRequest, project: &str, group: &str) -> String {
        let base = format!("{}/compute/v1/projects/{project}", self.project.address(COMPUTE));
        let group = format!("{base}/regions/{}/instanceGroupManagers/{group}", request.pool.region);
        format!(
            "#!/bin/sh\ncat >end-machine <<'GPUPLAN_END'\n{END}GPUPLAN_END\n\
             cat >end-group <<'GPUPLAN_END'\n{END_GROUP}GPUPLAN_END\n{ITSELF}\
             export GPUPLAN_END_MACHINE=\"sh $PWD/end-machine {base}/zones/${{zone##*/}}/instances/$name\"\n\
             export GPUPLAN_END_GROUP=\"sh $PWD/end-group {group}\"\n{}",
            request.boot
        )
    }
}

/// What Google calls the machine, without its attached cards.
fn machine_type(request: &CreateRequest) -> &str {
    let name = request.pool.instance_type.as_str();
    Attached::named(name).map_or(name, |attached| attached.machine_type)
}

/// Cards to attach. `types`: the path of accelerator types, or nothing where a template takes their names alone.
fn cards(request: &CreateRequest, types: &str) -> Option<AcceleratorConfig> {
    let attached = Attached::named(&request.pool.instance_type)?;
    let kind = format!("{types}{}", attached.kind.accelerator);
    Some(AcceleratorConfig::new().set_accelerator_type(kind).set_accelerator_count(attached.count.cast_signed()))
}

fn account_of(email: &str) -> ServiceAccount {
    ServiceAccount::new().set_email(email).set_scopes([SCOPE])
}

fn metadata(startup: String, marks: &Marks) -> Result<Metadata, LaunchError> {
    let exact = serde_json::to_string(marks).map_err(|error| wrong(error.to_string()))?;
    let item = |key: &str, value: String| Items::new().set_key(key).set_value(value);
    Ok(Metadata::new().set_items([item("startup-script", startup), item(ITEM, exact)]))
}

/// Seconds from now until the machine ends, as Google takes them.
fn life(request: &CreateRequest, now: Timestamp) -> Result<i64, LaunchError> {
    let seconds = request.expires_at.duration_since(now).as_secs_f64().ceil() as i64;
    let longest_flex = Purchase::FlexStart.longest_hours().filter(|_| request.pool.market == Market::FlexStart);
    if let Some(hours) = longest_flex.filter(|hours| seconds > i64::from(*hours) * 3600) {
        return Err(wrong(format!(
            "a machine on flex-start terms lives for {hours} hours at most; --lifetime {hours}h"
        )));
    }
    if seconds > LONGEST_LIFE {
        return Err(wrong("a machine here lives for 120 days at most; --lifetime 120d".to_owned()));
    }
    Ok(seconds.max(SHORTEST_LIFE))
}

/// A machine of a reservation ends with it (cloud.google.com/compute/docs/instances/about-reservation-bound-vms), any other after its own life.
fn scheduling(request: &CreateRequest, now: Timestamp) -> Result<Scheduling, LaunchError> {
    let life = life(request, now)?;
    Ok(match request.pool.market {
        Market::CapacityBlock => terms(request),
        _ => terms(request).set_max_run_duration(Duration::new().set_seconds(life)),
    })
}

/// Machines with GPUs cannot be moved, so maintenance ends them, but not what leads them; whatever ends one deletes it with its disk.
fn terms(request: &CreateRequest) -> Scheduling {
    let maintenance = match request.role {
        Role::Work => OnHostMaintenance::Terminate,
        Role::Lead => OnHostMaintenance::Migrate,
    };
    let model = match request.pool.market {
        Market::Spot => ProvisioningModel::Spot,
        Market::OnDemand => ProvisioningModel::Standard,
        Market::CapacityBlock => ProvisioningModel::ReservationBound,
        Market::FlexStart => ProvisioningModel::FlexStart,
    };
    Scheduling::new()
        .set_provisioning_model(model)
        .set_instance_termination_action(InstanceTerminationAction::Delete)
        .set_on_host_maintenance(maintenance)
        .set_automatic_restart(false)
}

/// What is sold on flex-start terms never comes from a reservation (cloud.google.com/compute/docs/instances/about-flex-start-vms, "Limitations"), and what
/// was booked only from its own.
fn affinity(request: &CreateRequest) -> Result<Option<ReservationAffinity>, LaunchError> {
    let affinity = |kind| ReservationAffinity::new().set_consume_reservation_type(kind);
    match (request.pool.market, &request.reservation) {
        (Market::FlexStart, _) => Ok(Some(affinity(ConsumeReservationType::NoReservation))),
        (Market::CapacityBlock, Some(name)) => {
            Ok(Some(affinity(ConsumeReservationType::SpecificReservation).set_key(RESERVATION).set_values([name])))
        }
        (Market::CapacityBlock, None) => Err(wrong("no reservation was booked for it".to_owned())),
        (Market::Spot | Market::OnDemand, _) => Ok(None),
    }
}
