//! Machines of runs among all instances of a project, and what became of those that are in no list any more.

use std::collections::BTreeMap;

use google_cloud_compute_v1::model::instance_aggregated_list::warning::Code as ListCode;
use google_cloud_compute_v1::model::instances_scoped_list::warning::Code as ScopeCode;
use google_cloud_compute_v1::model::{InstanceAggregatedList, Operation};
use google_cloud_gax::paginator::Paginator;

use crate::launcher::known::GcpLauncher;
use crate::launcher::marks::{RUN, label};
use crate::launcher::refused::call_error;
use crate::launcher::seen::{Seen, place_of, seen};
use crate::prices::zones::last_segment;
use gpuplan_launch::{LaunchError, Machine, MachineState};

/// Types of operations that end a machine, and whether the cloud took it away (cloud.google.com/compute/docs/logging/audit-logging,
/// "System event audit logs"; "Create and use Spot VMs" finds preemptions by the first).
const ENDS: [(&str, bool); 5] = [
    ("compute.instances.preempted", true),
    ("compute.instances.hostError", true),
    ("compute.instances.terminateOnHostMaintenance", true),
    ("compute.instances.guestTerminate", false),
    ("delete", false),
];

/// A zone that did not answer may hold machines that cost money: then nothing is known of all.
fn answered_everywhere(page: &InstanceAggregatedList) -> Result<(), LaunchError> {
    let silent_scope = |(zone, scope): (&String, &google_cloud_compute_v1::model::InstancesScopedList)| {
        let code = scope.warning.as_ref().and_then(|warning| warning.code.as_ref());
        (code == Some(&ScopeCode::Unreachable)).then(|| last_segment(zone).to_owned())
    };
    let mut silent: Vec<String> = page.unreachables.iter().map(|zone| last_segment(zone).to_owned()).collect();
    silent.extend(page.items.iter().filter_map(silent_scope));
    let code = page.warning.as_ref().and_then(|warning| warning.code.as_ref());
    if silent.is_empty() && matches!(code, Some(ListCode::Unreachable | ListCode::PartialSuccess)) {
        silent.push("some zone".to_owned());
    }
    silent.sort();
    silent.dedup();
    if silent.is_empty() {
        Ok(())
    } else {
        Err(LaunchError::Unclear { code: format!("no answer of {}", silent.join(", ")) })
    }
}

impl GcpLauncher {
    /// Every machine of the run, or of any, that Google lists in any zone.
    pub(super) async fn listed(&self, run: Option<&str>) -> Result<Vec<Machine>, LaunchError> {
        let filter = run.map_or_else(|| format!("labels.{RUN}:*"), |run| format!("labels.{RUN} = \"{}\"", label(run)));
        let list = self.clients().await?.instances.aggregated_list().set_project(self.id()?).set_filter(filter);
        let mut machines = Vec::new();
        let mut pages = list.by_page();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| call_error(&error, |_| String::new()))?;
            answered_everywhere(&page)?;
            for instance in page.items.into_values().flat_map(|scope| scope.instances) {
                let is_wanted = |seen: &Seen| run.is_none_or(|run| seen.machine.run == run);
                machines.extend(
                    seen(&instance)?.map(|seen| called(seen, run)).filter(is_wanted).map(|seen| self.remember(seen)),
                );
            }
        }
        machines.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(machines)
    }

    /// Machines that this launcher knew and that were ended since, with the reason. Where the reason is not told they are left out.
    pub(super) async fn vanished(&self, run: Option<&str>, listed: &[Machine]) -> Vec<Machine> {
        let mut missing = BTreeMap::<String, Vec<Seen>>::new();
        for seen in self.seen().values().filter(|seen| run.is_none_or(|run| seen.machine.run == run)) {
            if let Some((zone, _)) =
                place_of(&seen.machine.id).filter(|_| !listed.iter().any(|machine| machine.id == seen.machine.id))
            {
                missing.entry(zone.to_owned()).or_default().push(seen.clone());
            }
        }
        let mut gone = Vec::new();
        for (zone, machines) in missing {
            let (known, open): (Vec<Seen>, Vec<Seen>) =
                machines.into_iter().partition(|seen| seen.machine.state == MachineState::Gone);
            gone.extend(known.into_iter().map(|seen| seen.machine));
            let ends = if open.is_empty() { Vec::new() } else { self.operations_on(&zone, &open).await };
            for mut seen in open {
                let told = |(kind, was_taken): &(&str, bool)| {
                    let is_it = |end: &Operation| {
                        end.target_id == Some(seen.number) && end.operation_type.as_deref() == Some(*kind)
                    };
                    ends.iter().any(is_it).then(|| ((*kind).to_owned(), *was_taken))
                };
                if let Some((kind, was_taken)) = ENDS.iter().find_map(told) {
                    let machine = &mut seen.machine;
                    (machine.state, machine.reason, machine.was_taken) = (MachineState::Gone, Some(kind), was_taken);
                    gone.push(self.remember(seen));
                }
            }
        }
        gone
    }

    /// What was done to these machines of a zone; nothing, where that is not answered.
    async fn operations_on(&self, zone: &str, machines: &[Seen]) -> Vec<Operation> {
        let names: Vec<&str> =
            machines.iter().filter_map(|seen| place_of(&seen.machine.id)).map(|(_, name)| name).collect();
        let filter = format!(r#"targetLink eq ".*/instances/({})""#, names.join("|"));
        let (Ok(clients), Ok(project)) = (self.clients().await, self.id()) else { return Vec::new() };
        let mut pages = clients.operations.list().set_project(project).set_zone(zone).set_filter(filter).by_page();
        let mut all = Vec::new();
        while let Some(Ok(page)) = pages.next().await {
            all.extend(page.items);
        }
        all
    }
}

/// A machine that lost its exact marks goes by the name that it was asked for.
fn called(mut seen: Seen, run: Option<&str>) -> Seen {
    if let Some(run) = run.filter(|run| seen.machine.token.is_empty() && seen.machine.run == label(run)) {
        run.clone_into(&mut seen.machine.run);
    }
    seen
}
