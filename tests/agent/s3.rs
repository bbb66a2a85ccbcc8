//! The same lives on S3, as moto plays it, and on one that fails now and then.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::agent::bench::{Bench, TRAINER, kill_programs, undisturbed};
use gpuplan_testbed::moto::Moto;

pub fn environment(endpoint: &str) -> [(&'static str, &str); 4] {
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
    ]
}

/// moto wants a signature in form only.
pub fn make_bucket(address: &str, name: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x";
    let head = format!(
        "PUT /{name} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {signed}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_run_survives_on_s3() {
    let Some(moto) = Moto::start("a_run_survives_on_s3") else { return };
    make_bucket(&moto.address, "runs");
    let endpoint = format!("http://{}", moto.address);
    let bench = Bench::at("s3://runs/team/a", &environment(&endpoint));
    let mut first = bench.start("a", &["--machine", "one"], &[TRAINER, "--ballast", "20", "--hold-at", "40"]);
    first.wait_until_safe(20);
    first.kill();
    kill_programs("s3://runs/team/a");
    let mut second = bench.start("b", &["--machine", "two"], &[TRAINER, "--hold-at", "60"]);
    second.wait_for("restored step");
    second.wait_for("is safe");
    second.signal("TERM");
    second.ends_with(75);
    let mut third = bench.start("c", &["--machine", "three"], &[TRAINER]);
    third.ends_with(0);
    assert_eq!(third.result(), undisturbed());
}

/// Passes bytes on to S3, and answers every so-many-th connection with an error of its own.
fn unreliable(upstream: String, every: usize, answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let upstream = upstream.clone();
            thread::spawn(move || {
                if number % every == every - 1 {
                    let mut head = vec![0; 65536];
                    let _ = client.read(&mut head);
                    let _ = client.write_all(
                        format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
                    );
                    return;
                }
                let Ok(server) = TcpStream::connect(upstream) else { return };
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let mut server = server;
                let _ = std::io::copy(&mut server, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn a_store_that_fails_now_and_then_loses_nothing() {
    let Some(moto) = Moto::start("a_store_that_fails_now_and_then") else { return };
    make_bucket(&moto.address, "runs");
    for answer in ["503 Slow Down", "500 Internal Server Error"] {
        let endpoint = format!("http://{}", unreliable(moto.address.clone(), 3, answer));
        let store = format!("s3://runs/{}", &answer[..3]);
        let bench = Bench::at(&store, &environment(&endpoint));
        let mut first = bench.start("a", &["--machine", "one"], &[TRAINER, "--hold-at", "60"]);
        first.wait_for("is safe");
        first.signal("TERM");
        first.ends_with(75);
        let mut second = bench.start("b", &["--machine", "two"], &[TRAINER]);
        second.ends_with(0);
        assert!(second.log().contains("restored step"), "{}", second.log());
        assert_eq!(second.result(), undisturbed());
    }
}
