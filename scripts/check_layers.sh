#!/usr/bin/env bash
# Fails on an include against the arrows of docs/design: upward or sideways between the folders of
# src/tril, and third-party or CUDA headers in a header. Also on a text of the library that names a flag of
# the program, and on more choices by device above ops/ than docs/design/device.md lists. (The public
# headers have a check of their own, check_public.sh.)
# check_layers.sh [ROOT]        checks a tree, this one by default
# check_layers.sh --self-test   checks small faulty trees, each of which must fail
set -uo pipefail

# What each folder may include besides what is below that, as "folder: below below": read from the
# table of folders, the only place where it is written.
design=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../docs/design/README.md
arrows=$(sed -nE 's/^\| \[([a-z]+)\]\([a-z]+[.]md\) \|.*\|([^|]*)\|$/\1:\2/p' "$design" | tr ',' ' ')
if [[ -z $arrows ]]; then
  printf 'check_layers: no table of folders in %s\n' "$design" >&2
  exit 2
fi

# Headers of libraries that only sources, and headers named *-inl.h, may include.
third_party='^(hwy/|nlohmann/|fmt/|CLI/|sentencepiece|(omp|zlib)[.]h|gtest/|gmock/|rapidcheck|'
third_party+='benchmark/|cuda|cublas|curand|cooperative_groups|cub/|thrust/|nvtx|mma[.]h)'

# How often the folders above ops/ may choose by device, each line's together. Those of the last are
# listed in docs/design/device.md.
device_choices='
0: autograd nn translate lesson explain
8: models decode train prove
'
# Every way in which code asks which kind of device it is on; each counts, also several on a line.
device_choice='(==|!=)[[:space:]]*(tril::)?Device::|Device::[a-z]+(\([^)]*\))?[[:space:]]*(==|!=)|DeviceType::|'
device_choice+='(^|[^_[:alnum:]])on_(cuda|gpu)\('

check_device_choices() {
  local limit folders folder file lines rc=0
  while IFS=': ' read -r limit folders; do
    [[ -n $limit ]] || continue
    lines=$(for folder in $folders; do
      [[ -d $1/src/tril/$folder ]] || continue
      find "$1/src/tril/$folder" -name '*.h' -o -name '*.cpp' | while IFS= read -r file; do
        sed -E 's|^[[:space:]]*//.*||' "$file" | grep -noE -- "$device_choice" | sed "s|^|$file:|"
      done
    done)
    (($(grep -c . <<<"$lines") <= limit)) && continue
    printf '%s\n' "$lines" >&2
    printf 'check_layers: more than %d choices by device in %s: ask ops/\n' "$limit" "$folders" >&2
    rc=1
  done <<<"$device_choices"
  return "$rc"
}

# An error's field for which the program has no advice is misspelt.
check_fields() {
  local advice=$1/apps/tril/advice.cpp field rc=0
  [[ -f $advice ]] || return 0
  while IFS= read -r field; do
    grep -qF -- "{$field," "$advice" && continue
    printf '%s: no advice for the field %s\n' "$advice" "$field" >&2
    rc=1
  done < <(grep -rhoE --include='*.cpp' 'Field( k[A-Za-z]+)?\{[^}]*\}' "$1/src/tril" | grep -oE '"[a-z_.]+"' | sort -u)
  return "$rc"
}

check() {
  local root=$1
  if [[ ! -d $root/src/tril ]]; then
    printf 'check_layers: no src/tril in %s\n' "$root" >&2
    return 2
  fi
  local -a files
  mapfile -d '' files < <(cd -- "$root" && find src/tril apps -type f \
    '(' -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' ')' \
    -print0 2>/dev/null | sort -z)
  ((${#files[@]})) || return 0
  check_fields "$root" || return
  check_device_choices "$root" || return
  (cd -- "$root" && LC_ALL=C awk -v arrows="$arrows" -v third_party="$third_party" '
    function complain(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }
    function is_header(name) { return name ~ /\.(h|hpp)$/ && name !~ /-inl\.h$/ }
    function is_file(name,   line, found) {
      found = (getline line < name) >= 0
      close(name)
      return found
    }
    # "#include <a/b.h>" -> "<a/b.h"; "" for any other line.
    function included(line) {
      if (line !~ /^[ \t]*#[ \t]*include[ \t]*["<][^">]+[">]/) return ""
      sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
      return match(line, /^["<][^">]+/) ? substr(line, 1, RLENGTH) : ""
    }
    BEGIN {
      rows = split(arrows, row, "\n")
      for (i = 1; i <= rows; ++i) {
        if (split(row[i], word, /[: ]+/) == 0 || word[1] == "") continue
        folder[word[1]] = 1
        for (j = 2; j in word; ++j) if (word[j] != "") may[word[1], word[j]] = 1
        split("", word)
      }
      for (k in folder)  # the transitive closure
        for (i in folder)
          for (j in folder)
            if (((i, k) in may) && ((k, j) in may)) may[i, j] = 1
      for (i in folder) {
        if ((i, i) in may) { printf "check_layers: the folders include each other in a circle at %s\n", i; bad = 1 }
        may[i, i] = 1
      }
      # Headers beside the folders: for programs outside the library; the second for everybody, the third for c/.
      outside_folders["src/tril/tril.h"] = outside_folders["src/tril/version.h"] = 1
      outside_folders["src/tril/c.h"] = 1
    }
    FNR == 1 {
      parts = split(FILENAME, part, "/")
      in_app = part[1] == "apps"
      here = (!in_app && parts > 3) ? part[3] : ""
      if (here != "" && !(here in folder)) complain("folder " here " is not in the table of docs/design/README.md")
      if (!in_app && here == "" && !(FILENAME in outside_folders))
        complain("only tril.h, c.h and version.h stand outside the folders")
      beside = FILENAME
      sub(/[^\/]*$/, "", beside)
    }
    # Other programs that use the library have other flags; lessons name commands for people to type.
    !in_app && here != "lesson" && /--[a-z]/ && !/^[ \t]*\/\// {
      pieces = split($0, piece, "\"")  # every second one is inside quotes
      for (i = 2; i <= pieces; i += 2)
        if (piece[i] ~ /(^|[ (,;:\047])--[a-z]/)
          complain("a text names a flag of the program: raise the error with its Field")
    }
    {
      name = included($0)
      if (name == "") next
      quoted = substr(name, 1, 1) == "\""
      name = substr(name, 2)
      outside = name ~ third_party
      if (outside && is_header(FILENAME)) complain("header includes " name ": only sources may")
      if (is_header(FILENAME) && name ~ /(-inl\.h|\.cuh)$/)
        complain("header includes " name ": only sources and *-inl.h may")
      if (name ~ /(^|\/)\.\.?\//) { complain(name ": a path is written from src, without dots"); next }
      if (name ~ /^tril\//) {
        split(name, part, "/")
        if (in_app || here == "" || name == "tril/version.h") next
        if (here == "c" && name == "tril/c.h") next
        if (name !~ /^tril\/[^\/]+\//) {
          complain(name ": tril.h is for programs outside the library")
        } else if (!(part[2] in folder)) {
          complain(name ": folder " part[2] " is not in the table of docs/design/README.md")
        } else if (here in folder && !((here, part[2]) in may)) {
          complain(here " may not include " name)
        }
      } else if (quoted && !outside && !(in_app && (is_file(beside name) || is_file(name)))) {
        complain("\"" name "\": a path is written from src, as \"tril/folder/file.h\"")
      }
    }
    END { exit bad }
  ' "${files[@]}") >&2
}

self_test() {
  local tree out failures=0
  tree=$(mktemp -d) || return 2
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf -- '$tree'" EXIT

  # expect_* NAME [TEXT] FILE LINE...: checks a tree of one good header and the given file.
  plant() {
    rm -rf -- "${tree:?}"/*
    mkdir -p "$tree/src/tril/base" "$tree/src/tril/nn" "$tree/apps/tril"
    printf '#include <vector>\n' >"$tree/src/tril/base/good.h"
    printf '#include "tril/nn/layers.h"\n' >"$tree/src/tril/tril.h"
    mkdir -p "$(dirname "$tree/$1")"
    printf '%s\n' "${@:2}" >"$tree/$1"
  }
  expect_good() {
    plant "${@:2}"
    out=$(check "$tree" 2>&1) || { printf 'self-test: %s: refused: %s\n' "$1" "$out" >&2; failures=1; }
  }
  expect_bad() {
    plant "${@:3}"
    if out=$(check "$tree" 2>&1); then
      printf 'self-test: %s: accepted\n' "$1" >&2
      failures=1
    elif [[ $out != *"$2"* ]]; then
      printf 'self-test: %s: refused for another reason: %s\n' "$1" "$out" >&2
      failures=1
    fi
  }

  expect_good 'below' src/tril/nn/a.h '#include "tril/nn/b.h"' '#include "tril/base/good.h"'
  expect_good 'far below' src/tril/lesson/a.cpp '#include "tril/tensor/b.h"' '#include "tril/io/c.h"'
  expect_good 'a comment' src/tril/base/a.h '// #include "tril/nn/b.h"'
  expect_bad 'upward' 'base may not include tril/nn/b.h' src/tril/base/a.h '#include "tril/nn/b.h"'
  expect_bad 'upward, in angle brackets' 'base may not include' \
    src/tril/base/a.cpp ' #  include <tril/nn/b.h> // why not'
  expect_bad 'sideways' 'kernels may not include' src/tril/kernels/a.cpp '#include "tril/tensor/b.h"'
  expect_bad 'from a folder inside' 'kernels may not include tril/ops/b.h' \
    src/tril/kernels/cpu/a.cpp '#include "tril/ops/b.h"'
  expect_bad 'siblings' 'io may not include' src/tril/io/a.cpp '#include "tril/nn/b.h"'
  expect_bad 'unknown folder' 'folder odd is not' src/tril/odd/a.h '#include <vector>'
  expect_bad 'unknown included folder' 'folder odd is not' src/tril/nn/a.h '#include "tril/odd/b.h"'
  expect_bad 'a path with dots' 'without dots' src/tril/base/a.h '#include "../nn/b.h"'
  expect_bad 'a bare path' 'written from src' src/tril/base/a.h '#include "good.h"'
  expect_bad 'the public list from inside' 'for programs outside' src/tril/nn/a.h '#include "tril/tril.h"'

  expect_good 'a flag in the program' apps/tril/main.cpp 'fail("give --rate");'
  expect_good 'a flag in a lesson' src/tril/lesson/a.cpp 'say("masks --check FILE");'
  expect_good 'a field without a program' src/tril/train/a.cpp 'fail(kBad, Field{"rate"}, "too high");'
  expect_good 'a dash' src/tril/train/a.cpp 'say("a -- b"); --i; // begin with --rate'
  expect_bad 'a flag in the library' 'names a flag' src/tril/train/a.cpp '  fail(kBad, "give a smaller --rate");'
  expect_bad 'a flag that begins a text' 'names a flag' src/tril/train/a.cpp '       "--rate");'
  expect_good 'libraries in a source' src/tril/base/a.cpp '#include <omp.h>' '#include "hwy/highway.h"'
  expect_good 'a library in -inl.h' src/tril/kernels/cpu/a-inl.h '#include "hwy/highway.h"'
  for out in hwy/highway.h nlohmann/json.hpp fmt/format.h CLI/CLI.hpp sentencepiece_processor.h \
    omp.h cuda_runtime.h cublasLt.h; do
    expect_bad "$out in a header" "header includes $out" src/tril/nn/a.h "#include <$out>"
  done
  expect_bad 'an -inl.h in a header' 'only sources and' \
    src/tril/kernels/a.h '#include "tril/kernels/cpu/a-inl.h"'

  expect_good 'choices by device in ops' src/tril/ops/a.cpp 'if (on_cuda(context)) f();'
  expect_good 'a comment on devices' src/tril/autograd/a.cpp '  // device == Device::cpu'
  expect_good 'two of the same device' src/tril/autograd/a.cpp 'require(a.device() == b.device());'
  for out in 'if (device == Device::cpu) f();' 'if (Device::cuda(1) != device) f();' \
    'if (device.type == DeviceType::cuda) f();' 'case DeviceType::cpu:' 'if (on_cuda(context)) f();'; do
    expect_bad "a choice by device: $out" 'more than 0 choices by device' src/tril/autograd/a.cpp "$out"
  done
  expect_bad 'two choices by device on a line' 'more than 8 choices by device' src/tril/prove/a.cpp \
    'if (d == Device::cpu) f();'{1..7} 'if (d == Device::cpu || e == Device::cpu) f();'
  expect_bad 'one choice by device too many' 'more than 8 choices by device' src/tril/prove/a.cpp \
    'if (d == Device::cpu) f();'{1..9}

  expect_good 'any header from the program' apps/tril/main.cpp '#include "tril/tril.h"' \
    '#include "tril/nn/layers.h"' '#include <CLI/CLI.hpp>'
  expect_good 'the version from inside' src/tril/nn/a.cpp '#include "tril/version.h"'
  expect_bad 'the header for C from elsewhere' 'for programs outside' src/tril/nn/a.cpp '#include "tril/c.h"'
  expect_bad 'another header beside the folders' 'stand outside the folders' src/tril/a.h '#include <vector>'

  ((failures == 0))
}

case ${1-} in
  --self-test) self_test ;;
  -*)
    printf 'check_layers: unknown flag %s: --self-test, or the root of a tree\n' "$1" >&2
    exit 2
    ;;
  *) check "${1:-$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/..}" ;;
esac
