//! How fast and in how much memory a large checkpoint is sent, against a plain copy in parts that hashes nothing. By hand:
//! `cargo test --release --no-default-features --test tests -- --ignored --nocapture agent::speed`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{ClientOptions, MultipartUpload, ObjectStore, ObjectStoreExt};
use tokio::task::JoinSet;

use crate::agent::bench::Bench;
use crate::agent::s3::{environment, make_bucket};
use gpuplan_testbed::moto::Moto;

const MIB: usize = 1 << 20;
const PART: usize = 8 * MIB;
const PARTS_AT_ONCE: usize = 8;
const PAIRS: usize = 7;
/// moto takes ten times as long.
const PAIRS_ON_MOTO: usize = 3;

/// Takes objects and forgets them: as fast as a store can be. Only the newest status is kept.
fn forgetful(status: Arc<Mutex<Vec<u8>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let status = status.clone();
            thread::spawn(move || serve(client, &status));
        }
    });
    endpoint
}

fn serve(client: TcpStream, status: &Mutex<Vec<u8>>) {
    let mut from = BufReader::with_capacity(MIB, client.try_clone().unwrap());
    let mut to = client;
    let mut block = vec![0; MIB];
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if from.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let first = line.clone();
        while line != "\r\n" {
            line.clear();
            from.read_line(&mut line).unwrap();
            if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
        }
        while length > 0 {
            let piece = length.min(MIB);
            from.read_exact(&mut block[..piece]).unwrap();
            length -= piece;
            if first.contains("/status/") {
                block[..piece].clone_into(&mut status.lock().unwrap());
            }
        }
        let (code, body) = match first.split_once(' ').unwrap() {
            ("POST", rest) if rest.contains("uploads") => {
                ("200 OK", "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            }
            ("POST", _) => (
                "200 OK",
                "<CompleteMultipartUploadResult><ETag>\"e\"</ETag><Location>l</Location></CompleteMultipartUploadResult>",
            ),
            ("PUT", _) => ("200 OK", ""),
            ("GET", rest) if rest.contains("list-type") => ("200 OK", "<ListBucketResult></ListBucketResult>"),
            _ => ("404 Not Found", ""),
        };
        let head = format!("HTTP/1.1 {code}\r\nETag: \"e\"\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        to.write_all(head.as_bytes()).unwrap();
    }
}

fn s3(endpoint: &str, bucket: &str) -> Box<dyn ObjectStore> {
    gpuplan::runstore::store::install_tls();
    let store = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_bucket_name(bucket)
        .with_region("us-east-1")
        .with_unsigned_payload(true);
    let store = store.with_access_key_id("test").with_secret_access_key("test");
    Box::new(store.with_client_options(ClientOptions::new().with_allow_http(true)).build().unwrap())
}

/// The same client, part size and parallelism, without hashing.
async fn copy(store: &dyn ObjectStore, from: &Path) -> Duration {
    let begun = Instant::now();
    let mut file = fs::File::open(from).unwrap();
    let mut upload = store.put_multipart(&Location::from("plain")).await.unwrap();
    let mut under_way: JoinSet<object_store::Result<()>> = JoinSet::new();
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let mut block = Vec::with_capacity(PART);
            (&mut file).take(PART as u64).read_to_end(&mut block).unwrap();
            (file, block)
        });
        let block;
        (file, block) = read.await.unwrap();
        if block.is_empty() {
            break;
        }
        if under_way.len() >= PARTS_AT_ONCE {
            under_way.join_next().await.unwrap().unwrap().unwrap();
        }
        under_way.spawn(upload.put_part(block.into()));
    }
    while let Some(done) = under_way.join_next().await {
        done.unwrap().unwrap();
    }
    upload.complete().await.unwrap();
    begun.elapsed()
}

/// MB/s as the agent measured it, hashing and flushing included, and its largest resident memory in MiB.
fn ship(bench: &Bench, number: usize, from: &Path, status: &dyn Fn() -> Vec<u8>) -> (f64, f64) {
    let folder = format!("run-{number}");
    let script = "mkdir -p checkpoints/step-1; ln $FILE checkpoints/step-1/weights; touch checkpoints/step-1/.complete; sleep 600";
    let mut agent = bench.start(&folder, &[], &["sh", "-c", &script.replace("$FILE", &from.display().to_string())]);
    agent.wait_until_safe(1);
    thread::sleep(Duration::from_millis(500));
    let said: serde_json::Value = serde_json::from_slice(&status()).unwrap();
    let table = fs::read_to_string(format!("/proc/{}/status", agent.pid())).unwrap();
    let peak: f64 = table
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    agent.signal("TERM");
    agent.ends_with(75);
    let _ = fs::remove_dir_all(bench.path("store/runs"));
    (said["upload_bytes_per_second"].as_f64().unwrap() / 1e6, peak / 1024.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(
    (what, pairs): (&str, usize),
    bench: &Bench,
    large: &Path,
    store: &dyn Fn() -> Box<dyn ObjectStore>,
    status: &dyn Fn() -> Vec<u8>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bytes = fs::metadata(large).unwrap().len() as f64;
    let (mut copies, mut ships, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..pairs {
        copies.push(bytes / 1e6 / runtime.block_on(copy(&*store(), large)).as_secs_f64());
        // What the copy left is not written to the disk in the other's time.
        assert!(std::process::Command::new("sync").status().unwrap().success());
        let (rate, peak) = ship(bench, number, large, status);
        ships.push(rate);
        peaks.push(peak);
        assert!(std::process::Command::new("sync").status().unwrap().success());
    }
    let (plain, agent, peak) = (median(copies.clone()), median(ships.clone()), median(peaks));
    let share = 100.0 * agent / plain;
    let line = format!(
        "{what}: plain {plain:.0} MB/s {copies:.0?}, agent {agent:.0} MB/s {ships:.0?}: {share:.0} %, {peak:.0} MiB\n"
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(peak < 150.0, "{peak:.0} MiB");
}

fn large(bench: &Bench) -> std::path::PathBuf {
    let path = bench.path("large");
    let mut file = fs::File::create(&path).unwrap();
    let mut state = 1_u64;
    let block: Vec<u8> = (0..MIB)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for _ in 0..2048 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    path
}

#[test]
#[ignore = "takes minutes and measures"]
fn speed_of_a_large_checkpoint() {
    let bench = Bench::new();
    let file = large(&bench);
    let folder = bench.path("plain");
    fs::create_dir_all(&folder).unwrap();
    let plain =
        || -> Box<dyn ObjectStore> { Box::new(LocalFileSystem::new_with_prefix(&folder).unwrap().with_fsync(true)) };
    measure(("folder", PAIRS), &bench, &file, &plain, &|| fs::read(bench.path("store/runs/t/status/0.json")).unwrap());
    let status = Arc::new(Mutex::new(Vec::new()));
    let endpoint = forgetful(status.clone());
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "t"),
        ("AWS_SECRET_ACCESS_KEY", "t"),
        ("AWS_REGION", "us-east-1"),
    ];
    let bench = Bench::at("s3://b/p", &environment);
    let file = large(&bench);
    measure(("loopback", PAIRS), &bench, &file, &|| s3(&endpoint, "b"), &|| status.lock().unwrap().clone());
}

/// A store that does something with what it gets.
#[test]
#[ignore = "takes minutes and measures"]
fn speed_of_a_large_checkpoint_on_moto() {
    let Some(moto) = Moto::start("speed_of_a_large_checkpoint_on_moto") else { return };
    make_bucket(&moto.address, "speed");
    let endpoint = format!("http://{}", moto.address);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let root = Bench::new();
    let file = large(&root);
    // Each pair in a place of its own: to restore what the last one sent would take longer than to send it.
    for number in 0..PAIRS_ON_MOTO {
        let bench = Bench::at(&format!("s3://speed/p{number}"), &environment(&endpoint));
        let status = || {
            let path = Location::from(format!("p{number}/runs/t/status/0.json"));
            let store = s3(&endpoint, "speed");
            runtime.block_on(async { store.get(&path).await.unwrap().bytes().await.unwrap().to_vec() })
        };
        measure(("moto", 1), &bench, &file, &|| s3(&endpoint, "speed"), &status);
    }
}
