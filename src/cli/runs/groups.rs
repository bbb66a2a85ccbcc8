//! Groups at a cloud that start the machines of a run.

use crate::runs::launchers::Launchers;
use crate::session::diagnostic::Diagnostic;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::{Group, Journal, LaunchError};

/// A run that its cloud keeps: nobody has led it from here.
pub fn is_kept(kept: &RunRecord, journal: &Journal) -> Result<bool, Diagnostic> {
    let leader = journal.leader(&kept.spec.run)?;
    Ok(kept.spec.is_kept && kept.end.is_none() && leader.unwrap_or(0) == 0)
}

/// Every group that starts machines, of a run or of any.
pub async fn all(clouds: &Launchers, run: Option<&str>) -> Result<Vec<Group>, LaunchError> {
    let mut found = Vec::new();
    for keeper in clouds.iter().filter_map(|launcher| launcher.keeper()) {
        found.extend(keeper.groups(run).await?);
    }
    Ok(found)
}

/// Ends them, before their machines: else the next machine is started at once.
pub async fn dissolve(clouds: &Launchers, groups: &[Group]) -> Result<(), LaunchError> {
    for group in groups {
        let responsible = clouds.iter().find(|launcher| launcher.cloud() == group.cloud);
        if let Some(keeper) = responsible.and_then(|launcher| launcher.keeper()) {
            keeper.dissolve(group).await?;
        }
    }
    Ok(())
}
