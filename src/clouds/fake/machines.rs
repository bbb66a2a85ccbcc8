//! `FakeCloud`: creates, lists and ends machines that are process trees on this machine. Its state is a file, so it outlives us.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::fake::scenario::{CAPACITY, Scenario};
use gpuplan_launch::{
    CreateRequest, LaunchError, Launcher, Machine, MachineId, MachineState, Market, Pool, Role, SelfDestruct,
};
use gpuplan_market::BoxFuture;
use gpuplan_runstore::{private, sha256};
use gpuplan_units::UsdPerHour;

/// Name of the launcher.
pub const CLOUD: &str = "fake";
/// Of the names of its machines.
const PREFIX: &str = "fake-";
/// As EC2 says it.
const TAKEN: &str = "Server.SpotInstanceTermination";
/// Every process of a machine carries its folder in its environment. Two clouds in two folders may have machines of one name.
const MARK: &str = "GPUPLAN_MACHINE_FOLDER";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    machine: Machine,
    pid: i32,
    /// It leads a run, and no scenario is played with it.
    #[serde(default)]
    leads: bool,
    /// When it is taken away, and when that is said.
    taken_at: Option<Timestamp>,
    noticed_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    scenario: Scenario,
    orders: usize,
    /// The start of the course.
    #[serde(default)]
    began_at: Timestamp,
    machines: Vec<Kept>,
    /// Every token that was ever used, with what it was used for: EC2 remembers it for a day after the machine is gone.
    #[serde(default)]
    tokens: BTreeMap<String, Asked>,
}

impl State {
    /// Seconds since the start of the course.
    fn age(&self) -> f64 {
        Timestamp::now().duration_since(self.began_at).as_secs_f64()
    }

    fn has_spot(&self) -> bool {
        self.scenario.has_spot(self.age())
    }
}

/// What a token stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    sha256: String,
    /// As it was created; it may be gone.
    machine: Machine,
}

/// A cloud in a folder.
#[derive(Clone, Debug)]
pub struct FakeCloud {
    folder: PathBuf,
    /// As a launcher sends them: a call that is repeated is the same, even where its boot script was made anew.
    orders: Arc<Mutex<BTreeMap<String, String>>>,
}

impl FakeCloud {
    pub fn at(folder: &Path) -> Self {
        Self { folder: real(folder), orders: Arc::default() }
    }

    /// Another course of events for the orders to come.
    pub fn plays(&self, scenario: &Scenario) -> io::Result<()> {
        self.with(|state| {
            (state.scenario, state.orders, state.began_at) = (scenario.clone(), 0, Timestamp::now());
            // Interruptions count the machines of this course alone.
            state.machines.retain(|kept| kept.machine.state != MachineState::Gone);
        })
    }

    /// Where a machine keeps its files.
    pub fn folder_of(&self, machine: &MachineId) -> PathBuf {
        self.folder.join("machines").join(&machine.0)
    }

    /// Reads the state under a lock, lets time do its work, changes it and writes it again.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        // Boot scripts have the variables of jobs.
        private::folder(&self.folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.folder.join("state.lock"))?;
        lock.lock()?;
        let file = self.folder.join("state.json");
        let mut state: State = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(error),
        };
        let (now, has_spot) = (Timestamp::now(), state.has_spot());
        for kept in state.machines.iter_mut().filter(|kept| kept.machine.state != MachineState::Gone) {
            if !has_spot && kept.machine.pool.market == Market::Spot {
                kept.taken_at = Some(kept.taken_at.map_or(now, |at| at.min(now)));
            }
            self.pass_time(kept);
        }
        let answer = change(&mut state);
        let text = serde_json::to_string(&state).map_err(io::Error::other)?;
        // In one step: whoever is killed here forgets no machine.
        let whole = self.folder.join("state.json.new");
        fs::write(&whole, text)?;
        fs::rename(&whole, &file)?;
        Ok(answer)
    }

    /// The change is made at once; to hear of it takes as long as the scenario says.
    fn answer<T: Send + 'static>(&self, change: impl FnOnce(&mut State) -> T) -> BoxFuture<'static, io::Result<T>> {
        let changed = self.with(|state| (change(state), state.scenario.latency_seconds));
        Box::pin(async move {
            let (answer, seconds) = changed?;
            if seconds > 0.0 {
                tokio::time::sleep(Duration::try_from_secs_f64(seconds).map_err(io::Error::other)?).await;
            }
            Ok(answer)
        })
    }

    /// What is sent for the token of a request: what the first call with it sent.
    fn sent(&self, request: &CreateRequest) -> String {
        let CreateRequest { pool, boot, expires_at, .. } = request;
        let sha256 = sha256(format!("{pool} {expires_at} {boot}"));
        self.orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(request.token.clone())
            .or_insert(sha256)
            .clone()
    }

    fn pass_time(&self, kept: &mut Kept) {
        let now = Timestamp::now();
        if kept.noticed_at.is_some_and(|at| now >= at) {
            // A notice that cannot be written is one that was not given.
            let _ = fs::write(self.folder_of(&kept.machine.id).join("notice"), "terminate\n");
            kept.noticed_at = None;
        }
        let reason = if kept.taken_at.is_some_and(|at| now >= at) {
            TAKEN
        } else if now >= kept.machine.expires_at {
            "the machine ended itself at the end of its life"
        } else if !is_marked(kept.pid, &self.folder_of(&kept.machine.id)) {
            "the machine ended itself"
        } else {
            return;
        };
        end(&self.folder_of(&kept.machine.id));
        kept.machine.was_taken = reason == TAKEN;
        (kept.machine.state, kept.machine.reason) = (MachineState::Gone, Some(reason.to_owned()));
    }

    fn make(&self, request: &CreateRequest, state: &mut State) -> io::Result<Machine> {
        let created_at = Timestamp::now();
        let id = MachineId(format!("{PREFIX}{}", &request.token[..12.min(request.token.len())]));
        let folder = self.folder_of(&id);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("boot.sh"), &request.boot)?;
        let log = File::create(folder.join("console.log"))?;
        let keep = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
        let mut child = Command::new("/bin/sh")
            .arg("boot.sh")
            .current_dir(&folder)
            .env_clear()
            .envs(["PATH", "HOME", "LANG", "TMPDIR"].into_iter().filter_map(keep))
            .env("GPUPLAN_END_MACHINE", "kill -9 0")
            .env(MARK, &folder)
            .env("GPUPLAN_SECRETS", self.folder.join("secrets"))
            .env(
                "GPUPLAN_AGENT_OPTIONS",
                format!("--notice-from ../notice --notices none --heartbeat 1s --settle 1s --address 127.0.0.1 --machine {id}"),
            )
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        // A process that is only just becoming the shell has no environment yet, as one that has ended.
        while !is_marked(child.id() as i32, &folder) && child.try_wait()?.is_none() {
            std::thread::yield_now();
        }
        let machine = Machine {
            id,
            run: request.run.clone(),
            epoch: request.epoch,
            node: request.node,
            token: request.token.clone(),
            pool: request.pool.clone(),
            state: MachineState::Running,
            reason: None,
            was_taken: false,
            created_at,
            expires_at: request.expires_at,
            owner: String::new(),
        };
        let after = |seconds: f64| created_at.checked_add(SignedDuration::from_millis((seconds * 1000.0) as i64)).ok();
        // No cloud takes back what was sold on demand to lead a run.
        let others = state.machines.iter().filter(|kept| !kept.leads).count();
        let taken = state.scenario.interrupt_after_seconds.get(others).copied().filter(|_| request.role == Role::Work);
        let notice = state.scenario.notice_seconds;
        state.machines.push(Kept {
            machine: machine.clone(),
            pid: child.id() as i32,
            leads: request.role == Role::Lead,
            taken_at: taken.and_then(|seconds| after(seconds + notice)),
            noticed_at: taken.filter(|_| notice > 0.0).and_then(after),
        });
        Ok(machine)
    }
}

impl Launcher for FakeCloud {
    fn cloud(&self) -> &str {
        CLOUD
    }

    fn create(&self, request: CreateRequest) -> BoxFuture<'_, Result<Machine, LaunchError>> {
        let unclear = |error: io::Error| LaunchError::Unclear { code: error.to_string() };
        let sha256 = self.sent(&request);
        let created = self.answer(|state| {
            if let Some(asked) = state.tokens.get(&request.token) {
                if asked.sha256 != sha256 {
                    let detail = "the token was used for another request".to_owned();
                    return Err(LaunchError::Request { code: "IdempotentParameterMismatch".to_owned(), detail });
                }
                let kept = state.machines.iter().find(|kept| kept.machine.token == request.token);
                return Ok(kept.map_or_else(|| asked.machine.clone(), |kept| kept.machine.clone()));
            }
            if request.pool.market == Market::Spot && !state.has_spot() {
                state.orders += 1;
                return Err(LaunchError::Capacity { code: CAPACITY.to_owned() });
            }
            let refusal = if request.role == Role::Work {
                state.orders += 1;
                state.scenario.refusal(state.orders - 1)
            } else {
                None
            };
            match refusal {
                Some(error) => Err(error),
                None => {
                    let machine = self.make(&request, state).map_err(unclear)?;
                    state.tokens.insert(request.token.clone(), Asked { sha256, machine: machine.clone() });
                    Ok(machine)
                }
            }
        });
        Box::pin(async move { created.await.map_err(unclear)? })
    }

    fn list<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Machine>, LaunchError>> {
        let listed = self.answer(|state| -> Vec<Machine> {
            let late = SignedDuration::from_millis((state.scenario.list_late_seconds * 1000.0) as i64);
            let now = Timestamp::now();
            let wanted = state
                .machines
                .iter()
                .filter(|kept| now.duration_since(kept.machine.created_at) >= late)
                .map(|kept| &kept.machine)
                .filter(|machine| run.is_none_or(|run| machine.run == run));
            wanted.cloned().collect()
        });
        Box::pin(async move { listed.await.map_err(|error| LaunchError::Unclear { code: error.to_string() }) })
    }

    fn destroy<'a>(&'a self, machine: &'a MachineId) -> BoxFuture<'a, Result<(), LaunchError>> {
        let destroyed = self.answer(|state| {
            for kept in state
                .machines
                .iter_mut()
                .filter(|kept| kept.machine.id == *machine && kept.machine.state != MachineState::Gone)
            {
                end(&self.folder_of(machine));
                (kept.machine.state, kept.machine.reason) =
                    (MachineState::Gone, Some("Client.UserInitiatedShutdown".to_owned()));
            }
        });
        Box::pin(async move { destroyed.await.map_err(|error| LaunchError::Unclear { code: error.to_string() }) })
    }

    fn spot_prices<'a>(
        &'a self,
        places: &'a [(Pool, Vec<String>)],
    ) -> BoxFuture<'a, Result<Vec<Option<UsdPerHour>>, LaunchError>> {
        let said = self.answer(|state| state.scenario.spot_price(state.age()));
        Box::pin(async move {
            let price = said.await.map_err(|error| LaunchError::Unclear { code: error.to_string() })?;
            Ok(vec![price; places.len()])
        })
    }

    /// Whoever uses this machine.
    fn owner(&self) -> BoxFuture<'_, Result<String, LaunchError>> {
        Box::pin(std::future::ready(Ok(String::new())))
    }

    /// It is this machine.
    fn time(&self) -> Option<Timestamp> {
        Some(Timestamp::now())
    }

    fn self_destruct(&self) -> Option<SelfDestruct> {
        Some(SelfDestruct::Timer)
    }
}

/// One cloud has one name, however it is reached: its machines are known by it. The folder itself may not be there yet.
fn real(folder: &Path) -> PathBuf {
    let above = || Some(fs::canonicalize(folder.parent()?).ok()?.join(folder.file_name()?));
    fs::canonicalize(folder).ok().or_else(above).unwrap_or_else(|| folder.to_owned())
}

/// Whether a machine is one of this cloud's.
pub fn is_own(machine: &MachineId) -> bool {
    machine.0.starts_with(PREFIX)
}

/// Whether the process lives and belongs to the machine. A dead one that nobody has asked after has no environment.
fn is_marked(pid: i32, folder: &Path) -> bool {
    let mark = [MARK.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat();
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark))
}

/// Ends every process of the machine, those that left its group too, until there is none.
fn end(folder: &Path) {
    for _ in 0..10 {
        let Ok(entries) = fs::read_dir("/proc") else { return };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let marked: Vec<i32> = pids.filter(|pid| is_marked(*pid, folder)).collect();
        if marked.is_empty() {
            return;
        }
        for pid in marked.into_iter().filter_map(Pid::from_raw) {
            // Gone already is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    use gpuplan_launch::{Access, Pool};

    fn request(token: &str) -> CreateRequest {
        let pool = Pool {
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            zone_id: None,
            instance_type: "p5.4xlarge".to_owned(),
            market: Market::Spot,
        };
        CreateRequest {
            run: "r".to_owned(),
            epoch: 1,
            node: 0,
            nodes: 1,
            pool,
            token: token.to_owned(),
            name: "r-1-0".to_owned(),
            expires_at: Timestamp::MAX,
            boot: "exec sleep 600".to_owned(),
            image: None,
            disk_gib: 1,
            tags: Vec::new(),
            most: None,
            zones: Vec::new(),
            reservation: None,
            role: Role::Work,
            access: Access::default(),
        }
    }

    #[test]
    fn whoever_is_killed_while_it_writes_forgets_no_machine() {
        let folder = tempfile::tempdir().unwrap();
        let (cloud, file) = (FakeCloud::at(folder.path()), folder.path().join("state.json"));
        let made = cloud.create(request("one")).now_or_never().unwrap().unwrap();
        // What a reader finds at any moment is what would be left if the writer died then.
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..500 {
                    cloud.list(None).now_or_never().unwrap().unwrap();
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let left: State = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                assert_eq!(left.machines.len(), 1);
            }
        });
        cloud.destroy(&made.id).now_or_never().unwrap().unwrap();
    }

    #[test]
    fn machines_of_one_name_in_two_clouds_end_alone() {
        let request = request("of both");
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let clouds = folders.each_ref().map(|folder| FakeCloud::at(folder.path()));
        let ask = |cloud: &FakeCloud| cloud.list(None).now_or_never().unwrap().unwrap()[0].state;
        for cloud in &clouds {
            cloud.create(request.clone()).now_or_never().unwrap().unwrap();
        }
        clouds[0].destroy(&MachineId("fake-of both".to_owned())).now_or_never().unwrap().unwrap();
        assert_eq!((ask(&clouds[0]), ask(&clouds[1])), (MachineState::Gone, MachineState::Running));
        clouds[1].destroy(&MachineId("fake-of both".to_owned())).now_or_never().unwrap().unwrap();
        assert_eq!(ask(&clouds[1]), MachineState::Gone);
        // As EC2, it remembers the token of what is gone, and of a course that is over.
        clouds[0].plays(&Scenario::default()).unwrap();
        let again = |expires_at| {
            let request = CreateRequest { expires_at, ..request.clone() };
            FakeCloud::at(folders[0].path()).create(request).now_or_never().unwrap()
        };
        assert_eq!(again(Timestamp::MAX).unwrap().token, "of both");
        let refused = again(Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(
            matches!(refused, LaunchError::Request { ref code, .. } if code == "IdempotentParameterMismatch"),
            "{refused}"
        );
    }
}
