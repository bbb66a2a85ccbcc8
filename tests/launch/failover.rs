//! What failing over costs beside the calls themselves: the real leader with its journal on the disk, on the real clock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use gpuplan::launch::launcher::{CreateRequest, LaunchError, Launcher, Machine, MachineId, SelfDestruct};
use gpuplan::launch::{Clock, Journal, RunSpec, Wiring, Wish, lead};
use gpuplan::market::BoxFuture;
use gpuplan::runstore::layout::Layout;
use gpuplan::runstore::{Run, Store};
use gpuplan::spot::AvailabilityModel;

/// What a call takes, and the places that have nothing.
const LATENCY: Duration = Duration::from_millis(50);
const SOLD_OUT: usize = 30;

/// Refuses the first orders, each after a while, and gives what comes then; whoever leads is told to leave.
struct SoldOut {
    calls: Arc<Mutex<Vec<Instant>>>,
    wish: watch::Sender<Wish>,
}

impl Launcher for SoldOut {
    fn cloud(&self) -> &'static str {
        "sim"
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        Box::pin(async move {
            let call = {
                let mut calls = self.calls.lock().unwrap();
                calls.push(Instant::now());
                calls.len()
            };
            tokio::time::sleep(LATENCY).await;
            if call <= SOLD_OUT {
                return Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() });
            }
            self.wish.send(Wish::Leave).unwrap();
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

/// The real clock, the real journal on the disk, and places of one kind of which only the last has a machine.
fn failed_over(market: &str) -> Duration {
    let folder = tempfile::tempdir().unwrap();
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
        "store": format!("file://{}", folder.path().join("store").display()), "image": null, "disk_gib": 100, "tags": [],
        "job": {"command": ["true"], "agent": {"here": "/agent"}, "workdir": null, "setup": null, "environment": [], "secrets": []},
    });
    let spec = RunSpec::read(&spec.to_string()).unwrap();
    let mut journal = Journal::open(&folder.path().join("launches.sqlite")).unwrap();
    assert!(journal.begin(&spec).unwrap());
    let store = Run::new(Store::open(&spec.store).unwrap(), Layout::new(&spec.run).unwrap());
    let (wish, wishes) = watch::channel(Wish::GoOn);
    let calls = Arc::default();
    let launchers: Vec<Box<dyn Launcher>> = vec![Box::new(SoldOut { calls: Arc::clone(&calls), wish })];
    let begun = Instant::now();
    let wiring = Wiring {
        launchers: &launchers,
        journal: &mut journal,
        store: &store,
        policy: spec.policy(&AvailabilityModel::prior()),
        clock: Clock { started_at: spec.started_at, speed: 1.0 },
        say: &|_| {},
        show: &|_| {},
        wish: wishes,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(lead(&spec, wiring)).unwrap(), None, "it was told to leave");
    let calls: Vec<Instant> = calls.lock().unwrap().clone();
    assert_eq!(calls.len(), SOLD_OUT + 1);
    calls[SOLD_OUT] - begun
}

#[test]
fn failing_over_costs_little_more_than_the_calls() {
    for market in ["spot", "on-demand"] {
        // Other work on this machine is not the launch's: the better of two counts.
        let took = failed_over(market).min(failed_over(market));
        println!("{SOLD_OUT} {market} places without capacity, {LATENCY:?} a call: {took:?}");
        assert!(took >= LATENCY * SOLD_OUT as u32, "{took:?}");
        assert!(took <= LATENCY * SOLD_OUT as u32 + Duration::from_secs(1), "{market}: {took:?}");
    }
}
