#!/usr/bin/env bash
# What `gpuplan export --to torchrun` writes, on two machines with a real torchrun: network namespaces with an address each where they may
# be made, else both on loopback, which is said. Both join, a notice to one stops both at
# the same step, both end with 75, and their next life ends with the result of an undisturbed one.
# Half a minute on a free machine: torch is loaded twelve times.
# usage: tests/torchrun.sh GPUPLAN PYTHON        PYTHON has torch; exit code 3: it cannot run here, and the line WAIVED says why
set -euo pipefail
cd "$(dirname "$0")/.."
gpuplan=$(realpath "$1")
tools=$(dirname "$2")
if ! "$2" -c 'import torch.distributed' 2>/dev/null || [ ! -x "$tools/torchrun" ]; then
  echo "WAIVED torchrun: $2 has no torch" >&2
  exit 3
fi

place=$(mktemp -d)
pids=()
end() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  for node in 0 1; do ip netns del "gpuplan-$$-$node" 2>/dev/null || true; done
  rm -rf "$place"
}
trap end EXIT
mkdir "$place/bin"
ln -s "$gpuplan" "$place/bin/gpuplan"
export PATH=$place/bin:$tools:$PATH GPUPLAN_HOME=$place/home
# Machine 0 has the first of two addresses, machine 1 the second.
addresses=(127.0.0.1 127.0.0.1) interface=lo
namespaces() {
  for node in 0 1; do ip netns add "gpuplan-$$-$node" || return 1; done
  ip link add pair0 netns "gpuplan-$$-0" type veth peer name pair1 netns "gpuplan-$$-1" || return 1
  for node in 0 1; do
    ip -n "gpuplan-$$-$node" address add "10.77.0.$((node + 1))/24" dev "pair$node" || return 1
    ip -n "gpuplan-$$-$node" link set lo up && ip -n "gpuplan-$$-$node" link set "pair$node" up || return 1
  done
}
if namespaces 2>/dev/null; then
  addresses=(10.77.0.1 10.77.0.2) interface=pair
else
  for node in 0 1; do ip netns del "gpuplan-$$-$node" 2>/dev/null || true; done
  echo "network namespaces may not be made here: both machines are on loopback" >&2
fi
# on NODE COMMAND...: on that machine.
on() {
  local node=$1 here=()
  shift
  if [[ $interface == pair ]]; then here=(ip netns exec "gpuplan-$$-$node"); fi
  GLOO_SOCKET_IFNAME=${interface/%pair/pair$node} exec "${here[@]}" "$@"
}
program=("$PWD/tests/engines/torch_pair.py" 100)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# script RUN SECONDS_PER_STEP: the export, on a free port instead of torchrun's own and at the address of the machine that runs it.
script() {
  gpuplan export tests/fixtures/plans/eight-nodes.json --to torchrun --framework none --run "$1" --store "file://$place/store" \
    --out "$place/$1.sh" -- torchrun --nproc-per-node=1 --local-addr=ADDRESS "${program[@]}" "$2"
  sed -i -e "s/PET_MASTER_PORT=[0-9]*/PET_MASTER_PORT=$port/" -e 's/--local-addr=ADDRESS/"--local-addr=$ADDRESS"/' "$place/$1.sh"
}
# life RUN: starts both machines, each in a folder of its own.
life() {
  pids=()
  for node in 0 1; do
    mkdir -p "$place/$1-$node"
    (cd "$place/$1-$node" && NODE_RANK=$node NNODES=2 MASTER_ADDR=${addresses[0]} ADDRESS=${addresses[$node]} on "$node" bash "$place/$1.sh") >>"$place/$1-$node.out" 2>&1 &
    pids+=($!)
  done
}
# ended RUN CODE: both with this code.
ended() {
  local limit=$((SECONDS + 240))
  for node in 0 1; do
    local code=0
    while kill -0 "${pids[$node]}" 2>/dev/null; do
      if ((SECONDS > limit)); then
        echo "FAILED: machine $node does not end:" >&2
        tail -n 40 "$place/$1"-?.out >&2
        exit 1
      fi
      sleep 0.2
    done
    wait "${pids[$node]}" || code=$?
    if ((code != $2)); then
      echo "FAILED: machine $node ended with $code, not $2:" >&2
      tail -n 40 "$place/$1-$node.out" >&2
      exit 1
    fi
  done
  pids=()
}
script alone 0
life alone
ended alone 0
script pair 0.1
life pair
limit=$((SECONDS + 120))
until grep -q 'step [0-9]* is safe' "$place/pair-0.out" 2>/dev/null; do
  if ((SECONDS > limit)); then
    echo "FAILED: no checkpoint came:" >&2
    tail -n 40 "$place"/pair-?.out >&2
    exit 1
  fi
  sleep 0.2
done
kill -USR1 "${pids[1]}"
ended pair 75
stops=$(sed -n 's/.*: stopped at step //p' "$place"/pair-?.out | sort | uniq -c | tr -s ' ')
if [[ $stops != " 2 "* || $stops == *$'\n'* ]]; then
  echo "FAILED: they did not both stop at one step ($stops):" >&2
  tail -n 40 "$place"/pair-?.out >&2
  exit 1
fi
# A new machine 1: its folder is gone.
rm -rf "$place/pair-1"
life pair
ended pair 0
for node in 0 1; do
  cmp "$place/pair-$node/result.json" "$place/alone-$node/result.json"
done
where='in network namespaces'
if [[ $interface == lo ]]; then where='on loopback'; fi
echo "torchrun $("$2" -c 'import torch; print(torch.__version__)'): two machines $where stopped at one step, ended with 75, and completed with the result of an undisturbed run"
