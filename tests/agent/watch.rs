//! What the agent keeps, tells and decides beside the checkpoints: output, messages, stalls, advice, limits, the end of it all.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::agent::bench::{Bench, TRAINER, kill_programs};
use gpuplan_testbed::server::{Reply, Server};

/// Counts in words that compress well, on both streams.
const COUNTING: &str = "i=0; while [ $i -lt COUNT ]; do echo \"line $i of the program\"; i=$((i+1)); PAUSE; done";

fn counting(count: u32, pause: &str) -> String {
    COUNTING.replace("COUNT", &count.to_string()).replace("PAUSE", pause)
}

/// The numbers of the lines, which are all there, once, in order.
fn lines(text: &str) -> usize {
    let numbers: Vec<usize> =
        text.lines().filter_map(|line| line.strip_prefix("line ")?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    numbers.len()
}

/// What the program said: words of the agent, on the same terminal, may stand in the middle of a line of it.
fn passed_on(log: &str) -> String {
    let mut parts = log.split("gpuplan: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + part.split_once('\n').map_or("", |(_, rest)| rest))
}

#[test]
fn output_is_passed_on_and_kept_whole() {
    let bench = Bench::new();
    let script = format!("{}; echo over >&2", counting(30_000, ":"));
    let mut agent = bench.start("a", &[], &["sh", "-c", &script]);
    agent.ends_with(0);
    let log = passed_on(&agent.log());
    assert_eq!(lines(&log), 30_000);
    assert!(log.contains("\nover\n"));
    let kept = bench.output(1, 0);
    assert_eq!(lines(&kept), 30_000);
    assert!(kept.contains("over\n") && bench.objects("logs/e1/0").len() >= 3);
    let stored: u64 = bench.objects("logs/e1/0").iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(stored * 5 < kept.len() as u64, "{stored} bytes of {}", kept.len());
}

/// Killed with its program at any moment: what anybody saw is in the store, once, under the epoch in which it was said.
#[test]
fn output_survives_a_killed_agent() {
    let bench = Bench::new();
    let mut shown = Vec::new();
    for milliseconds in [700, 5600, 1300] {
        let mut agent =
            bench.start("a", &[], &["sh", "-c", &counting(1_000_000, "[ $((i % 50)) != 0 ] || sleep 0.01")]);
        agent.wait_for("line 200 ");
        sleep(Duration::from_millis(milliseconds));
        agent.kill();
        kill_programs(&bench.path("store").display().to_string());
        // The last line may be cut.
        shown.push(agent.log().lines().filter(|line| line.starts_with("line ") && line.ends_with("program")).count());
    }
    bench.start("a", &[], &["echo", "done"]).ends_with(0);
    for (epoch, shown) in (1..).zip(shown) {
        let kept = lines(&bench.output(epoch, 0));
        assert!(kept >= shown && shown > 100, "epoch {epoch}: {kept} of {shown}");
    }
    assert_eq!(bench.output(4, 0), "done\n");
}

#[test]
fn output_is_left_alone_where_the_user_says_so() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &["--no-logs"], &["echo", "hello"]);
    agent.ends_with(0);
    assert!(agent.log().contains("hello\n") && bench.objects("logs").is_empty());
}

fn told(server: &Server) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let bodies = server.asked().into_iter().map(|request| serde_json::from_str::<Value>(&request.body).unwrap());
    bodies.map(|body| (text(&body["event"]), text(&body["text"]))).collect()
}

#[test]
fn people_are_told_of_start_budget_interruption_and_end() {
    let server = Server::start(|_| Reply::Text(200, "text/plain", "ok".to_owned()));
    let bench = Bench::new();
    let hand_off = bench.path("hand-off.json");
    // A dollar a second, billed by the second without a minimum.
    let text = format!(
        r#"{{"version":1,"rate_usd_per_hour":"3600","budget_usd":"5","billing":{{"step_seconds":1,"minimum_seconds":0}},"notify":"{}"}}"#,
        server.endpoint
    );
    fs::write(&hand_off, text).unwrap();
    let mut agent = bench.start("a", &["--hand-off", &hand_off.display().to_string()], &[TRAINER, "--steps", "100000"]);
    agent.ends_with(77);
    let told = told(&server);
    let events: Vec<&str> = told.iter().map(|(event, _)| event.as_str()).collect();
    let count = |event: &str| events.iter().filter(|told| **told == event).count();
    assert_eq!((count("started"), count("interrupted"), count("finished")), (1, 1, 1), "{told:?}");
    // Half of it and four fifths of it are told, unless the machine is so busy that they have passed at the same look.
    assert!((1..=3).contains(&count("budget")), "{told:?}");
    for words in ["100 %", "the budget of $5.00 is spent", "stopped at its budget"] {
        assert!(told.iter().any(|(_, text)| text.contains(words)), "{words}: {told:?}");
    }
    let spent: f64 = bench.json("result.json")["spent_usd"].as_str().unwrap().parse().unwrap();
    assert!(spent >= 5.0, "{spent}");
}

#[test]
fn nobody_to_tell_costs_nothing() {
    let server = Server::start(|_| Reply::Text(500, "text/plain", "secret".to_owned()));
    let bench = Bench::new();
    let mut agent = bench.start("a", &["--notify", &format!("{}/secret-hook", server.endpoint)], &["true"]);
    agent.ends_with(0);
    assert!(!server.asked().is_empty() && !agent.log().contains("secret"), "{}", agent.log());
    let mut refused = bench.start("b", &["--notify", "http://example.com/x"], &["true"]);
    refused.ends_with(2);
}

#[test]
fn a_stalled_program_is_told_and_killed_only_where_the_user_wants_it() {
    let bench = Bench::new();
    // To read from a pipe that nobody writes to is no work of a processor.
    let pipe = bench.path("pipe").display().to_string();
    let mut warned =
        bench.start("a", &["--stall", "1s"], &["sh", "-c", &format!("mkfifo {pipe}; echo ready; read go < {pipe}")]);
    warned.wait_for("warning: no step");
    fs::write(&pipe, "go\n").unwrap();
    warned.ends_with(0);
    assert_eq!(
        warned.log().matches("warning: no step, checkpoint, output or work of a processor for").count(),
        1,
        "{}",
        warned.log()
    );
    let bench = Bench::new();
    let mut killed = bench.start("a", &["--stall", "1s", "--on-stall", "kill"], &["sh", "-c", "echo ready; sleep 600"]);
    killed.ends_with(137);
    assert_eq!(killed.log().matches("ready\n").count(), 2, "a stall is a crash: {}", killed.log());
    let bench = Bench::new();
    let mut stopped = bench.start(
        "a",
        &["--stall", "1s", "--on-stall", "stop"],
        &["sh", "-c", "trap 'echo saved; exit 0' TERM; sleep 600 & wait"],
    );
    stopped.ends_with(77);
    assert!(stopped.log().contains("saved\n"), "it was asked to save: {}", stopped.log());
    let bench = Bench::new();
    let go = bench.path("go").display().to_string();
    let busy = format!("while [ ! -e {go} ]; do :; done");
    let mut busy = bench.start("a", &["--stall", "5s", "--on-stall", "kill"], &["sh", "-c", &busy]);
    // So many heartbeats take longer than a stall.
    let beats = || {
        fs::read(bench.path("store/runs/t/status/0.json"))
            .ok()
            .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
    };
    busy.lives_until(|_| beats().and_then(|status| status["beat"].as_u64()) > Some(40));
    fs::write(&go, "").unwrap();
    busy.ends_with(0);
}

#[test]
fn stopping_is_advised_when_the_metric_costs_more_than_it_is_worth() {
    let bench = Bench::new();
    let go = bench.path("go").display().to_string();
    let script = format!("i=0; while [ ! -e {go} ]; do echo step $i loss: 2.5; i=$((i+1)); sleep 0.1; done");
    let hand_off = bench.path("hand-off.json");
    fs::write(
        &hand_off,
        r#"{"version":1,"rate_usd_per_hour":"3600","billing":{"step_seconds":1,"minimum_seconds":0}}"#,
    )
    .unwrap();
    let options = [
        "--hand-off",
        &hand_off.display().to_string(),
        "--metric",
        r"loss: ([0-9.]+)",
        "--worth",
        "0.01",
        "--stall",
        "4s",
    ];
    let mut agent = bench.start("a", &options, &["sh", "-c", &script]);
    agent.wait_for("advice: the last $");
    fs::write(&go, "").unwrap();
    agent.ends_with(0);
    assert_eq!(agent.log().matches("advice: the last $").count(), 1, "{}", agent.log());
    for (options, why) in [
        (["--metric", "loss", "--worth", "1"].as_slice(), "a group"),
        (&["--metric", "(", "--worth", "1"], "--metric"),
        (&["--metric", "(x)", "--worth", "1"], "--rate"),
        (&["--budget", "5"], "--rate"),
        (&["--node", "2", "--nodes", "2"], "--node 2"),
    ] {
        let mut refused = bench.start("b", options, &["true"]);
        refused.ends_with(2);
        assert!(refused.log().contains(why), "{}", refused.log());
    }
}

#[test]
fn a_hand_off_that_cannot_be_believed_starts_nothing() {
    let bench = Bench::new();
    let file = bench.path("hand-off.json");
    for text in
        ["", r#"{"version":1,"budget_usd":"5"}"#, r#"{"version":1,"rate_usd_per_hour":"0"}"#, r#"{"version":9}"#]
    {
        fs::write(&file, text).unwrap();
        let mut agent = bench.start("a", &["--hand-off", &file.display().to_string()], &["echo", "ran"]);
        agent.ends_with(2);
        assert!(!agent.log().contains("ran\n"));
    }
}

/// AWS charges nothing for a spot instance that it takes in the first hour. A signal of a scheduler is no such thing.
#[test]
fn an_interruption_is_billed_as_the_cloud_bills_it() {
    // An hour at least, which no test takes.
    let rule = r#"{"version":1,"rate_usd_per_hour":"36","billing":{"step_seconds":1,"minimum_seconds":3600,"free_if_interrupted_within_seconds":3600}}"#;
    let server = Server::start(|request| match request.path.as_str() {
        "/latest/api/token" => Reply::Text(200, "text/plain", "t".to_owned()),
        "/latest/meta-data/spot/instance-action" => Reply::Text(
            200,
            "application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT",
            r#"{"action":"terminate","time":"2026-01-01T00:01:40Z"}"#.to_owned(),
        ),
        _ => Reply::Text(404, "text/plain", String::new()),
    });
    for (environment, spent) in
        [(vec![("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint.as_str())], "0.00"), (Vec::new(), "36.00")]
    {
        let bench = Bench::with(&environment);
        let file = bench.path("hand-off.json");
        fs::write(&file, rule).unwrap();
        let mut agent = bench.start("a", &["--hand-off", &file.display().to_string()], &[TRAINER, "--hold-at", "20"]);
        if environment.is_empty() {
            agent.wait_for("train: from");
            agent.signal("TERM");
        }
        agent.ends_with(75);
        let billed = bench.json("billed/e1-0.json");
        assert_eq!(billed["is_interrupted"], !environment.is_empty());
        assert_eq!(bench.json("result.json")["spent_usd"], spent);
    }
}

#[test]
fn the_machine_is_powered_off_whatever_the_outcome() {
    let bench = Bench::new();
    for (number, (command, code)) in [("true", 0), ("exit 3", 3), ("no-such-command-here", 127)].into_iter().enumerate()
    {
        let off = bench.path(&format!("off-{number}"));
        let mut agent = bench.start("a", &["--at-end", &format!("touch {}", off.display())], &["sh", "-c", command]);
        agent.ends_with(code);
        assert!(off.exists());
    }
    let mut failing = bench.start("a", &["--at-end", "false"], &["true"]);
    failing.ends_with(0);
    assert!(failing.log().contains("may go on costing money"), "{}", failing.log());
}

/// Who leaves its session and clears its environment is still below the agent, and in its control group where there is one.
#[test]
fn a_grandchild_that_hides_ends_with_the_program_and_after_a_killed_agent() {
    let hiding = |name: &str| {
        format!("env -i /usr/bin/setsid sh -c 'echo hidden; while :; do sleep 0.2; : {name}; done' & sleep 600")
    };
    let count = |name: &str| {
        let found = std::process::Command::new("sh")
            .args(["-c", &format!("ps ax -o pid=,args= | grep -c '[:] {name}'")])
            .output()
            .unwrap();
        String::from_utf8(found.stdout).unwrap().trim().parse::<u32>().unwrap()
    };
    let unique = std::process::id();
    let (first, second) = (format!("first-{unique}"), format!("second-{unique}"));
    let bench = Bench::new();
    let mut agent = bench.start("a", &["--grace", "1s"], &["sh", "-c", &hiding(&first)]);
    agent.wait_for("hidden");
    assert!(count(&first) >= 1);
    agent.signal("TERM");
    agent.ends_with(75);
    assert_eq!(count(&first), 0);
    let mut agent = bench.start("a", &["--grace", "1s"], &["sh", "-c", &hiding(&second)]);
    agent.wait_for("hidden");
    let group = bench.json("epochs/2")["owner"]["control_group"].clone();
    agent.kill();
    assert!(count(&second) >= 1);
    bench.start("a", &[], &["true"]).ends_with(0);
    let Some(group) = group.as_str() else {
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "\nWAIVED a_grandchild_that_hides (after a killed agent): no control group can be made here"
        );
        let _ = std::process::Command::new("sh")
            .args(["-c", &format!("kill $(ps ax -o pid=,args= | grep '[:] {second}' | awk '{{print $1}}')")])
            .status();
        return;
    };
    assert_eq!(count(&second), 0);
    assert!(!std::path::Path::new(group).exists());
}
