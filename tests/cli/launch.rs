//! The whole life of a run on the cloud of this machine: launched, refused, interrupted, led again, stopped, and nothing left.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::support::Ran;
use gpuplan_testbed::server::{Reply, Server};

/// Ten minutes of a run pass in a second: neither its time nor its money is to end on a machine that does much else.
const LAUNCH: [&str; 10] = [
    "launch",
    "llama-3.1-8b-finetune.toml",
    "--cloud",
    "fake",
    "--lifetime",
    "1000h",
    "--budget",
    "100000",
    "--max-nodes",
    "1",
];
const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");
/// For any step of a run, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_mins(10);
/// Before a trainer in a shell: until it resumes it stays at a step that it has saved, so that it cannot be disturbed too late.
pub const HOLD: &str = "hold=; test -n \"$GPUPLAN_RESUME_FROM\" || hold='--hold-at 60'";

pub fn gpuplan(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).stdin(Stdio::null());
    command.env("GPUPLAN_HOME", home).env("COLUMNS", "140");
    command
}

pub fn run(home: &Path, arguments: &[&str]) -> Ran {
    Ran::of(gpuplan(home, arguments).output().unwrap())
}

pub fn launched<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&LAUNCH[..], &["-y", "--run", name], more, &["--", "./train.py"]].concat()
}

/// A run that trains once `let_go` was called.
pub fn spawn(home: &Path, name: &str, more: &[&str]) -> Child {
    let command = format!("until test -e {}/go; do sleep 0.05; done; exec {TRAINER}", home.display());
    let words = [&LAUNCH[..], &["-y", "--run", name], more, &["--", "sh", "-c", &command]].concat();
    gpuplan(home, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn let_go(home: &Path) {
    std::fs::write(home.join("go"), "").unwrap();
}

pub fn status(home: &Path, name: &str) -> Value {
    let ran = run(home, &["status", name, "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()["runs"][0].clone()
}

/// Until the command says what is wanted; before the run has a journal there is nothing to ask.
pub fn wait_for(home: &Path, arguments: &[&str], wanted: impl Fn(&Ran) -> bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let ran = home.join("launches.sqlite").exists().then(|| run(home, arguments));
        if ran.as_ref().is_some_and(&wanted) {
            return;
        }
        let said = ran.map(|ran| ran.stdout + &ran.stderr);
        assert!(Instant::now() < until, "{arguments:?}: {said:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Until the run has a machine that runs.
pub fn wait_for_a_machine(home: &Path, name: &str) {
    wait_for(home, &["status", name, "--output", "json"], |ran| {
        ran.code == 0 && ran.json()["runs"][0]["state"] == "running"
    });
}

/// Until something of the run is safe.
fn wait_for_a_checkpoint(home: &Path, name: &str) {
    wait_for(home, &["status", name, "--output", "json"], |ran| {
        ran.code == 0 && ran.json()["runs"][0]["progress"].as_f64() > Some(0.0)
    });
}

pub fn nothing_is_left(home: &Path) {
    let ran = run(home, &["gc", "--cloud", "fake", "--output", "json"]);
    assert_eq!((ran.code, ran.json()["found"].as_array().unwrap().len()), (0, 0), "{}", ran.stdout);
    let listed: Value =
        serde_json::from_str(&std::fs::read_to_string(home.join("fake-cloud/state.json")).unwrap()).unwrap();
    assert!(listed["machines"].as_array().unwrap().iter().all(|kept| kept["machine"]["state"] == "gone"), "{listed:#}");
}

/// The machines of the cloud here, as it keeps them.
pub fn machines(home: &Path) -> Vec<Value> {
    let state = std::fs::read_to_string(home.join("fake-cloud/state.json")).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    state["machines"].as_array().unwrap().iter().map(|kept| kept["machine"].clone()).collect()
}

/// What the trainer writes when nobody disturbs it.
fn undisturbed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(TRAINER).current_dir(folder.path()).stderr(Stdio::null()).status().unwrap();
    assert!(ended.success());
    std::fs::read_to_string(folder.path().join("result.json")).unwrap()
}

fn result(home: &Path) -> String {
    let folders = std::fs::read_dir(home.join("fake-cloud/machines")).unwrap().flatten();
    let results: Vec<String> =
        folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("work/result.json")).ok()).collect();
    assert_eq!(results.len(), 1, "one machine ends the run");
    results[0].clone()
}

#[test]
fn a_run_survives_refusals_and_an_interruption() {
    let home = tempfile::tempdir().unwrap();
    let scenario = home.path().join("scenario.toml");
    std::fs::write(&scenario, "refuse = [\"InsufficientInstanceCapacity\", \"InsufficientInstanceCapacity\"]\n")
        .unwrap();
    let (scenario, command) = (scenario.to_str().unwrap(), format!("{HOLD}; exec {TRAINER} $hold"));
    let words =
        [&LAUNCH[..], &["-y", "--run", "life", "--fake-scenario", scenario, "--", "sh", "-c", &command]].concat();
    let leader = gpuplan(home.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_a_checkpoint(home.path(), "life");
    notify(home.path(), &running_node(home.path(), 0));
    let ran = Ran::of(leader.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "life: completed\n");
    // What it waits for is said again and again, with the last refusal.
    let news: Vec<&str> = ran.stderr.lines().filter(|line| !line.contains("% safe")).collect();
    for (said, times) in
        [("no capacity (InsufficientInstanceCapacity)", 2), ("interrupted, its work is saved", 1), ("rented 1 x", 2)]
    {
        assert_eq!(news.join("\n").matches(said).count(), times, "{said}: {}", ran.stderr);
    }
    let page = run(home.path(), &["report", "life", "--format", "md"]);
    assert_eq!(page.code, 0, "{}", page.stderr);
    // Two orders were refused: the machines are of the third and the fourth.
    for said in [
        "## Spending against plan",
        "The cloud took machines back once",
        "| 3 | 0 | fake-",
        "| 4 | 0 | fake-",
        "interrupted, its work is saved",
    ] {
        assert!(page.stdout.contains(said), "{said}: {}", page.stdout);
    }
    its_bill_has_what_the_ledger_has(home.path(), &page.stdout);
    let row = status(home.path(), "life");
    assert_eq!(
        (row["state"].as_str(), row["relaunches"].as_u64(), row["progress"].as_f64()),
        (Some("completed"), Some(1), Some(1.0))
    );
    let cost: f64 = row["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!(cost > 0.0, "{row:#}");
    assert_eq!(result(home.path()), undisturbed(), "an interruption changes nothing");
    let said = run(home.path(), &["logs", "life"]).stdout;
    assert!(
        said.starts_with("train: from step 0 of 120\n") && said.matches("train: from step ").count() == 2,
        "{said}"
    );
    nothing_is_left(home.path());
    let again = run(home.path(), &words);
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(again.stderr.contains("there is already a run `life`"), "{}", again.stderr);
}

/// Work and waste of the machines, and once the ledger has a disk of the run, that too; the lines are the total.
fn its_bill_has_what_the_ledger_has(home: &Path, before: &str) {
    for said in ["| idle: ", "| total |", "Disks, storage and data: this launch kept no prices of them"] {
        assert!(before.contains(said), "{said}: {before}");
    }
    let ledger = rusqlite::Connection::open(home.join("ledger.sqlite")).unwrap();
    let content: String = ledger.query_row("SELECT content FROM charges LIMIT 1", [], |row| row.get(0)).unwrap();
    let mut disk: Value = serde_json::from_str(&content).unwrap();
    (disk["id"], disk["item"], disk["unit"], disk["resource"], disk["waste"]) =
        ("run/life@x/disk".into(), "disk".into(), "GiB-month".into(), Value::Null, Value::Null);
    disk["costs"] = serde_json::json!({"list": "0.123456789", "contracted": "0.123456789", "effective": "0.123456789", "billed": null});
    let row = ("run/life@x/disk", disk.to_string(), 0);
    ledger.execute("INSERT INTO charges (id, content, entered_at) VALUES (?1, ?2, ?3)", row).unwrap();
    let rows = run(home, &["report", "life", "--format", "csv"]).stdout;
    assert!(rows.contains("disks in fake"), "{rows}");
    let costs: Vec<i128> = rows
        .lines()
        .filter_map(|line| line.strip_prefix("bill,bill,")?.split_once(",cost_usd,"))
        .map(|(_, cost)| gpuplan::units::Usd::parse(cost).unwrap().nanos())
        .collect();
    let (total, lines) = costs.split_last().unwrap();
    assert!(lines.contains(&123_456_789) && lines.len() >= 3 && lines.iter().sum::<i128>() == *total, "{rows}");
}

#[test]
fn a_leader_that_is_killed_is_followed_by_another() {
    let home = tempfile::tempdir().unwrap();
    let mut leader = spawn(home.path(), "left", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home.path(), "left");
    leader.kill().unwrap();
    leader.wait().unwrap();
    assert_eq!(status(home.path(), "left")["state"], "running", "the machine goes on");
    let found = run(home.path(), &["gc", "--cloud", "fake"]);
    assert_eq!((found.code, found.stdout.as_str()), (0, ""), "the journal knows it");
    let_go(home.path());
    let watched = run(home.path(), &["watch", "left"]);
    assert_eq!((watched.code, watched.stdout.as_str()), (0, "left: completed\n"), "{}", watched.stderr);
    assert_eq!(status(home.path(), "left")["relaunches"], 0);
    assert_eq!(result(home.path()), undisturbed());
    nothing_is_left(home.path());
}

#[test]
fn a_run_whose_journal_is_lost_is_adopted_and_led_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let mut leader = spawn(home.path(), "orphan", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home.path(), "orphan");
    leader.kill().unwrap();
    leader.wait().unwrap();
    lose_the_journal(home.path());
    let store = format!("file://{}", home.path().join("fake-cloud/store").display());
    let other = run(home.path(), &["adopt", "nobody", "--store", &store]);
    assert!(other.code == 2 && other.stderr.contains("has no run `nobody`"), "{}", other.stderr);
    let victim = tempfile::tempdir().unwrap();
    let refused = run(victim.path(), &["adopt", "orphan", "--store", &store, "-y"]);
    assert!(refused.code == 2 && refused.stderr.contains("are processes of this computer"), "{}", refused.stderr);
    let own = ["adopt", "orphan", "--store", &store, "--cloud", "fake"];
    let refused = run(victim.path(), &[&own[..], &["-y"]].concat());
    assert!(
        refused.code == 2 && refused.stderr.contains("only what the fake cloud of this computer"),
        "{}",
        refused.stderr
    );
    assert!(!victim.path().join("launches.sqlite").exists() && run(victim.path(), &["watch", "orphan"]).code == 2);
    let unasked = run(home.path(), &own);
    assert!(
        unasked.code == 2 && unasked.stderr.contains("at worst $") && unasked.stderr.contains("command   "),
        "{}",
        unasked.stderr
    );
    let adopted = run(home.path(), &[&own[..], &["-y"]].concat());
    assert_eq!(
        (adopted.code, adopted.stdout.as_str()),
        (0, "orphan: adopted, 1 machines are there, 0 were paid before\n"),
        "{}",
        adopted.stderr
    );
    assert_eq!(status(home.path(), "orphan")["state"], "running");
    assert_eq!(run(home.path(), &[&own[..], &["-y"]].concat()).code, 2, "once");
    let_go(home.path());
    let refused = run(home.path(), &["watch", "orphan"]);
    assert!(refused.code == 2 && refused.stderr.contains("--take-over"), "its leader may live: {}", refused.stderr);
    let watched = run(home.path(), &["watch", "orphan", "--take-over"]);
    assert_eq!((watched.code, watched.stdout.as_str()), (0, "orphan: completed\n"), "{}", watched.stderr);
    assert_eq!(status(home.path(), "orphan")["relaunches"], 0);
    assert_eq!(result(home.path()), undisturbed());
    // Ended and lost once more: what was paid is known from the store.
    lose_the_journal(home.path());
    let adopted = run(home.path(), &[&own[..], &["-y"]].concat());
    assert_eq!(adopted.stdout, "orphan: adopted, 0 machines are there, 1 were paid before\n", "{}", adopted.stderr);
    let cost: f64 = status(home.path(), "orphan")["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!(cost > 0.0, "{cost}");
    nothing_is_left(home.path());
}

fn lose_the_journal(home: &Path) {
    for file in ["launches.sqlite", "launches.sqlite-wal", "launches.sqlite-shm"] {
        let _ = std::fs::remove_file(home.join(file));
    }
}

#[test]
fn what_no_journal_knows_is_found_and_ended() {
    let home = tempfile::tempdir().unwrap();
    let mut leader = spawn(home.path(), "lost", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home.path(), "lost");
    leader.kill().unwrap();
    leader.wait().unwrap();
    lose_the_journal(home.path());
    let found = run(home.path(), &["gc", "--cloud", "fake", "--output", "json"]).json();
    assert_eq!((found["found"].as_array().unwrap().len(), found["ended"].as_array().unwrap().len()), (1, 0), "{found}");
    // Where the journal was lost and where it stands on another computer look the same from here.
    let left = run(home.path(), &["gc", "--cloud", "fake", "-y"]);
    assert!(
        left.stdout.starts_with("found: ") && left.stderr.contains("nothing on this computer knows lost"),
        "{}",
        left.stderr
    );
    assert_eq!(machines(home.path())[0]["state"], "running", "{}", left.stderr);
    let words = ["gc", "--cloud", "fake", "-y", "--unknown-runs", "--output", "json"];
    let ended = run(home.path(), &words).json();
    assert_eq!(ended["ended"][0]["run"], "lost");
    nothing_is_left(home.path());
}

#[test]
fn stopping_ends_every_machine_and_its_leader() {
    let home = tempfile::tempdir().unwrap();
    let mut leader = spawn(home.path(), "halt", &["--fake-scenario", "calm"]);
    wait_for_a_machine(home.path(), "halt");
    let stopped = run(home.path(), &["stop", "halt"]);
    assert_eq!(
        (stopped.code, stopped.stdout.as_str()),
        (0, "halt: 1 machines ended, none is left\n"),
        "{}",
        stopped.stderr
    );
    assert!(leader.wait().unwrap().success(), "the leader sees it and starts nothing");
    assert_eq!(status(home.path(), "halt")["state"], "stopped");
    nothing_is_left(home.path());
}

#[test]
fn what_does_not_pass_ends_the_run_with_its_own_code() {
    let (home, people) =
        (tempfile::tempdir().unwrap(), Server::start(|_| Reply::Text(200, "text/plain", String::new())));
    let scenario = |codes: &str| {
        let path = home.path().join("scenario.toml");
        std::fs::write(&path, format!("refuse = {codes}\n")).unwrap();
        path.to_string_lossy().into_owned()
    };
    // Every place of the plan, on spot and then on-demand.
    let full = format!("[\"MaxSpotInstanceCountExceeded\"{}]", ", \"VcpuLimitExceeded\"".repeat(40));
    for (name, codes, exit, said) in [
        ("full", full.as_str(), 7, "quota"),
        ("keys", r#"["UnauthorizedOperation"]"#, 8, "not allowed"),
        ("wrong", r#"["InvalidParameterValue"]"#, 6, "the request was refused"),
    ] {
        let scenario = scenario(codes);
        let ran = run(home.path(), &launched(name, &["--fake-scenario", &scenario, "--notify", &people.endpoint]));
        assert_eq!(ran.code, exit, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{name}: {}", ran.stderr);
        // No agent was there to tell it.
        let told = people.asked().last().map(|request| request.body.clone()).unwrap_or_default();
        assert!(told.contains(said) && told.contains("gpuplan leads no more"), "{name}: {told}");
    }
    let missing = run(
        home.path(),
        &[&LAUNCH[..], &["-y", "--run", "none", "--fake-scenario", "calm", "--", "./nothing.py"]].concat(),
    );
    assert_eq!(missing.code, 1, "{}", missing.stderr);
    assert!(missing.stderr.contains("failed"), "{}", missing.stderr);
}

#[test]
fn nothing_is_rented_without_a_yes_or_a_launcher() {
    let home = tempfile::tempdir().unwrap();
    let unasked = run(home.path(), &[&LAUNCH[..], &["--", "./train.py"]].concat());
    assert_eq!(unasked.code, 2, "{}", unasked.stderr);
    let dry = run(home.path(), &[&LAUNCH[..], &["--dry-run", "--", "./train.py"]].concat());
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(dry.stderr.contains("at worst $"), "{}", dry.stderr);
    let stale = run(home.path(), &["launch", "llama-3.1-8b-finetune.toml", "-y", "--", "./train.py"]);
    assert_eq!(stale.code, 5, "{}", stale.stderr);
    let nebius = ["launch", "llama-3.1-8b-finetune.toml", "--cloud", "nebius", "-y", "--accept-stale-prices"];
    let real = run(home.path(), &[nebius.as_slice(), &["--", "./train.py"]].concat());
    assert_eq!(real.code, 2, "{}", real.stderr);
    assert!(real.stderr.contains("cannot rent them yet"), "{}", real.stderr);
    assert!(!home.path().join("launches.sqlite").exists());
}

/// Two machines of one run; it is to be disturbed once it has saved something.
fn gang(home: &Path, name: &str, more: &[&str], command: &[&str]) -> Child {
    let two = ["--gpus", "H100:16", "--max-nodes", "2", "--purchase", "spot", "-y", "--run", name];
    let words = [&LAUNCH[..8], &two, more, &["--"], command].concat();
    let leader = gpuplan(home, &words)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(home.join("said")).unwrap())
        .spawn()
        .unwrap();
    wait_for_a_checkpoint(home, name);
    leader
}

/// The machine hears that it will be taken; it ends by itself.
fn notify(home: &Path, machine: &str) {
    std::fs::write(home.join("fake-cloud/machines").join(machine).join("notice"), "terminate\n").unwrap();
}

/// A busy machine may have lost its gang to a silence: the next one is waited for.
fn running_node(home: &Path, node: u64) -> String {
    let begun = Instant::now();
    loop {
        let found = machines(home).into_iter().find(|machine| machine["state"] == "running" && machine["node"] == node);
        if let Some(machine) = found {
            return machine["id"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "no machine of that number runs: {:#?}", machines(home));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn said(home: &Path) -> String {
    std::fs::read_to_string(home.join("said")).unwrap()
}

/// Waits for the end of a gang that was disturbed; gives the results of both machines of the last one.
fn results(home: &Path, name: &str, mut leader: Child, epochs: u64) -> Vec<String> {
    assert!(leader.wait().unwrap().success(), "{}", said(home));
    let row = status(home, name);
    assert_eq!(row["state"], "completed", "{row:#}\n{}", said(home));
    nothing_is_left(home);
    let all = machines(home);
    let newest = all.iter().filter_map(|machine| machine["epoch"].as_u64()).max().unwrap();
    // A busy machine may lose another gang to a silence; the result is the same all the same.
    assert!(newest >= epochs, "{newest} gangs, {epochs} at least: {row:#}\n{}", said(home));
    let last: Vec<Value> = all.into_iter().filter(|machine| machine["epoch"] == newest).collect();
    let folder = |machine: &Value| home.join("fake-cloud/machines").join(machine["id"].as_str().unwrap());
    last.iter().map(|machine| std::fs::read_to_string(folder(machine).join("work/result.json")).unwrap()).collect()
}

/// The second order is refused, so the first machine of that gang is given back; then a notice on one machine ends both.
#[test]
fn a_gang_is_whole_or_given_back_and_a_notice_to_one_machine_moves_all() {
    let home = tempfile::tempdir().unwrap();
    let scenario = home.path().join("scenario.toml");
    std::fs::write(&scenario, "refuse = [\"\", \"InsufficientInstanceCapacity\"]\n").unwrap();
    let trainer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/two_nodes.py");
    // Both know where they meet from the run's store alone: no address was known before they ran.
    let told = "test $PET_NNODES = 2 && test $PET_NODE_RANK = $GPUPLAN_NODE";
    let hold = "hold=; test -n \"$GPUPLAN_RESUME_FROM\" || hold=40";
    let command = format!("{hold}; {told} && exec python3 {trainer} $MASTER_PORT 80 0.01 $hold");
    let leader = gang(home.path(), "two", &["--fake-scenario", scenario.to_str().unwrap()], &["sh", "-c", &command]);
    let partial: Vec<Value> = machines(home.path()).into_iter().filter(|machine| machine["epoch"] == 1).collect();
    assert_eq!(
        (partial.len(), partial[0]["state"].as_str()),
        (1, Some("gone")),
        "the rest of a gang is given back: {partial:?}"
    );
    notify(home.path(), &running_node(home.path(), 1));
    let ends = results(home.path(), "two", leader, 3);
    assert_eq!(said(home.path()).matches("interrupted, its work is saved").count(), 1, "{}", said(home.path()));
    for epoch in [2, 3] {
        let zones: Vec<Value> = machines(home.path())
            .into_iter()
            .filter(|one| one["epoch"] == epoch)
            .map(|one| one["pool"].clone())
            .collect();
        assert!(zones.len() == 2 && zones[0] == zones[1], "one gang stands in one place: {zones:?}");
    }
    let alone = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let programs = ["0", "1"].map(|node| {
        let folder = alone.path().join(node);
        std::fs::create_dir(&folder).unwrap();
        let mut program = Command::new("python3");
        program
            .args([trainer, &port, "80", "0"])
            .current_dir(folder)
            .env("GPUPLAN_NODE", node)
            .env("GPUPLAN_NODES", "2");
        program.stdout(Stdio::null()).spawn().unwrap()
    });
    for mut program in programs {
        assert!(program.wait().unwrap().success());
    }
    let undisturbed =
        ["0", "1"].map(|node| std::fs::read_to_string(alone.path().join(node).join("result.json")).unwrap());
    assert_eq!(ends, undisturbed, "neither a partial gang nor an interruption changes the result");
    for node in ["0", "1"] {
        let log = run(home.path(), &["logs", "two", "--node", node]).stdout;
        let stopped =
            log.split("stopped at step ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("nothing");
        assert!(log.contains(&format!("node {node}: from step {stopped}\n")), "{log}");
    }
}

#[test]
fn a_machine_of_a_gang_that_is_gone_without_a_word_takes_the_others_along() {
    let home = tempfile::tempdir().unwrap();
    let command = format!("{HOLD}; exec {TRAINER} $hold");
    let leader = gang(home.path(), "vanish", &["--fake-scenario", "calm"], &["sh", "-c", &command]);
    let victim = gpuplan::launch::MachineId(running_node(home.path(), 1));
    let cloud = gpuplan::clouds::fake::FakeCloud::at(&home.path().join("fake-cloud"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(gpuplan::launch::Launcher::destroy(&cloud, &victim)).unwrap();
    let (ends, undisturbed) = (results(home.path(), "vanish", leader, 2), undisturbed());
    assert_eq!(ends, [undisturbed.clone(), undisturbed]);
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

#[test]
fn a_recorded_plan_takes_a_folder_along_and_its_run_is_followed_stopped_resumed_fetched_and_deleted() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    std::fs::create_dir_all(own.join("data")).unwrap();
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), own.join("train.py")).unwrap();
    std::fs::write(own.join("data/big.bin"), "left at home").unwrap();
    std::fs::write(own.join(".gitignore"), "data/\n").unwrap();
    assert!(Command::new("git").args(["init", "-q"]).current_dir(&own).status().unwrap().success());
    std::fs::create_dir_all(home.path().join("fake-cloud/secrets")).unwrap();
    std::fs::write(home.path().join("fake-cloud/secrets/token"), "s3cret").unwrap();
    let planned = run(home.path(), &["plan", "llama-3.1-8b-finetune.toml", "--max-nodes", "1", "--output", "json"]);
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let (plan, own) = (home.path().join("plan.json"), own.to_string_lossy().into_owned());
    std::fs::write(&plan, &planned.stdout).unwrap();
    let plan = plan.to_string_lossy().into_owned();
    let gone =
        run(home.path(), &["launch", &plan, "--plan", "aws/nowhere/x1/spot", "--cloud", "fake", "-y", "--", "true"]);
    assert!(gone.code == 3 && gone.stderr.contains("is recommended now"), "{}", gone.stderr);

    let setup = "test ! -e data && printf '%s %s' \"$COLOUR\" \"$TOKEN\" >seen";
    let words = [
        "launch",
        &plan,
        "--cloud",
        "fake",
        "--fake-scenario",
        "calm",
        "-y",
        "--run",
        "all",
        "--detach",
        "--workdir",
        &own,
    ];
    let command = format!("{HOLD}; exec ./train.py $hold");
    let more = [
        "--lifetime",
        "1000h",
        "--setup",
        setup,
        "--env",
        "COLOUR=deep blue",
        "--secret",
        "TOKEN=token",
        "--",
        "sh",
        "-c",
        &command,
    ];
    let launched = run(home.path(), &[&words[..], &more[..]].concat());
    assert_eq!((launched.code, launched.stdout.as_str()), (0, "all\n"), "{}", launched.stderr);
    wait_for(home.path(), &["logs", "all"], |ran| ran.stdout.contains("train: from step 0"));
    wait_for_a_checkpoint(home.path(), "all");
    assert_eq!(run(home.path(), &["stop", "all"]).code, 0);
    nothing_is_left(home.path());
    let boot = std::fs::read_dir(home.path().join("fake-cloud/machines")).unwrap().flatten().next().unwrap().path();
    assert_eq!(std::fs::read_to_string(boot.join("work/seen")).unwrap(), "deep blue s3cret");
    assert!(!std::fs::read_to_string(boot.join("boot.sh")).unwrap().contains("s3cret"), "a boot script has no secret");

    let resumed = run(home.path(), &["resume", "all"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "all: completed\n"), "{}", resumed.stderr);
    assert_eq!(result(home.path()), undisturbed());
    let followed = run(home.path(), &["logs", "all", "--follow"]);
    assert!(followed.stdout.matches("train: from step").count() == 2, "{}", followed.stdout);
    let folder = home.path().join("fetched").to_string_lossy().into_owned();
    let fetched = run(home.path(), &["fetch", "all", &folder]);
    assert!(fetched.code == 0 && Path::new(fetched.stdout.trim_end()).exists(), "{}{}", fetched.stdout, fetched.stderr);
    assert_eq!(run(home.path(), &["fetch", "all", &folder]).code, 2, "a folder that is in use is left alone");
    assert_eq!(run(home.path(), &["down", "all"]).code, 2, "nobody said yes");
    assert_eq!(run(home.path(), &["down", "all", "-y"]).code, 0);
    assert_eq!(files(&home.path().join("fake-cloud/store/runs/all")), 0, "a folder may stay, what was in it not");
    assert_eq!(run(home.path(), &["status", "all"]).code, 2);
    nothing_is_left(home.path());
}

/// How far a launch is, as others see it in its files.
#[derive(Clone, Copy, Debug)]
enum Moment {
    RunInJournal,
    OrderRefused,
    MachineMade,
    MachineInJournal,
}

impl Moment {
    const ALL: [Self; 4] = [Self::RunInJournal, Self::OrderRefused, Self::MachineMade, Self::MachineInJournal];

    fn has_come(self, home: &Path) -> bool {
        let state = std::fs::read_to_string(home.join("fake-cloud/state.json")).unwrap_or_default();
        // The cloud may be writing it.
        let state: Value = serde_json::from_str(&state).unwrap_or_default();
        match self {
            Self::RunInJournal => status_of(home).is_some(),
            Self::OrderRefused => state["orders"].as_u64() >= Some(1),
            Self::MachineMade => state["machines"].as_array().is_some_and(|machines| !machines.is_empty()),
            Self::MachineInJournal => {
                status_of(home).is_some_and(|run| !run["machines"].as_array().unwrap().is_empty())
            }
        }
    }
}

/// `None`: the journal does not know the run yet.
fn status_of(home: &Path) -> Option<Value> {
    let ran = home.join("launches.sqlite").exists().then(|| run(home, &["status", "k", "--output", "json"]))?;
    (ran.code == 0).then(|| ran.json()["runs"][0].clone())
}

/// Kills whoever leads at each moment of a launch, and looks whether any machine is unaccounted for: known to the journal as running,
/// or found by `gc`. The first machine is refused, so that orders with and without an answer are among the moments; the cloud lets its
/// answers wait, so that the leader is killed before it hears them.
#[test]
fn a_leader_killed_at_any_moment_leaves_no_machine_unaccounted_for() {
    std::thread::scope(|scope| {
        for moment in Moment::ALL {
            scope.spawn(move || killed_at(moment));
        }
    });
}

/// The job outlasts every look at its machine, however slow the looks are.
fn killed_at(moment: Moment) {
    let home = tempfile::tempdir().unwrap();
    let scenario = home.path().join("scenario.toml");
    std::fs::write(&scenario, "refuse = [\"InsufficientInstanceCapacity\"]\nlatency_seconds = 0.5\n").unwrap();
    let words =
        [&LAUNCH[..], &["-y", "--run", "k", "--fake-scenario", scenario.to_str().unwrap(), "--", "sleep", "600"]]
            .concat();
    let mut leader = gpuplan(home.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !moment.has_come(home.path()) {
        assert_eq!(leader.try_wait().unwrap(), None, "{moment:?}: it ends before it is killed");
        std::thread::sleep(Duration::from_millis(20));
    }
    leader.kill().unwrap();
    leader.wait().unwrap();
    let state = home.path().join("fake-cloud/state.json");
    let listed: Value =
        std::fs::read_to_string(&state).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    let alive =
        listed["machines"].as_array().into_iter().flatten().filter(|kept| kept["machine"]["state"] != "gone").count();
    let found = run(home.path(), &["gc", "--cloud", "fake", "-y", "--output", "json"]);
    assert_eq!(found.code, 0, "{moment:?}: {}", found.stderr);
    let strangers = found.json()["ended"].as_array().unwrap().len();
    let known = run(home.path(), &["status", "k", "--output", "json"]);
    let machines =
        if known.code == 0 { known.json()["runs"][0]["machines"].as_array().unwrap().clone() } else { Vec::new() };
    let running = machines.iter().filter(|machine| machine["state"] != "gone").count();
    assert_eq!(alive, strangers + running, "{moment:?}: {listed:#} {}", known.stdout);
    if known.code == 0 {
        assert_eq!(run(home.path(), &["stop", "k"]).code, 0, "{moment:?}");
    }
    if state.exists() {
        nothing_is_left(home.path());
    }
}

/// Its machine was rented, and completed the run, while nobody led: whoever came next rented another one, which did the work again.
#[test]
fn a_run_that_was_completed_before_its_order_was_answered_is_completed() {
    let home = tempfile::tempdir().unwrap();
    let scenario = home.path().join("scenario.toml");
    std::fs::write(&scenario, "latency_seconds = 4.0\n").unwrap();
    let words =
        [&LAUNCH[..], &["-y", "--run", "k", "--fake-scenario", scenario.to_str().unwrap(), "--", "true"]].concat();
    let mut leader = gpuplan(home.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let machines = || -> Vec<Value> {
        let text = std::fs::read_to_string(home.path().join("fake-cloud/state.json")).unwrap_or_default();
        serde_json::from_str::<Value>(&text)
            .map_or_else(|_| Vec::new(), |state| state["machines"].as_array().unwrap().clone())
    };
    let until = Instant::now() + PATIENCE;
    while machines().is_empty() {
        assert!(Instant::now() < until && leader.try_wait().unwrap().is_none(), "no machine was rented");
        std::thread::sleep(Duration::from_millis(20));
    }
    leader.kill().unwrap();
    leader.wait().unwrap();
    let known = run(home.path(), &["status", "k", "--output", "json"]).json()["runs"][0].clone();
    assert_eq!(
        known["machines"].as_array().map(Vec::len),
        Some(0),
        "its answer came before the leader died: {known:#}"
    );
    while !machines().iter().all(|machine| machine["machine"]["state"] == "gone") {
        assert!(Instant::now() < until, "it does not end: {:?}", machines());
        std::thread::sleep(Duration::from_millis(100));
        // Whoever looks sees that its processes have ended.
        run(home.path(), &["gc", "--cloud", "fake"]);
    }
    let led = run(home.path(), &["watch", "k"]);
    assert_eq!((led.code, led.stdout.as_str()), (0, "k: completed\n"), "{}", led.stderr);
    assert!(led.stderr.contains("ended with 0, and no checkpoint of it was seen"), "{}", led.stderr);
    assert_eq!(machines().len(), 1, "{}", led.stderr);
}
