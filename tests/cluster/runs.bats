#!/usr/bin/env bats
# Several dlruns of one job: at once with & and wait, one after the other, and inside each other. Each has a job directory,
# GPUs and a status of its own; a stop reaches all, waits for all, and puts the job back once; a run that has completed is
# not run again. Learners are tests/lib/toy_learner.c.
# shellcheck disable=SC2016,SC2030,SC2031  # much here is expanded by the shells of jobs; each test is a subshell
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 1 --gpus-per-node 4 --cpus-per-node 32 --grace 60; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -x $top_builddir/tests/lib/toy_learner ]] || skip "built without HDF5"
  toy=$top_builddir/tests/lib/toy_learner
}
teardown() { cluster_teardown; }

dlctl() { on_login env -C "$PWD" "$stage/bin/dlctl" "$@"; }
# script NAME LINE…: a batch script.
script() {
  { echo '#!/bin/bash' && printf '%s\n' "${@:2}"; } >"$1"
  chmod 755 "$1"
}
# A sweep by hand: two runs that train until they are stopped, each with its checkpoint.
sweep() {
  script sweep.sh "dlrun --learners 1 --gpus 1 --checkpoint ck-a,every=10steps -- $toy 40000 50 &" \
    "dlrun --learners 1 --gpus 1 --checkpoint ck-b,every=10steps -- $toy 40000 50 &" 'wait' 'echo "the script goes on"'
}
trains() { wait_file "$1/logs/attempt-${2:-1}/learner-0.log" '^saved at train step [1-9]0' 40; }
# Slurm waits two minutes with a job whose start time has passed before it is done completing: seen on a busy machine.
went_on() { wait_file "$1/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' 200; }
events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "$1/events.jsonl" 2>/dev/null; }
has_event() { events "$1" | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "$1 has the event '$2'" has_event "$1" "$2"; }
restarts() { job_field "$1" Restarts; }

all_at_work() { [[ $(job_field "$1" Comment) =~ ^dl:PROCESSING\ .*dir=$PWD/dl-$1\ reason=4\ runs:\ 4\ PROCESSING ]]; }

@test "each of several dlruns at once has GPUs, CPUs, a job directory, a status and logs of its own; more wait for GPUs" {
  for i in 1 2 3 4 5; do
    echo "dlrun --learners 1 --gpus 1 -- sh -c 'echo run $i gpu \$CUDA_VISIBLE_DEVICES cpus \$OMP_NUM_THREADS; while [ ! -e end ]; do sleep 0.1; done' &"
  done >lines
  script many.sh "$(cat lines)" wait
  job=$(submit --dl-framework=pytorch --gpus=4 -c 8 -o out many.sh)
  wait_file out 'waiting for GPUs of this job that other dlruns use \(.*\): needs 1 learner x 1 GPU, and other dlruns of the job leave 0 GPUs on 1 node$' 30
  for i in '' .2 .3 .4; do wait_event "dl-$job$i" PROCESSING 30; done
  [ ! -e "dl-$job.5" ]
  said=$(cat "dl-$job"/logs/latest/learner-0.log "dl-$job".?/logs/latest/learner-0.log)
  [ "$(grep -oE 'run [1-5] gpu [0-9]+' <<<"$said" | cut -d' ' -f4 | sort | paste -sd ' ')" = '0 1 2 3' ]
  [ "$(grep -oE 'cpus [0-9]+' <<<"$said" | sort -u)" = 'cpus 2' ]
  run dlctl status "$job"
  assert_contains "$output" "^$job\.1 .*PROCESSING"
  assert_contains "$output" "^$job\.4 .*PROCESSING"
  [ "$(dlctl status --json "$job" | jq -r '.[] | "\(.job) \(.run) \(.state)"' | paste -sd,)" = \
    "$job 1 PROCESSING,$job 2 PROCESSING,$job 3 PROCESSING,$job 4 PROCESSING" ]
  assert_contains "$(dlctl status --json "$job.3" | jq -r '.[].dir')" "/dl-$job\.3$"
  [ "$(dlctl logs "$job.2")" = "$(cat "dl-$job.2/logs/latest/learner-0.log")" ]
  run dlctl logs "$job"
  [ "$status" -eq 2 ]
  assert_contains "$output" "job $job has 4 dlruns; allowed: one of them, $job.1, $job.2, $job.3, $job.4"
  run dlctl logs "$job.7"
  assert_contains "$output" "job $job has no run 7; it has $job.1, "
  # The directory of a run is that run.
  assert_contains "$(dlctl status --json "dl-$job.3" | jq -r '.[] | "\(.job) \(.run) \(.state) \(.slurm_state)"')" "^$job 3 PROCESSING RUNNING$"
  run dlctl pause "dl-$job.2"
  [ "$status" -eq 2 ]
  assert_contains "$output" "$job\.2 is one dlrun of job $job"
  run dlctl pause "$job.2"
  [ "$status" -eq 2 ]
  assert_contains "$output" "$job\.2 is one dlrun of job $job, and this concerns the whole job; allowed: $job"
  wait_for 20 "the comment says that four are at work" all_at_work "$job"
  touch end
  wait_state "$job" COMPLETED 30
  # What they write to one file is told apart: by those that found others there.
  [ "$(grep -cE '^run [1-5] gpu' out)" -le 2 ]
  for i in 2 3 4; do
    [ "$(grep -cE "^\[run $i\] run [1-5] gpu" out)" -eq 1 ]
    [ "$(grep -cE "^dlrun $i: completed in " out)" -eq 1 ]
  done
  # The fifth got a place that had become free.
  assert_contains "$(cat "dl-$job"/logs/*/learner-0.log "dl-$job".?/logs/*/learner-0.log)" 'run 5 gpu [0-3] '
}

@test "a pause reaches all, waits for all, and puts the job back once; resume starts all from their checkpoints" {
  sweep
  # Runs that have ended before are not waited for.
  sed -i '2i dlrun --learners 1 -- true\ndlrun --learners 1 -- false' sweep.sh
  job=$(submit --dl-framework=generic --gpus=2 -c 4 -o out sweep.sh)
  trains "dl-$job.3"
  trains "dl-$job.4"
  run dlctl pause --timeout 60s "$job"
  assert_contains "$output" "^job $job: paused: saved at train step [0-9]+; resume it: dlctl resume $job"
  [ "$status" -eq 0 ]
  wait_state "$job" PENDING 10
  [ "$(restarts "$job")" -le 1 ]
  for dir in "dl-$job.3" "dl-$job.4"; do assert_contains "$(events "$dir" | tail -n 1)" 'HALTED paused: saved at train step'; done
  [ "$(grep -c 'the script goes on' out)" -eq 0 ]
  dlctl resume "$job"
  went_on "dl-$job.3"
  went_on "dl-$job.4"
  [ "$(restarts "$job")" -eq 1 ]
  [ ! -e "dl-$job.5" ]
  # The one that is not run again has its state from this start.
  [ "$(dlctl status --json "$job.1" | jq -r '.[].state')" = COMPLETED ]
}

@test "the time limit stops both, and scancel ends both for good" {
  sweep
  job=$(submit --dl-framework=generic --gpus=2 -c 4 --time=1 -o out sweep.sh)
  sed 's/ck-/other-/g' sweep.sh >other.sh
  cancelled=$(submit --dl-framework=generic --gpus=2 -c 4 -o cancelled other.sh)
  trains "dl-$cancelled"
  trains "dl-$cancelled.2"
  on_login scancel "$cancelled"
  wait_state "$cancelled" CANCELLED 30
  # The script's shell dies at once, and all of the batch step with it.
  [ "$(dlctl status --json "$cancelled" | jq -r '.[].state' | paste -sd ' ')" = 'FAILED FAILED' ]
  wait_event "dl-$job" 'PENDING time limit: saved at train step' 80
  wait_event "dl-$job.2" 'PENDING (time limit|put back .*): saved at train step' 10
  went_on "dl-$job"
  went_on "dl-$job.2"
  [ "$(restarts "$job")" -eq 1 ]
}

@test "preemption stops both, and puts the job back once" {
  sweep
  job=$(submit --dl-framework=generic --gpus=4 -c 4 -p borrow -o out sweep.sh)
  trains "dl-$job"
  trains "dl-$job.2"
  owner=$(submit -p batch --gpus=4 --wrap 'true')
  wait_event "dl-$job" 'PENDING (preempted|put back .*): saved at train step' 30
  wait_event "dl-$job.2" 'PENDING (preempted|put back .*): saved at train step' 10
  wait_state "$owner" COMPLETED 30
  went_on "dl-$job"
  went_on "dl-$job.2"
  [ "$(restarts "$job")" -eq 1 ]
}

@test "kill -9 of one dlrun while two are at work: another takes its place, and the other one trains on" {
  sweep
  job=$(submit --dl-framework=generic --gpus=2 -c 4 -o out sweep.sh)
  trains "dl-$job"
  trains "dl-$job.2"
  kill_process "$(jq .pid "dl-$job.2/control.json")"
  went_on "dl-$job.2"
  [ ! -e "dl-$job/logs/attempt-2" ]
  [ ! -e "dl-$job.3" ]
  dlctl pause "$job"
  for dir in "dl-$job" "dl-$job.2"; do assert_contains "$(events "$dir" | tail -n 1)" 'HALTED paused: saved at train step'; done
  [ "$(restarts "$job")" -le 1 ]
}

@test "two dlruns with one checkpoint directory are refused with one sentence" {
  script twice.sh "dlrun --learners 1 --gpus 1 --checkpoint ck,every=10steps -- $toy 400 10 & first=\$!" 'sleep 2' \
    "dlrun --learners 1 --gpus 0 -- sh -c 'echo \"none:\$CUDA_VISIBLE_DEVICES:\"'" \
    "dlrun --learners 1 --gpus 1 --checkpoint \$PWD/ck -- $toy 10 10; echo \"status \$?\"" 'wait $first; echo "first $?"'
  job=$(submit --dl-framework=generic --gpus=2 -o out twice.sh)
  wait_state "$job" COMPLETED 40
  grep -qx '\[run 2\] none::' out
  [ "$(grep -c 'checkpoint directory' out)" -eq 1 ]
  assert_contains "$(cat out)" "^dlrun: checkpoint directory $PWD/ck is in use by another dlrun of this job, $job\.1 in $PWD/dl-$job; allowed: a --checkpoint of its own for each"
  assert_contains "$(cat out)" '^status 73'
  assert_contains "$(cat out)" '^first 0'
}

@test "one after the other: after a requeue what has completed is not run again, and the rest resumes by itself" {
  script steps.sh "for i in 1 2; do dlrun --learners 1 -- sh -c 'echo loop >>looped'; done" \
    "SEED=1 dlrun --learners 1 --checkpoint ck-a,every=10steps -- $toy 20 10 || exit" \
    "SEED=1 dlrun --learners 1 -- sh -c 'echo ran \$SEED >>ran'" "SEED=2 dlrun --learners 1 -- sh -c 'echo ran \$SEED >>ran'" \
    "dlrun --learners 1 --checkpoint ck-b,every=10steps -- $toy \$(cat steps) 50 || exit" "dlrun --learners 1 -- sh -c 'echo last >>ran'"
  echo 40000 >steps
  job=$(submit --dl-framework=generic --gpus=1 -o out --open-mode=append steps.sh)
  wait_for 60 'the last training runs' eval 'grep -qs "^saved at train step [1-9]0" dl-'"$job"'.5/logs/attempt-1/learner-0.log'
  on_login scontrol requeue "$job"
  wait_for 30 "it waits" in_state "$job" PENDING
  sleep 1 # a node takes no job that begins in the second in which it ended there
  on_login scontrol update JobId="$job" StartTime=now+1
  wait_file "dl-$job.5/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' 60
  [ "$(cat ran)" = $'ran 1\nran 2' ]
  [ "$(grep -c loop looped)" -eq 2 ]
  [ "$(grep -c 'completed in an earlier start of job' out)" -eq 5 ]
  assert_contains "$(events "dl-$job.2" | tail -n 1)" 'COMPLETED completed in attempt 1, and is not run again'
  on_login scancel "$job"
}

@test "an element of an array may have several dlruns, and salloc; a learner may not start a dlrun" {
  script nested.sh 'dlrun --learners 1 -- sh -c "dlrun -- echo inner; echo status \$?"'
  array=$(submit --dl-framework=generic --array=0-1 -n 1 -o 'array-%a' --wrap 'dlrun --learners 1 -- echo a$SLURM_ARRAY_TASK_ID & dlrun --learners 1 -- echo b$SLURM_ARRAY_TASK_ID & wait')
  job=$(submit --dl-framework=generic -o nested nested.sh)
  on_login env -C "$PWD" salloc --dl-framework=generic -n 2 sh -c 'dlrun --job-dir here --learners 1 -- echo c & dlrun --learners 1 -- echo d & wait; echo "in $SLURM_JOB_ID"' >salloc.out 2>&1 </dev/null
  assert_contains "$(cat salloc.out)" '^c$'
  assert_contains "$(cat salloc.out)" '^d$'
  wait_state "$job" COMPLETED 30
  assert_contains "$(cat nested)" "dlrun: called in learner 0 of another dlrun \($PWD/dl-$job\), which is no place for a second one; allowed: "
  assert_contains "$(cat nested)" '^status 2'
  for i in 0 1; do
    wait_state "${array}_$i" COMPLETED 30
    [ "$(cat "dl-${array}_$i/logs/attempt-1/learner-0.log" "dl-${array}_$i.2/logs/attempt-1/learner-0.log" | sort | paste -sd ' ')" = "a$i b$i" ]
  done
}

@test "srun dlrun: with one task it works as without srun, with several it says what to do" {
  script four.sh 'echo "<$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT gpu $CUDA_VISIBLE_DEVICES>"'
  script one.sh 'srun -n1 dlrun -- ./four.sh' 'srun -n1 bash -c "dlrun --learners 4 -- ./four.sh"'
  script several.sh 'srun dlrun -- ./four.sh'
  job=$(submit --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 -o one.out one.sh)
  wait_state "$job" COMPLETED 60
  cat one.out
  for rank in 0 1 2 3; do [ "$(grep -c "<$rank of 4 at " one.out)" -eq 2 ]; done
  run ! grep -E 'MASTER_ADDR=|stays' one.out
  # One address and port for each run.
  [ "$(grep -oE 'at [^ ]+:[0-9]+' one.out | sort | uniq -c | awk '{print $1}' | sort -u)" = 4 ]
  # Without our flags: as many learners as the job has tasks, and not the step.
  script plain.sh "srun -n1 dlrun -- ./four.sh"
  job=$(submit -n4 --gres=gpu:4 -o plain.out plain.sh)
  wait_state "$job" COMPLETED 60
  for rank in 0 1 2 3; do [ "$(grep -c "<$rank of 4 at " plain.out)" -eq 1 ]; done
  job=$(submit --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 -o several.out several.sh)
  wait_state "$job" FAILED 60
  assert_contains "$(cat several.out)" 'dlrun was itself started by srun with 4 tasks, and starts the learners itself; call it once, without srun: dlrun -- COMMAND'
  run ! grep MASTER_ADDR several.out
}
