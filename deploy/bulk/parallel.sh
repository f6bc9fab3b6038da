#!/usr/bin/env bash
# Translates a file with GNU parallel: on all cores of this machine, or of several.
#   parallel.sh MODEL INPUT OUTPUT SHARDS [OPTION...]
# The options are those of `tril translate`. What parallel is to do differently goes into PARALLEL, for example
# PARALLEL='--jobs 4' or PARALLEL='--sshloginfile hosts --workdir .' (the folders must then be there on every host).
#
# Each shard is a job of one thread, so that as many run as there are cores. A job that fails or is killed is started
# again, twice. Run the same command again after any interruption: finished shards are not translated again. Many more
# shards than cores lose less when something is killed, and end more evenly.
set -euo pipefail
if (($# < 4)); then
  sed -n '3s/^# *//p' "$0" >&2
  exit 2
fi
model=$1 input=$2 output=$3 shards=$4
shift 4
parts=$output.parts
mkdir -p -- "$parts"
code=0
parallel --quote --retries 3 --joblog "$parts/jobs" \
  "${TRIL:-tril}" translate "$model" --input "$input" --shard "{}/$shards" -o "$parts/{}" --threads 1 "$@" \
  ::: $(seq "$shards") || code=$?
# Shards with lines that could not be used are complete, though their jobs end with 1. Anything else is no result of this
# run, even if there is a file.
done=$(awk -F '\t' 'NR > 1 { ended[$1] = $7 <= 1 && $8 == 0 } END { for (job in ended) n += ended[job]; print n + 0 }' \
  "$parts/jobs")
if ((done < shards)); then
  printf '%d of %d shards are missing: see above, and run the same command again\n' "$((shards - done))" "$shards" >&2
  exit 2
fi
for ((i = 1; i <= shards; ++i)); do cat -- "$parts/$i"; done >"$output.tmp"
mv -- "$output.tmp" "$output"
exit "$((code > 0))"
