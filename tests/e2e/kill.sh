#!/usr/bin/env bash
# Kills a training run at random moments, twenty times, in every way there is, and takes it up again
# each time: it must end in the same bits as a run that was never stopped.
# With `tune` it is a run that begins with a model and leaves a part of it frozen.
#   kill.sh PATH-TO-TRIL [KILLS [tune]]
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
text=(--source "$scratch/source" --target "$scratch/target"
      --valid-source "$scratch/valid_source" --valid-target "$scratch/valid_target")
shape=(--vocab 360 --model 32 --heads 2 --feed-forward 64 --encoder-layers 1 --decoder-layers 1)
updates=1500
if [ "${3:-}" = tune ]; then
  updates=300
  "$tril" train "${text[@]}" "${shape[@]}" --batch-tokens 512 --updates 20 --evaluate-every 20 \
    -o "$scratch/base" 2>"$scratch/err" || { cat "$scratch/err"; exit 1; }
  shape=(--from "$scratch/base" --freeze encoder --dropout 0.2)
fi
options=("${text[@]}" "${shape[@]}"
         --batch-tokens 512 --micro-batch-tokens 256 --max-tokens 64 --bpe-dropout 0.1
         --updates $updates --evaluate-every 10 --log-every 5 --patience 1000)

"$tril" train "${options[@]}" -o "$scratch/whole" --threads 2 2>"$scratch/err" ||
  { printf 'the run that is never stopped failed:\n'; cat "$scratch/err"; exit 1; }

sed 's/, "\(seconds\|tokens_per_second\)": [^,}]*//g' "$scratch/whole/training/log.jsonl" >"$scratch/whole.log"

# Whether the run in parts has ended in the same bits.
failures=0
compare() {
  local file
  for file in model.safetensors last/model.safetensors tokenizer.model config.json; do
    cmp "$scratch/whole/$file" "$scratch/parts/$file" || failures=$((failures + 1))
  done
  sed 's/, "\(seconds\|tokens_per_second\)": [^,}]*//g' "$scratch/parts/training/log.jsonl" >"$scratch/parts.log"
  cmp "$scratch/whole.log" "$scratch/parts.log" || failures=$((failures + 1))
}

# How the next attempt starts: from scratch if there is no checkpoint.
begin() {
  start=(--resume)
  [ -e "$scratch/parts/training/checkpoint.safetensors" ] || start=("${options[@]}" --overwrite)
}

RANDOM=4711
signals=(KILL KILL KILL TERM INT)
landed=0
for ((i = 0; landed < kills && i < 5 * kills; ++i)); do
  begin
  env --default-signal=INT "$tril" train "${start[@]}" -o "$scratch/parts" --threads $((i % 3 + 1)) 2>"$scratch/err" &
  run=$!
  sleep "0.$(printf '%03d' $((RANDOM % 400 + 20)))"
  kill -"${signals[RANDOM % 5]}" "$run" 2>/dev/null
  wait "$run" 2>/dev/null
  code=$?
  if ((code > 128)); then
    landed=$((landed + 1))
  elif ((code == 0)); then # it was done before the signal came: another one begins
    compare
    rm -rf "$scratch/parts"
  else
    printf 'a sitting failed:\n'
    cat "$scratch/err"
    exit 1
  fi
done
if ((landed < kills)); then
  printf 'only %d of %d signals met a running program\n' "$landed" "$kills"
  exit 1
fi
begin
"$tril" train "${start[@]}" -o "$scratch/parts" 2>"$scratch/err" ||
  { printf 'the last sitting failed:\n'; cat "$scratch/err"; exit 1; }
compare
left=$(find "$scratch/parts" -name '*.tmp' | wc -l)
if ((failures == 0)); then
  printf '%d signals while it ran: the same bits (%d temporary files left by kill -9)\n' "$landed" "$left"
fi
exit "$((failures > 0))"
