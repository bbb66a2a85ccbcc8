//! Machines of a cloud in a box: each a process tree in a folder and, where permitted, a network of its own, with its metadata service.

use crate::executable::executable;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gpuplan_launch::Market;
use jiff::{SignedDuration, Timestamp};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::{Reply, Request, Server};

/// Every process of a machine carries it in its environment.
const MARK: &str = "GPUPLAN_BOX_MACHINE";
const LINK_LOCAL: &str = "169.254.169.254:80";
/// A cold Python on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_mins(10);
/// Between two looks whether a machine has shut itself down.
const LOOK: Duration = Duration::from_millis(30);
pub const TAKEN: &str = "Server.SpotInstanceTermination";
/// `shutdown -P now` or `shutdown -P +MINUTES`, which goes on in the background as the real one does.
const SHUT_DOWN_PROGRAM: &str = r#"#!/bin/sh
mark=$(dirname "$0")/../shut-down
for when; do :; done
case ${when:-now} in
  +*) (sleep $((${when#+} * 60)); : >"$mark") >/dev/null 2>&1 & ;;
  *) : >"$mark" ;;
esac
"#;
/// Stands in for the AWS command line, as far as boot scripts use it: what was asked is kept, and the box does it.
const AWS_PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")/..
echo "$*" >>"$here/aws-calls"
case "$1 $2" in
  "s3 cp")
    signed="AWS4-HMAC-SHA256 Credential=box/20260101/$AWS_REGION/s3/aws4_request, SignedHeaders=host, Signature=x"
    exec curl -fsS -H "Authorization: $signed" "$AWS_ENDPOINT_URL/${4#s3://}"
    ;;
  "ec2 describe-tags") cat "$here/fleet" ;;
  "ec2 delete-fleets") : >"$here/delete-fleets" ;;
  *) exit 252 ;;
esac
"#;
const SHUT_DOWN: &str = "Client.InstanceInitiatedShutdown";

/// What a machine is started with.
pub struct Start {
    pub id: String,
    pub region: String,
    pub zone_id: String,
    pub market: Market,
    pub group: Option<String>,
    /// That started it.
    pub fleet: Option<String>,
    pub boot: Vec<u8>,
}

struct Kept {
    start: Start,
    folder: PathBuf,
    child: Child,
    notice: Arc<Mutex<Option<Timestamp>>>,
    /// Why it ended; `None` while it is up.
    reason: Option<&'static str>,
}

/// A machine as a test sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: String,
    pub region: String,
    pub zone_id: String,
    pub market: Market,
    pub group: Option<String>,
    pub folder: PathBuf,
    pub reason: Option<&'static str>,
}

impl Seen {
    pub fn is_up(&self) -> bool {
        self.reason.is_none()
    }
}

pub struct Machines {
    folder: tempfile::TempDir,
    python: PathBuf,
    /// Host and port of the store that machines reach.
    store: String,
    kept: Mutex<BTreeMap<String, Kept>>,
    has_said: AtomicBool,
}

impl Machines {
    /// `ended` is told of every machine that shuts itself down.
    pub fn new(python: PathBuf, store: &str, ended: impl Fn(&str, &str) + Send + 'static) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("machine.py"), include_str!("machine.py")).unwrap();
        let machines =
            Self { folder, python, store: store.to_owned(), kept: Mutex::default(), has_said: AtomicBool::new(false) };
        let machines = Arc::new(machines);
        let weak = Arc::downgrade(&machines);
        thread::spawn(move || watch(&weak, &ended));
        machines
    }

    /// Returns when its boot script runs, or somebody has ended the machine before.
    pub fn start(&self, start: Start) {
        let folder = self.folder.path().join(&start.id);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("boot.sh"), &start.boot).unwrap();
        for name in ["shutdown", "poweroff"] {
            executable(&folder.join("bin").join(name), SHUT_DOWN_PROGRAM);
        }
        executable(&folder.join("bin").join("aws"), AWS_PROGRAM);
        fs::write(folder.join("fleet"), start.fleet.as_deref().unwrap_or_default()).unwrap();
        let notice = Arc::new(Mutex::new(None));
        let metadata = metadata(&start, notice.clone());
        let service = metadata.trim_start_matches("http://").to_owned();
        let log = File::create(folder.join("console.log")).unwrap();
        let keep = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let child = Command::new(&self.python)
            .arg(self.folder.path().join("machine.py"))
            .args([format!("{LINK_LOCAL}={service}"), format!("{0}={0}", self.store)])
            .current_dir(&folder)
            .env_clear()
            .envs(["LANG", "TMPDIR"].into_iter().filter_map(keep))
            .envs([("PATH", path.as_str()), (MARK, &start.id), ("HOME", &folder.to_string_lossy())])
            .envs([("AWS_ENDPOINT_URL", format!("http://{}", self.store)), ("AWS_REGION", start.region.clone())])
            // Where there is no network of its own, the standard override leads to the service.
            .envs([("AWS_EC2_METADATA_SERVICE_ENDPOINT", &metadata), ("AWS_METADATA_ENDPOINT", &metadata)])
            // Everything that it writes lies in its own folder, and a short run needs a short pace.
            .env("GPUPLAN_MACHINE_FOLDER", folder.join("job"))
            .env("GPUPLAN_AGENT_OPTIONS", "--heartbeat 1s --settle 1s")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let network = folder.join("network");
        let id = start.id.clone();
        self.kept.lock().unwrap().insert(id.clone(), Kept { start, folder, child, notice, reason: None });
        let begun = Instant::now();
        while !network.exists() {
            if self.kept.lock().unwrap()[&id].reason.is_some() {
                return;
            }
            assert!(begun.elapsed() < STARTS_WITHIN, "machine {id} does not start: {}", self.console(&id));
            thread::sleep(LOOK);
        }
        if fs::read_to_string(network).unwrap() == "shared" && !self.has_said.swap(true, Ordering::SeqCst) {
            let _ = writeln!(
                std::io::stderr(),
                "\ncloud in a box: network namespaces are not permitted here; machines share the loopback"
            );
        }
    }

    /// Kills the tree. What was over already stays over for its own reason.
    pub fn end(&self, id: &str, reason: &'static str) {
        let mut all = self.kept.lock().unwrap();
        let Some(kept) = all.get_mut(id).filter(|kept| kept.reason.is_none()) else { return };
        kill_all(id);
        let _ = kept.child.kill();
        let _ = kept.child.wait();
        kept.reason = Some(reason);
    }

    /// From now on the machine hears that it will be taken; somebody else has to take it.
    pub fn notify(&self, id: &str, taken_in: Duration) {
        let at = Timestamp::now() + SignedDuration::try_from(taken_in).unwrap();
        *self.kept.lock().unwrap()[id].notice.lock().unwrap() = Some(at);
    }

    /// In no order of time.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = |kept: &Kept| Seen {
            id: kept.start.id.clone(),
            region: kept.start.region.clone(),
            zone_id: kept.start.zone_id.clone(),
            market: kept.start.market,
            group: kept.start.group.clone(),
            folder: kept.folder.clone(),
            reason: kept.reason,
        };
        self.kept.lock().unwrap().values().map(seen).collect()
    }

    pub fn console(&self, id: &str) -> String {
        fs::read_to_string(self.folder.path().join(id).join("console.log")).unwrap_or_default()
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let ids: Vec<String> = self.kept.lock().unwrap().keys().cloned().collect();
        for id in &ids {
            self.end(id, TAKEN);
        }
    }
}

fn watch(machines: &Weak<Machines>, ended: &dyn Fn(&str, &str)) {
    while let Some(machines) = machines.upgrade() {
        for seen in machines.seen().into_iter().filter(|seen| seen.is_up() && seen.folder.join("shut-down").exists()) {
            machines.end(&seen.id, SHUT_DOWN);
            ended(&seen.region, &seen.id);
        }
        drop(machines);
        thread::sleep(LOOK);
    }
}

/// Every process of the machine, those that left its group too, until there is none.
fn kill_all(id: &str) {
    let mark = format!("{MARK}={id}");
    let is_marked = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
    };
    loop {
        let pids = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let marked: Vec<i32> = pids.filter(is_marked).collect();
        if marked.is_empty() {
            return;
        }
        for pid in marked.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// IMDSv2 and nothing older: a token first, then what the machine is and whether it will be taken.
fn metadata(start: &Start, notice: Arc<Mutex<Option<Timestamp>>>) -> String {
    let text = |status, body: &str| Reply::Dated(status, body.to_owned());
    let (id, region, zone) = (start.id.clone(), start.region.clone(), start.zone_id.clone());
    let token = format!("token-of-{id}");
    let answer = move |request: &Request| {
        if request.path == "/latest/api/token" {
            let life: u32 = request.header("x-aws-ec2-metadata-token-ttl-seconds").parse().unwrap_or(0);
            // The life of the token is a header, too.
            let kind = "text/plain\r\nX-aws-ec2-metadata-token-ttl-seconds: 21600";
            return if (1..=21600).contains(&life) { Reply::Text(200, kind, token.clone()) } else { text(400, "") };
        }
        if request.header("x-aws-ec2-metadata-token") != token {
            return text(401, "");
        }
        let notice = *notice.lock().unwrap();
        match (request.path.trim_start_matches("/latest/meta-data/"), notice) {
            ("instance-id", _) => text(200, &id),
            ("placement/region", _) => text(200, &region),
            ("placement/availability-zone-id", _) => text(200, &zone),
            ("iam/security-credentials/", _) => text(200, "gpuplan-machine"),
            ("iam/security-credentials/gpuplan-machine", _) => text(200, &credentials()),
            ("spot/instance-action", Some(at)) => {
                text(200, &format!("{{\"action\": \"terminate\", \"time\": \"{at:.0}\"}}"))
            }
            _ => text(404, ""),
        }
    };
    Server::start(answer).endpoint
}

fn credentials() -> String {
    let until = Timestamp::now() + SignedDuration::from_hours(6);
    format!(
        "{{\"Code\": \"Success\", \"Type\": \"AWS-HMAC\", \"AccessKeyId\": \"ASIAOFTHEMACHINE\", \"SecretAccessKey\": \"s\", \
         \"Token\": \"t\", \"LastUpdated\": \"{:.0}\", \"Expiration\": \"{until:.0}\"}}",
        Timestamp::now()
    )
}
