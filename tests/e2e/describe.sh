#!/usr/bin/env bash
# The manual pages and the completions that the program writes about itself: each command, option and
# choice that it takes is in all of them, and nothing else; bash completes them. With zsh and fish
# where these are installed, pages checked by mandoc where that is.
#   describe.sh PATH-TO-TRIL
set -u
tril=$(realpath "$1")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset TRIL_NAME
export SOURCE_DATE_EPOCH=1700000000

for form in man bash zsh fish; do expect 0 "describe $form" "$tril" describe "$form" -o .; done
expect 0 'a second time' "$tril" describe man -o again
for page in tril*.1; do
  cmp -s "$page" "again/$page" || fail "$page: the same twice"
  grep -qx '\.Dd November 14, 2023' "$page" || fail "$page: not the date of SOURCE_DATE_EPOCH"
done
for form in bash:tril zsh:_tril fish:tril.fish; do
  expect 0 "$form on stdout" "$tril" describe "${form%%:*}"
  cmp -s out "${form#*:}" || fail "$form: not what is printed"
done
expect 0 'one page' "$tril" describe man train
cmp -s out tril-train.1 || fail 'one page: not what is printed'
expect 2 'no such page' "$tril" describe man sing
grep -q "no command 'sing'" err || fail 'no such page: the error'
expect 2 'no such shell' "$tril" describe csh
grep -q "'csh' is not one of man, bash, zsh, fish" err || fail 'no such shell: the error'
expect 2 'a page of a shell' "$tril" describe bash train
expect 2 'a bad date' env SOURCE_DATE_EPOCH=soon "$tril" describe man
grep -q "SOURCE_DATE_EPOCH: 'soon' is not" err || fail 'a bad date: the error'
expect 0 'the list of commands' "$tril"
grep -q describe out && fail 'the list of commands names describe, which is hidden'
mapfile -t commands < <(sed -nE 's/^  ([a-z-]+) .*/\1/p' out)
((${#commands[@]} >= 18)) || fail 'the list of commands: too short'

# same WHAT EXPECTED FILE: the lines of two files, in any order, each once.
same() {
  sort -u "$2" >expected
  sort -u "$3" >found
  cmp -s expected found || {
    diff expected found >out
    fail "$1: not what 'tril help' lists (<)"
  }
}

printf '%s\n' "${commands[@]}" >list
ls tril-*.1 | sed 's/^tril-//; s/\.1$//' >pages && same 'the pages' list pages
sed -nE 's/\\-/-/g; s/^\.It Cm \\&(.*)/\1/p' tril.1 >pages && same 'the commands in tril(1)' list pages
sed -nE "s/^_tril_commands\(\) .*'([^']*)'; .*/\1/p" tril | tr ' ' '\n' >words && same 'the commands in bash' list words

# Options whose value is any text. All others are of a kind that shells can complete: whoever adds an option gives it
# the type kFile or kFolder (flags.h), or a list of words, or adds it here.
texts=' bench--match bench--only explain--target explain-sentence lesson-name lesson-number serve--allow-origin serve--listen
 train--freeze train--from-language train--languages train--to-language '

# Each command: options and arguments as its help lists them.
for command in "${commands[@]}"; do
  expect 0 "help $command" "$tril" help "$command"
  sed -nE 's/^  (-[^ ]*).*/\1/p' out | tr ',' '\n' >flags
  [ -s flags ] || fail "help $command: no option"
  awk '/^Positionals:/ { in_them = 1; next } /^$/ { in_them = 0 } in_them && /^  [a-z]/ { print $1 }' out >arguments
  for each in $(sed -nE 's/^  (-.,)?([a-z-]+) TEXT.*/\2/p' out); do
    [[ $(tr '\n' ' ' <<<"$texts") == *" $command${each/#[a-z]/-${each:0:1}} "* ]] || fail "$command $each: a value that is any text?"
  done
  page=tril-$command.1
  sed 's/\\-/-/g' "$page" | grep -E '^\.It .*Fl ' | grep -oE 'Fl -?[a-z0-9-]+' | sed 's/^Fl /-/' >words
  same "$page, options" flags words
  sed -nE 's/^\.It Ar \\&([a-z]+).*/\1/p' "$page" >words
  same "$page, arguments" arguments words
  sed -nE "s/^    $command\) printf '%s' '([^']*)'.*/\1/p" tril | tr ' ' '\n' >words
  same "bash, $command" flags words
  sed -n "/^_tril_$command() {/,/^}/p" _tril | sed -nE "s/^    '(\([^)]*\)|\*)(--?[a-z0-9-]*[a-z0-9]).*/\2/p" >words
  same "zsh, $command" flags words
  sed -n "s/^complete -c tril -n '__tril_command $command'//p" tril.fish |
    sed -nE 's/^( -s (.))?( -l ([a-z0-9-]+))? .*/-\2 --\4/p' | tr ' ' '\n' | grep -vE '^--?$' >words
  same "fish, $command" flags words
done

# Each choice: a word that is none makes the program list those that it takes.
choices=0
while IFS='|' read -r command flag words; do
  "$tril" "$command" "$flag=none-of-these" x x >out 2>err </dev/null
  listed=$(sed -nE "s/.*'none-of-these' is not one of ([^(]*) \(try .*/\1/p" err | tr -d ',')
  [[ $listed == "$words" || ($flag == --device && $listed == "$words cuda:1 ...") ]] ||
    fail "$command $flag: bash proposes '$words', the program takes '$listed'"
  for file in _tril tril.fish; do
    grep -qF -- "${words}" "$file" || fail "$command $flag: $file does not propose '$words'"
  done
  choices=$((choices + 1))
done < <(sed -nE "s/^    '([a-z-]+) (--[a-z0-9-]+)'\) kind=words words='([^']*)'.*/\1|\2|\3/p" tril | grep -v '|true false$')
((choices >= 40)) || fail "only $choices options with choices"

# bash itself, on a terminal. "tril" prints what it is given; Escape and * insert all that is proposed.
mkdir model 'big model' && touch text.en 'my text.en'
cat >rc <<'END'
PS1='$ '
bind 'set enable-bracketed-paste off'
tril() { printf '<%s>' "$@"; echo; }
source ./tril
END
# completes TYPED EXPECTED: keys, where \t is Tab and \e Escape; and the arguments that bash then has.
typed=() wanted=()
completes() {
  typed+=("$1")
  wanted+=("$2")
}
completes 'tril ver\t-a\t' '<verify-answer>'
completes 'tril trai\t --norm-p\t' '<train><--norm-position>'
completes 'tril h\t pro\t' '<help><prove>'
completes 'tril train --norm\e*' '<train><--norm><--norm-epsilon><--norm-position><--normalization>'
completes 'tril train --norm \e*' '<train><--norm><layer><rms>'
completes 'tril train --norm=r\t' '<train><--norm=rms>'
completes 'tril train --gated t\t' '<train><--gated><true>'
completes 'tril train --source text.en my\t --target te\t' '<train><--source><text.en><my text.en><--target><text.en>'
completes 'tril translate mo\t --inp\t my\t' '<translate><model/><--input><my text.en>'
completes 'tril translate big\t te\t' '<translate><big model/><te>'
completes 'tril translate model --split=al\t' '<translate><model><--split=always>'
completes 'tril translate --split mo\t' '<translate><--split><model/>'
completes 'tril translate --beam 4 --sample --top-k 3 mo\t' '<translate><--beam><4><--sample><--top-k><3><model/>'
completes 'tril translate --de\t c\t\tu\t' '<translate><--device><cuda>'
completes 'tril serve en-hi=mo\t' '<serve><en-hi=model/>'
completes 'tril bench --only gemm,att\t' '<bench><--only><gemm,attention>'
completes 'tril lesson teacher\t' '<lesson><teacher-forcing>'
completes 'tril verify-answer te\t --model mod\t' '<verify-answer><text.en><--model><model/>'
completes 'tril demo mod\t' '<demo><mod>'
completes 'tril info te\t' '<info><te>'
completes 'tril train -o mod\t --up\t' '<train><-o><model/><--updates>'
if command -v script >/dev/null; then
  { for keys in "${typed[@]}"; do printf '%b\n' "$keys"; done && printf 'exit\n'; } |
    TERM=dumb INPUTRC=/dev/null timeout 60 script -qec "bash --noprofile --rcfile rc -i" /dev/null 2>err |
    tr -d '\r' | grep -a '^<' >out
  for i in "${!typed[@]}"; do
    [[ $(sed -n "$((i + 1))p" out) == "${wanted[i]}" ]] || fail "bash, ${typed[i]}: not ${wanted[i]}"
  done
else
  printf 'skipped: no script(1) here, which gives bash a terminal\n' >&2
fi

# The others: their own parsers, and what they propose.
if command -v fish >/dev/null; then
  expect 0 'fish reads it' fish --no-execute tril.fish
  # proposes LINE WORD...: what fish proposes, in any order.
  proposes() {
    fish --no-config -c "source tril.fish; complete -C '$1'" 2>err | cut -f 1 | sort >out
    [[ $(paste -sd' ' out) == "${*:2}" ]] || fail "fish, $1: not ${*:2}"
  }
  proposes 'tril tra' train translate
  proposes 'tril help pro' prove
  proposes 'tril train --nor' --norm --norm-epsilon --norm-position --normalization
  proposes 'tril train --norm ' layer rms
  proposes 'tril translate mo' model/
  proposes 'tril bench --only gemm,att' gemm,attention
  proposes 'tril verify-answer te' text.en
  proposes 'tril demo --threads ' ''
else
  printf 'skipped: no fish here\n' >&2
fi
if command -v zsh >/dev/null; then
  expect 0 'zsh reads it' zsh -n _tril
  mkdir zsh && printf '%s\n' "PS1='$ '; fpath=($scratch \$fpath); autoload -Uz compinit; compinit -u -D" \
    'tril() { print -r -- "<${(j:><:)@}>" }; print ready' >zsh/.zshrc
  # Keys that come while a command runs are lost to zsh's line editor, so they wait for each other.
  if [ -n "${TRIL_FULL-}" ] && command -v script >/dev/null; then
    keys=('tril ver\t-a\t' 'tril help pro\t' 'tril train --norm r\t' 'tril translate mo\t --input my\t'
      'tril bench --only gemm,att\t' 'tril translate model --split=al\t')
    printed=('<verify-answer>' '<help><prove>' '<train><--norm><rms>' '<translate><model><--input><my text.en>'
      '<bench><--only><gemm,attention>' '<translate><model><--split=always>')
    mkfifo keys
    ZDOTDIR=$scratch/zsh TERM=dumb timeout 60 script -qefc 'zsh -i' /dev/null <keys >screen 2>err &
    exec 7>keys
    # until_seen TEXT TIMES
    until_seen() {
      for ((try = 0; try < 100; ++try)); do
        (($(tr -d '\r' <screen | grep -acE "$1") >= $2)) && return
        sleep 0.05
      done
    }
    until_seen '^ready' 1
    for i in "${!keys[@]}"; do
      sleep 0.2
      printf '%b\n' "${keys[i]}" >&7
      until_seen '^<' $((i + 1))
    done
    printf 'exit\n' >&7
    exec 7>&-
    wait
    tr -d '\r' <screen | grep -a '^<' >out
    for i in "${!keys[@]}"; do
      [[ $(sed -n "$((i + 1))p" out) == "${printed[i]}" ]] || fail "zsh, ${keys[i]}: not ${printed[i]}"
    done
  fi
else
  printf 'skipped: no zsh here\n' >&2
fi

# The pages by mandoc's rules, all of them; it looks for the pages they name where none are installed.
for page in $(sed -nE 's/^\.Xr ([a-z-]+) 1.*/\1/p' tril*.1 | sort -u); do
  [ -f "$page.1" ] || fail "a page names $page(1), which there is not"
done
if command -v mandoc >/dev/null; then
  mandoc -T lint tril*.1 2>&1 | grep -v 'referenced manual not found' >out
  [ -s out ] && fail 'mandoc -T lint'
  for page in tril*.1; do
    mandoc -T utf8 "$page" | sed 's/.\x08//g' >"$page.txt"
    [ "$(LC_ALL=C.UTF-8 wc -L <"$page.txt")" -le 80 ] || fail "$page: a line is wider than 80 columns"
  done
  expect 0 'a page as it is read' cat tril-translate.1.txt
  prints 'a page as it is read' '^     --early-stopping yes|no|never$'
  prints 'a page as it is read' '^     --split\[=long|always\]$'
  prints 'a page as it is read' "^     echo 'How are you?' | tril translate my-model$"
  prints 'a page as it is read' '^             Default: 5\.$'
else
  printf 'skipped: no mandoc here\n' >&2
fi

[ "$failures" -eq 0 ]
