#!/usr/bin/env bash
# Runs the guide: every command of every console block, and compares what it prints with the page.
#   guide.sh PATH-TO-TRIL [FOLDER-OF-PAGES [full]]
#
# `tril demo` is not run again where TRIL_DEMO_RUN names a folder with demo.sh's run of it.
# Blocks marked `console full` take long: they are run with "full", or with TRIL_FULL in the environment, only,
# and so are their pictures. Those marked `console installed` find tril installed, as pkg-config does; they are left
# out where there is no pkg-config, and under sanitizers, whose run-time other programs lack.
# A block with the name of a file, as in `c hello.c`, is written to that file.
# In a console block
#   $ command     is run by bash, in one scratch folder for all pages, with `tril` on PATH
#   > more        goes on with the command
#   ^C            interrupts the command once it has printed the line above
# and the lines after it are what it prints, stdout and stderr together. `…` stands for any text
# within a line, and alone on a line for any lines. Times, speeds, memory, and how columns are set
# because of them, may be any. A command must succeed, unless it prints a
# line that begins with "tril: " or is interrupted. C++ on a page stands in examples/, word for
# word, and a picture of a run is one that commands have drawn.
set -u
export LC_ALL=C.UTF-8
export CUDA_VISIBLE_DEVICES= # the pages show what a CPU computes
root=$(cd "$(dirname "$0")/../.." && pwd)
tril=$(readlink -f "$1")
pages=$(cd "${2:-$root/docs/guide}" && pwd)
full=${3-${TRIL_FULL-}}
scratch=$(mktemp -d)
# Pages leave the process of what they start in the background in a file NAME.pid.
end() {
  local file
  for file in "$scratch"/work/*.pid; do
    [ -f "$file" ] && kill "$(<"$file")" 2>/dev/null
  done
  rm -rf "$scratch"
}
trap end EXIT
mkdir "$scratch/bin" && ln -s "$tril" "$scratch/bin/tril"
PATH=$scratch/bin:$PATH
installed=''
build=${tril%/bin/tril}
if command -v pkg-config >/dev/null && [ -f "$build/libtril.so.0" ] && ! readelf -d "$build/libtril.so.0" | grep -q 'lib[at]san'; then
  cmake --install "$build" --prefix "$scratch/installed" >"$scratch/log" 2>&1 && installed=yes
  libraries=$(dirname "$(find "$scratch/installed" -name libtril.so.0)")
  export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$libraries
fi
commands=0
failures=0
progress='^ *[0-9]+%  .* left$|^[0-9]+ sentences$|^[0-9]+ of [0-9]+: |^reading the model$|^the (table|leak probe)$'
progress+='|prefix by prefix$|^running lesson |^training a small|^switching heads off$|^parallel against stepwise$|^for every input, [a-zA-Z0-9 -]+, [0-9a-z ]+$|^sequential against parallel training, [0-9x ]+( on a tiny model)?$'
# Where there is a GPU, programs say that they do not use it.
progress+='|^computing on the CPU: '

fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}

# Replaces what differs from run to run.
alike() {
  sed -E 's/[0-9][0-9.]* ?(us|ms|s|min|[KM]i?B)\b/TIME/g; s/[0-9.]+( ?: 1\b|×|( target)? tokens per second| times as long)/RATIO\1/g
    s/[0-9.]+% +[0-9.]+%$/SHARES/; s/ +/ /g'
}

# matches E P: whether the expected lines from number E on fit the printed ones from P on.
matches() {
  local e=$1 p=$2
  for (( ; e < ${#expected[@]}; ++e, ++p)); do
    if [[ ${expected[e]} == '…' ]]; then
      for (( ; p <= ${#printed[@]}; ++p)); do
        matches $((e + 1)) "$p" && return 0
      done
      return 1
    fi
    # shellcheck disable=SC2053 # a pattern
    ((p < ${#printed[@]})) && [[ ${printed[p]} == ${patterns[e]} ]] || return 1
  done
  ((p == ${#printed[@]}))
}

# interrupt LINE: runs the command and sends it Ctrl-C's signal when it has printed LINE.
interrupt() {
  env --default-signal=INT bash -c "exec $command" >"$scratch/printed" 2>&1 </dev/null &
  local program=$!
  until grep -qxF -- "$1" "$scratch/printed" || ! kill -0 "$program" 2>/dev/null; do
    sleep 0.02
  done
  kill -INT "$program" 2>/dev/null
  wait "$program"
}

# Runs `command` and compares its output with the lines `expected`; `place` is its position.
run() {
  [ -n "$command" ] || return
  commands=$((commands + 1))
  local code=0 interrupted='' i kept=() start=${EPOCHREALTIME/[.,]/}
  for i in "${!expected[@]}"; do
    if [[ ${expected[i]} == '^C' ]]; then interrupted=${expected[i - 1]}; else kept+=("${expected[i]}"); fi
  done
  expected=("${kept[@]}")
  if [ -n "$interrupted" ]; then
    interrupt "$interrupted"
  elif [[ $command == 'tril demo' && -n ${TRIL_DEMO_RUN-} ]]; then
    cp -r "$TRIL_DEMO_RUN/demo-model" . && cat "$TRIL_DEMO_RUN/err" "$TRIL_DEMO_RUN/out" >"$scratch/printed" || code=$?
  else
    bash -c "$command" >"$scratch/printed" 2>&1 </dev/null || code=$?
  fi
  printf '%6d ms  %s: $ %s\n' $(((${EPOCHREALTIME/[.,]/} - start) / 1000)) "$place" "${command%%$'\n'*}"
  # Lines of progress, which overwrite each other on a terminal, appear when it takes long.
  mapfile -t printed < <(grep -Ev "$progress" "$scratch/printed" | alike)
  mapfile -t patterns < <(((${#expected[@]})) && printf '%s\n' "${expected[@]}" | alike |
    sed 's/[][\\*?()|+@!]/\\&/g; s/…/*/g')
  if ! matches 0 0; then
    fail "$place: \$ $command"
    ((${#expected[@]})) && printf '    expected: %s\n' "${expected[@]}"
    ((${#printed[@]})) && printf '    printed:  %s\n' "${printed[@]}"
  elif ((code != 0)) && ! grep -q '^tril: ' "$scratch/printed"; then
    fail "$place: \$ $command: exit code $code"
  fi
  command=''
}

# is_example CODE: whether an example holds it.
is_example() {
  local file
  for file in "$root"/examples/*.cpp; do
    [[ $(<"$file")$'\n' == *"$1"* ]] && return 0
  done
  return 1
}

# is_drawn PICTURE: whether a run has drawn it.
is_drawn() {
  local drawn
  for drawn in *.svg */training/curve.svg; do
    cmp -s "$drawn" "$1" && return 0
  done
  return 1
}

# run_page FILE: its blocks in order.
run_page() {
  local page=$1 kind='' number=0 code='' line left_out='' file
  command=''
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    case $kind:$line in
      :'```console full')
        kind=left-out
        [ -n "$full" ] && kind=console
        ;;
      :'```console installed')
        kind=skipped
        [ -n "$installed" ] && kind=console
        ;;
      :'```'*' '*) kind=file code='' file=${line##* } ;;
      :'```'*) kind=${line#'```'} kind=${kind:-text} code='' ;;
      *:'```')
        [ "$kind" = console ] && run
        [ "$kind" = cpp ] && { is_example "$code" || fail "$page:$number: not in examples/"; }
        [ "$kind" = file ] && printf '%s' "$code" >"$file"
        kind=''
        ;;
      console:'$ '*)
        run
        command=${line#'$ '} place=${page##*/}:$number expected=()
        ;;
      left-out:'$ '*.svg*) left_out+=" ${line##* }" ;;
      console:'> '*) command+=$'\n'${line#'> '} ;;
      console:*) expected+=("$line") ;;
      cpp:* | file:*) code+=$line$'\n' ;;
    esac
  done <"$page"
  [ -z "$kind" ] || fail "$page: a block without an end"
  local picture
  for picture in $(grep -o '([a-z/-]*\.svg)' "$page" | tr -d '()'); do
    [[ "$left_out " == *" ${picture##*/} "* ]] && continue
    is_drawn "${page%/*}/$picture" || fail "$page: no run has drawn $picture"
  done
}

mkdir "$scratch/work" && cd "$scratch/work" || exit 1
# In their order: 10 after 9.
while IFS= read -r page; do run_page "$page" </dev/null; done < <(printf '%s\n' "$pages"/*.md | sort -V)
((commands > 0)) || fail "$pages: nothing to run"
((failures == 0)) && printf '%d commands print what the guide says\n' "$commands"
exit "$((failures > 0))"
