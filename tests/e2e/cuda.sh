#!/usr/bin/env bash
# The program on a GPU, from text to a proof: cuda.sh TRIL
# Trains on both devices from one checkpoint to the next, so that a run moves both ways.
set -euo pipefail
tril=$1
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
work=$(mktemp -d "${TMPDIR:-/tmp}/tril-cuda.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
fail() {
  printf 'cuda.sh: %s\n' "$1" >&2
  exit 1
}

"$tril" info | grep -q '^GPU  *cuda:0: .*compute capability' || fail "tril info names no GPU"
rc=0
"$tril" bench --device cuda:63 2>"$work/err" >/dev/null || rc=$?
[[ $rc == 2 ]] && grep -qE '^tril: cuda:63: this machine has [0-9]+ GPUs? \(cuda:0( to cuda:[0-9]+)?\)$' "$work/err" ||
  fail "a GPU that is not there gave another error"

# The guide's phrases, often enough to learn by heart.
for _ in $(seq 40); do cat "$here/../../examples/phrases.en"; done >"$work/train.en"
for _ in $(seq 40); do cat "$here/../../examples/phrases.hi"; done >"$work/train.hi"
flags=(--encoder-layers 2 --decoder-layers 2 --model 64 --heads 4 --feed-forward 128 --vocab 400 --dropout 0
       --batch-tokens 1024 --micro-batch-tokens 1024 --warm-up 40 --rate 3e-3 --evaluate-every 100
       --max-length 256 --seed 7)
train() { "$tril" train --source "$work/train.en" --target "$work/train.hi" -o "$1" --device "$2" "${@:3}"; }

train "$work/a" cuda --updates 200 "${flags[@]}"
train "$work/b" cuda --updates 200 "${flags[@]}"
cmp "$work/a/model.safetensors" "$work/b/model.safetensors" ||
  fail "two runs of training gave other weights"
head -5 "$here/../../examples/phrases.en" >"$work/some.en"
head -5 "$here/../../examples/phrases.hi" >"$work/some.hi"
"$tril" translate "$work/a" --device cuda --beam 4 <"$work/some.en" >"$work/out.hi"
diff "$work/some.hi" "$work/out.hi" || fail "what was learnt by heart is not translated so"
for batch in 1 3; do
  "$tril" translate "$work/a" --device cuda --beam 4 --batch $((4 * batch)) <"$work/some.en" |
    cmp - "$work/out.hi" || fail "another batch gave another translation"
done
"$tril" translate "$work/a" --device cpu --beam 4 <"$work/some.en" >"$work/cpu.hi"
diff "$work/some.hi" "$work/cpu.hi" || fail "the CPU does not translate with the model trained on the GPU"
# A folder with only packed weights is for the CPU, without any flag.
"$tril" quantize "$work/a" --to bf16 -o "$work/packed" >/dev/null
"$tril" translate "$work/packed" --beam 4 <"$work/some.en" | diff "$work/some.hi" - ||
  fail "packed weights alone are not used where there is a GPU"
"$tril" prove "$work/a" --device cuda || fail "the proof fails on the GPU"
rc=0
"$tril" prove "$work/a" --device cuda --unmasked >/dev/null 2>&1 || rc=$?
((rc == 1)) || fail "without the mask the proof should fail with 1, not $rc"

# There and back: continue on the CPU, and continue on the GPU.
train "$work/c" cuda --updates 100 "${flags[@]}"
train "$work/c" cpu --resume --updates 150 "${flags[@]}"
train "$work/c" cuda --resume --updates 200 "${flags[@]}"
"$tril" translate "$work/c" --device cuda --beam 4 <"$work/some.en" >"$work/moved.hi"
diff "$work/some.hi" "$work/moved.hi" || fail "a checkpoint that moved between devices lost something"

# A lost GPU, or a lack of memory, at any moment: one line that says so and how to resume, and
# resuming gives the bits of an undisturbed run.
few=("${flags[@]}" --save-every 20)
train "$work/whole" cuda --updates 120 "${few[@]}"
# with_fault FAULT LINE: whether the fault came before the run was over. Counts runs that were
# resumed after it.
with_fault() {
  local fault=$1 line=$2 rc=0
  rm -rf "$work/broken"
  TRIL_FAULT=$fault train "$work/broken" cuda --updates 120 "${few[@]}" 2>"$work/err" || rc=$?
  if ((rc == 0)); then
    cmp "$work/whole/model.safetensors" "$work/broken/model.safetensors" || fail "$fault: other weights"
    return 1
  fi
  printf '%s: %s\n' "$fault" "$(tail -1 "$work/err")"
  ((rc == 2)) || fail "$fault: exit code $rc"
  (($(grep -c '^tril: ' "$work/err") == 1)) || fail "$fault: not one line"
  tail -1 "$work/err" | grep -q "^tril: $line" || fail "$fault: another error"
  [[ -e $work/broken/training/checkpoint.safetensors ]] || return 0
  tail -1 "$work/err" | grep -q 'to continue: .* train --resume -o ' || fail "$fault: it does not say how to go on"
  "$tril" train --resume -o "$work/broken" --device cuda
  cmp "$work/whole/model.safetensors" "$work/broken/model.safetensors" ||
    fail "$fault: resumed, it ended in other weights"
  resumed=$((resumed + 1))
}
resumed=0
for number in 1 200 700 1000 1050 1100; do
  with_fault "lost-device@$number" 'cuda: the GPU was lost' || break
done
((resumed >= 3)) || fail "only $resumed runs went on behind a card that was lost"
resumed=0
for ((number = 3; number < 200; number += 9)); do
  with_fault "memory@$number" 'train: out of memory' || break
done
((resumed >= 1)) || fail "no run went on behind memory that ended"
rc=0
TRIL_FAULT=lost-device@200 "$tril" translate "$work/a" --device cuda <"$work/some.en" >/dev/null 2>"$work/err" || rc=$?
((rc == 2)) || fail "translating on a lost card should end with 2, not $rc"
grep -q '^tril: cuda: the GPU was lost' "$work/err" || fail "translating on a lost card gave another error"
