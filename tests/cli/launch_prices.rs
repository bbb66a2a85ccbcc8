//! Prices of spot that move while a run is led: the run costs what each of its hours did.

use serde_json::Value;

use crate::cli::launch::{gpuplan, nothing_is_left};
use crate::cli::support::Ran;

#[test]
fn a_machine_whose_price_moves_costs_what_each_of_its_hours_did() {
    let home = tempfile::tempdir().unwrap();
    let scenario = home.path().join("scenario.toml");
    // Planned at more than that. Ten minutes are a second here.
    std::fs::write(&scenario, "spot_usd_per_hour = [[0.0, \"3\"], [3.0, \"6\"]]\n").unwrap();
    let scenario = scenario.display().to_string();
    let words = ["launch", "llama-3.1-8b-finetune.toml", "--cloud", "fake", "--gpus", "H100:8", "--max-nodes", "1"];
    let terms = ["--purchase", "spot", "--lifetime", "100h", "--budget", "100000", "-y", "--run", "moves"];
    let job = ["--fake-scenario", &scenario, "--", "python3", "-c", "import time; time.sleep(7)"];
    let ran = Ran::of(gpuplan(home.path(), &[&words[..], &terms, &job].concat()).output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "moves: completed\n"), "{}", ran.stderr);
    let store = home.path().join("fake-cloud/store/runs/moves/rented.json");
    let rented: Value = serde_json::from_slice(&std::fs::read(store).unwrap()).unwrap();
    let of = |key: &str| &rented["machines"][0][key];
    let rate: f64 = of("rate_usd_per_hour").as_str().unwrap().parse().unwrap();
    // Three dollars for the first half an hour of the course, six for the rest; the prices are heard every ten minutes.
    let hours = of("seconds").as_f64().unwrap() / 3600.0;
    let mean = (3.0 * 0.5 + 6.0 * (hours - 0.5)) / hours;
    assert!((3.5..5.9).contains(&rate) && (rate - mean).abs() < 0.9, "{rate} an hour for {hours} h, {mean} expected");
    nothing_is_left(home.path());
}
