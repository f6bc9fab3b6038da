#!/usr/bin/env bash
# Every family of Hugging Face folders through every command that takes a model: each imported, then used, proved,
# shown, quantized, exported and fine-tuned. In ./check one model per kind of code, with TRIL_FULL all.
#   families.sh PATH-TO-TRIL
set -u
tril=$1
tests=$(dirname "$0")/..
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$tests/e2e/expect.sh"
trap 'rm -rf "$scratch"' EXIT

# Model, its tokenizer, and flags that choose languages.
models=('mbart mbart25 --from-language en_XX --to-language ro_RO'
        't5_v1_1 t5'
        'mistral llama')
if [ -n "${TRIL_FULL-}" ]; then
  models+=('marian marian --to-language fra'
           'marian_separate marian_separate'
           'pegasus marian'
           'm2m_100 nllb --from-language eng_Latn --to-language fra_Latn'
           'bart_long bart'
           't5 t5'
           'mt5 t5'
           'gpt2 gpt2_files'
           'llama llama'
           'llama_tied llama3')
fi

printf 'how are you\nthe theory\nwhere are they\n' >"$scratch/source"
printf 'they are fine\na theory\nthere\n' >"$scratch/target"
short=(--max-tokens 6 --threads 1)

# scores WHAT ARGUMENT...: a finite score per line.
scores() {
  local what=$1
  shift
  expect 0 "$what" "$tril" score "$@" --json --threads 1
  [ "$(grep -cE '"score":-[0-9.]+,' "$scratch/out")" -eq 3 ] || fail "$what: not three scores"
}

# Compares what follows the headers, which name other origins.
same_tensors() {
  local file
  local -a sums=()
  for file in "$@"; do
    sums+=("$(tail -c "+$((9 + $(od -An -tu8 -N8 "$file")))" "$file" | cksum)")
  done
  [ "${sums[0]}" = "${sums[1]}" ]
}

for each in "${models[@]}"; do
  read -r model tokenizer languages <<<"$each"
  read -ra languages <<<"$languages"
  here=$scratch/$model
  mkdir "$here"
  cp "$tests/hub/models/$model"/* "$tests/tokenizers/fixtures/$tokenizer"/* "$here"
  rm "$here/expected.safetensors" "$here/cases.json"
  ours=$here.ours
  expect 0 "$model: import" "$tril" import "$here" -o "$ours"

  # Decoder-only models continue texts; they have no source, no page and no translations to score.
  case $model in
    gpt2 | llama* | mistral)
      command=generate texts=(--target "$scratch/target") tuning=(--text "$scratch/target")
      ;;
    *)
      command=translate texts=(--source "$scratch/source" --target "$scratch/target")
      tuning=("${texts[@]}")
      ;;
  esac
  use=("$tril" "$command" --input "$scratch/source" "${short[@]}" "${languages[@]}")
  expect 0 "$model: $command" "${use[@]}" "$ours"
  [ "$(wc -l <"$scratch/out")" -eq 3 ] || fail "$model: $command: not three lines"
  scores "$model: score" "$ours" "${texts[@]}" "${languages[@]}"
  expect 0 "$model: prove" "$tril" prove "$ours" "${languages[@]}" --every-length 3 --one-length 4
  prints "$model: prove" '^Proved on this model'
  expect 0 "$model: explain" "$tril" explain "$ours" 'how are you' "${languages[@]}" -o "$here.html"
  expect 0 "$model: quantize" "$tril" quantize "$ours" --to int8
  expect 0 "$model: int8" "${use[@]}" "$ours" --compute int8

  # There and back gives the same weights.
  expect 0 "$model: export" "$tril" export "$ours" -o "$here.again"
  expect 0 "$model: import again" "$tril" import "$here.again" -o "$here.ours2"
  cmp -s "$ours/model.safetensors" "$here.ours2/model.safetensors" || fail "$model: export: other weights"
  train=("$tril" train --from "$ours" "${tuning[@]}" "${languages[@]}" --updates 2 --batch-tokens 512 --threads 1
         -o "$here.tuned")
  expect 0 "$model: train" "${train[@]}"
  expect 0 "$model: tuned" "${use[@]}" "$here.tuned"
  cp "$scratch/out" "$here.written"
  expect 0 "$model: export tuned" "$tril" export "$here.tuned" -o "$here.theirs" --type fp32
  expect 0 "$model: import tuned" "$tril" import "$here.theirs" -o "$here.back"
  cmp -s "$ours/model.safetensors" "$here.back/model.safetensors" && fail "$model: train: nothing was learnt"
  same_tensors "$here.tuned/model.safetensors" "$here.back/model.safetensors" ||
    fail "$model: import tuned: other weights"
  expect 0 "$model: tuned again" "${use[@]}" "$here.back"
  cmp -s "$here.written" "$scratch/out" || fail "$model: tuned again: other results"
done

[ "$failures" -eq 0 ] || exit 1
