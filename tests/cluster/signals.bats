#!/usr/bin/env bats
# The user's own --signal, traps that put the job back, and a slurmctld that does not answer: a save comes before the time
# limit all the same. Time limits last minutes, so all jobs of this file run at once.
# shellcheck disable=SC2016,SC2030,SC2031  # expanded by the shells of jobs; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# start NAME [OPTIONS] -- LINE…: a job of two minutes that saves nothing by itself; its number is in NAME.job.
start() {
  local name=$1 options=()
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  { echo '#!/bin/bash' && printf '%s\n' "${@:2}"; } >"$name.sh"
  submit -J "$name" -o "$name.out" --open-mode=append --gpus=1 -c 2 --time=2 "${options[@]}" "$name.sh" >"$name.job"
}
setup_file() {
  cluster_up --nodes 1 --gpus-per-node 8 --cpus-per-node 64 --grace 15
  [[ -z $DL_NO_CLUSTER && -x $top_builddir/tests/lib/toy_learner ]] || return 0
  signals=$(work_folder)
  export signals
  cd "$signals" || return 1
  toy="$top_builddir/tests/lib/toy_learner 40000 50"
  ours=(--dl-framework=generic --dl-learners=1)
  start trap "${ours[@]}" --dl-checkpoint=ck-trap --signal=B:USR1@60 -- "trap 'echo handler; scontrol requeue \$SLURM_JOB_ID' USR1" "dlrun -- $toy & wait"
  start hands "${ours[@]}" --dl-checkpoint=ck-hands --time=4 --signal=B:USR1@60 -- "trap 'echo handler; kill -TERM \$pid; wait; scontrol requeue \$SLURM_JOB_ID' USR1" "dlrun -- $toy & pid=\$!" wait
  start flagless -- '#SBATCH --signal=B:USR1@60' "trap 'echo handler; scontrol requeue \$SLURM_JOB_ID' USR1" "dlrun --checkpoint ck-flagless -- $toy & wait"
  start steps "${ours[@]}" --dl-checkpoint=ck-steps --signal=USR1@60 -- "dlrun -- $toy"
  start shell "${ours[@]}" --dl-checkpoint=ck-shell --signal=B:USR1@60 -- "dlrun -- $toy" 'true'
  start become "${ours[@]}" --dl-checkpoint=ck-become --signal=B:USR1@60 -- "exec dlrun -- $toy"
  # scontrol is slow from the moment at which slow-now is there.
  mkdir bin
  printf '#!/bin/bash\n[[ "$*" != *"show job"* || ! -e slow-now ]] || sleep 60\nexec %s "$@"\n' "$(PATH=$PATH:/usr/sbin command -v scontrol)" >bin/scontrol
  chmod 755 bin/scontrol
  start slow "${ours[@]}" --dl-checkpoint=ck-slow,every=10steps --time=1 -- "PATH=$PWD/bin:\$PATH" "dlrun -- $toy"
}
teardown_file() {
  cancel_all
  cluster_down
}
setup() {
  [[ -z ${DL_NO_CLUSTER:-} ]] || skip "$DL_NO_CLUSTER"
  [[ -n ${signals:-} ]] || skip "built without HDF5"
  cd "$signals" || return 1
}
teardown() { [[ -n ${BATS_TEST_COMPLETED:-} ]] || touch "$BATS_FILE_TMPDIR/failed"; }

events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl" 2>/dev/null; }
has_event() { events "$1" | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "$1 has the event '$2'" has_event "$1" "$2"; }
# The second attempt has something to go on from.
went_on() { wait_file "dl-$1/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' "$2"; }
# Slurm lets a job that a script has put back wait for two minutes.
hurry() {
  wait_for 130 "job $1 is in the queue" in_state "$1" PENDING
  sleep 2 # a node takes no job that begins in the second in which it ended there
  on_login scontrol update JobId="$1" StartTime=now+1
}

@test "a slurmctld that does not answer at the time limit: the save is made, and the job goes back" {
  job=$(cat slow.job)
  wait_file "dl-$job/logs/attempt-1/learner-0.log" '^saved at train step [1-9]0' 60
  touch slow-now
  wait_event "$job" 'PENDING time limit: saved at train step' 90
  rm slow-now
  went_on "$job" 60
}

@test "a trap that sends dlrun SIGTERM in the last minutes: it saves and stops at once, and the job goes on" {
  job=$(cat hands.job)
  wait_step "$job" 1 90
  # Slurm would send it later. The time limit is 4 minutes, so dlrun's own stop for it is far away.
  on_login scancel --batch --signal=USR1 "$job"
  wait_event "$job" 'PENDING time limit: saved at train step' 60
  went_on "$job" 60
}

@test "--signal=USR1@60 that would end the learners: they save before it, and go on" {
  job=$(cat steps.job)
  wait_event "$job" 'PENDING time limit: saved at train step' 130
  went_on "$job" 60
}

@test "--signal=B:USR1@60 that would end the script: a save comes before it, and the job goes on" {
  job=$(cat shell.job)
  wait_event "$job" 'PENDING time limit: saved at train step' 130
  went_on "$job" 60
}

@test "a trap that puts the job back at USR1: a save comes before the handler acts" {
  for name in trap flagless; do
    job=$(cat $name.job)
    wait_file $name.out '^handler' 130
    hurry "$job"
    went_on "$job" 60
  done
}

@test "--signal=B:USR1@60 for a script that has become dlrun: it saves at the signal, and stops at the time limit" {
  job=$(cat become.job)
  wait_event "$job" 'PENDING time limit: saved at train step' 150
  wait_file become.out 'a signal that asks for a save' 5
  wait_event "$job" 'PROCESSING saved at train step' 5
  went_on "$job" 60
}
