#!/usr/bin/env bash
# The C programs on small models, what they print beside what the program prints, and what the shared
# library exports and needs.
#   c.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL PATH-TO-C_API PATH-TO-C_LINES PATH-TO-LIBTRIL.SO
set -u
export LC_ALL=C.UTF-8
read -r tril make_model c_api c_lines library < <(realpath "$@" | paste -sd' ')
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0
fail() {
  printf 'FAILED: %s\n' "$1"
  failures=$((failures + 1))
}
"$make_model" translator translate && "$make_model" generator generate || exit 1

"$c_api" translator generator >out 2>err && [ "$(<out)" = ok ] || fail "c_api: $(<err)"

# Scores are numbers with different digits, so compare them as numbers.
printf '%s\n' 'how are you' 'thank you' '' 'where are they going?' 'मैं ठीक हूँ' >lines
alike() { awk -F '\t' -v OFS='\t' '{ at = NF - 1; $at = sprintf("%.10g", $at); print }' "$1"; }
# same COMMAND MODEL "OPTION=VALUE ..." FLAG...
same() {
  local command=$1 model=$2
  local -a options
  read -ra options <<<"$3"
  "$c_lines" "$model" "$command" "${options[@]}" <lines >ours 2>err || fail "c_lines $3: $(<err)"
  "$tril" "$command" "$model" --scores "${@:4}" <lines >theirs 2>err
  [ -s theirs ] || fail "tril $command ${*:4}: $(<err)"
  cmp -s <(alike ours) <(alike theirs) || fail "$command with '$3' differs from ${*:4}: $(diff <(alike ours) <(alike theirs))"
}
same translate translator ''
same translate translator 'beam=4 n_best=3 length_penalty=1' --beam 4 --n-best 3 --length-penalty 1
same translate translator 'sample=true seed=7 top_k=5 n_best=2' --sample --seed 7 --top-k 5 --n-best 2
same translate translator 'beam=1 forbid=26;30 max_tokens=9 no_repeat_ngram=2' --beam 1 --forbid 26 --forbid 30 \
  --max-tokens 9 --no-repeat-ngram 2
same generate generator ''
same generate generator 'beam=3 early_stopping=never cut=ranked' --beam 3 --early-stopping never --cut ranked

# An option has the name that it has elsewhere: a flag of the program, or a field of the server's requests.
"$c_lines" >names
[ "$(wc -l <names)" -gt 30 ] || fail "c_lines: only $(wc -l <names) options"
"$tril" help translate >help
fields=$here/../../src/tril/serve/openapi.json
while read -r name; do
  case $name in
    bad_lines | client | number) ;; # --strict, and what only a call has
    *)
      grep -qE -- "--${name//_/-}( |$)" help || grep -qF "\"$name\"" "$fields" ||
        fail "the option $name is no flag of tril translate and no field of the server"
      ;;
  esac
done <names

# The shared library exports the functions of the header and nothing else, needs nothing of CUDA's, and has no
# executable stack.
grep -oE 'TRIL_API [^;]*' < <(sed 's://.*::' "$here/../../src/tril/c.h" | tr '\n' ' ' | sed 's/TRIL_API/\nTRIL_API/g') |
  grep -oE '\btril_[a-z_]+ *\(' | tr -d ' (' | sort -u >declared
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >exported
[ "$(wc -l <declared)" -gt 30 ] || fail "c.h: only $(wc -l <declared) functions were found"
cmp -s declared exported || fail "libtril.so exports other functions than c.h declares: $(diff declared exported)"
readelf -lW "$library" | grep GNU_STACK | grep -q ' RW  ' || fail 'libtril.so: an executable stack'
readelf -d "$library" | grep -q 'SONAME.*libtril\.so\.0\]' || fail 'libtril.so: another name'
for each in "$library" "$tril"; do
  readelf -d "$each" | grep NEEDED | grep -iE 'cuda|cublas|nvrtc' && fail "$each needs a library of CUDA"
done

((failures == 0)) && printf 'the C API does what tril does\n'
exit "$((failures > 0))"
