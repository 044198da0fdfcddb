#!/usr/bin/env bats
# dlpolicyd offers free nodes to an elastic job, which grows onto them where it is, and gives them back when their owner claims them.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"
# shellcheck source=tests/cluster/companion.bash
source "$(dirname "$BATS_TEST_FILENAME")/companion.bash"

setup_file() { elastic_up; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

@test "an elastic job grows by itself onto a node that comes free, and gives that back to its owner while it trains on" { grow_and_give_back; }

@test "a job that has grown grows again onto the next free node, and a claim takes back one of its two companions" {
  first=$(one_learner vision deaf.sh)
  wait_state "$first" RUNNING 20
  second=$(one_learner vision deaf.sh)
  wait_state "$second" RUNNING 20
  elastic=$(learners=1:3 training --account=nlp --cpus-per-task=3 train.sh 100000 50)
  wait_state "$elastic" RUNNING 30
  in_training "$elastic"
  on_login scancel "$first"
  wait_file daemon.log "job $elastic: grow: may grow from 1 to 2 learners" 90
  wait_for 60 "job $elastic trains with 2 learners" trains_with "$elastic" 2
  on_login scancel "$second"
  wait_file daemon.log "job $elastic: grow: may grow from 2 to 3 learners" 120
  wait_for 60 "job $elastic trains with 3 learners" trains_with "$elastic" 3
  wait_for 20 "dlctl why tells of both companions" why_says "$elastic" "it grew from 1 to 3 learners"

  claim=$(one_learner vision train.sh 100000 50)
  wait_state "$claim" RUNNING 60
  wait_for 60 "job $elastic trains with 2 learners again" trains_with "$elastic" 2
  has_one_companion() { [ "$(companions_of "$elastic" | wc -l)" = 1 ]; }
  wait_for 20 "one companion is left" has_one_companion
  [ "$(restarts_of "$elastic")" = 0 ]
  [ "$(grep -c ": yield:" daemon.log)" = 1 ]
  on_login scancel "$elastic" "$claim"
  wait_for 30 "the queue is empty" queue_is_empty
}

@test "kill -9 of dlpolicyd: a grown job trains on, and the next dlpolicyd gives its companion to the owner who has claimed meanwhile" {
  grow_by_itself
  kill_process "$(cat daemon.pid)"
  claim=$(one_learner vision train.sh 100000 50)
  other=$(one_learner vision train.sh 100000 50)
  wait_step "$job" $(($(dlctl status --json "$job" | jq '.[0].step') + 40)) 60
  start_daemon
  wait_state "$claim" RUNNING 60
  wait_state "$other" RUNNING 60
  wait_for 60 "job $job trains with 1 learner" trains_with "$job" 1
  [ "$(restarts_of "$job")" = 0 ]
  wait_for 20 "no companion is left" none_left "$job"
  on_login scancel "$job" "$claim" "$other"
  wait_for 30 "the queue is empty" queue_is_empty
}
