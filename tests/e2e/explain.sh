#!/usr/bin/env bash
# `tril explain` as people call it: what it prints, what it writes, every way to fail.
# explain.sh TRIL MAKE_MODEL
set -uo pipefail
tril=$1
make_model=$2
sources=$(cd "$(dirname "$0")/../../src/tril/explain" && pwd) || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder" || exit 2
failures=0
complain() { printf 'explain.sh: %s\n' "$*" >&2; failures=$((failures + 1)); }

# refused CODE TEXT COMMAND...: ends with CODE, says nothing on stdout and one line with TEXT on stderr.
refused() {
  local code=$1 text=$2 rc=0
  "${@:3}" >out 2>err </dev/null || rc=$?
  ((rc == code)) || complain "${*:3}: ended with $rc, not $code"
  [[ -s out ]] && complain "${*:3}: printed $(cat out)"
  (($(wc -l <err) == 1)) || complain "${*:3}: not one line: $(cat err)"
  grep -qF -- "$text" err || complain "${*:3}: no '$text' in: $(cat err)"
}

"$make_model" both translate && "$make_model" alone generate || exit 2

"$tril" explain both 'how are you' -o page.html >out 2>err || complain "failed: $(cat err)"
[[ -s err ]] && complain "stderr: $(cat err)"
grep -q '^how are you → ' out || complain "no translation in: $(cat out)"
grep -qE 'Calls of forward\(\): 1 in training, [0-9]+ at inference\. Of [0-9]+ numbers 0 differ\.' out ||
  complain "no verdict in: $(cat out)"
grep -qE '^page\.html: [0-9]+ KB' out || complain "no file in: $(cat out)"
head -c 15 page.html | grep -qi '<!doctype html>' || complain 'page.html is no page'

# The same bytes on any number of threads; a page that is there is replaced.
"$tril" explain both 'how are you' -o one.html --threads 1 >/dev/null || complain 'one thread failed'
cmp -s page.html one.html || complain 'the page depends on the number of threads'
"$tril" explain both 'where are they' -o one.html >/dev/null || complain 'replacing failed'
cmp -s page.html one.html && complain 'the page was not replaced'

# Without a sentence, from stdin, without an encoder, with a target.
"$tril" explain both -o page.html >out || complain 'the default sentence failed'
grep -q '^I am fine → ' out || complain "the default sentence: $(cat out)"
printf 'where are they going?\nsecond\n' | "$tril" explain both - -o page.html >out || complain 'stdin failed'
grep -q '^where are they going? → ' out || complain "stdin: $(cat out)"
"$tril" explain alone 'how are' -o page.html >out || complain 'decoder-only failed'
grep -q '^how are' out || complain "decoder-only: $(cat out)"
"$tril" explain alone -o page.html >out || complain 'decoder-only without a sentence failed'
"$tril" explain both 'how are you' --target 'मैं ठीक हूँ' -o page.html >out || complain 'a target failed'
grep -q '^The page follows the given target: मैं ठीक हूँ$' out || complain "a target: $(cat out)"

# Ways to fail. None leaves a page, or touches an existing one.
rm -f none.html
cp page.html before.html
refused 2 'none' "$tril" explain none 'how are you' -o none.html
refused 2 'no word' "$tril" explain both '' -o page.html
refused 2 'UTF-8' "$tril" explain both $'\xff' -o page.html
refused 2 'tokens' "$tril" explain both "$(printf 'you %.0s' {1..100})" -o page.html
refused 2 'no encoder' "$tril" explain alone 'how are' --target 'you' -o page.html
refused 2 'from 1 to 16' "$tril" explain both 'how are you' --beam 17 -o page.html
refused 2 'from 1 to 16' "$tril" explain both 'how are you' --beam 0 -o page.html
refused 2 "needs quotes: tril explain both 'how are you'" "$tril" explain both how are you -o page.html
refused 2 'must be one line' "$tril" explain both $'how are\nyou' -o page.html
refused 2 'the target has no word' "$tril" explain both 'how are you' --target '' -o page.html
refused 2 '--nope' "$tril" explain both 'how are you' --nope -o page.html
refused 2 'stdin holds no line' "$tril" explain both - -o page.html
refused 2 'no/such' "$tril" explain both 'how are you' -o no/such/page.html
refused 2 'model' "$tril" explain
cp -r both untold && rm untold/tokenizer.model
refused 2 'untold holds a model but no tokenizer.model' "$tril" explain untold 'how are you' -o page.html
cmp -s page.html before.html || complain 'a failure touched the page'
[[ -e none.html ]] && complain 'a failure left a page'

# The page has the same bytes on every machine: no libm decides a digit of it.
grep -nE 'std::(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|erf|cbrt)\(' "$sources"/*.cpp &&
  complain 'libm in what decides the bytes of a page: base/math.h has the functions'
((failures == 0))
