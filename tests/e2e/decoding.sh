#!/usr/bin/env bash
# translate, generate and score from the outside: lines in, lines out, and every way to fail.
#   decoding.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$1
make_model=$2
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
model=$scratch/model
"$make_model" "$model" translate || exit 1
"$make_model" "$scratch/writer" generate || exit 1

# run INPUT CODE WHAT COMMAND...: printf's INPUT is stdin.
run() {
  local input=$1 code=$2 what=$3 got=0
  shift 3
  # shellcheck disable=SC2059 # the input may hold escapes
  printf "$input" | "$@" >"$scratch/out" 2>"$scratch/err"
  got=${PIPESTATUS[1]}
  [ "$got" -eq "$code" ] || fail "$what: exit code $got, expected $code"
}
# An error is one line, beside those that say which results were cut.
run_error() {
  local input=$1 what=$2 pattern=$3
  shift 3
  run "$input" 2 "$what" "$@"
  without_cuts
  [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$what: not one line on stderr"
  grep -q -- "$pattern" "$scratch/err" || fail "$what: no '$pattern' in it"
}
without_cuts() {
  grep -v '^tril: line [0-9]*\(: .* results\)\? cut after ' "$scratch/err" >"$scratch/rest"
  mv "$scratch/rest" "$scratch/err"
}
says() { grep -q -- "$2" "$scratch/err" || fail "$1: no '$2' on stderr"; }
lines() { [ "$(wc -l <"$scratch/out")" -eq "$2" ] || fail "$1: not $2 lines"; }
same() { cmp -s "$2" "$scratch/out" || fail "$1: another output"; }

quick=(--max-tokens 8)
three='how are you\nmैं\n\nI am fine, thank you'

# One line for each line, the last one without an end too; the same whatever the batch and threads.
run "$three" 0 'translate' "$tril" translate "$model" "${quick[@]}"
lines 'translate' 4
cp "$scratch/out" "$scratch/expected"
[ -z "$(sed -n 3p "$scratch/out")" ] || fail 'translate: an empty line is translated'
for batch in 5 7 64; do
  run "$three" 0 'batch' "$tril" translate "$model" "${quick[@]}" --batch "$batch" --threads 1
  same "batch $batch" "$scratch/expected"
done
printf "$three" >"$scratch/text"
run '' 0 'a file' "$tril" translate "$model" "${quick[@]}" --input "$scratch/text"
same 'a file' "$scratch/expected"
run '' 0 'no lines' "$tril" translate "$model"
lines 'no lines' 0

# Rules of the search: a minimum, no pair of tokens twice, an end at the limit.
rules=(--min-tokens 5 --no-repeat-ngram 2 --force-end yes --early-stopping never --cut ranked)
run "$three" 0 'rules' "$tril" translate "$model" "${quick[@]}" "${rules[@]}" --ids
lines 'rules' 4
awk 'NF == 0 { next }
     NF < 6 || NF > 8 || $NF != 3 { exit 1 }
     { delete seen; for (i = 1; i < NF; ++i) if (seen[$i " " $(i + 1)]++) exit 1 }' \
  "$scratch/out" || fail 'rules: they are not kept'
first=$(cut -d ' ' -f 1 "$scratch/out" | head -n 1)
run "$three" 0 'forbid' "$tril" translate "$model" "${quick[@]}" --ids --forbid "$first" \
  --repetition-penalty 1.5
! grep -qw -- "$first" "$scratch/out" || fail 'forbid: the token is there'
run_error 'a\n' 'forbid' 'is not a list of token ids' "$tril" translate "$model" --forbid x
run_error 'a\n' 'language' 'the language hi was named, but the model has none to choose' \
  "$tril" translate "$model" --to-language hi

# Settings in the folder come before the program's, and flags before them.
cp -r "$model" "$scratch/settled"
printf '{"format": 1, "beam": 2, "max_tokens": 3, "languages": {"from": "en", "to": "hi"}}' \
  >"$scratch/settled/generation.json"
"$tril" verify --seal "$scratch/settled" >"$scratch/out" 2>&1 || fail 'settings: not sealed'
run "$three" 0 'settings' "$tril" translate "$scratch/settled" --ids --from-language en
awk 'NF > 3 { exit 1 }' "$scratch/out" || fail 'settings: more than 3 tokens'
run "$three" 0 'settings' "$tril" translate "$model" --ids --beam 2 --max-tokens 3
cp "$scratch/out" "$scratch/named"
run "$three" 0 'settings' "$tril" translate "$scratch/settled" --ids
same 'settings' "$scratch/named"
run_error 'a\n' 'direction' 'no language de: the model translates into hi alone' \
  "$tril" translate "$scratch/settled" --to-language de
run '' 0 'info' "$tril" info "$scratch/settled"
grep -q '^languages: from en to hi$' "$scratch/out" || fail 'info: no languages'
grep -q '"max_tokens": 3' "$scratch/out" || fail 'info: no settings'
run '' 0 'quantize' "$tril" quantize "$scratch/settled" --to int8 -o "$scratch/settled8"
run "$three" 0 'quantized settings' "$tril" translate "$scratch/settled8" --ids
awk 'NF > 3 { exit 1 }' "$scratch/out" || fail 'quantized settings: more than 3 tokens'
printf '{"format": 1, "beams": 2}' >"$scratch/settled/generation.json"
run_error 'a\n' 'changed settings' 'generation.json' "$tril" translate "$scratch/settled"
run '' 2 'wrong settings' "$tril" verify --seal "$scratch/settled"
says 'wrong settings' 'generation.json: there is no field beams'

# Lines are read as training reads them: CR LF, a byte order mark, gzip, from a file or stdin.
printf '\357\273\277how are you\r\nmैं\r\n\r\nI am fine, thank you' >"$scratch/foreign"
gzip -k "$scratch/foreign"
for file in foreign foreign.gz; do
  run '' 0 "$file" "$tril" translate "$model" "${quick[@]}" --input "$scratch/$file"
  same "$file" "$scratch/expected"
  run '' 0 "$file from stdin" sh -c "exec '$tril' translate '$model' ${quick[*]} <'$scratch/$file'"
  same "$file from stdin" "$scratch/expected"
done

# A line is answered before the next one comes.
mkfifo "$scratch/in" "$scratch/answers"
"$tril" translate "$model" "${quick[@]}" <"$scratch/in" >"$scratch/answers" 2>"$scratch/err" &
exec 3>"$scratch/in" 4<"$scratch/answers"
printf 'how are you\n' >&3
read -r -t 20 answer <&4 || fail 'a line is not answered before the next'
[ "$answer" = "$(sed -n 1p "$scratch/expected")" ] || fail 'a line alone: another answer'
exec 3>&-
wait $! || fail 'translate at the end of a pipe'
exec 4<&-

# Columns.
run "$three" 0 'columns' "$tril" translate "$model" "${quick[@]}" --n-best 2 --scores --alignments
lines 'columns' 7
[ "$(awk -F '\t' 'NF != 4' "$scratch/out" | wc -l)" -eq 0 ] || fail 'columns: not four'
[ "$(cut -f 1 "$scratch/out" | tr '\n' ' ')" = '1 1 2 2 3 4 4 ' ] || fail 'columns: line numbers'
run 'how are you\n' 0 'json' "$tril" translate "$model" "${quick[@]}" --json --alignments
for field in '"line":1' '"text":' '"ids":\[' '"pieces":\[' '"score":-' '"log_probs":\[-' \
  '"alignment":"'; do
  prints 'json' "$field"
done

# Scores of printed ids are the printed scores, digit for digit.
printf 'how are you\nI am fine\n' >"$scratch/source"
run '' 0 'scores' "$tril" translate "$model" "${quick[@]}" --input "$scratch/source" --scores --ids
cut -f 1 "$scratch/out" >"$scratch/scores"
cut -f 2 "$scratch/out" >"$scratch/ids"
run '' 0 'score --ids' "$tril" score "$model" --source "$scratch/source" --target "$scratch/ids" --ids
same 'score --ids' "$scratch/scores"
run '' 0 'score' "$tril" score "$model" --source "$scratch/source" --target "$scratch/source" --json
lines 'score' 2
prints 'score' '"pieces":\[.*"</s>"\]'
cp "$scratch/out" "$scratch/expected"
sed 's/$/\r/' "$scratch/source" | gzip >"$scratch/source.gz"
run '' 0 'score gzip' "$tril" score "$model" --source "$scratch/source.gz" --target "$scratch/source" --json
same 'score gzip' "$scratch/expected"

# Nothing is cut in silence, and the model's own limit is the only one unless another is given.
run 'how are you\nthank you\n' 0 'cut' "$tril" translate "$model" --max-tokens 3
[ "$(cat "$scratch/err")" = "$(printf 'tril: line %d cut after 3 tokens\n' 1 2)" ] || fail 'cut: not told'
run 'how are you\n' 0 'n-best cut' "$tril" translate "$model" --max-tokens 3 --n-best 2
says 'n-best cut' '^tril: line 1: 2 of 2 results cut after 3 tokens$'
run '\n' 0 'nothing to cut' "$tril" translate "$model" --max-tokens 3
[ -s "$scratch/err" ] && fail 'nothing to cut: and yet it is'
run 'how\n' 0 'no limit' "$tril" translate "$model" --max-ratio 0
says 'no limit' 'line 1 cut after 64 tokens'
run 'how\n' 0 'ratio' "$tril" translate "$model" --max-ratio 1
says 'ratio' 'line 1 cut after 1[2-9] tokens'
run 'how\n' 0 'generate without a limit' "$tril" generate "$scratch/writer"
says 'generate without a limit' 'line 1 cut after 64 tokens'
run '' 0 'evaluate cut' "$tril" evaluate "$model" --source "$scratch/source.gz" --max-tokens 3 \
  --reference "$scratch/source"
says 'evaluate cut' '^tril: 2 of 2 translations cut before their end, first line 1$'

# One reference per --reference: what follows is the model.
run '' 0 'model last' "$tril" evaluate --source "$scratch/source" --reference "$scratch/source" "$model"
prints 'model last' 'nrefs:1'
run '' 0 'two references' "$tril" evaluate --hypothesis "$scratch/source.gz" \
  --reference "$scratch/source" --reference "$scratch/source.gz"
prints 'two references' '^chrF2.nrefs:2.* = 100.00$'

# Sampling: the seed decides; a prefix comes first.
run 'how\nhow\n' 0 'sample' "$tril" translate "$model" "${quick[@]}" --sample --seed 3
cp "$scratch/out" "$scratch/sampled"
[ "$(sort -u "$scratch/out" | wc -l)" -eq 2 ] || fail 'sample: two lines draw the same'
run 'how\nhow\n' 0 'sample again' "$tril" translate "$model" "${quick[@]}" --sample --seed 3
same 'sample again' "$scratch/sampled"
run 'how\nhow\n' 0 'sample otherwise' "$tril" translate "$model" "${quick[@]}" --sample --seed 4
cmp -s "$scratch/sampled" "$scratch/out" && fail 'another seed draws the same'
printf 'thank you\n\n' >"$scratch/prefix"
run 'how\nhow\n' 0 'prefix' "$tril" translate "$model" "${quick[@]}" --prefix "$scratch/prefix"
prints 'prefix' '^thank you'
run 'how are\n' 0 'generate' "$tril" generate "$scratch/writer" "${quick[@]}" --sample --top-p 0.9
prints 'generate' '^how are'
run_error 'how\n' 'nothing is drawn' \
  'top_k: nothing is drawn by chance without sampling; leave --top-k out, or give --sample' \
  "$tril" translate "$model" --top-k 3

# A shortlist: learnt, used, and scored with exactly the reported numbers.
run_error 'x\n' 'no shortlist' 'there is no shortlist in this folder' \
  "$tril" translate "$model" --shortlist
for i in 1 2 3 4 5 6; do printf 'how are you\nI am fine\n'; done >"$scratch/learn.en"
for i in 1 2 3 4 5 6; do printf 'मैं ठीक हूँ\nwhere they\n'; done >"$scratch/learn.hi"
run '' 0 'shortlist' "$tril" shortlist "$model" --source "$scratch/learn.en" \
  --target "$scratch/learn.hi" --best 6 --frequent 2
prints 'shortlist' 'shortlist.safetensors .*from 12 pairs'
prints 'shortlist' 'measured on 1 pair left out: a sentence has [0-9]* of [0-9]* pieces'
prints 'shortlist' '^try: .* translate .* --shortlist$'
says 'shortlist' '^cutting the text into pieces$'
says 'shortlist' '^learning from 12 pairs$'
cp "$model/shortlist.safetensors" "$scratch/first.safetensors"
run '' 0 'shortlist again' "$tril" shortlist "$model" --source "$scratch/learn.en" \
  --target "$scratch/learn.hi" --best 6 --frequent 2 --threads 1
cmp -s "$model/shortlist.safetensors" "$scratch/first.safetensors" || fail 'shortlist: other bytes'
run "$three" 0 'listed' "$tril" translate "$model" "${quick[@]}" --shortlist
lines 'listed' 4
cp "$scratch/out" "$scratch/listed"
for batch in 5 64; do
  run "$three" 0 'listed batch' "$tril" translate "$model" "${quick[@]}" --shortlist --batch "$batch" \
    --threads 1
  same "listed batch $batch" "$scratch/listed"
done
for kind in fp32 bf16 int8; do
  printf 'thank you\nthank you\n' >"$scratch/thanks"
  run '' 0 "listed scores $kind" "$tril" translate "$model" "${quick[@]}" --shortlist --compute $kind \
    --input "$scratch/source" --prefix "$scratch/thanks" --scores --ids
  cut -f 1 "$scratch/out" >"$scratch/scores"
  cut -f 2 "$scratch/out" >"$scratch/ids"
  run '' 0 "listed score $kind" "$tril" score "$model" --shortlist --compute $kind \
    --source "$scratch/source" --target "$scratch/ids" --ids --prefix "$scratch/thanks"
  same "listed score $kind" "$scratch/scores"
done
run '' 0 'outside' "$tril" score "$model" --shortlist --source "$scratch/source" --target "$scratch/thanks"
prints 'outside' '^-inf$'
run '' 0 'outside, json' "$tril" score "$model" --shortlist --json --source "$scratch/source" \
  --target "$scratch/thanks"
prints 'outside, json' '"score":null'
run '' 0 'listed evaluate' "$tril" evaluate "$model" --shortlist --source "$scratch/source" \
  --max-tokens 4 --reference "$scratch/source"
run '' 0 'listed small' "$tril" quantize "$model" --to int8 -o "$scratch/small"
run "$three" 0 'listed small' "$tril" translate "$scratch/small" "${quick[@]}" --shortlist
lines 'listed small' 4
run_error '' 'evaluate a file listed' '--shortlist is for a model' \
  "$tril" evaluate --shortlist --hypothesis "$scratch/source" --reference "$scratch/source"
for flag in '--compute int8' '--beam 3' '--length-penalty 1' '--max-tokens 9' '--max-ratio 2' '--batch 5' \
  '--device cpu' "--output $scratch/kept"; do
  # shellcheck disable=SC2086 # a flag and its value
  run_error '' "evaluate a file with $flag" "^tril: evaluate: ${flag%% *} is for a model, not for --hypothesis" \
    "$tril" evaluate $flag --hypothesis "$scratch/source" --reference "$scratch/source"
done
run '' 0 'help on listed scores' "$tril" translate --help
tr -s '\n ' ' ' <"$scratch/out" | grep -q 'With --shortlist, scores cover only the listed' || fail 'help on listed scores: not said'
run_error '' 'a prefix without a shortlist' '--shortlist' "$tril" score "$model" \
  --source "$scratch/source" --target "$scratch/source" --prefix "$scratch/thanks"
run_error '' 'shortlist of a writer' 'is a decoder-only model' \
  "$tril" shortlist "$scratch/writer" --source "$scratch/source" --target "$scratch/source"
run '' 2 'shortlist of unequal files' "$tril" shortlist "$model" --source "$scratch/learn.en" \
  --target "$scratch/source"
says 'shortlist of unequal files' '^tril: .*source'
cmp -s "$model/shortlist.safetensors" "$scratch/first.safetensors" || fail 'a failed shortlist replaced one'
run_error '' 'shortlist of nothing' "no text to learn from: .*'tril shortlist .* --source train.en --target" \
  "$tril" shortlist "$model"
head -c 300 "$scratch/first.safetensors" >"$model/shortlist.safetensors"
run_error 'x\n' 'a shortlist cut short' 'shortlist.safetensors: ' "$tril" translate "$model" --shortlist
cp "$scratch/small/packed.int8.safetensors" "$model/shortlist.safetensors"
run_error 'x\n' 'no shortlist at all' 'not a shortlist this version of tril made' \
  "$tril" translate "$model" --shortlist
"$make_model" "$scratch/foreigner" other || exit 1
cp "$scratch/first.safetensors" "$scratch/foreigner/shortlist.safetensors"
run_error 'x\n' 'another tokenizer' 'made with another tokenizer' \
  "$tril" translate "$scratch/foreigner" --shortlist
rm "$model/shortlist.safetensors"

# A folder with packed weights alone infers; what needs more, and a kind it has not, is one line that
# says what to give instead.
small=$scratch/small
only='small: has only packed weights (packed.int8.safetensors), .* the folder they were made from is needed'
run '' 0 'info of packed weights' "$tril" info "$small"
tr -s '\n ' ' ' <"$scratch/out" | grep -q 'parameters, packed in int8: for inference on the CPU' || fail 'info of packed weights: not said'
run_error '' 'quantize of packed weights' "$only" "$tril" quantize "$small" --to bf16
run '' 2 'prove of packed weights' "$tril" prove "$small"
says 'prove of packed weights' "$only"
run_error 'x\n' 'another kind' 'nothing for fp32 .*; choose one that is there with --compute' \
  "$tril" translate "$small" --compute fp32
# Packed weights of another model are not used, and one line says so; the result is that without
# them.
stale=$scratch/stale
mkdir "$stale" && cp "$model"/{config.json,tokenizer.model,model.safetensors} "$small/packed.int8.safetensors" "$stale"
run "$three" 0 'packed' "$tril" translate "$stale" "${quick[@]}" --compute int8
without_cuts
[ -s "$scratch/err" ] && fail 'packed weights that are used: something is said'
"$make_model" "$scratch/reseeded" translate 6 && cp "$scratch/reseeded/model.safetensors" "$stale"
cmp -s "$model/model.safetensors" "$stale/model.safetensors" && fail 'stale: the weights are the same'
for command in translate evaluate score; do
  arguments=(--compute int8)
  [ $command = translate ] && arguments+=("${quick[@]}")
  [ $command = evaluate ] && arguments+=("${quick[@]}" --source "$scratch/source" --reference "$scratch/source")
  [ $command = score ] && arguments+=(--source "$scratch/source" --target "$scratch/source")
  run "$three" 0 "stale $command" "$tril" $command "$stale" "${arguments[@]}"
  cp "$scratch/out" "$scratch/expected"
  grep -v ' cut ' "$scratch/err" >"$scratch/rest"
  mv "$scratch/rest" "$scratch/err"
  [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "stale $command: not one line on stderr"
  says "stale $command" "^tril: .*packed.int8.safetensors: not used, it was made from other weights; pack it again: 'tril quantize "
  mv "$stale/packed.int8.safetensors" "$scratch/aside"
  run "$three" 0 "none $command" "$tril" $command "$stale" "${arguments[@]}"
  mv "$scratch/aside" "$stale/packed.int8.safetensors"
  same "stale $command" "$scratch/expected"
done
printf 'this is no model at all' >"$stale/model.safetensors"
run_error 'x\n' 'garbage' 'model.safetensors: not a safetensors file, or a damaged one' \
  "$tril" translate "$stale"

# A reader that goes away is not an error.
yes 'how are you' | "$tril" translate "$model" "${quick[@]}" 2>"$scratch/err" | head -n 2 >"$scratch/out"
[ "${PIPESTATUS[1]}" -eq 0 ] || fail 'a closed pipe is an error'
without_cuts
[ -s "$scratch/err" ] && fail 'a closed pipe says something'

# --split: sentences are translated one by one, the output is one line for each line, and what fits
# is translated as without.
two='how are you\n\nI am fine, thank you\n'
run "$two" 0 'no split' "$tril" translate "$model" "${quick[@]}"
cp "$scratch/out" "$scratch/whole"
for split in --split --split=long --split=always; do
  run "$two" 0 "$split" "$tril" translate "$split" "$model" "${quick[@]}"
  same "$split of lines of one sentence" "$scratch/whole"
done
run 'How are you?\nI am fine.\n' 0 'two lines' "$tril" translate "$model" "${quick[@]}"
paste -sd ' ' "$scratch/out" >"$scratch/sentences"
run 'How are you? I am fine.\n' 0 'one line' "$tril" translate "$model" "${quick[@]}" --split=always
same 'one line of two sentences' "$scratch/sentences"
says 'one line of two sentences' '^tril: line 1, sentence 2 cut after 8 tokens'
without_cuts
paragraph=$(printf 'How are you? I am fine, thank you. %.0s' $(seq 1 30))
run "how\n\n$paragraph\n\nhow\n" 0 'paragraph' "$tril" translate "$model" "${quick[@]}" --split
lines 'paragraph' 5
cp "$scratch/out" "$scratch/whole"
run "how\n\n$paragraph\n\nhow\n" 0 'paragraph again' "$tril" translate "$model" "${quick[@]}" --split \
  --batch 1 --threads 1
same 'paragraph whatever the batch' "$scratch/whole"
run 'How are you? Fine.\n\n' 0 'json of sentences' "$tril" translate "$model" "${quick[@]}" \
  --split=always --json
lines 'json of sentences' 2
prints 'json of sentences' '^{"line":1,"text":".*","ended":false,"sentences":\[{"source":"How are you?","text":"'
prints 'json of no sentence' '^{"line":2,"text":"","ended":true,"sentences":\[\]}$'
run 'how \377\nhow\n' 1 'a bad line split' "$tril" translate "$model" "${quick[@]}" --split
lines 'a bad line split' 2
says 'a bad line split' '^tril: line 1 skipped: '
run_error 'how\n\nhow \377\nhow\n' 'a bad line, strict and split' 'line 3: ' \
  "$tril" translate "$model" "${quick[@]}" --split --strict
lines 'before a bad line, strict and split' 2
for flag in '--n-best 2' --scores --ids --alignments "--prefix $scratch/prefix"; do
  # shellcheck disable=SC2086 # a flag and its value
  run_error 'how\n' "--split with $flag" "^tril: ${flag%% *} is about whole lines" \
    "$tril" translate "$model" --split $flag
done
run_error 'how\n' 'a wrong word' "'never' is not one of long, always" "$tril" translate "$model" --split=never
yes '' | "$tril" translate "$model" --split 2>"$scratch/err" | head -n 3 >"$scratch/out"
[ "${PIPESTATUS[1]}" -eq 0 ] || fail 'a closed pipe is an error of --split'
{ echo how; sleep 2; } | "$tril" translate "$model" "${quick[@]}" --split 2>/dev/null | {
  read -r -t 1.5 _ || echo late
} >"$scratch/out"
[ -s "$scratch/out" ] && fail '--split waits for the next line'

# Text that is plainly in another language is translated, and named on stderr.
russian='Где ты положил мои ключи?\n'
run "how are you\n$russian" 0 'a doubtful line' "$tril" translate "$model" "${quick[@]}"
without_cuts
[ "$(cat "$scratch/err")" = "tril: line 2: is it in the right language? most of its words consist of letters that the \
model's tokenizer never learnt" ] || fail 'a doubtful line: not told, or more'
run "$(printf "$russian%.0s" $(seq 1 17))" 0 'doubtful lines' "$tril" translate "$model" "${quick[@]}" --split
without_cuts
[ "$(wc -l <"$scratch/err")" -eq 6 ] || fail 'doubtful lines: not five and a count'
says 'doubtful lines' '^tril: … and 12 more lines like them$'

# Every way to fail.
long=$(printf 'x %.0s' $(seq 1 100))
run_error "how\n$long\nhow\n" 'a long line' 'line 2: the line has .* the model takes 64' \
  "$tril" translate "$model" "${quick[@]}" --strict
lines 'before a long line' 1
run_error 'how \377\n' 'no UTF-8' 'line 1: ' "$tril" translate "$model" --strict
lines 'no UTF-8' 0
run "how \\377\nhow\n$long\n" 1 'skipped' "$tril" translate "$model" "${quick[@]}"
lines 'skipped' 3
[ "$(grep -c '^tril: line [13] skipped: ' "$scratch/err")" -eq 2 ] || fail 'skipped: not told'
# A line of more than a mebibyte is a bad line like any other, and the lines before it are answered.
{ echo how && head -c 1100000 /dev/zero | tr '\0' x && printf '\nhow\n'; } >"$scratch/vast"
run_error '' 'a vast line' 'line 2: the line has more than 1048576 bytes' \
  "$tril" translate "$model" "${quick[@]}" --input "$scratch/vast" --strict
lines 'before a vast line' 1
run '' 1 'a vast line skipped' "$tril" translate "$model" "${quick[@]}" --input "$scratch/vast"
lines 'a vast line skipped' 3
says 'a vast line skipped' '^tril: line 2 skipped: the line has more than'
run_error '' 'a vast target' 'line 2: the source has more than 1048576 bytes' \
  "$tril" score "$model" --source "$scratch/vast" --target "$scratch/vast" --strict
lines 'before a vast target' 1
run_error '' 'a vast hypothesis' 'vast: line 2: it has more than 1048576 bytes' \
  "$tril" evaluate --hypothesis "$scratch/vast" --reference "$scratch/vast" --strict
# Whatever cannot be read, the lines before it are answered.
head -c -4 "$scratch/source.gz" >"$scratch/short.gz"
run_error '' 'gzip cut short' 'short.gz: cannot read past line 2: the gzip file is cut short' \
  "$tril" translate "$model" "${quick[@]}" --input "$scratch/short.gz"
lines 'gzip cut short' 2
run 'a\000b\n' 0 'NUL' "$tril" translate "$model" "${quick[@]}"
lines 'NUL' 1
run_error '' 'no such folder' 'nowhere' "$tril" translate "$scratch/nowhere"
run_error '' 'no such input' 'nowhere: cannot open: No such file' \
  "$tril" translate "$model" --input "$scratch/nowhere"
run_error '' 'a folder as input' 'cannot open: Is a directory' "$tril" translate "$model" --input "$scratch"
run_error 'x\n' 'decoder-only' 'tril generate' "$tril" translate "$scratch/writer"
run_error 'x\n' 'encoder' 'tril translate' "$tril" generate "$model"
run_error 'x\n' 'n-best' '7 best translations from a beam of 5; --n-best needs a --beam' \
  "$tril" translate "$model" --n-best 7
run_error 'x\n' 'beam and sample' '--beam' "$tril" translate "$model" --beam 3 --sample
run_error 'a\nb\nc\n' 'few prefixes' 'prefix ends after 2 lines' \
  "$tril" translate "$model" "${quick[@]}" --prefix "$scratch/prefix"
lines 'before prefixes end' 2
run_error 'a\n' 'many prefixes' 'stdin ends after 1 lines, .*prefix has more' \
  "$tril" translate "$model" "${quick[@]}" --prefix "$scratch/prefix"
run_error '' 'unequal files' 'prefix ends after 2 lines, .*text has more' \
  "$tril" score "$model" --source "$scratch/text" --target "$scratch/prefix"
run_error '' 'no ids' 'line 1: the target is not a list of token ids' \
  "$tril" score "$model" --source "$scratch/source" --target "$scratch/source" --ids --strict
run_error '' 'no source' '--source is needed' "$tril" score "$model" --target "$scratch/source"
run_error '' 'nothing to evaluate' 'nothing to evaluate: give a model' \
  "$tril" evaluate --reference "$scratch/source"
run_error '' 'nothing to translate' '--source is missing' \
  "$tril" evaluate "$model" --reference "$scratch/source"
run_error '' 'stdin twice' 'only one file can be stdin' \
  "$tril" evaluate --hypothesis - --reference -
run_error 'x\n' 'a full disk' 'output could not be written' \
  sh -c "'$tril' translate '$model' --max-tokens 4 >/dev/full"
cp -r "$model" "$scratch/other" && printf 'x' >>"$scratch/other/tokenizer.model"
run_error 'x\n' 'a broken tokenizer' 'tokenizer.model' "$tril" translate "$scratch/other"
rm "$scratch/other/tokenizer.model"
run_error 'x\n' 'no tokenizer' 'tokenizer.model' "$tril" translate "$scratch/other"

[ "$failures" -eq 0 ]
