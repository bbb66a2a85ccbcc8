//! The same lives on Azure Blob Storage, as azurite plays it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ring::hmac;

use crate::agent::bench::{Agent, Bench, TRAINER, kill_programs, undisturbed};

const WANTED: &str = "azurite@3.37.0";
/// The account and key that every emulator has (Azurite README, "Default Storage Account").
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

struct Azurite {
    server: Child,
    address: String,
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Azurite {
    fn start(test: &str) -> Option<Self> {
        let started = installed().and_then(|folder| serve(&folder));
        let say =
            |why| drop(writeln!(std::io::stderr(), "\nWAIVED {test}: it needs azurite, which cannot run here: {why}"));
        started.map_err(say).ok()
    }
}

/// From the registry of the machine's own npm, once, into the target folder.
fn installed() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("azurite");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let ready = folder.join("ready");
    if !ready.exists() {
        let _ = writeln!(std::io::stderr(), "\ninstalling azurite into the target folder, once; this takes a minute");
        let mut install = Command::new("npm");
        install
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&folder)
            .arg(WANTED)
            .stdin(Stdio::null());
        let output = install.output().map_err(|error| format!("npm: {error}"))?;
        if !output.status.success() {
            return Err(format!("npm: {}", String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()));
        }
        fs::write(ready, "").map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

/// It takes a free port itself and says which: one that was free a moment ago may be another test's by then.
fn serve(folder: &Path) -> Result<Azurite, String> {
    let mut command = Command::new(folder.join("node_modules/.bin/azurite-blob"));
    command
        .args(["--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck", "--blobHost", "127.0.0.1"])
        .args(["--blobPort", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let server = command.spawn().map_err(|error| error.to_string())?;
    let mut azurite = Azurite { server, address: String::new() };
    let mut said = BufReader::new(azurite.server.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    azurite.address = said
        .find_map(|line| Some(line.split_once("listens on http://")?.1.to_owned()))
        .ok_or("it ended before it listened")?;
    // It writes a line for each request: somebody has to read them.
    std::thread::spawn(move || said.for_each(drop));
    Ok(azurite)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn from_base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let bits: Vec<bool> = digits.flat_map(|digit| (0..6).rev().map(move |bit| digit >> bit & 1 == 1)).collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | u8::from(*bit))).collect()
}

fn base64(bytes: &[u8]) -> String {
    let group = |three: &[u8]| {
        let value = (0..3).fold(0_usize, |value, at| value << 8 | usize::from(three.get(at).copied().unwrap_or(0)));
        let digit = |at: usize| if at > three.len() { '=' } else { char::from(DIGITS[value >> (18 - 6 * at) & 63]) };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// Signed as "Authorize with Shared Key" of the Azure Storage documentation says.
fn make_container(address: &str, name: &str) {
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&jiff::Timestamp::now()).unwrap();
    let version = "2021-12-02";
    let named = format!("x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container");
    let text = format!("PUT\n\n\n\n\n\n\n\n\n\n\n\n{named}");
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &from_base64(KEY)), text.as_bytes());
    let signed = format!("SharedKey {ACCOUNT}:{}", base64(signature.as_ref()));
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "PUT /{ACCOUNT}/{name}?restype=container HTTP/1.1\r\nHost: {address}\r\nx-ms-date: {date}\r\nx-ms-version: {version}\r\n\
         Authorization: {signed}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[test]
fn a_run_survives_on_azure() {
    let Some(azurite) = Azurite::start("a_run_survives_on_azure") else { return };
    make_container(&azurite.address, "runs");
    let endpoint = format!("http://{}", azurite.address);
    let environment = [("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_BLOB_STORAGE_URL", endpoint.as_str())];
    let store = format!("az://runs/{}", azurite.address.replace([':', '.'], "-"));
    let bench = Bench::at(&store, &environment);
    let mut first = bench.start("a", &["--machine", "one"], &[TRAINER, "--ballast", "20", "--hold-at", "40"]);
    first.wait_until_safe(20);
    first.kill();
    kill_programs(&store);
    let mut second = bench.start("b", &["--machine", "two"], &[TRAINER, "--hold-at", "60"]);
    second.wait_for("restored step");
    second.wait_for("is safe");
    second.signal("TERM");
    second.ends_with(75);
    let mut third = bench.start("c", &["--machine", "three"], &[TRAINER]);
    third.ends_with(0);
    assert_eq!(third.result(), undisturbed());
    // Create-only holds there, too: of two that start at once one owns the run.
    let go = bench.path("go").display().to_string();
    let script = format!("until [ -e {go} ]; do sleep 0.1; done");
    let mut agents = ["x", "y"].map(|name| bench.start(name, &["--machine", name], &["sh", "-c", &script]));
    while !agents.iter_mut().any(Agent::has_ended) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::write(&go, "").unwrap();
    let mut codes = agents.map(|mut agent| agent.wait().code().unwrap());
    codes.sort_unstable();
    assert_eq!(codes, [0, 76]);
}
