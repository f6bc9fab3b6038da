#!/usr/bin/env bash
# `tril serve` under what the world does to servers: thousands of connections that say nothing, the
# four modes of slowhttptest, clients that vanish, SIGTERM in the middle of everything, and requests
# without end. With TRIL_FULL=1 it takes some minutes; slowhttptest is left out where it is missing.
#   holds.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL PATH-TO-TRIL_LOAD
set -u
export LC_ALL=C.UTF-8
tril=$(realpath "$1")
make_model=$(realpath "$2")
load=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
need curl
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
cd "$scratch" || exit 1
: >out
: >err
"$make_model" model translate || exit 1
printf '%s\n' 'how are you' 'I am fine, thank you' 'where are they going?' 'the theory that they gathered' >lines
repeats=$([ -n "${TRIL_FULL-}" ] && echo 100 || echo 5)
requests=$([ -n "${TRIL_FULL-}" ] && echo 100000 || echo 5000)

# livez: milliseconds that /livez took, 100 times on a new connection each, into the file livez.
livez() {
  local -a urls=()
  local i
  for i in {1..100}; do urls+=("$url/livez" -o /dev/null); done
  curl -sS -H 'Connection: close' --max-time 5 -w '%{http_code} %{time_total}\n' "${urls[@]}" |
    awk '{ print $1 == 200 ? 1000 * $2 : 1e9 }' | sort -n >livez
}
# quick WHAT: that was under 50 ms. One in a hundred is let off: another process may have had the core.
quick() {
  livez
  [ "$(wc -l <livez)" -eq 100 ] || fail "$1: /livez did not answer every time"
  printf '%s: /livez took %.1f ms in the middle, %.1f ms at most, but for one\n' "$1" "$(sed -n 50p livez)" \
    "$(sed -n 99p livez)"
  awk 'NR == 99 && $1 >= 50 { exit 1 }' livez || fail "$1: /livez took $(sed -n 99p livez) ms"
}
metric() { curl -sS "$url/metrics" | awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }'; }
# number NAME: of the report.
number() { sed -nE "s/.*\"$1\": ([0-9.]+).*/\1/p" report | head -n 1; }
# all_answered REQUESTS: so many were sent, none failed, and each was answered unless its client left.
all_answered() {
  grep -q '"errors": {}' report && (($(number sent) == $1)) && (($(number answered) + $(number cancelled) == $1))
}
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }

# --- Connections that say nothing, and such as speak slowly.
ulimit -n "$(ulimit -H -n)" 2>/dev/null
silent=2000
if [ "$(ulimit -n)" != unlimited ] && (($(ulimit -n) < silent + 100)); then
  silent=$(($(ulimit -n) / 2))
  printf 'skipped: 2000 idle connections: with %d descriptors only %d\n' "$(ulimit -n)" "$silent" >&2
fi
serve en-hi=model
host=${url#http://}
port=${host##*:}
quick 'nobody else'
idle=()
for ((i = 0; i < silent; ++i)); do
  exec {one}<>"/dev/tcp/127.0.0.1/$port" || break
  idle+=("$one")
done
[ "${#idle[@]}" -eq "$silent" ] || fail "only ${#idle[@]} of $silent idle connections could be opened"
for ((i = 0; i < 100; ++i)); do (($(metric tril_connections) >= ${#idle[@]})) && break; sleep 0.05; done
(($(metric tril_connections) >= ${#idle[@]})) || fail 'the idle connections were not accepted'
quick "${#idle[@]} idle connections"
for one in "${idle[@]}"; do exec {one}>&-; done

if command -v slowhttptest >/dev/null; then
  for mode in '-H' '-B' '-X' '-R'; do
    path=/openapi.json verb=GET
    [ "$mode" = -B ] && path=/v1/translate verb=POST
    slowhttptest "$mode" -c 1000 -r 400 -i 2 -l 12 -p 2 -k 3 -u "$url$path" -t "$verb" >"slow$mode" 2>&1 </dev/null &
    slow=$!
    # Requests with many ranges are simply answered, so that test is soon over.
    sleep "$([ "$mode" = -R ] && echo 1 || echo 5)"
    [ "$mode" = -R ] || kill -0 "$slow" 2>/dev/null || { cp "slow$mode" out; fail "slowhttptest $mode ended at once"; }
    quick "slowhttptest $mode"
    wait "$slow"
    # Its report is coloured.
    sed -E 's/\x1b\[[0-9;]*m//g' "slow$mode" >out
    grep -aq '^service available: *YES' out || fail "slowhttptest $mode: it has not found the server available"
    grep -aq '^service available: *NO' out && fail "slowhttptest $mode: not available"
  done
else
  printf 'skipped: no slowhttptest here\n' >&2
fi
# What it took from the model's name is all it has to say.
grep -v ', as its name says$' server-0.err >err && fail 'the server wrote to stderr'
stop

# --- Who goes away frees what was being made: 40 streams whose clients are killed.
serve en-hi=model --cache 0
long="{\"text\": [$(printf '"how are you, I am fine %s",' {1..60})\"you\"], \"beam\": 16, \"stream\": true}"
for i in {1..40}; do
  curl -sN -o /dev/null "$url/v1/translate" -d "$long" &
  clients[i]=$!
  disown # so that the shell does not report its end
done
for ((i = 0; i < 200; ++i)); do (($(metric tril_sentences_in_flight) > 2000)) && break; sleep 0.02; done
before=$(metric tril_sentences_in_flight)
((before > 1000)) || fail "only $before sentences were in flight"
kill -KILL "${clients[@]}"
begin=$EPOCHREALTIME
while (($(metric tril_sentences_in_flight) > 0)) && ((${EPOCHREALTIME%.*} - ${begin%.*} < 20)); do :; done
left=$(metric tril_sentences_in_flight)
((left == 0)) || fail "$left sentences are still being translated after their clients left"
(($(metric tril_cancelled_total) == 40)) || fail "$(metric tril_cancelled_total) of 40 were counted as gone"
printf 'gone: %d sentences in flight, none %d ms after their clients were killed\n' "$before" \
  $(((${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 1000))
stop

# --- SIGTERM at a random moment: every request that was accepted is answered.
RANDOM=7
answered=0
for ((turn = 0; turn < repeats; ++turn)); do
  serve en-hi=model --cache 0
  "$load" "$url" lines --clients 24 --seconds 0.6 --header 'Connection: close' --seed "$turn" --stream 0.3 \
    --options '{"beam": 4}' --report report 2>err &
  loading=$!
  sleep "0.$((100 + RANDOM % 300))"
  stop
  wait "$loading" || fail "turn $turn: the load generator failed"
  cp report out
  answered=$((answered + $(number answered)))
  # After its end nobody is there to connect to.
  sed -n 's/.*"errors": {\(.*\)}.*/\1/p' report | grep -oE '"[^"]+": [0-9]+' | grep -v '"connect"' >wrong &&
    fail "turn $turn: $(paste -sd ' ' wrong)"
done
((answered > 10 * repeats)) || fail "only $answered requests were answered in $repeats turns"
printf 'SIGTERM: %d turns, %d requests answered, none that was accepted was lost\n' "$repeats" "$answered"

# --- Requests without end: memory after a tenth of them is that at the end.
serve en-hi=model --cache 1
for part in 1 9; do
  "$load" "$url" lines --clients 16 --requests $((requests * part / 10)) --seed $part --stream 0.2 --cancel 0.05 \
    --options '{"beam": 2}' --report report 2>err || fail "many requests: $(cat report err)"
  all_answered $((requests * part / 10)) || fail "many requests: $(cat report)"
  held+=("$(resident)")
done
printf 'memory: %d KiB after %d requests, %d KiB after %d\n' "${held[0]}" $((requests / 10)) "${held[1]}" "$requests"
((held[1] < held[0] + 8192)) || fail 'memory grows with the number of requests'
(($(metric tril_requests_in_flight) <= 1)) || fail 'requests are still in flight'
stop
exit "$((failures > 0))"
