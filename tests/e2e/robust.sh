#!/usr/bin/env bash
# The program when things go wrong around it: descriptors that are closed or full, ignored signals,
# outputs that are inputs, numbers too large for any type, no memory, no threads, and files that are
# cut short while it reads them.
#   robust.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$(realpath "$0")")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
"$make_model" m translate || exit 1
"$make_model" writer generate || exit 1
cp -r m untouched
printf 'how are you\nI am fine\nthank you\n' >source
printf 'मैं ठीक हूँ\nwhere they\nthank you\n' >reference
quick=(--max-tokens 8)

says() { grep -q -- "$2" err || fail "$1: no '$2' on stderr"; }
lines() { [ "$(wc -l <out)" -eq "$2" ] || fail "$1: not $2 lines"; }
# expect_error WHAT PATTERN COMMAND...: exit code 2, nothing on stdout, one line that matches.
expect_error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ -s out ] && fail "$what: something on stdout"
  [ "$(wc -l <err)" -eq 1 ] || fail "$what: not one line on stderr"
  says "$what" "$pattern"
}
# Runs a line of shell whose redirections are being tested.
shell() { bash -c "$1"; }
unchanged() { diff -r untouched m >/dev/null || fail "$1: the model is another"; }

# Messages that cannot be written cost no result.
expect 0 'translate' "$tril" translate m "${quick[@]}" --input source
cp out expected
for where in '/dev/full' '&-'; do
  expect 0 "stderr $where" shell "'$tril' translate m ${quick[*]} --input source 2>$where"
  cmp -s out expected || fail "stderr $where: another output"
  expect 1 "a bad line, stderr $where" \
    shell "printf 'how\n\377\nhow\n' | '$tril' translate m ${quick[*]} 2>$where"
  lines "a bad line, stderr $where" 3
  expect 2 "an error, stderr $where" shell "'$tril' translate nowhere 2>$where"
done
# A file that is opened takes the place of no closed descriptor.
tiny=(train --source source --target reference --model 16 --heads 2 --feed-forward 32 --encoder-layers 1
  --decoder-layers 1)
learn=("${tiny[@]}" --vocab 310 --threads 1 --log-every 1 --evaluate-every 1000)
for closed in '<&- >&- 2>&-' '<&- 2>&-' '2>&-'; do
  expect 0 "train $closed" shell "'$tril' ${learn[*]} --updates 3 -o closed --overwrite $closed"
  [ "$(grep -c '^{.*}$' closed/training/log.jsonl)" -eq "$(wc -l <closed/training/log.jsonl)" ] ||
    fail "train $closed: messages in the log"
  find closed -name '*lock*' -size +0 | grep -q . && fail "train $closed: messages in the lock"
done
expect_error 'no stdin' 'stdin is closed' shell "'$tril' translate m <&-"
expect 2 'no stdout' shell "'$tril' translate m ${quick[*]} --input source >&-"
says 'no stdout' 'the output could not be written: stdout is closed'

# Results that cannot be written are an error; a reader that goes away is not.
for command in '' '--version' '--help' 'translate --help' 'info' 'info m' 'lesson' 'lesson attention' \
  'bench --only gemm --match 512x512x512 --seconds 0.01 --threads 1' \
  'bench --only gemm --match 512x512x512 --seconds 0.01 --threads 1 --json' \
  "translate m ${quick[*]} --input source" "score m --source source --target reference" \
  "evaluate m ${quick[*]} --source source --reference reference" \
  'evaluate --hypothesis source --reference reference --json' "explain m how ${quick[*]} -o page.html" \
  'demo --dump phrases' 'quantize m --to bf16 -o packed'; do
  for where in /dev/full '&-'; do
    expect 2 "$command >$where" shell "'$tril' $command >$where"
    [ "$(grep -c '^tril: the output could not be written: ' err)" -eq 1 ] ||
      fail "$command >$where: not said in one line"
  done
  expect 0 "$command |" shell "'$tril' $command | true; exit \${PIPESTATUS[0]}"
  grep -v '^measuring \| cut \(after\|before\) ' err >rest
  [ -s rest ] && fail "$command |: something is said"
done

# Signals that were ignored when the program began stay ignored: with nohup, and for what a script
# starts with &. Others stop it.
(
  trap '' HUP INT
  exec "$tril" "${learn[@]}" --updates 1000000 -o nohup 2>err
) &
run=$!
for ((i = 0; i < 200; ++i)); do
  [ -s nohup/training/log.jsonl ] && break
  sleep 0.05
done
kill -HUP "$run" && kill -INT "$run"
sleep 0.5
grep -q 'stopping' err && fail 'nohup: stopped by a signal it was to ignore'
kill -TERM "$run" 2>/dev/null || fail 'nohup: ended by a signal it was to ignore'
wait "$run"
[ $? -eq 143 ] || fail 'SIGTERM: not 143'
says 'SIGTERM' 'to continue: '

# One bad line does not end a run, and the exit code shows that there was one.
long=$(printf 'x %.0s' $(seq 1 100))
printf 'how\nb\377d\n%s\nhow\n' "$long" >some-bad
printf 'how\nhow\nhow\nhow\n' >four
for command in 'translate m' 'generate writer'; do
  # shellcheck disable=SC2086 # words
  expect 1 "$command" "$tril" $command "${quick[@]}" --input some-bad
  lines "$command" 4
  [ "$(grep -c '^tril: line [23] skipped: ' err)" -eq 2 ] || fail "$command: bad lines are not named"
  if [ "$command" = 'translate m' ]; then
    [ "$(sed -n '2,3p' out | tr -d '\n')" = '' ] || fail "$command: a bad line is not empty"
  fi
  # shellcheck disable=SC2086
  expect 2 "$command --strict" "$tril" $command "${quick[@]}" --input some-bad --strict
  lines "$command --strict" 1
  says "$command --strict" 'line 2: .*not UTF-8'
done
# A line that was skipped has no score: 0 would be the best of all.
expect 1 'scores' "$tril" translate m "${quick[@]}" --input some-bad --scores
[ "$(sed -n '2,3p' out | tr -d '\n')" = "$(printf '\t\t')" ] || fail 'scores: a bad line has one'
expect 1 'JSON scores' "$tril" translate m "${quick[@]}" --input some-bad --json
[ "$(grep -c '"score":null' out)" -eq 2 ] || fail 'JSON scores: a bad line has one'
expect 1 'scores in JSON' "$tril" score m --source some-bad --target four --json
[ "$(grep -c '"score":null' out)" -eq 2 ] || fail 'scores in JSON: a bad line has one'
expect 1 'score' "$tril" score m --source some-bad --target four
lines 'score' 4
[ "$(grep -c '^$' out)" -eq 2 ] || fail 'score: bad lines are not empty'
[ "$(grep -c '^tril: line [23] skipped: ' err)" -eq 2 ] || fail 'score: bad lines are not named'
expect 2 'score --strict' "$tril" score m --source some-bad --target four --strict
lines 'score --strict' 1
printf '5 6\nfive\n99999999999\n7\n' >ids
expect 1 'score --ids' "$tril" score m --source four --target ids --ids
lines 'score --ids' 4
says 'score --ids' 'line 2 skipped: the target is not a list of token ids'
says 'score --ids' 'line 3 skipped: '
expect 1 'evaluate' "$tril" evaluate m "${quick[@]}" --source some-bad --reference four --output kept
prints 'evaluate' '^exact match: [0-9] of 4$'
[ "$(wc -l <kept)" -eq 4 ] || fail 'evaluate: not all lines are kept'
[ "$(grep -c '^tril: line [23] skipped: .*counts as an empty translation$' err)" -eq 2 ] ||
  fail 'evaluate: bad lines are not named'
expect_error 'evaluate --strict' 'line 2: .*not UTF-8' "$tril" evaluate m "${quick[@]}" --source some-bad \
  --reference four --strict
expect 1 'evaluate --hypothesis' "$tril" evaluate --hypothesis some-bad --reference four
prints 'evaluate --hypothesis' '^exact match: 2 of 4$'
says 'evaluate --hypothesis' '^tril: line 2 skipped: it is not UTF-8 at byte 2; it counts as an empty'
expect_error 'evaluate --hypothesis --strict' 'some-bad: line 2: it is not UTF-8' \
  "$tril" evaluate --hypothesis some-bad --reference four --strict
expect_error 'a bad reference' 'some-bad: line 2' "$tril" evaluate --hypothesis four --reference some-bad

# An output that is an input, or a model's file, by whatever name, is refused before any work.
cp source input && ln input hard && ln -s input soft && cp reference other
for output in input hard soft ./input; do
  expect_error "evaluate --output $output" 'is what --source reads' \
    "$tril" evaluate m "${quick[@]}" --source input --reference other --output "$output"
done
expect_error 'evaluate --output REFERENCE' 'is what --reference reads' \
  "$tril" evaluate m "${quick[@]}" --source input --reference other --output other
expect_error 'evaluate --output STDIN' 'is what --source reads' \
  shell "'$tril' evaluate m ${quick[*]} --source - --reference other --output input <input"
cmp -s input source && cmp -s other reference || fail 'evaluate: an input is destroyed'
ln m/model.safetensors hard-weights && ln -s m/tokenizer.model soft-pieces
mkdir -p m/training untouched/training && echo x | tee m/training/options.toml >untouched/training/options.toml
for output in m/config.json m/model.safetensors m/tokenizer.model m/packed.int8.safetensors \
  m/training/options.toml m/training/new.html hard-weights soft-pieces; do
  expect_error "explain -o $output" 'is a file of a model: choose another' \
    "$tril" explain m 'how are you' "${quick[@]}" -o "$output"
  expect_error "evaluate --output $output" 'is a file of a model: choose another' \
    "$tril" evaluate m "${quick[@]}" --source input --reference other --output "$output"
done
expect_error 'explain -o of another model' 'is a file of a model' \
  "$tril" explain m how "${quick[@]}" -o writer/model.safetensors
expect_error 'lesson --svg' 'is a file of a model' "$tril" lesson attention --svg m/config.json
unchanged 'refused outputs'
rm -r m/training untouched/training
expect 0 'explain -o' "$tril" explain m 'how are you' "${quick[@]}" -o m/page.html
rm m/page.html
rm -rf phrases
expect 0 'demo --dump' "$tril" demo --dump phrases
expect 0 'demo --dump again' "$tril" demo --dump phrases
echo mine >phrases/test.en
rm phrases/train.en
expect_error 'demo --dump over a file' 'phrases/test.en: is there already and holds something else' \
  "$tril" demo --dump phrases
[ "$(cat phrases/test.en)" = mine ] || fail 'demo --dump over a file: it is lost'
[ -e phrases/train.en ] && fail 'demo --dump over a file: others are written'

# Numbers: each in its range or an error that names flag and range; nothing wraps or saturates.
seeds='is not a whole number from 0 to 18446744073709551615'
for seed in 18446744073709551616 99999999999999999999 -1 0x10 1e3 1.5 seven ''; do
  expect_error "--seed '$seed'" "--seed: '$seed' $seeds" "$tril" translate m --sample --seed "$seed"
  expect_error "lesson --seed '$seed'" "--seed: .* $seeds" "$tril" lesson leakage --seed "$seed"
  [ -z "$seed" ] || expect_error "train --seed '$seed'" "--seed: .* $seeds" "$tril" "${tiny[@]}" -o x --seed "$seed"
done
expect 0 'the largest seed' "$tril" translate m "${quick[@]}" --sample --seed 18446744073709551615 --input source
cp out largest
expect 0 'seed 010' "$tril" translate m "${quick[@]}" --sample --seed 010 --input source
cp out ten
expect 0 'seed 10' "$tril" translate m "${quick[@]}" --sample --seed 10 --input source
cmp -s out ten || fail 'seed 010 is not 10'
cmp -s out largest && fail 'the largest seed draws as seed 10'
for flag in 'translate m --beam' 'translate m --n-best' 'translate m --max-tokens' 'translate m --batch' \
  'translate m --threads' 'translate m --sample --top-k' 'explain m --beam' 'shortlist m --best' \
  'shortlist m --frequent' 'shortlist m --rounds' 'evaluate m --batch' 'bench --threads' 'prove m --threads' \
  'demo --threads' 'lesson --threads' 'score m --threads'; do
  for number in 18446744073709551617 -1 1x; do
    # shellcheck disable=SC2086 # words
    expect_error "$flag $number" "${flag##* }: '$number' is not a whole number from [01] to [0-9]" \
      "$tril" $flag "$number"
  done
done
# shellcheck disable=SC2013 # words
for flag in $("$tril" train --help | grep -o -- '^ *--[a-z0-9-]* U*INT' | grep -o -- '--[a-z0-9-]*'); do
  expect_error "train $flag" "^tril: $flag: '18446744073709551616' is not a whole number from 0 to " \
    "$tril" train -o x "$flag" 18446744073709551616
  ints=$((${ints:-0} + 1))
done
[ "${ints:-0}" -ge 20 ] || fail "train: only ${ints:-0} flags of whole numbers are found"
printf 'seed = -5\n' >options.toml
expect_error 'a seed in a file' "--seed: '-5' $seeds" "$tril" train --config options.toml --source source \
  --target reference -o x
# Values that fit the type but make no sense.
for option in 'batch-tokens 1000000000' 'micro-batch-tokens 16777217' 'updates 10000000000' \
  'evaluate-every 0' 'save-every 10000000000' 'patience 10000000000' 'warm-up 10000000000' 'valid-beam 2000' \
  'average-checkpoints 100000' 'max-tokens 1' 'log-every 0'; do
  # shellcheck disable=SC2086 # words
  expect_error "train --$option" "train: ${option% *} must be from [012] to [0-9]*, not ${option#* }" \
    "$tril" "${tiny[@]}" -o x --$option
done
expect_error 'train --vocab' 'vocab is 5000000, expected 1 to 1000000' "$tril" "${tiny[@]}" -o x --vocab 5000000
[ -e x ] && fail 'train: a run that was refused has begun'

# What a model writes contains no control characters: a line stays a line, a column a column.
yes how | head -n 60 >many
expect 0 'samples' "$tril" translate m --max-tokens 24 --sample --temperature 3 --n-best 3 --scores --input many
lines 'samples' 180
[ "$(awk -F '\t' 'NF != 3' out | wc -l)" -eq 0 ] || fail 'samples: not three columns'
LC_ALL=C grep -q '[^[:print:][:blank:]'$'\200-\377'']' out && fail 'samples: control characters'
expect 0 'continued' "$tril" generate writer --max-tokens 24 --sample --temperature 3 --input many
LC_ALL=C grep -q $'[\001-\010\013-\037\177\t]' out && fail 'continued: control characters'
[ "$(tr -d -c '\000' <out | wc -c)" -eq 0 ] || fail 'continued: NUL'

# A file that is cut short while it is in use.
"$tril" quantize m --to int8 -o small >out 2>err || fail 'quantize'
mkfifo in answers
"$tril" translate small "${quick[@]}" <in >answers 2>err &
run=$!
exec 3>in 4<answers
printf 'how are you\n' >&3
read -r -t 20 _ <&4 || fail 'no answer before the file is cut'
: >small/packed.int8.safetensors
printf 'how are you\n' >&3
exec 3>&-
wait "$run"
code=$?
exec 4<&-
[ "$code" -eq 2 ] || fail "a file that is cut short: exit code $code, expected 2"
says 'a file that is cut short' '^tril: small/packed.int8.safetensors: cut short or unreadable while in use$'
# Any other SIGBUS ends the program as it always does.
mkfifo in2
"$tril" translate m <in2 >out 2>err &
run=$!
exec 3>in2
sleep 0.3 && kill -BUS "$run"
wait "$run" 2>/dev/null
code=$?
exec 3>&-
[ "$code" -eq $((128 + 7)) ] || fail "SIGBUS from outside: exit code $code, expected 135"

# No threads: a stack larger than the address space is the limit that even root has.
if (ulimit -s 200000000000) 2>/dev/null; then
  no_threads() { (ulimit -s 200000000000 && exec "$@"); }
  expect 0 'no threads' no_threads "$tril" translate m "${quick[@]}" --input source --threads 4
  cmp -s out expected || fail 'no threads: another output'
  expect 2 'no threads to learn pieces' no_threads "$tril" "${learn[@]}" --updates 2 -o none
  says 'no threads to learn pieces' '^tril: tokenizer: the 4 threads .* could not be started: '
  expect 0 'no threads to train' no_threads "$tril" "${tiny[@]}" --tokenizer closed/tokenizer.model \
    --updates 2 -o none --threads 4
fi
# No memory, from just enough for the program to begin: one line or the result. Sanitizers take more
# addresses than any limit.
if ! grep -q '__[at]san_init' "$tril"; then
  short=0
  for ((kib = 10000; kib <= 90000; kib += 4000)); do
    (ulimit -v "$kib" && exec "$tril" --version) >/dev/null 2>&1 || continue
    (ulimit -v "$kib" && exec "$tril" translate m "${quick[@]}" --beam 1000 --batch 65536 --threads 1 \
      --input source) >out 2>err
    code=$?
    grep -v ' cut ' err >rest
    case $code in
      0) [ "$(wc -l <out)" -eq 3 ] && [ ! -s rest ] || fail "$kib KiB: not the result" ;;
      2)
        [ "$(wc -l <rest)" -eq 1 ] || fail "$kib KiB: not one line"
        grep -q '^tril: translate: out of memory: .*try a smaller --batch' rest || fail "$kib KiB: not said"
        short=$((short + 1))
        ;;
      *) fail "$kib KiB: exit code $code" ;;
    esac
  done
  [ "$short" -gt 0 ] || fail 'no memory: there was always enough'
fi
unchanged 'at the end'

[ "$failures" -eq 0 ] && printf 'nothing is lost where things go wrong\n'
exit "$((failures > 0))"
