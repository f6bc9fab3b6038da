#!/usr/bin/env bash
# check.sh [--renew] PROGRAM MODEL SCRATCH: runs the examples of docs/reference and compares every page with
# the source of its example and with what that prints. --renew writes both into the pages.
set -uo pipefail
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
pages=$here/../../docs/reference
renew=0
if [[ ${1-} == --renew ]]; then
  renew=1
  shift
fi
printed=$(mktemp) || exit 2
trap 'rm -f -- "$printed"' EXIT
CUDA_VISIBLE_DEVICES='' "$@" >"$printed" || { printf 'check.sh: the examples failed\n' >&2; exit 1; }

compare() {
  LC_ALL=C awk -v renew="$renew" -v printed="$printed" '
    function complain(what) { print FILENAME ":" FNR ": " what > "/dev/stderr"; bad = 1 }
    function emit(line) { if (renew) print line > (FILENAME ".new") }
    # A block of a page ends: compares it, or writes the one it should be.
    function end_block(   should) {
      should = kind == "cpp" ? code[name] : text[name]
      if (renew) printf "%s", should > (FILENAME ".new")
      else if (block != should) complain("this is not the example " name (kind == "cpp" ? "" : ", or not what it prints"))
      seen[name, kind] = 1
    }
    BEGIN {
      while ((getline line < printed) > 0) {
        if (line ~ /^== /) section = substr(line, 4)
        else text[section] = text[section] line "\n"
      }
    }
    FILENAME ~ /[.]cpp$/ {
      if (match($0, /^ *\/\/ \[\/[A-Za-z_]+\]$/)) { reading = ""; next }
      if (match($0, /^ *\/\/ \[[A-Za-z_]+\]$/)) {
        reading = $0
        gsub(/.*\[|\].*/, "", reading)
        next
      }
      if (reading != "") { line = $0; sub(/^  /, "", line); code[reading] = code[reading] line "\n" }
      next
    }
    FNR == 1 {
      if (page != "" && !example_here) { print page ": has no example" > "/dev/stderr"; bad = 1 }
      page = FILENAME
      example_here = 0
      name = kind = ""
    }
    inside && /^```$/ { end_block(); inside = 0; emit($0); next }
    inside { block = block $0 "\n"; next }
    /^<!-- example: [A-Za-z_]+ -->$/ {
      name = $3
      example_here = 1
      if (!(name in code)) complain("there is no example " name)
    }
    name != "" && /^```(cpp|text)$/ {
      kind = substr($0, 4)
      inside = 1
      block = ""
    }
    { emit($0) }
    END {
      if (page != "" && !example_here) { print page ": has no example" > "/dev/stderr"; bad = 1 }
      for (name in code) {
        if (!((name, "cpp") in seen)) { print "no page has the example " name > "/dev/stderr"; bad = 1 }
        if (!((name, "text") in seen)) { print "no page says what the example " name " prints" > "/dev/stderr"; bad = 1 }
      }
      exit bad
    }' "$here"/*.cpp $(find "$pages" -name '*.md' ! -name README.md | sort)
}

rc=0
compare || rc=1
if ((renew)); then
  for page in "$pages"/*.md.new; do mv -- "$page" "${page%.new}"; done
fi
# The index has every page, and each of its pages is there.
for page in "$pages"/*.md; do
  name=${page##*/}
  [[ $name == README.md ]] || grep -qF "($name)" "$pages/README.md" && continue
  printf '%s is not in docs/reference/README.md\n' "$name" >&2
  rc=1
done
for name in $(grep -oE '\([A-Za-z_]+[.]md\)' "$pages/README.md" | tr -d '()'); do
  [[ -f $pages/$name ]] && continue
  printf 'docs/reference/README.md: there is no %s\n' "$name" >&2
  rc=1
done
exit "$rc"
