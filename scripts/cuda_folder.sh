#!/usr/bin/env bash
# cuda_folder.sh BUILD FOLDER: gathers what `./check --cuda --prebuilt FOLDER` runs on a machine
# where nothing can be built or installed: the program, the tests that run on a device, and the
# libraries they need. cuBLASLt and the driver are taken from that machine.
set -euo pipefail
if (($# != 2)); then
  printf 'usage: scripts/cuda_folder.sh BUILD FOLDER\n' >&2
  exit 2
fi
build=$1 folder=$2
limit_mib=40

rm -rf -- "$folder"
mkdir -p -- "$folder/bin" "$folder/lib"
mapfile -t programs < <(sed -n 's/^test //p' "$build/cuda_tests.txt")
binaries=(tril test_cuda)
for name in "${binaries[@]}"; do
  cp -- "$build/bin/$name" "$folder/bin/"
  strip -- "$folder/bin/$name"
done
# Each test program becomes a script that runs its part of test_cuda, which has the kernels once.
for name in "${programs[@]}"; do
  suites=$("$build/bin/$name" --gtest_list_tests | sed -n 's/^\([^ ]*\.\)\( .*\)\{0,1\}$/\1*/p' | paste -sd:)
  printf '#!/usr/bin/env bash\nexec "$(dirname -- "$0")/test_cuda" --gtest_filter=%q "$@"\n' \
    "$suites" >"$folder/bin/$name"
  chmod +x -- "$folder/bin/$name"
done
cp -- "$build/cuda_tests.txt" "$folder/"

# All libraries except the C library's own, which every machine has.
for name in "${binaries[@]}"; do ldd -- "$folder/bin/$name"; done |
  sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u |
  grep -Ev '/(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[^/]*)\.so' |
  while read -r library; do cp -L -- "$library" "$folder/lib/"; done
for library in "$folder"/lib/*; do strip --strip-unneeded -- "$library"; done

size=$(du -sm -- "$folder" | cut -f1)
if ((size > limit_mib)); then
  printf 'cuda_folder: %s holds %s MiB, more than %s\n' "$folder" "$size" "$limit_mib" >&2
  exit 1
fi
printf '%s: %s MiB\n' "$folder" "$size"
