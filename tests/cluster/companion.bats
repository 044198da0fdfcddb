#!/usr/bin/env bats
# A running job that goes on on the nodes of a companion, too: it grows in place, and goes on smaller when the companion ends.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/companion.bash
source "$(dirname "$BATS_TEST_FILENAME")/companion.bash"

setup_file() {
  cluster_up --nodes 3 --gpus-per-node 1
  [[ -z $DL_NO_CLUSTER ]] || return 0
  command -v mpicxx >/dev/null || return 0
  mpicxx -std=c++17 -O1 "$top_srcdir/frameworks/mpi/example/fit_mpi.cpp" -I"$stage/include" -L"$stage/lib" -Wl,-rpath,"$stage/lib" -ldlckpt \
    -o "$BATS_FILE_TMPDIR/fit_mpi"
}
teardown_file() { cluster_down; }
setup() { companion_setup; }
teardown() { companion_teardown; }

@test "a job grows from one node to two while it runs, goes on from its checkpoint, and takes its companion with it when it ends" {
  steps=400 train_alone
  grow
  assert_contains "$(output)" "^dlrun: companion $companion runs: all learners save and stop at train step [1-9]"
  assert_contains "$(output)" '^dlrun: other nodes: saved at train step [1-9][0-9]*; 2 learners on n\[1-2\]'
  assert_contains "$(output)" '^\[1\] attempt 2 starts at train step [1-9]'
  [ "$(dlctl status --json "$job" | jq '.[0].restarts')" = 0 ]
  [ "$(job_field "$companion" NumNodes)" = 1 ]
  wait_state "$job" COMPLETED 90
  assert_contains "$(output)" '^\[0\] done: 400 counted, none lost'
  assert_contains "$(output)" '^\[1\] done: 400 counted, none lost'
  [ "$(job_field "$job" Restarts)" = 0 ]
  wait_for 15 "no companion is left" none_left "$job"
}

@test "an MPI program grows in place: its ranks in both allocations find one another, and every point was used as often as without that" {
  command -v mpicxx >/dev/null || skip "mpicxx is not installed"
  export TMPDIR=$DL_SANDBOX_DIR/pmix # of this cluster alone
  mkdir -p "$TMPDIR"
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- %s "$@"\n' "$BATS_FILE_TMPDIR/fit_mpi" >train.sh
  framework=mpi steps=200 step_ms=100 train_alone
  grow
  wait_state "$job" COMPLETED 120
  assert_contains "$(output)" 'resumed at train step'
  assert_contains "$(output)" 'every point was used 200 to 200 times'
}

@test "scancel of the companion: its learners save, and the job goes on on its own node" {
  train_alone
  grow
  on_login scancel "$companion"
  wait_for 60 "job $job trains with 1 learner" trains_with "$job" 1
  assert_contains "$(output)" 'n2 is left out; 1 learner on n1'
  assert_contains "$(output)" 'attempt 3 starts at train step [1-9]'
  [ "$(dlctl status --json "$job" | jq '.[0].restarts')" = 0 ]
  wait_for 40 "no companion is left" none_left "$job"
  # It may grow again.
  grow
  on_login scancel "$job"
  wait_for 40 "no companion is left" none_left "$job"
}

@test "a companion whose node is lost is given back, and the job goes on on its own node" {
  train_alone
  grow
  dl_sandbox node cut n2
  wait_for 60 "job $job trains with 1 learner" trains_with "$job" 1
  assert_contains "$(output)" 'n2 does not answer .*; n2 is left out; 1 learner on n1'
  [ "$(job_field "$job" NodeList)" = n1 ]
}

@test "kill -9 of dlrun: the one that takes over ends the companion, and goes on on its own node" {
  train_alone
  grow
  dlrun_is_killed
  wait_for 60 "job $job trains with 1 learner" trains_with "$job" 1
  wait_for 40 "no companion is left" none_left "$job"
}

@test "kill -9 of dlrun and of its guard: the companion ends by itself" {
  train_alone
  grow
  dlrun_and_guard_are_killed
  wait_for 40 "no companion is left" none_left "$job"
}

@test "a job that is put back into the queue leaves no companion" {
  train_alone
  grow
  on_login scontrol requeue "$job"
  wait_for 40 "no companion is left" none_left "$job"
}

@test "slurmctld is away while a companion trains: nothing stops, and the companion goes with its job afterwards" {
  train_alone
  grow
  dl_sandbox daemon stop slurmctld
  saves_on
  dl_sandbox daemon start slurmctld
  wait_for 30 "slurmctld answers" on_login scontrol ping
  [ "$(learners_of "$job")" = 2 ]
  [ "$(dlctl status --json "$job" | jq '.[0].attempt')" = 2 ]
  on_login scancel "$job"
  wait_for 60 "no companion is left" none_left "$job"
}

@test "a companion whose time is over saves and goes, and the job goes on on its own node" {
  train_alone
  grow
  on_login scontrol update JobId="$companion" TimeLimit=1
  wait_for 120 "job $job trains with 1 learner" trains_with "$job" 1
  assert_contains "$(output)" 'n2 is left out; 1 learner on n1'
  [ "$(dlctl status --json "$job" | jq '.[0].restarts')" = 0 ]
  wait_for 40 "no companion is left" none_left "$job"
}

@test "a job that may not grow says why" {
  fixed=$(submit --dl-framework=generic --dl-learners=1 --dl-gpus=1 --dl-checkpoint=ck train.sh 100000 50)
  wait_step "$fixed" 1 30
  run dlctl grow "$fixed"
  assert_contains "$output" 'it has 1 learner, and may have no more; allowed: a job with --dl-learners=MIN:MAX'
  [ "$status" = 2 ]
}
