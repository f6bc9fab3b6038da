#!/usr/bin/env bash
# Hashes of what a build of tril makes, to compare two trees: a refactoring must change none.
#
#   scripts/record_bits.sh PROGRAM LINES DEVICE [--quick] > FILE
#
# PROGRAM is a built tril, LINES a file of at least 1,000 English lines, DEVICE cpu or cuda. It trains
# the demo's model and five models of different configurations on the built-in phrasebook, translates
# 1,000 lines in every form of weights, greedily, by beam search and by sampling, scores the results,
# and prints one "HASH NAME" per result. --quick uses 100 lines and skips the demo. Compare with diff.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$(realpath "$1") lines=$(realpath "$2") device=$3 quick=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
count=1000
[ -z "$quick" ] || count=100
head -n "$count" "$lines" > lines.en
[ "$(wc -l < lines.en)" -eq "$count" ] || { echo "$lines has fewer than $count lines" >&2; exit 2; }

hashed() { echo "$(sha256sum | cut -c1-16) $1"; }

"$program" demo --dump book > /dev/null
if [ -z "$quick" ] && [ "$device" = cpu ]; then
  "$program" demo -o demo > /dev/null 2>&1
  hashed demo-model < demo/model.safetensors
fi

# name, then options of a configuration
train() {
  local name=$1
  shift
  "$program" train -o "$name" --device "$device" --updates 60 --warm-up 20 --batch-tokens 2048 \
    --vocab 1500 --max-length 160 --max-tokens 128 --evaluate-every 60 --log-every 60 "$@" > /dev/null 2>&1
  hashed "train-$name" < "$name/model.safetensors"
}
pairs=(--source book/train.en --target book/train.hi)
valid=(--valid-source book/test.en --valid-target book/test.hi)
train plain "${pairs[@]}" --micro-batch-tokens 1024
train post "${pairs[@]}" --norm-position post --activation gelu --position learned --tied 0 \
  --output-bias 1 --rate 0.001
train rotary "${pairs[@]}" "${valid[@]}" --norm rms --position rotary --kv-heads 2 \
  --activation silu --gated 1 --bias 0 --window 12
train alibi "${pairs[@]}" --position alibi --embedding-norm 1 --model 96 --heads 3 \
  --encoder-layers 2 --decoder-layers 3 --average checkpoints
train text --text book/train.en --position rotary

kinds="fp32 bf16"
[ "$device" = cuda ] || kinds="fp32 bf16 int8 bf16-dot"
translate() {  # name, model, options
  local name=$1 model=$2
  shift 2
  "$program" translate "$model" --input lines.en --device "$device" --json "$@" 2> /dev/null |
    tee "$name.json" | hashed "$name"
  [ -s "$name.json" ] || { echo "$name: translate printed nothing" >&2; exit 1; }
}
for compute in $kinds; do
  if [ "$compute" = bf16-dot ]; then
    "$program" translate plain --input lines.en --compute bf16-dot --beam 1 > /dev/null 2>&1 || continue
  fi
  for beam in 1 5; do
    for model in plain rotary; do
      translate "$model-$compute-beam$beam" "$model" --compute "$compute" --beam "$beam"
    done
  done
  translate "plain-$compute-nbest" plain --compute "$compute" --beam 6 --n-best 6 --length-penalty 1
  translate "plain-$compute-sample" plain --compute "$compute" --sample --top-k 8 --n-best 2
  translate "plain-$compute-nucleus" plain --compute "$compute" --sample --top-p 0.8 --seed 5
  "$program" score plain --source lines.en --target lines.en --device "$device" --compute "$compute" \
    --json 2> /dev/null | hashed "plain-$compute-score"
done
for model in post alibi; do translate "$model-beam4" "$model" --beam 4; done
cut -d' ' -f1-2 lines.en > prefixes
translate plain-prefix plain --beam 3 --prefix prefixes
"$program" generate text --input lines.en --device "$device" --json --max-tokens 20 2> /dev/null |
  hashed text-generate
if [ "$device" = cpu ]; then
  "$program" shortlist plain "${pairs[@]}" > /dev/null 2>&1
  translate plain-shortlist plain --beam 4 --shortlist
  translate plain-alignments plain --beam 2 --alignments
fi
