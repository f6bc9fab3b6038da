#!/usr/bin/env bash
# The program from the outside: exit codes, one line for every error, results on stdout alone.
#   program.sh PATH-TO-TRIL
set -u
tril=$1
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$0")/expect.sh"
trap 'rm -rf "$scratch"' EXIT

# expect_error WHAT PATTERN COMMAND...: exit code 2, nothing on stdout, one line that matches.
expect_error() {
  local what=$1 pattern=$2
  shift 2
  expect 2 "$what" "$@"
  [ -s "$scratch/out" ] && fail "$what: something on stdout"
  [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$what: not one line on stderr"
  grep -q -- "$pattern" "$scratch/err" || fail "$what: no '$pattern' in it"
}

expect 0 'help' "$tril" --help
prints 'help' 'bench'
expect 0 'version' "$tril" --version
prints 'version' '^tril [0-9]'
expect 0 'info' "$tril" info
prints 'info' '^target'
expect 0 'bench' "$tril" bench --device cpu --json --only gemm --match 512x512x512 --seconds 0.01 --threads 1
prints 'bench' '"name": "512x512x512"'
prints 'bench' '"roof": "fp32"'
prints 'bench' '"share_of_roof": '
grep -q '^measuring gemm' "$scratch/err" || fail 'bench: no progress on stderr'
expect 0 'bench, roofs' "$tril" bench --only peaks,int8,bandwidth --match 32x512 --seconds 0.01 --threads 1
prints 'bench, roofs' '^peaks  *fp32 multiply-add, 1 thread  *[0-9]'
prints 'bench, roofs' '^peaks  *reading memory, 1 thread  *[0-9]'
prints 'bench, roofs' '^int8  *32x512x512 .*%'
prints 'bench, roofs' '^bandwidth  *layer norm 32x512 .*%'
expect 0 'bench, growth' "$tril" bench --json --only growth --match 'attention by length 64' --seconds 0.01
prints 'bench, growth' '"series": "attention by length"'
prints 'bench, growth' '"at": 64'

expect 0 'no subcommand' "$tril"
for command in demo lesson train translate generate score evaluate quantize shortlist prove explain bench info; do
  prints 'no subcommand' "^  $command  *[A-Z]"
done
[ -s "$scratch/err" ] && fail 'no subcommand: something on stderr'
[ "$(LC_ALL=C.UTF-8 wc -L <"$scratch/out")" -le 80 ] || fail 'no subcommand: a line is too wide'
cp "$scratch/out" "$scratch/list"
expect 0 'help' "$tril" help
prints 'help' '^  translate  *[A-Z]'
expect 0 'help of a command' "$tril" help translate
cp "$scratch/out" "$scratch/list"
expect 0 '--help of a command' "$tril" translate --help
cmp -s "$scratch/out" "$scratch/list" || fail 'help of a command: --help prints something else'
# A word that is nearly right.
expect_error 'a command mistyped' "no command 'transalte' (did you mean 'translate'?)" "$tril" transalte
expect_error 'a flag mistyped' "no option '--sorce' (did you mean '--source'?)" "$tril" train --sorce x -o y
expect_error 'a lesson mistyped' "no lesson 'mask' (did you mean 'masks'?)" "$tril" lesson mask
# A fault in a file of options is one of that file.
printf 'vocab = 800\n\nrat = 1\n' >"$scratch/options.toml"
expect_error 'a name mistyped in a file' "options.toml:3: there is no option 'rat'" \
  "$tril" train --source x --target y --config "$scratch/options.toml" -o "$scratch/none"
printf 'vocab = 800\nheads = -3\n' >"$scratch/options.toml"
expect_error 'a bad value in a file' "options.toml:2: --heads: '-3' is not" \
  "$tril" train --source x --target y --config "$scratch/options.toml" -o "$scratch/none"
expect 0 'info as JSON' "$tril" info --json
prints 'info as JSON' '"threads": [0-9]'
# Text of others cannot command the terminal.
expect_error 'an escape sequence' 'there is no command .\\x1b\[2J' "$tril" $'\e[2J'
expect_error 'a sequence in a flag' '\\x1b\[2J' "$tril" info $'--\e[2J'
expect_error 'unknown subcommand' "no command 'sing'" "$tril" sing
expect_error 'a flag before the command' "no option '--loud'; a command comes first" "$tril" --loud
expect_error 'a flag before the command' "no option '--loud'; a command comes first" "$tril" --loud info
expect_error 'no model' 'give a model folder: tril prove MODEL' "$tril" prove
expect_error 'a word too many' "'x' was not expected" "$tril" bench x
expect_error 'unknown flag' '--loud' "$tril" bench --loud
expect_error 'bad group' "'everything' is not one of peaks, gemm" "$tril" bench --only gemm,everything
expect_error 'bad threads' 'threads' "$tril" bench --threads -3
expect_error 'bench without a card' 'cuda' env CUDA_VISIBLE_DEVICES= "$tril" bench --device cuda
if ! "$tril" info | grep -q 'not built into'; then
  # A simulated driver and simulated GPUs (docs/design/device.md): one line that says what is
  # missing.
  for fault in 'no-driver no NVIDIA driver' 'old-driver the driver is too old: it knows CUDA 12.4' \
    'no-gpu no NVIDIA GPU' 'old-gpu Tesla V100.*compute capability 7.0.*8.0 or later'; do
    expect_error "${fault%% *}" "cuda: ${fault#* }.*; --device cpu" \
      env -u CUDA_VISIBLE_DEVICES TRIL_FAULT="${fault%% *}" "$tril" bench --device cuda
    expect 0 "info, ${fault%% *}" env -u CUDA_VISIBLE_DEVICES TRIL_FAULT="${fault%% *}" "$tril" info
    tr -s '\n ' ' ' <"$scratch/out" | grep -q "GPU none to use: ${fault#* }" || fail "info, ${fault%% *}: not said"
  done
  expect 0 'without a card the CPU' env TRIL_FAULT=old-driver "$tril" bench --only gemm --seconds 0.01 --threads 1 \
    --match 512x512x512
  expect_error 'an unknown fault' "TRIL_FAULT: .*got 'fire'" env TRIL_FAULT=fire "$tril" info
fi
expect_error 'bad device' "'tpu' is not one of cpu, cuda, cuda:1" "$tril" bench --device tpu
expect_error 'bad index of a device' "'cuda:x' is not one of" "$tril" bench --device cuda:x
expect_error 'a GPU that is not there' '^tril: cuda:' "$tril" bench --device cuda:63
expect_error 'no such model' "$scratch/nowhere: no such folder" "$tril" info "$scratch/nowhere"
expect_error 'no model there' "$scratch: no model in this folder (no config.json)" "$tril" info "$scratch"
mkdir "$scratch/empty" && printf '{"format": 1}' >"$scratch/empty/config.json"
expect_error 'broken model' 'config.json: architecture' "$tril" info "$scratch/empty"
expect_error 'bad target' "TRIL_TARGET: 'sse1'" env TRIL_TARGET=sse1 "$tril" info
expect_error 'no model named' 'is empty: give a path' "$tril" info ''
expect_error 'help on a full disk' 'output could not be written' sh -c "'$tril' --help >/dev/full"
expect_error 'full disk' 'output could not be written' sh -c "'$tril' info >/dev/full"

[ "$failures" -eq 0 ] && printf 'the program behaves\n'
exit "$((failures > 0))"
