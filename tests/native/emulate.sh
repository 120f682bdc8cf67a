#!/usr/bin/env bash
# The native checks on processors that this machine is not: ARM with and without the dot product extension, and old
# x86-64 ones on which code compiled for newer instructions would stop. Debian: apt install qemu-user g++-aarch64-linux-gnu
#   tests/native/emulate.sh NETWORK...      (files of Network.to_bytes)
# INTRS_EMULATED=FOLDER keeps what is built there, in arm/ and x86/.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${INTRS_EMULATED:-$(mktemp -d)}
if [ -z "${INTRS_EMULATED:-}" ]; then trap 'rm -rf "$build"' EXIT; fi

checks() {  # build them: checks FOLDER [cmake options]
  cmake -S "$root" -B "$build/$1" -DINTRS_TESTS=ON -DCMAKE_BUILD_TYPE=Release "${@:2}" > /dev/null
  cmake --build "$build/$1" --parallel 2 > /dev/null
}

checks arm -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_EXE_LINKER_FLAGS=-static
qemu-aarch64 -cpu max "$build/arm/tests/native/core_checks" 20 "$@" | tee "$build/arm.txt"
grep -q '^neon neon-smlal scalar ' "$build/arm.txt"
qemu-aarch64 -cpu cortex-a72 "$build/arm/tests/native/core_checks" 5 "$@" | tee "$build/arm.txt"   # no dot product
grep -q '^neon-smlal scalar ' "$build/arm.txt"

if [ "$(uname -m)" = x86_64 ]; then
  checks x86
  qemu-x86_64 -cpu Nehalem "$build/x86/tests/native/core_checks" 1 "$@"     # no AVX: scalar
  qemu-x86_64 -cpu max "$build/x86/tests/native/core_checks" 5 "$@"         # AVX2
fi
