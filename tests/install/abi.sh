#!/usr/bin/env bash
# Compares the functions of tril/c.h, their types and the codes with libtril.abi beside this: programs that were linked
# before must go on working.
#   abi.sh [--renew]
# With --renew, libtril.abi is written again: after functions were added, together with a higher TRIL_ABI_VERSION; if one
# was changed or removed, only together with another SOVERSION.
# What is described is a library with empty functions, because libtril.so.0 is built without debug information; that it
# exports just these is what tests/c/c.sh sees to, and that they have these types, the compiler.
# Exits with 77 without abidw and abidiff (Debian: abigail-tools).
set -u
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  printf 'skipped: the ABI: no abidw and abidiff here (abigail-tools)\n' >&2
  exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
{
  printf '#include "tril/c.h"\n'
  cpp -P -I"$tree/src" "$tree/src/tril/c.h" | tr '\n' ' ' | sed 's/;/;\n/g' |
    sed -nE 's/^ *__attribute__\(\(visibility\("default"\)\)\) (.*\));$/\1 { return 0; }/p'
  printf 'enum tril_code tril_of_codes(void) { return TRIL_OK; }\n'
} >empty.c
(($(grep -c '^.*tril_.*{ return 0; }$' empty.c) == $(grep -c '^TRIL_API ' "$tree/src/tril/c.h"))) || {
  printf 'not every function of tril/c.h was found\n'
  exit 1
}
cc -std=c99 -g -O0 -fPIC -shared -I"$tree/src" empty.c -Wl,-soname,libtril.so.0 \
  -Wl,--version-script="$tree/src/tril/c/exports.map" -o empty.so || exit 1
abidw --header-file "$tree/src/tril/c.h" --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
  --out-file now.abi empty.so || exit 1
if [[ ${1-} == --renew ]]; then
  sed -E "s/ path='[^']*'//; s/ language='[^']*'//" now.abi >"$here/libtril.abi"
  exit
fi
if ! abidiff "$here/libtril.abi" now.abi; then
  printf 'the ABI of libtril.so.0 has changed (tests/install/abi.sh --renew, if that is meant)\n'
  exit 1
fi
printf 'the ABI is that of libtril.abi\n'
