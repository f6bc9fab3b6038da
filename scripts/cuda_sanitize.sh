#!/usr/bin/env bash
# cuda_sanitize.sh FOLDER [TOOL...]: runs compute-sanitizer (memcheck, racecheck, initcheck, or the
# named tools) over a short list (one case per kernel, one training step, one decoding step) and
# fails on any finding. FOLDER has bin/test_cuda and bin/tril: a build, or what `ninja -C build/cuda
# folder` made. The tools run in parallel; each report is left in SANITIZE_LOGS (by default a
# scratch folder) and shown if it has findings. `cuda_sanitize.sh --there` says whether there is a
# compute-sanitizer at all.
set -uo pipefail
if (($# < 1)); then
  printf 'usage: scripts/cuda_sanitize.sh FOLDER [TOOL...]\n' >&2
  exit 2
fi
sanitizer=$(command -v compute-sanitizer || printf '/usr/local/cuda/bin/compute-sanitizer')
if [[ $1 == --there ]]; then
  [[ -x $sanitizer ]]
  exit
fi
folder=$1
shift
tools=("$@")
((${#tools[@]})) || tools=(memcheck racecheck initcheck)
root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/..
if [[ ! -x $sanitizer ]]; then
  printf 'cuda_sanitize: no compute-sanitizer here\n' >&2
  exit 2
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tril-sanitize.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
logs=${SANITIZE_LOGS:-$scratch}
mkdir -p -- "$logs"

# One case per kernel, the smallest there is; properties try four random cases.
cases=(
  Activation.IsTheReferenceWithinRounding Add.OfSlicesHasTheSameBits
  Assign.RoundsOrWidens Filled.WritesEveryElement RoundPadded.PadsWithZeros ScaleBy.IsOneRoundingOfEachAndNothingForOne
  MoveTowards.IsTheFormulaInEveryBit
  Attention.AgreesWithTheTextbook Attention.AgreesWithTheTextbookOverSeveralSpans
  Attention.RowsThatSeeNothingAreZero Attention.RowsTogetherInACacheHaveTheBitsOfTheBatch
  Attention.ManyRowsOfFewKeysHaveTheBitsOfTheBatch
  Attention.WhatIsForbiddenCannotLeak Attention.APlanServesAllLayersOfAStep
  LongAttention.AgreesWithTheTextbook LongAttention.OfFewRowsAgreesWithTheTextbook
  AdvanceBeams.FollowTheHypotheses
  ChooseTokens.AreTheFirstOfAllSorted
  CrossEntropy.IsTheReferenceWithinRounding CrossEntropy.TheTotalIsAnOrderedSum
  Dropout.IsTheReferenceBitForBit Dropout.ByItsBitsIsTheSameFunction
  Embedding.IsTheReferenceWithinRounding Embedding.ReadsTheRoundedWeight SortById.IsStable
  Linear.IsTheReferenceWithinRounding Linear.GradientsAreThoseOfTheReferenceWithinRounding
  Linear.FurtherSlicesAreAdded Linear.RowsByWeightAreThoseOfTheirOwnProducts
  Norm.IsTheReferenceWithinRounding ResidualNorm.HasTheBitsOfTheThree
  ProjectedLoss.ARowDependsOnThatRowOnly Rotary.IsTheReferenceWithinRounding
  Update.IsTheContractInEveryBit RowsInSteps.UpdatesGoOn
)
# Not for racecheck: gradients of keys of long sequences where there are more steps than buffers.
# Before a buffer is written again, every warp that read it has signalled: __syncwarp(), then one
# lane arrives at the barrier on which the writer waits. racecheck does not follow that: it reports
# every such write, and nothing else. With few rows no buffer is written twice, and those cases are
# checked.
unseen_by_racecheck=(LongAttention.AgreesWithTheTextbook)

filter=$(IFS=:; printf '%s' "${cases[*]}")
known=$("$folder/bin/test_cuda" --gtest_list_tests --gtest_filter="$filter" | grep -c '^  ')
if ((known != ${#cases[@]})); then
  printf 'cuda_sanitize: of %s cases the tests know %s\n' "${#cases[@]}" "$known" >&2
  exit 2
fi
export TRIL_TEST_DEVICE=cuda TRIL_GOLDEN_FOLDER=$root/tests/golden RC_PARAMS='seed=7 max_success=4 max_size=30'

cat "$root/examples/phrases.en" >"$scratch/train.en"
cat "$root/examples/phrases.hi" >"$scratch/train.hi"
head -5 "$scratch/train.en" >"$scratch/some.en"

# under TOOL COMMAND...: exit status 99 means a finding.
under() {
  local tool=$1
  shift
  local -a options=(--tool "$tool" --error-exitcode 99 --print-limit 1000 --show-backtrace no)
  [[ $tool == memcheck ]] && options+=(--leak-check no)
  printf '== %s: %s %s\n' "$tool" "${1##*/}" "${2%%=*}"
  timeout "${SANITIZE_SECONDS:-600}" "$sanitizer" "${options[@]}" "$@"
}

# The cases that a tool runs, and their number.
filter_of() {
  printf '%s' "$filter"
  [[ $1 != racecheck ]] || (IFS=:; printf -- '-%s' "${unseen_by_racecheck[*]}")
}
count_of() {
  local count=${#cases[@]}
  [[ $1 != racecheck ]] || count=$((count - ${#unseen_by_racecheck[@]}))
  printf '%s' "$count"
}

# The fourth training update runs as a CUDA graph. Decoding writes a few tokens, greedily and by
# beam, for more sentences than there are slots, so that steps become graphs and slots are reused.
run_tool() {
  local tool=$1 model=$scratch/model-$1 rc=0 each
  # cuBLASLt's kernels are not ours, and initcheck does not see everything they write.
  [[ $tool == memcheck ]] || export TRIL_CUDA_PRODUCTS=own
  under "$tool" "$folder/bin/test_cuda" --gtest_filter="$(filter_of "$tool")" || rc=$?
  under "$tool" "$folder/bin/tril" train --source "$scratch/train.en" --target "$scratch/train.hi" -o "$model" \
    --device cuda --encoder-layers 1 --decoder-layers 1 --model 64 --heads 2 --feed-forward 96 --vocab 400 \
    --batch-tokens 256 --micro-batch-tokens 256 --updates 5 --max-length 64 --seed 7 || rc=$?
  for each in 1 4; do
    under "$tool" "$folder/bin/tril" translate "$model" --device cuda --beam "$each" --max-tokens 8 --batch 8 \
      <"$scratch/some.en" || rc=$?
  done
  return "$rc"
}

declare -A running
for tool in "${tools[@]}"; do
  run_tool "$tool" >"$logs/$tool.log" 2>&1 &
  running[$tool]=$!
done
status=0
for tool in "${tools[@]}"; do
  rc=0
  wait "${running[$tool]}" || rc=$?
  if ((rc != 0)); then
    printf '%s: FAILED (%s)\n' "$tool" "$rc"
    # Each place once, with the number of findings.
    sed -n 's/^=========     at //p' "$logs/$tool.log" | sort | uniq -c | sort -rn | head -20
    grep -v '^=========' "$logs/$tool.log" | tail -n 40
    status=1
  elif (($(grep -c '       OK \]' -- "$logs/$tool.log") < $(count_of "$tool"))); then
    printf '%s: FAILED: not all of the %s cases ran\n' "$tool" "$(count_of "$tool")"
    status=1
  else
    printf '%s: clean, %s cases\n' "$tool" "$(count_of "$tool")"
  fi
done
exit "$status"
