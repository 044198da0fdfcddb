#!/usr/bin/env bats
# Data is fetched before a job has its nodes: by a CPU job in front of it, into the cache that all nodes share.
# shellcheck disable=SC2016  # the shells of jobs expand it
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 0 --grace 20
  [[ -z ${DL_NO_CLUSTER:-} ]] || return 0
  mkdir -p "$DL_SANDBOX_DIR/shared" && chmod 1777 "$DL_SANDBOX_DIR/shared"
  printf '[data]\ncache = "/dev/shm/dl-cache"\nshared = "%s/shared"\n' "$DL_SANDBOX_DIR" >>"$DL_SANDBOX_DIR/etc/dl.toml"
}
teardown_file() { cluster_down; }
teardown() { cluster_teardown; }
setup() {
  cluster_setup
  printf '#!/bin/bash\nexec dlrun -- sh -c "$@"\n' >shell.sh
  mkdir -p set
  echo one >set/a
}
dlctl() { on_login "$stage/bin/dlctl" "$@"; }
fetched_bytes() { jq .fetched "dl-$1"/data/fetch-n*.json; }

@test "dlctl data prefetch: a job fetches the data while another one waits for its node, which then fetches nothing" {
  blocker=$(submit -N2 --exclusive --wrap 'exec sleep 600')
  wait_state "$blocker" RUNNING 20
  job=$(submit -N1 --dl-learners=1 --dl-data="$PWD/set,cache=node" shell.sh 'cat $DATA_DIR/a; readlink -f $DATA_DIR/a')
  run dlctl data prefetch "$PWD/set,cache=node" --job "$job"
  [ "$status" = 0 ]
  fetcher=$(sed -nE "s/^job ([0-9]+) fetches the data; job $job waits for it$/\1/p" <<<"$output")
  [ -n "$fetcher" ]
  [[ $(job_field "$job" Dependency) == "afterany:$fetcher"* ]]
  on_login scancel "$blocker"
  wait_completed "$job" 60
  [ "$(job_state "$fetcher")" = COMPLETED ]
  assert_contains "$(cat "slurm-$job.out")" '^one$'
  assert_contains "$(cat "slurm-$job.out")" "^$DL_SANDBOX_DIR/shared/0/sets/[0-9a-f]+/tree/a$"
  [ "$(fetched_bytes "$job")" = 0 ]
}

@test "dlrun --submit has the data fetched first where the site has a shared cache and the job has to wait" {
  blocker=$(submit -N2 --exclusive --wrap 'exec sleep 600')
  wait_state "$blocker" RUNNING 20
  echo two >set/b
  run on_login dlrun --submit --learners 1 --data "$PWD/set,cache=node" -- sh -c 'cat $DATA_DIR/b'
  [ "$status" = 0 ]
  assert_contains "$output" '^dlrun: job [0-9]+ fetches the data; job [0-9]+ waits for it$'
  job=$(sed -nE 's/^Submitted batch job ([0-9]+)$/\1/p' <<<"$output")
  on_login scancel "$blocker"
  wait_completed "$job" 60
  assert_contains "$(cat "slurm-$job.out")" '^two$'
  [ "$(fetched_bytes "$job")" = 0 ]
}

@test "data prefetch refuses what it could not do right, and submits nothing then" {
  blocker=$(submit -N2 --exclusive --wrap 'exec sleep 600')
  wait_state "$blocker" RUNNING 20
  echo three >set/c
  other=$(submit -N1 --wrap true)
  job=$(submit -N1 --dl-learners=1 --dependency="afterok:$blocker?afterok:$other" --dl-data="$PWD/set,cache=node" shell.sh true)
  before=$(on_login squeue --noheader --name=dl-prefetch | wc -l)
  run dlctl data prefetch "$PWD/set,cache=node" --job "$job"
  [ "$status" -ne 0 ]
  assert_contains "$output" "job $job: it waits for any one of several jobs \(.*\?.*\), .*; allowed: conditions with commas"
  chmod 777 .
  # The name is chosen by its user, and scontrol quotes nothing.
  theirs=$(on_login setpriv --reuid=65533 --regid=65533 --clear-groups sbatch --parsable -N1 --job-name='x UserId=root(0)' --wrap true)
  run dlctl data prefetch "$PWD/set,cache=node" --job "$theirs"
  [ "$status" -ne 0 ]
  assert_contains "$output" "job $theirs is of .*; allowed: a job of your own"
  [ "$(on_login squeue --noheader --name=dl-prefetch | wc -l)" = "$before" ]
  # A folder that another user has put there first.
  mkdir -p "$PWD/elsewhere" && chown 65533 "$PWD/elsewhere"
  mv "$DL_SANDBOX_DIR/shared/0" "$DL_SANDBOX_DIR/shared/kept"
  ln -s "$PWD/elsewhere" "$DL_SANDBOX_DIR/shared/0"
  run dlctl data prefetch "$PWD/set,cache=node"
  rm "$DL_SANDBOX_DIR/shared/0"
  mv "$DL_SANDBOX_DIR/shared/kept" "$DL_SANDBOX_DIR/shared/0"
  [ "$status" -ne 0 ]
  assert_contains "$output" 'is not a folder of this user'
  [ -z "$(ls elsewhere)" ]
}

@test "the job that fetches has neither learners nor GPUs, wherever it is asked for" {
  echo four >set/d
  printf '#!/bin/bash\nenv | grep -cE "^(_?SLURM_SPANK_OPTION|SLURM_SPANK_)" >spank\n"%s/bin/dlctl" data prefetch "$PWD/set,cache=node" >asked\n' "$stage" >ask.sh
  job=$(SBATCH_GRES=gpu:1 submit -N1 --gres=none --dl-learners=2 --dl-restarts=3 ask.sh)
  wait_state "$job" COMPLETED,FAILED 60
  [ "$(cat spank)" -gt 0 ]
  fetcher=$(sed -nE 's/^Submitted batch job ([0-9]+)$/\1/p' asked)
  wait_completed "$fetcher" 60
  [[ $(job_field "$fetcher" Comment) != *dl:* ]]
  [[ $(job_field "$fetcher" TresPerNode) != *gpu* ]]
}
