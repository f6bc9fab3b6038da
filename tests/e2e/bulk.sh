#!/usr/bin/env bash
# Shards: the outputs of all shards of a file are the output for the whole file, byte for byte, whatever the search;
# workers that are killed leave nothing, finished shards are skipped, and no other run's file is taken for one's own.
#   bulk.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
"$make_model" model translate || exit 1
"$make_model" writer generate || exit 1

# Lines of many lengths: empty ones, one of a single long word, CR LF, a byte order mark, no end at the end.
words=(how are you I am fine, thank where they going? theory मैं ठीक हूँ that gathered)
{
  printf '\357\273\277'
  for i in {1..60}; do
    case $((i % 20)) in
      7) printf '\n' ;;
      13) printf '%s\r\n' "${words[i % 15]}" ;;
      *) printf '%s %s %s' "${words[i % 15]}" "${words[i * 7 % 15]}" "${words[i * i % 15]}"
        ((i % 6 == 0)) && printf ' %s %s.' "${words[(i + 3) % 15]}" "${words[(i + 8) % 15]}"
        printf '\n' ;;
    esac
  done
  printf 'I am fine'
} >text
sed 's/ .*//' text | tr -d '\r' | sed '1s/^\xef\xbb\xbf//; 2~3s/.*//' >prefixes
printf '\n' >>prefixes # the last line of the text has no end
gzip -k text prefixes
lines=61

# error WHAT PATTERN COMMAND...: one line on stderr, exit code 2, nothing on stdout.
error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ "$(grep -vc ' cut after ' err)" -eq 1 ] || fail "$what: not one line on stderr"
  grep -q -- "$pattern" err || fail "$what: no '$pattern' in the error"
  [ ! -s out ] || fail "$what: something on stdout"
}
says() { grep -q -- "$2" err || fail "$1: no '$2' on stderr"; }

# in_shards N WHAT COMMAND...: the whole and its shards.
in_shards() {
  local n=$1 what=$2 i
  shift 2
  "$@" >whole 2>whole.err </dev/null || fail "$what: the whole"
  rm -rf parts && mkdir parts
  for ((i = 1; i <= n; ++i)); do
    expect 0 "$what, shard $i/$n" "$@" --shard "$i/$n" -o "parts/$i"
    [ ! -s out ] || fail "$what: a shard prints on stdout"
    grep ' cut after ' err >>parts/cut
    cp "parts/$i" "parts/part.$i"
  done
  for ((i = 1; i <= n; ++i)); do cat "parts/part.$i"; done >joined
  cmp whole joined >out || fail "$what: $n shards are not the whole"
  # Messages name the lines of the whole.
  [ ! -e parts/cut ] || cmp <(grep ' cut after ' whole.err) parts/cut >out || fail "$what: $n shards name other lines"
}

rules=(--max-tokens 6)
translate=("$tril" translate model --input text "${rules[@]}" --threads 1)
in_shards 5 'beam' "${translate[@]}"
[ "$(wc -l <whole)" -eq "$lines" ] || fail 'beam: not as many lines as the text'
in_shards 1 'one shard' "${translate[@]}"
in_shards 3 'greedy' "${translate[@]}" --beam 1 --ids --scores
in_shards 7 'sampling' "${translate[@]}" --sample --seed 7
cp whole sampled
"${translate[@]}" --sample --seed 8 2>/dev/null | cmp -s - sampled && fail 'sampling: another seed, the same samples'
in_shards 3 'n-best' "${translate[@]}" --n-best 3 --alignments
in_shards 4 'samples as JSON' "${translate[@]}" --sample --n-best 2 --json
tail -n 1 joined | grep -q "^{\"line\":$lines," || fail 'JSON: not the lines of the whole'
in_shards 4 'prefixes' "${translate[@]}" --prefix prefixes.gz
in_shards 3 'gzip' "$tril" translate model "${rules[@]}" --sample --seed 7 --input text.gz
cmp -s whole sampled || fail 'gzip: not the same as plain'
in_shards 4 'sentences' "${translate[@]}" --split=always --json
in_shards 4 'sampled sentences' "${translate[@]}" --split=always --sample
in_shards 3 'generate' "$tril" generate writer --input text --max-tokens 4 --sample --seed 3 --threads 1
# More shards than lines, some of them empty; a text of one line; of none.
head -n 4 text >few && printf 'one' >one && : >none
for file in few one none; do
  in_shards 9 "$file" "$tril" translate model "${rules[@]}" --input "$file" --sample
done

# Lines that come without those before them.
for from in 1 20 21 61; do
  expect 0 "from line $from" bash -c "tail -n +$from text | '$tril' translate model --max-tokens 6 --sample --seed 7 \
    --n-best 2 --threads 1 --first-line $from"
  cp out tail
  "${translate[@]}" --sample --seed 7 --n-best 2 2>/dev/null | awk -F '\t' -v from="$from" '$1 >= from' |
    cmp - tail >out || fail "from line $from: other lines"
done

# A file is written whole or not at all, and replaced.
expect 0 '--output' "${translate[@]}" -o whole.hi
[ ! -s out ] || fail '--output: something on stdout'
"${translate[@]}" 2>/dev/null | cmp - whole.hi >out || fail '--output: not what stdout gets'
expect 0 '--output again' "${translate[@]}" --beam 1 -o whole.hi
"${translate[@]}" --beam 1 2>/dev/null | cmp - whole.hi >out || fail '--output: not replaced'
cp whole.hi before
printf 'fine\n\377\n' >bad
error '--strict' 'line 2' "$tril" translate model --input bad --strict -o whole.hi
cmp -s before whole.hi || fail '--strict: the file is not as it was'
error 'a full disk' 'No space left' bash -c "exec \"\$@\" >/dev/full" - "${translate[@]}"
[ "$(ls -A | grep -c '\.tmp$')" -eq 0 ] || fail 'temporary files are left'

# Finished shards are skipped, quickly, and however they were called.
shard=("$tril" translate model --max-tokens 6 --shard 2/4)
expect 0 'a shard' "${shard[@]}" --input text -o two
cp two two.first && touch -d '2001-01-01' two
expect 0 'a finished shard' "${shard[@]}" --input text -o two --threads 2 --batch 7
says 'a finished shard' 'two: shard 2/4 is finished already'
[ "$(stat -c %Y two)" -eq "$(date -d 2001-01-01 +%s)" ] || fail 'a finished shard is written again'
expect 0 '--overwrite' "${shard[@]}" --input text -o two --overwrite
[ "$(stat -c %Y two)" -ne "$(date -d 2001-01-01 +%s)" ] || fail '--overwrite: not written again'
cmp -s two two.first || fail '--overwrite: other bytes'

# Nothing else is taken for it, and nothing is replaced.
refused() {
  error "$1" "$2" "${@:3}"
  cmp -s two two.first || fail "$1: the file has changed"
}
refused 'another shard' 'two: is finished as shard 2/4, and this is shard 3/4' "${translate[@]}" --shard 3/4 -o two
refused 'another number of shards' 'and this is shard 2/5' "${translate[@]}" --shard 2/5 -o two
refused 'other options' "with other options: '--max-tokens=6', and now '--beam=2 --max-tokens=6'" \
  "${shard[@]}" --input text --beam 2 -o two
cp -r model other && "$make_model" other translate 6
refused 'another model' 'by another model' "$tril" translate other "${shard[@]:3}" --input text -o two
sed '20s/./x/' text >text.other
refused 'other lines' 'of other lines' "${shard[@]}" --input text.other -o two
sed '60s/./x/' text >text.other
expect 0 'another line of another shard' "${shard[@]}" --input text.other -o two
refused 'prefixes' 'of other lines or prefixes' "${shard[@]}" --input text --prefix prefixes -o two
cp two mine
error 'a file without a record' 'nothing says that it is a finished shard' "${shard[@]}" --input text -o mine
cmp -s mine two || fail 'a file without a record was replaced'
cp two three && sed 's/"lines": ../"lines": 99/' .two.shard >.three.shard
error 'a damaged record' 'damaged: it does not match its checksum' "${shard[@]}" --input text -o three
head -c 40 .two.shard >.three.shard
error 'a record cut short' 'its record cannot be used' "${shard[@]}" --input text -o three
printf x >>two
error 'a changed output' 'has changed since it was finished' "${shard[@]}" --input text -o two
expect 0 '--overwrite' "${shard[@]}" --input text -o two --overwrite
rm two
expect 0 'a record without its output' "${shard[@]}" --input text -o two
cmp -s two two.first || fail 'a record without its output: other bytes'

# Bad lines: the exit code says so each time.
sed '20s/^/\xff/' text >bad.text
expect 1 'a bad line' "${shard[@]}" --input bad.text -o bad.two
says 'a bad line' 'tril: line 20 skipped'
expect 1 'a finished shard with a bad line' "${shard[@]}" --input bad.text -o bad.two
says 'a finished shard with a bad line' '1 line skipped'

# Wrong flags.
error 'no output' '--shard needs a file to write to' "${shard[@]}" --input text
error 'stdin' '--shard needs a file to read' "$tril" translate model --shard 1/2 -o x
error 'a pipe' 'no regular file' bash -c "\"\$@\" < text" - "$tril" translate model --input <(cat text) --shard 1/2 -o x
error 'shard 0' 'there is no shard 0 of 4: they are numbered from 1 to 4' "${translate[@]}" --shard 0/4 -o x
error 'shard 5 of 4' 'there is no shard 5 of 4' "${translate[@]}" --shard 5/4 -o x
for word in 1 1/ /4 1/0 a/b 1/4/2 -1/4 '' 99999999999999999999/4; do
  error "--shard $word" '--shard: .* is no shard' "${translate[@]}" --shard "$word" -o x
done
error '--overwrite alone' '--overwrite goes with --shard' "${translate[@]}" -o x --overwrite
error 'twice' 'use one of the two' "${shard[@]}" --input text -o x --first-line 3
error 'over the input' 'is what --input reads' "${translate[@]}" -o text
error 'over the model' 'is a file of a model' "${translate[@]}" -o model/config.json
error 'too few prefixes' 'prefixes.few ends after' bash -c "head -n 10 prefixes >prefixes.few; exec \"\$@\"" - \
  "${translate[@]}" --prefix prefixes.few --shard 4/4 -o x
error 'too many prefixes' 'has more' bash -c "(cat prefixes; echo a) >prefixes.many; exec \"\$@\"" - \
  "${translate[@]}" --prefix prefixes.many --shard 4/4 -o x
[ ! -e x ] || fail 'an error leaves a file'

# Killed: nothing under the output's name; the next start does all of it, and clears up. The input grows long, so that
# a kill hits.
for _ in {1..200}; do cat text; echo; done >long
long=("$tril" translate model --input long --max-tokens 6 --sample --threads 1 --shard 2/2)
"${long[@]}" -o long.expected 2>/dev/null || fail 'long'
# An output of more than a block of its checksum.
expect 0 'a large shard' "${long[@]}" --json -o large
(($(stat -c %s large) > 1 << 20)) || fail 'a large shard: not more than 1 MiB'
expect 0 'a large shard again' "${long[@]}" --json -o large
says 'a large shard again' 'is finished already'
killed=0
for signal in KILL TERM INT; do
  rm -f long.2 .long.2.shard
  env --default-signal=INT "${long[@]}" -o long.2 >out 2>err &
  worker=$!
  until compgen -G 'long.2.*.tmp' >/dev/null || ! kill -0 "$worker" 2>/dev/null; do sleep 0.01; done
  sleep 0.1
  kill "-$signal" "$worker" 2>/dev/null
  code=0
  wait "$worker" 2>/dev/null || code=$?
  ((code == 0)) && continue # it was faster
  killed=$((killed + 1))
  [ ! -e long.2 ] || fail "SIG$signal: there is an output"
  [ "$signal" = KILL ] || ! compgen -G 'long.2.*.tmp' >/dev/null || fail "SIG$signal: a temporary file is left"
  ((code == 128 + $(kill -l "$signal"))) || fail "SIG$signal: exit code $code"
  expect 0 "after SIG$signal" "${long[@]}" -o long.2
  cmp long.2 long.expected >out || fail "after SIG$signal: other bytes"
  ! compgen -G 'long.2.*.tmp' >/dev/null || fail "after SIG$signal: a temporary file is left"
done
((killed > 0)) || fail 'no worker was killed in time'

((failures == 0)) && printf 'shards are what they should be; %d workers killed\n' "$killed"
exit "$((failures > 0))"
