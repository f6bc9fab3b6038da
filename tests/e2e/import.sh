#!/usr/bin/env bash
# Hugging Face folders in and out: import, translate, prove, quantize and export, and every way to fail.
#   import.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$1
make_model=$2
tests=$(dirname "$0")/..
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$tests/e2e/expect.sh"
trap 'rm -rf "$scratch"' EXIT

# folder NAME MODEL TOKENIZER: a folder of transformers with its tokenizer.
folder() {
  mkdir "$scratch/$1"
  cp "$tests/hub/models/$2"/* "$tests/tokenizers/fixtures/$3"/* "$scratch/$1"
  rm "$scratch/$1/expected.safetensors" "$scratch/$1/cases.json"
}
# An error is one line.
error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  sed -i '/^reading the model$/d' "$scratch/err"
  [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$what: not one line on stderr"
  grep -q -- "$pattern" "$scratch/err" || fail "$what: no '$pattern' in it"
}
same_files() {
  diff -r -q --exclude=model.safetensors "$2" "$3" >"$scratch/out" || fail "$1: other files"
}

folder theirs marian marian
printf '# A card\n' >"$scratch/theirs/README.md"
expect 0 'import' "$tril" import "$scratch/theirs" -o "$scratch/ours"
prints 'import' 'marian, [0-9,]* parameters, 2 + 2 layers, 16 wide'
prints 'import' '^try: .* translate '
printf 'how are you\n\n' >"$scratch/text"
expect 0 'translate' "$tril" translate "$scratch/ours" --max-tokens 8 --input "$scratch/text"
[ "$(wc -l <"$scratch/out")" -eq 2 ] || fail 'translate: not two lines'
cp "$scratch/out" "$scratch/translation"
expect 0 'verify' "$tril" verify "$scratch/ours"
prints 'verify' 'hub.bundle'
expect 0 'info' "$tril" info "$scratch/ours"
expect 0 'prove' "$tril" prove "$scratch/ours" --every-length 3 --one-length 5
expect 0 'quantize' "$tril" quantize "$scratch/ours" --to int8
expect 0 'translate packed' "$tril" translate "$scratch/ours" --compute int8 --input "$scratch/text"

# There and back.
expect 0 'export' "$tril" export "$scratch/ours" -o "$scratch/again"
prints 'export' 'marian, [0-9]* tensors'
prints 'export' 'AutoModelForSeq2SeqLM'
same_files 'export' "$scratch/theirs" "$scratch/again"
expect 0 'import again' "$tril" import "$scratch/again" -o "$scratch/ours2"
expect 0 'translate again' "$tril" translate "$scratch/ours2" --max-tokens 8 --input "$scratch/text"
cmp -s "$scratch/translation" "$scratch/out" || fail 'translate again: another translation'
expect 0 'types' "$tril" export "$scratch/ours" -o "$scratch/half" --type fp16
grep -q rounded "$scratch/err" || fail 'types: rounding is not told'
grep -q float16 "$scratch/half/config.json" || fail 'types: config.json names another'

# A model of tril's own leaves, and comes back.
"$make_model" "$scratch/own" translate || exit 1
expect 0 'export of our own' "$tril" export "$scratch/own" -o "$scratch/own-theirs"
expect 0 'import of our own' "$tril" import "$scratch/own-theirs" -o "$scratch/own-again"

# Decoder-only models continue texts.
folder llama llama llama
expect 0 'llama' "$tril" import "$scratch/llama" -o "$scratch/llama-ours"
prints 'llama' '^try: .* generate '
expect 0 'generate' "$tril" generate "$scratch/llama-ours" --max-tokens 5 --input "$scratch/text"

# A model without START.
folder gpt2 gpt2 gpt2_files
expect 0 'gpt2' "$tril" import "$scratch/gpt2" -o "$scratch/gpt2-ours"
expect 0 'prove gpt2' "$tril" prove "$scratch/gpt2-ours" --every-length 3 --one-length 4
prints 'prove gpt2' '^Proved on this model'

# A folder of transformers is no model of tril's, and the error says what to do.
for command in translate generate score prove info quantize verify explain export; do
  arguments=("$scratch/theirs")
  case $command in
    quantize) arguments+=(--to int8) ;;
    explain) arguments+=('a text' -o "$scratch/page.html") ;;
    score) arguments+=(--source "$scratch/text" --target "$scratch/text") ;;
    export) arguments+=(-o "$scratch/nowhere") ;;
  esac
  error "$command on a folder of transformers" "'tril import FOLDER -o MODEL'" \
    "$tril" "$command" "${arguments[@]}"
done
error 'nothing to import' 'holds a model of tril already' "$tril" import "$scratch/ours" -o "$scratch/x"
error 'no folder' 'no such folder' "$tril" import "$scratch/nothing" -o "$scratch/x"
error 'taken' '--overwrite' "$tril" import "$scratch/theirs" -o "$scratch/ours"
error 'never theirs' 'choose another folder' \
  "$tril" import "$scratch/theirs" -o "$scratch/again" --overwrite
error 'export: taken' '--overwrite' "$tril" export "$scratch/ours" -o "$scratch/again"
error 'export: never ours' 'holds a model of tril' \
  "$tril" export "$scratch/ours" -o "$scratch/ours" --overwrite
error 'export: type' '--type' "$tril" export "$scratch/ours" -o "$scratch/x" --type int8
expect 0 'export: replaced' "$tril" export "$scratch/ours" -o "$scratch/again" --overwrite

# Faults of a folder.
cp -r "$scratch/theirs" "$scratch/faulty"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n' \
  >"$scratch/faulty/model.safetensors"
error 'pointers' 'git lfs pull' "$tril" import "$scratch/faulty" -o "$scratch/x"
cp "$scratch/theirs/model.safetensors" "$scratch/faulty"
rm "$scratch/faulty/source.spm" "$scratch/faulty/vocab.json"
error 'tokenizer' 'missing: source.spm, vocab.json' "$tril" import "$scratch/faulty" -o "$scratch/x"
sed -i 's/"model_type": "marian"/"model_type": "qwen9"/' "$scratch/faulty/config.json"
error 'family' 'tril imports marian' "$tril" import "$scratch/faulty" -o "$scratch/x"
[ -e "$scratch/x" ] && fail 'a failed import leaves a folder'

[ "$failures" -eq 0 ] || exit 1
