#!/usr/bin/env bats
# Job arrays: each element is a job of its own. By every way in which dlrun or a person stops one of them (pause, scancel,
# preemption, time limit, a failure, the death of dlrun) no other is touched: not the last, whose number is that of the
# array, nor one that runs, waits or has finished. Learners are tests/lib/toy_learner.c.
# shellcheck disable=SC2016,SC2030,SC2031  # much here is expanded by the shells of jobs; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# The arrays of the last test run beside the others, for the minute that a time limit lasts at least.
setup_file() {
  cluster_up --nodes 2 --gpus-per-node 2 --cpus-per-node 16 --grace 15
  [[ -z $DL_NO_CLUSTER && -x $top_builddir/tests/lib/toy_learner ]] || return 0
  limits=$(work_folder)
  export limits first second
  cd "$limits" || return 1
  write_scripts
  first=$(submit -J limit --time=1 "${elements[@]}" exec.sh 40000 50)
  second=$(submit -J limit --time=1 "${elements[@]}" exec.sh 40000 50)
  for job in "$first" "$second"; do
    trained "${job}_1"
    trained "${job}_2"
  done
  on_login scontrol update "JobId=${first}_2" TimeLimit=60
  on_login scontrol update "JobId=${second}_1" TimeLimit=60
}
teardown_file() {
  cancel_all
  cluster_down
}
setup() {
  cluster_setup
  [[ -x $top_builddir/tests/lib/toy_learner ]] || skip "built without HDF5"
  write_scripts
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || touch "$BATS_FILE_TMPDIR/failed"
  on_login scancel --name=array
  on_login scontrol update PartitionName=batch State=UP
}

elements=(--array=0-2 --dl-framework=generic --dl-learners=1)
# Element 0 ends at once; the others train, each with a checkpoint directory of its own.
write_scripts() {
  printf '#!/bin/bash\n[ "$SLURM_ARRAY_TASK_ID" != 0 ] || exec dlrun -- echo "I am element 0"\n' >exec.sh
  printf 'exec dlrun --checkpoint "ck-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID,every=10steps" -- %s "$@"\n' "$top_builddir/tests/lib/toy_learner" >>exec.sh
}
dlctl() { on_login env -C "$PWD" "$stage/bin/dlctl" "$@"; }
# field ELEMENT KEY: from dlctl status --json.
field() { dlctl status --json "$1" | jq -r ".[0].$2"; }
events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl" 2>/dev/null; }
has_event() { events "$1" | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "element $1 has the event '$2'" has_event "$1" "$2"; }
# states JOB: "0:COMPLETED:0 1:RUNNING:0 2-3%1:PENDING:0", element, state and how often Slurm has put it back.
states() {
  on_login scontrol --oneliner show job "$1" | grep -oE '(ArrayTaskId|JobState|Restarts)=[^ ]+' | cut -d= -f2 | paste -sd '::\n' | sort | paste -sd ' '
}
are() { [[ $(states "$1") =~ ^$2$ ]]; }
wait_states() { wait_for "$3" "the elements of $1 are $2, not $(states "$1")" are "$1" "$2"; }
# trained ELEMENT [ATTEMPT]: it is in mid-training, and has something to go on from.
trained() { wait_file "dl-$1/logs/attempt-${2:-1}/learner-0.log" '^saved at train step [1-9]0' 40; }
went_on() { wait_file "dl-$1/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' 40; }
# start [OPTIONS]: an array of which element 0 has finished, 1 and 2 are in mid-training.
start() {
  job=$(submit -J array "${elements[@]}" "$@" exec.sh 4000 50)
  trained "${job}_1"
  trained "${job}_2"
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:0 2:RUNNING:0' 20
  [ "$(job_field "${job}_2" JobId)" = "$job" ] # Slurm's number of the last one
}

@test "each element has its job directory, comment, status and log" {
  start --comment=mine
  for i in 0 1 2; do
    wait_for 10 "element $i says so in its comment" eval '[[ $(job_field '"${job}_$i"' Comment) == "mine | dl:"*" dir=$PWD/dl-'"${job}_$i"'"* ]]'
    [ "$(field "${job}_$i" job)" = "${job}_$i" ]
    [ "$(field "${job}_$i" dir)" = "$PWD/dl-${job}_$i" ]
  done
  [ "$(field "${job}_0" state)" = COMPLETED ]
  [ "$(field "${job}_2" state)" = PROCESSING ]
  [ "$(dlctl logs "${job}_0")" = 'I am element 0' ]
  assert_contains "$(dlctl logs "${job}_1")" '^saved at train step 10'
  # By Slurm's number of a single element, and all of them by the array's.
  number=$(job_field "${job}_1" JobId)
  [ "$number" != "$job" ]
  [ "$(field "$number" job)" = "${job}_1" ]
  [ "$(dlctl status --json "$job" | jq -r '.[] | "\(.job) \(.state)"' | paste -sd ' ')" = \
    "${job}_0 COMPLETED ${job}_1 PROCESSING ${job}_2 PROCESSING" ]
  run dlctl status "$job"
  assert_contains "$output" "^${job}_0 +array +COMPLETED"
  run dlctl logs "$job"
  [ "$status" -eq 2 ]
  assert_contains "$output" "job $job is an array; allowed: one of its elements, ${job}_0, ${job}_1, ${job}_2"
  # A job that is submitted from within an element gets its variables, but is none.
  inner=$(on_login env SLURM_ARRAY_JOB_ID="$job" SLURM_ARRAY_TASK_ID=1 sbatch --parsable -J array --dl-learners=1 --wrap 'dlrun -- true')
  wait_state "$inner" COMPLETED 30
  assert_contains "$(job_field "$inner" Comment)" "^dl:COMPLETED attempt=1 dir=$PWD/dl-$inner "
  [ "$(states "$job")" = '0:COMPLETED:0 1:RUNNING:0 2:RUNNING:0' ]
}

@test "pause and resume stop and start one element, the last one too" {
  start
  run dlctl pause "${job}_2"
  assert_contains "$output" "^job ${job}_2: paused: saved at train step [0-9]+; resume it: dlctl resume ${job}_2"
  [ "$status" -eq 0 ]
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:0 2:PENDING:[01]' 5
  run dlctl pause "$(job_field "${job}_1" JobId)"
  assert_contains "$output" "^job ${job}_1: paused: saved"
  wait_states "$job" '0:COMPLETED:0 1:PENDING:[01] 2:PENDING:[01]' 5
  run dlctl resume "${job}_2"
  assert_contains "$output" "^job ${job}_2 may start again"
  went_on "${job}_2"
  wait_states "$job" '0:COMPLETED:0 1:PENDING:[01] 2:RUNNING:1' 5
  assert_contains "$(job_field "${job}_1" Comment)" "dl:HALTED attempt=1 step=[0-9]+ pace=[^ ]+ dir=$PWD/dl-${job}_1 "
  dlctl resume "${job}_1"
  went_on "${job}_1"
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:1 2:RUNNING:1' 5
}

# bats test_tags=versions
@test "scancel ends one element, the last one too, or the array, for good" {
  start
  on_login scancel "${job}_2"
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:0 2:CANCELLED:0' 30
  assert_contains "$(events "${job}_2")" '^1 FAILED cancelled: '
  other=$job
  start
  on_login scancel "${other}_1" "$job"
  wait_states "$other" '0:COMPLETED:0 1:CANCELLED:0 2:CANCELLED:0' 30
  wait_states "$job" '0:COMPLETED:0 1:CANCELLED:0 2:CANCELLED:0' 30
}

@test "the first element while it runs: each door stops it alone" {
  printf '#!/bin/bash\n[ "$SLURM_ARRAY_TASK_ID" = 0 ] || exec sleep 300\n' >first.sh
  sed -n 3p exec.sh >>first.sh
  job=$(submit -J array "${elements[@]}" --array=0-1 -p borrow -N1 --gpus-per-node=2 first.sh 40000 50)
  trained "${job}_0"
  run dlctl pause "${job}_0"
  assert_contains "$output" "^job ${job}_0: paused: saved at train step"
  wait_states "$job" '0:PENDING:[01] 1:RUNNING:0' 5
  dlctl resume "${job}_0"
  went_on "${job}_0"
  claim=$(submit -J array -p batch -w "$(job_field "${job}_0" NodeList)" --gpus-per-node=2 --wrap true)
  wait_event "${job}_0" 'PENDING preempted: saved at train step' 30
  wait_state "$claim" COMPLETED 30
  wait_file "dl-${job}_0/logs/attempt-3/learner-0.log" '^attempt 3 starts at train step [1-9]' 40
  on_login scancel "${job}_0"
  wait_states "$job" '0:CANCELLED:2 1:RUNNING:0' 30
  run dlctl pause "${job}_0"
  [ "$status" -eq 2 ]
  assert_contains "$output" "job ${job}_0 cannot be paused: it is CANCELLED"
  # And one whose failure holds it.
  printf '#!/bin/bash\n[ "$SLURM_ARRAY_TASK_ID" = 0 ] || exec sleep 300\nexec dlrun -- sh -c "echo No space left on device >&2; exit 1"\n' >full.sh
  full=$(submit -J array "${elements[@]}" --array=0-1 full.sh)
  wait_event "${full}_0" 'HALTED' 40
  wait_states "$full" '0:PENDING:[01] 1:RUNNING:0' 20
}

# running_one JOB: its element that runs.
running_one() { on_login squeue -h -t RUNNING -j "$1" -o %i | grep .; }

@test "elements that wait in one record: paused and resumed one by one, and with those that run" {
  on_login scontrol update PartitionName=batch State=DOWN
  job=$(submit -J array "${elements[@]}" --array=0-3%1 exec.sh 4000 50)
  wait_states "$job" '0-3%1:PENDING:0' 10
  [ "$(field "$job" job) $(field "$job" state)" = "${job}_[0-3] PENDING" ]
  [ "$(field "${job}_2" job)" = "${job}_2" ]
  run dlctl pause "${job}_2"
  assert_contains "$output" "job ${job}_2 had not started and is held now; resume it: dlctl resume ${job}_2"
  [ "$(job_field "${job}_2" Priority)" = 0 ]
  [ "$(job_field "${job}_3" Priority)" != 0 ]
  dlctl resume "${job}_2"
  [ "$(job_field "${job}_2" Priority)" != 0 ]
  run dlctl pause "$job"
  assert_contains "$output" "job ${job}_\[0-1,3\] had not started and is held now; resume it: dlctl resume ${job}$"
  [ "$status" -eq 0 ]
  for i in 0 1 2 3; do [ "$(job_field "${job}_$i" Priority)" = 0 ]; done
  dlctl resume "${job}_0"
  [ "$(job_field "${job}_1" Priority)" = 0 ]
  on_login scontrol update PartitionName=batch State=UP
  wait_for 20 'element 0 has finished' in_state "${job}_0" COMPLETED
  run dlctl resume "$job"
  assert_contains "$output" "^job ${job}_2 may start again"
  [ "$status" -eq 0 ]
  wait_for 20 'one of them has begun' running_one "$job"
  begun=$(running_one "$job")
  trained "$begun"
  # Of those that run, wait and have finished.
  run dlctl pause "$job"
  assert_contains "$output" "^job $begun: paused: saved"
  [ "$status" -eq 0 ]
  [ "$(job_state "$begun")" = PENDING ]
  [ "$(job_state "${job}_0")" = COMPLETED ]
  for i in 1 2 3; do [ "$(job_field "${job}_$i" Priority)" = 0 ]; done
  dlctl resume "${job}_3"
  trained "${job}_3"
  on_login scancel "$job"
  for i in 1 2 3; do wait_state "${job}_$i" CANCELLED 30; done
  [ "$(job_state "${job}_0")" = COMPLETED ]
}

@test "a preempted element goes back into the queue alone, the last one too" {
  start -p borrow -N1 --gpus-per-node=2
  for i in 1 2; do
    claim=$(submit -J array -p batch -w "$(job_field "${job}_$i" NodeList)" --gpus-per-node=2 --wrap true)
    wait_event "${job}_$i" 'PENDING preempted: saved at train step [0-9]+' 30
    wait_state "$claim" COMPLETED 30
    went_on "${job}_$i"
    [ "$i" = 2 ] || wait_states "$job" '0:COMPLETED:0 1:RUNNING:1 2:RUNNING:0' 20
  done
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:1 2:RUNNING:1' 20
}

@test "a failure that holds or requeues an element leaves the others alone" {
  printf '#!/bin/bash\n[ "$SLURM_ARRAY_TASK_ID" != 0 ] || exit 0\nexec dlrun -- sh -c "$1"\n' >fail.sh
  job=$(submit -J array "${elements[@]}" fail.sh \
    'echo here; until [ -e "fail-$SLURM_ARRAY_TASK_ID" ]; do sleep 0.1; done; echo "No space left on device" >&2; exit 1')
  for i in 1 2; do wait_file "dl-${job}_$i/logs/attempt-1/learner-0.log" here 40; done
  touch fail-2
  wait_states "$job" '0:COMPLETED:0 1:RUNNING:0 2:PENDING:[01]' 30
  [ "$(field "${job}_2" state)" = HALTED ]
  touch fail-1
  wait_states "$job" '0:COMPLETED:0 1:PENDING:[01] 2:PENDING:[01]' 30
  rm fail-1
  dlctl resume "${job}_1"
  wait_file "dl-${job}_1/logs/attempt-2/learner-0.log" here 40
  [ "$(job_state "${job}_2")" = PENDING ]
  # dlrun and its guard are killed: an agent has the job put back.
  start
  for i in 1 2; do
    dlrun=$(jq -r .pid "dl-${job}_$i/control.json")
    kill_process "$(ps -o ppid= -p "$dlrun" | tr -d ' ')" "$dlrun"
    wait_event "${job}_$i" '^1 PENDING dlrun and its guard were killed; put back by the agent on ' 30
    wait_for 30 "element $i is put back" eval '[[ $(job_field '"${job}_$i"' Restarts) == 1 ]]'
    [ "$i" = 2 ] || are "$job" '0:COMPLETED:0 1:[A-Z]+:1 2:RUNNING:0'
  done
  are "$job" '0:COMPLETED:0 1:[A-Z]+:1 2:[A-Z]+:1'
}

@test "the time limit of an element puts it back alone, the last one too" {
  cd "$limits"
  wait_event "${first}_1" 'PENDING time limit: saved at train step' 80
  wait_event "${second}_2" 'PENDING time limit: saved at train step' 80
  went_on "${first}_1"
  went_on "${second}_2"
  are "$first" '0:COMPLETED:0 1:[A-Z]+:[1-9] 2:RUNNING:0'
  are "$second" '0:COMPLETED:0 1:RUNNING:0 2:[A-Z]+:[1-9]'
}
