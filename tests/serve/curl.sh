#!/usr/bin/env bash
# `tril serve` with curl: every endpoint, every error, keys, limits, streams, caching, and how it ends.
# What it answers must be what `tril translate` prints.
#   curl.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL PATH-TO-JSON_VALUE
set -u
export LC_ALL=C.UTF-8
tril=$(realpath "$1")
make_model=$(realpath "$2")
json_value=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
need curl
cd "$scratch" || exit 1
: >out && : >err
json='Content-Type: application/json'
page_policy="default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
page_policy+=" base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"$make_model" model translate && "$make_model" writer generate || exit 1

# ask STATUS WHAT PATH CURL-OPTIONS...: one request. Leaves `out` and `headers`.
ask() {
  local expected=$1 got
  what=$2
  : >out
  got=$(curl -sS --noproxy '*' --max-time 120 -o out -D headers -w '%{http_code}' "${@:4}" "$url$3" 2>err)
  [[ " ${expected//|/ } " == *" $got "* ]] || fail "$what: status $got, expected $expected"
}
# post STATUS WHAT PATH BODY CURL-OPTIONS...
post() { ask "$1" "$2" "$3" -H "$json" -d "$4" "${@:5}"; }
value() { "$json_value" out "$1" 2>&1; }
# is PATH VALUE: a value of the answer.
is() {
  local got
  got=$(value "$1")
  [ "$got" == "$2" ] || fail "$what: $1 is '$got', expected '$2'"
}
header() { sed -n "s/^$1: *//Ip" headers | tr -d '\r' | tail -n 1; }
# has_header NAME PATTERN
has_header() { [[ $(header "$1") =~ $2 ]] || fail "$what: header $1 is '$(header "$1")', expected $2"; }
is_text() { has_header Content-Type '^text/plain'; }
is_json() { has_header Content-Type '^application/json'; }
# refuse STATUS WHAT FIELD PATH BODY OPTIONS...: an error of tril's own API; FIELD may be '-'.
refuse() {
  post "$1" "$2" "$4" "$5" "${@:6}"
  own_error "$3"
}
own_error() {
  is_json
  [[ $(value error.code) =~ ^[a-z][a-z0-9_]*$ ]] || fail "$what: error.code"
  [ -n "$(value error.message)" ] && [[ $(value error.message) != *$'\n'* ]] || fail "$what: error.message"
  [ "$1" == - ] || is error.field "$1"
}
foreign_error() { is_json && [ -n "$(value "$1")" ] && [[ $(value "$1") != json_value:* ]] || fail "$what: no $1"; }
# translated OPTIONS... <LINES: what the program prints.
translated() { "$tril" translate model "$@" 2>/dev/null; }
# raw TEXT: sends bytes as they are and prints the first line of the answer.
raw() {
  local port=${url##*:}
  {
    printf '%b' "$1" >&3
    IFS= read -r -t 60 line <&3
    printf '%s\n' "${line%$'\r'}"
  } 3<>"/dev/tcp/127.0.0.1/$port"
}

# --- Without keys, one model.
serve en-hi=model
# Operations.
ask 200 livez /livez && is_text
ask 200 readyz /readyz && is_text
ask 200 metrics /metrics
has_header Content-Type '^text/plain; *version=0\.0\.4'
prints metrics '^# TYPE tril_[a-z_]* counter'
ask 200 openapi /openapi.json && is_json
is openapi 3.1.0
cmp -s out "$here/../../src/tril/serve/openapi.json" || fail 'openapi: not the file of the tree'
ask 200 page /
has_header Content-Type '^text/html'
[ "$(header Content-Security-Policy)" == "$page_policy" ] || fail 'page: another policy'
for asset in $(grep -oE '/?assets/[A-Za-z0-9._-]+' out | sort -u); do ask 200 "$asset" "/${asset#/}"; done
ask 404 'an asset that is not there' /assets/none.js
ask 404 'a path outside the assets' '/assets/..%2f..%2fetc%2fpasswd'
ask 200 'HEAD' /livez -I

# Models.
ask 200 models /v1/models && is_json
is object list
is data 1
is data.0.id en-hi
is data.0.object model
is data.0.kind encoder-decoder
is data.0.source_languages.0 en
is data.0.target_languages.0 hi
is data.0.max_length 64
is data.0.device cpu
is data.0.shortlist false
fingerprint=$(value data.0.fingerprint)
[[ $fingerprint =~ ^[0-9a-f]{32}$ ]] || fail "models: fingerprint $fingerprint"
ask 200 'a model' /v1/models/en-hi
is id en-hi
ask 404 'no such model' /v1/models/none
foreign_error error.message

# Translations are those of the program.
post 200 translate /v1/translate '{"text": "how are you"}'
is_json
is model en-hi
is fingerprint "$fingerprint"
is source en
is target hi
is translations 1
is translations.0.text "$(echo 'how are you' | translated)"
[[ $(value usage.source_tokens) -gt 0 && $(value usage.target_tokens) -gt 0 ]] || fail 'translate: usage'
has_header ETag '^"[^"]+"$'
has_header X-Tril-Fingerprint "^$fingerprint\$"
etag=$(header ETag)
cp out first
post 200 'translate again' /v1/translate '{"text": "how are you"}' -H 'X-Request-Id: request-7'
cmp -s out first || fail 'translate again: other bytes'
[ "$(header ETag)" == "$etag" ] || fail 'translate again: another ETag'
has_header X-Request-Id '^request-7$'
post 200 'another text' /v1/translate '{"text": "thank you"}'
[ "$(header ETag)" != "$etag" ] || fail 'another text: the same ETag'

post 200 texts /v1/translate '{"text": ["how are you", "I am fine\n\nthank you", "", " "], "model": "en-hi", "source": "en",
  "target": "hi"}'
is translations 4
is translations.0.text "$(echo 'how are you' | translated)"
is translations.1.text "$(printf 'I am fine\n\nthank you\n' | translated)"
is translations.2.text ''
is translations.0.ended "$(echo 'how are you' | translated --json | grep -o '"ended":[a-z]*' | cut -d : -f 2)"

post 200 'n-best' /v1/translate '{"text": "how are you", "beam": 4, "n_best": 3, "length_penalty": 1, "details": true,
  "alignments": true, "max_tokens": 9}'
echo 'how are you' | translated --beam 4 --n-best 3 --length-penalty 1 --max-tokens 9 --json >lines
for i in 0 1 2; do
  for field in text score rank ended; do
    theirs=$("$json_value" lines n_best.$i.$field)
    ours=$(value translations.0.sentences.0.hypotheses.$i.$field)
    [ "$ours" == "$theirs" ] || fail "n-best: $field of hypothesis $i: $ours, $theirs by the program"
  done
  for field in ids pieces log_probs; do
    is translations.0.sentences.0.hypotheses.$i.$field "$("$json_value" lines n_best.$i.$field)"
    is translations.0.sentences.0.hypotheses.$i.$field.0 "$("$json_value" lines n_best.$i.$field.0)"
  done
  is translations.0.sentences.0.hypotheses.$i.alignment \
    "$(echo 'how are you' | translated --beam 4 --n-best 3 --length-penalty 1 --max-tokens 9 --alignments |
      sed -n "$((i + 1))p" | cut -f 3 | wc -w)"
done
is translations.0.alternatives 2
is translations.0.alternatives.0 "$(value translations.0.sentences.0.hypotheses.1.text)"
is translations.0.sentences.0.source 'how are you'

post 200 sampled /v1/translate '{"text": "how are you", "sample": true, "n_best": 2, "temperature": 0.8, "top_k": 20,
  "top_p": 0.9, "seed": 7, "max_tokens": 9}'
echo 'how are you' |
  translated --sample --n-best 2 --temperature 0.8 --top-k 20 --top-p 0.9 --seed 7 --max-tokens 9 | cut -f 2 >lines
is translations.0.text "$(sed -n 1p lines)"
is translations.0.alternatives.0 "$(sed -n 2p lines)"

post 200 rules /v1/translate '{"text": "how are you", "beam": 2, "max_tokens": 6, "min_tokens": 3, "max_ratio": 1,
  "no_repeat_ngram": 2, "repetition_penalty": 1.2, "renormalize": true, "early_stopping": "never", "cut": "ranked",
  "force_end": true, "forbid": [[5], [6, 7]], "split": "never", "format": "text", "timeout": 60}'
is translations.0.text "$(echo 'how are you' | translated --beam 2 --max-tokens 6 --min-tokens 3 --max-ratio 1 \
  --no-repeat-ngram 2 --repetition-penalty 1.2 --renormalize yes --early-stopping never --cut ranked --force-end yes \
  --forbid 5 --forbid '6 7')"
post 200 prefix /v1/translate '{"text": ["how are you", "thank you"], "prefix": ["मैं ठीक", ""], "max_tokens": 4}'
printf 'मैं ठीक\n\n' >prefix
is translations.0.text "$(printf 'how are you\nthank you\n' | translated --prefix prefix --max-tokens 4 | sed -n 1p)"
post 200 'source auto' /v1/translate '{"text": "How are you? This is an English sentence.", "source": "auto"}'
is translations.0.detected.language en
post 200 'the numbers are decimal' /v1/translate '{"text": "how are you", "beam": 1, "length_penalty": 6e-1}'
# A line longer than the model is split into sentences.
long=$(printf 'how are you? %.0s' {1..40})
post 200 'a long line' /v1/translate "{\"text\": \"$long\", \"details\": true, \"max_tokens\": 4}"
[[ $(value translations.0.sentences) -gt 1 ]] || fail 'a long line: not split'
post 200 'split always' /v1/translate '{"text": "how are you? I am fine.", "split": "always", "details": true}'
is translations.0.sentences 2
is translations.0.sentences.1.source 'I am fine.'

# Streams: the text only grows, and the last event is the whole answer.
ask 200 stream /v1/translate -N -H "$json" -d '{"text": ["how are you", "thank you"], "stream": true}'
has_header Content-Type '^text/event-stream'
has_header X-Accel-Buffering '^no$'
[ "$(grep -c '^event: partial' out)" -ge 2 ] || fail 'stream: fewer than two partial events'
[ "$(grep '^event: ' out | tail -n 1 | tr -d '\r')" == 'event: done' ] || fail 'stream: does not end with done'
cp out events
before=('' '')
while IFS= read -r line; do
  printf '%s' "$line" >out
  index=$(value index) text=$(value text)
  [[ $text == "${before[index]}"* ]] || fail "stream: '${before[index]}' became '$text'"
  before[index]=$text
done < <(grep -A 1 '^event: partial' events | sed -n 's/^data: *//p')
sed -n '/^event: done/,$s/^data: *//p' events >out
is translations.0.text "$(echo 'how are you' | translated)"
is translations.1.text "$(echo 'thank you' | translated)"
for i in 0 1; do [[ $(value translations.$i.text) == "${before[i]}"* ]] || fail "stream: text $i ends otherwise"; done
ask 200 'stream by GET' '/v1/translate?text=how%20are%20you&stream=true'
has_header Content-Type '^text/event-stream'
# A client that goes away takes nothing with it.
curl -sS --noproxy '*' --max-time 0.05 -o gone "$url/v1/translate" -H "$json" \
  -d "{\"text\": \"$long\", \"beam\": 16, \"stream\": true}" 2>/dev/null
post 200 'after a client left' /v1/translate '{"text": "how are you"}'
cmp -s out first || fail 'after a client left: other bytes'

# By GET: the same answer, cacheable.
ask 200 'GET' '/v1/translate?text=how%20are%20you&model=en-hi&beam=4&n_best=2&details=true'
is translations.0.alternatives 1
ask 200 'GET' '/v1/translate?text=how+are+you'
is translations.0.text "$(echo 'how are you' | translated)"
etag=$(header ETag)
[[ $etag =~ ^\".+\"$ ]] || fail "GET: ETag $etag"
for known in "$etag" "\"other\", $etag" "W/$etag"; do
  ask 304 "If-None-Match: $known" '/v1/translate?text=how+are+you' -H "If-None-Match: $known"
  [ -s out ] && fail "If-None-Match: $known: a body"
  [ "$(header ETag)" == "$etag" ] || fail "If-None-Match: $known: ETag $(header ETag)"
done
ask 200 'another ETag' '/v1/translate?text=how+are+you' -H 'If-None-Match: "other"'
ask 400 'GET: a field that is none' '/v1/translate?text=how&beem=4'
own_error beem
ask 400 'GET: no number' '/v1/translate?text=how&beam=four'
own_error beam
ask 400 'GET: no text' '/v1/translate?beam=4'
own_error text

# Scores, tokens, languages, the page of explain.
post 200 score /v1/score '{"source": ["how are you", "thank you"], "target": ["I am", "मैं ठीक हूँ"], "model": "en-hi"}'
printf 'how are you\nthank you\n' >source
is scores 2
is model en-hi
is scores.0.score "$(printf 'I am\nमैं ठीक हूँ\n' | "$tril" score model --source source --target - | sed -n 1p)"
is scores.1.score "$(printf 'I am\nमैं ठीक हूँ\n' | "$tril" score model --source source --target - | sed -n 2p)"
is scores.0.ids "$(value scores.0.log_probs)"
is scores.0.pieces "$(value scores.0.log_probs)"
has_header X-Tril-Fingerprint "^$fingerprint\$"
refuse '400|422' 'score: another number of targets' - /v1/score '{"source": ["a", "b"], "target": ["c"], "model": "en-hi"}'
post 200 tokenize /v1/tokenize '{"text": ["how are you", ""], "side": "source", "model": "en-hi"}'
is texts 2
[[ $(value texts.0.ids) -gt 0 && $(value texts.0.ids) == "$(value texts.0.pieces)" ]] || fail 'tokenize: ids and pieces'
post 200 'detect' /v1/detect '{"text": "How are you? This is an English sentence."}'
is detected.0.language en
ask 200 'detect by GET' '/v1/detect?text=How+are+you%3F+This+is+an+English+sentence.'
is detected.0.language en
ask 200 explain '/explain?text=how%20are%20you&model=en-hi'
has_header Content-Type '^text/html'
has_header Content-Security-Policy 'sandbox'
head -c 15 out | grep -qi '<!doctype html>' || fail 'explain: not a page'
ask 400 'explain without a text' /explain

# Errors, each with the field that is wrong.
while read -r status field body; do
  refuse "$status" "$body" "$field" /v1/translate "$body"
done <<'END'
400 - {"text": "how"
400 - []
400 - "how"
400 text {}
400 text {"text": 7}
400 text {"text": []}
400 text {"text": ["how", 7]}
400 beem {"text": "how", "beem": 4}
400 beam {"text": "how", "beam": 0}
400 beam {"text": "how", "beam": 17}
400 beam {"text": "how", "beam": 2.5}
400 beam {"text": "how", "beam": "2"}
400 beam {"text": "how", "beam": 99999999999999999999999}
400 n_best {"text": "how", "n_best": 0}
400|422 - {"text": "how", "beam": 2, "n_best": 3}
400 length_penalty {"text": "how", "length_penalty": "much"}
400 early_stopping {"text": "how", "early_stopping": "perhaps"}
400 cut {"text": "how", "cut": "first"}
400 max_tokens {"text": "how", "max_tokens": -1}
400 max_tokens {"text": "how", "max_tokens": 99999999}
400 min_tokens {"text": "how", "min_tokens": -1}
400 max_ratio {"text": "how", "max_ratio": -1}
400 no_repeat_ngram {"text": "how", "no_repeat_ngram": -1}
400 repetition_penalty {"text": "how", "repetition_penalty": 0}
400 sample {"text": "how", "sample": 1}
400|422 - {"text": "how", "sample": true, "beam": 2}
400 temperature {"text": "how", "sample": true, "temperature": 0}
400 top_k {"text": "how", "sample": true, "top_k": -1}
400 top_p {"text": "how", "sample": true, "top_p": 0}
400 top_p {"text": "how", "sample": true, "top_p": 1.1}
400 seed {"text": "how", "sample": true, "seed": -1}
400 forbid {"text": "how", "forbid": [5]}
400 forbid {"text": "how", "forbid": [[]]}
400|422 - {"text": "how", "forbid": [[99999]]}
400 split {"text": "how", "split": "sometimes"}
400 format {"text": "how", "format": "html"}
400 stream {"text": "how", "stream": "yes"}
400 timeout {"text": "how", "timeout": 0}
400|422 shortlist {"text": "how", "shortlist": true}
404 model {"text": "how", "model": "none"}
400|422 source {"text": "how", "source": "xx"}
400|422 target {"text": "how", "target": "xx"}
400|422 prefix {"text": ["how", "are"], "prefix": ["a"]}
400|422 - {"text": "how\nare", "prefix": "a"}
END
refuse '400|422' 'too long to stay whole' text /v1/translate "{\"text\": \"$long\", \"split\": \"never\"}"
refuse 504 'a deadline' - /v1/translate "{\"text\": [\"$long\", \"$long I\"], \"beam\": 16, \"timeout\": 0.000001}"
refuse 400 'not UTF-8' - /v1/translate $'{"text": "\xff"}'
refuse 400 'half a surrogate pair' - /v1/translate '{"text": "\ud800"}'
refuse 400 'too deep' - /v1/translate "{\"text\": $(printf '[%.0s' {1..5000})"
refuse 400 'a name twice' - /v1/translate '{"text": "how", "text": "are"}'
refuse '400|413' 'too many texts' text /v1/translate "{\"text\": [$(printf '"a",%.0s' {1..256})\"a\"]}"
ask 415 'no JSON' /v1/translate -H 'Content-Type: text/plain' -d 'how' && own_error -
ask 413 'too large' /v1/translate -H "$json" -d @<(head -c 20000000 /dev/zero | tr '\0' a)
ask 431 'a long header' /livez -H "X-Long: $(head -c 100000 /dev/zero | tr '\0' a)"
ask 404 'no such page' /v1/none && own_error -
ask 405 'GET where POST belongs' /v1/generate && own_error -
has_header Allow '\bPOST\b'
ask 405 'POST where GET belongs' /v1/models -X POST -d ''
has_header Allow '\bGET\b'
ask 405 'DELETE' /v1/translate -X DELETE && own_error -
has_header Allow 'GET.*POST|POST.*GET'
for bytes in 'GET /livez HTTP/1.1\r\n\r\n' 'NONSENSE\r\n\r\n' \
  'POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n'; do
  got=$(raw "$bytes")
  [[ $got == 'HTTP/1.'?' 400 '* ]] || fail "bytes $bytes: '$got'"
done
[[ $(raw 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n') == 'HTTP/1.1 200 '* ]] || fail 'bytes of a whole request'
got=$(raw 'POST /v1/detect HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
[[ $got == 'HTTP/1.1 400 '* ]] || fail "two lengths: '$got'"
ask 200 'chunked' /v1/translate -H "$json" -H 'Transfer-Encoding: chunked' -d '{"text": "how are you"}'
is translations.0.text "$(echo 'how are you' | translated)"
ask 200 'waiting for 100' /v1/translate -H "$json" -H 'Expect: 100-continue' -d '{"text": "how are you"}'

# LibreTranslate: JSON and forms, errors of its own shape.
post 200 'LibreTranslate' /translate '{"q": "how are you", "source": "en", "target": "hi", "format": "text"}'
is translatedText "$(echo 'how are you' | translated)"
has_header ETag '^"[^"]+"$'
has_header X-Tril-Fingerprint "^$fingerprint\$"
ask 200 'LibreTranslate, a form' /translate -d 'q=how+are+you&source=en&target=hi'
is translatedText "$(echo 'how are you' | translated)"
post 200 'LibreTranslate, many' /translate '{"q": ["how are you", "thank you"], "source": "auto", "target": "hi", "alternatives": 2}'
is translatedText.1 "$(echo 'thank you' | translated)"
is alternatives.0 2
is detectedLanguage 2
post 400 'LibreTranslate, too many alternatives' /translate '{"q": "how", "source": "en", "target": "hi", "alternatives": 16}'
foreign_error error
post 400 'LibreTranslate, a field that is none' /translate '{"q": "how", "source": "en", "target": "hi", "alternative": 1}'
foreign_error error
prints 'LibreTranslate, a field that is none' alternative
ask 200 'LibreTranslate, a form of 256 texts' /translate -d "source=en&target=hi$(printf '&q=%%20%.0s' {1..256})"
is translatedText 256
post '400|422' 'LibreTranslate, html' /translate '{"q": "how", "source": "en", "target": "hi", "format": "html"}'
foreign_error error
post 400 'LibreTranslate without a text' /translate '{"source": "en", "target": "hi"}' && foreign_error error
post '400|422' 'LibreTranslate, a language' /translate '{"q": "how", "source": "en", "target": "xx"}' && foreign_error error
ask 405 'LibreTranslate by GET' /translate && foreign_error error
ask 200 'LibreTranslate, detect' /detect -d 'q=How+are+you%3F+This+is+an+English+sentence.'
is 0.language en
ask 200 'LibreTranslate, languages' /languages && is_json
is 0.code en
is 0.name English
is 0.targets.0 hi
ask 200 'health' /health && is status ok
ask 200 'settings' /frontend/settings
is keyRequired false
is apiKeys false

# DeepL: JSON and forms.
post 200 'DeepL' /v2/translate '{"text": ["how are you", "thank you"], "target_lang": "HI"}'
is translations.0.text "$(echo 'how are you' | translated)"
is translations.1.text "$(echo 'thank you' | translated)"
is translations.0.billed_characters 11
ask 200 'DeepL, a form' /v2/translate -d 'text=how+are+you&text=thank+you&source_lang=EN&target_lang=HI'
is translations.1.text "$(echo 'thank you' | translated)"
is translations.1.detected_source_language EN
for field in tag_handling glossary_id style_id context text_type; do
  post 400 "DeepL, $field" /v2/translate "{\"text\": [\"how\"], \"source_lang\": \"EN\", \"target_lang\": \"HI\", \"$field\": \"xml\"}"
  foreign_error message
  prints "DeepL, $field" "$field"
done
post 400 'DeepL without a language' /v2/translate '{"text": ["how"]}' && foreign_error message
ask 200 'DeepL, languages' /v2/languages
is 0.language EN
ask 200 'DeepL, languages by query' '/v2/languages?type=target'
is 0.language HI
ask 200 'DeepL, languages by a form' /v2/languages -d type=target
is 0.language HI
ask 400 'DeepL, languages of neither side' '/v2/languages?type=none' && foreign_error message
ask 200 'DeepL, usage' /v2/usage
[[ $(value character_count) -gt 0 && $(value character_limit) -gt $(value character_count) ]] || fail 'DeepL, usage'
ask 404 'DeepL, no such page' /v2/none

# OpenAI's completions.
post 200 'OpenAI' /v1/completions '{"model": "en-hi", "prompt": "how are you"}'
is object text_completion
is choices.0.text "$(echo 'how are you' | translated)"
is system_fingerprint "$fingerprint"
post 200 'OpenAI, stream' /v1/completions '{"model": "en-hi", "prompt": "how are you", "stream": true}'
[ "$(sed -n 's/^data: *//p' out | tail -n 1 | tr -d '\r')" == '[DONE]' ] || fail 'OpenAI, stream: no [DONE]'
post 404 'OpenAI, no such model' /v1/completions '{"model": "none", "prompt": "how"}' && foreign_error error.message
is error.param model
post 400 'OpenAI, no prompt' /v1/completions '{"model": "en-hi"}' && foreign_error error.type
is error.param prompt

# A receipt lets anyone with the model compute the answer again.
post 200 receipt /v1/translate '{"text": "how are you", "beam": 3, "receipt": true}'
cp out answer.json
expect 0 'verify-answer' "$tril" verify-answer answer.json --model model
prints 'verify-answer' "is this model's"
sed "s/$fingerprint/00000000${fingerprint:8}/g" answer.json >other.json
expect 1 'verify-answer of another fingerprint' "$tril" verify-answer other.json --model model
prints 'verify-answer of another fingerprint' '^NOT proven'
grep -q "is this model's" out && fail 'verify-answer of another fingerprint: two verdicts'
"$make_model" other translate 9
expect 1 'verify-answer with another model' "$tril" verify-answer answer.json --model other
prints 'verify-answer with another model' "^NOT this model's answer"
sed 's/"ended":true/"ended":false/g; t; s/"ended":false/"ended":true/g' answer.json >other.json
expect 1 'verify-answer of an answer that was changed' "$tril" verify-answer other.json --model model
post 200 'no receipt' /v1/translate '{"text": "how are you"}'
cp out answer.json
expect 2 'verify-answer without a receipt' "$tril" verify-answer answer.json --model model

# Many at a time: each gets what it gets alone.
for i in {1..12}; do
  beam=$((i % 4 + 1))
  curl -sS --noproxy '*' --max-time 120 -o "many-$i" "$url/v1/translate" -H "$json" \
    -d "{\"text\": \"you $i are\", \"beam\": $beam}" &
  pids[i]=$!
done
wait "${pids[@]}"
for i in {1..12}; do
  cp "many-$i" out
  what="many, $i"
  is translations.0.text "$(echo "you $i are" | translated --beam $((i % 4 + 1)))"
done
# What it took from the model's name is all it has to say.
grep -v ', as its name says$' server-0.err >err && fail 'the server wrote to stderr'

# SIGTERM: what was begun is finished, nothing new is taken, the exit code is 0.
body="{\"text\": [$(printf '"how are you, I am fine %s",' {1..199})\"you\"], \"beam\": 16, \"stream\": true}"
curl -sS --noproxy '*' --max-time 120 -N -o last "$url/v1/translate" -H "$json" -d "$body" &
slow=$!
until [ -s last ] || ! kill -0 "$slow" 2>/dev/null; do sleep 0.02; done
kill -TERM "$server"
sleep 0.2
if kill -0 "$slow" 2>/dev/null; then
  # While it drains, it is not ready, or no longer there.
  ask '503|000' 'readyz while draining' /readyz
  post '503|000' 'a request while draining' /v1/translate '{"text": "how"}'
fi
wait "$slow" || fail 'SIGTERM: what was begun was not finished'
grep -q '^event: done' last || fail 'SIGTERM: a stream was cut'
ended

# --- Two models, each the only one of its kind: a request need not name it.
serve en-hi=model writer
ask 200 'two models' /v1/models
is data 2
is data.1.id writer
is data.1.kind decoder-only
is data.1.source_languages 0
[ "$(value data.0.fingerprint)" != "$(value data.1.fingerprint)" ] || fail 'two models with one fingerprint'
post 200 'one of them translates' /v1/translate '{"text": "how are you"}'
is model en-hi
post 200 generate /v1/generate '{"text": ["how are", "where"], "max_tokens": 5}'
is model writer
is translations.0.text "$(echo 'how are' | "$tril" generate writer --max-tokens 5 2>/dev/null)"
is translations.1.text "$(echo 'where' | "$tril" generate writer --max-tokens 5 2>/dev/null)"
post 200 'generate, streamed' /v1/generate '{"text": "how are", "max_tokens": 5, "stream": true}'
sed -n '/^event: done/,$s/^data: *//p' out >done && cp done out
is translations.0.text "$(echo 'how are' | "$tril" generate writer --max-tokens 5 2>/dev/null)"
refuse '400|422' 'generate with an encoder' model /v1/generate '{"text": "how", "model": "en-hi"}'
refuse '400|422' 'translate without one' model /v1/translate '{"text": "how", "model": "writer"}'
refuse 400 'generate has no languages' source /v1/generate '{"text": "how", "source": "en", "model": "writer"}'
post 200 'OpenAI, decoder-only' /v1/completions \
  '{"model": "writer", "prompt": "how are", "max_tokens": 5, "temperature": 0, "logprobs": 0}'
whole=$(echo 'how are' | "$tril" generate writer --max-tokens 5 2>/dev/null)
is choices.0.text "${whole#how are}"
is choices.0.logprobs.tokens 5
is usage.completion_tokens 5
post 200 'OpenAI, echo' /v1/completions \
  '{"model": "writer", "prompt": "how are", "max_tokens": 5, "temperature": 0, "echo": true}'
is choices.0.text "$whole"
stop

# --- Keys.
printf '# who may\nopen-sesame alice\nlimited bob 30\n' >keys
serve en-hi=model --keys keys
for path in /livez /readyz / /openapi.json /languages /frontend/settings /health; do ask 200 "$path without a key" "$path"; done
ask 200 'settings with keys' /frontend/settings && is keyRequired true
for path in /metrics /v1/models '/v1/translate?text=how' '/explain?text=how' '/v1/detect?text=how'; do
  ask 401 "$path without a key" "$path" && is_json
  ask 401 "$path with a wrong key" "$path" -H 'Authorization: Bearer wrong' && is_json
  ask 200 "$path with a key" "$path" -H 'Authorization: Bearer open-sesame'
done
refuse 401 'no key' - /v1/translate '{"text": "how"}'
refuse 401 'a wrong key' - /v1/translate '{"text": "how"}' -H 'Authorization: Bearer open-sesam'
refuse 401 'another scheme' - /v1/translate '{"text": "how"}' -H 'Authorization: Basic b3Blbi1zZXNhbWU='
post 200 'bearer in any case' /v1/translate '{"text": "how"}' -H 'Authorization: bearer open-sesame'
for what_key in 'Authorization: DeepL-Auth-Key open-sesame' 'Authorization: Bearer open-sesame'; do
  post 200 "$what_key" /v2/translate '{"text": ["how"], "target_lang": "HI"}' -H "$what_key"
done
post 403 'DeepL, a wrong key' /v2/translate '{"text": ["how"], "target_lang": "HI"}' -H 'Authorization: DeepL-Auth-Key no'
foreign_error message
post 403 'DeepL without a key' /v2/translate '{"text": ["how"], "target_lang": "HI"}' && foreign_error message
post 200 'api_key' /translate '{"q": "how", "source": "en", "target": "hi", "api_key": "open-sesame"}'
ask 200 'api_key in a form' /translate -d 'q=how&source=en&target=hi&api_key=open-sesame'
post 403 'a wrong api_key' /translate '{"q": "how", "source": "en", "target": "hi", "api_key": "no"}' && foreign_error error
post 403 'no api_key' /translate '{"q": "how", "source": "en", "target": "hi"}' && foreign_error error
post 401 'OpenAI, a wrong key' /v1/completions '{"model": "en-hi", "prompt": "how"}' -H 'Authorization: Bearer no'
foreign_error error.message
# 30 tokens per minute are soon used up, for this key alone.
for i in {1..20}; do
  post '200|429' 'a limited key' /v1/translate "{\"text\": \"how are you $i\"}" -H 'Authorization: Bearer limited'
  [[ $(head -n 1 headers) == *' 429'* ]] && break
done
[[ $(head -n 1 headers) == *' 429'* ]] || fail 'a limited key: never refused'
own_error -
has_header Retry-After '^[1-9][0-9]*$'
post 429 'a limited key, DeepL' /v2/translate '{"text": ["how are you", "I am fine"], "target_lang": "HI"}' \
  -H 'Authorization: DeepL-Auth-Key limited'
foreign_error message
post 200 'the other key' /v1/translate '{"text": "how are you"}' -H 'Authorization: Bearer open-sesame'
grep -q 'open-sesame\|limited' server-*.out server-*.err && fail 'a key stands in the log'
stop

# --- Limits.
serve en-hi=model --max-texts 2 --max-beam 3 --max-body 1 --no-page --cache 1
ask 404 'no page' /
refuse '400|413' 'max-texts' text /v1/translate '{"text": ["a", "b", "c"]}'
refuse 400 'max-beam' beam /v1/translate '{"text": "a", "beam": 4}'
post 413 'max-body' /v1/translate "{\"text\": \"$(head -c 1100 /dev/zero | tr '\0' a)\"}"
own_error -
post 200 'within the limits' /v1/translate '{"text": ["a", "b"], "beam": 3}'
stop
serve en-hi=model --max-queue 4
curl -sS --noproxy '*' --max-time 120 -N -o busy "$url/v1/translate" -H "$json" -d "$body" &
busy=$!
until [ -s busy ] || ! kill -0 "$busy" 2>/dev/null; do sleep 0.02; done
refuse 503 'max-queue' - /v1/translate '{"text": "how are you"}'
has_header Retry-After '^[1-9][0-9]*$'
post 503 'max-queue, OpenAI' /v1/completions '{"model": "en-hi", "prompt": "how"}' && foreign_error error.message
kill "$busy" && wait "$busy" 2>/dev/null
stop
serve en-hi=model --rate 10
for i in {1..10}; do post '200|429' 'rate' /v1/translate "{\"text\": \"how are you $i\"}"; done
[[ $(head -n 1 headers) == *' 429'* ]] || fail 'rate: never refused'
stop

# --- A Unix socket.
serve en-hi=model --listen "unix:$scratch/socket"
[ "$url" == "unix:$scratch/socket" ] || fail "a Unix socket: serving at $url"
url=http://localhost
ask 200 'a Unix socket' /v1/translate --unix-socket socket -H "$json" -d '{"text": "how are you"}'
is translations.0.text "$(echo 'how are you' | translated)"
stop
[ -e socket ] && fail 'a Unix socket: left behind'

# --- Command lines that cannot be. Each error is one line.
# error WHAT PATTERN ARGUMENTS...
error() {
  expect 2 "$1" timeout 60 "$tril" serve "${@:3}"
  [ "$(wc -l <err)" -eq 1 ] || fail "$1: not one line on stderr"
  grep -q -- "$2" err || fail "$1: no '$2' on stderr"
  [ -s out ] && fail "$1: something on stdout"
}
error 'no such model' none none
error 'one name twice' 'en-hi' en-hi=model en-hi=writer
error 'a bad address' 'listen' model --listen nonsense
error 'a bad port' 'listen' model --listen 127.0.0.1:99999
error 'no keys file' 'nokeys' model --keys nokeys
printf 'only-a-key\n' >badkeys
error 'a bad keys file' 'badkeys' model --keys badkeys
expect 2 'no model' "$tril" serve
serve en-hi=model
error 'a port that is taken' "${url##*:}" model --listen "127.0.0.1:${url##*:}"
# Ctrl-C ends it as SIGTERM does. (A shell's background job ignores SIGINT, hence no test of that here.)
stop
((failures == 0)) && printf 'every request was answered as it should be\n'
exit "$((failures > 0))"
