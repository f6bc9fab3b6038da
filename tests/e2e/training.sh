#!/usr/bin/env bash
# train and evaluate from the outside: their results, and every way to fail.
#   training.sh PATH-TO-TRIL
set -u
tril=$1
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'chmod -R u+rwx "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

# expect_error WHAT PATTERN COMMAND...: exit code 2, nothing on stdout, an error that is one line,
# the last one on stderr, and no model folder left behind.
expect_error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ -s out ] && fail "$what: something on stdout"
  [ "$(grep -c '^tril: ' err)" -eq 1 ] || fail "$what: not one line of error"
  tail -n 1 err | grep -q -- "$pattern" || fail "$what: no '$pattern' in it"
  [ -e model ] && { fail "$what: a folder is left"; rm -rf model; }
}
says() { grep -q -- "$2" err || fail "$1: no '$2' on stderr"; }

# Thirty pairs, repeated: a language of words and the same words in capitals.
for i in 1 2 3 4 5 6; do
  printf 'one two\nthree four five\nsix\nseven one\ntwo two\n' >>s
  printf 'ONE TWO\nTHREE FOUR FIVE\nSIX\nSEVEN ONE\nTWO TWO\n' >>t
done
small=(--vocab 330 --model 16 --heads 2 --feed-forward 32 --encoder-layers 1 --decoder-layers 1
       --batch-tokens 128 --micro-batch-tokens 64 --max-tokens 24 --updates 6 --evaluate-every 3)
train=("$tril" train "${small[@]}" -o model)

# What a run writes, and what it reports about the text.
expect 0 'train' "${train[@]}" --source s --target t --valid-source s --valid-target t
for file in config.json model.safetensors tokenizer.model last/model.safetensors \
  training/checkpoint.safetensors training/log.jsonl training/curve.svg training/options.toml; do
  [ -s "model/$file" ] || fail "train: no $file"
done
[ -s out ] && fail 'train: something on stdout'
says 'train' '30 pairs to learn from'
says 'train' 'update 6: valid loss .*BLEU'
expect 0 'evaluate' "$tril" evaluate model --source s --reference t --output h
prints 'evaluate' '^BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tril.* = '
prints 'evaluate' '^chrF2++|'
cp out scores
expect 0 'evaluate a file' "$tril" evaluate --hypothesis h --reference t
cmp -s out scores || fail 'evaluate a file: other scores'
expect 0 'evaluate itself' "$tril" evaluate --hypothesis t --reference t --tokenize char --json
prints 'evaluate itself' '"score": 100.0'
expect_folder() { [ "$(ls -A model | sort | tr '\n' ' ')" = "$1" ] || fail "$2: other files"; }
expect_folder 'config.json last model.safetensors tokenizer.model training ' 'train'

# An existing model is not lost; a run is resumed only with its own options.
cp -r model before
expect 2 'a model is there' "${train[@]}" --source s --target t
says 'a model is there' '--resume .* --overwrite'
expect 2 'other options' "$tril" train --resume -o model --seed 5
says 'other options' 'another seed (1, now 5)'
expect 2 'more updates and other options' "$tril" train --resume -o model --updates 9 --rate 0.5
says 'more updates and other options' 'another rate (.*, now 0.5)'
cp s s.bak && printf 'one\n' >>s && printf 'ONE\n' >>t
expect 2 'another text' "$tril" train --resume -o model
says 'another text' 'have changed'
cp s.bak s && head -n 30 t >t.bak && mv t.bak t
cp t valid && expect 0 'other validation text' "$tril" train "${small[@]}" --source s --target t \
  --valid-source s --valid-target valid -o second
sed -i '1s/ONE/TWO/' valid
expect 2 'other validation text' "$tril" train --resume -o second
says 'other validation text' 'other validation files'
rm -rf second valid
# Nor is a model lost to a run that cannot begin, or before the new run has one.
for wrong in '--beta1 1.5' '--clip-norm nan' '--tokenizer-type unigram --bpe-dropout 0.1' \
  '--rate inf' '--patience 3' '--vocab 5'; do
  # shellcheck disable=SC2086 # words
  expect 2 "overwrite $wrong" "$tril" train $wrong --overwrite --source s --target t -o model
done
diff -r before model >/dev/null || fail 'a refused run changed the model'
expect 0 'resumed when done' "$tril" train --resume -o model
cmp -s before/model.safetensors model/model.safetensors || fail 'resumed when done: another model'
# From another folder.
expect 0 'resumed from elsewhere' sh -c "cd / && '$tril' train --resume -o '$scratch/model'"
rm -rf model before

# gzip, TSV, a TOML file, one text.
gzip -k s && paste s t >both.tsv
expect 0 'gzip' "${train[@]}" --source s.gz --target t
mv model first
expect 0 'tsv' "${train[@]}" --tsv both.tsv
cmp -s first/model.safetensors model/model.safetensors || fail 'tsv: another model'
rm -rf model
{
  printf 'source = "s"\ntarget = ["t"]\n'
  printf '%s\n' "${small[@]}" | sed 's/^--//' | paste -d= - -
} >run.toml
expect 0 'toml' "$tril" train --config run.toml -o model
cmp -s first/model.safetensors model/model.safetensors || fail 'toml: another model'
rm -rf model
expect 0 'a flag beats the file' "$tril" train --config run.toml -o model --seed 2
cmp -s first/model.safetensors model/model.safetensors && fail 'a flag beats the file: it did not'
rm -rf model
expect 0 'the record of a run makes it again' "$tril" train --config first/training/options.toml \
  --source s --target t -o model
cmp -s first/model.safetensors model/model.safetensors || fail 'the record of a run: another model'
rm -rf model first
expect 0 'one text' "${train[@]}" --text t
cp model/config.json one.json
expect 0 'generate' sh -c "echo ONE | '$tril' generate model --max-tokens 4"
prints 'generate' '^ONE'
rm -rf model
# A text alone has no encoder, whether one says so or not; pairs need one.
no_encoder=("$tril" train "${small[@]:0:8}" --encoder-layers 0 "${small[@]:10}" -o model)
expect 0 'no encoder layers' "${no_encoder[@]}" --text t
cmp -s one.json model/config.json || fail 'no encoder layers: another configuration'
rm -rf model one.json
expect_error 'pairs without an encoder' 'encoder-layers must be positive' \
  "${no_encoder[@]}" --source s --target t

# Nothing is dropped in silence.
{ cat s; printf '\nx\nb\377d\n'; } >s2
{ cat t; printf 'X\n\nBAD\n'; } >t2
expect 0 'faulty lines' "${train[@]}" --source s2 --target t2
says 'faulty lines' '2 pairs left out for an empty side, first .*s2:31 (empty)'
says 'faulty lines' '1 pair left out for invalid UTF-8, first .*s2:33 (not UTF-8 at byte 2)'
rm -rf model
head -c 10000000 /dev/zero | tr '\0' 'x' >long && { cat s; cat long; printf '\n'; } >s3
{ cat t; printf 'LONG\n'; } >t3
expect 0 'ten megabytes in a line' "${train[@]}" --source s3 --target t3
says 'ten megabytes in a line' '1 pair left out for a line too long, first .*s3:31'
rm -rf model
{ cat s; printf 'one \000 two\n'; } >s4
expect 0 'a NUL' "${train[@]}" --source s4 --target t3
rm -rf model

# Every way to fail.
expect_error 'no files' 'no files' "${train[@]}"
expect_error 'no such file' 'nowhere: cannot open: No such file' \
  "${train[@]}" --source nowhere --target t
: >empty
cp empty empty2
expect_error 'empty files' 'holds nothing to learn from' \
  "${train[@]}" --source empty --target empty2
expect_error 'unequal files' 't ends after line 30, but .*s2 goes on' "${train[@]}" --source s2 --target t
expect_error 'the same file twice' 'as source and as target' "${train[@]}" --source s --target s
expect_error 'sides swapped' 'swapped' \
  "${train[@]}" --source s --target t --valid-source t --valid-target s
cp t same
expect 0 'wrong language' "${train[@]}" --source s --target t --valid-source same --valid-target t
says 'wrong language' 'warning: one side of the validation text reads like the other language'
rm -rf model
expect_error 'a folder as text' 'directory' "${train[@]}" --source . --target t
expect_error 'not a TSV' 'no tab' "${train[@]}" --tsv s
printf '\037\213\010\000' >cut.gz
expect_error 'gzip cut short' 'cut.gz: cannot read' "${train[@]}" --source cut.gz --target t
expect_error 'no output' 'output' "$tril" train --source s --target t
expect_error 'bad number' 'log-every' "${train[@]}" --source s --target t --log-every 0
expect_error 'bad word' 'schedule' "${train[@]}" --source s --target t --schedule steep
expect_error 'heads' 'heads' "${train[@]}" --source s --target t --heads 3
expect_error 'vocabulary' 'vocab' "${train[@]}" --source s --target t --vocab 100
expect_error 'nothing to resume' 'there is no run to resume here' "$tril" train --resume -o model
expect_error 'no folder' 'is empty: give a path' "$tril" train "${small[@]}" --source s --target t -o ''
expect_error 'unknown in the file' 'colour' \
  sh -c "printf 'colour = 3\n' >bad.toml; '$tril' train --config bad.toml -o model --source s --target t"
expect_error 'no place for the model' 'cannot create' "$tril" train "${small[@]}" \
  --source s --target t -o /proc/model
printf 'x' >file
expect_error 'a file for a folder' 'file' "$tril" train "${small[@]}" --source s --target t -o file/model
expect_error 'a tokenizer that is none' 's: ' "${train[@]}" --source s --target t --tokenizer s
mkdir closed && chmod a-w closed
as_nobody=()
if [ "$(id -u)" -eq 0 ]; then
  command -v setpriv >/dev/null && as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chmod a+rx "$scratch"
fi
if [ "$(id -u)" -ne 0 ] || [ ${#as_nobody[@]} -gt 0 ]; then
  expect_error 'no permission to write' 'Permission denied' "${as_nobody[@]}" "$tril" train \
    "${small[@]}" --source s --target t -o closed/model
  cp s secret && chmod 000 secret
  mkdir -m 777 open
  expect_error 'no permission to read' 'secret: cannot open: Permission denied' \
    "${as_nobody[@]}" "$tril" train "${small[@]}" --source secret --target t -o open/model
fi

# A full disk, simulated by a limit on file size: the run ends with one line; with space again it is
# resumed and ends where it would have.
expect 0 'room' "${train[@]}" --source s --target t
mv model whole
blocks=$(($(stat -c %s whole/model.safetensors) * 2 / 1024)) # the model fits, the checkpoint does not
expect 2 'a full disk' sh -c "trap '' XFSZ; ulimit -f $blocks
  exec '$tril' train ${small[*]} --source s --target t -o model"
[ "$(grep -c '^tril: ' err)" -eq 1 ] || fail 'a full disk: not one line of error'
says 'a full disk' 'checkpoint.safetensors: cannot write'
[ -z "$(find model -name '*.tmp')" ] || fail 'a full disk: temporary files are left'
expect 0 'room again' "${train[@]}" --source s --target t --overwrite
cmp -s whole/model.safetensors model/model.safetensors || fail 'room again: another model'
rm -rf model

# The same in the middle of a run: stopped, resumed on a full disk, then with space.
long=("${small[@]:0:18}" --updates 3000 --evaluate-every 1000)
expect 0 'a longer run' "$tril" train "${long[@]}" --source s --target t -o longer
# A process that a script starts with & ignores Ctrl-C, unless told otherwise.
env --default-signal=INT "$tril" train "${long[@]}" --source s --target t -o model 2>err &
for _ in {1..600}; do [ -e model/training/checkpoint.safetensors ] && break; sleep 0.1; done
sleep 0.3 && kill -INT $! && wait $!
[ $? -eq 130 ] || fail 'Ctrl-C: not 130'
says 'Ctrl-C' 'to continue: tril train --resume -o model'
cp model/training/checkpoint.safetensors checkpoint.bak
expect 2 'a full disk in the middle' sh -c "trap '' XFSZ; ulimit -f $blocks
  exec '$tril' train --resume -o model"
says 'a full disk in the middle' 'cannot write'
cmp -s checkpoint.bak model/training/checkpoint.safetensors ||
  fail 'a full disk in the middle: the checkpoint is another'
expect 0 'on with room again' "$tril" train --resume -o model
cmp -s longer/model.safetensors model/model.safetensors || fail 'on with room again: another model'

# While a new run has nothing to show, the old model is whole.
cp -r model before
"$tril" train "${long[@]}" --seed 3 --source s --target t -o model --overwrite 2>err &
sleep 0.3 && expect 2 'two runs in a folder' "$tril" train --resume -o model
says 'two runs in a folder' 'another'
kill -9 %% 2>/dev/null
wait 2>/dev/null
for file in config.json tokenizer.model model.safetensors; do
  cmp -s "before/$file" "model/$file" || fail "overwriting: $file is lost before there is a new one"
done
rm -rf model before longer
# Any name a file may have.
mkdir 'a #1 "b" \ c' && cp s t 'a #1 "b" \ c' && cd 'a #1 "b" \ c' || exit 1
expect 0 'odd names' "${train[@]}" --source s --target t
cmp -s ../whole/model.safetensors model/model.safetensors || fail 'odd names: another model'
expect 0 'odd names resumed' "$tril" train --resume -omodel
cd .. || exit 1

# Fine-tuning: a run that begins with a model has its shape and tokenizer, and is like any other.
tune=("$tril" train --from whole --batch-tokens 128 --max-tokens 24 --updates 6 --evaluate-every 3
      --source s --target t -o model)
expect 0 'fine-tuning' "${tune[@]}" --valid-source s --valid-target t
says 'fine-tuning' 'before training: valid loss .*BLEU'
says 'fine-tuning' 'update 6: valid loss'
cmp -s whole/config.json model/config.json || fail 'fine-tuning: another configuration'
cmp -s whole/tokenizer.model model/tokenizer.model || fail 'fine-tuning: another tokenizer'
cmp -s whole/model.safetensors model/last/model.safetensors && fail 'fine-tuning: nothing was learnt'
expect 0 'a tuned model translates' sh -c "echo one | '$tril' translate model"
mv model tuned
cp -r tuned/training/options.toml tuned.toml
expect 0 'fine-tuning by its record' "$tril" train --config tuned.toml -o model
cmp -s tuned/model.safetensors model/model.safetensors || fail 'fine-tuning by its record: another model'
rm -rf model tuned
# What is frozen stays as it was, and a rate that is zero in single precision changes nothing.
expect 0 'frozen parts' "${tune[@]}" --freeze embeddings,encoder --weight-decay 0.1
rm -rf model
expect 0 'no change' "${tune[@]}" --rate 1e-60 --valid-source s --valid-target t
says 'no change' 'before training: .* (best so far, kept)'
rm -rf model
# It is killed, and goes on without the model that it began with.
expect 0 'a longer fine-tuning' "${tune[@]:0:8}" --updates 2000 --evaluate-every 1000 \
  --freeze encoder --dropout 0.2 "${tune[@]:12}"
mv model longer
cp -r whole base
env --default-signal=INT "$tril" train --from base "${tune[@]:4:4}" --updates 2000 \
  --evaluate-every 1000 --freeze encoder --dropout 0.2 "${tune[@]:12}" 2>err &
while ! [ -e model/training/checkpoint.safetensors ]; do sleep 0.02; done
sleep 0.3 && kill -9 $! 2>/dev/null
wait $! 2>/dev/null
rm -rf base
expect 0 'fine-tuning resumed' "$tril" train --resume -o model
cmp -s longer/model.safetensors model/model.safetensors || fail 'fine-tuning resumed: another model'
expect 2 'fine-tuning resumed with another part frozen' "$tril" train --resume -o model --freeze decoder
says 'fine-tuning resumed with another part frozen' 'another freeze (encoder, now decoder)'
rm -rf model longer
# Decoder-only models, and languages.
expect 0 'one text' "${train[@]}" --text t --languages de-hi
grep -q '"to": "hi"' model/generation.json || fail 'languages: not in generation.json'
mv model alone
expect 0 'one text, tuned' "$tril" train --from alone "${tune[@]:4:8}" --text t -o model
cmp -s alone/generation.json model/generation.json || fail 'languages: not carried on'
rm -rf model
# Every way to fail.
expect_error 'fine-tuning nothing' 'nowhere: no such folder' "$tril" train --from nowhere "${tune[@]:4}"
expect_error 'fine-tuning: an empty name' 'is empty: give a path' "$tril" train --from '' "${tune[@]:4}"
expect_error 'another width' 'whole: is a model with model 16, not 32' "${tune[@]}" --model 32
expect_error 'another vocabulary' 'is a model with vocab [0-9]*, not 400' "${tune[@]}" --vocab 400
expect_error 'a preset' 'is a model with model 16, not 256, heads 2, not 4' "${tune[@]}" --preset small
expect_error 'another tokenizer to tune' 'tokenizer "", not ' "${tune[@]}" --tokenizer whole/tokenizer.model
expect_error 'sentences too long to tune' 'reads at most 1024 tokens, not the 2000' \
  "${tune[@]:0:4}" --batch-tokens 4096 --max-tokens 2000 "${tune[@]:8}"
expect_error 'languages of one that has none' 'the language de was named' "${tune[@]}" --from-language de
expect_error 'nothing to freeze' "nothing to freeze is called 'encoders'" "${tune[@]}" --freeze encoders
expect_error 'everything frozen' 'nothing is left to learn' "${tune[@]}" --freeze embedding,encoder,decoder
expect_error 'pairs for a decoder' 'alone: is a decoder-only model' "$tril" train --from alone "${tune[@]:4}"
expect_error 'a text for a translator' 'whole: is a model that translates' \
  "${tune[@]:0:12}" --text t -o model
expect_error 'languages' 'as in en-hi' "${train[@]}" --languages en --source s --target t
expect 0 'packing' "$tril" quantize whole --to int8 -o packed
expect_error 'packed weights alone' 'packed: has only packed weights (packed.int8.safetensors)' \
  "$tril" train --from packed "${tune[@]:4}"
cp -r whole mixed && cp alone/tokenizer.model mixed
expect_error 'a tokenizer of another model' 'mixed/tokenizer.model: damaged, or not of this model' \
  "$tril" train --from mixed "${tune[@]:4}"
rm -rf packed mixed alone

# Model folders that are none, for every command that reads one.
for command in "info whole" "translate whole" "evaluate whole --source s --reference t" \
  "score whole --source s --target t"; do
  cp whole/config.json config.bak
  sed -i 's/"format": 1/"format": 3/' whole/config.json
  # shellcheck disable=SC2086 # words
  expect_error "another version: $command" 'config.json: format' "$tril" $command
  cp config.bak whole/config.json
done
expect 0 'another tokenizer' "$tril" train "${small[@]:2}" --vocab 310 --source s --target t -o other
cp whole/tokenizer.model tokenizer.bak
cp other/tokenizer.model whole/tokenizer.model
expect_error 'a tokenizer that does not fit' 'tokenizer' "$tril" translate whole
cp tokenizer.bak whole/tokenizer.model
expect_error 'evaluate: two ways at once' 'without them' \
  "$tril" evaluate whole --hypothesis t --reference t
expect_error 'evaluate: unequal' 'has more' "$tril" evaluate --hypothesis s2 --reference t
printf 'b\377d\n' >bad && printf 'x\n' >good
expect_error 'evaluate: no UTF-8' 'bad: line 1' "$tril" evaluate --hypothesis bad --reference good --strict
expect_error 'evaluate: empty' 'is empty' "$tril" evaluate --hypothesis empty --reference empty

[ "$failures" -eq 0 ] && printf 'train and evaluate behave\n'
exit "$((failures > 0))"
