//! What failing over costs beside the calls themselves: nothing. The real leader with its journal on the disk, on a clock that stands
//! still: whoever waits for any time of the run to pass waits for hours.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use gpuplan::launch::launcher::{CreateRequest, LaunchError, Launcher, Machine, MachineId, SelfDestruct};
use gpuplan::launch::{Clock, End, Journal, LeadContext, LeadError, LeaderCommand, RunSpec, lead};
use gpuplan::market::BoxFuture;
use gpuplan::runstore::layout::Layout;
use gpuplan::runstore::{Run, Store};
use gpuplan::spot::AvailabilityModel;

/// Places that have nothing.
const SOLD_OUT: usize = 30;
/// A second of the run takes days.
const STANDS_STILL: f64 = 1e-6;

/// Refuses the first orders, and after them whoever leads is told to leave.
struct SoldOut {
    calls: Arc<AtomicUsize>,
    wish: watch::Sender<LeaderCommand>,
}

impl Launcher for SoldOut {
    fn cloud(&self) -> &'static str {
        "sim"
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        Box::pin(async move {
            if self.calls.fetch_add(1, Ordering::SeqCst) < SOLD_OUT {
                return Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() });
            }
            self.wish.send(LeaderCommand::Leave).unwrap();
            Err(LaunchError::Unclear { code: format!("{} is enough", request.pool) })
        })
    }

    fn list<'a>(&'a self, _run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn destroy<'a>(&'a self, _machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(async { Ok(()) })
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        None
    }
}

/// The real journal on the disk, and places of one kind of which only the last has a machine. `begin` finds the folder of the run's
/// objects before the run begins, and `say` hears what is said, after how many calls.
fn fails_over(market: &str, speed: f64, begin: impl FnOnce(&Path), say: impl Fn(&str, &Path, usize)) {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("store/runs/sold-out");
    std::fs::create_dir_all(&objects).unwrap();
    begin(&objects);
    let spec = many_places(market, folder.path());
    let mut journal = Journal::open(&folder.path().join("launches.sqlite")).unwrap();
    assert!(journal.begin(&spec).unwrap());
    let (wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let calls = Arc::new(AtomicUsize::new(0));
    let launchers: Vec<Box<dyn Launcher>> = vec![Box::new(SoldOut { calls: Arc::clone(&calls), wish })];
    let say = |line: &str| say(line, &objects, calls.load(Ordering::SeqCst));
    let led = leads(&spec, &mut journal, &launchers, speed, wishes, &say);
    let asked = calls.load(Ordering::SeqCst);
    assert_eq!(
        led.unwrap_or_else(|| panic!("{market}: it waits after {asked} calls")).unwrap(),
        None,
        "it was told to leave"
    );
    assert_eq!(asked, SOLD_OUT + 1);
}

/// A run that may rent in one place more than is sold out.
fn many_places(market: &str, folder: &Path) -> RunSpec {
    let places: Vec<Value> = (0..=SOLD_OUT)
        .map(|number| {
            let pool =
                json!({"cloud": "sim", "region": "r", "zone_id": format!("z{number}"), "instance_type": "p5.48xlarge", "market": market});
            json!({"pool": pool, "rate_usd_per_hour": "60", "billing": {"step_seconds": 1, "minimum_seconds": 60}})
        })
        .collect();
    let (spot, on_demand) = if market == "spot" { (places, Vec::new()) } else { (Vec::new(), places) };
    let spec = json!({
        "version": 1, "run": "sold-out", "started_at": Timestamp::now(), "stand_in": null, "nodes": 1, "spot": spot, "on_demand": on_demand,
        "work_hours": 6.0, "deadline_hours": null, "changeover_hours": 0.1, "worst_changeover_hours": 0.3, "budget_usd": null,
        "lifetime_hours": 10.0, "silence_seconds": 600.0, "expected_cost_usd": "0", "steps": 100.0,
        "store": format!("file://{}", folder.join("store").display()), "image": null, "disk_gib": 100, "tags": [],
        "job": {"command": ["true"], "agent": {"here": "/agent"}, "workdir": null, "setup": null, "environment": [], "secrets": []},
    });
    RunSpec::read(&spec.to_string()).unwrap()
}

/// How leading ends; `None` after three minutes.
pub fn leads(
    spec: &RunSpec,
    journal: &mut Journal,
    launchers: &[Box<dyn Launcher>],
    speed: f64,
    wish: watch::Receiver<LeaderCommand>,
    say: &dyn Fn(&str),
) -> Option<Result<Option<End>, LeadError>> {
    let store = Run::new(Store::open(&spec.store).unwrap(), Layout::new(&spec.run).unwrap());
    let wiring = LeadContext {
        launchers,
        journal,
        store: &store,
        policy: spec.policy(&AvailabilityModel::prior()),
        clock: Clock::new(spec.started_at, speed),
        by: "a test".to_owned(),
        take_over: false,
        say,
        show: &|_| {},
        wish,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_mins(3), lead(spec, wiring)).await.ok() })
}

#[test]
fn failing_over_waits_for_nothing_but_the_calls() {
    for market in ["spot", "on-demand"] {
        fails_over(market, STANDS_STILL, |_| {}, |_, _, _| {});
    }
}

/// What an earlier gang said in the store could not be told from the words of the next.
#[test]
fn nothing_is_ordered_while_the_store_cannot_be_read() {
    let waited = AtomicUsize::new(0);
    // A link to itself leads nowhere, whoever follows it.
    let broken = |objects: &Path| std::os::unix::fs::symlink("epochs", objects.join("epochs")).unwrap();
    fails_over("spot", 1000.0, broken, |line, objects, calls| {
        if line.contains("no clear answer (the store did not answer for runs/sold-out/epochs") {
            assert_eq!((calls, waited.fetch_add(1, Ordering::SeqCst)), (0, 0), "{line}");
            std::fs::remove_file(objects.join("epochs")).unwrap();
        }
    });
    assert_eq!(waited.load(Ordering::SeqCst), 1);
}

/// While it is asked for a machine, somebody stops the run and resumes it.
struct StoppedAndResumed {
    journal: PathBuf,
    calls: Arc<AtomicUsize>,
}

impl Launcher for StoppedAndResumed {
    fn cloud(&self) -> &'static str {
        "sim"
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let mut journal = Journal::open(&self.journal).unwrap();
            journal.end(&request.run, &End::Stopped, Timestamp::now()).unwrap();
            journal.reopen(&request.run).unwrap();
            Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() })
        })
    }

    fn list<'a>(&'a self, _run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(async move { panic!("{machine:?} belongs to the next leader") })
    }

    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(async { Ok(String::new()) })
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        None
    }
}

/// The process that led a run until `stop` outlives it by a few seconds: long enough for `resume`.
#[test]
fn who_led_a_run_before_it_was_resumed_neither_goes_on_nor_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let spec = many_places("spot", folder.path());
    let path = folder.path().join("launches.sqlite");
    let mut journal = Journal::open(&path).unwrap();
    assert!(journal.begin(&spec).unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let launchers: Vec<Box<dyn Launcher>> =
        vec![Box::new(StoppedAndResumed { journal: path, calls: Arc::clone(&calls) })];
    let (_wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let led = leads(&spec, &mut journal, &launchers, STANDS_STILL, wishes, &|_| {});
    assert!(matches!(led, Some(Err(LeadError::Followed))), "{led:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 1, "it orders nothing more");

    let former = journal.take_the_lead(&spec.run).unwrap();
    journal.end(&spec.run, &End::Stopped, Timestamp::now()).unwrap();
    journal.reopen(&spec.run).unwrap();
    assert!(!journal.end_as_leader(&spec.run, former, &End::Stopped, Timestamp::now()).unwrap());
    assert!(!journal.has_ended(&spec.run).unwrap());
    let now = journal.take_the_lead(&spec.run).unwrap();
    assert!(journal.end_as_leader(&spec.run, now, &End::Completed, Timestamp::now()).unwrap());
    assert!(journal.has_ended(&spec.run).unwrap());
}
