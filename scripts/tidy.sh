#!/usr/bin/env bash
# Runs clang-tidy with .clang-tidy over every source of the library that BUILD compiles; fails on
# any finding. Sources that passed are remembered by a hash of their preprocessed text, so that a
# second run looks only at what has changed.
#   tidy.sh BUILD CACHE [JOBS]     BUILD: a configured folder, with its compile_commands.json
set -uo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." || exit 2

# key_of FILE COMMAND: of the settings, the tool, and the text behind the preprocessor, with comments (NOLINT
# is one). Nothing where the preprocessor fails.
key_of() {
  local -a words
  read -r -a words <<<"${2% -o *}"
  { find . -name .clang-tidy -not -path './build/*' -exec cat {} + && clang-tidy --version && printf '%s\n' "${words[*]}" && "${words[@]}" -E -C "$1"; } 2>/dev/null |
    sha256sum | cut -d' ' -f1
}

# check_one CACHE BUILD FILE COMMAND
check_one() {
  local key
  key=$(key_of "$3" "$4") || key=''
  [[ -n $key && -e $1/$key ]] && return 0
  clang-tidy -quiet -p "$2" "$3" || return 1
  if [[ -n $key ]]; then : >"$1/$key"; fi
}

if [[ ${1-} == --one ]]; then
  check_one "${@:2}"
  exit
fi
build=$1 cache=$2 jobs=${3:-$(nproc)}
mkdir -p -- "$cache" || exit 2
awk -v sources="\"$PWD/src/" '
  /^ *"command": / { command = $0; sub(/^ *"command": "/, "", command); sub(/",?$/, "", command) }
  /^ *"file": / && index($2, sources) == 1 { gsub(/[",]/, "", $2); print $2; print command }' \
  "$build/compile_commands.json" | xargs -r -d '\n' -n 2 -P "$jobs" "$0" --one "$cache" "$build"
