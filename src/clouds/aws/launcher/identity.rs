//! As which a machine acts: a role for its run alone where the account has the policy for that, else that of the setup.

use std::time::{Duration, Instant};

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesInputBuilder;

use crate::account::session::Account;
use crate::errors::launch_error;
use crate::launcher::known::{AwsLauncher, is_fresh};
use crate::launcher::run_role::{self, KNOWN_AFTER, RunRole};
use crate::launcher::site::{LEADER, MACHINE};
use gpuplan_launch::{Access, CreateRequest, LaunchError, Role};
use gpuplan_market::SourceError;

/// A machine with the role of the setup is better than none for want of an answer. Judged: IAM answers within a second or two.
const PATIENCE: Duration = Duration::from_secs(20);
/// EC2 may not know a profile for so long after it was made. Judgement, twelve times what is usual.
const NEW: Duration = Duration::from_mins(2);

impl AwsLauncher {
    /// Name of the instance profile of a machine, made if it has to be. What goes wrong with that is said.
    pub(super) async fn profile(&self, account: &Account, request: &CreateRequest, owner: &str) -> String {
        if request.role == Role::Lead {
            return LEADER.to_owned();
        }
        let Some(role) = RunRole::of(&request.access, owner) else { return MACHINE.to_owned() };
        let made = tokio::time::timeout(PATIENCE, self.ensure(account, &role)).await;
        let why = match made {
            Ok(Ok(true)) => return role.name,
            Ok(Ok(false)) => return MACHINE.to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        self.known().warnings.push(format!(
            "the run {} has no role of its own, and its machine that of the setup, which may write to other runs, too: {why}",
            request.run
        ));
        MACHINE.to_owned()
    }

    /// The same for a call that cannot be repeated until EC2 knows the profile.
    pub(super) async fn known_profile(&self, account: &Account, request: &CreateRequest, owner: &str) -> String {
        let profile = self.profile(account, request, owner).await;
        let made_at = self.known().profiles.get(&profile).copied().flatten();
        if let Some(left) = made_at.and_then(|made_at| KNOWN_AFTER.checked_sub(made_at.elapsed())) {
            tokio::time::sleep(left).await;
        }
        profile
    }

    /// `false`: the account has no roles of runs.
    async fn ensure(&self, account: &Account, role: &RunRole) -> Result<bool, SourceError> {
        if self.known().profiles.contains_key(&role.name) {
            return Ok(true);
        }
        if !self.has_run_roles(account, role).await? {
            return Ok(false);
        }
        let is_new = run_role::ensure(account, role).await?;
        self.known().profiles.entry(role.name.clone()).or_insert_with(|| is_new.then(Instant::now));
        Ok(true)
    }

    async fn has_run_roles(&self, account: &Account, role: &RunRole) -> Result<bool, SourceError> {
        let known = self.known().run_roles;
        if let Some(known) = known {
            return Ok(known);
        }
        let is_allowed = run_role::is_allowed(account, role).await?;
        self.known().run_roles = Some(is_allowed);
        Ok(is_allowed)
    }

    pub(super) fn has_new_profile(&self, order: &RunInstancesInputBuilder) -> bool {
        let name = order.get_iam_instance_profile().as_ref().and_then(|profile| profile.name());
        let made_at = name.and_then(|name| self.known().profiles.get(name).copied().flatten());
        made_at.is_some_and(|made_at| is_fresh(made_at, NEW))
    }

    /// Of a run that is over.
    pub(super) async fn remove_role(&self, access: &Access) -> Result<(), LaunchError> {
        let account = &self.account().await?;
        let owner = self.caller(account).await?;
        let Some(role) = RunRole::of(access, &owner) else { return Ok(()) };
        if !self.has_run_roles(account, &role).await.map_err(launch_error)? {
            return Ok(());
        }
        self.known().profiles.remove(&role.name);
        run_role::remove(account, &role).await.map_err(launch_error)
    }
}
