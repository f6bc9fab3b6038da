#!/usr/bin/env bash
# What fine-tuning is worth: a model of everyday sentences, tuned on 2,000 image captions.
#   finetune_results.sh TRIL TATOEBA.en TATOEBA.de MULTI30K-FOLDER OUTPUT-FOLDER [OPTION...]
#
# Files may be gzip; the folder holds train, val and test_2016_flickr, each as .en and .de or .en.gz
# and .de.gz. Four models with one tokenizer and one shape are made and evaluated on both test sets:
#   everyday  trained on Tatoeba
#   tuned     `everyday`, fine-tuned on 2,000 captions with the defaults of `tril train --from`
#   captions  trained on these captions alone
#   both      trained on Tatoeba and these captions together
# OPTIONs (shape, rate) go to every run that begins with random weights and to none other. DEVICE in the
# environment chooses the device; UPDATES and BATCH, the tokens per update, are for `everyday` and
# `both`, CAPTION_UPDATES for `captions`.
set -eu
tril=$1 source=$2 target=$3 captions=$4 out=$5
shift 5
device=(${DEVICE:+--device "$DEVICE"})
mkdir -p "$out"

# Every 60th English sentence is for testing and every 60th for validation, with all that translate
# it, so that no sentence of the tests was trained on; of several translations the first is kept.
paste <(zcat -f "$source") <(zcat -f "$target") | awk -F '\t' -v out="$out" 'NF == 2 {
  fresh = !($1 in number)
  if (fresh) number[$1] = ++sentences
  part = number[$1] % 60
  if (part != 0 && part != 30) print > (out "/tatoeba.train.tsv")
  else if (fresh) print > (out (part == 0 ? "/tatoeba.test.tsv" : "/tatoeba.valid.tsv"))
}'
side() { zcat -f "$captions/$1.gz" 2>/dev/null || cat "$captions/$1"; }
pairs() { paste <(side "$1.en") <(side "$1.de"); }
pairs train | awk 'NR % 14 == 0' | head -n 2000 >"$out/captions.train.tsv"
pairs val >"$out/captions.valid.tsv"
pairs test_2016_flickr >"$out/captions.test.tsv"
# A part of the validation text is enough to choose the best model by.
awk 'NR % 3 == 0' "$out/tatoeba.valid.tsv" >"$out/tatoeba.some.tsv"
for set in captions tatoeba; do
  cut -f 1 "$out/$set.test.tsv" >"$out/$set.test.en"
  cut -f 2 "$out/$set.test.tsv" >"$out/$set.test.de"
done

seconds=$SECONDS
# run NAME OPTION...: trains a model and notes how long that took.
run() {
  local name=$1
  shift
  "$tril" train "${device[@]}" --overwrite -o "$out/$name" "$@"
  printf '%s\t%s\n' "$name" "$((SECONDS - seconds))" >>"$out/seconds.tsv"
  seconds=$SECONDS
}
: >"$out/seconds.tsv"
updates=${UPDATES:-3000} few=${CAPTION_UPDATES:-1000}
long=(--updates "$updates" --batch-tokens "${BATCH:-16384}" --warm-up $((updates / 6))
      --evaluate-every $((updates / 6)))
run everyday --tsv "$out/tatoeba.train.tsv" --valid-tsv "$out/tatoeba.some.tsv" "${long[@]}" "$@"
with_its_pieces=(--tokenizer "$out/everyday/tokenizer.model")
run tuned --from "$out/everyday" --tsv "$out/captions.train.tsv" --valid-tsv "$out/captions.valid.tsv"
run captions "${with_its_pieces[@]}" --tsv "$out/captions.train.tsv" \
  --valid-tsv "$out/captions.valid.tsv" --updates "$few" --warm-up $((few / 5)) \
  --evaluate-every $((few / 10)) "$@"
run both "${with_its_pieces[@]}" --tsv "$out/tatoeba.train.tsv" "$out/captions.train.tsv" \
  --valid-tsv "$out/captions.valid.tsv" "${long[@]}" "$@"

# score MODEL SET: BLEU and chrF2 with a beam of 4.
score() {
  "$tril" evaluate "$out/$1" "${device[@]}" --beam 4 --source "$out/$2.test.en" \
    --reference "$out/$2.test.de" 2>/dev/null |
    sed -n 's/^\(BLEU\|chrF2\)|[^=]* = \([0-9.]*\).*/\2/p' | paste -s -d ' '
}
printf '| model | Multi30k BLEU | chrF2 | Tatoeba BLEU | chrF2 | training, s |\n|---|---|---|---|---|---|\n'
for model in everyday tuned captions both; do
  read -r captions_bleu captions_chrf < <(score $model captions)
  read -r tatoeba_bleu tatoeba_chrf < <(score $model tatoeba)
  printf '| %s | %s | %s | %s | %s | %s |\n' $model "$captions_bleu" "$captions_chrf" \
    "$tatoeba_bleu" "$tatoeba_chrf" "$(awk -v of=$model '$1 == of { print $2 }' "$out/seconds.tsv")"
done
