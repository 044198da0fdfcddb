#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a researcher meets in the first hundred hours, on a real Slurm: odd shells, odd moments, odd words.
# shellcheck disable=SC2016  # expanded by the shells of jobs
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { cluster_teardown; }

# script NAME LINE...: a batch script.
script() { printf '%s\n' '#!/bin/bash' "${@:2}" >"$1"; }
# out JOB: what its script wrote.
out() { cat "slurm-$1.out"; }

@test "a job without checkpoints is not paused unless that is meant: it would lose what it has done" {
  printf '#!/bin/bash\nexec dlrun -- sh -c "echo began; sleep 60"\n' >train.sh
  job=$(submit --dl-learners=1 train.sh)
  wait_file "slurm-$job.out" '^began' 30
  run on_login dlctl pause "$job"
  [ "$status" -eq 2 ]
  assert_contains "$output" "^dlctl pause: job $job has no checkpoint directory \(--dl-checkpoint\), so a pause would throw away"
  [ "$(job_state "$job")" = RUNNING ]
  run on_login dlctl pause --force "$job"
  [ "$status" -eq 0 ]
  wait_state "$job" PENDING 30
  assert_contains "$(on_login dlctl status "$job")" '^state +HALTED'
}

@test "dlctl logs -f of a job that waits says what for, and shows its learners' output once it runs" {
  printf '#!/bin/bash\nexec dlrun -- sh -c "echo here I am"\n' >train.sh
  job=$(submit --hold --dl-learners=1 train.sh)
  on_login dlctl logs -f "$job" >followed 2>said &
  follower=$!
  wait_file said "^dlctl logs: job $job is PENDING, .*; waiting for its learners" 20
  on_login scontrol release "$job"
  wait "$follower"
  [ "$(cat followed)" = 'here I am' ]
  job=$(submit --hold --dl-learners=1 train.sh)
  on_login dlctl logs -f "$job" >followed 2>said &
  follower=$!
  wait_file said 'waiting for its learners' 20
  on_login scancel "$job"
  status=0
  wait "$follower" || status=$?
  [ "$status" -ne 0 ]
  assert_contains "$(cat said)" "job $job has no job directory"
}

@test "learners find the job's own name in SLURM_JOB_NAME" {
  job=$(submit -J night-run --dl-learners=1 --wrap 'dlrun -- sh -c "echo name=\$SLURM_JOB_NAME"')
  wait_state "$job" COMPLETED 30
  assert_contains "$(cat "slurm-$job.out")" '^name=night-run$'
}

@test "closed standard files: the program runs once, and its success is its end" {
  script closed.sh 'dlrun -- sh -c "echo ran >>ran" <&- || exit' 'dlrun --job-dir none -- sh -c "echo ran >>ran" <&- >&- 2>&-'
  job=$(submit --dl-learners=1 closed.sh)
  wait_state "$job" COMPLETED 30
  [ "$(wc -l <ran)" -eq 2 ]
  [[ $(out "$job") != *Assertion* ]]
}

@test "learner 0 reads what dlrun is given, on whichever node" {
  script stdin.sh 'printf "one\ntwo\n" | dlrun -- sh -c '\''sed "s/^/$RANK:/"'\'
  job=$(submit --nodes=2 --dl-learners=2 stdin.sh)
  wait_state "$job" COMPLETED 30
  [ "$(out "$job" | grep -E '^\[')" = $'[0] 0:one\n[0] 0:two' ]
}
