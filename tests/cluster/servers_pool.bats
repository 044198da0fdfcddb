#!/usr/bin/env bats
# sbatch --dl-servers=MIN:MAX on a real Slurm of three nodes: servers of a pool on other nodes than the learners come, leave, and are lost with
# their node while the learners go on; and the job is paused and resumed. pool_count.cpp adds, and at last each key has to be right.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cli/servers_pool_lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/../cli/servers_pool_lib.bash"

setup_file() {
  build_pool_count
  cluster_up --nodes 3 --gpus-per-node 1
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  count=$BATS_FILE_TMPDIR/pool_count dlctl=$stage/bin/dlctl
}
teardown() {
  [[ -n $BATS_TEST_COMPLETED ]] || tail -n 60 slurm-*.out >&2
  dl_sandbox node heal n3
  cluster_teardown
  on_login scontrol reconfigure
  wait_nodes idle 60
}
output() { cat "slurm-$1.out" 2>/dev/null; }
has_servers() { on_login dlctl status "$1" --json 2>/dev/null | are_servers "$2"; }

# begun_more SERVER NUMBER: more than so many have begun at its place.
begun_more() { (($(output "$job" | grep -c "server $1 begins as process") > $2)); }

no_data_is_held() { ! own_pgrep -x dl-data >/dev/null; }

# count_job SERVERS ROUNDS: submits it for three nodes; two learners count so many rounds.
count_job() {
  printf '#!/bin/bash\ndlrun -- %s %s 20\n' "$count" "$2" >train.sh
  submit -N3 --exclusive --dl-framework=cpp --dl-learners=2 --dl-servers="$1" train.sh
}
# counted_right JOB: both learners have found each key right, in the job's first attempt.
counted_right() {
  [ "$(output "$1" | grep -c '0 keys are wrong$')" -eq 2 ]
  run ! grep -E 'restart|attempt 2' "slurm-$1.out"
}

# bats test_tags=versions
@test "a pool of servers on CPUs grows over the nodes and shrinks, and its job counts right" {
  job=$(count_job 1:4 600)
  wait_for 60 "one server" has_servers "$job" 1
  echo 4 >wanted
  wait_for 60 "four servers" has_servers "$job" 4
  [ "$(on_login dlctl status "$job" --json | jq -r '[.[0].ranks[] | select(.rank > 1 and .state == "PROCESSING") | .host] | unique | length')" -gt 1 ]
  echo 1 >wanted
  wait_for 60 "one server again" has_servers "$job" 1
  wait_state "$job" COMPLETED 90
  counted_right "$job"
  assert_contains "$(output "$job")" 'dlrun: 2 learners and 1 to 4 servers of cpp on 3 nodes'
  run ! grep 'srun: error' "slurm-$job.out" # of the agents that had nothing to do at the end
}

@test "a node that holds servers alone is lost: the copies take over, the learners go on, and the node leaves the job" {
  # The first node has both learners' tasks; n3 has servers.
  job=$(count_job 2:4 900)
  wait_for 60 "two servers" has_servers "$job" 2
  echo 4 >wanted
  wait_for 60 "four servers" has_servers "$job" 4
  [ "$(on_login dlctl status "$job" --json | jq -r '[.[0].ranks[] | select(.rank < 2 and .host == "n3")] | length')" -eq 0 ]
  dl_sandbox node cut n3
  wait_for 60 "n3 is told to be lost" grep -qE 'server [0-3] on n3 was lost: node n3 does not answer' "slurm-$job.out"
  wait_state "$job" COMPLETED 120
  counted_right "$job"
  [ "$(job_field "$job" NodeList)" = 'n[1-2]' ]
}

@test "a server that fails on a node whose data its agent holds begins anew there, and the data stays held" {
  mkdir set
  echo 7 >set/x
  printf '#!/bin/bash\ndlrun -- %s 1500 20\n' "$count" >train.sh
  # On a node without learners the agent of the first server holds the data, and MAX places are all that there are.
  job=$(submit -N3 --exclusive --dl-framework=cpp --dl-learners=2 --dl-servers=2:2 --dl-data=set,cache=node train.sh)
  wait_for 60 "two servers" has_servers "$job" 2
  held=$(own_pgrep -x dl-data | sort)
  [ "$(wc -l <<<"$held")" -eq 3 ]
  for server in 0 1 0; do
    begun=$(output "$job" | grep -c "server $server begins as process")
    kill -9 "$(cat server.$server)"
    wait_for 30 "server $server again" begun_more "$server" "$begun"
    wait_for 30 "two servers again" has_servers "$job" 2
  done
  [ "$(own_pgrep -x dl-data | sort)" = "$held" ]
  wait_state "$job" COMPLETED 120
  counted_right "$job"
  wait_for 30 "no dl-data runs" no_data_is_held
}

@test "learners of MPI meet in a world of their own on two nodes, while the servers of their pool come, are killed and leave" {
  command -v mpicxx >/dev/null || skip "mpicxx is not installed"
  [[ -x $stage/libexec/slurm-dl/dl-pmix ]] || skip "built without libpmix"
  mpicxx -std=c++17 -Wall -Wextra -Werror -O2 -DOVER_MPI -DOMPI_SKIP_MPICXX "$top_srcdir/tests/cli/pool_count.cpp" -I"$top_srcdir/launcher/pool/include" \
    -L"$top_builddir/launcher/pool/.libs" -ldlpool -Wl,-rpath,"$top_builddir/launcher/pool/.libs" -o mpi_count
  export TMPDIR=$DL_SANDBOX_DIR/pmix # dl-pmix has its files there
  mkdir -p "$TMPDIR"
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\ndlrun -- ./mpi_count 900 20\n' >train.sh
  job=$(submit -N3 --exclusive --dl-framework=mpi --dl-learners=3 --dl-servers=1:3 train.sh)
  wait_for 60 "one server" has_servers "$job" 1
  # A node that holds servers alone has no PMIx server.
  alone=$(on_login dlctl status "$job" --json | jq -r '[.[0].ranks[] | select(.rank < 3) | .host] | unique | length')
  [ "$alone" -eq 2 ]
  [ "$(own_pgrep -x dl-pmix | wc -l)" -eq 2 ]
  echo 3 >wanted
  wait_for 60 "three servers" has_servers "$job" 3
  kill -9 "$(cat server.1)"
  wait_for 30 "the kill was noticed" grep -q 'SIGKILL); the pool goes on' "slurm-$job.out"
  wait_for 60 "three servers again" has_servers "$job" 3
  echo 1 >wanted
  wait_for 60 "one server again" has_servers "$job" 1
  wait_state "$job" COMPLETED 120
  [ "$(output "$job" | grep -c '0 keys are wrong$')" -eq 3 ]
  run ! grep -E 'restart|attempt 2|do not meet' "slurm-$job.out"
  assert_contains "$(output "$job")" 'learners are served by dl-pmix'
  run ! own_pgrep -x dl-pmix
}

@test "a job with a pool is paused in mid-run and resumed with a new one" {
  [[ -x $top_builddir/tests/lib/toy_learner ]] || skip "built without HDF5"
  # shellcheck disable=SC2016  # the shell of each process expands this
  printf '#!/bin/bash\ndlrun -- sh -c '"'"'[ $DL_ROLE = learner ] && exec %s 400 30; exec %s'"'"'\n' "$top_builddir/tests/lib/toy_learner" "$count" >train.sh
  job=$(submit -N2 --exclusive --dl-framework=cpp --dl-learners=2 --dl-servers=1:2 --dl-checkpoint=ck,every=10steps train.sh)
  wait_file "slurm-$job.out" 'saved at train step 20' 60
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 40
  on_login dlctl resume "$job"
  wait_state "$job" COMPLETED 120
  assert_contains "$(output "$job")" 'done: 400 counted, none lost'
  [ "$(output "$job" | grep -c 'server 0 begins as process')" -ge 2 ]
}

@test "what sbatch says of --dl-servers" {
  run on_login sbatch --dl-framework=cpp --dl-learners=2 --dl-servers=3:1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl-servers.*'3:1' has a MIN above its MAX"
  run on_login sbatch --dl-framework=cpp --dl-servers=1:3 --wrap true
  assert_contains "$output" '--dl-servers=1:3 says nothing of the learners that use them'
}
