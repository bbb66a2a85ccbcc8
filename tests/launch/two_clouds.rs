//! A run that may rent of two clouds: what one of them does not know is not gone.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;

use crate::launch::failover::leads;
use gpuplan::launch::launcher::{CreateRequest, LaunchError, Launcher, Machine, MachineId, MachineState, SelfDestruct};
use gpuplan::launch::{End, Journal, LeaderCommand, RunSpec};
use gpuplan::market::BoxFuture;

/// A pause of the leader is a tenth of a second at least, and a look every thirty seconds of the run.
const SPEED: f64 = 300.0;
const LISTS: usize = 5;

/// Has machines, and keeps the first order to end one to itself.
struct Here {
    machines: Arc<Mutex<Vec<Machine>>>,
    ends: Arc<AtomicUsize>,
    lists: AtomicUsize,
    wish: watch::Sender<LeaderCommand>,
    asked: LeaderCommand,
}

impl Launcher for Here {
    fn cloud(&self) -> &'static str {
        "here"
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        let mut machines = self.machines.lock().unwrap();
        let machine = Machine {
            id: MachineId(format!("m-{}", machines.len())),
            run: request.run,
            epoch: request.epoch,
            node: request.node,
            token: request.token,
            pool: request.pool,
            state: MachineState::Running,
            reason: None,
            was_taken: false,
            created_at: Timestamp::now(),
            expires_at: request.expires_at,
            owner: String::new(),
        };
        machines.push(machine.clone());
        Box::pin(async { Ok(machine) })
    }

    fn list<'a>(&'a self, _run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        if self.lists.fetch_add(1, Ordering::SeqCst) == LISTS {
            self.wish.send(self.asked).unwrap();
        }
        let machines = self.machines.lock().unwrap().clone();
        Box::pin(async { Ok(machines) })
    }

    fn destroy<'a>(&'a self, id: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        let is_heard = self.ends.fetch_add(1, Ordering::SeqCst) > 0;
        if is_heard {
            self.machines.lock().unwrap().retain(|machine| machine.id != *id);
        }
        Box::pin(
            async move { if is_heard { Ok(()) } else { Err(LaunchError::Unclear { code: "no answer".to_owned() }) } },
        )
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        None
    }
}

/// Another cloud of the run, which has no machine and answers at once.
struct There;

impl Launcher for There {
    fn cloud(&self) -> &'static str {
        "there"
    }

    fn create(&self, _request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        panic!("the other cloud has the cheaper place, and keeps its machine");
    }

    fn list<'a>(&'a self, _run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn destroy<'a>(&'a self, _machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        // As the contract has it: a machine that is unknown is done.
        Box::pin(async { Ok(()) })
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        None
    }
}

/// How leading ends that is told so after a few looks: what was said, how it ended, and which machines are left.
fn led(asked: LeaderCommand) -> (Vec<String>, Option<End>, Vec<Machine>) {
    let folder = tempfile::tempdir().unwrap();
    let place = |cloud: &str, rate: &str| {
        let pool = json!({"cloud": cloud, "region": "r", "zone_id": "z", "instance_type": "p5.48xlarge", "market": "on-demand"});
        json!({"pool": pool, "rate_usd_per_hour": rate, "billing": {"step_seconds": 1, "minimum_seconds": 60}})
    };
    let spec = json!({
        "version": 1, "run": "both", "started_at": Timestamp::now(), "stand_in": null, "nodes": 1, "spot": [],
        "on_demand": [place("here", "60"), place("there", "70")],
        "work_hours": 6.0, "deadline_hours": null, "changeover_hours": 0.1, "worst_changeover_hours": 0.3, "budget_usd": null,
        "lifetime_hours": 1000.0, "silence_seconds": 1e6, "settles_seconds": 1.0, "expected_cost_usd": "0", "steps": 100.0,
        "store": format!("file://{}", folder.path().join("store").display()), "image": null, "disk_gib": 100, "tags": [],
        "job": {"command": ["true"], "agent": {"here": "/agent"}, "workdir": null, "setup": null, "environment": [], "secrets": []},
    });
    let spec = RunSpec::read(&spec.to_string()).unwrap();
    let mut journal = Journal::open(&folder.path().join("launches.sqlite")).unwrap();
    assert!(journal.begin(&spec).unwrap());
    let (wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let machines = Arc::new(Mutex::new(Vec::new()));
    let here = Here { machines: Arc::clone(&machines), ends: Arc::default(), lists: AtomicUsize::new(0), wish, asked };
    let launchers: Vec<Box<dyn Launcher>> = vec![Box::new(here), Box::new(There)];
    let said = Mutex::new(Vec::new());
    let end = leads(&spec, &mut journal, &launchers, SPEED, wishes, &|line| said.lock().unwrap().push(line.to_owned()));
    let end = end.expect("it is led to its end").unwrap();
    let left = machines.lock().unwrap().clone();
    (said.into_inner().unwrap(), end, left)
}

#[test]
fn a_machine_that_the_other_cloud_does_not_list_is_not_lost() {
    let (said, end, left) = led(LeaderCommand::Leave);
    assert_eq!((end, left.len()), (None, 1), "{said:?}");
    assert_eq!(left[0].id.0, "m-0", "{said:?}");
    assert!(!said.iter().any(|line| line.contains("gone")), "{said:?}");
}

#[test]
fn a_machine_that_the_other_cloud_does_not_know_has_not_ended() {
    let (said, end, left) = led(LeaderCommand::Stop);
    assert_eq!((end, left.len()), (Some(End::Stopped), 0), "{said:?}");
}
