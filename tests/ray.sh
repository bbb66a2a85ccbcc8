#!/usr/bin/env bash
# What `gpuplan export --to ray` writes, on a real Ray of this machine: interrupted, started again from its checkpoint, and completed
# with the result of an undisturbed run. usage: tests/ray.sh GPUPLAN PYTHON_WITH_RAY
set -euo pipefail
cd "$(dirname "$0")/.."
gpuplan=$(realpath "$1")
python=$2
place=$(mktemp -d /tmp/gpuplan-ray.XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir "$place/bin" "$place/alone"
ln -s "$gpuplan" "$place/bin/gpuplan"
export PATH=$place/bin:$PATH
train=("$PWD/examples/train.py" --steps 150 --seconds-per-step 0.1)
(cd "$place/alone" && "${train[@]}" --seconds-per-step 0 >/dev/null 2>&1)
gpuplan export tests/fixtures/plans/one-gpu.json --to ray --framework none --run ray --store "file://$place/store" \
  --out "$place/run.py" -- "${train[@]}"

# A local Ray that believes in a GPU; it ends with the program.
cd "$place"
RAY_OVERRIDE_RESOURCES='{"GPU": 1, "CPU": 2}' RAY_USAGE_STATS_ENABLED=0 timeout 300 "$python" run.py >said 2>&1 &
job=$!
until grep -q 'step [0-9]* is safe' said; do
  kill -0 "$job" || { cat said >&2; exit 1; }
  sleep 0.2
done
# The one agent with this store.
for entry in /proc/[0-9]*; do
  if tr '\0' ' ' 2>/dev/null <"$entry/cmdline" | grep -q "^gpuplan agent --store file://$place/store "; then
    kill -TERM "${entry#/proc/}"
  fi
done
wait "$job" || { cat said >&2; exit 1; }
grep -q 'interrupted: all machines start again' said
cmp result.json alone/result.json
echo "interrupted, started again, and completed with the result of an undisturbed run"
