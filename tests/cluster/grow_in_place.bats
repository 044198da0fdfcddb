#!/usr/bin/env bats
# dlpolicyd offers free nodes to an elastic job, which grows onto them where it is, and gives them back when their owner claims them.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

# Three nodes of one GPU; one is nlp's, two are vision's. A job's size may change 10 s after its start.
setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<'END'
[nodes]
gpus_per_node = 1
[tiers.guaranteed]
partition = "batch"
[tiers.borrow]
partition = "batch"
[elastic]
sizes = "optimiser"
interval = "10s"
grow = "in-place"
[quota]
min_run = "1s"
grace = "30s"
most_restart = "1s"
[tenants.vision]
quota = 2
[tenants.nlp]
quota = 1
END
  cluster_up --nodes 3 --gpus-per-node 1 --dl-toml "$toml" --conf Licenses=dl_vision:2,dl_nlp:1
}
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

one_learner() { learners=1 training --account="$1" "${@:2}"; }
trains_with() {
  dlctl status --json "$1" | jq -e --argjson n "$2" '.[0].ranks | length == $n and ([.[].step >= 1] | all)' >/dev/null
}
companions_of() { on_login squeue -h --name="dl-companion-$1" -o "%i"; }
queue_is_empty() { [ -z "$(on_login squeue -h -o %i)" ]; }
none_left() { [ -z "$(companions_of "$1")" ]; }

@test "an elastic job grows by itself onto a node that comes free, and gives that back to its owner while it trains on" {
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
