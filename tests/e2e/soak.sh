#!/usr/bin/env bash
# Memory over a long run: a million sentences of all lengths through translate, thousands of updates
# of train. After a tenth of the run a process must hold as much memory as at the end.
#   soak.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL [SENTENCES]
set -u
tril=$1
make_model=$2
sentences=${3:-1000000}
scratch=$(mktemp -d)
trap 'kill "$watched" 2>/dev/null; rm -rf "$scratch"' EXIT
watched=
cd "$scratch" || exit 1
"$make_model" model translate || exit 1
failures=0

# Lines of 1 to 20 words, repeated up to the requested number.
awk -v n="$sentences" 'BEGIN {
  state = 1
  for (i = 0; i < n; ++i) {
    state = (state * 1103 + 12345) % 65536
    line = ""
    for (k = state % 20 + 1; k > 0; --k) line = line "you "
    print line
  }
}' >lines

resident() { awk '/^VmRSS/ {print $2}' "/proc/$1/status" 2>/dev/null; }
# watch WHAT DONE ALL: compares the memory of $watched after a tenth with the last seen; DONE counts.
watch() {
  local what=$1 counter=$2 all=$3 early='' last='' most=0 done now
  while kill -0 "$watched" 2>/dev/null; do
    done=$($counter)
    now=$(resident "$watched")
    [ -n "$now" ] && last=$now && ((now > most)) && most=$now
    [ -z "$early" ] && ((done > all / 10)) && early=$now
    sleep 0.1
  done
  wait "$watched" || { printf '%s failed:\n' "$what"; tail -n 3 err; failures=1; }
  if [ -z "$early" ]; then
    printf '%s: over before it could be watched\n' "$what"
    failures=1
    return
  fi
  printf '%s: %d KiB after a tenth, %d at the end, %d at most\n' "$what" "$early" "$last" "$most"
  # Some room for what the system's allocator keeps: a leak of 4 bytes per sentence would be seen.
  ((most <= early + 4096)) || { printf '%s: the memory grows\n' "$what"; failures=1; }
}

"$tril" translate model --input lines --beam 2 --max-tokens 6 --threads 1 >out 2>err &
watched=$!
translated() { wc -l <out; }
watch "translate, $sentences sentences" translated "$sentences"
[ "$(wc -l <out)" -eq "$sentences" ] || { printf 'translate: lines are missing\n'; failures=1; }

head -n 2000 lines >s && tr 'a-z' 'A-Z' <s >t
head -n 20 s >v && head -n 20 t >w
updates=$((sentences / 250))
"$tril" train --source s --target t -o trained --vocab 300 --model 16 --heads 2 --feed-forward 32 \
  --encoder-layers 1 --decoder-layers 1 --batch-tokens 256 --micro-batch-tokens 128 --max-tokens 64 \
  --valid-source v --valid-target w --bpe-dropout 0.1 --updates "$updates" --log-every 10 --evaluate-every "$((updates / 20))" --threads 1 \
  2>err &
watched=$!
updated() { tail -n 1 trained/training/log.jsonl 2>/dev/null | sed -nE 's/^\{"update": ([0-9]+).*/\1/p' | grep . || echo 0; }
watch "train, $updates updates" updated "$updates"
exit "$failures"
