//! `GcpLauncher`: the project that machines are rented in, its clients, and what is known of its machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_compute_v1::client::{Instances, ZoneOperations};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::OnceCell;

use crate::account::identity;
use crate::account::project::Project;
use crate::account::service_accounts::{SETUP_NAME, setup_name};
use crate::launcher::close::Policy;
use crate::launcher::refused::source_error;
use crate::launcher::seen::Seen;
use crate::prices::zones::Zones;
use crate::sdk::{access, not_built};
use gpuplan_clouds_http::Dates;
use gpuplan_launch::{LaunchError, Machine, MachineId};
use gpuplan_market::SourceError;

/// An operation that takes longer has no clear answer yet; asked again with the same token, it is waited for again. Below the time
/// that whoever leads a run gives a call.
const PATIENCE: Duration = Duration::from_secs(50);

/// A project that machines are rented in, with the application default credentials.
pub struct GcpLauncher {
    pub(super) project: Project,
    /// Who rents, as far as the credentials say it.
    pub(super) owner: String,
    /// The name that `setup.tf` was given.
    pub(super) setup: String,
    pub(super) patience: Duration,
    clients: OnceCell<Clients>,
    pub(super) zones: OnceCell<Zones>,
    /// Sizes of images by their path. GiB.
    pub(super) images: Mutex<BTreeMap<String, u32>>,
    /// What this launcher created or listed: a machine that is deleted leaves every list, and only its operations say why.
    seen: Mutex<BTreeMap<MachineId, Seen>>,
    /// Placement policies that this launcher made, or found.
    policies: Mutex<BTreeSet<Policy>>,
    /// To be said to whoever rents.
    said: Mutex<Vec<String>>,
    /// What Google says the time is.
    pub(super) dates: Dates,
}

pub(super) struct Clients {
    pub(super) instances: Instances,
    pub(super) operations: ZoneOperations,
}

impl GcpLauncher {
    pub fn from_environment() -> Self {
        let project = Project::from_environment();
        let owner = if project.is_stand_in() { "nobody".to_owned() } else { identity::find().principal };
        let setup = setup_name();
        Self { setup, ..Self::at(project, owner) }
    }

    pub fn at(project: Project, owner: String) -> Self {
        let (clients, zones, setup) = (OnceCell::new(), OnceCell::new(), SETUP_NAME.to_owned());
        Self {
            project,
            owner,
            setup,
            patience: PATIENCE,
            clients,
            zones,
            images: Mutex::default(),
            seen: Mutex::default(),
            policies: Mutex::default(),
            said: Mutex::default(),
            dates: Dates::default(),
        }
    }

    /// Gives operations another time to end.
    pub fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(super) fn id(&self) -> Result<&str, LaunchError> {
        self.project.id().map_err(|error| source_error(&error))
    }

    /// As Google says it; this computer's clock counts only where no answer has named the time.
    pub(super) fn now(&self) -> Timestamp {
        // A header says whole seconds, and it is later than that.
        self.dates.now().map_or_else(Timestamp::now, |now| now + SignedDuration::from_secs(1))
    }

    pub(super) async fn clients(&self) -> Result<&Clients, LaunchError> {
        let build = async || -> Result<Clients, SourceError> {
            let instances = access(&self.project)?.instances().await.map_err(|error| not_built(&error))?;
            let operations = access(&self.project)?.zone_operations().await.map_err(|error| not_built(&error))?;
            Ok(Clients { instances, operations })
        };
        self.clients.get_or_try_init(build).await.map_err(|error| source_error(&error))
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, BTreeMap<MachineId, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn policies(&self) -> MutexGuard<'_, BTreeSet<Policy>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn said(&self) -> MutexGuard<'_, Vec<String>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(&self, seen: Seen) -> Machine {
        let machine = seen.machine.clone();
        self.seen().insert(machine.id.clone(), seen);
        machine
    }
}
