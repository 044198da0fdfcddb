#!/usr/bin/env bats
# Companions and lost nodes with slurmdbd, where tiers are QOS and Slurm lets a job be changed after it has given a node back. Without slurmdbd:
# grow_in_place.bats, companion.bats and lost_node.bats.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"
# shellcheck source=tests/cluster/companion.bash
source "$(dirname "$BATS_TEST_FILENAME")/companion.bash"

setup_file() { elastic_up --slurmdbd; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() {
  stop_daemon
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || cat daemon.log >&2
  companion_teardown
}

@test "with slurmdbd an elastic job grows by itself onto a node that comes free, and gives that back to its owner while it trains on" { grow_and_give_back; }

@test "with slurmdbd, kill -9 of dlrun: the one that takes over ends the companion, and goes on on its own node" {
  grow_by_itself
  dlrun_is_killed
}

@test "with slurmdbd, kill -9 of dlrun and of its guard: the companion ends by itself" {
  grow_by_itself
  dlrun_and_guard_are_killed
}

@test "with slurmdbd a job that has given a lost node back can be changed further: its comment, its label and its time" {
  stop_daemon # so that nobody else changes the job
  job=$(submit --account=vision -x n3 --dl-framework=generic --dl-learners=1:2 --dl-gpus=1 --dl-checkpoint=ck,every=10steps train.sh 100000 60)
  wait_for 30 "job $job trains with 2 learners" trains_with "$job" 2
  wait_file "slurm-$job.out" '^\[0\] saved at train step 20' 30
  dl_sandbox node cut n2
  wait_for 40 "job $job trains with 1 learner" trains_with "$job" 1
  [ "$(job_field "$job" NodeList)" = n1 ]
  wait_for 20 "the comment of job $job says that it goes on" comment_says "$job" ' attempt=2 '
  on_login scontrol update JobId="$job" TimeLimit=30 AdminComment="$(job_field "$job" AdminComment)"
  [ "$(job_field "$job" TimeLimit)" = 00:30:00 ]
  [ "$(job_field "$job" Restarts)" = 0 ]
}
