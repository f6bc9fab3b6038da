#!/usr/bin/env bash
# `tril demo` as a newcomer runs it: the lesson's sentences, the held-out combinations, the proof, and
# the commands it suggests. With "twice" it is run again on one thread: the same model, byte for byte.
# With TRIL_DEMO_RUN in the environment, its model and output are left in that folder for guide.sh.
#   demo.sh PATH-TO-TRIL [twice]
set -u
tril=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0
fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}

"$tril" demo --threads 2 >out 2>err || { cat out err; exit 1; }
cat out
if [ -n "${TRIL_DEMO_RUN-}" ]; then
  rm -rf -- "$TRIL_DEMO_RUN" && mkdir -p -- "$TRIL_DEMO_RUN" && cp -r demo-model out err "$TRIL_DEMO_RUN" || exit 1
fi
prints() { grep -qE -- "$1" out || fail "no line '$1'"; }
prints '^  How are you\? +आप कैसे हैं$'
prints '^  Congratulations +बधाई हो$'
prints '^  Thank you +धन्यवाद$'
prints '^  I am fine +मैं ठीक हूँ$'
tr '\n' ' ' <out | grep -qE 'of [0-9]+ logits 0 +differ in any bit\.' || fail 'logits differ, or nothing is said of them'
share=$(sed -nE 's/^Held out: .* \(([0-9]+)\.[0-9]%\).*/\1/p' out)
[ "${share:-0}" -ge 95 ] || fail "only ${share:-0}% of the held-out combinations are right"
said=$(printf 'Congratulation\nthank you\nHow are you\n' | "$tril" translate demo-model)
[ "$said" = $'बधाई हो\nधन्यवाद\nआप कैसे हैं' ] || fail "what a user types: $said"

"$tril" demo --dump phrases >/dev/null || fail 'demo --dump'
[ "$(wc -l <phrases/train.en)" -eq "$(wc -l <phrases/train.hi)" ] || fail 'dump: unequal files'
"$tril" evaluate demo-model --source phrases/test.en --reference phrases/test.hi >scores ||
  fail 'evaluate'
grep -q "^exact match: $(sed -nE 's/^Held out: ([0-9]+ of [0-9]+) .*/\1/p' out)$" scores ||
  fail "evaluate disagrees with the demo: $(tail -n 1 scores)"

if [ "${2-}" = twice ]; then
  "$tril" demo --threads 1 -o again >/dev/null 2>&1 || fail 'the second run'
  cmp demo-model/model.safetensors again/model.safetensors || fail 'one thread gives another model'
fi
exit "$((failures > 0))"
