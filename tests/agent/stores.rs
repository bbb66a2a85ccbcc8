//! Killed at every request to the store, and stores that refuse: nothing that was safe is lost, nothing torn is restored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::agent::bench::{Bench, TRAINER, kill_programs, undisturbed};
use crate::agent::bucket::{Asked, Bucket, Fate, Objects};

const QUICK: [&str; 3] = [TRAINER, "--seconds-per-step", "0"];

/// By a name of its own: what runs on the same store of the same name on this machine is taken for the former owner's.
fn store(bucket: &Bucket) -> String {
    format!("s3://bucket-{}/team", bucket.endpoint.rsplit(':').next().unwrap())
}

fn bench(bucket: &Bucket) -> Bench {
    let mut bench = Bench::at(&store(bucket), &bucket.environment());
    // Requests are counted, and heartbeats come when they like.
    bench.heartbeat("30s");
    bench
}

/// The newest step with a manifest.
fn committed(objects: &Objects) -> Option<u64> {
    let steps = objects
        .keys()
        .filter_map(|key| key.strip_prefix("team/runs/t/manifests/step-")?.split('-').next()?.parse().ok());
    steps.max()
}

/// A run that was interrupted when its second checkpoint was safe: all that follows begins here.
fn begun() -> Objects {
    let bucket = Bucket::start(Objects::new(), |_| Fate::Done);
    let bench = bench(&bucket);
    let mut agent = bench.start("a", &["--keep-last", "1"], &[TRAINER, "--hold-at", "60"]);
    agent.wait_until_safe(60);
    agent.signal("TERM");
    agent.ends_with(75);
    bucket.objects()
}

/// Kills agent and program at the request of that number, before or after the store has done it. False if there are not so many.
fn killed_at(number: usize, fate: Fate, objects: &Objects) -> bool {
    let (count, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (seen, told) = (count.clone(), reached.clone());
    let bucket = Bucket::start(objects.clone(), move |_| {
        if seen.fetch_add(1, Ordering::SeqCst) < number {
            return Fate::Done;
        }
        // What follows does not happen any more.
        let is_first = !told.swap(true, Ordering::SeqCst);
        if is_first { fate } else { Fate::Lost }
    });
    let bench_of_one = bench(&bucket);
    let mut agent = bench_of_one.start("b", &["--keep-last", "1"], &QUICK);
    while !reached.load(Ordering::SeqCst) && !agent.has_ended() {
        sleep(Duration::from_millis(2));
    }
    let was_reached = reached.load(Ordering::SeqCst);
    sleep(Duration::from_millis(20));
    agent.kill();
    kill_programs(&store(&bucket));
    let left = bucket.objects();
    let safe = committed(&left);
    assert!(safe >= committed(objects), "request {number} {fate:?}: {safe:?}");
    let after = Bucket::start(left, |_| Fate::Done);
    let bench_of_next = bench(&after);
    let mut next = bench_of_next.start("c", &["--force"], &QUICK);
    next.ends_with(0);
    assert_eq!(next.result(), undisturbed(), "request {number} {fate:?}");
    let log = next.log();
    assert!(
        !log.contains("is not used") && log.contains(&format!("restored step {}", safe.unwrap())),
        "request {number} {fate:?}: {log}"
    );
    was_reached
}

#[test]
fn killed_at_any_request_of_restore_upload_and_prune_the_next_goes_on() {
    let objects = begun();
    let mut number = 0;
    while killed_at(number, if number % 2 == 0 { Fate::Lost } else { Fate::AnswerLost }, &objects) {
        number += 1;
    }
    assert!(number > 15, "{number} requests");
}

/// Both halves of every request; the test above takes them in turn.
#[test]
#[ignore = "takes a minute"]
fn killed_at_any_request_of_restore_upload_and_prune_the_next_goes_on_thoroughly() {
    let objects = begun();
    for fate in [Fate::Lost, Fate::AnswerLost] {
        let mut number = 0;
        while killed_at(number, fate, &objects) {
            number += 1;
        }
    }
}

fn is_data(asked: &Asked) -> bool {
    ["PUT", "POST"].contains(&asked.method.as_str()) && asked.path.contains("/data/")
}

#[test]
fn a_store_that_refuses_for_a_while_is_tried_again() {
    for fate in [
        Fate::Refused(503, "SlowDown"),
        Fate::Refused(409, "ConditionalRequestConflict"),
        Fate::Refused(403, "RequestTimeTooSkewed"),
        Fate::Refused(400, "ExpiredToken"),
        Fate::Slow(Duration::from_millis(700)),
    ] {
        let count = AtomicUsize::new(0);
        let bucket = Bucket::start(Objects::new(), move |asked| {
            let is_commit =
                asked.method == "PUT" && (asked.path.contains("/manifests/") || asked.path.contains("/data/"));
            if is_commit && count.fetch_add(1, Ordering::SeqCst) < 3 { fate } else { Fate::Done }
        });
        let bench = bench(&bucket);
        let mut agent = bench.start("a", &[], &[TRAINER]);
        agent.ends_with(0);
        assert_eq!((agent.result().as_str(), committed(&bucket.objects())), (undisturbed(), Some(120)), "{fate:?}");
    }
}

/// A number that is taken at the very moment is looked at again: who has it decides, not who asked.
#[test]
fn a_claim_that_is_refused_is_looked_at_again() {
    let is_refused = AtomicBool::new(false);
    let bucket = Bucket::start(Objects::new(), move |asked| {
        let is_claim = asked.method == "PUT" && asked.path.contains("/epochs/");
        if is_claim && !is_refused.swap(true, Ordering::SeqCst) {
            Fate::Refused(412, "PreconditionFailed")
        } else {
            Fate::Done
        }
    });
    let bench = bench(&bucket);
    let mut agent = bench.start("a", &[], &QUICK);
    agent.ends_with(0);
    assert!(agent.log().contains("epoch 1"), "{}", agent.log());
}

/// Credentials that run out while the program trains cost no training; what could not be sent is said, and the run is not done.
#[test]
fn with_credentials_that_stay_expired_the_program_goes_on_and_the_end_is_honest() {
    let bucket =
        Bucket::start(
            Objects::new(),
            |asked| if is_data(asked) { Fate::Refused(403, "ExpiredToken") } else { Fate::Done },
        );
    let bench = bench(&bucket);
    let mut agent = bench.start("a", &["--grace", "4s"], &[TRAINER, "--steps", "100000"]);
    agent.wait_for("checkpoint not sent yet");
    agent.signal("TERM");
    agent.ends_with(75);
    assert!(
        agent.log().contains("could not be uploaded in time") && agent.log().contains("train: interrupted"),
        "{}",
        agent.log()
    );
    assert_eq!(committed(&bucket.objects()), None);
    let result: serde_json::Value = serde_json::from_slice(&bucket.objects()["team/runs/t/result.json"]).unwrap();
    assert_eq!((result["synced"].as_bool(), result["outcome"].as_str()), (Some(false), Some("interrupted")));
}

/// Each checkpoint is deleted long before it is sent, and all the same one after the other becomes safe.
#[test]
fn a_program_that_deletes_faster_than_the_store_takes_loses_nothing() {
    let bucket =
        Bucket::start(
            Objects::new(),
            |asked| if is_data(asked) { Fate::Slow(Duration::from_millis(700)) } else { Fate::Done },
        );
    let bench = bench(&bucket);
    let mut agent = bench.start("a", &[], &[TRAINER, "--steps", "100000", "--keep", "1"]);
    agent.wait_until_safe(1);
    let first = committed(&bucket.objects()).unwrap();
    agent.wait_until_safe(first + 1);
    agent.signal("TERM");
    agent.ends_with(75);
    assert!(!agent.log().contains("warning"), "{}", agent.log());
}
