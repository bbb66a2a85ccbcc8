//! Metadata services of three clouds on loopback, well and badly behaved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::agent::bench::{Agent, Bench, TRAINER, undisturbed};
use gpuplan_testbed::server::{Reply, Request, Server};

fn text(status: u16, body: &str) -> Reply {
    Reply::Text(status, "text/plain", body.to_owned())
}

/// A run that is told to leave when `announced` is set ends in time with its last step safe, and can go on.
fn leaves(bench: &Bench, agent: &mut Agent, announced: &AtomicBool, word: &str) {
    agent.wait_until_safe(20);
    announced.store(true, Ordering::SeqCst);
    agent.wait_for(word);
    agent.ends_with(75);
    let mut next = bench.start("next", &["--notices", "none"], &[TRAINER]);
    next.ends_with(0);
    assert_eq!(next.result(), undisturbed());
}

#[test]
fn aws_tokens_are_renewed_and_an_action_is_a_notice() {
    let (announced, tokens) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (told, made) = (announced.clone(), tokens.clone());
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        "/latest/api/token" => text(200, &format!("token-{}", made.fetch_add(1, Ordering::SeqCst))),
        // The first token is revoked at once.
        _ if ["", "token-0"].contains(&request.header("x-aws-ec2-metadata-token")) => text(401, ""),
        "/latest/meta-data/spot/instance-action" if told.load(Ordering::SeqCst) => Reply::Text(
            200,
            "application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT",
            r#"{"action":"terminate","time":"2026-01-01T00:01:40Z"}"#.to_owned(),
        ),
        _ => text(404, ""),
    });
    let bench = Bench::with(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.endpoint)]);
    let mut agent = bench.start("a", &[], &[TRAINER, "--hold-at", "20"]);
    leaves(&bench, &mut agent, &announced, "aws spot terminate: 100 s left");
    assert_eq!(tokens.load(Ordering::SeqCst), 2, "a refused token is replaced once, a good one is kept");
}

/// The time left is the difference of two times of the service, whatever this machine's clock says.
#[test]
fn a_clock_that_is_ten_minutes_wrong_changes_nothing() {
    for (date, time) in [("00:10:00", "00:11:30"), ("23:50:00", "23:51:30")] {
        let server = Server::start(move |request: &Request| match request.path.as_str() {
            "/latest/api/token" => text(200, "t"),
            "/latest/meta-data/spot/instance-action" => {
                // Ten minutes before and after now, each on its own day: only the difference counts.
                let kind: &'static str = if date.starts_with("00") {
                    "application/json\r\nDate: Thu, 01 Jan 2026 00:10:00 GMT"
                } else {
                    "application/json\r\nDate: Thu, 01 Jan 2026 23:50:00 GMT"
                };
                Reply::Text(200, kind, format!(r#"{{"action":"terminate","time":"2026-01-01T{time}Z"}}"#))
            }
            _ => text(404, ""),
        });
        let bench = Bench::with(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.endpoint)]);
        let mut agent = bench.start("a", &[], &[TRAINER, "--hold-at", "20"]);
        agent.ends_with(75);
        assert!(agent.log().contains("90 s left"), "{}", agent.log());
    }
}

#[test]
fn a_service_that_misbehaves_costs_a_warning_and_nothing_else() {
    for answer in [|| Reply::Silence, || text(500, ""), || text(401, ""), || text(403, "")] {
        let server = Server::start(move |_: &Request| answer());
        let bench = Bench::with(&[("GPUPLAN_AZURE_METADATA_ENDPOINT", &server.endpoint)]);
        let mut agent = bench.start("a", &[], &[TRAINER]);
        agent.ends_with(0);
        assert_eq!(agent.result(), undisturbed());
        assert!(!server.asked().is_empty());
    }
}

#[test]
fn aws_advice_does_not_stop_the_program() {
    let server = Server::start(|request: &Request| match request.path.as_str() {
        "/latest/api/token" => text(200, "t"),
        "/latest/meta-data/events/recommendations/rebalance" => text(200, r#"{"noticeTime":"2026-01-01T00:00:00Z"}"#),
        _ => text(404, ""),
    });
    let bench = Bench::with(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.endpoint)]);
    let mut agent = bench.start("a", &[], &[TRAINER, "--hold-at", "60"]);
    agent.wait_for("the machine is at risk");
    agent.wait_until_safe(60);
    assert!(!agent.has_ended() && !agent.log().contains("interrupted"), "{}", agent.log());
}

#[test]
fn google_says_preempted_once_and_for_all() {
    let announced = Arc::new(AtomicBool::new(false));
    let told = announced.clone();
    let server = Server::start(move |request: &Request| {
        if request.header("metadata-flavor") != "Google" {
            return text(403, "");
        }
        if request.path.contains("wait_for_change") {
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until && !told.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        match request.path.split('?').next().unwrap() {
            "/computeMetadata/v1/instance/preempted" => {
                text(200, if told.load(Ordering::SeqCst) { "TRUE" } else { "FALSE" })
            }
            _ => text(200, "NONE"),
        }
    });
    let host = server.endpoint.trim_start_matches("http://").to_owned();
    let bench = Bench::with(&[("GCE_METADATA_HOST", &host)]);
    let mut agent = bench.start("a", &[], &[TRAINER, "--hold-at", "20"]);
    leaves(&bench, &mut agent, &announced, "gcp preemption: 30 s left");
}

#[test]
fn azure_events_of_other_machines_are_none_and_the_own_is_acknowledged_at_the_end() {
    let announced = Arc::new(AtomicBool::new(false));
    let told = announced.clone();
    let server = Server::start(move |request: &Request| {
        let event = |id: &str, vm: &str| {
            format!(
                r#"{{"EventId":"{id}","EventType":"Preempt","Resources":["{vm}"],"NotBefore":"Thu, 01 Jan 2026 00:00:40 GMT"}}"#
            )
        };
        match request.path.split('?').next().unwrap() {
            _ if request.header("metadata") != "true" => text(400, ""),
            "/metadata/instance/compute/name" => text(200, "vm-1"),
            "/metadata/scheduledevents" if request.body.is_empty() => {
                let own = if told.load(Ordering::SeqCst) { format!(",{}", event("B", "vm-1")) } else { String::new() };
                Reply::Text(
                    200,
                    "application/json\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT",
                    format!(r#"{{"DocumentIncarnation":1,"Events":[{}{own}]}}"#, event("A", "vm-2")),
                )
            }
            _ => text(200, ""),
        }
    });
    let bench = Bench::with(&[("GPUPLAN_AZURE_METADATA_ENDPOINT", &server.endpoint)]);
    let mut agent = bench.start("a", &[], &[TRAINER, "--hold-at", "20"]);
    leaves(&bench, &mut agent, &announced, "azure preempt: 40 s left");
    let acknowledged: Vec<_> =
        server.asked().into_iter().filter(|request| !request.body.is_empty()).map(|request| request.body).collect();
    assert_eq!(acknowledged, [r#"{"StartRequests":[{"EventId":"B"}]}"#]);
}

#[test]
fn a_file_is_a_notice() {
    let bench = Bench::new();
    let file = bench.path("leave");
    let mut agent = bench.start("a", &["--notice-from", &file.display().to_string()], &[TRAINER, "--hold-at", "20"]);
    agent.wait_until_safe(20);
    std::fs::write(&file, "").unwrap();
    agent.ends_with(75);
}

/// The interpreter has not come to install its handler yet: it dies by the signal, and that is an interruption.
#[test]
fn a_notice_while_the_program_still_starts_is_an_interruption() {
    let bench = Bench::new();
    let mut agent = bench.start("a", &[], &["sh", "-c", "echo importing; exec sleep 60"]);
    agent.wait_for("importing");
    agent.signal("TERM");
    agent.ends_with(75);
}

/// Schedulers repeat themselves. A program that counts its signals is asked once.
#[test]
fn a_second_signal_is_not_passed_on() {
    let bench = Bench::new();
    let script =
        "n=0; trap 'n=$((n+1)); echo asked $n' TERM; echo ready; while [ $n -lt 2 ]; do sleep 0.1; done; exit 9";
    let mut agent = bench.start("a", &["--grace", "3s"], &["sh", "-c", script]);
    agent.wait_for("ready");
    agent.signal("TERM");
    agent.wait_for("asked 1");
    agent.signal("TERM");
    agent.signal("INT");
    agent.ends_with(75);
    assert!(!agent.log().contains("asked 2"), "{}", agent.log());
}
