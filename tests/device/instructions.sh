#!/usr/bin/env bash
# Instructions per sample (noise, network and vote) of an exported network on emulated Cortex-M, counted by the plugin in
# tests/native. They are deterministic: the same compiler and network, the same count. They are not cycles.
#   tests/device/instructions.sh FOLDER [CORE ...]
# FOLDER is what `intrs export --target c -o FOLDER` wrote; the runtime is that of this clone. CORE: cortex-m3, cortex-m4,
# cortex-m7, cortex-m55 (Helium). Debian: apt install gcc-arm-none-eabi qemu-system-arm
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
folder=$1
shift
cores=("${@:-cortex-m3 cortex-m4 cortex-m7 cortex-m55}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declare -A board=([cortex-m3]=mps2-an385 [cortex-m4]=mps2-an386 [cortex-m7]=mps2-an500 [cortex-m55]=mps3-an547)
declare -A float=([cortex-m55]=softfp)  # Helium's registers are those of floats; +nofp leaves floats themselves out
declare -A name=([cortex-m55]=cortex-m55+nofp)
declare -A flash=([cortex-m55]=512K)

image() {  # image CORE SAMPLES
  arm-none-eabi-gcc -std=c99 -O2 -mthumb "-mcpu=${name[$1]:-$1}" "-mfloat-abi=${float[$1]:-soft}" "-DSAMPLES=$2u" \
    -ffunction-sections -fdata-sections -I"$root/device" -I"$root/core" -I"$root/device/boards" -I"$folder/src" \
    -include "$folder/src/intrs_config.h" "$root"/device/intrs*.c "$folder/src/net.c" "$here/count.c" -nostdlib \
    -T "$here/count.ld" "-Wl,--gc-sections,--defsym=FLASH=${flash[$1]:-4M}" -lgcc -o "$work/$1-$2.elf"
}

run() {  # run CORE SAMPLES: the votes are checked as well
  qemu-system-arm -M "${board[$1]}" -nographic -semihosting-config enable=on,target=native -plugin "$work/count.so" \
    -kernel "$work/$1-$2.elf" 2>&1 > /dev/null < /dev/null
}

for core in ${cores[*]}; do
  few=1 many=8  # what is done once cancels out; the folder knows the votes of the first 8 samples
  image "$core" $few
  image "$core" $many
  for version in 1 2 3 4 5; do  # of the plugins' interface; QEMU refuses those that it does not know
    [ -e "$work/found" ] && break
    cc -shared -fPIC -O2 -DPLUGIN_VERSION=$version -o "$work/count.so" "$here/../native/count_instructions.c"
    if run "$core" $few 2>&1 | grep -q instructions; then touch "$work/found"; fi
  done
  less=$(run "$core" $few | sed -n 's/^instructions //p')
  more=$(run "$core" $many | sed -n 's/^instructions //p')
  echo "$core $(((more - less) / (many - few)))"
done
