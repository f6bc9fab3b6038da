#!/usr/bin/env bash
# `tril serve` on a GPU beside `tril bench`: 512 requests in flight, the model and the work of the bench.
#   on_cuda.sh TRIL MAKE_MODEL TRIL_LOAD FOLDER LINES
# MAKE_MODEL and TRIL_LOAD are built with the tests. FOLDER holds a tokenizer.model of 61,950 subword tokens, as many as
# the bench's model has ('tril train --vocab 61950 --updates 1' learns one); LINES has lines of 31 of them (32 with END).
# 64 tokens are written for each. Prints tokens per second, latencies in ms, and how long one client's stream takes.
set -euo pipefail
tril=$1 make_model=$2 load=$3 tokenizer=$4 lines=$5
scratch=$(mktemp -d)
server=
trap 'kill "$server" 2>/dev/null || true; rm -rf -- "$scratch"' EXIT
"$make_model" "$scratch/base" base 5 "$tokenizer"
"$tril" bench --device cuda --only translate 2>/dev/null | grep -E 'tokens/s|batch 256' | grep -v free

# numbers NAME...: of the report.
numbers() {
  local name
  for name in "$@"; do grep "\"$name\"" "$scratch/report" | sed 's/^ *//' | tr -d '\n'; done
  printf '\n'
}
for beam in 1 4; do
  "$tril" serve "m=$scratch/base" --device cuda --listen 127.0.0.1:0 --cache 0 --max-queue 100000000 \
    --batch $((256 * beam)) >"$scratch/log" &
  server=$!
  until grep -q serving "$scratch/log"; do
    sleep 0.1
    kill -0 "$server"
  done
  address=$(sed -n 's/.* at //p' "$scratch/log")
  options="{\"beam\": $beam, \"min_tokens\": 64, \"max_tokens\": 64}"
  "$load" "$address" "$lines" --clients 512 --warm-up 3 --seconds 10 --options "$options" --report "$scratch/report"
  printf 'beam %d, 512 clients: %s\n' "$beam" "$(numbers errors target_tokens_per_second latency_ms own_cpu_share)"
  "$load" "$address" "$lines" --clients 1 --warm-up 1 --seconds 4 --stream 1 --options "$options" --report "$scratch/report"
  printf 'beam %d, one stream: %s\n' "$beam" "$(numbers first_event_ms latency_ms)"
  kill "$server"
  wait "$server"
done
