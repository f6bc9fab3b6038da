#!/usr/bin/env bash
# Kills a training run at random moments, twenty times, in every way there is, and takes it up again
# each time: it must end in the same bits as a run that was never stopped.
#   kill.sh PATH-TO-TRIL [KILLS]
set -u
tril=$1
kills=${2:-20}
scratch=$(mktemp -d)
trap 'kill -9 "$run" 2>/dev/null; rm -rf "$scratch"' EXIT
run=

# Four hundred pairs of a made-up language.
awk -v source="$scratch/source" -v target="$scratch/target" 'BEGIN {
  state = 12345
  for (i = 0; i < 400; ++i) {
    s = t = ""
    state = (state * 1103 + 12345) % 65536
    for (n = state % 6 + 1; n > 0; --n) {
      state = (state * 1103 + 12345) % 65536
      w = int(state / 7) % 40
      s = s "w" w " "
      t = t "W" (w * 3 % 40) " "
    }
    print s > source
    print t > target
  }
}'
head -n 40 "$scratch/source" >"$scratch/valid_source"
head -n 40 "$scratch/target" >"$scratch/valid_target"
options=(--source "$scratch/source" --target "$scratch/target"
         --valid-source "$scratch/valid_source" --valid-target "$scratch/valid_target"
         --vocab 360 --model 32 --heads 2 --feed-forward 64 --encoder-layers 1 --decoder-layers 1
         --batch-tokens 512 --micro-batch-tokens 256 --max-tokens 64 --bpe-dropout 0.1
         --updates 1500 --evaluate-every 10 --log-every 5 --patience 1000)

"$tril" train "${options[@]}" -o "$scratch/whole" --threads 2 2>"$scratch/err" ||
  { printf 'the run that is never stopped failed:\n'; cat "$scratch/err"; exit 1; }

RANDOM=4711
signals=(KILL KILL KILL TERM INT)
landed=0
for ((i = 0; i < kills; ++i)); do
  start=(--resume)
  [ -e "$scratch/parts/training/checkpoint.safetensors" ] || start=("${options[@]}" --overwrite)
  "$tril" train "${start[@]}" -o "$scratch/parts" --threads $((i % 3 + 1)) 2>"$scratch/err" &
  run=$!
  sleep "0.$(printf '%03d' $((RANDOM % 400 + 20)))"
  signal=${signals[RANDOM % 5]}
  kill -"$signal" "$run" 2>/dev/null && landed=$((landed + 1))
  wait "$run" 2>/dev/null
done
# A run that was finished in between counts for nothing: the moments must have been real.
if ((landed < kills * 3 / 4)); then
  printf 'only %d of %d signals met a running program\n' "$landed" "$kills"
  exit 1
fi
"$tril" train --resume -o "$scratch/parts" 2>"$scratch/err" ||
  { printf 'the last sitting failed:\n'; cat "$scratch/err"; exit 1; }

failures=0
for file in model.safetensors last/model.safetensors tokenizer.model config.json; do
  cmp "$scratch/whole/$file" "$scratch/parts/$file" || failures=$((failures + 1))
done
for run_folder in whole parts; do
  sed 's/, "seconds": [^,}]*//' "$scratch/$run_folder/training/log.jsonl" >"$scratch/$run_folder.log"
done
cmp "$scratch/whole.log" "$scratch/parts.log" || failures=$((failures + 1))
left=$(find "$scratch/parts" -name '*.tmp' | wc -l)
if ((failures == 0)); then
  printf '%d signals, %d while it ran: the same bits (%d temporary files left by kill -9)\n' \
    "$kills" "$landed" "$left"
fi
exit "$((failures > 0))"
