#!/usr/bin/env bash
# The GPU kernels as C++ under sanitizers, over odd sizes: their indices, their barriers and their results. Ends with 3 where no compiler with
# sanitizers is. Two kernels with a mistake have to be found out, so that silence means something.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run SANITIZERS KERNELS
run() {
  g++ -std=c++17 -O1 -g -w -pthread "-fsanitize=$1" -fno-sanitize-recover=all -I "$2" -x c++ tests/testbed/kernels_on_cpu.cpp \
    -o "$folder/kernels" && "$folder/kernels"
}

if ! echo 'int main() {}' | g++ -fsanitize=address,undefined -x c++ - -o "$folder/empty" 2>/dev/null; then
  echo "WAIVED the kernels under sanitizers: no g++ with them" >&2
  exit 3
fi
run address,undefined src/calibration/cuda/kernels
run thread src/calibration/cuda/kernels
for mistake in 's/for (; at < count; at += step) out/for (; at <= count; at += step) out/' 's/at < groups; at += THREADS/at <= groups; at += THREADS/'; do
  mkdir -p "$folder/wrong"
  for kernels in src/calibration/cuda/kernels/*.cu; do
    sed "$mistake" "$kernels" >"$folder/wrong/$(basename "$kernels")"
  done
  if run address,undefined "$folder/wrong" >/dev/null 2>&1; then
    echo "a kernel with a mistake was not found out: $mistake" >&2
    exit 1
  fi
done
# Without its barriers a block's sum is a race.
sed 's/__syncthreads();//' src/calibration/cuda/kernels/training.cu >"$folder/wrong/training.cu"
cp src/calibration/cuda/kernels/basic.cu "$folder/wrong/"
if run thread "$folder/wrong" >/dev/null 2>&1; then
  echo "a kernel without barriers was not found out" >&2
  exit 1
fi
echo "kernels: indices, barriers and results hold"
