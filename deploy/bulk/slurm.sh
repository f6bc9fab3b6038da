#!/usr/bin/env bash
# One shard of a file as a task of a Slurm array:
#   sbatch --array=1-16 slurm.sh MODEL INPUT FOLDER 16 [OPTION...]
# The options are those of `tril translate`. The outputs are FOLDER/1 to FOLDER/16; once all tasks have ended well, join them:
#   cat FOLDER/{1..16} > OUTPUT
# A task whose node fails is started again by Slurm. After anything else, submit the same line again: finished shards
# are not translated again. How many shards there are is an argument of its own, because Slurm's own count of tasks is
# another one when only some of them are submitted again.
#SBATCH --job-name=tril
#SBATCH --cpus-per-task=1
#SBATCH --requeue
set -eu
model=$1 input=$2 folder=$3 shards=$4
shift 4
mkdir -p -- "$folder"
exec "${TRIL:-tril}" translate "$model" --input "$input" --shard "$SLURM_ARRAY_TASK_ID/$shards" \
  -o "$folder/$SLURM_ARRAY_TASK_ID" --threads "${SLURM_CPUS_PER_TASK:-1}" "$@"
