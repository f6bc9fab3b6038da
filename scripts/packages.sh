#!/usr/bin/env bash
# Makes the Debian packages tril, libtril0 and libtril-dev of this tree, and beside them what each
# is made of (SPDX 2.3 in JSON).
#   scripts/packages.sh [FOLDER]      by default build/packages
# On the Debian or Ubuntu that they are for. CUDA's kernels are in them where nvcc is (TRIL_CUDA=OFF
# leaves them out, TRIL_CUDA=ON insists). The same commit gives the same bytes in any folder and at any time,
# with the same packages installed: tests/install/reproducible.sh compares.
# TRIL_MAINTAINER="Name <address>" is who answers for the packages, TRIL_PACKAGE_REVISION their
# revision (1).
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "$0")")")
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
tril_setup package
folder=$(realpath -m "${1:-$root/build/packages}")
build=$root/build/package
umask 022
export LC_ALL=C TZ=UTC
# The time of the last commit, or of the newest file of a tree that is not a repository.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null ||
  find "$root" -path "$root/build" -prune -o -type f -printf '%T@\n' | sort -n | tail -n 1 | cut -d . -f 1)}
export SOURCE_DATE_EPOCH

mkdir -p -- "$build" "$folder"
log=$build/packages.log
# run WHAT COMMAND...: its output is shown only if it fails.
run() {
  "${@:2}" </dev/null >"$log" 2>&1 || tril_fail "$1 failed" "$log"
}
printf 'tril: building packages (the first time takes some minutes)…\n' >&2
cd -- "$root"
run 'configuring' cmake --preset package ${TRIL_CUDA:+-D "TRIL_CUDA=$TRIL_CUDA"} \
  ${TRIL_MAINTAINER:+-D "TRIL_MAINTAINER=$TRIL_MAINTAINER"} \
  ${TRIL_PACKAGE_REVISION:+-D "TRIL_PACKAGE_REVISION=$TRIL_PACKAGE_REVISION"}
run 'building' ninja -C "$build"
rm -rf -- "$build/packaged"
run 'packaging' cpack --config "$build/CPackConfig.cmake" -B "$build/packaged"
for file in "$build"/packaged/*.deb "$build"/debian/*.spdx.json; do
  cp -- "$file" "$folder/"
  printf '%s\n' "$folder/${file##*/}"
done
