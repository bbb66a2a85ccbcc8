//! The whole life of a run on machines of Google Cloud that are processes here: refused, booted, preempted with a notice, moved to
//! another zone and finished, with the result of a run that nobody disturbed. The real boot script and the real agent.

use gpuplan_testbed::executable::executable;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpuplan::clouds::gcp::account::project::Project;
use gpuplan::clouds::gcp::launcher::GcpLauncher;
use gpuplan::launch::spec::{Offered, VERSION};
use gpuplan::launch::{
    Clock, End, Job, Journal, Launcher, LeadContext, LeaderCommand, Market, Parcel, Pool, RunSpec, lead,
};
use gpuplan::runstore::layout::Layout;
use gpuplan::runstore::{Run, Store};
use gpuplan::spot::AvailabilityModel;
use gpuplan::units::{Usd, UsdPerHour};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::cli::launch::{HOLD, PATIENCE};
use crate::cli::support::Ran;
use gpuplan_testbed::fake_gcs::FakeGcs;
use gpuplan_testbed::gce_machines::{Machines, PROJECT, TOKEN, later};

const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");
/// A minute of the run in a second.
const SPEED: f64 = 60.0;

fn spec(folder: &Path, zones: &[&str], command: &[&str]) -> RunSpec {
    let offered = |zone: &&str| {
        let (region, _) = zone.rsplit_once('-').unwrap();
        let pool = Pool {
            cloud: "gcp".to_owned(),
            region: region.to_owned(),
            zone_id: Some((*zone).to_owned()),
            instance_type: "g2-standard-4".to_owned(),
            market: Market::Spot,
        };
        Offered::new(pool, UsdPerHour::parse("0.30").unwrap())
    };
    RunSpec {
        version: VERSION,
        run: "Life_1.0".to_owned(),
        started_at: Timestamp::now(),
        stand_in: None,
        nodes: 1,
        spot: zones.iter().map(offered).collect(),
        on_demand: Vec::new(),
        work_hours: 1.0,
        deadline_hours: None,
        changeover_hours: 0.1,
        worst_changeover_hours: 0.3,
        budget_usd: None,
        lifetime_hours: 1000.0,
        silence_seconds: 600.0,
        settles_seconds: 120.0,
        expected_cost_usd: Usd::ZERO,
        steps: 120.0,
        store: format!("file://{}", folder.join("store").display()),
        image: None,
        disk_gib: 100,
        tags: vec![("team".to_owned(), "vision".to_owned())],
        is_kept: false,
        keep_warm_seconds: None,
        takes: None,
        leads: None,
        block: None,
        expected: None,
        job: Job {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            agent: Parcel::Here(env!("CARGO_BIN_EXE_gpuplan").to_owned()),
            workdir: None,
            setup: None,
            environment: Vec::new(),
            secrets: Vec::new(),
            data: None,
            container: None,
            container_login: None,
            sweep: None,
            agent_options: Vec::new(),
            notify: None,
        },
    }
}

fn store(spec: &RunSpec) -> Run {
    Run::new(Store::open(&spec.store).unwrap(), Layout::new(&spec.run).unwrap())
}

/// Leads the run while `beside` happens. The end, and what was said.
fn led(spec: &RunSpec, folder: &Path, machines: &Machines, beside: impl AsyncFnOnce(&Run)) -> (End, Vec<String>) {
    let mut journal = Journal::open(&folder.join("launches.sqlite")).unwrap();
    assert!(journal.begin(spec).unwrap());
    let project = Project::at(machines.endpoint(), PROJECT);
    let launchers: Vec<Box<dyn Launcher>> = vec![Box::new(GcpLauncher::at(project, "nobody".to_owned()))];
    let (_wish, wishes) = watch::channel(LeaderCommand::GoOn);
    let (run, said) = (store(spec), std::sync::Mutex::new(Vec::new()));
    let wiring = LeadContext {
        launchers: &launchers,
        journal: &mut journal,
        store: &run,
        policy: spec.policy(&AvailabilityModel::prior()),
        clock: Clock::new(spec.started_at, SPEED),
        by: "a test".to_owned(),
        take_over: false,
        say: &|line| said.lock().unwrap().push(line.to_owned()),
        show: &|_| {},
        wish: wishes,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let end = runtime.block_on(async {
        let leading = async { tokio::time::timeout(PATIENCE, lead(spec, wiring)).await.expect("the run does not end") };
        let other = store(spec);
        tokio::join!(leading, beside(&other)).0
    });
    (end.unwrap().unwrap(), said.into_inner().unwrap())
}

fn undisturbed() -> String {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(TRAINER).current_dir(folder.path()).stderr(Stdio::null()).status().unwrap();
    assert!(ended.success());
    std::fs::read_to_string(folder.path().join("result.json")).unwrap()
}

#[test]
fn a_preempted_run_goes_on_in_another_zone_with_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::start(folder.path(), 1.0);
    // As often as it is asked: on a busy computer its rest is over before the preemption.
    let exhausted = later("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "no resources");
    machines.fails("us-central1-a", &vec![exhausted; 100]);
    let zones = ["us-central1-a", "us-central1-b", "us-east4-a"];
    let spec = spec(folder.path(), &zones, &["sh", "-c", &format!("{HOLD}; exec {TRAINER} $hold")]);
    let preempting = async |run: &Run| {
        // Once something of it is safe.
        while run.status(0).await.ok().flatten().is_none_or(|status| status.committed.is_none()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        machines.preempt(&machines.alive()[0], Duration::from_secs(30));
    };
    let (end, said) = led(&spec, folder.path(), &machines, preempting);
    let said = said.join("\n");
    let console = |machine: &String| std::fs::read_to_string(machines.folder_of(machine).join("console.log")).unwrap();
    let consoles: Vec<String> = machines.inserted().iter().map(console).collect();
    assert_eq!(end, End::Completed, "{said}\n{consoles:?}");
    let inserted = machines.inserted();
    let zones: Vec<&str> = inserted.iter().map(|machine| machine.split_once('/').unwrap().0).collect();
    assert_eq!(zones, ["us-central1-b", "us-east4-a"], "{said}");
    assert!(
        said.contains("no capacity (ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS)")
            && said.contains("interrupted, its work is saved"),
        "{said}"
    );
    assert!(
        consoles[0].contains("gcp preemption") && consoles[0].contains("train: from step 0 of 120"),
        "{}",
        consoles[0]
    );
    assert!(
        consoles[1].contains("train: from step ") && !consoles[1].contains("train: from step 0 of"),
        "{}",
        consoles[1]
    );
    let result = std::fs::read_to_string(machines.folder_of(&inserted[1]).join("work/result.json")).unwrap();
    assert_eq!(result, undisturbed(), "a preemption changes nothing");
    assert!(machines.alive().is_empty(), "nothing is left");
    assert!(inserted.iter().all(|machine| machines.processes(machine).is_empty()));
    assert!(!format!("{said}{consoles:?}").contains(TOKEN), "a key is said nowhere");
}

/// What a list of processes shows is read by everybody on the machine.
#[test]
fn a_token_stands_in_no_list_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (arguments, curl) = (folder.path().join("arguments"), folder.path().join("curl"));
    let says = r#"{"access_token": "THE-TOKEN", "expires_in": 60}"#;
    let text = format!(
        "#!/bin/sh\necho \"$*\" >>{}\ncase $* in *token) echo '{says}' ;; *) cat ;; esac\n",
        arguments.display()
    );
    executable(&curl, text);
    let boot = include_str!("../../src/launch/boot/boot.sh");
    let script =
        format!("cloud=gcp\n{boot}\nget identified:https://storage.googleapis.com/b/o\nsecret hf >/dev/null\n");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("/bin/sh");
    let output =
        shell.args(["-c", &script]).env("PATH", path).env("GPUPLAN_MACHINE_FOLDER", folder.path()).output().unwrap();
    let said = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(said.0, "Authorization: Bearer THE-TOKEN\n", "{}", said.1);
    let arguments = std::fs::read_to_string(arguments).unwrap();
    assert!(arguments.contains("storage.googleapis.com/b/o") && arguments.contains("secrets/hf"), "{arguments}");
    assert!(!arguments.contains("THE-TOKEN"), "{arguments}");
}

/// Nobody leads the run any more, and its machine ends itself: the boot script deletes it with the token of its service account.
#[test]
fn a_machine_whose_job_cannot_start_deletes_itself() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Machines::start(folder.path(), 1.0);
    let mut spec = spec(folder.path(), &["us-central1-a", "us-central1-b", "us-east4-a"], &[TRAINER]);
    // No machine of Google's fails before it can be described.
    spec.job.setup =
        Some("until test -e \"$GPUPLAN_MACHINE_FOLDER/described\"; do sleep 0.05; done; kill -9 $PPID".to_owned());
    let describing = async |_: &Run| {
        let (mut described, until) = (BTreeSet::new(), Instant::now() + PATIENCE);
        while described.len() < 3 && Instant::now() < until {
            let calls = machines.fake.calls();
            for machine in machines.alive() {
                let is_it = |call: &&gpuplan_testbed::fake_gce::Call| {
                    call.parameters.get("instance").is_some_and(|name| machine.ends_with(name))
                };
                if calls.iter().filter(|call| call.method == "compute.instances.get").any(|call| is_it(&call)) {
                    std::fs::write(machines.folder_of(&machine).join("described"), "").unwrap();
                    described.insert(machine);
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (end, said) = led(&spec, folder.path(), &machines, describing);
    assert!(matches!(&end, End::Failed(why) if why.contains("3 times in a row")), "{end:?}: {said:?}");
    let calls = machines.fake.calls();
    let own = |call: &&gpuplan_testbed::fake_gce::Call| {
        call.headers.get("authorization").is_some_and(|key| *key == format!("Bearer {TOKEN}"))
    };
    let deleted: Vec<&str> = calls.iter().filter(own).map(|call| call.method.as_str()).collect();
    assert_eq!(deleted, ["compute.instances.delete"; 3]);
    assert!(machines.alive().is_empty());
}

const QUESTION: [&str; 8] =
    ["examples/llama-3.1-8b-finetune.toml", "--cloud", "gcp", "--gpus", "H100:8", "--spot", "--max-nodes", "1"];

/// The program in a project of its own, with a bucket.
struct Bed {
    home: tempfile::TempDir,
    machines: Machines,
    bucket: FakeGcs,
}

impl Bed {
    fn start() -> Self {
        let (home, bucket) = (tempfile::tempdir().unwrap(), FakeGcs::start());
        let machines = Machines::start(home.path(), 1.0);
        machines.tells("GOOGLE_BASE_URL", &bucket.endpoint);
        Self { home, machines, bucket }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let Self { home, machines, bucket } = self;
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
        command
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("COLUMNS", "140")
            .stdin(Stdio::null());
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", home.path())
            .env("GPUPLAN_HOME", home.path());
        command.env("GOOGLE_CLOUD_PROJECT", PROJECT).env("GPUPLAN_GCP_ENDPOINT", machines.endpoint());
        command.env("GOOGLE_BASE_URL", &bucket.endpoint).env("GOOGLE_BEARER_TOKEN", TOKEN);
        // Nobody asks the metadata service of the machine that the test runs on.
        let nobody = machines.endpoint().trim_start_matches("http://");
        command.env("GCE_METADATA_HOST", nobody).env("GCE_METADATA_IP", nobody);
        command
    }

    fn console(&self, machine: &str) -> String {
        std::fs::read_to_string(self.machines.folder_of(machine).join("console.log")).unwrap_or_default()
    }
}

/// By the program itself: prices by zone, a bucket, a folder that the machine fetches with its own identity, and nothing left.
#[test]
fn the_program_rents_on_google_cloud() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    let (machines, bucket, run) = (&bed.machines, &bed.bucket, |arguments: &[&str]| bed.run(arguments));
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    // The program of the machines lies on their disk already; a debug build is too large to send around.
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    let more = [
        "--live",
        "-y",
        "--run",
        "life",
        "--store",
        "gs://runs/team",
        "--agent",
        &agent,
        "--workdir",
        job.path().to_str().unwrap(),
    ];
    let ran = run(&[&["launch"], &QUESTION[..], &more, &["--", "./train.py"]].concat());
    let inserted = machines.inserted();
    let console = inserted
        .first()
        .map(|machine| std::fs::read_to_string(machines.folder_of(machine).join("console.log")).unwrap());
    assert_eq!(
        (ran.code, ran.stdout.as_str(), inserted.len()),
        (0, "life: completed\n", 1),
        "{}\n{console:?}",
        ran.stderr
    );
    let result = std::fs::read_to_string(machines.folder_of(&inserted[0]).join("work/result.json")).unwrap();
    assert_eq!(result, undisturbed());
    assert!(bucket.keys().iter().any(|key| key.starts_with("runs/team/runs/life/manifests/")), "{:?}", bucket.keys());
    assert!(run(&["logs", "life"]).stdout.starts_with("train: from step 0 of "), "what it said is in the bucket");
    let left = run(&["gc", "--cloud", "gcp", "--output", "json"]);
    assert_eq!(
        (left.code, left.json()["found"].as_array().map(Vec::len)),
        (0, Some(0)),
        "{}{}",
        left.stdout,
        left.stderr
    );
    assert!(machines.alive().is_empty() && !format!("{}{console:?}", ran.stderr).contains(TOKEN));
}

/// What a plan takes on flex-start terms is rented on them, and ends within the week for which it is sold.
#[test]
fn flex_start_machines_are_rented_on_google_cloud() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    let question = QUESTION.map(|word| if word == "--spot" { "--purchase=flex-start" } else { word });
    let folder = job.path().to_str().unwrap();
    let sent = ["--live", "-y", "--store", "gs://runs/team", "--agent", &agent, "--workdir", folder];
    let launch = |more: &[&str]| bed.run(&[&["launch"], &question[..], &sent, more, &["--", "./train.py"]].concat());
    let long = launch(&["--run", "long", "--lifetime", "30d"]);
    assert!(long.code == 2 && long.stderr.contains("--lifetime 168h"), "{}", long.stderr);
    let ran = launch(&["--run", "queued"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "queued: completed\n"), "{}", ran.stderr);
    let calls = bed.machines.fake.calls();
    let inserted: Vec<_> = calls.iter().filter(|call| call.method == "compute.instances.insert").collect();
    assert_eq!(inserted.len(), 1);
    let scheduling = &inserted[0].body["scheduling"];
    assert_eq!(scheduling["provisioningModel"], "FLEX_START", "{scheduling}");
    let life: i64 = scheduling["maxRunDuration"]["seconds"].as_str().unwrap().parse().unwrap();
    assert!((3600..=7 * 24 * 3600).contains(&life), "{scheduling}");
    assert!(bed.machines.alive().is_empty());
}

/// What a plan takes for a date is booked only where somebody says so, and its machines stand on what was booked.
#[test]
fn machines_for_a_date_are_booked_on_google_cloud() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    let question = QUESTION.map(|word| match word {
        "--spot" => "--purchase=calendar",
        "H100:8" => "B200:8",
        other => other,
    });
    let folder = job.path().to_str().unwrap();
    let sent =
        ["--budget", "3000", "--live", "-y", "--store", "gs://runs/team", "--agent", &agent, "--workdir", folder];
    let launch = |more: &[&str]| bed.run(&[&["launch"], &question[..], &sent, more, &["--", "./train.py"]].concat());
    let booked = |bed: &Bed| {
        let calls = bed.machines.fake.calls();
        calls.into_iter().filter(|call| call.method == "compute.futureReservations.insert").collect::<Vec<_>>()
    };
    let unasked = launch(&["--run", "unasked"]);
    assert_eq!(unasked.code, 2, "{}", unasked.stderr);
    assert!(
        unasked.stderr.contains("a reservation in calendar mode, which is bought only on request: $2,165"),
        "{}",
        unasked.stderr
    );
    assert!(booked(&bed).is_empty());
    let ran = launch(&["--run", "dated", "--buy-capacity-block"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "dated: completed\n"), "{}", ran.stderr);
    let bookings = booked(&bed);
    let [booking] = bookings.as_slice() else { panic!("{} bookings", bookings.len()) };
    let window = &booking.body["timeWindow"];
    let at = |name: &str| window[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(at("endTime").duration_since(at("startTime")).as_hours(), 24, "{window}");
    let calls = bed.machines.fake.calls();
    let inserted = calls.iter().find(|call| call.method == "compute.instances.insert").unwrap();
    assert_eq!(inserted.body["scheduling"]["provisioningModel"], "RESERVATION_BOUND");
    assert_eq!(inserted.body["reservationAffinity"]["values"][0], booking.body["reservationName"]);
    assert!(bed.machines.alive().is_empty());
}

/// Nobody leads: the group starts the next machine, and the last machine ends the group.
#[test]
fn a_group_of_google_keeps_a_run_alive_that_nobody_leads() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    let launch = |name: &str, command: &str| {
        let kept = ["--keep-alive", "group", "--detach", "--live", "-y", "--run", name, "--lifetime", "10h"];
        let sent = ["--store", "gs://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
        let launched = bed.run(&[&["launch"], &QUESTION[..], &kept, &sent, &["--", "sh", "-c", command]].concat());
        assert_eq!((launched.code, launched.stdout), (0, format!("{name}\n")), "{}", launched.stderr);
        launched.stderr
    };
    let comes = |what: &str, look: &dyn Fn() -> bool| {
        let until = Instant::now() + PATIENCE;
        while !look() {
            let consoles: Vec<String> = bed.machines.inserted().iter().map(|machine| bed.console(machine)).collect();
            assert!(Instant::now() < until, "{what}: {consoles:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let told = launch("kept", &format!("{HOLD}; exec ./train.py $hold"));
    assert!(told.contains("by a managed instance group of one") && told.contains("keeps kept alive until"), "{told}");
    let has = |part: &str| bed.bucket.keys().iter().any(|key| key.starts_with(part));
    comes("a safe checkpoint", &|| !bed.machines.alive().is_empty() && has("runs/team/runs/kept/manifests/"));
    let gc = bed.run(&["gc", "--cloud", "gcp", "--output", "json"]).json();
    assert_eq!(gc["found"], serde_json::json!([]), "a machine that a group started is no stranger");
    let before = bed.run(&["status", "kept", "--output", "json"]).json();
    assert_eq!(before["runs"][0]["relaunches"].as_u64(), Some(0), "{before:#}");
    bed.machines.preempt(&bed.machines.alive()[0], Duration::ZERO);
    comes("the end of the group", &|| bed.machines.groups().0 == 0 && bed.machines.alive().is_empty());
    let inserted = bed.machines.inserted();
    let [_, second] = inserted.as_slice() else { panic!("two machines: {inserted:?}") };
    let watched = bed.run(&["watch", "kept"]);
    assert_eq!((watched.code, watched.stdout.as_str()), (0, "kept: completed\n"), "{}", watched.stderr);
    let result = std::fs::read_to_string(bed.machines.folder_of(second).join("work/result.json")).unwrap();
    assert_eq!(result, undisturbed(), "an interruption changes nothing");
    let told = format!("{told}{}", bed.console(second));
    assert!(!told.contains(TOKEN), "a key is said nowhere");

    launch("stopped", "exec ./train.py --hold-at 60");
    comes("a machine", &|| !bed.machines.alive().is_empty());
    let stopped = bed.run(&["stop", "stopped", "--at-once"]);
    assert_eq!(stopped.code, 0, "{}{}", stopped.stdout, stopped.stderr);
    assert!(bed.machines.groups().0 == 0 && bed.machines.alive().is_empty(), "{}", stopped.stderr);
}

/// No order, no boot: the machine of a completed run serves the next one, and deletes itself where nobody leads any more.
#[test]
fn the_next_launch_takes_a_machine_over_on_google_cloud() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    let folder = job.path().to_str().unwrap();
    let sent = ["--live", "-y", "--store", "gs://runs/team", "--agent", &agent, "--workdir", folder];
    let launch = |name: &str, more: &[&str], command: &str| {
        let words = [&["launch"], &QUESTION[..], &sent, &["--run", name], more, &["--", "sh", "-c", command]].concat();
        let ran = bed.run(&words);
        let consoles = || bed.machines.inserted().iter().map(|machine| bed.console(machine)).collect::<Vec<_>>();
        let expected = (0, format!("{name}: completed\n"));
        assert_eq!((ran.code, ran.stdout), expected, "{}\n{:?}", ran.stderr, consoles());
        ran.stderr
    };
    let kept = ["--keep-warm", "20m", "--env", "LEFT=warm-one"];
    let said = launch("one", &kept, "echo left >left.txt; sleep 1000 & exec ./train.py");
    assert!(said.contains("stays for the next launch"), "{said}");
    let alive = bed.machines.alive();
    let [machine] = alive.as_slice() else { panic!("one machine waits: {alive:?}") };
    let gc = bed.run(&["gc", "--cloud", "gcp", "--output", "json"]).json();
    assert_eq!(gc["found"], serde_json::json!([]), "it is no stray");

    let look = "test -e left.txt && echo 'a file of another run'; test -n \"$LEFT\" && echo 'a variable of another run'; \
        grep -slzx LEFT=warm-one /proc/[0-9]*/environ; echo looked; exec ./train.py";
    let said = launch("two", &["--keep-warm", "20m"], look);
    assert!(said.contains(&format!("{machine} of one is taken over: nothing is rented")), "{said}");
    assert_eq!(bed.machines.inserted(), std::slice::from_ref(machine), "one machine served both");
    let logs = bed.run(&["logs", "two"]).stdout;
    assert!(logs.starts_with("looked\ntrain: from step 0 of "), "nothing of the run before is found: {logs}");
    let result = std::fs::read_to_string(bed.machines.folder_of(machine).join("work/result.json")).unwrap();
    assert_eq!(result, undisturbed());
    // It stays for a third, whose leader dies: the machine still knows how to delete itself.
    let third = "echo begun >begun.txt; until test -e go.txt; do sleep 0.05; done";
    let words = [&["launch"], &QUESTION[..], &sent, &["--run", "three", "--", "sh", "-c", third]].concat();
    let work = bed.machines.folder_of(machine).join("work");
    let comes = |what: &str, look: &dyn Fn() -> bool| {
        let until = Instant::now() + PATIENCE;
        while !look() {
            assert!(Instant::now() < until, "{what}: {}", bed.console(machine));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut leader = bed.command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    comes("the third run", &|| work.join("begun.txt").exists());
    leader.kill().unwrap();
    let said = Ran::of(leader.wait_with_output().unwrap()).stderr;
    assert!(said.contains(&format!("{machine} of two is taken over")), "{said}");
    std::fs::write(work.join("go.txt"), "").unwrap();
    comes("the end of the machine", &|| bed.machines.alive().is_empty());
    let own = |call: &gpuplan_testbed::fake_gce::Call| {
        call.method == "compute.instances.delete"
            && call.headers.get("authorization").is_some_and(|key| *key == format!("Bearer {TOKEN}"))
    };
    let told = format!("{said}{}", bed.console(machine));
    assert!(bed.machines.fake.calls().iter().any(own) && !told.contains(TOKEN), "{told}");
    let gc = bed.run(&["gc", "--cloud", "gcp", "--output", "json"]).json();
    assert_eq!(gc["found"], serde_json::json!([]), "nothing is left");
}

/// No process of the user is left once the command has ended: a machine with an account of its own rents for the run, and ends with it.
#[test]
fn a_machine_with_an_account_of_its_own_leads_a_run_on_google_cloud() {
    let (bed, job) = (Bed::start(), tempfile::tempdir().unwrap());
    std::fs::copy(TRAINER, job.path().join("train.py")).unwrap();
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", gpuplan::runstore::sha256(std::fs::read(program).unwrap()));
    // The machine asks the same stand-ins, and keeps what it knows to itself.
    bed.machines.tells("GPUPLAN_GCP_ENDPOINT", bed.machines.endpoint());
    bed.machines.tells("GPUPLAN_HOME", &bed.home.path().join("of-the-leader").display().to_string());
    bed.machines.tells("GOOGLE_BEARER_TOKEN", TOKEN);
    let led = ["--leader", "gcp", "--live", "-y", "--run", "led", "--budget", "400"];
    let sent = ["--store", "gs://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
    let ran = bed.run(&[&["launch"], &QUESTION[..], &led, &sent, &["--", "./train.py"]].concat());
    let consoles = || bed.machines.inserted().iter().map(|machine| bed.console(machine)).collect::<Vec<_>>();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "led\n"), "{}\n{:?}", ran.stderr, consoles());
    assert!(ran.stderr.contains("led       by a machine of its own, e2-small"), "{}", ran.stderr);
    let calls = bed.machines.fake.calls();
    let first = calls.iter().find(|call| call.method == "compute.instances.insert").unwrap().body.clone();
    let account =
        |body: &serde_json::Value| body["serviceAccounts"][0]["email"].as_str().unwrap_or_default().to_owned();
    assert_eq!(account(&first), format!("gpuplan-leader@{PROJECT}.iam.gserviceaccount.com"));
    assert!(first["machineType"].as_str().unwrap().ends_with("/e2-small") && first["guestAccelerators"].is_null());
    assert_eq!(first["scheduling"]["onHostMaintenance"], "MIGRATE", "maintenance ends nobody who leads");
    let until = Instant::now() + PATIENCE;
    while !bed.machines.alive().is_empty() {
        assert!(Instant::now() < until, "{:?}", consoles());
        std::thread::sleep(Duration::from_millis(100));
    }
    let inserted = bed.machines.inserted();
    let [_, trains] = inserted.as_slice() else { panic!("one leads and one trains: {inserted:?} {:?}", consoles()) };
    let calls = bed.machines.fake.calls();
    let second = calls.iter().filter(|call| call.method == "compute.instances.insert").nth(1).unwrap();
    assert_eq!(account(&second.body), format!("gpuplan-machine@{PROJECT}.iam.gserviceaccount.com"));
    let result = std::fs::read_to_string(bed.machines.folder_of(trains).join("work/result.json")).unwrap();
    assert_eq!(result, undisturbed());
    let status = bed.run(&["status", "--output", "json"]).json();
    let said: Vec<_> = status["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(said, ["completed", "completed"], "the run and its leader: {status:#}");
    // The role in `setup.tf` allows what the leader asked, and no more than a launch.
    let role = gpuplan::clouds::gcp::SETUP.split_once("\"google_project_iam_custom_role\" \"leader\"").unwrap().1;
    let role = role.split_once("\n}\n").unwrap().0;
    for permission in
        ["compute.instances.create", "compute.instances.delete", "compute.instances.list", "compute.zoneOperations.get"]
    {
        assert!(role.contains(&format!("\"{permission}\"")), "{permission}");
    }
    assert!(
        !role.contains("instanceGroupManagers") && !role.contains("actAs"),
        "it starts no group, and acts as machines alone"
    );
}
