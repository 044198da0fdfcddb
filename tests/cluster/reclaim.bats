#!/usr/bin/env bats
# dlpolicyd end to end: idle GPUs are lent, and taken back for a claim without losing work. Two nodes of two GPUs; vision
# and nlp have two each. Learners are tests/lib/toy_learner.c, which counts its train steps and says whether one was lost.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<END
[nodes]
gpus_per_node = 2
[tiers.guaranteed]
partition = "batch"
[tiers.borrow]
partition = "borrow"
[quota]
min_run = "1s"
grace = "15s"
[tenants.vision]
quota = 2
[tenants.nlp]
quota = 2
END
  cluster_up --nodes 2 --gpus-per-node 2 --dl-toml "$toml" --conf Licenses=dl_vision:2,dl_nlp:2
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  printf '#!/bin/bash\nexec sleep 600\n' >deaf.sh
  start_daemon
}
teardown() {
  stop_daemon
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || cat daemon.log >&2
  cluster_teardown
  wait_nodes idle 30
}

# The daemon runs on the login host; its id is that of the process, for kill.
start_daemon() {
  dl_sandbox exec -- bash -c 'echo $$ >'"$PWD"'/daemon.pid; exec "$@"' -- "$stage/sbin/dlpolicyd" --pidfile "$PWD/lock" \
    --state-file "$PWD/use.json" --metrics-file "$PWD/metrics.prom" --verbose >>daemon.log 2>&1 3>&- &
  wait_file daemon.log 'started: 2 tenants' 10
}
stop_daemon() { [[ ! -e daemon.pid ]] || { kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -f daemon.pid; } || true; }
output() { cat "slurm-$1.out" 2>/dev/null; }
# training JOB-OPTIONS -- LEARNER-ARGUMENTS
training() { submit --dl-framework=generic --dl-learners=2 --dl-gpus=1 --dl-checkpoint="$(mktemp -d ck.XXXXXX)" "$@"; }
dlctl() { on_login "$stage/bin/dlctl" "$@"; }
charge_is() { [[ $(job_field "$1" AdminComment) == *" charge=$2"* ]]; }
wait_charge() { wait_for "$3" "job $1 is charged as $2" charge_is "$1" "$2"; }
in_training() { wait_file "slurm-$1.out" 'attempt [0-9]+ starts at train step' 20; }

@test "idle GPUs are lent, taken back for a claim within seconds, and the victim goes on where it was" {
  own=$(training --account=nlp train.sh 400 50)
  lent=$(training --account=nlp train.sh 150 50)
  wait_state "$own" RUNNING 20
  wait_state "$lent" RUNNING 20
  wait_charge "$lent" borrowed 5
  in_training "$lent"
  sleep 2
  before=$(date +%s)
  claim=$(training --account=vision train.sh 20 50)
  wait_file daemon.log "job $lent: yield" 5
  (($(date +%s) - before <= 3))
  wait_state "$claim" RUNNING 15
  wait_for 5 "the victim is in the queue" in_state "$lent" PENDING
  wait_state "$claim" COMPLETED 20
  wait_state "$lent" COMPLETED 40
  assert_contains "$(output "$lent")" 'lent GPUs are taken back: saved at train step'
  assert_contains "$(output "$lent")" 'attempt 2 starts at train step [1-9]'
  assert_contains "$(output "$lent")" 'done: 150 counted, none lost'
  on_login scancel "$own"
}

# Two jobs of nlp on all four GPUs, the second one on borrowed ones; sets own and lent. The second is a plain program,
# which does not hear what it is asked; or what is given.
lend_to() {
  own=$(training --account=nlp train.sh 4000 50)
  wait_state "$own" RUNNING 20
  lent=$("$@")
  wait_state "$lent" RUNNING 20
  wait_charge "$lent" borrowed 5
}
deaf() { training --account=nlp deaf.sh; }
asked() { [[ $(job_field "$1" AdminComment) == *" yields=$2@"* ]]; }
not_asked() { [[ $(job_field "$1" AdminComment) != *" yields="* ]]; }
restarts_of() { job_field "$1" Restarts; }
requeued() { (($(restarts_of "$1") >= 1)); }

@test "who ignores the request is requeued at the deadline; a daemon that was killed in the midst of it, and a slurmctld, go on" {
  lend_to deaf
  sleep 1
  claim=$(training --account=vision train.sh 20 50)
  wait_for 5 "job $lent is asked to yield" asked "$lent" "$claim"
  asked_at=$(date +%s)
  stop_daemon
  dl_sandbox daemon stop slurmctld 3>&-
  dl_sandbox daemon start slurmctld 3>&-
  start_daemon
  sleep 5
  asked "$lent" "$claim" # the same request still
  [ "$(restarts_of "$lent")" = 0 ]
  wait_for 25 "Slurm requeues job $lent" requeued "$lent"
  (($(date +%s) - asked_at >= 14))
  wait_state "$claim" RUNNING,COMPLETED 20
  wait_for 10 "the request is done with" not_asked "$lent"
  wait_state "$claim" COMPLETED 20
  wait_state "$lent" RUNNING 20
  [ "$(grep -c "job $lent: requeue" daemon.log)" = 1 ]
}

@test "a claim that goes away leaves alone who has not gone yet" {
  lend_to deaf
  sleep 1
  claim=$(training --account=vision train.sh 20 50)
  wait_for 5 "job $lent is asked to yield" asked "$lent" "$claim"
  on_login scancel "$claim"
  wait_for 5 "the request is taken back" not_asked "$lent"
  sleep 17 # the deadline passes
  [ "$(job_state "$lent")" = RUNNING ]
  [ "$(restarts_of "$lent")" = 0 ]
}

@test "a borrowed job becomes its tenant's own when quota is free, without a restart, and is no victim any more" {
  lend_to deaf
  on_login scancel "$own"
  wait_charge "$lent" own 10
  assert_contains "$(job_field "$lent" Licenses)" 'dl_nlp:2'
  claim=$(training --account=vision train.sh 20 50)
  wait_state "$claim" RUNNING,COMPLETED 15
  not_asked "$lent"
  [ "$(restarts_of "$lent")" = 0 ]
  [ "$(job_state "$lent")" = RUNNING ]
}

@test "dlctl tells who holds what, why a job waits, and what would be taken back" {
  lend_to deaf
  stop_daemon
  claim=$(training --account=vision train.sh 20 50)
  run dlctl quota
  assert_contains "$output" '^TENANT +QUOTA +OWN +LENT +BORROWED +PENDING'
  assert_contains "$output" '^vision +2 +0 +2 +0 +2 in 1'
  assert_contains "$output" '^nlp +2 +2 +0 +2 +0 '
  [ "$(dlctl quota --json | jq -r '.[] | select(.tenant == "nlp") | .borrowed')" = 2 ]
  run dlctl why "$claim"
  assert_contains "$output" "^job $claim waits: its 2 GPUs are tenant 'vision''s own and are being taken back"
  run dlctl quota reclaim --dry-run "$claim"
  assert_contains "$output" "job $lent of 'nlp' stops and gives 2 GPUs"
  not_asked "$lent"
  run on_login "$stage/sbin/dlpolicyd" --once --dry-run --json
  [ "$(jq -r '.[] | select(.action == "yield") | .job' <<<"$output")" = "$lent" ]
  not_asked "$lent"
  run dlctl why 99999
  [ "$status" -eq 3 ]
}
