//! A feed of prices from one installation to another: published from a cloud that runs here, served on this machine, believed by its signature.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use gpuplan::hardware::Hardware;
use gpuplan::market::Offer;
use gpuplan::market::feed::{Feed, PublicKey, SigningKey};
use gpuplan::units::UsdPerHour;
use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use crate::cli::support::Ran;
use gpuplan_testbed::fake_gce::FakeGce;
use gpuplan_testbed::gcp_project::project;

/// What is served, and how often it was asked for and sent.
#[derive(Default)]
struct Served {
    file: Vec<u8>,
    asked: usize,
    sent: usize,
}

/// Serves a file with an ETag by its length.
fn serve(served: Arc<Mutex<Served>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/prices.feed", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut asked, mut piece) = (String::new(), [0; 4096]);
            while !asked.contains("\r\n\r\n") {
                let length = stream.read(&mut piece).unwrap();
                assert!(length > 0, "a question that breaks off: {asked}");
                asked.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
            let mut served = served.lock().unwrap();
            served.asked += 1;
            let etag = format!("\"{}\"", served.file.len());
            if asked.contains(&etag) {
                let head = "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                continue;
            }
            served.sent += 1;
            let head = format!(
                "HTTP/1.1 200 OK\r\nETag: {etag}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                served.file.len()
            );
            stream.write_all(&[head.as_bytes(), &served.file].concat()).unwrap();
        }
    });
    address
}

fn run(home: &Path, endpoint: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuplan"));
    command.args(arguments).env_clear().env("COLUMNS", "120").stdin(Stdio::null());
    command.env("GPUPLAN_HOME", home).env("HOME", home).env("GOOGLE_CLOUD_PROJECT", "some-project");
    let output = command.env("GPUPLAN_GCP_ENDPOINT", endpoint).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}

/// Whether the machine that only the feed prices in its zone is there, and what was said beside it.
fn has_the_news(home: &Path, now: Timestamp, more: &[&str]) -> (bool, String) {
    let now = now.to_string();
    let question = ["prices", "B200:8", "--cloud", "gcp", "--region", "us-central1-c", "--output=json", "--now", &now];
    let ran = run(home, "http://127.0.0.1:9", &[&question, more].concat());
    if ran.code == 2 && ran.stderr.contains("the name of a zone, of which no price is known") {
        return (false, ran.stderr);
    }
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let offers: Vec<Value> = ran.json()["offers"].as_array().unwrap().clone();
    (offers.iter().any(|offer| offer["instance_type"] == "a4-highgpu-8g" && offer["source"] == "gcp-skus"), ran.stderr)
}

#[test]
fn a_feed_is_published_fetched_once_a_day_and_believed_by_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let home = |name: &str| {
        let home = folder.path().join(name);
        fs::create_dir_all(&home).unwrap();
        home
    };
    let (publisher, reader) = (home("publisher"), home("reader"));
    let key = publisher.join("feed.key");
    fs::write(&key, Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref()).unwrap();
    let fake = FakeGce::start(project);
    let (key, file) = (key.to_str().unwrap(), publisher.join("prices.feed"));
    let command = ["catalog", "publish", file.to_str().unwrap(), "--key", key];
    let nothing = run(&publisher, &fake.endpoint, &command);
    assert!(nothing.code != 0 && nothing.stderr.contains("gpuplan refresh"), "{}", nothing.stderr);
    assert_eq!(run(&publisher, &fake.endpoint, &["refresh", "--cloud", "gcp"]).code, 0);
    let sent = run(&publisher, &fake.endpoint, &command);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let public = sent.stdout.trim().rsplit(' ').next().unwrap().to_owned();

    let served = Arc::new(Mutex::new(Served { file: fs::read(&file).unwrap(), ..Served::default() }));
    let (address, today) = (serve(served.clone()), Timestamp::now());
    assert!(!has_the_news(&reader, today, &[]).0, "without feed.toml nobody is asked");
    let stranger = "00".repeat(32);
    fs::write(reader.join("feed.toml"), format!("url = \"{address}\"\nkeys = [\"{stranger}\", \"{public}\"]\n"))
        .unwrap();
    assert!(
        !has_the_news(&reader, today, &["--offline"]).0 && served.lock().unwrap().asked == 0,
        "offline means offline"
    );
    for _ in 0..2 {
        let (is_there, said) = has_the_news(&reader, today, &[]);
        assert!(is_there, "{said}");
    }
    assert_eq!(served.lock().unwrap().asked, 1, "once a day");
    let day = |days: i64| today + SignedDuration::from_hours(25 * days);
    assert!(has_the_news(&reader, day(1), &[]).0);
    let counts = |served: &Mutex<Served>| {
        let served = served.lock().unwrap();
        (served.asked, served.sent)
    };
    assert_eq!(counts(&served), (2, 1), "it has not changed since");
    let mut tampered = fs::read(&file).unwrap();
    tampered.push(0);
    served.lock().unwrap().file = tampered;
    let (is_there, said) = has_the_news(&reader, day(2), &[]);
    assert!(is_there && said.contains("signed by none of the keys"), "{said}");
    fs::write(reader.join("feed.toml"), format!("url = \"{address}\"\nkeys = [\"{stranger}\"]\n")).unwrap();
    assert!(!has_the_news(&reader, day(3), &[]).0, "what is kept is believed by the keys of today only");

    let changes = publisher.join("changes.json");
    let again = [&command[..], &["--before", file.to_str().unwrap(), "--changes", changes.to_str().unwrap()]].concat();
    let again = run(&publisher, &fake.endpoint, &again);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let changes: Value = serde_json::from_str(&fs::read_to_string(&changes).unwrap()).unwrap();
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(0), "nothing moved: {changes:#}");
}

/// The same prices as they were some months before, a tenth lower each month, signed by another key.
fn months_before(months: i32, file: &[u8], public: &str, signer: &SigningKey, today: Timestamp) -> Vec<u8> {
    let feed = Feed::open(file, &[PublicKey::parse(public).unwrap()], None, today).unwrap();
    let mut hardware = Hardware::embedded().unwrap();
    let lists = feed.lists().unwrap();
    for (cloud, list) in &lists {
        list.clone().teach(cloud, &mut hardware);
    }
    let mut offers = feed.offers(&hardware).unwrap();
    for offer in &mut offers {
        let rate = offer.quote.rate.nanos() as f64 * 0.9_f64.powi(months);
        offer.quote.rate = UsdPerHour::from_nanos(rate as i64);
        offer.quote.observed_at -= MONTH * months;
    }
    let offers: Vec<&Offer> = offers.iter().collect();
    Feed::new(&offers, &lists, Vec::new(), &hardware, today - MONTH * months).unwrap().signed(signer).unwrap()
}

const MONTH: SignedDuration = SignedDuration::from_hours(30 * 24);

#[test]
fn a_feed_says_how_far_prices_moved_and_its_days_are_history() {
    let folder = tempfile::tempdir().unwrap();
    let home = |name: &str| {
        let home = folder.path().join(name);
        fs::create_dir_all(&home).unwrap();
        home
    };
    let (publisher, reader, today) = (home("publisher"), home("reader"), Timestamp::now());
    let pair = |name: &str| {
        let (path, bytes) = (publisher.join(name), Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap());
        fs::write(&path, bytes.as_ref()).unwrap();
        (path.display().to_string(), SigningKey::from_pkcs8(bytes.as_ref()).unwrap())
    };
    let ((key, new), (_, old)) = (pair("new.key"), pair("old.key"));
    let (new_public, old_public) = (new.public().hex(), old.public().hex());
    let fake = FakeGce::start(project);
    let file = |name: &str| publisher.join(name).display().to_string();
    assert_eq!(run(&publisher, &fake.endpoint, &["refresh", "--cloud", "gcp"]).code, 0);
    let publish = |more: &[&str]| {
        let command = ["catalog", "publish", &file("tonight.feed"), "--key", &key];
        run(&publisher, &fake.endpoint, &[&command[..], more].concat())
    };
    assert_eq!(publish(&[]).code, 0);
    let tonight = || fs::read(file("tonight.feed")).unwrap();
    let earlier = [1, 2, 3].map(|months| {
        let name = file(&format!("{months}.feed"));
        fs::write(&name, months_before(months, &tonight(), &new_public, &old, today)).unwrap();
        name
    });
    let archive: Vec<&str> = std::iter::once("--earlier").chain(earlier.iter().map(String::as_str)).collect();
    let refused = publish(&archive);
    assert!(refused.code == 2 && refused.stderr.contains("--old-key"), "{}", refused.stderr);
    let sent = publish(&[&archive[..], &["--old-key", &old_public]].concat());
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(sent.stdout.contains("gcp spot: +11.1 % a month, ±0.0 %, 0.0 % gone ("), "{}", sent.stdout);
    let feed = Feed::open(&tonight(), &[new.public()], None, Timestamp::now()).unwrap();
    let spot = feed.drift().iter().find(|row| row.is_spot).unwrap();
    assert!((spot.growth + 0.9_f64.ln()).abs() < 1e-3 && (spot.months - 3.0).abs() < 0.01, "{spot:?}");

    let served = Arc::new(Mutex::new(Served { file: fs::read(&earlier[0]).unwrap(), ..Served::default() }));
    let address = serve(served.clone());
    let settings = format!("url = \"{address}\"\nkeys = [\"{new_public}\", \"{old_public}\"]\n");
    fs::write(reader.join("feed.toml"), settings).unwrap();
    let ask = |now: Timestamp, question: &[&str]| {
        let more = ["--cloud", "gcp", "--region", "us-central1", "--output=json", "--now", &now.to_string()];
        run(&reader, "http://127.0.0.1:9", &[&["prices"], question, &more].concat())
    };
    let early = ask(today - MONTH + SignedDuration::from_hours(1), &["--spot"]);
    assert_eq!(early.code, 0, "{}", early.stderr);
    served.lock().unwrap().file = tonight();
    let later = today + SignedDuration::from_hours(1);
    let history = ask(later, &["--history"]);
    assert_eq!(history.code, 0, "{}", history.stderr);
    let pools = history.json()["pools"].as_array().unwrap().clone();
    let rose = |pool: &Value| pool["change_7_days"].as_f64().is_some_and(|change| (change - 1.0 / 9.0).abs() < 1e-6);
    assert!(!pools.is_empty() && pools.iter().any(rose), "{pools:#?}");
    let since = ask(later, &["--on-demand", "--since", "7d"]);
    assert_eq!(since.code, 0, "{}", since.stderr);
    let changes = since.json()["changes"].as_array().unwrap().clone();
    let rises: Vec<&Value> = changes.iter().filter(|change| !change["rise"].is_null()).collect();
    assert!(!rises.is_empty(), "{changes:#?}");
    for change in rises {
        assert!((change["rise"].as_f64().unwrap() - 1.0 / 9.0).abs() < 1e-3, "{change}");
    }
}

/// The script of the scheduled workflow, two nights.
#[test]
fn a_night_s_prices_are_published_beside_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let (home, feeds, key) = (folder.path().join("home"), folder.path().join("feeds"), folder.path().join("feed.key"));
    fs::create_dir_all(&home).unwrap();
    let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    fs::write(&key, pair.as_ref()).unwrap();
    let fake = FakeGce::start(project);
    let night = || {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/feed"));
        command.arg(env!("CARGO_BIN_EXE_gpuplan")).arg(&key).arg(&feeds).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("FEED_CLOUDS", "gcp");
        command.env("GPUPLAN_HOME", &home).env("HOME", &home).env("GOOGLE_CLOUD_PROJECT", "some-project");
        let output = command.env("GPUPLAN_GCP_ENDPOINT", &fake.endpoint).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    night();
    assert!(feeds.join("prices.feed").exists() && !feeds.join("changes.json").exists());
    night();
    let changes: Value = serde_json::from_str(&fs::read_to_string(feeds.join("changes.json")).unwrap()).unwrap();
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(0), "{changes:#}");
    let archive = fs::read_dir(feeds.join("archive")).unwrap().count();
    assert!((1..=2).contains(&archive), "one a day, and midnight may have passed: {archive}");
    let public = SigningKey::from_pkcs8(pair.as_ref()).unwrap().public();
    let file = fs::read(feeds.join("prices.feed")).unwrap();
    assert!(!Feed::open(&file, &[public], None, Timestamp::now()).unwrap().lists().unwrap().is_empty());
}
