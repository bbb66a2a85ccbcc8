//! Machines that do nothing, by what their agents sample: `stop --idle` waits for them, `report --watch` counts them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::runs::journal::find_run;
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::RunRecord;
use gpuplan_report::page::overview::IdleMachines;
use gpuplan_runstore::{ManifestName, Phase, Status};

/// Between two looks. Agents say something every ten seconds.
const LOOK: Duration = Duration::from_secs(2);
/// A store that takes longer is not waited for.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Less of a GPU, or of one core of all processes together, is no work. Judgement, as the agent's own rule for stalls has it.
const IDLE_SHARE: f64 = 0.05;

/// Returns once the run was idle for so long, or has ended. A store that does not answer, and a machine that boots, stages or saves,
/// says nothing of idleness: then it counts from the beginning.
pub fn wait(run: &str, idle: Duration, session: &Session) -> Result<(), Diagnostic> {
    let runtime = runtime()?;
    let waiting = || format!("waiting until {run} has done nothing for {} s", idle.as_secs());
    with_progress(&session.printer, waiting, || {
        let mut watched = Watched::default();
        loop {
            let kept = find_run(run, session)?;
            if kept.end.is_some() {
                return Ok(());
            }
            let store = store_of_run(&kept.spec)?;
            let all = runtime.block_on(async {
                let mut all = Vec::new();
                for node in 0..kept.spec.nodes {
                    all.push(store.status(node).await.ok().flatten());
                }
                all
            });
            if watched.idle_for(&all) >= idle {
                return Ok(());
            }
            std::thread::sleep(LOOK.min(idle));
        }
    })
}

/// Machines of a run that do nothing, of those whose agents sampled what they do. `None`: no machine says, or its store does not answer in time.
pub fn idle_machines(kept: &RunRecord, session: &Session) -> Result<Option<IdleMachines>, Diagnostic> {
    if session.offline && !kept.spec.store.starts_with("file://") {
        return Ok(None);
    }
    let store = store_of_run(&kept.spec)?;
    let statuses = runtime()?.block_on(async {
        let asking = async {
            let mut all = Vec::new();
            for node in 0..kept.spec.nodes {
                all.extend(store.status(node).await.ok().flatten());
            }
            all
        };
        tokio::time::timeout(TIMEOUT, asking).await.unwrap_or_default()
    });
    let sampled: Vec<&Status> =
        statuses.iter().filter(|status| status.phase != Phase::Ended && status.machine.sample.is_some()).collect();
    let count = |machines: usize| u32::try_from(machines).unwrap_or(u32::MAX);
    let idle = sampled.iter().filter(|status| is_idle(status)).count();
    Ok((!sampled.is_empty()).then(|| IdleMachines { idle: count(idle), sampled: count(sampled.len()) }))
}

/// What the agents said last, and since when each of them says the same. By their own clocks, so one that is silent adds nothing.
#[derive(Debug, Default)]
struct Watched {
    since: Vec<Timestamp>,
    last: Vec<Signs>,
}

/// What changes where something is done.
#[derive(Debug, PartialEq)]
struct Signs {
    epoch: u64,
    progress: Option<u64>,
    committed: Option<ManifestName>,
    starts: u32,
}

impl Watched {
    fn idle_for(&mut self, all: &[Option<Status>]) -> Duration {
        let idle: Option<Vec<&Status>> =
            all.iter().map(|said| said.as_ref().filter(|status| is_idle(status))).collect();
        let Some(idle) = idle else {
            *self = Self::default();
            return Duration::ZERO;
        };
        let signs: Vec<Signs> = idle.iter().map(|status| signs(status)).collect();
        if signs != self.last {
            (self.last, self.since) = (signs, idle.iter().map(|status| status.at).collect());
        }
        let idle = idle.iter().zip(&self.since).map(|(status, since)| status.at.duration_since(*since));
        idle.min().and_then(|idle| Duration::try_from(idle).ok()).unwrap_or_default()
    }
}

fn signs(status: &Status) -> Signs {
    let Status { epoch, progress, committed, starts, .. } = status;
    Signs { epoch: *epoch, progress: *progress, committed: *committed, starts: *starts }
}

/// No GPU and no core works. Without a sample nobody knows, and a GPU that does not say how busy it is may be.
fn is_idle(status: &Status) -> bool {
    let Some(sample) = status.machine.sample.as_ref().filter(|_| status.phase == Phase::Running) else { return false };
    let is_low = |value: Option<&Value>| value.and_then(Value::as_f64).is_some_and(|share| share < IDLE_SHARE);
    let gpus = sample.get("gpus").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    status.backlog_bytes == 0
        && gpus.iter().all(|gpu| is_low(gpu.get("busy")))
        && is_low(sample.get("host").and_then(|host| host.get("cores_used")))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn status(at: i64, step: u64, gpu: f64, cores: f64) -> Option<Status> {
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(at);
        let sample = json!({"gpus": [{"busy": gpu}], "host": {"cores_used": cores}});
        let status = json!({
            "epoch": 1, "phase": "running", "beat": 1, "at": at, "committed": null, "progress": step, "starts": 1,
            "backlog_bytes": 0, "upload_bytes_per_second": null, "spent_usd": null, "warnings": [], "sample": sample,
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn only_time_in_which_every_machine_does_nothing_counts() {
        let mut watched = Watched::default();
        let mut idle = |all: &[Option<Status>]| watched.idle_for(all).as_secs();
        let still = |at| status(at, 7, 0.0, 0.01);
        assert_eq!((idle(&[still(0), still(5)]), idle(&[still(60), still(35)])), (0, 30), "the younger of two");
        assert_eq!(idle(&[still(60), still(35)]), 30, "one that says nothing new adds nothing");
        assert_eq!(idle(&[still(90), None]), 0, "a store that does not answer says nothing of it");
        assert_eq!((idle(&[still(100)]), idle(&[still(160)])), (0, 60));
        for busy in [status(170, 7, 0.3, 0.0), status(170, 7, 0.0, 1.0), status(170, 8, 0.0, 0.0)] {
            assert_eq!((idle(&[busy]), idle(&[still(200)]), idle(&[still(260)])), (0, 0, 60));
        }
        let mut unsampled = still(400).unwrap();
        unsampled.machine.sample = None;
        assert_eq!(idle(&[Some(unsampled)]), 0);
        let mut saving = still(400).unwrap();
        saving.backlog_bytes = 1;
        assert_eq!(idle(&[Some(saving)]), 0);
    }
}
