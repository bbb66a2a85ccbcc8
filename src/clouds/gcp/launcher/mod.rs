//! `GcpLauncher`: rents Compute Engine machines that delete themselves when their time is over.
//!
//! An insertion is an operation that Google goes on with after it has answered: HTTP 200 says only that it was begun, and a zone
//! without capacity is told by the operation's own errors.

mod body;
mod calendar;
mod close;
mod found;
mod keep;
mod known;
mod marks;
mod refused;
mod seen;
mod shape;

use std::sync::PoisonError;
use std::time::Duration;

use google_cloud_compute_v1::model::Operation;
use google_cloud_compute_v1::model::operation::Status;
use google_cloud_gax::options::RequestOptionsBuilder;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use tokio::time::Instant;

use crate::CLOUD;
use crate::launcher::body::{COMPUTE, Frame};
use crate::launcher::close::Policy;
pub use crate::launcher::known::GcpLauncher;
use crate::launcher::refused::{call_error, operation_error, source_error, wrong};
use crate::launcher::seen::place_of;
use crate::launcher::shape::Shape;
use crate::prices::attached::Attached;
use crate::sdk::{signed, zones};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_launch::block::Seller;
use gpuplan_launch::{
    CreateRequest, Keeper, LaunchError, Launcher, Machine, MachineId, MachineState, Market, Role, SelfDestruct,
};
use gpuplan_market::{BoxFuture, SourceError};

/// Between two questions for an operation, should Google answer before it is done.
const PAUSE: Duration = Duration::from_millis(500);
/// The list of all machine types of all zones, some pages of it.
const LIST: Duration = Duration::from_secs(45);

/// `images.get`, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    /// A text, since it is a 64-bit integer.
    disk_size_gb: String,
}

impl GcpLauncher {
    /// Zone after zone, where the offer names none: a repeated call asks the same zones in the same order, and each knows its token.
    async fn create_somewhere(&self, request: CreateRequest) -> Result<Machine, LaunchError> {
        let (shape, image, disk_gib) = self.boots_from(&request).await?;
        let project = self.id()?;
        let policy = self.stands_close(&request).await?.map(|policy| policy.path(project));
        let mut refused = LaunchError::NotSold { code: format!("no zone of {} lists it", request.pool.region) };
        for zone in self.zones_for(&request).await? {
            let frame = Frame {
                project: &self.project,
                zone: &zone,
                shape,
                image: &image,
                disk_gib,
                owner: &self.owner,
                setup: &self.setup,
                policy: policy.as_deref(),
                now: self.now(),
            };
            match self.create_in(&frame, &request).await {
                Err(error @ (LaunchError::Capacity { .. } | LaunchError::NotSold { .. })) => refused = error,
                clear => return clear,
            }
        }
        Err(refused)
    }

    /// Shape, image and the size of its disk. GiB.
    async fn boots_from(&self, request: &CreateRequest) -> Result<(Shape, String, u32), LaunchError> {
        let Some(shape) = shape::shape_of(&request.pool.instance_type) else {
            return Err(wrong(format!("what {} boots from and carries is not known", request.pool.instance_type)));
        };
        let image = request.image.as_deref().or(shape.image).ok_or_else(|| {
            wrong(format!("no image with GPU drivers is known for {}; --image names one", request.pool.instance_type))
        })?;
        let image = shape::image_path(image, self.id()?);
        let disk_gib = request.disk_gib.max(self.size_of(&image).await?);
        Ok((shape, image, disk_gib))
    }

    /// The policy by which machines of a gang stand close together; `None`: it is alone, or the account may make none, which is said.
    async fn stands_close(&self, request: &CreateRequest) -> Result<Option<Policy>, LaunchError> {
        // N1 takes no policy (cloud.google.com/compute/docs/instances/placement-policies-overview, "Restrictions"), and what a reservation holds
        // stands close already.
        if request.nodes < 2
            || request.pool.market == Market::CapacityBlock
            || Attached::named(&request.pool.instance_type).is_some()
        {
            return Ok(None);
        }
        let end = format!("-n{}", request.node);
        let gang = request.name.strip_suffix(&end).unwrap_or(&request.name);
        let (run, epoch) = (request.run.clone(), request.epoch);
        let name = machine_name(gang, &format!("{run}@{epoch}"));
        let policy = Policy { region: request.pool.region.clone(), name, run, epoch };
        if self.policies().contains(&policy) {
            return Ok(Some(policy));
        }
        match close::ensure(&self.project, &policy, request.expires_at).await {
            Ok(()) => {
                self.policies().insert(policy.clone());
                Ok(Some(policy))
            }
            Err(SourceError::Refused { code, detail }) if code == "403" => {
                self.said().push(format!(
                    "machines of {} stand anywhere in their zone: a placement policy may not be made ({detail}); `gpuplan doctor` names what that needs",
                    policy.run
                ));
                Ok(None)
            }
            Err(error) => Err(source_error(&error)),
        }
    }

    /// All machines of a gang stand in the zone of the first.
    async fn zones_for(&self, request: &CreateRequest) -> Result<Vec<String>, LaunchError> {
        if let Some(zone) = &request.pool.zone_id {
            return Ok(vec![zone.clone()]);
        }
        if request.node > 0 {
            let is_first = |machine: &Machine| {
                (machine.run.as_str(), machine.epoch, machine.node) == (&request.run, request.epoch, 0)
            };
            let known = self.seen().values().map(|seen| seen.machine.clone()).find(is_first);
            let first = match known {
                Some(machine) => Some(machine),
                None => self.listed(Some(&request.run)).await?.into_iter().find(is_first),
            };
            let zone = first.as_ref().and_then(|machine| place_of(&machine.id)).map(|(zone, _)| zone.to_owned());
            return zone
                .map(|zone| vec![zone])
                .ok_or_else(|| LaunchError::Unclear { code: "the gang's first machine is not listed".to_owned() });
        }
        let all =
            self.zones.get_or_try_init(|| zones(&self.project, LIST)).await.map_err(|error| source_error(&error))?;
        // The list has machines with GPUs alone. What leads a run is sold in every zone.
        let region = &request.pool.region;
        Ok(match request.role {
            Role::Work => all.zones_with(&request.pool.instance_type, region),
            Role::Lead => all.zones_of(region),
        })
    }

    async fn create_in(&self, frame: &Frame<'_>, request: &CreateRequest) -> Result<Machine, LaunchError> {
        let (project, clients) = (self.id()?, self.clients().await?);
        let name = machine_name(&request.name, &request.token);
        let how = |exceeded: &_| refused::how_to_ask(exceeded, request, project);
        let instance = frame.instance(request, &name)?;
        let insert = clients.instances.insert().set_project(project).set_zone(frame.zone).set_body(instance);
        let begun = insert.set_request_id(request_id(&request.token, frame.zone)).send().await;
        let operation = match begun {
            // The name holds the token, so what has it already is the machine that is wanted, or what is left of it.
            Err(error) if error.http_status_code() == Some(409) => {
                return self.got(frame.zone, &name, &request.token).await;
            }
            begun => begun.map_err(|error| call_error(&error, how))?,
        };
        let operation = self.ended(frame.zone, operation).await?;
        match operation_error(&operation, how) {
            Some(error) => Err(error),
            None => self.got(frame.zone, &name, &request.token).await,
        }
    }

    /// The machine as it is now. One that ended as soon as it was there is one that could not be had.
    async fn got(&self, zone: &str, name: &str, token: &str) -> Result<Machine, LaunchError> {
        let call = self.clients().await?.instances.get().set_project(self.id()?).set_zone(zone).set_instance(name);
        match call.send().await {
            Ok(instance) => match seen::seen(&instance)?.filter(|seen| seen.machine.token == token) {
                Some(seen) => Ok(self.remember(seen)),
                None => Err(wrong(format!("another machine is called {zone}/{name}"))),
            },
            Err(error) if error.http_status_code() == Some(404) => {
                Err(LaunchError::Capacity { code: "it ended at once".to_owned() })
            }
            Err(error) => Err(call_error(&error, |_| String::new())),
        }
    }

    /// Waits until the operation is done, whatever came of it.
    async fn ended(&self, zone: &str, mut operation: Operation) -> Result<Operation, LaunchError> {
        let (project, operations, until) =
            (self.id()?, &self.clients().await?.operations, Instant::now() + self.patience);
        let name = operation
            .name
            .clone()
            .ok_or_else(|| LaunchError::Unclear { code: "an operation without a name".to_owned() })?;
        while operation.status != Some(Status::Done) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LaunchError::Unclear {
                    code: format!("{name} still runs after {} s", self.patience.as_secs()),
                });
            }
            let wait =
                operations.wait().set_project(project).set_zone(zone).set_operation(&name).with_attempt_timeout(left);
            operation = match wait.send().await {
                Err(error) if error.is_timeout() => continue,
                answer => answer.map_err(|error| call_error(&error, |_| String::new()))?,
            };
            if operation.status != Some(Status::Done) {
                tokio::time::sleep(PAUSE.min(left)).await;
            }
        }
        Ok(operation)
    }

    async fn deleted(&self, zone: &str, name: &str) -> Result<(), LaunchError> {
        let call = self.clients().await?.instances.delete().set_project(self.id()?).set_zone(zone).set_instance(name);
        let operation = match call.send().await {
            Err(error) if error.http_status_code() == Some(404) => return Ok(()),
            begun => begun.map_err(|error| call_error(&error, |_| String::new()))?,
        };
        let operation = self.ended(zone, operation).await?;
        let is_gone = refused::objection(&operation).is_some_and(|objection| objection.code == "RESOURCE_NOT_FOUND");
        operation_error(&operation, |_| String::new()).filter(|_| !is_gone).map_or(Ok(()), Err)
    }

    /// Smallest disk that the image fits on. GiB.
    async fn size_of(&self, image: &str) -> Result<u32, LaunchError> {
        let images = || self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(size) = images().get(image).copied() {
            return Ok(size);
        }
        let url = format!("{}/compute/v1/{image}", self.project.address(COMPUTE));
        let question = signed(&self.project, Request::get(url));
        let ask = async { Http::new()?.telling(&self.dates).json::<Image>(&question.await?).await };
        let answer = ask.await.map_err(|error| match &error {
            SourceError::Refused { code, .. } if ["400", "404"].contains(&code.as_str()) => {
                wrong(format!("there is no image {image}"))
            }
            _ => source_error(&error),
        })?;
        let size = answer
            .value
            .disk_size_gb
            .parse()
            .map_err(|_| LaunchError::Unclear { code: format!("the size of {image}") })?;
        images().insert(image.to_owned(), size);
        Ok(size)
    }
}

/// Google knows a repeated insertion by a UUID: one made from the token, laid out as a name-based one (RFC 9562, 5.5) over SHA-256.
/// Every zone that is asked has its own.
fn request_id(token: &str, zone: &str) -> String {
    let hash = digest(&SHA256, format!("{token}@{zone}").as_bytes());
    let mut bytes: [u8; 16] = std::array::from_fn(|index| hash.as_ref()[index]);
    bytes[6] = 0x50 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A name is unique in a zone and has at most 63 characters (RFC 1035): that of the order, and eight that stand for its token.
fn machine_name(name: &str, token: &str) -> String {
    marked(name, token, 63)
}

/// The beginning of a name, and eight characters that stand for its token.
fn marked(name: &str, token: &str, longest: usize) -> String {
    let (start, hash) = (name.chars().take(longest - 9).collect::<String>(), digest(&SHA256, token.as_bytes()));
    let mark = hash.as_ref().iter().take(4).fold(String::new(), |mark, byte| mark + &format!("{byte:02x}"));
    format!("{start}-{mark}")
}

impl Launcher for GcpLauncher {
    fn cloud(&self) -> &str {
        CLOUD
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        Box::pin(self.create_somewhere(request))
    }

    fn list<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(async move {
            let mut machines = self.listed(run).await?;
            machines.extend(self.vanished(run, &machines).await);
            let known = std::mem::take(&mut *self.policies());
            let left = close::tidy(&self.project, known, &machines).await;
            self.policies().extend(left);
            if run.is_none() {
                close::sweep(&self.project, &self.dates).await;
                self.sweep_templates().await;
            }
            Ok(machines)
        })
    }

    /// A machine of no zone was never one of this cloud.
    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(async move {
            let Some((zone, name)) = place_of(machine) else { return Ok(()) };
            self.deleted(zone, name).await?;
            if let Some(seen) = self.seen().get_mut(machine).filter(|seen| seen.machine.state != MachineState::Gone) {
                (seen.machine.state, seen.machine.reason) = (MachineState::Gone, Some("deleted".to_owned()));
            }
            Ok(())
        })
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.said())
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(std::future::ready(Ok(self.owner.clone())))
    }

    fn time(&self) -> Option<Timestamp> {
        self.dates.now()
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        Some(SelfDestruct::Cloud)
    }

    fn keeper(&self) -> Option<&dyn Keeper> {
        Some(self)
    }

    fn seller(&self) -> Option<&dyn Seller> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_one_request_in_each_zone() {
        let id = request_id("t", "us-central1-a");
        assert_eq!(id, request_id("t", "us-central1-a"));
        assert!(id != request_id("t", "us-central1-b") && id != request_id("u", "us-central1-a"));
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!((groups, &id[14..15]), (vec![8, 4, 4, 4, 12], "5"));
    }

    proptest! {
        #[test]
        fn a_name_fits_and_tells_tokens_apart(run in "[A-Za-z0-9._-]{1,80}", epoch in 0_u64..1_000_000, token in ".{0,64}") {
            let order = gpuplan_launch::names::machine(&run, epoch, 0);
            let name = machine_name(&order, &token);
            prop_assert!(name.len() <= 63 && name.starts_with("gpuplan-"), "{}", name);
            prop_assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", name);
            prop_assert_ne!(name, machine_name(&order, &format!("{token}x")));
        }
    }
}
