#!/usr/bin/env bash
# `tril lesson` from the outside: the list, each lesson's figures and verdict, exit codes, every way not
# to run. With "all" the lessons that learn for some seconds are run too, on one thread and on two.
#   lesson.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL [all]
set -u
tril=$1
make_model=$2
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
expect_error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ -s out ] && fail "$what: something on stdout"
  [ "$(wc -l <err)" -eq 1 ] || fail "$what: not one line on stderr"
  grep -q -- "$pattern" err || fail "$what: no '$pattern' in it"
}
prints() { grep -qF -- "$2" out || fail "$1: no '$2' on stdout"; }
is_narrow() { [ "$(LC_ALL=C.UTF-8 wc -L <out)" -le 80 ] || fail "$1: a line of more than 80 columns"; }

# The list: every lesson in its order, every question.
expect 0 'list' "$tril" lesson
names=$(grep -oE '^[a-z-]+  ' out | tr -d ' \n')
[ "$names" = claimssummaryquizattentionscalemaskscontextseriesteacher-forcingdecodingforcingleakagesequentialworkheadstasks ] ||
  fail "the list: $names"
for question in 'zero the score' '-1e9' 'padding mask' 'broadcast' 'encoder' 'several heads' \
  'contextual embedding' 'sequential training slow' 'data leakage' 'without any language' \
  'heads of a trained model' 'masked attention used for' 'or the mask that lets' 'used at inference'; do
  tr -s '\n ' ' ' <out | grep -qF -- "$question" || fail "a question: no '$question' in the list"
done
prints 'what else there is' 'prove MODEL'
prints 'what else there is' 'explain MODEL'
is_narrow list

expect 0 'attention' "$tril" lesson attention
prints attention 'contextual(आप) = 0.80·आप + 0.10·कैसे + 0.10·हैं'
prints attention 'contextual(कैसे) = 0.15·आप + 0.75·कैसे + 0.10·हैं'
prints attention 'softmax(0.8, 0.6, 0.4) = (0.40, 0.33, 0.27)'
prints attention 'It sums to 1.1, so no'
prints attention 'VERDICT  The mask makes forbidden weights exactly 0'
[ -s err ] && fail 'attention: something on stderr'
is_narrow attention
expect 0 'masks' "$tril" lesson masks
prints masks 'In half precision (largest number 65504) -1e9 is -∞'
prints masks 'VERDICT  -∞ before the softmax gives forbidden keys exactly nothing'
is_narrow masks

# Pictures: well-formed, of the figures that are printed; the text is the same with and without.
cp out plain
expect 0 'masks, drawn' "$tril" lesson masks --svg masks.svg
cmp -s out plain || fail 'masks: --svg prints something else'
[ "$(grep -c -- '−∞' masks.svg)" -eq "$(grep -oE '^ +( -∞|  0){4}' plain | grep -o -- '-∞' | wc -l)" ] ||
  fail 'masks: the picture does not forbid what the matrices forbid'
expect 0 'attention, drawn' "$tril" lesson attention --svg attention.svg
for figure in '>0.40<' '>0.60<' '>0.48<' '>1.00<'; do
  grep -q -- "$figure" attention.svg || fail "attention: no $figure in the picture"
done
expect_error 'no picture' 'has no picture: leave --svg out' "$tril" lesson work --svg x.svg
expect_error 'a picture without a name' '--svg: is empty: give a path' "$tril" lesson masks --svg ''
expect_error 'a picture nowhere' 'nowhere/x.svg' "$tril" lesson masks --svg nowhere/x.svg

# A model with random weights has learnt nothing, and the verdict, which is computed, says so.
"$make_model" random translate || fail 'make_model'
"$make_model" writer generate || fail 'make_model'
expect 1 'a verdict that does not hold' "$tril" lesson teacher-forcing --model random
prints 'a verdict that does not hold' 'VERDICT  NOT as the lesson says'
# It is not known what this model has seen; for the demo's model, and for one trained here, it is
# known.
prints 'a model of unknown origin' 'whether it has seen them is not known'
expect 1 'heads that have learnt nothing' "$tril" lesson heads --model random
prints 'heads that have learnt nothing' 'the heads look at much the same'
is_narrow 'heads that have learnt nothing'
# Whatever its weights are, its ways to decode are the same bits, and guesses are checked.
expect 0 'decoding with random weights' "$tril" lesson decoding --model random
prints 'decoding with random weights' 'VERDICT  With a cache, and recomputed under the mask, the logits are the same'
is_narrow 'decoding with random weights'

expect_error 'unknown lesson' "there is no lesson 'algebra'; there are attention, scale, masks" "$tril" lesson algebra
expect_error 'a model nobody asked for' 'leave --model out' "$tril" lesson masks --model random
expect_error 'a seed nobody asked for' 'leave --seed out' "$tril" lesson attention --seed 3
expect_error 'no such model' 'nowhere: no such folder' "$tril" lesson teacher-forcing --model nowhere
expect_error 'a model that writes' 'decoder-only' "$tril" lesson teacher-forcing --model writer
expect_error 'a model that writes has no encoder' 'decoder-only' "$tril" lesson heads --model writer
expect_error 'a model that writes' 'decoder-only' "$tril" lesson decoding --model writer
expect_error 'bad threads' 'threads' "$tril" lesson masks --threads -1
expect_error 'a flag without a lesson' 'which one' "$tril" lesson --seed 3
expect_error 'full disk' 'output could not be written' sh -c "'$tril' lesson masks >/dev/full"

if [ "${3-}" = all ]; then
  for name in context series teacher-forcing decoding forcing leakage heads tasks; do
    expect 0 "$name" "$tril" lesson "$name" --threads 2
    prints "$name" 'VERDICT'
    is_narrow "$name"
    [ "$name" = teacher-forcing ] && prints "$name" 'none of which it has seen'
    [ "$name" = heads ] && prints "$name" 'More heads help here'
    [ "$name" = tasks ] && prints "$name" 'you are meera'
    [ "$name" = heads ] && continue # twelve trainings
    cp out two
    expect 0 "$name on one thread" "$tril" lesson "$name" --threads 1
    cmp -s out two || fail "$name: one thread prints something else"
  done
  expect 0 'every claim' "$tril" lesson claims all
  prints 'every claim' '44 of 44'
  is_narrow 'every claim'
  expect 0 'sequential' "$tril" lesson sequential
  is_narrow sequential
  prints sequential '4,816'
  prints sequential 'VERDICT  The same loss and gradients from 1 call instead of 4,816'
fi
[ "$failures" -eq 0 ] && printf 'the lessons teach\n'
exit "$((failures > 0))"
