#!/usr/bin/env bash
# How long `tril serve` takes until it answers, and how much memory it takes beside `tril translate`.
#   start.sh TRIL MAKE_MODEL TRIL_LOAD TOKENIZER-FOLDER LINES
# MAKE_MODEL and TRIL_LOAD are built with the tests. TOKENIZER-FOLDER holds a tokenizer.model for the base model, in
# int8; the tiny one is make_model's own. Every time is the median of 11 starts, from the start of the process to the
# first answer of /readyz, with the files in the page cache. Memory is the peak (VmHWM) after the same LINES, beam 4, with
# the same --batch: from a file, and from 64 clients, one line a request. Prints each figure with its goal (at most 100 ms
# for the tiny model, 1 s for the base model, 1.2 times the memory); exits with 1 where a request failed.
set -euo pipefail
tril=$1 make_model=$2 load=$3 tokenizer=$4 lines=$5
export CUDA_VISIBLE_DEVICES=
scratch=$(mktemp -d)
server='' translating=''
trap 'kill $server $translating 2>/dev/null || true; rm -rf -- "$scratch"' EXIT
"$make_model" "$scratch/tiny" translate
"$make_model" "$scratch/base" base 5 "$tokenizer"
"$tril" quantize "$scratch/base" --to int8 >/dev/null 2>&1
# Nothing is ever written to this pipe: `read` from it waits without starting a process.
exec {quiet}<> <(:)

# start MODEL OPTION...: begins a server; sets `port` as soon as it says where it listens, which is when it is ready.
start() {
  : >"$scratch/log"
  "$tril" serve "m=$1" --listen 127.0.0.1:0 "${@:2}" >"$scratch/log" &
  server=$!
  local line=''
  until [[ $line == *serving* ]]; do
    kill -0 "$server"
    read -r -t 0.001 -u "$quiet" _ || true
    read -r line <"$scratch/log" || true
  done
  port=${line##*:}
}
stop() {
  kill "$server" && wait "$server"
  server=''
}
peak() { awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }

for model in tiny base; do
  flags=() goal=100
  [[ $model == base ]] && flags=(--compute int8) goal=1000
  for _ in {1..11}; do
    begin=${EPOCHREALTIME/[.,]/}
    start "$scratch/$model" "${flags[@]}"
    # Bash's own sockets: starting curl would take as long as the server does.
    exec {one}<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /readyz HTTP/1.1\r\nHost: m\r\n\r\n' >&"$one"
    read -r -u "$one" answer
    [[ $answer == *' 200 '* ]]
    printf '%d\n' $((${EPOCHREALTIME/[.,]/} - begin)) >>"$scratch/times-$model"
    exec {one}>&-
    stop
  done
  sort -n "$scratch/times-$model" | awk -v model="$model" -v goal="$goal" '
    { t[NR] = $1 / 1000 }
    END { printf "start, %s: %.0f ms (%.0f to %.0f), goal %d: %s\n", model, t[6], t[1], t[11], goal, t[6] <= goal ? "yes" : "NO" }'
done

options=(--compute int8 --batch 128)
"$tril" translate "$scratch/base" "${options[@]}" --beam 4 --max-tokens 64 <"$lines" >/dev/null 2>"$scratch/errors" &
translating=$!
while kill -0 "$translating" 2>/dev/null; do
  peak "$translating" >"$scratch/now" 2>/dev/null && [[ -s $scratch/now ]] && mv "$scratch/now" "$scratch/peak"
  sleep 0.05
done
wait "$translating" || { cat "$scratch/errors" >&2; exit 1; }
translating=''
start "$scratch/base" "${options[@]}" --max-queue 100000000
"$load" "http://127.0.0.1:$port" "$lines" --clients 64 --requests "$(wc -l <"$lines")" \
  --options '{"beam": 4, "max_tokens": 64}' --report "$scratch/report"
grep -q '"errors": {}' "$scratch/report" || { printf 'requests failed: %s\n' "$(grep '"errors"' "$scratch/report")" >&2; exit 1; }
awk -v serve="$(peak "$server")" -v translate="$(cat "$scratch/peak")" 'BEGIN {
  ratio = serve / translate
  printf "memory, base int8: serve %s MiB, translate %s MiB, ratio %.2f, goal 1.2: %s\n", serve, translate, ratio,
    ratio <= 1.2 ? "yes" : "NO"
}'
stop
