#!/usr/bin/env bash
# The output on a terminal: with 80 columns nothing is wider, the progress line stays one line, and
# there are colours unless NO_COLOR is set; with 200 columns the space is used; and piped output does
# not depend on the terminal. With "all" also the demo and the lessons that train.
#   terminal.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL [all]
set -u
export LC_ALL=C.UTF-8
export CUDA_VISIBLE_DEVICES=
tril=$(readlink -f "$1")
make_model=$2
scratch=$(mktemp -d)
failures=0
trap 'rm -rf "$scratch"' EXIT
fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}
if ! command -v script >/dev/null; then
  printf 'skipped: no script(1) here to make a terminal\n'
  exit 0
fi
"$make_model" "$scratch/model" translate || exit 1
cd "$scratch" || exit 1

# on_terminal COLUMNS COMMAND: its output on a terminal with this many columns, in `raw`; in `shown`
# each line and each state of the progress line is a line, without colours.
on_terminal() {
  script -qec "stty cols $1 rows 24; $2" /dev/null </dev/null >raw 2>&1
  sed 's/\x1b\[[0-9;]*[A-Za-z]//g' raw | tr '\r' '\n' >shown
}
widest() { wc -L <"$1"; }

# fits COMMAND: in 80 columns no line is wider.
fits() {
  on_terminal 80 "$1"
  [ "$(grep -c . shown)" -gt 0 ] || fail "$1: prints nothing"
  [ "$(widest shown)" -le 80 ] || {
    fail "$1: a line of $(widest shown) columns in a terminal of 80"
    awk -v most=80 'length($0) > most' shown | head -3
  }
}
# uses_room COMMAND: in 200 columns some line is wider than 80.
uses_room() {
  on_terminal 200 "$1"
  [ "$(widest shown)" -gt 80 ] || fail "$1: a terminal of 200 columns is not used"
}

for i in $(seq 40); do
  printf 'the number %d is here\n' "$i" >>in.txt
  printf 'hier ist die Zahl %d\n' "$i" >>out.txt
done

fits "$tril"
for command in demo lesson train translate generate score evaluate quantize shortlist verify prove explain bench info; do
  fits "$tril help $command"
done
uses_room "$tril help translate"
fits "$tril info"
fits "$tril info model"
fits "$tril lesson"
for name in attention scale masks work summary claims 'claims 26 32 33'; do fits "$tril lesson $name"; done
uses_room "$tril lesson attention"
fits "$tril prove model --every-length 3 --one-length 4"
fits "$tril evaluate model --source in.txt --reference out.txt"
fits "$tril train --source in.txt --target out.txt --valid-source in.txt --valid-target out.txt --vocab 290 --model 32 --heads 2 --feed-forward 32 --encoder-layers 1 --decoder-layers 1 --updates 60 --evaluate-every 30 --save-every 30 -o trained"
# Progress: every state of the line begins at its left end, and a new line begins only when it is done.
[ "$(grep -c '' raw)" -le 24 ] || fail 'train: progress takes more than one line'

# Colours, and none.
on_terminal 80 "$tril lesson masks"
grep -q $'\e\\[32mVERDICT' raw || fail 'a verdict that holds is not green'
on_terminal 80 "NO_COLOR=1 $tril lesson masks"
grep -q $'\e\\[32m' raw && fail 'NO_COLOR is not heeded'
on_terminal 80 "$tril lesson masks | cat"
grep -q $'\e\\[' raw && fail 'colours in a pipe'

# Results are never broken, and a pipe ignores the width.
long=$(printf 'word %.0s' $(seq 40))
on_terminal 40 "printf '%s\n' '$long' | $tril translate model --json"
[ "$(grep -c '^{' shown)" -eq 1 ] && [ "$(grep -c '}$' shown)" -eq 1 ] || fail 'JSON is broken into lines'
on_terminal 200 "$tril lesson masks | md5sum"
cp shown wide
on_terminal 60 "$tril lesson masks | md5sum"
cmp -s shown wide || fail 'what is piped follows the width of the terminal'

if [ "${3-}" = all ]; then
  fits "$tril demo -o demo-model"
  fits "$tril lesson all"
  fits "yes a | $tril lesson quiz"
fi
[ "$failures" -eq 0 ] && printf 'the terminal is heeded\n'
exit "$((failures > 0))"
