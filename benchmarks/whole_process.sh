#!/usr/bin/env bash
# Wall time of whole commands, the middle of eleven runs, and their peak memory. Build first: cargo build --release
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-${CARGO_TARGET_DIR:-target}/release/gpuplan}
export COLUMNS=120

# median LIMIT_MS COMMAND...
median() {
  local limit=$1
  shift
  local times=()
  for _ in 1 2 3 4 5 6 7 8 9 10 11; do
    local from=$(($(date +%s%N) / 1000))
    "$@" >/dev/null 2>&1
    times+=($(($(date +%s%N) / 1000 - from)))
  done
  local middle
  middle=$(printf '%s\n' "${times[@]}" | sort -n | sed -n 6p)
  printf '%8.1f ms of %s ms allowed: %s\n' "$(echo "$middle" | awk '{print $1 / 1000}')" "$limit" "${*:2}"
}

median 10 "$program" --version
median 30 "$program" prices H100
for example in llama-3.1-8b-finetune llama-3.1-8b-lora llama-7b-pretrain resnet-50-imagenet phases; do
  median 100 "$program" plan "examples/$example.toml"
done
median 150 "$program" plan --model llama-2-7b --task pretrain --tokens 1T --sequence-length 2048 --global-batch-tokens 4M
# Up to 4,096 machines of every kind, 32,768 GPUs.
median 150 "$program" plan benchmarks/largest.toml
# Both look at every published run.
median 150 "$program" explain examples/llama-3.1-8b-finetune.toml
median 150 "$program" estimate --cases benchmarks/unfitted/fine-tunes.jsonl
"$program" plan --model llama-2-7b --task pretrain --tokens 1T --sequence-length 2048 --global-batch-tokens 4M 2>/dev/null | tail -n 1
