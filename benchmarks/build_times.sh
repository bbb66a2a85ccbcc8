#!/usr/bin/env bash
# How long a change takes: in a scratch clone, a value inside one private function of a stage is changed and `cargo test -p`
# of that stage is timed, three times; the median is printed with the tests that ran, beside the limit of the stage. Run it
# on two idle cores. `benchmarks/build_times.sh estimate cli` measures these stages alone.
#
# The first build of the clone is not counted; it takes minutes. Exits with 1 where a limit is exceeded.
set -euo pipefail
cd "$(dirname "$0")/.."

# Stage, limit in seconds (-: none), file, private function.
readonly CHANGES='
units - count.rs greatest_common_divisor
workload - model/catalog.rs letters
hardware - catalog/rules.rs check_gpu
import - chips.rs described
calibration - simulated.rs capability
estimate 60 memory/activations.rs frozen
accuracy - fit.rs residuals
market 60 cache/rows.rs rate
spot 60 availability/mod.rs draw
plan 60 choice/mod.rs plan_under
runstore - checkpoint/manifest.rs check
budget 30 diff/change.rs added_or_removed
report 30 measure/bench_text.rs headline
export - framework/accelerate.rs configuration
telemetry - findings/operators.rs idle_in_trace
launch 30 boot/mod.rs start
agent 30 rules/framework.rs is_done
clouds-aws - feeds/advisor.rs band
clouds-gcp - prices/billing.rs percent_encoded
clouds 30 listing.rs gpu_named
cli 30 measuring/accuracy.rs grouping
'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet . "$folder/clone"
cd "$folder/clone"
export CARGO_TARGET_DIR=${GPUPLAN_BUILD_TIMES_TARGET:-$folder/target} CARGO_TERM_COLOR=never

echo "==> the build that the changes start from" >&2
cargo test --locked --quiet --no-run
cargo build --locked --quiet

# change FILE FUNCTION VALUE: the function computes one value more, another each time.
change() {
  local file=$1 function=$2 value=$3
  git checkout --quiet -- "$file"
  # The body starts at the first line that ends in `{`, at or after the one that names the function.
  awk -v name="^fn $function[(<]" -v line="    std::hint::black_box($value);" '
    { print }
    $0 ~ name { inside = 1 }
    inside && /\{$/ { print line; inside = 0; done = 1 }
    END { exit !done }' "$file" > "$file.changed" || { echo "no private function $function in $file" >&2; exit 2; }
  mv "$file.changed" "$file"
}

late=0
printf '%-12s %8s %8s %7s\n' stage seconds limit tests
while read -r stage limit file function; do
  [[ -n "$stage" ]] || continue
  if (($#)) && [[ " $* " != *" $stage "* ]]; then continue; fi
  path=src/${stage//-/\/}/$file
  # Once uncounted: features of a stage alone may differ from those of the whole.
  cargo test --locked --quiet -p "gpuplan-$stage" > /dev/null
  times=()
  for value in 1 2 3; do
    change "$path" "$function" "$value"
    from=$(date +%s%N)
    cargo test --locked -p "gpuplan-$stage" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
    times+=($((($(date +%s%N) - from) / 1000000)))
  done
  git checkout --quiet -- "$path"
  median=$(printf '%s\n' "${times[@]}" | sort -n | sed -n 2p)
  tests=$(awk '/^test result:/ { sum += $4 } END { print sum + 0 }' "$folder/log")
  verdict=
  if [[ "$limit" != - ]] && ((median > limit * 1000)); then
    verdict=OVER
    late=1
  fi
  printf '%-12s %8s %8s %7s %s\n' "$stage" "$((median / 1000)).$((median % 1000 / 100))" "$limit" "$tests" "$verdict"
done <<< "$CHANGES"
exit "$late"
