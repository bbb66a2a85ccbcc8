#!/usr/bin/env bash
# Everything that needs a GPU, in one command: the ignored tests, the calibration of this card, and PyTorch beside it.
#
#   benchmarks/on_gpu.sh
#
# Writes benchmarks/results/<gpu id>.json (the recorded reference of this card; list it in src/calibration/recorded.rs) and
# benchmarks/results/<gpu id>-torch.json. Needs Rust, an NVIDIA driver, and a python3 with torch for the last part; that
# Python's packages bring the CUDA libraries as well. Ends with 1 where a figure is outside its limit; it is recorded all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
program=$target/release/gpuplan
results=benchmarks/results
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The user's own set is left alone, and an older calibration must not correct this one.
export GPUPLAN_HOME=$work/home

outside=0

echo "== build and the tests that need a GPU"
cargo build --release --locked --no-default-features --features cuda
cargo test --release --locked --no-default-features --features cuda --lib -- --ignored \
  calibration::cuda telemetry::nvml --test-threads 1 --nocapture

echo "== quick, timed"
from=$(date +%s%N)
"$program" bench benchmarks/decoder.toml --quick --data benchmarks --output json >"$work/quick.json"
took=$((($(date +%s%N) - from) / 1000000))
echo "quick suite: $took ms of 20000 allowed"
if [ "$took" -gt 20000 ]; then
  echo "OUTSIDE ITS LIMIT: the quick suite took $took ms" >&2
  outside=1
fi

echo "== full, twice"
"$program" bench benchmarks/decoder.toml --full --data benchmarks --output json >"$work/first.json"
"$program" bench benchmarks/decoder.toml --full --data benchmarks --output json >"$work/second.json"
"$program" bench benchmarks/decoder.toml --quick
gpu=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["gpu"] or "unknown")' "$work/first.json")
if [ "$gpu" = unknown ]; then
  echo "the catalog has no such card: add it to catalogs/gpus.toml first; nothing is recorded" >&2
  exit 2
fi

echo "== PyTorch beside it"
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  "$program" estimate benchmarks/decoder.toml --gpus "$gpu:1" --calibration "$work/first.json" --output json >"$work/predicted.json"
  python3 benchmarks/on_gpu.py "$work/first.json" "$work/second.json" "$work/predicted.json" "$work/torch.json" || outside=1
  cp "$work/torch.json" "$results/$gpu-torch.json"
else
  echo "WAIVED: this python3 has no torch that sees the GPU" >&2
fi
cp "$work/first.json" "$results/$gpu.json"
echo "recorded $results/$gpu.json; list it in src/calibration/recorded.rs"
exit "$outside"
