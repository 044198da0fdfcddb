# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2119,SC2120  # lib.bash has $stage; tests set $job
# Helpers of the tests of companions: the jobs that dlrun submits to have more nodes. Learners are tests/lib/toy_learner.c, which
# counts its train steps and says whether one was lost.

companion_setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
}
# companion_teardown [NODE]: after a test that may have cut a node off.
companion_teardown() {
  dl_sandbox node heal "${1:-n2}"
  cluster_teardown
  on_login scontrol reconfigure # all nodes register at once
  wait_nodes idle 60
}

dlctl() { on_login "$stage/bin/dlctl" "$@"; }
output() { cat "slurm-${1:-$job}.out" 2>/dev/null; }
learners_of() { dlctl status --json "$1" | jq '.[0].ranks | length'; }
trains_with() {
  dlctl status --json "$1" | jq -e --argjson n "$2" '.[0].ranks | length == $n and ([.[].step >= 1] | all)' >/dev/null
}
companions_of() { on_login squeue -h --name="dl-companion-$1" -o %i; }
none_left() { [ -z "$(companions_of "$1")" ]; }

# train_alone [options of sbatch]: sets job to an elastic job that began with one learner on n1, since the other nodes were not free then, and
# trains.
train_alone() {
  local blocker
  blocker=$(submit -w 'n[2-3]' -N2 --exclusive --wrap 'exec sleep 600')
  wait_state "$blocker" RUNNING 30
  job=$(submit "$@" --dl-framework="${framework:-generic}" --dl-learners=1:3 --dl-gpus=1 --dl-checkpoint=ck,every=20steps train.sh "${steps:-100000}" "${step_ms:-50}")
  wait_step "$job" 1 30
  [ "$(learners_of "$job")" = 1 ]
  [ "$(job_field "$job" NodeList)" = n1 ]
  on_login scancel "$blocker"
}
# grow: lets the job grow by a node; sets companion to the id of the companion.
grow() {
  run dlctl grow "$job"
  [ "$status" = 0 ] || { echo "$output" >&2; return 1; }
  companion=$(sed -nE 's/.*: companion ([0-9]+) is submitted.*/\1/p' <<<"$output")
  wait_for 60 "job $job trains with 2 learners" trains_with "$job" 2
}
# saves_on: the job saves 40 train steps later than it has come now.
saves_on() {
  local before
  before=$(dlctl status --json "$job" | jq '[.[0].ranks[].step] | min')
  wait_for 60 "job $job trains on and saves" saved_past $((before + 40))
}
saved_past() { [ "$(jq -s '[.[] | select(.step != null) | .step] | max' "dl-$job/events.jsonl")" -gt "$1" ]; }
# no_learner: not on any node of this cluster; hosts of the sandbox see all processes of the machine.
no_learner() { ! own_pgrep -f "$top_builddir/tests/lib/.*toy_learner" >/dev/null; }

# The first thing that must work, with slurmdbd and without, on three nodes of one GPU, one of nlp's and two of vision's: sizes chosen by
# dlpolicyd, which lets an elastic job grow onto a node that comes free, and gives that back to its owner while the job trains on.
one_learner() { learners=1 training --account="$1" "${@:2}"; }
queue_is_empty() { [ -z "$(on_login squeue -h -o %i)" ]; }
grow_and_give_back() {
  own=$(one_learner nlp deaf.sh)
  wait_state "$own" RUNNING 20
  blocker=$(one_learner vision deaf.sh)
  wait_state "$blocker" RUNNING 20
  elastic=$(learners=1:2 training --account=nlp --cpus-per-task=3 train.sh 100000 50)
  wait_state "$elastic" RUNNING 30
  wait_charge "$elastic" borrowed 10
  in_training "$elastic"
  first=$(job_field "$elastic" NodeList)
  node=$(job_field "$blocker" NodeList)
  on_login scancel "$blocker"

  wait_file daemon.log "job $elastic: grow: may grow from 1 to 2 learners: $node is free" 90
  wait_file "slurm-$elastic.out" "grew from 1 to 2 learners: node $node was free" 60
  wait_for 60 "job $elastic trains with 2 learners" trains_with "$elastic" 2
  companion=$(companions_of "$elastic")
  [ "$(job_field "$companion" NodeList)" = "$node" ]
  wait_for 20 "dlctl why says that it grew" why_says "$elastic" "it grew from 1 to 2 learners: $node was free, and now belongs to its companion $companion, which is given back"
  grep -q "grew from 1 to 2 learners: node $node was free" "dl-$elastic/events.jsonl"
  [ "$(restarts_of "$elastic")" = 0 ]
  [[ $(job_field "$companion" AdminComment) == *" tier=borrow "*" charge=borrowed"* ]]

  # The owner gets the node of the companion, and no job stops or goes back into the queue.
  claim=$(one_learner vision train.sh 100000 50)
  wait_file daemon.log "job $companion: yield: yields 1 GPUs to job $claim" 20
  wait_state "$claim" RUNNING 40
  [ "$(job_field "$claim" NodeList)" = "$node" ]
  wait_for 40 "job $elastic trains with 1 learner" trains_with "$elastic" 1
  assert_contains "$(output "$elastic")" "$node is left out; 1 learner on $first"
  [ "$(restarts_of "$elastic")" = 0 ]
  [ "$(job_state "$own")" = RUNNING ]
  run grep -c "job $elastic: \(yield\|resize\|requeue\):" daemon.log
  [ "$output" = 0 ]
  wait_for 20 "no companion is left" none_left "$elastic"

  # Whatever ends, no companion stays.
  on_login scancel "$elastic" "$claim" "$own"
  wait_for 30 "the queue is empty" queue_is_empty
}

# grow_by_itself: as train_alone and grow, but dlpolicyd lets the job grow; sets job and companion.
grow_by_itself() {
  local blocker
  blocker=$(learners=2 training --account=vision deaf.sh)
  wait_state "$blocker" RUNNING 20
  job=$(learners=1:2 training --account=nlp train.sh 100000 50)
  in_training "$job"
  on_login scancel "$blocker"
  wait_for 120 "job $job trains with 2 learners" trains_with "$job" 2
  companion=$(companions_of "$job")
  [ -n "$companion" ]
}
comment_says() { [[ " $(job_field "$1" Comment) " == *"$2"* ]]; }

# What is to come of a job with a companion whose dlrun is killed.
companion_is_over() { [[ $(job_state "$companion") =~ ^(|CANCELLED|COMPLETED|FAILED)$ ]]; }
dlrun_is_killed() {
  kill_process "$(jq .pid "dl-$job/control.json")"
  wait_file "slurm-$job.out" 'another has taken its place' 40
  wait_for 60 "companion $companion is over" companion_is_over
  wait_file "slurm-$job.out" '^(\[0\] )?attempt 3 starts at train step [1-9][0-9]*' 60
}
dlrun_and_guard_are_killed() {
  local dlrun guard
  dlrun=$(jq .pid "dl-$job/control.json")
  guard=$(ps -o ppid= -p "$dlrun" | tr -d ' ')
  kill_process "$guard" "$dlrun"
  wait_for 40 "companion $companion is over" companion_is_over
}
