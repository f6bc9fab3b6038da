#!/usr/bin/env bash
# deploy/bulk: each engine translates 20,000 lines with a tiny model, samples included, while one of its workers is killed
# with SIGKILL. The output must be that of one `tril translate`, byte for byte. Engines that are not installed are named
# and left out; with none of them, the exit code is 77.
#   engines.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL [ENGINE...]
# ENGINE: parallel, slurm, spark, ray; all of them without one. TRIL_PYTHON is a Python with the packages tril (the
# wheel), pyspark and ray. Needs for parallel: GNU parallel; slurm: slurm-wlm and munge, as root; spark: Java.
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
bulk=$here/../../deploy/bulk
python=$(command -v "${TRIL_PYTHON:-python3}")
shift 2
engines=("${@:-parallel}")
(($# > 0)) || engines=(parallel slurm spark ray)
scratch=$(mktemp -d)
started=() # daemons
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
end() {
  local each
  for each in "${started[@]}"; do kill -TERM "$each" 2>/dev/null; done
  for each in "${started[@]}"; do wait "$each" 2>/dev/null; done
  rm -rf "$scratch"
}
trap end EXIT
cd "$scratch" || exit 1
export CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
# A copy of its own, by which the processes of this test are known.
cp "$tril" tril && "$make_model" model translate || exit 1
export TRIL=$scratch/tril

awk 'BEGIN {
  count = split("how are you I am fine, thank where they going? theory मैं ठीक हूँ that gathered", words, " ")
  state = 4711
  printf "\xef\xbb\xbf"
  for (i = 1; i <= 20000; ++i) {
    line = ""
    state = (state * 1103 + 12345) % 65536
    for (n = i % 997 == 5 ? 0 : int(state / 8) % 9 + 1; n > 0; --n) {
      state = (state * 1103 + 12345) % 65536
      line = line (line == "" ? "" : " ") words[int(state / 8) % count + 1]
    }
    printf "%s%s", line, i % 333 == 0 ? "\r\n" : "\n"
  }
}' >text
options=(--sample --seed 7 --max-tokens 20)
as_json='{"sampling": true, "seed": 7, "max_decoding_length": 20}'
"$TRIL" translate model --input text "${options[@]}" >expected 2>err || { cat err; exit 1; }
[ "$(wc -l <expected)" -eq 20000 ] || { printf 'not 20,000 lines\n'; exit 1; }

# kill_one FILE TENTHS: kills a process that has mapped this file, once it has then computed for so many tenths of a
# second, and writes which to `killed`.
kill_one() {
  local file=$1 ticks=$(($2 * $(getconf CLK_TCK) / 10)) process stat
  local -A first=() # time in the program when the file was first seen in it
  for (( ; ; )); do
    for process in $(grep -ls -- " $file\$" /proc/[0-9]*/maps); do
      process=${process%/maps}
      stat=$(<"$process/stat") 2>/dev/null || continue
      # The fields after the name, which may hold blanks: the twelfth is the time in the program.
      read -ra stat <<<"${stat##*) }"
      : "${first[$process]:=${stat[11]:-0}}"
      ((${stat[11]:-0} - first[$process] >= ticks)) || continue
      kill -KILL "${process#/proc/}" 2>/dev/null || continue
      printf '%s\n' "${process#/proc/}" >>killed
      return
    done
    sleep 0.01
  done
}

# with_kill FILE TENTHS COMMAND...: runs the command while a worker is killed that has computed for so long.
with_kill() {
  local file=$1 tenths=$2 killer code=0
  shift 2
  rm -f killed
  kill_one "$file" "$tenths" &
  killer=$!
  timeout 400 "$@" >out 2>err.all </dev/null || code=$?
  grep -av ' cut after ' err.all >err
  kill "$killer" 2>/dev/null
  wait "$killer" 2>/dev/null
  [ -s killed ] || fail "$engine: no worker was killed in time"
  return "$code"
}

ran=0
# same FILE: the engine's output.
same() {
  if cmp expected "$1" >out 2>err; then
    printf '%s: 20,000 lines as one tril translate prints them, one worker killed\n' "$engine"
    ran=$((ran + 1))
  else
    fail "$engine: another output"
  fi
}
skip() { printf 'skipped: %s: %s\n' "$engine" "$1"; }

run_parallel() {
  command -v parallel >/dev/null && parallel --version 2>/dev/null | grep -q 'GNU parallel' ||
    { skip 'no GNU parallel'; return; }
  mkdir -p home && export PARALLEL_HOME=$scratch/home
  with_kill "$TRIL" 1 "$bulk/parallel.sh" model text by.parallel 4 "${options[@]}" ||
    fail "$engine: exit code $?"
  same by.parallel
  local before after
  before=$(stat -c %y by.parallel.parts/3)
  "$bulk/parallel.sh" model text by.parallel 4 "${options[@]}" >out 2>err || fail "$engine: a second time"
  [ "$(grep -c 'is finished already' err)" -eq 4 ] || fail "$engine: finished shards are not skipped"
  after=$(stat -c %y by.parallel.parts/3)
  [ "$before" = "$after" ] || fail "$engine: a finished shard was translated again"
  local code=0
  "$bulk/parallel.sh" model text by.parallel 4 --beam 1 >out 2>err || code=$?
  ((code == 2)) && cmp -s expected by.parallel || fail "$engine: exit code $code where the parts are of another run"
}

# A cluster of four nodes on this machine.
start_slurm() {
  local host port=$((20000 + RANDOM % 20000))
  host=$(hostname -s)
  mkdir -p slurm/state slurm/log && chmod 755 "$scratch" slurm
  dd if=/dev/urandom of=slurm/key bs=1 count=1024 status=none && chmod 400 slurm/key
  munged --force --foreground --key-file "$scratch/slurm/key" --socket "$scratch/slurm/munge" \
    --pid-file "$scratch/slurm/munged.pid" --log-file "$scratch/slurm/log/munged" \
    --seed-file "$scratch/slurm/seed" >slurm/log/munged.out 2>&1 &
  started+=($!)
  export SLURM_CONF=$scratch/slurm/slurm.conf
  printf 'CgroupPlugin=cgroup/v1\n' >slurm/cgroup.conf
  cat >"$SLURM_CONF" <<END
ClusterName=bulk
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/slurm/munge
CredType=cred/munge
StateSaveLocation=$scratch/slurm/state
SlurmdSpoolDir=$scratch/slurm/spool-%n
SlurmctldPidFile=$scratch/slurm/slurmctld.pid
SlurmdPidFile=$scratch/slurm/slurmd-%n.pid
SlurmctldLogFile=$scratch/slurm/log/slurmctld
SlurmdLogFile=$scratch/slurm/log/slurmd-%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=1
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 4))] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n[1-4] Default=YES State=UP
END
  local node tries
  for ((tries = 0; tries < 100; ++tries)); do [ -S slurm/munge ] && break; sleep 0.1; done
  slurmctld -D -i >slurm/log/slurmctld.out 2>&1 &
  started+=($!)
  for node in n1 n2 n3 n4; do
    mkdir -p "slurm/spool-$node"
    slurmd -D -N "$node" >"slurm/log/$node.out" 2>&1 &
    started+=($!)
  done
  for ((tries = 0; tries < 300; ++tries)); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] && return 0
    sleep 0.2
  done
  sinfo -N -l
  tail -n 5 slurm/log/*
  return 1
}

run_slurm() {
  command -v slurmctld slurmd munged sbatch >/dev/null || { skip 'no slurm-wlm and munge'; return; }
  ((EUID == 0)) || { skip 'its daemons are to be started as root'; return; }
  start_slurm >out 2>err || { fail "$engine: it does not start"; return; }
  mkdir -p logs
  local submit=(sbatch --wait --array=1-4 --output "$scratch/logs/%a" "$bulk/slurm.sh" model text by.slurm 4 "${options[@]}")
  # The task that is killed fails, and so does the array; the others go on.
  with_kill "$TRIL" 1 "${submit[@]}" && fail "$engine: a task was killed, and the array ends well"
  local there
  there=$(cd by.slurm && ls -d {1..4} 2>/dev/null | wc -l)
  [ "$there" -eq 3 ] || fail "$engine: $there shards are there, not 3"
  timeout 400 "${submit[@]}" >out 2>err || fail "$engine: submitted again: exit code $?"
  [ "$(grep -l 'is finished already' logs/* | wc -l)" -eq 3 ] || fail "$engine: finished shards are not skipped"
  cat by.slurm/{1..4} >joined
  same joined
}

# has_packages NAME...: of Python. Finds the extension of tril, by which its workers are known.
has_packages() {
  local package
  for package in "$@"; do
    "$python" -c "import $package" 2>/dev/null || { skip "no Python package $package (TRIL_PYTHON chooses a Python)"; return 1; }
  done
  [ -d site ] && return
  # A copy of its own, as of the program.
  mkdir site && cp -r "$("$python" -c 'import os, tril; print(os.path.dirname(tril.__file__))')" site/
  cp -r "$("$python" -c 'import os, tril; print(os.path.dirname(tril.__file__))')".libs site/ 2>/dev/null
  export PYTHONPATH=$scratch/site
  extension=$(echo "$scratch"/site/tril/_tril*.so)
}

run_spark() {
  command -v java >/dev/null || { skip 'no Java'; return; }
  has_packages tril pyspark || return
  # Executors are processes of their own, each with Python workers.
  with_kill "$extension" 3 env PYSPARK_PYTHON="$python" PYSPARK_DRIVER_PYTHON="$python" SPARK_LOCAL_IP=127.0.0.1 \
    SPARK_LOCAL_DIRS="$scratch" "$python" -B -c '
import runpy, sys
import pyspark
sys.argv = sys.argv[1:]
from pyspark.sql import SparkSession
SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
runpy.run_path(sys.argv[0], run_name="__main__")' \
    "$bulk/spark_translate.py" "$scratch/model" "$scratch/text" "$scratch/by.spark" --partitions 8 --options "$as_json" ||
    fail "$engine: exit code $?"
  [ "$(ls by.spark/part-* | wc -l)" -ge 8 ] || fail "$engine: not 8 partitions"
  grep -q 'Lost task' err || fail "$engine: no task was lost"
  cat by.spark/part-* >joined
  same joined
}

run_ray() {
  has_packages tril ray.data || return
  with_kill "$extension" 3 env RAY_TMPDIR="/tmp/ray-${scratch##*.}" RAY_DISABLE_DASHBOARD=1 RAY_USAGE_STATS_ENABLED=0 \
    "$python" -B "$bulk/ray_translate.py" model text by.ray --actors 2 --block 500 --options "$as_json" ||
    fail "$engine: exit code $?"
  rm -rf "/tmp/ray-${scratch##*.}"
  grep -q 'A worker died or was killed' out err || fail "$engine: no worker was lost"
  same by.ray
}

for engine in "${engines[@]}"; do
  case $engine in
    parallel | slurm | spark | ray) "run_$engine" ;;
    *) printf 'there is no engine %s\n' "$engine"; exit 2 ;;
  esac
done
((failures > 0)) && exit 1
((ran > 0)) || exit 77
