#!/usr/bin/env bash
# tril prove from the outside: exit codes, the report, JSON, and every way not to run.
#   prove.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL PATH-TO-JSON_VALUE
set -u
tril=$1
make_model=$2
json_value=$3
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
"$make_model" "$scratch/model" translate || exit 1
"$make_model" "$scratch/writer" generate || exit 1

# expect_error WHAT PATTERN COMMAND...: exit code 2, nothing on stdout, the last line matches.
expect_error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ -s "$scratch/out" ] && fail "$what: something on stdout"
  tail -1 "$scratch/err" | grep -q -- "$pattern" || fail "$what: no '$pattern' in its last line"
  [ "$(grep -c '^tril: ' "$scratch/err")" -eq 1 ] || fail "$what: not one error"
}
lacks() { grep -q -- "$2" "$scratch/out" && fail "$1: '$2' on stdout"; }
# value WHAT PATH VALUE: a field of the JSON on stdout; of a list, its length.
value() {
  local got
  got=$("$json_value" "$scratch/out" "$2" 2>&1)
  [ "$got" = "$3" ] || fail "$1: $2 is '$got', expected '$3'"
}

printf 'how\n' >"$scratch/one"
short=(--every-length 3 --one-length 4) # for runs in which section 5's amounts do not matter

# It holds: all five sections, every cell of the table, and a verdict.
printf 'how are you\n\nI am fine\nwhere\n' >"$scratch/text"
expect 0 'a model' "$tril" prove "$scratch/model" --text "$scratch/text" --threads 2
for section in 1 2 3 4 5; do prints 'a model' "^$section  .*: holds$"; done
for cell in 'seal [0-9a-f]\{16\}' 'teacher forcing' 'fed in training:  *START' 'fed at inference: START' \
  'forward() calls  *1 ' 'tensors, unchanged' 'yes: the given tokens' 'mask by row' \
  'NaN reached' 'Encoder output: .* 0 differing' '1 × 64  *64 of 64  *0 ' 'autoregressive' 'beam, batched' '(100%)' '16 × 300\*  *4,800  *1 ' 'gradients  *1 to 6  *[0-9,]*  *0  *0'; do
  prints 'a model' "$cell"
done
prints 'a model' '^3 sentences'
prints 'a model' '^Proved on this model'
lacks 'a model' 'FAILS'
[ "$(wc -l <"$scratch/out")" -le 125 ] || fail 'a model: more than 125 lines'
# Columns, not bytes.
[ "$(LC_ALL=C.UTF-8 wc -L <"$scratch/out")" -le 80 ] || fail 'a model: a line of more than 80 columns'
grep -q 'leak probe' "$scratch/err" || fail 'a model: no progress on stderr'

# Without the mask it fails, names the first position that sees the future, and reports it as JSON.
expect 1 'unmasked' "$tril" prove "$scratch/writer" --unmasked --json "${short[@]}"
value 'unmasked' holds false
value 'unmasked' masked false
value 'unmasked' failed 5
value 'unmasked' every_input.cases.0.first_leak.layer 0
value 'unmasked' every_input.gradients.0.holds false
value 'unmasked' every_input.gradients.0.first_leak.loss 0
value 'unmasked' every_input.gradients.0.first_leak.parameter loss
value 'unmasked' leaks.first_to_see_the_future.row.position 0
value 'unmasked' leaks.first_to_see_the_future.sees.position 1
value 'unmasked' leaks.coverage 1.0
value 'unmasked' table.calls.training 1
value 'unmasked' table.rows_changed_without_mask.inference_token_by_token 0
value 'unmasked' sequential.cases.4.sequential.calls 4800

# In words: the training side is not autoregressive, inference still is; one sentence is one.
expect 1 'unmasked, in words' "$tril" prove "$scratch/model" --unmasked --text "$scratch/one" "${short[@]}"
prints 'unmasked, in words' 'autoregressive  *NO (see 3)  *in function and in'
prints 'unmasked, in words' '^1 sentence, '
prints 'unmasked, in words' 'FAILS: in layer 0 position 0 of sentence 0 is given keys 0 to '

# A folder without a tokenizer: tokens by chance.
rm "$scratch/writer/tokenizer.model"
expect_error 'a tokenizer that is missing' 'tokenizer.model: missing' "$tril" prove "$scratch/writer"
"$tril" verify --seal "$scratch/writer" >/dev/null || fail 'sealed without a tokenizer'
expect_error 'text without a tokenizer' 'has no tokenizer.model' "$tril" prove "$scratch/writer" --text "$scratch/text"
expect 0 'no tokenizer' "$tril" prove "$scratch/writer" --json "${short[@]}"
grep -q 'has no tokenizer.model: tokens are drawn by chance' "$scratch/err" || fail 'no tokenizer: not told'
value 'no tokenizer' holds true
value 'no tokenizer' text 'tokens by chance'
value 'no tokenizer' agreement.ways.0.differing 0
value 'no tokenizer' every_input.gradients 2
value 'no tokenizer' every_input.gradients.0.losses 6
value 'no tokenizer' every_input.gradients.0.differing 0
value 'no tokenizer' every_input.gradients.1.length 4

# Inputs that cannot be run.
expect_error 'no such folder' 'nowhere: no such folder' "$tril" prove "$scratch/nowhere"
expect_error 'a file for a folder' 'not a folder' "$tril" prove "$scratch/model/model.safetensors"
expect_error 'no model named' 'model' "$tril" prove
expect_error 'unknown flag' '--widen' "$tril" prove "$scratch/model" --widen
expect_error 'bad threads' 'threads' "$tril" prove "$scratch/model" --threads -1
expect_error 'target without text' 'text' "$tril" prove "$scratch/model" --target "$scratch/text"
expect_error 'two times stdin' 'cannot both be stdin' "$tril" prove "$scratch/model" --text - --target -
expect_error 'no such text' "$scratch/none" "$tril" prove "$scratch/model" --text "$scratch/none"
: >"$scratch/empty"
expect_error 'an empty text' 'no line to prove with' "$tril" prove "$scratch/model" --text "$scratch/empty"
expect_error 'fewer targets' 'has 1 lines with text' "$tril" prove "$scratch/model" --text "$scratch/text" --target "$scratch/one"
printf 'h\xff\n' >"$scratch/bad"
expect_error 'not UTF-8' "$scratch/bad: line 1" "$tril" prove "$scratch/model" --text "$scratch/bad"
"$make_model" "$scratch/writer" generate || exit 1
expect_error 'a target for a decoder' 'decoder-only' "$tril" prove "$scratch/writer" --text "$scratch/text" --target "$scratch/text"
printf 'x' >"$scratch/model/tokenizer.model"
expect_error 'a broken tokenizer' 'tokenizer.model' "$tril" prove "$scratch/model"

[ "$failures" -eq 0 ] && printf 'prove behaves\n'
exit "$((failures > 0))"
