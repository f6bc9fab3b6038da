#!/usr/bin/env bash
# deploy/tril.service: what systemd thinks of it, whether the server makes only the system calls that
# the unit allows, and whether it tells systemd that it is ready and that it ends. Without systemd's
# own tools the exit code is 77; without strace or Python what needs them is left out, with a message.
#   unit.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
deploy=$(realpath "$here/../../deploy")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
need systemd-analyze curl
cd "$scratch" || exit 1
"$make_model" model translate || exit 1
python=${TRIL_PYTHON:-python3}

# The unit with this program in it.
sed "s|/usr/bin/tril|$tril|" "$deploy/tril.service" >tril.service
expect 0 'verify' systemd-analyze verify "$scratch/tril.service"
[ -s err ] && fail 'verify: a warning'
# The rating is in tenths: 20 is 2.0, and lower is stricter.
expect 0 'security' systemd-analyze security --offline=true --threshold=20 "$scratch/tril.service"
grep 'Overall exposure' out

# The command as the unit gives it, with what tril.env says.
set -a
# shellcheck source=deploy/tril.env
source "$deploy/tril.env"
set +a
TRIL_MODELS="en-hi=$scratch/model" TRIL_LISTEN=127.0.0.1:0
sed -n 's/^#\([^ ].*\)/\1/p' "$deploy/keys.example" >keys # its examples are commented out
key=$(cut -d ' ' -f 1 keys | head -n 1)
start=$(sed -n 's|^ExecStart=[^ ]* serve ||p' "$deploy/tril.service")
start=${start//%d/$scratch}
# shellcheck disable=SC2206 # words, as systemd splits them
arguments=($(eval "printf '%s\n' $start"))

# Every system call, against the lists of the unit: those allowed, then those taken away.
calls_of() { systemd-analyze syscall-filter "$1" | sed -n 's/^ *\([a-z0-9_@-]*\)$/\1/p' | grep -v '^#'; }
expand() {
  local each
  for each in $(calls_of "$1"); do
    case $each in
      "$1") ;;
      @*) expand "$each" ;;
      *) printf '%s\n' "$each" ;;
    esac
  done
}
if command -v strace >/dev/null; then
  mapfile -t filters < <(sed -n 's/^SystemCallFilter=//p' "$deploy/tril.service")
  : >allowed
  for filter in "${filters[@]}"; do
    for group in ${filter#\~}; do
      if [[ $group == @* ]]; then expand "$group"; else printf '%s\n' "$group"; fi
    done | sort -u >group
    if [[ $filter == \~* ]]; then sort -u allowed | comm -23 - group >rest; else sort -u allowed group >rest; fi
    mv rest allowed
  done
  printf '%s\n' '#!/bin/sh' "exec strace -f -qq -o '$scratch/calls' '$tril' \"\$@\"" >traced
  chmod +x traced
  # systemd starts the program before the filter counts: its own execve is not traced here, either.
  tril=$scratch/traced serve "${arguments[@]}"
  traced=$(pgrep -P "$server")
  helpers+=("$traced") # which outlives strace
  expect 0 'a stream under strace' curl -sSf --noproxy '*' -o /dev/null -H "Authorization: Bearer $key" \
    "$url/v1/translate" -H 'Content-Type: application/json' -d '{"text": "how are you", "stream": true}'
  expect 0 'an explanation under strace' curl -sSf --noproxy '*' -o /dev/null -H "Authorization: Bearer $key" \
    "$url/explain?text=how&model=en-hi"
  kill -TERM "$traced"
  ended
  sed -nE 's/^[0-9]+ +(<\.\.\. )?([a-z0-9_]+)(\(| resumed).*/\2/p' calls | sort -u >made
  [ -s made ] || fail 'no system call was traced'
  comm -23 made allowed | grep -vx execve >forbidden
  # What fails without harm: the limit of descriptors, which the unit sets.
  grep -vxE 'setrlimit|prlimit64' forbidden >out && fail 'system calls that the unit forbids'
  printf '%d kinds of system calls, %d of them not allowed: %s\n' "$(wc -l <made)" "$(wc -l <forbidden)" \
    "$(paste -sd ' ' forbidden)"
else
  printf 'skipped: no strace here\n' >&2
fi

# READY=1 when it answers, STOPPING=1 when it ends.
if command -v "$python" >/dev/null; then
  cat >listen.py <<'END'
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
print('listening', flush=True)
listener.settimeout(120)
while True:
    message = listener.recv(4096).decode()
    print(message, flush=True)
    if 'STOPPING=1' in message:
        break
END
  "$python" listen.py "$scratch/notify" >told 2>&1 &
  listener=$!
  until grep -qs listening told || ! kill -0 "$listener" 2>/dev/null; do sleep 0.05; done
  export NOTIFY_SOCKET=$scratch/notify
  serve "${arguments[@]}"
  sleep 0.2
  grep -q '^READY=1' told || fail 'READY=1 was not told'
  expect 0 'a key of the example' curl -sSf --noproxy '*' -o /dev/null -H "Authorization: Bearer $key" "$url/v1/models"
  expect 22 'no key' curl -sSf --noproxy '*' -o /dev/null "$url/v1/models"
  stop
  wait "$listener"
  grep -q '^STOPPING=1' told || fail 'STOPPING=1 was not told'
else
  printf 'skipped: no Python here\n' >&2
fi
exit "$((failures > 0))"
