//! A run in folders of its own: starts agents on it, waits for what they do, and compares with a run that nobody disturbed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

pub const TRAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train.py");
/// A wait that only waits: what it waits for comes, unless the agent is wrong. Shorter than an agent ever waits by itself for what does
/// not come.
const PATIENCE: Duration = Duration::from_mins(4);

pub struct Bench {
    root: tempfile::TempDir,
    store: String,
    environment: Vec<(String, String)>,
    heartbeat: &'static str,
}

pub struct Agent {
    child: Child,
    log: PathBuf,
    pub folder: PathBuf,
}

impl Bench {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = format!("file://{}/store", root.path().display());
        Self { root, store, environment: Vec::new(), heartbeat: "0.2s" }
    }

    /// With variables that every agent gets.
    pub fn with(environment: &[(&str, &str)]) -> Self {
        let mut bench = Self::new();
        bench.environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        bench
    }

    /// On a store of that address.
    pub fn at(store: &str, environment: &[(&str, &str)]) -> Self {
        let mut bench = Self::with(environment);
        store.clone_into(&mut bench.store);
        bench
    }

    pub fn heartbeat(&mut self, pace: &'static str) {
        self.heartbeat = pace;
    }

    /// A variable that every agent gets from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Starts an agent in a working folder of that name with its options and the command behind `--`.
    pub fn start(&self, folder: &str, options: &[&str], command: &[&str]) -> Agent {
        let folder = self.path(folder);
        fs::create_dir_all(&folder).unwrap();
        let log = (0..1000).map(|number| self.path(&format!("log-{number}"))).find(|path| !path.exists()).unwrap();
        let out = fs::File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gpuplan"))
            .args([
                "agent",
                "--store",
                &self.store,
                "--run",
                "t",
                "--heartbeat",
                self.heartbeat,
                "--settle",
                "1s",
                "--backoff",
                "0.05s",
            ])
            .args(options)
            .arg("--")
            .args(command)
            .current_dir(&folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        Agent { child, log, folder }
    }

    pub fn objects(&self, kind: &str) -> Vec<PathBuf> {
        let mut found = files(&self.path("store/runs/t").join(kind));
        found.sort();
        found
    }

    /// Newest committed step.
    pub fn committed(&self) -> Option<u64> {
        let names = self.objects("manifests");
        names
            .iter()
            .filter_map(|path| path.file_name()?.to_str()?.strip_prefix("step-")?.split('-').next()?.parse().ok())
            .max()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path("store/runs/t").join(name)).unwrap()).unwrap()
    }

    /// What the program of an epoch said, as the store has it. No chunk is missing.
    pub fn output(&self, epoch: u64, node: u32) -> String {
        let chunks = self.objects(&format!("logs/e{epoch}/{node}"));
        let numbers: Vec<usize> =
            chunks.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
        let unpack = |path: &PathBuf| zstd::decode_all(fs::File::open(path).unwrap()).unwrap();
        String::from_utf8(chunks.iter().flat_map(unpack).collect()).unwrap()
    }

    /// Every file that a manifest names is there and is what was sent. What a kill left half-way to a name is no manifest.
    pub fn assert_whole(&self) {
        let is_named = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
        for path in self.objects("manifests").into_iter().filter(is_named) {
            let manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            for file in manifest["files"].as_array().unwrap() {
                let data = self.path("store/runs/t").join(file["key"].as_str().unwrap());
                let bytes =
                    fs::read(&data).unwrap_or_else(|error| panic!("{} of {}: {error}", data.display(), path.display()));
                assert_eq!(gpuplan::runstore::sha256(&bytes), file["sha256"].as_str().unwrap(), "{}", data.display());
            }
        }
    }
}

impl Agent {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log has the words; the agent must not end before.
    pub fn wait_for(&mut self, words: &str) {
        self.wait_until(words, |log| log.contains(words));
    }

    fn wait_until(&mut self, what: &str, is_there: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_there(&self.log()) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || is_there(&self.log()), "ended with {ended:?} before `{what}`:\n{}", self.log());
            assert!(begun.elapsed() < PATIENCE, "no `{what}` in:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    /// Waits until this agent has committed that step or a later one.
    pub fn wait_until_safe(&mut self, step: u64) {
        self.wait_until(&format!("step {step} safe"), |log| newest_safe(log) >= Some(step));
    }

    /// The newest step that this agent has committed.
    pub fn safe_step(&self) -> Option<u64> {
        newest_safe(&self.log())
    }

    /// Waits until it holds, or the agent has ended.
    pub fn lives_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) && !self.has_ended() {
            assert!(begun.elapsed() < PATIENCE, "nothing happens:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the agent does not end:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub fn ends_with(&mut self, code: i32) {
        let status = self.wait();
        assert_eq!(status.code(), Some(code), "{status:?}\n{}", self.log());
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn result(&self) -> String {
        fs::read_to_string(self.folder.join("result.json")).unwrap_or_else(|error| panic!("{error}:\n{}", self.log()))
    }
}

fn newest_safe(log: &str) -> Option<u64> {
    log.lines().filter_map(|line| line.strip_prefix("gpuplan: step ")?.strip_suffix(" is safe")?.parse().ok()).max()
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Programs of agents that were killed on purpose.
        kill_programs(&self.root.path().display().to_string());
    }
}

/// Kills every program below an agent on that store.
pub fn kill_programs(store: &str) {
    for pid in processes_with(store) {
        signal(pid, "KILL");
    }
}

pub fn signal(pid: i32, name: &str) {
    Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
}

/// Processes below an agent of a bench, by the store in their environment.
pub fn processes_with(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let is_dead = fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
        !is_dead
            && environment
                .split(|byte| *byte == 0)
                .any(|one| one.starts_with(b"GPUPLAN_MARK=") && contains(one, text.as_bytes()))
    };
    entries.filter(has).collect()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// What an undisturbed run of the trainer leaves.
pub fn undisturbed() -> &'static str {
    static RESULT: OnceLock<String> = OnceLock::new();
    RESULT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(TRAINER)
            .args(["--seconds-per-step", "0"])
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        fs::read_to_string(folder.path().join("result.json")).unwrap()
    })
}
