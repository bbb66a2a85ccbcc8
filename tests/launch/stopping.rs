//! A run that is stopped between two looks of its leader into the store: a program that nobody has heard yet saves all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;

use crate::launch::failover::leads;
use gpuplan::launch::launcher::{CreateRequest, LaunchError, Launcher, Machine, MachineId, MachineState, SelfDestruct};
use gpuplan::launch::{Journal, LeaderCommand, RunSpec};
use gpuplan::market::BoxFuture;
use gpuplan::runstore::epoch::{Epoch, Owner};
use gpuplan::runstore::layout::Layout;
use gpuplan::runstore::status::MachineStatus;
use gpuplan::runstore::{Phase, Run, Status, Store};

/// Has one machine, and takes the order to end it for the end of the test.
struct One {
    wish: watch::Sender<LeaderCommand>,
    has_ended: Arc<AtomicBool>,
}

impl Launcher for One {
    fn cloud(&self) -> &'static str {
        "sim"
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        let machine = Machine {
            id: MachineId("m-0".to_owned()),
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
        Box::pin(async { Ok(machine) })
    }

    fn list<'a>(&'a self, _run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn destroy<'a>(&'a self, _machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        self.has_ended.store(true, Ordering::SeqCst);
        self.wish.send(LeaderCommand::Leave).unwrap();
        Box::pin(async { Ok(()) })
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        None
    }
}

fn store(spec: &RunSpec) -> Run {
    Run::new(Store::open(&spec.store).unwrap(), Layout::new(&spec.run).unwrap())
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// As the agent of the machine does once its program runs.
async fn speaks(run: &Run) {
    let owner =
        Owner { machine: "m-0".to_owned(), host: "m-0".to_owned(), pid: 1, start_ticks: 1, control_group: None };
    let now = Timestamp::now();
    let epoch = Epoch { owner, started_at: now, heartbeat_seconds: 10.0, restored_from: None, nodes: 1 };
    assert!(run.claim(1, &epoch).await.unwrap());
    let status = Status {
        epoch: 1,
        ordered_epoch: Some(1),
        launched_at: None,
        phase: Phase::Running,
        beat: 1,
        at: now,
        committed: None,
        progress: Some(60),
        starts: 1,
        backlog_bytes: 0,
        upload_bytes_per_second: None,
        spent_usd: None,
        staged: None,
        is_done: None,
        warnings: Vec::new(),
        machine: MachineStatus::default(),
    };
    run.write_status(0, &status).await.unwrap();
}

/// A leader whose clock stands still looks into the store once, before there is a machine.
#[test]
fn a_program_that_was_not_heard_yet_saves_before_its_machine_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pool =
        json!({"cloud": "sim", "region": "r", "zone_id": "z", "instance_type": "p5.48xlarge", "market": "on-demand"});
    let place = json!({"pool": pool, "rate_usd_per_hour": "60", "billing": {"step_seconds": 1, "minimum_seconds": 60}});
    let spec = json!({
        "version": 1, "run": "unheard", "started_at": Timestamp::now(), "stand_in": null, "nodes": 1, "spot": [], "on_demand": [place],
        "work_hours": 6.0, "deadline_hours": null, "changeover_hours": 0.1, "worst_changeover_hours": 0.3, "budget_usd": null,
        "lifetime_hours": 10.0, "silence_seconds": 600.0, "expected_cost_usd": "0", "steps": 100.0,
        "store": format!("file://{}", folder.path().join("store").display()), "image": null, "disk_gib": 100, "tags": [],
        "job": {"command": ["true"], "agent": {"here": "/agent"}, "workdir": null, "setup": null, "environment": [], "secrets": []},
    });
    let spec = RunSpec::read(&spec.to_string()).unwrap();
    let mut journal = Journal::open(&folder.path().join("launches.sqlite")).unwrap();
    assert!(journal.begin(&spec).unwrap());
    let (wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let has_ended = Arc::new(AtomicBool::new(false));
    let launchers: Vec<Box<dyn Launcher>> =
        vec![Box::new(One { wish: wish.clone(), has_ended: Arc::clone(&has_ended) })];
    let (spoken, notice) = (AtomicBool::new(false), Arc::clone(&has_ended));
    let say = |line: &str| {
        if !line.starts_with("rented") || spoken.swap(true, Ordering::SeqCst) {
            return;
        }
        thread::scope(|scope| scope.spawn(|| wait(speaks(&store(&spec)))).join().unwrap());
        wish.send(LeaderCommand::Stop).unwrap();
        let (wish, notice, run) = (wish.clone(), Arc::clone(&notice), store(&spec));
        thread::spawn(move || {
            while !notice.load(Ordering::SeqCst) && wait(run.stop(1)).unwrap().is_none() {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = wish.send(LeaderCommand::Leave);
        });
    };
    let led = leads(&spec, &mut journal, &launchers, 1e-6, wishes, &say);
    assert_eq!(led.expect("it waits for ever").unwrap(), None, "it was told to leave");
    assert!(spoken.load(Ordering::SeqCst));
    assert!(!has_ended.load(Ordering::SeqCst), "its program has not saved");
    assert!(wait(store(&spec).stop(1)).unwrap().is_some(), "its program has its notice");
}
