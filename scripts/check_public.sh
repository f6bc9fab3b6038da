#!/usr/bin/env bash
# Checks the public headers: tril/tril.h includes exactly what cmake/public_headers.cmake lists (which is what
# is installed), none of them includes a header of another library or one of C++ that takes long to compile, and
# none names what programs must not rely on: queues, caches, hooks, traces, streams of a GPU, kernels, arenas.
# Comments may.
# check_public.sh [ROOT]        checks a tree, this one by default
# check_public.sh --self-test   checks small faulty trees, each of which must fail
set -uo pipefail

check() {
  local root=$1
  if [[ ! -f $root/src/tril/tril.h || ! -f $root/cmake/public_headers.cmake ]]; then
    printf 'check_public: no src/tril/tril.h or no cmake/public_headers.cmake in %s\n' "$root" >&2
    return 2
  fi
  (cd -- "$root" && LC_ALL=C awk '
    function complain(what) { print what; bad = 1 }
    # Puts a header into the list of those to be read, once.
    function reach(name) { if (!(name in reached)) { reached[name] = 1; todo[++last] = name } }
    # Without comments, strings and characters. `within` says whether a comment of several lines goes on.
    function code_of(line,   at) {
      if (within) {
        at = index(line, "*/")
        if (at == 0) return ""
        line = substr(line, at + 2)
        within = 0
      }
      gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
      gsub(/\047([^\047\\]|\\.)\047/, "0", line)
      sub(/\/\/.*/, "", line)
      while (match(line, /\/\*([^*]|\*+[^*\/])*\*+\//)) line = substr(line, 1, RSTART - 1) " " substr(line, RSTART + RLENGTH)
      if ((at = index(line, "/*")) > 0) { within = 1; line = substr(line, 1, at - 1) }
      return line
    }
    # The words of snake_case and CamelCase, in small letters, each between blanks.
    function words_of(name) {
      gsub(/_/, " ", name)
      while (match(name, /[a-z0-9][A-Z]/)) name = substr(name, 1, RSTART) " " substr(name, RSTART + 1)
      return " " tolower(name) " "
    }
    function check_names(file, number, line,   name, words) {
      while (match(line, /[A-Za-z_][A-Za-z0-9_]*/)) {
        name = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        words = words_of(name)
        # A stream of tokens or of random numbers is none of a GPU.
        if (words ~ / (queue|cache|hook|trace|kernel|arena)(s|d)? / || name ~ /^(Cuda|Side)?Streams?$|[Cc]uda_?[Ss]tream/)
          complain(file ":" number ": " name " is not for programs that use tril")
      }
    }
    BEGIN {
      list = "cmake/public_headers.cmake"
      split("algorithm chrono filesystem functional future iostream memory mutex random regex sstream thread", names, " ")
      for (i in names) slow[names[i]] = 1
      while ((getline line < list) > 0) {
        sub(/#.*/, "", line)
        while (match(line, /tril\/[A-Za-z0-9_\/]+[.]h/)) {
          listed[substr(line, RSTART, RLENGTH)] = 1
          line = substr(line, RSTART + RLENGTH)
        }
      }
      reach("tril/tril.h")
      for (i = 1; i <= last; ++i) {
        file = "src/" todo[i]
        number = within = 0
        while ((found = (getline line < file)) > 0) {
          ++number
          if (line ~ /^[ \t]*#[ \t]*include/) {
            name = line
            sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", name)
            sub(/[">].*/, "", name)
            if (name ~ /^tril\//) reach(name)
            # The standard headers of C++ have no dot and no folder.
            else if (line !~ /<[a-z_]+>/) complain(file ":" number ": includes " name ", which is not of tril or C++")
            else if (slow[name]) complain(file ":" number ": <" name "> takes long to include: base/function.h, shared.h and moment.h stand for what programs need of it")
            continue
          }
          check_names(file, number, code_of(line))
        }
        if (found < 0) complain(file ": cannot be read")
        close(file)
      }
      for (name in reached) if (!(name in listed)) complain(list ": " name " is missing: tril.h includes it")
      for (name in listed) if (!(name in reached)) complain(list ": " name " is not included by tril.h")
      exit bad
    }') >&2
}

# The version stands in one place.
check_version() {
  local root=$1 version
  version=$(sed -nE 's/^project[(]tril VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt") || return
  grep -qF "kVersion[] = \"$version\"" "$root/src/tril/version.h" && return
  printf 'src/tril/version.h: is not of version %s: cmake writes it, and it is committed with CMakeLists.txt\n' \
    "$version" >&2
  return 1
}

self_test() {
  local tree out failures=0
  tree=$(mktemp -d) || return 2
  # shellcheck disable=SC2064 # the folder's name is known now
  trap "rm -rf -- '$tree'" EXIT

  # plant LIST LINE...: a tree of tril.h and a.h, which has these lines.
  plant() {
    mkdir -p "$tree/src/tril/base" "$tree/cmake"
    printf '#include "tril/base/a.h"\n' >"$tree/src/tril/tril.h"
    printf '#include <vector>\n' >"$tree/src/tril/base/b.h"
    printf 'set(TRIL_PUBLIC_HEADERS\n  %s)\n' "$1" >"$tree/cmake/public_headers.cmake"
    printf '%s\n' "${@:2}" >"$tree/src/tril/base/a.h"
  }
  local both='tril/base/a.h tril/tril.h'
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

  expect_good 'an ordinary header' "$both" '#include <vector>' 'struct A {};'
  expect_good 'comments and texts' "$both" '// a Cache' '/* an Arena,' 'and a kernel */ int a;' 'auto b = "queue";'
  expect_good 'a stream of tokens' "$both" 'std::function<void()> stream;' 'struct StreamedText;'
  expect_good 'words within words' "$both" 'int tracer, arenaceous;'
  expect_bad 'a header that is not listed' 'tril/base/b.h is missing' "$both" '#include "tril/base/b.h"'
  expect_bad 'a header that is not reached' 'tril/base/b.h is not included' "$both tril/base/b.h" 'int a;'
  expect_bad 'a header that is not there' 'cannot be read' "$both tril/base/c.h" '#include "tril/base/c.h"'
  expect_bad 'another library' 'includes hwy/highway.h' "$both" '#include <hwy/highway.h>'
  expect_bad 'a slow header' '<functional> takes long' "$both" '#include <functional>'
  expect_bad 'a header of C' 'includes zlib.h' "$both" '#include <zlib.h>'
  for out in Queue key_cache cached TestHooks hooks SearchTrace kernels KernelOrder Arena arena_ Stream cudaStream_t; do
    expect_bad "$out" "$out is not for programs" "$both" "  $out a;  // b"
  done

  ((failures == 0))
}

case ${1-} in
  --self-test) self_test ;;
  -*)
    printf 'check_public: unknown flag %s: --self-test, or the root of a tree\n' "$1" >&2
    exit 2
    ;;
  *)
    root=${1:-$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/..}
    check "$root" && check_version "$root"
    ;;
esac
