# Shared by the scripts in this folder. Sourced after e2e/expect.sh; needs `tril` and `scratch`, the
# program and a folder of the script's own. Every server that was started is stopped at the end, and
# every process of `helpers`, a list of such as go on until they are told to end. A line that begins
# with "skipped" says what was left out; ./check shows it. Where the program was built without a
# server, the script ends with 77, which means skipped.
servers=()
helpers=()
started=0

# serve ARGUMENTS...: starts `tril serve ARGUMENTS` on a free port of this machine, unless they name
# where to listen, and waits until it is ready. Sets `url` and `server`, its process.
serve() {
  local log=$scratch/server-$((started++))
  [[ " $* " == *' --listen '* ]] || set -- "$@" --listen 127.0.0.1:0
  : >"$log.out"
  "$tril" serve "$@" >"$log.out" 2>"$log.err" </dev/null &
  server=$!
  servers+=("$server")
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    url=$(sed -n 's/^tril: serving .* at //p' "$log.out")
    [ -n "$url" ] && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  printf 'no server: tril serve %s\n' "$*" >&2
  cat "$log.out" "$log.err" >&2
  exit 1
}

# ended [EXIT-CODE]: waits for the end of the last server, which must have that code, 0 by default.
ended() {
  local code=0 tries
  for ((tries = 0; tries < 900; ++tries)); do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$server" 2>/dev/null && fail "the server does not end: $(cat "$scratch"/server-*.err)"
  wait "$server" 2>/dev/null || code=$?
  [ "$code" -eq "${1:-0}" ] || fail "the server ended with $code, not ${1:-0}"
  unset 'servers[-1]'
}

# stop [EXIT-CODE]: ends the last server as systemd does.
stop() {
  kill -TERM "$server"
  ended "$@"
}

stop_all() {
  local each
  for each in "${helpers[@]}"; do kill -TERM "$each" 2>/dev/null; done
  for each in "${helpers[@]}"; do wait "$each" 2>/dev/null; done
  for each in "${servers[@]}"; do
    kill -KILL "$each" 2>/dev/null && wait "$each" 2>/dev/null
  done
  rm -rf -- "$scratch"
}
trap stop_all EXIT

# python_with PACKAGE...: sets `python` to an interpreter that has these, or ends the script with 77,
# which means skipped. TRIL_PYTHON chooses an interpreter.
python_with() {
  local imports
  imports=$(printf 'import %s\n' "$@")
  python=${TRIL_PYTHON:-python3}
  if ! "$python" -c "$imports" 2>/dev/null; then
    printf 'skipped: %s has not all of: %s (TRIL_PYTHON chooses a Python)\n' "$python" "$*" >&2
    exit 77
  fi
}

# need PROGRAM...: ends the script with 77 where one is missing.
need() {
  local each
  for each in "$@"; do
    command -v "$each" >/dev/null || { printf 'skipped: no %s here\n' "$each" >&2; exit 77; }
  done
}

if ! "$tril" info --json | grep -q '"serve_problem": ""'; then
  printf 'skipped: this build has no server\n' >&2
  exit 77
fi
