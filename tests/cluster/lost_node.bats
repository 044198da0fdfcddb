#!/usr/bin/env bats
# A node that is lost in mid-job, on a real Slurm of three nodes: the job goes on in its allocation on a spare node or with fewer
# learners, and gives the lost node back. And an agent that stands still on a living node. The fault matrix (tests/faults) does the same in each phase of a job, bit for bit.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
}
teardown() {
  dl_sandbox node heal n2
  cluster_teardown
  on_login scontrol reconfigure # all nodes register at once
  wait_nodes idle 60
}

output() { cat "slurm-$1.out" 2>/dev/null; }
# lose_n2 JOB: when its learners have trained past their first checkpoint.
lose_n2() {
  wait_file "slurm-$1.out" '^\[0\] saved at train step 20' 30
  dl_sandbox node cut n2
}
# Of this build tree alone: hosts of the sandbox see all processes of the machine.
no_learner() { ! own_pgrep -f "$top_builddir/tests/lib/.*toy_learner 120 60" >/dev/null; }
# went_on JOB NODES: it has completed there, in its first allocation, without having lost or repeated a train step.
went_on() {
  wait_state "$1" COMPLETED 40
  assert_contains "$(output "$1")" 'dlrun: learner 1 on n2 was lost: node n2 does not answer \(connection timed out\); n2 is left out; '
  assert_contains "$(output "$1")" '^(\[0\] )?attempt 2 starts at train step ([2-9]|1[0-2])0 with ([2-9]|1[0-2])0 counted'
  assert_contains "$(output "$1")" '^(\[0\] )?done: 120 counted, none lost'
  assert_contains "$(output "$1")" 'dlrun ended with 0'
  [ "$(job_field "$1" Restarts)" = 0 ]
  [ "$(job_field "$1" NodeList)" = "$2" ]
  [ -z "$(find . -name '*resize*')" ]
  dl_sandbox node heal n2
  wait_for 10 "no learner is left on any node" no_learner
  wait_for 10 "no progress page is left on n2" no_page_on_n2
}
has_ended() { [[ $(job_state "$1") =~ ^(FAILED|NODE_FAIL|COMPLETING)$ ]]; }
no_page_on_n2() {
  local pages
  pages=$(on_node n2 find /dev/shm -name 'dl-progress-*') && [ -z "$pages" ]
}

# bats test_tags=versions
@test "a lost node: a spare one of the allocation takes its place, and the lost one leaves the job" {
  printf '#!/bin/bash\ndlrun --learners 2 -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  job=$(submit -N3 --gpus-per-node=2 --dl-framework=generic --dl-checkpoint=ck,every=10steps train.sh 120 60)
  lose_n2 "$job"
  went_on "$job" 'n[1,3]'
  assert_contains "$(output "$job")" 'n2 is left out; 2 learners on n\[1,3\]'
  assert_contains "$(output "$job")" '^\[1\] done: 120 counted, none lost'
}

@test "a lost node: an elastic job goes on with fewer learners" {
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  job=$(submit -x n3 --dl-framework=generic --dl-learners=1:2 --dl-gpus=2 --dl-checkpoint=ck,every=10steps train.sh 120 60)
  lose_n2 "$job"
  went_on "$job" n1
  assert_contains "$(output "$job")" 'n2 is left out; 1 learner on n1'
}

@test "a lost node: a job that cannot go on fails with few words of srun's, which waits for the node" {
  printf '#!/bin/bash\ndlrun -- sleep 600\n' >train.sh
  job=$(submit -N2 --ntasks-per-node=1 --dl-framework=generic train.sh)
  wait_file "dl-$job/events.jsonl" 'all learners run' 30
  node=$(job_field "$job" NodeList)
  [[ $node == *2* ]] || skip "the job has other nodes"
  dl_sandbox node cut n2
  wait_file "slurm-$job.out" 'learner 1 on n2 was lost: node n2 does not answer' 60
  wait_for 60 "the job has ended" has_ended "$job"
  [ "$(output "$job" | grep -c 'forcing job termination')" -le 2 ]
}

@test "an agent that stands still on a living node: it is named, its learner ended, and the job starts again" {
  cp "$DL_SANDBOX_DIR/etc/dl.toml" soon.toml && printf '[launcher]\nagent_timeout = "8s"\n' >>soon.toml
  printf '#!/bin/bash\nDL_CONFIG=%s dlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$PWD/soon.toml" "$learner" >train.sh
  job=$(submit -N2 --dl-framework=generic --dl-learners=2 --dl-restarts=1 --dl-checkpoint=ck,every=10steps train.sh 200 60)
  wait_file "slurm-$job.out" '^\[0\] saved at train step 20' 30
  agent=$(agent_of "$job" 1)
  its_learner=$(pgrep -P "$agent")
  kill -STOP "$agent"
  wait_state "$job" COMPLETED 60
  assert_contains "$(output "$job")" 'learner 1 on n2 was lost: its agent \(dl-agent\) on n2 has said nothing for 8s, though its node answers; restart 1 of 1'
  assert_contains "$(output "$job")" '^\[1\] done: 200 counted, none lost'
  run kill -0 "$its_learner"
  [ "$status" -eq 1 ]
  wait_for 10 "the stopped agent is gone" eval '! kill -0 '"$agent"' 2>/dev/null'
}
