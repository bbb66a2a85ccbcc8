#!/usr/bin/env bash
# What `gpuplan export --to slurm` writes, on a real Slurm of two nodes over loopback: accepted, refused when broken, preempted,
# requeued, and resumed to the result of an undisturbed run; two nodes at once, interrupted and failing. Needs root, slurmctld, slurmd, munged (Debian: slurm-wlm) and python3.
# usage: tests/slurm.sh GPUPLAN        exit code 3: it cannot run here, and the line WAIVED says why
set -euo pipefail
cd "$(dirname "$0")/.."
gpuplan=$(realpath "$1")

for tool in slurmctld slurmd munged sbatch scontrol python3; do
  command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin
  if ! command -v "$tool" >/dev/null; then
    echo "WAIVED Slurm: \`$tool\` is not installed (slurm-wlm, munge)" >&2
    exit 3
  fi
done
if [ "$(id -u)" -ne 0 ]; then
  echo "WAIVED Slurm: its daemons want root here" >&2
  exit 3
fi

place=$(mktemp -d /tmp/gpuplan-slurm.XXXXXX)
pids=()
end() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  # A daemon waits for its jobs; after half a minute nobody waits for the daemon.
  local limit=$((SECONDS + 30))
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null; do
      if ((SECONDS > limit)); then kill -KILL "$pid" 2>/dev/null || true; fi
      sleep 0.1
    done
  done
  rm -rf "$place"
}
trap end EXIT

# A key, a socket and ports of its own: a Slurm that is there already is left alone.
chmod 755 "$place"
mkdir -p "$place"/{munge,state,bin,job}
chown munge: "$place/munge"
dd if=/dev/urandom of="$place/munge/key" bs=1024 count=1 status=none
chown munge: "$place/munge/key" && chmod 400 "$place/munge/key"
setpriv --reuid munge --regid munge --init-groups munged --foreground --force --key-file="$place/munge/key" \
  --socket="$place/munge/socket" --pid-file="$place/munge/pid" --seed-file="$place/munge/seed" --log-file="$place/munge/log" >/dev/null 2>&1 &
pids+=($!)

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
host=$(hostname -s)
cat >"$place/slurm.conf" <<CONF
ClusterName=gpuplan
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool-%n
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd-%n.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
ReturnToService=2
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free) CPUs=1 Gres=gpu:1 State=UNKNOWN
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free) CPUs=1 Gres=gpu:1 State=UNKNOWN
PartitionName=spot Nodes=one,two Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=one,two PriorityTier=2 PreemptMode=OFF MaxTime=INFINITE State=UP
CONF
echo "NodeName=one,two Name=gpu File=/dev/null" >"$place/gres.conf"
export SLURM_CONF=$place/slurm.conf
until [ -S "$place/munge/socket" ]; do sleep 0.1; done
slurmctld -D >"$place/slurmctld.out" 2>&1 &
pids+=($!)
for node in one two; do
  mkdir "$place/spool-$node"
  slurmd -D -N "$node" >"$place/slurmd-$node.out" 2>&1 &
  pids+=($!)
done
for _ in $(seq 300); do
  [ "$(sinfo --noheader --partition=spot --format=%t 2>/dev/null)" = idle ] && break
  sleep 0.2
done
if [ "$(sinfo --noheader --partition=spot --format=%t 2>/dev/null)" != idle ]; then
  echo "WAIVED Slurm: it does not come up here: $(tail -n 3 "$place/slurmctld.out" "$place"/slurmd-*.out 2>/dev/null)" >&2
  exit 3
fi
echo "Slurm $(sinfo --version | cut -d' ' -f2) is up"

ln -s "$gpuplan" "$place/bin/gpuplan"
export PATH=$place/bin:$PATH
# The trainer, slow enough to be interrupted, and the same undisturbed.
train=("$PWD/examples/train.py" --steps 300 --every 10 --seconds-per-step 0.1)
mkdir "$place/alone"
(cd "$place/alone" && "${train[@]}" --seconds-per-step 0 >/dev/null 2>&1)

gpuplan export tests/fixtures/plans/one-gpu.json --to slurm --framework none --run slurm --store "file://$place/store" \
  --out "$place/job/job.sh" -- "${train[@]}"
sbatch --test-only "$place/job/job.sh"
sed 's/--signal=USR1@/--signal=NONE@/' "$place/job/job.sh" >"$place/job/bad.sh"
if sbatch --test-only "$place/job/bad.sh" 2>/dev/null; then
  echo "FAILED: Slurm took a broken signal" >&2
  exit 1
fi
echo "a good script is taken and a broken one refused"

# await SECONDS WHAT COMMAND...: until the command is true.
await() {
  local limit=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    if ((SECONDS > limit)); then
      echo "FAILED: $what did not come; the job said:" >&2
      cat "$place/job/out" >&2 || true
      exit 1
    fi
    sleep 0.2
  done
}
said() { grep -q "$1" "$place/job/out" 2>/dev/null; }
state() { scontrol --oneliner show job "$job" | grep -o 'JobState=[A-Z]*' | cut -d= -f2; }
is() { [ "$(state)" = "$1" ]; }

job=$(sbatch --parsable --chdir="$place/job" --output="$place/job/out" "$place/job/job.sh")
await 60 'the first checkpoint' said 'step [0-9]* is safe'
# A job of a higher partition takes the machine; the agent hears it at once, since srun passes the signal on.
from=$SECONDS
sbatch --parsable --partition=urgent --nodes=2 --gpus-per-node=1 --output=/dev/null --wrap 'sleep 2' >/dev/null
await 60 'the save before the preemption' said 'interrupted at step'
echo "preempted and saved after $((SECONDS - from)) s"
await 200 'the second life' said 'from step [1-9][0-9]* of 300'
await 60 'more progress' said 'step 1[0-9]0 is safe'
# And by hand.
scontrol requeue "$job"
await 200 'the end' is COMPLETED
restarts=$(scontrol --oneliner show job "$job" | grep -o 'Restarts=[0-9]*' | cut -d= -f2)
cmp "$place/job/result.json" "$place/alone/result.json"
if ((restarts < 2)); then
  echo "FAILED: $restarts restarts" >&2
  exit 1
fi
echo "completed after $restarts restarts with the result of an undisturbed run"

# Two nodes: a signal to one stops both at the same step, and the job goes on; a program that fails on one ends the job for good.
pair() {
  gpuplan export tests/fixtures/plans/eight-nodes.json --to slurm --framework none --run "$1" --store "file://$place/store" \
    --out "$place/job/$1.sh" -- "${@:2}"
  # Each node has a disk of its own.
  sed -i "s|^agent() {|agent() {\nmkdir -p $1-\$SLURM_NODEID \&\& cd $1-\$SLURM_NODEID|" "$place/job/$1.sh"
  : >"$place/job/out"
  job=$(sbatch --parsable --nodes=2 --gpus-per-node=1 --chdir="$place/job" --output="$place/job/out" "$place/job/$1.sh")
}
pair pair python3 "$PWD/tests/agent/two_nodes.py" "$(free)" 100 0.1
await 60 'the first checkpoint of two' said 'step [0-9]* is safe'
scancel --signal=USR1 "$job.0"
await 60 'the end of the first life' said 'stopped at step'
await 200 'the end of two' is COMPLETED
echo "two nodes stopped together, were requeued and completed"
pair failing bash -c '[ "$GPUPLAN_NODE" = 0 ] && exec sleep 600; sleep 2; exit 3'
await 200 'the failure' is FAILED
exit_code=$(scontrol --oneliner show job "$job" | grep -o ' ExitCode=[0-9]*' | cut -d= -f2)
if ((exit_code != 99)); then
  echo "FAILED: a failure on one of two nodes ends the job with $exit_code, not 99" >&2
  exit 1
fi
echo "a failure on one of two nodes ends the job"

# Handed over by the program itself: submitted, asked, read, stopped.
export GPUPLAN_HOME=$place/home
plan=$PWD/tests/fixtures/plans/one-gpu.json
(cd "$place/job" && gpuplan launch "$plan" --on slurm --run handed --store "file://$place/store" --framework none --on-option=--partition=spot \
  -y -- "${train[@]}")
stands() { gpuplan status handed --output json | grep -q "\"state\": \"$1\""; }
tells() { gpuplan logs handed | grep -q "$1"; }
: >"$place/job/out"
await 60 'the handed run' stands running
await 60 'its first checkpoint' tells 'step [0-9]* is safe'
gpuplan stop handed
if ! stands stopped; then
  echo "FAILED: a stopped run is not stopped" >&2
  exit 1
fi
gpuplan down handed -y
echo "handed over, asked, read and stopped by the program"
