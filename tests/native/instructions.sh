#!/usr/bin/env bash
# Instructions per sample (noise, network and vote) of the kernel sets for ARM64, counted under qemu-aarch64 by the
# plugin beside this file. They are deterministic: the same program, the same count. They are not cycles.
#   tests/native/instructions.sh NETWORK NOISE [BUILD]     (files of Network.to_bytes and NoiseTable.to_bytes)
# BUILD: the folder `arm` that emulate.sh left, if it was told to keep it. Debian: apt install qemu-user
# g++-aarch64-linux-gnu
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${3:-$work/arm}
if [ $# -lt 3 ]; then
  cmake -S "$here/../.." -B "$build" -DINTRS_TESTS=ON -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_EXE_LINKER_FLAGS=-static > /dev/null
  cmake --build "$build" --parallel 2 > /dev/null
fi

for version in 1 2 3 4 5; do  # of the plugins' interface; QEMU refuses those that it does not know
  cc -shared -fPIC -O2 -DPLUGIN_VERSION=$version -o "$work/count.so" "$here/count_instructions.c"
  found=$(qemu-aarch64 -plugin "$work/count.so" "$build/tests/native/count_votes" 2>&1 || true)
  if [[ $found == *instructions* ]]; then break; fi
done

count() {  # count CPU KERNELS SAMPLES
  qemu-aarch64 -cpu "$1" -plugin "$work/count.so" "$build/tests/native/count_votes" "$network" "$noise" "$2" "$3" \
    2>&1 > /dev/null | sed -n 's/^instructions //p'
}

network=$1 noise=$2
for set in "max neon" "cortex-a72 neon-smlal"; do
  read -r cpu kernels <<< "$set"
  few=$(count "$cpu" "$kernels" 8) many=$(count "$cpu" "$kernels" 24)  # what is done once cancels out
  echo "$kernels $cpu $(((many - few) / 16))"
done
