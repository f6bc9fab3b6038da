#!/usr/bin/env bash
# Load never changes an answer, over sockets: with 1 to 256 clients, or requests that arrive at random,
# with mixed options (search, sampling, several results, prefixes, cutting into sentences), streams,
# and clients that leave, no request fails, and every answer is what `tril translate` prints for that
# line. A longer run with TRIL_FULL=1.
#   load.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL PATH-TO-TRIL_LOAD
set -u
export LC_ALL=C.UTF-8
tril=$(realpath "$1")
make_model=$(realpath "$2")
load=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
cd "$scratch" || exit 1
"$make_model" model translate || exit 1

# Words that the model knows; it was never trained, so it writes anything at all.
printf '%s\n' 'how are you' 'I am fine, thank you' 'where are they going?' 'the theory that they gathered' \
  'how are they' 'I am going' 'thank you, I am fine' 'where you are' 'are they fine?' 'they gathered' >lines

golden() { "$tril" translate model --max-tokens 12 "$@" <lines 2>err; }
golden >golden.1 --beam 1
golden >golden.2 --beam 4 --length-penalty 1
golden >golden.3
golden >golden.4 --beam 2 --no-repeat-ngram 2
golden >golden.5 --min-tokens 6 --beam 3
# Of several results the first is the text of the answer.
golden >lines.6 --beam 3 --n-best 3
sed -n 1~3p lines.6 | cut -f 2- >golden.6
yes 'मैं ठीक' | head -n "$(wc -l <lines)" >prefix
golden >golden.7 --beam 2 --prefix prefix
golden >golden.8 --beam 2 --split=always
# What is drawn depends on the number of a line, and every request is a first line.
while IFS= read -r line; do
  "$tril" translate model --max-tokens 12 --sample --seed 11 --top-k 20 <<<"$line" 2>err
done <lines >golden.9
cat >mix <<'END'
[{"beam": 1, "max_tokens": 12}, {"beam": 4, "length_penalty": 1, "max_tokens": 12}, {"max_tokens": 12},
 {"beam": 2, "no_repeat_ngram": 2, "max_tokens": 12}, {"min_tokens": 6, "beam": 3, "max_tokens": 12},
 {"beam": 3, "n_best": 3, "max_tokens": 12}, {"beam": 2, "prefix": "मैं ठीक", "max_tokens": 12},
 {"beam": 2, "split": "always", "max_tokens": 12}, {"sample": true, "seed": 11, "top_k": 20, "max_tokens": 12}]
END
verify=(--mix mix)
for i in {1..9}; do
  (($(wc -l <"golden.$i") == $(wc -l <lines))) || fail "golden.$i: not a line for each line"
  verify+=(--verify "golden.$i")
done

# number NAME: of the report.
number() { sed -nE "s/.*\"$1\": ([0-9.]+).*/\1/p" report | head -n 1; }

# under TRAFFIC REQUESTS SERVER-OPTION...: TRAFFIC is "--clients N", or "--rate N" for requests that
# come whether or not others were answered.
under() {
  local requests=$2 before=$failures what checked
  serve "en-hi=$scratch/model" --max-queue 10000000 "${@:3}"
  # shellcheck disable=SC2086 # a flag and its value
  "$load" "$url" lines $1 --requests "$requests" --seed "${1#* }" --stream 0.2 \
    --cancel 0.1 --cancel-within 0.01 "${verify[@]}" --report report >out 2>err ||
    fail "$*: $(cat report err)"
  grep -q '"errors": {}' report || fail "$*: requests failed: $(grep '"errors"' report)"
  checked=$(number checked)
  (($(number sent) == requests && $(number answered) + $(number cancelled) == requests)) ||
    fail "$*: $(number sent) were sent, $(number answered) answered, $(number cancelled) cancelled"
  ((checked == $(number answered))) || fail "$*: only $checked answers were compared"
  for what in wrong unequal torn; do
    [ "$(number $what)" = 0 ] || fail "$*: $what is $(number $what)"
  done
  ((failures > before)) ||
    printf '%s (%s): %s answers compared, %s cancelled, none differs\n' "$1" "${*:3}" "$checked" "$(number cancelled)"
  stop
}
under '--clients 1' 100 --batch 5 --threads 1
under '--clients 16' 400 --batch 8
under '--clients 256' 1500 --cache 0
under '--rate 200' 600 --batch 8 --cache 0
if [ -n "${TRIL_FULL-}" ]; then
  for clients in 2 8 64 256; do
    for batch in 5 8 64; do
      for threads in 1 2; do under "--clients $clients" 4000 --batch "$batch" --threads "$threads" --cache 0; done
    done
  done
fi
((failures == 0)) || exit 1
