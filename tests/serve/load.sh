#!/usr/bin/env bash
# Load never changes an answer, over sockets: with 1 to 256 clients, mixed options, streams, and
# clients that leave, every answer is what `tril translate` prints for that line. A longer run with
# TRIL_FULL=1.
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
if ! "$tril" info --json | grep -q '"serve_problem": ""'; then
  printf 'skipped: this build has no server\n'
  exit 77
fi

# Words that the model knows; it was never trained, so it writes anything at all.
printf '%s\n' 'how are you' 'I am fine, thank you' 'where are they going?' 'the theory that they gathered' \
  'how are they' 'I am going' 'thank you, I am fine' 'where you are' 'are they fine?' 'they gathered' >lines

golden() { "$tril" translate model --max-tokens 12 "$@" <lines 2>err; }
golden >golden.1 --beam 1
golden >golden.2 --beam 4 --length-penalty 1
golden >golden.3
golden >golden.4 --beam 2 --no-repeat-ngram 2
golden >golden.5 --min-tokens 6 --beam 3
cat >mix <<'END'
[{"beam": 1, "max_tokens": 12}, {"beam": 4, "length_penalty": 1, "max_tokens": 12}, {"max_tokens": 12},
 {"beam": 2, "no_repeat_ngram": 2, "max_tokens": 12}, {"min_tokens": 6, "beam": 3, "max_tokens": 12}]
END
verify=(--mix mix)
for i in 1 2 3 4 5; do verify+=(--verify "golden.$i"); done

# number NAME: of the report.
number() { sed -nE "s/.*\"$1\": ([0-9.]+).*/\1/p" report | head -n 1; }

# under CLIENTS REQUESTS SERVER-OPTION...
under() {
  local clients=$1 requests=$2
  serve "en-hi=$scratch/model" --max-queue 10000000 "${@:3}"
  "$load" "$url" lines --clients "$clients" --requests "$requests" --seed "$clients" --stream 0.2 \
    --cancel 0.1 --cancel-within 0.01 "${verify[@]}" --report report >out 2>err ||
    fail "$clients clients, $*: $(cat report err)"
  local checked
  checked=$(number checked)
  ((checked > requests / 2)) || fail "$clients clients: only $checked answers were compared"
  for what in wrong unequal torn; do
    [ "$(number $what)" = 0 ] || fail "$clients clients, $*: $what is $(number $what)"
  done
  printf '%s clients (%s): %s answers compared, %s cancelled, none differs\n' "$clients" "${*:3}" "$checked" \
    "$(number cancelled)"
  stop
}
under 1 100 --batch 5 --threads 1
under 16 400 --batch 8
under 256 1500 --cache 0
if [ -n "${TRIL_FULL-}" ]; then
  for clients in 2 8 64 256; do
    for batch in 5 8 64; do
      for threads in 1 2; do under "$clients" 4000 --batch "$batch" --threads "$threads" --cache 0; done
    done
  done
fi
((failures == 0)) || exit 1
