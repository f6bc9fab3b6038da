#!/usr/bin/env bash
# `tril serve` on a GPU beside `tril bench`: 512 requests in flight, the model and the work of the bench.
#   on_cuda.sh TRIL MAKE_MODEL TRIL_LOAD FOLDER LINES
# MAKE_MODEL and TRIL_LOAD are built with the tests. FOLDER holds a tokenizer.model of 61,950 subword tokens, as many as
# the bench's model has ('tril train --vocab 61950 --updates 1' learns one); LINES has lines of 31 of them (32 with END).
# 64 tokens are written for each. Every answer must be what `tril translate` prints on the same GPU. Prints tokens per
# second, and their share of the bench's, whose goal is 0.7, latencies in ms, and how long one client's stream takes.
# Exits with 1 where a request failed or an answer differs.
set -euo pipefail
tril=$1 make_model=$2 load=$3 tokenizer=$4 lines=$5
scratch=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf -- "$scratch"' EXIT
"$make_model" "$scratch/base" base 5 "$tokenizer"
"$tril" bench --device cuda --only translate --match 'batch 256' --json >"$scratch/bench"

# numbers NAME...: of the report.
numbers() {
  local name
  for name in "$@"; do grep "\"$name\"" "$scratch/report" | sed 's/^ *//' | tr -d '\n'; done
  printf '\n'
}
# measure ARGUMENT...: lets tril_load ask, and compare the answers.
measure() {
  "$load" "$address" "$lines" --options "$options" --verify "$scratch/golden" --report "$scratch/report" "$@" || {
    printf 'answers differ: %s\n' "$(numbers checked wrong unequal torn)" >&2
    exit 1
  }
  grep -q '"errors": {}' "$scratch/report" || { printf 'requests failed: %s\n' "$(numbers errors)" >&2; exit 1; }
}
for beam in 1 4; do
  search=(--beam "$beam" --min-tokens 64 --max-tokens 64)
  options="{\"beam\": $beam, \"min_tokens\": 64, \"max_tokens\": 64}"
  "$tril" translate "$scratch/base" --device cuda "${search[@]}" --batch $((256 * beam)) <"$lines" >"$scratch/golden" \
    2>"$scratch/errors" || { cat "$scratch/errors" >&2; exit 1; }
  : >"$scratch/log"
  "$tril" serve "m=$scratch/base" --device cuda --listen 127.0.0.1:0 --cache 0 --max-queue 100000000 \
    --batch $((256 * beam)) >"$scratch/log" &
  server=$!
  until grep -q serving "$scratch/log"; do
    sleep 0.1
    kill -0 "$server"
  done
  address=$(sed -n 's/.* at //p' "$scratch/log")
  measure --clients 512 --warm-up 3 --seconds 10
  name=$( ((beam == 1)) && echo 'base greedy, batch 256' || echo "base beam $beam, batch 256")
  bench=$(awk -v name="\"$name\"" 'index($0, name) { here = 1 } here && /tokens_per_s/ { print $2 + 0; exit }' "$scratch/bench")
  [[ -n $bench ]] || { printf 'tril bench has no "%s"\n' "$name" >&2; exit 1; }
  printf 'beam %d, 512 clients: %s\n' "$beam" "$(numbers checked target_tokens_per_second latency_ms own_cpu_share)"
  numbers target_tokens_per_second | awk -v beam="$beam" -v bench="$bench" -F '[:,]' '{
    printf "beam %d: %.0f tokens/s, tril bench %.0f, ratio %.2f, goal 0.7: %s\n", beam, $2, bench, $2 / bench,
      (0.7 <= $2 / bench ? "yes" : "NO")
  }'
  measure --clients 1 --warm-up 1 --seconds 4 --stream 1
  printf 'beam %d, one stream: %s\n' "$beam" "$(numbers first_event_ms latency_ms)"
  kill "$server"
  wait "$server"
  server=
done
