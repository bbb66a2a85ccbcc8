//! The whole life of a run on AWS in a box: refused, launched, interrupted, relaunched in another zone, finished, nothing left.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::launch::{HOLD, PATIENCE};
use crate::cli::support::Ran;
use gpuplan::launch::Market;
use gpuplan_testbed::answers::{Spot, spot_history};
use gpuplan_testbed::cloud_box::{CloudBox, KEYS};
use gpuplan_testbed::machines::Seen;
use gpuplan_testbed::proxy::{Call, Fault, Rule};

pub const QUESTION: [&str; 12] = [
    "examples/resnet-50-imagenet.toml",
    "--cloud",
    "aws",
    "--region",
    "us-east-1",
    "--gpus",
    "A10G:1",
    "--spot",
    "--max-nodes",
    "1",
    "--deadline",
    "90d",
];
/// The zone that is asked first has no machine.
fn rules() -> Vec<Rule> {
    // What the market says while the run is led.
    let zones = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"];
    let moved = zones.map(|zone| Spot { machine: "g5.xlarge", zone, price: "0.45", hours_ago: 2 });
    vec![
        spot_history(moved.to_vec(), 4),
        Rule::on("RunInstances", Fault::Refuse(500, "InsufficientInstanceCapacity", "We have no capacity there."))
            .calls(0..1),
    ]
}

pub fn gpuplan(cloud: &CloudBox, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .env("COLUMNS", "140")
        .stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home).env("GPUPLAN_HOME", home);
    command.env("AWS_ENDPOINT_URL", &cloud.endpoint).env("AWS_ENDPOINT_URL_S3", format!("http://{}", cloud.store()));
    command.env("AWS_ACCESS_KEY_ID", KEYS[0]).env("AWS_SECRET_ACCESS_KEY", KEYS[1]).env("AWS_REGION", "us-east-1");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

pub fn run(cloud: &CloudBox, home: &Path, arguments: &[&str]) -> Ran {
    Ran::of(gpuplan(cloud, home, arguments).output().unwrap())
}

fn wait_for<T>(what: &str, leader: &mut Child, said: &Path, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let ended = leader.try_wait().unwrap();
        assert!(
            ended.is_none() && begun.elapsed() < PATIENCE,
            "{what}: {ended:?}\n{}",
            fs::read_to_string(said).unwrap()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the trainer writes when nobody disturbs it.
pub fn undisturbed(trainer: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(trainer).current_dir(folder.path()).stderr(Stdio::null()).status().unwrap();
    assert!(ended.success());
    fs::read_to_string(folder.path().join("result.json")).unwrap()
}

/// By the tool that machines use as well: a debug build of ours takes a quarter of a minute for a debug build.
pub fn sha256(path: &str) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_run_on_aws_survives_a_stock_out_and_an_interruption() {
    let begun = Instant::now();
    let Some(cloud) = CloudBox::start("a_run_on_aws_survives_a_stock_out_and_an_interruption", rules()) else { return };
    println!("the cloud is up after {:?}", begun.elapsed());
    cloud.make_bucket("runs");
    let home = tempfile::tempdir().unwrap();
    // The program of the machines lies on their disk already; a debug build is too large to send around.
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", sha256(program));
    let job = tempfile::tempdir().unwrap();
    let trainer = job.path().join("train.py");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), &trainer).unwrap();
    let more = [
        "--accept-stale-prices",
        "-y",
        "--run",
        "life",
        "--store",
        "s3://runs/team",
        "--agent",
        &agent,
        "--workdir",
        job.path().to_str().unwrap(),
    ];
    let command = format!("{HOLD}; exec ./train.py $hold");
    let words = [&["launch"], &QUESTION[..], &more, &["--", "sh", "-c", &command]].concat();
    let said = home.path().join("said");
    let log = fs::File::create(&said).unwrap();
    let mut leader = gpuplan(&cloud, home.path(), &words).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();

    let first: Seen = wait_for("a machine", &mut leader, &said, || cloud.world.up().into_iter().next());
    println!("a machine runs after {:?}", begun.elapsed());
    wait_for("a safe checkpoint", &mut leader, &said, || {
        let safe = cloud.keys("runs", "team/runs/life/manifests/");
        if !first.folder.join("job/work").exists() || safe.is_empty() { None } else { Some(()) }
    });
    println!("a checkpoint is safe after {:?}", begun.elapsed());
    cloud.world.take(&first.id, Duration::from_secs(30));
    let second = wait_for("another machine", &mut leader, &said, || {
        // Up or done already: on a busy machine it may end between two looks.
        cloud.world.machines().into_iter().find(|seen| seen.id != first.id)
    });
    println!("another machine runs after {:?}", begun.elapsed());
    let until = Instant::now() + PATIENCE;
    let ended = loop {
        match leader.try_wait().unwrap() {
            Some(ended) => break ended,
            None => assert!(
                Instant::now() < until,
                "{}\n{}",
                fs::read_to_string(&said).unwrap(),
                cloud.world.console(&second.id)
            ),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = fs::read_to_string(&said).unwrap();
    println!("it ended after {:?}\n{said}", begun.elapsed());
    assert!(ended.success(), "{said}\n{}", cloud.world.console(&second.id));

    assert_ne!(first.zone_id, second.zone_id, "where it was taken it is not asked for again");
    let asked: Vec<_> = cloud.calls().into_iter().filter(|call| call.action == "RunInstances").collect();
    assert_eq!(asked.len(), 3, "one refusal, two machines");
    let bids: Vec<f64> = asked
        .iter()
        .filter_map(|call| call.parameter("InstanceMarketOptions.SpotOptions.MaxPrice")?.parse().ok())
        .collect();
    assert!(bids.len() == 3 && bids.iter().all(|bid| *bid > 0.0 && *bid < 5.0), "each has a highest price: {bids:?}");
    let bound = said.split_once("never more than $").and_then(|(_, rest)| rest.split_once(',')).map(|(bound, _)| bound);
    let bound: f64 = bound.unwrap().parse().unwrap();
    assert!(bids.iter().all(|bid| *bid <= bound), "and it was said: {bids:?} {said}");
    for (part, times) in [
        ("no capacity (InsufficientInstanceCapacity)", 1),
        ("rented 1 x", 2),
        (" spot at $0.45 an hour", 1),
        ("life: completed", 1),
    ] {
        assert!(said.matches(part).count() >= times, "{part}: {said}");
    }
    assert!(KEYS.iter().all(|key| !said.contains(key)), "{said}");
    let console = cloud.world.console(&first.id);
    assert!(console.contains("aws spot terminate"), "the notice was heard: {console}");
    let result = fs::read_to_string(second.folder.join("job/work/result.json")).unwrap();
    assert_eq!(result, undisturbed(&trainer), "an interruption changes nothing");
    let logs = run(&cloud, home.path(), &["logs", "life"]).stdout;
    assert!(logs.starts_with("train: from step 0 of ") && logs.matches("train: from step ").count() == 2, "{logs}");

    assert!(cloud.world.up().is_empty(), "nothing is left: {:?}", cloud.world.up());
    let found = run(&cloud, home.path(), &["gc", "--cloud", "aws", "--output", "json"]);
    assert_eq!(
        (found.code, found.json()["found"].as_array().map(Vec::len)),
        (0, Some(0)),
        "{}{}",
        found.stdout,
        found.stderr
    );
    let status: Value = run(&cloud, home.path(), &["status", "life", "--output", "json"]).json();
    let row = (status["runs"][0]["state"].as_str(), status["runs"][0]["relaunches"].as_u64());
    assert_eq!(row, (Some("completed"), Some(1)), "{status:#}");
}

/// Waits until the cloud is so.
pub fn comes<T>(cloud: &CloudBox, what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let consoles = || cloud.world.machines().iter().map(|seen| cloud.world.console(&seen.id)).collect::<Vec<_>>();
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", consoles());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Nobody leads: the fleet starts the next machine, and the last machine ends the fleet.
#[test]
fn a_fleet_keeps_a_run_alive_that_nobody_leads() {
    let Some(cloud) = CloudBox::start("a_fleet_keeps_a_run_alive_that_nobody_leads", Vec::new()) else { return };
    cloud.make_bucket("runs");
    let (home, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", sha256(program));
    let trainer = job.path().join("train.py");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), &trainer).unwrap();
    let launch = |name: &str, command: &str| {
        let kept =
            ["--keep-alive", "fleet", "--detach", "--accept-stale-prices", "-y", "--run", name, "--lifetime", "10h"];
        let sent = ["--store", "s3://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
        let words = [&["launch"], &QUESTION[..], &kept, &sent, &["--", "sh", "-c", command]].concat();
        let launched = run(&cloud, home.path(), &words);
        assert_eq!((launched.code, launched.stdout), (0, format!("{name}\n")), "{}", launched.stderr);
        launched.stderr
    };
    let told = launch("kept", &format!("{HOLD}; exec ./train.py $hold"));
    assert!(told.contains("by an EC2 Fleet of one") && told.contains("keeps kept alive until"), "{told}");
    let first = comes(&cloud, "a machine", || cloud.world.up().into_iter().next());
    comes(&cloud, "a safe checkpoint", || (!cloud.keys("runs", "team/runs/kept/manifests/").is_empty()).then_some(()));
    let gc = |home: &Path, more: &[&str]| {
        run(&cloud, home, &[&["gc", "--cloud", "aws", "--output", "json"], more].concat()).json()
    };
    assert_eq!(gc(home.path(), &[])["found"], serde_json::json!([]), "a machine that a fleet started is no stranger");
    cloud.world.take(&first.id, Duration::ZERO);
    comes(&cloud, "the end of the fleet", || (cloud.world.fleets.active() == 0).then_some(()));
    let second = cloud.world.machines().into_iter().find(|seen| seen.id != first.id).unwrap();
    assert!(cloud.world.up().is_empty(), "{}", cloud.world.console(&second.id));
    let watched = run(&cloud, home.path(), &["watch", "kept"]);
    assert_eq!((watched.code, watched.stdout.as_str()), (0, "kept: completed\n"), "{}", watched.stderr);
    let result = fs::read_to_string(second.folder.join("job/work/result.json")).unwrap();
    assert_eq!(result, undisturbed(&trainer), "an interruption changes nothing");
    let status = run(&cloud, home.path(), &["status", "kept", "--output", "json"]).json();
    assert_eq!(
        (status["runs"][0]["state"].as_str(), status["runs"][0]["relaunches"].as_u64()),
        (Some("completed"), Some(1)),
        "{status:#}"
    );
    assert!(status["runs"][0]["cost_usd"].as_str().is_some_and(|cost| cost != "0"), "{status:#}");
    what_machines_asked_is_allowed(&cloud);

    let forever = "exec ./train.py --hold-at 60";
    launch("stopped", forever);
    comes(&cloud, "a machine", || cloud.world.up().into_iter().next());
    let stopped = run(&cloud, home.path(), &["stop", "stopped"]);
    assert_eq!(
        (stopped.code, cloud.world.fleets.active(), cloud.world.up().len()),
        (0, 0, 0),
        "{}{}",
        stopped.stdout,
        stopped.stderr
    );

    launch("lost", forever);
    let machine = comes(&cloud, "a machine", || cloud.world.up().into_iter().next());
    let another = tempfile::tempdir().unwrap();
    let left = gc(another.path(), &["-y"]);
    assert_eq!((left["found"].as_array().map(Vec::len), left["ended"].as_array().map(Vec::len)), (Some(2), Some(0)));
    assert_eq!(
        (cloud.world.fleets.active(), cloud.world.up().len()),
        (1, 1),
        "another computer's run goes on: {left:#}"
    );
    let found = gc(another.path(), &["-y", "--unknown-runs"]);
    let ids: Vec<&str> = found["ended"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(
        (ids.len(), ids[1]),
        (2, machine.id.as_str()),
        "a group that no journal knows, and its machine: {found:#}"
    );
    assert!(cloud.world.fleets.active() == 0 && cloud.world.up().is_empty());
    assert_eq!(
        cloud.world.fleets.templates(),
        1,
        "that of the run whose machine ended its fleet goes when its time is over"
    );
}

/// What a tag of the machine says.
fn tag(call: &Call, key: &str) -> Option<String> {
    let name = |number: usize, part: &str| format!("TagSpecification.1.Tag.{number}.{part}");
    let number = (1..)
        .map_while(|number| Some((number, call.parameter(&name(number, "Key"))?)))
        .find(|(_, known)| known == key)?
        .0;
    call.parameter(&name(number, "Value"))
}

/// `--leader aws` until the machine leads: which it is, as whom it acts, what it is given; and that nothing is rented for the run from here. Machines
/// ask moto without the box, which has no image for them, so that it rents nothing either.
#[test]
fn a_machine_with_a_role_of_its_own_leads_a_run_on_aws() {
    let Some(cloud) = CloudBox::start("a_machine_with_a_role_of_its_own_leads_a_run_on_aws", Vec::new()) else {
        return;
    };
    cloud.make_bucket("runs");
    assert!(cloud.iam("CreateInstanceProfile", "&InstanceProfileName=gpuplan-leader").contains("InstanceProfileId"));
    let (home, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", sha256(program));
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), job.path().join("train.py")).unwrap();
    let led = ["--leader", "aws", "--accept-stale-prices", "-y", "--run", "led", "--budget", "400"];
    let sent = ["--store", "s3://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
    let words = [&["launch"], &QUESTION[..], &led, &sent, &["--", "./train.py"]].concat();
    let said = home.path().join("said");
    let log = fs::File::create(&said).unwrap();
    let mut here = gpuplan(&cloud, home.path(), &words).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let machine = wait_for("the machine that leads", &mut here, &said, || cloud.world.up().into_iter().next());
    assert_eq!((machine.market, machine.region.as_str()), (Market::OnDemand, "us-east-1"));
    let asked: Vec<_> = cloud.calls().into_iter().filter(|call| call.action == "RunInstances").collect();
    let [order] = asked.as_slice() else { panic!("one machine is ordered from here: {asked:?}") };
    for (parameter, expected) in [
        ("IamInstanceProfile.Name", Some("gpuplan-leader")),
        ("InstanceType", Some("t3.small")),
        ("InstanceMarketOptions.MarketType", None),
        ("InstanceInitiatedShutdownBehavior", Some("terminate")),
        ("MetadataOptions.HttpTokens", Some("required")),
    ] {
        assert_eq!(order.parameter(parameter).as_deref(), expected, "{parameter}");
    }
    assert_eq!(tag(order, "gpuplan:run").as_deref(), Some("led-leader"));
    assert!(
        tag(order, "gpuplan:expires").is_some()
            && tag(order, "gpuplan:owner").is_some_and(|owner| owner.starts_with("arn:aws:"))
    );
    let boot = fs::read_to_string(machine.folder.join("boot.sh")).unwrap();
    for part in ["./gpuplan take-over led --store s3://runs/team -y", "./gpuplan watch led", "shutdown -P +"] {
        assert!(boot.contains(part), "{part}: {boot}");
    }
    // A link to its files names the key that signed it, and no more.
    assert!(!boot.contains(KEYS[1]) && !boot.contains("AWS_SECRET"), "its rights are those of its role");
    // Its program, and what it has to know of the run, are there before it starts.
    assert_eq!(cloud.keys("runs", "team/runs/led-leader/workdir/").len(), 1);
    assert_eq!(cloud.keys("runs", "team/runs/led/spec.json").len(), 1);
    // It takes the run over with the keys of its role, and whoever launched may go.
    let begun = Instant::now();
    let ended = loop {
        match here.try_wait().unwrap() {
            Some(ended) => break ended,
            None => assert!(begun.elapsed() < PATIENCE, "{}", cloud.world.console(&machine.id)),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let (said, console) = (fs::read_to_string(&said).unwrap(), cloud.world.console(&machine.id));
    assert!(ended.success() && said.contains("led is led by a machine of its own"), "{said}\n{console}");
    assert!(console.contains("led: adopted, 0 machines are there"), "{console}");
    assert_eq!(cloud.keys("runs", "team/runs/led/lead/").len(), 1);
    let stopped = run(&cloud, home.path(), &["stop", "led", "--at-once"]);
    assert_eq!(stopped.code, 0, "{}{}", stopped.stdout, stopped.stderr);
    assert!(cloud.world.up().is_empty(), "the machine that leads goes with its run: {:?}", cloud.world.up());
    let found = run(&cloud, home.path(), &["gc", "--cloud", "aws", "--output", "json"]);
    assert_eq!(found.json()["found"], serde_json::json!([]), "{}{}", found.stdout, found.stderr);
}

/// What a run finds of the one before it on its machine.
const LOOK: &str = "test -e left.txt && echo 'a file of another run'; test -n \"$LEFT\" && echo 'a variable of another run'; \
     grep -slzx LEFT=warm-one /proc/[0-9]*/environ; echo looked";

/// No order, no boot: the machine of a completed run serves the next one, and ends with that.
#[test]
fn the_next_launch_takes_a_machine_over_on_aws() {
    let Some(cloud) = CloudBox::start("the_next_launch_takes_a_machine_over_on_aws", Vec::new()) else { return };
    cloud.make_bucket("runs");
    let (home, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = env!("CARGO_BIN_EXE_gpuplan");
    let agent = format!("{program}#sha256={}", sha256(program));
    let trainer = job.path().join("train.py");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py"), &trainer).unwrap();
    let launch = |name: &str, more: &[&str], command: &str| {
        let sent = ["--store", "s3://runs/team", "--agent", &agent, "--workdir", job.path().to_str().unwrap()];
        let named = ["--accept-stale-prices", "-y", "--run", name];
        let words = [&["launch"], &QUESTION[..], &named, &sent, more, &["--", "sh", "-c", command]].concat();
        let ran = run(&cloud, home.path(), &words);
        let consoles = || cloud.world.machines().iter().map(|seen| cloud.world.console(&seen.id)).collect::<Vec<_>>();
        let expected = (0, format!("{name}: completed\n"));
        assert_eq!((ran.code, ran.stdout), expected, "{}\n{:?}", ran.stderr, consoles());
        ran.stderr
    };
    let kept = ["--keep-warm", "20m", "--env", "LEFT=warm-one"];
    let said = launch("one", &kept, "echo left >left.txt; sleep 1000 & exec ./train.py");
    assert!(said.contains("stays for the next launch") && said.contains("which one pays for"), "{said}");
    let [machine] = &cloud.world.up()[..] else { panic!("one machine waits: {:?}", cloud.world.up()) };
    let status = run(&cloud, home.path(), &["status", "one", "--output", "json"]).json();
    let row = &status["runs"][0];
    assert_eq!((&row["state"], &row["machines"][0]["state"]), (&"completed".into(), &"running".into()), "{status:#}");
    let found = run(&cloud, home.path(), &["gc", "--cloud", "aws", "--output", "json"]);
    assert_eq!(found.json()["found"], serde_json::json!([]), "it is no stray: {}{}", found.stdout, found.stderr);
    let schedule = format!("gpuplan-{}", machine.id);
    let is_scheduled = cloud.schedule(&schedule).is_some();

    let said = launch("two", &[], &format!("{LOOK}; exec ./train.py"));
    assert!(said.contains(&format!("{} of one is taken over: nothing is rented", machine.id)), "{said}");
    let rented = cloud.calls().iter().filter(|call| call.action == "RunInstances").count();
    assert_eq!((rented, cloud.world.machines().len()), (1, 1), "one machine served both");
    let console = cloud.world.console(&machine.id);
    assert!(
        console.contains("the next run has this machine") && console.matches("train: from step 0 of ").count() == 2
    );
    let logs = run(&cloud, home.path(), &["logs", "two"]).stdout;
    assert!(logs.starts_with("looked\ntrain: from step 0 of "), "nothing of the run before is found: {logs}");
    let result = fs::read_to_string(machine.folder.join("job/work/result.json")).unwrap();
    assert_eq!(result, undisturbed(&trainer));
    assert!(cloud.world.up().is_empty(), "it goes with the run that has it");
    assert!(is_scheduled && cloud.schedule(&schedule).is_none(), "so does the schedule that would have ended it");
    let moved: Vec<_> = cloud.calls().into_iter().filter(|call| call.action == "UpdateSchedule").collect();
    let [moved] = moved.as_slice() else {
        panic!("it is moved once, to the end of the run that has the machine: {moved:?}")
    };
    assert!(moved.body.contains(&machine.id), "{}", moved.body);
    let found = run(&cloud, home.path(), &["gc", "--cloud", "aws", "--output", "json"]);
    assert_eq!(found.json()["found"], serde_json::json!([]), "{}{}", found.stdout, found.stderr);
    // What is kept of the first run said whose its machine was, and may go now.
    assert_eq!(run(&cloud, home.path(), &["delete", "one", "-y"]).code, 0);
}

/// The role of machines in `setup.tf` against what their boot scripts asked of AWS.
fn what_machines_asked_is_allowed(cloud: &CloudBox) {
    let role = gpuplan::clouds::aws::SETUP.split_once("\"aws_iam_role_policy\" \"machine\"").unwrap().1;
    let role = role.split_once("\n}\n").unwrap().0;
    let asked = cloud.world.fleets.asked_by_machines();
    for (words, action) in [
        ("s3 cp ", "s3:GetObject"),
        ("ec2 describe-tags ", "ec2:DescribeTags"),
        ("ec2 delete-fleets ", "ec2:DeleteFleets"),
    ] {
        assert!(asked.iter().any(|call| call.starts_with(words)), "{words}: {asked:?}");
        assert!(role.contains(&format!("\"{action}\"")), "{action}");
    }
    assert!(asked.iter().all(|call| ["s3 cp ", "ec2 d"].iter().any(|known| call.starts_with(known))), "{asked:?}");
}
