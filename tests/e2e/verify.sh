#!/usr/bin/env bash
# `tril verify`, and what the program says of folders that are damaged, mixed or not sealed; and where
# `tril quantize` may write.
#   verify.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/e2e/expect.sh
source "$(dirname "$(realpath "$0")")/expect.sh"
cd "$scratch" || exit 1

says() { grep -q -- "$2" err || fail "$1: no '$2' on stderr"; }
translated() { echo 'how are you' | "$tril" translate "$1" --beam 1 --max-tokens 5 2>err >out; }
# flip FILE OFFSET: another byte there.
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  # shellcheck disable=SC2059 # octal digits
  printf "\\$(printf '%03o' $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

"$make_model" m translate || exit 1
expect 0 'a sound folder' "$tril" verify m
prints 'a sound folder' '^3 of 3 files sound'
expect 0 'JSON' "$tril" verify m --json
prints 'JSON' '"state": "sound"'
expect 2 'no folder' "$tril" verify nowhere
says 'no folder' 'nowhere: no such folder'

# Damage, in every command that loads.
cp -r m damaged
flip damaged/model.safetensors 20000
expect 1 'a damaged folder' "$tril" verify m damaged
prints 'a damaged folder' "tensor '.*' does not match its checksum"
prints 'a damaged folder' '^5 of 6 files sound'
for command in 'translate damaged' 'prove damaged' 'explain damaged x -o page.html' 'info damaged' \
  'quantize damaged --to int8' 'evaluate damaged --source m/config.json --reference m/config.json'; do
  # shellcheck disable=SC2086 # words
  expect 2 "damaged: $command" "$tril" $command
  says "damaged: $command" "^tril: damaged/model.safetensors: damaged, or changed since it was sealed: tensor '"
done
expect 2 'damage is not sealed' "$tril" verify --seal damaged

# Files of another model of equal shape.
cp -r m mixed
"$make_model" other other && "$make_model" reseeded translate 6 || exit 1
cp other/tokenizer.model mixed
expect 2 'another tokenizer' "$tril" translate mixed
says 'another tokenizer' 'mixed/tokenizer.model: damaged, or not of this model'
expect 1 'another tokenizer, verified' "$tril" verify mixed

# Not sealed: one line, and the same result.
translated m && cp out expected
cp -r m bare
LC_ALL=C sed -i 's/tril_checksums/none_checksums/; s/tril_seal/none_seal/' bare/model.safetensors
translated bare || fail 'not sealed: an error'
cmp -s out expected || fail 'not sealed: another result'
[ "$(grep -vc ' cut ' err)" -eq 1 ] || fail 'not sealed: not one line'
says 'not sealed' "^tril: bare: not sealed, .* 'tril verify --seal bare' seals it"
expect 1 'not sealed' "$tril" verify bare
expect 0 'sealed' "$tril" verify --seal bare
prints 'sealed' '^sealed bare/model.safetensors'
translated bare
grep -q 'not sealed' err && fail 'sealed: still said not to be'
cmp -s out expected || fail 'sealed: another result'

# A folder that cannot be loaded is not sealed.
cp -r m edited && sed -i 's/"heads": 2/"heads": 4/' edited/config.json
expect 2 'not worth sealing' "$tril" verify --seal edited
says 'not worth sealing' 'the configuration asks for'
sed -i 's/"heads": 4/"heads": 2/; s/"max_length": 64/"max_length": 48/' edited/config.json
expect 2 'changed on purpose' "$tril" translate edited
says 'changed on purpose' "edited/config.json: damaged, .* see 'tril verify --help'"
expect 0 'changed on purpose, sealed' "$tril" verify --seal edited
expect 0 'changed on purpose, used' "$tril" info edited

# One folder that is none does not hide the others.
expect 2 'a typo' "$tril" verify nowhere damaged m
prints 'a typo' '^5 of 6 files sound'
says 'a typo' 'nowhere: no such folder'
expect 2 'a file' "$tril" verify m/config.json
says 'a file' 'm/config.json: a file, not a model folder'
for command in 'verify' 'quantize m --to int8 -o' 'demo --dump' 'translate' 'explain m x -o'; do
  # shellcheck disable=SC2086 # words
  expect 2 "an empty path: $command" "$tril" $command ''
  says "an empty path: $command" 'is empty: give a path'
done

# Packed weights: verified when they are mapped, unless they are trusted.
expect 0 'packed' "$tril" quantize m --to int8 -o small
translated small && cp out expected
flip small/packed.int8.safetensors "$(($(stat -c %s small/packed.int8.safetensors) - 1))"
translated small && fail 'damaged packed weights: translated with'
says 'damaged packed weights' 'packed.int8.safetensors: damaged'
echo 'how are you' | "$tril" translate small --trust >out 2>err || fail 'trusted: not loaded'

# Where quantize may write.
expect 2 'weights of another model' "$tril" quantize m --to int8 -o reseeded
says 'weights of another model' 'reseeded: holds the weights of another model'
expect 2 'even when told' "$tril" quantize m --to int8 -o reseeded --overwrite
expect 0 'packed weights of another' "$tril" quantize reseeded --to bf16 -o taken
expect 2 'packed weights of another' "$tril" quantize m --to int8 -o taken
says 'packed weights of another' 'taken: holds another model, or an older state of this one'
expect 0 'replaced when told' "$tril" quantize m --to int8 -o taken --overwrite
[ -e taken/packed.bf16.safetensors ] && fail 'replaced: packed weights of the other are left'
expect 0 'replaced, verified' "$tril" verify taken
translated taken
cmp -s out expected || fail 'replaced: another result'

((failures == 0)) && printf 'damage is found\n'
exit "$((failures > 0))"
