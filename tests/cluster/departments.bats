#!/usr/bin/env bats
# A tree of tenants on a real Slurm: GPUs that a department owns itself, and what is idle goes first to its own.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

# Two nodes of two GPUs: the department physics owns one itself, its group solid one, and its group astro none; vision, which is
# not of it, has two, and nlp none.
setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<'END'
[nodes]
gpus_per_node = 2
[tiers.guaranteed]
partition = "batch"
[tiers.borrow]
partition = "batch"
[quota]
min_run = "1s"
grace = "15s"
[tenant_groups.physics]
quota = 1
[tenants.astro]
quota = 0
group = "physics"
[tenants.solid]
quota = 1
group = "physics"
[tenants.vision]
quota = 2
[tenants.nlp]
quota = 0
END
  cluster_up --nodes 2 --gpus-per-node 2 --dl-toml "$toml" --conf Licenses=dl_/physics:1,dl_solid:1,dl_vision:2
}
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

@test "a group of a department takes back what the department owns, and slurmctld counts that by a licence of the department's" {
  for i in 0 1; do
    lent[i]=$(training --account=nlp train.sh 4000 50)
    wait_state "${lent[i]}" RUNNING 20
    in_training "${lent[i]}"
  done
  claim=$(learners=1 training --account=astro train.sh 400 50)
  wait_state "$claim" RUNNING 20
  charge_is "$claim" own
  [ "$(job_field "$claim" Licenses)" = dl_/physics:1 ]
  assert_contains "$(dlctl quota)" 'group physics: 1 GPU of its own, 1 in use by its tenants'
  [ "$(dlctl quota --json | jq -c .groups)" = '[{"group":"physics","parent":"","quota":1,"used":1}]' ]
}

@test "what a group of the department leaves idle is lent to another one of its groups first, before an older job from elsewhere" {
  learners=1
  department=$(training --account=astro deaf.sh)
  vision=$(learners=2 training --account=vision deaf.sh)
  solid=$(training --account=solid deaf.sh) # no GPU is free: both wait, and the daemon has put them in order when one becomes free
  for job in "$department" "$vision" "$solid"; do wait_state "$job" RUNNING 20; done
  elsewhere=$(training --account=nlp deaf.sh)
  sleep 1 # Slurm keeps times of submission in whole seconds, and this job is to be the older one
  within=$(training --account=astro deaf.sh)
  for job in "$elsewhere" "$within"; do wait_file daemon.log "job $job: order: " 20; done
  on_login scancel "$solid"
  wait_state "$within" RUNNING 20
  charge_is "$within" borrowed
  [ "$(job_state "$elsewhere")" = PENDING ]
}
