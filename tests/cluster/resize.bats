#!/usr/bin/env bats
# An elastic job that dlpolicyd resizes through the queue: it really starts again on as many nodes as were chosen, more of them and fewer.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

# Three nodes of one GPU; one is nlp's, two are vision's. A job may be resized 20 s after its start.
setup_file() { grow=queue elastic_up; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

# one_learner TENANT: a job that holds a GPU until it is cancelled.
one_learner() { learners=1 training --account="$1" deaf.sh; }
# runs_with JOB N: on so many nodes, with a learner on each.
runs_with() {
  in_state "$1" RUNNING && [ "$(job_field "$1" NumNodes)" = "$2" ] &&
    [ "$(dlctl status --json "$1" | jq '.[0].learners')" = "$2" ]
}

@test "an elastic job that began on one node goes on on two when these are free, and on one again when their owner claims" {
  own=$(one_learner nlp)
  wait_state "$own" RUNNING 20
  blocker=$(one_learner vision)
  wait_state "$blocker" RUNNING 20
  # Each learner takes three of a node's four CPUs: those of two do not fit on one node.
  elastic=$(learners=1:2 training --account=nlp --cpus-per-task=3 train.sh 100000 50)
  wait_for 30 "job $elastic runs with one learner" runs_with "$elastic" 1
  wait_charge "$elastic" borrowed 10
  in_training "$elastic"
  on_login scancel "$blocker"

  wait_file daemon.log "job $elastic: resize: starts again with 2 learners instead of 1" 90
  wait_for 60 "job $elastic runs with two learners" runs_with "$elastic" 2
  wait_file "slurm-$elastic.out" 'attempt 2 starts at train step [1-9]' 20
  [ "$(restarts_of "$elastic")" = 1 ]

  claim=$(learners=1 training --account=vision train.sh 100000 50)
  wait_file daemon.log "job $elastic: yield: yields 1 GPUs to job $claim" 20
  wait_state "$claim" RUNNING 40
  wait_for 40 "job $elastic runs with one learner" runs_with "$elastic" 1
  wait_file "slurm-$elastic.out" 'attempt 3 starts at train step [1-9]' 20
  [ "$(job_field "$elastic" NumCPUs)" = 3 ]
  [ "$(job_state "$claim")" = RUNNING ]
  [ "$(restarts_of "$own")" = 0 ]
}

@test "admission drop: a new elastic job without room is ended once, with a sentence, and a fixed one and one within its quota are not" {
  toml=$DL_SANDBOX_DIR/etc/dl.toml
  cp "$toml" toml.kept
  one_learner nlp >/dev/null
  for ((i = 0; i < 2; i++)); do busy=$(learners=1 training --account=nlp deaf.sh); done
  wait_state "$busy" RUNNING 30
  before=$(date +%s)
  sed -i 's/^interval = .*/&\nadmission = "drop"\ndrop_after = "8s"/' "$toml"
  kill -HUP "$(cat daemon.pid)"
  fixed=$(learners=1 training --account=nlp deaf.sh)
  dropped=$(learners=1:3 training --account=nlp deaf.sh)
  wait_state "$dropped" CANCELLED 30
  (($(date +%s) - before >= 8))
  assert_contains "$(cat daemon.log)" "job $dropped: drop: is dropped: it needs 1 GPU at its smallest size, and would have to borrow"
  [ "$(grep -c "job $dropped: drop:" daemon.log)" = 1 ]
  assert_contains "$(dlctl why "$dropped")" "^job $dropped does not wait: dlpolicyd dropped it at .*: it needs 1 GPU at its smallest size"
  [[ $(job_field "$dropped" AdminComment) == *" dropped=1:0@"* ]]
  wait_file metrics.prom '^dl_dropped_jobs_total 1$' 5
  [ "$(job_state "$fixed")" = PENDING ]
  # Within its quota: the borrower makes way.
  claim=$(learners=1:2 training --account=vision deaf.sh)
  wait_state "$claim" RUNNING 60
  [ "$(grep -c ': drop:' daemon.log)" = 1 ]
  cat toml.kept >"$toml"
}

votes_for() { [[ " $(job_field "$1" Comment) " == *" attempt=$2 "*" vote=$3 "* ]]; }

@test "a job whose learners vote for one learner gives the others back though nobody waits, and the vote outlives the restart" {
  # The learners of the first attempt vote; after it nobody does.
  cat >vote.sh <<END
#!/bin/bash
export PYTHONPATH=$stage/share/slurm-dl/python
dlrun -- bash -c '[ "\$DL_ATTEMPT" != 1 ] || /usr/bin/python3 -c "import dl, os; dl.vote(1 - int(os.environ[\"NUM_LEARNERS\"]), \"one is enough\")"
exec $learner "\$@"' vote "\$@"
END
  job=$(learners=1:2 training --account=vision --cpus-per-task=3 vote.sh 100000 50)
  wait_for 30 "job $job runs with two learners" runs_with "$job" 2
  in_training "$job"
  wait_for 60 "the comment of job $job has its vote" votes_for "$job" 1 1
  wait_file daemon.log "job $job: resize: starts again with 1 learner instead of 2: its learners vote for 1" 90
  wait_for 60 "job $job runs with one learner" runs_with "$job" 1
  wait_file "slurm-$job.out" 'attempt 2 starts at train step [1-9]' 20
  wait_for 20 "its vote still stands" votes_for "$job" 2 1
}
