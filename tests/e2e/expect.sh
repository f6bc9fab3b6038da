# Shared by the scripts in this folder. Sourced; needs `scratch`, a folder of the script's own,
# where the last command's output is left as `out` and `err`.
failures=0

fail() {
  printf 'FAILED: %s\n' "$1"
  sed 's/^/    stdout: /' "$scratch/out" | tail -60 | cut -c 1-300
  sed 's/^/    stderr: /' "$scratch/err" | cut -c 1-300
  failures=$((failures + 1))
}

# expect CODE WHAT COMMAND...: runs the command and compares its exit code.
expect() {
  local code=$1 what=$2 got=0
  shift 2
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
  [ "$got" -eq "$code" ] || fail "$what: exit code $got, expected $code"
}

# prints WHAT PATTERN: the last command's stdout matches.
prints() { grep -q -- "$2" "$scratch/out" || fail "$1: no '$2' on stdout"; }
