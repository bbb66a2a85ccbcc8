//! Clients of engines as small scripts on a `PATH` of their own: they keep one job in a file and answer in the words of the real ones
//! (Slurm 22.05, kubectl 1.31 and SkyPilot 0.14.1).

use crate::executable::executable;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder with the clients of one engine, and the state of its one job.
pub struct Clients {
    folder: TempDir,
}

const SBATCH: &str = r#"
for a in "$@"; do case $a in --comment=*) mark=${a#--comment=} ;; esac; done
if grep -q broken; then echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1; fi
echo "$mark" >"$D/mark"; echo PENDING >"$D/state"; echo one >>"$D/submissions"
if [ -e "$D/lose" ]; then exit 0; fi
echo 17
"#;
const SQUEUE: &str = r#"if [ -e "$D/mark" ]; then echo "17|$(cat "$D/mark")"; fi; echo '16|'"#;
const SCONTROL: &str = r#"
if [ "$4" != 17 ] || [ ! -e "$D/state" ]; then echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; fi
read -r state restarts <"$D/state"
echo "JobId=17 JobName=r JobState=$state Reason=Priority Restarts=${restarts:-0} RunTime=00:01:00 NodeList=one NumNodes=1"
"#;
const SACCT: &str = "echo 'Slurm accounting storage is disabled' >&2; exit 1";
const SCANCEL: &str = r#"
if [ "$1" != 17 ]; then echo "scancel: error: Kill job error on job id $1: Invalid job id specified" >&2; exit 1; fi
echo CANCELLED >"$D/state"
"#;
const KUBECTL: &str = r#"
case "$1 $2" in
"create --filename=-")
  cat >"$D/object"
  if grep -q broken "$D/object"; then echo 'error: error validating data: unknown field' >&2; exit 1; fi
  if [ -e "$D/mark" ]; then echo 'Error from server (AlreadyExists): jobs.batch "r" already exists' >&2; exit 1; fi
  sed -n 's/.*gpuplan-token: "\(.*\)"/\1/p' "$D/object" >"$D/mark"; echo waiting >"$D/state"; echo one >>"$D/submissions"
  if [ -e "$D/lose" ]; then echo 'Unable to connect to the server: net/http: TLS handshake timeout' >&2; exit 1; fi
  echo job.batch/r created ;;
"get jobs") if [ -e "$D/mark" ] && [ "$3" = "--selector=gpuplan-token=$(cat "$D/mark")" ]; then echo job.batch/r; fi ;;
"get job")
  if [ "$3" = r ] && [ -e "$D/mark" ]; then
    case $(cat "$D/state") in
    running) echo '{"status": {"active": 1, "ready": 1}}' ;;
    *) echo '{"status": {"active": 1}}' ;;
    esac
  fi ;;
"get pods")
  case $(cat "$D/state") in
  interrupted) echo '{"items": [{"status": {"phase": "Failed"}}]}' ;;
  *) echo '{"items": [{"spec": {"nodeName": "one"}, "status": {"phase": "Running"}}]}' ;;
  esac ;;
"delete job/r") rm -f "$D/mark" ;;
"logs "*) echo 'step 1 of 2' ;;
esac
"#;
const SKY: &str = r#"
case "$1 $2" in
"jobs queue")
  echo 'Fetching managed job statuses...'
  if [ -e "$D/mark" ]; then
    read -r state recoveries <"$D/state"
    echo "[{\"job_id\": 3, \"job_name\": \"$(cat "$D/mark")\", \"status\": \"$state\", \"recovery_count\": ${recoveries:-0}, \"job_duration\": 60.0, \"cloud\": \"aws\"}]"
  else
    echo '[]'
  fi ;;
"jobs launch")
  for file in "$@"; do :; done
  if grep -q broken "$file"; then echo 'ValueError: Invalid task YAML' >&2; exit 1; fi
  echo "$6" >"$D/mark"; echo PENDING >"$D/state"; echo one >>"$D/submissions"
  if [ -e "$D/lose" ]; then exit 1; fi ;;
"jobs logs") echo 'step 1 of 2' ;;
"jobs cancel") if [ "$4" = 3 ]; then echo CANCELLED >"$D/state"; fi ;;
esac
"#;

impl Clients {
    /// Of one engine; a program that is not here is not there at all.
    pub fn of(engine: &str) -> Self {
        let scripts: &[(&str, &str)] = match engine {
            "slurm" => &[
                ("sbatch", SBATCH),
                ("squeue", SQUEUE),
                ("scontrol", SCONTROL),
                ("sacct", SACCT),
                ("scancel", SCANCEL),
            ],
            "kubernetes" => &[("kubectl", KUBECTL)],
            "skypilot" => &[("sky", SKY)],
            _ => &[],
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, body) in scripts {
            let path = folder.path().join(name);
            executable(&path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\nD=${{0%/*}}\n{body}\n"));
        }
        Self { folder }
    }

    /// Where programs are looked for.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    /// In the engine's own word; a number behind it counts lives.
    pub fn is_now(&self, state: &str) {
        fs::write(self.file("state"), format!("{state}\n")).unwrap();
    }

    /// From now on submissions arrive and their answers do not.
    pub fn loses_answers(&self) {
        fs::write(self.file("lose"), "").unwrap();
    }

    pub fn submissions(&self) -> usize {
        fs::read_to_string(self.file("submissions")).unwrap_or_default().lines().count()
    }
}
