#!/usr/bin/env bash
# Compares the functions that libtril.so.0 exports, and their types, with libtril.abi beside this: programs that were
# linked before must go on working.
#   PKG_CONFIG_PATH=FOLDER abi.sh [--renew]
# FOLDER has the tril-cpp.pc of an installed tril. With --renew, libtril.abi is written again: after functions were added,
# together with a higher TRIL_ABI_VERSION; if one was changed or removed, only together with another SOVERSION.
# Says what it skips without abidw and abidiff (Debian: abigail-tools).
set -u
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  printf 'skipped: the ABI: no abidw and abidiff here (abigail-tools)\n' >&2
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
# The library is built without debug information, which the comparison needs; so these files are compiled once more.
for each in "$tree"/src/tril/c/*.cpp; do printf '#include "%s"\n' "$each"; done >c.cpp
flags=$(pkg-config --cflags --libs tril-cpp) || exit 1
# shellcheck disable=SC2086 # flags are words
c++ -std=c++20 -g -O0 -fPIC -shared -I"$tree/src" c.cpp $flags -Wl,-soname,libtril.so.0 \
  -Wl,--version-script="$tree/src/tril/c/exports.map" -o libtril.so.0 || exit 1
abidw --header-file "$tree/src/tril/c.h" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
  --no-elf-needed --short-locs --out-file now.abi libtril.so.0 || exit 1
if [[ ${1-} == --renew ]]; then
  cp now.abi "$here/libtril.abi"
  exit
fi
if ! abidiff "$here/libtril.abi" now.abi; then
  printf 'the ABI of libtril.so.0 has changed (abi.sh --renew, if that is meant)\n'
  exit 1
fi
printf 'the ABI is that of libtril.abi\n'
