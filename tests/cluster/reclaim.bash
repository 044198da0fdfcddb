# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119,SC2120,SC2154,SC2034  # lib.bash has $stage; tests use what is set here
# Helpers of the tests of dlpolicyd: reclaim_up makes two nodes of two GPUs, of which vision and nlp have two each. Learners are tests/lib/toy_learner.c,
# which counts its train steps and says whether one was lost. Slurm preempts nobody here: both tiers are the same to it.

# same_tiers [options of dl-sandbox up]: both tiers of dl.toml, as the same partition, or the same QOS where there is a slurmdbd.
same_tiers() {
  local target='partition = "batch"'
  [[ " $* " != *' --slurmdbd '* ]] || target='qos = "normal"'
  printf '[tiers.%s]\n%s\n' guaranteed "$target" borrow "$target"
}
# reclaim_up [options of dl-sandbox up]
reclaim_up() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<END
[nodes]
gpus_per_node = 2
$(same_tiers "$@")
[quota]
min_run = "1s"
grace = "15s"
[idle]
after = "3s"
lend = true
[metrics]
max_jobs = 100
[tenants.vision]
quota = 2
[tenants.nlp]
quota = 2
END
  cluster_up --nodes 2 --gpus-per-node 2 --dl-toml "$toml" --conf Licenses=dl_vision:2,dl_nlp:2 "$@"
}
# elastic_up [options of dl-sandbox up]: three nodes (or $nodes) of one GPU; one is nlp's, the others are vision's. A job's size may change 10 s
# after its start, in place (or as $grow says) or through the queue; it has 30 s (or $grace) to save.
elastic_up() {
  local toml=$BATS_FILE_TMPDIR/dl.toml nodes=${nodes:-3}
  cat >"$toml" <<END
[nodes]
gpus_per_node = 1
$(same_tiers "$@")
[elastic]
sizes = "optimiser"
interval = "10s"
grow = "${grow:-in-place}"
[quota]
min_run = "1s"
grace = "${grace:-30s}"
most_restart = "1s"
[tenants.vision]
quota = $((nodes - 1))
[tenants.nlp]
quota = 1
END
  cluster_up --nodes "$nodes" --gpus-per-node 1 --dl-toml "$toml" --conf Licenses="dl_vision:$((nodes - 1)),dl_nlp:1" "$@"
}
reclaim_setup() {
  cluster_setup
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  printf '#!/bin/bash\nexec sleep 600\n' >deaf.sh
  start_daemon
}
reclaim_teardown() {
  stop_daemon
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || cat daemon.log >&2
  cluster_teardown
  wait_nodes idle 30
}

# The daemon runs on the login host; its id is that of the process, for kill. start_daemon [more options of dlpolicyd]
start_daemon() {
  local before
  before=$(starts_of_daemon)
  dl_sandbox exec -- bash -c 'echo $$ >'"$PWD"'/daemon.pid; exec "$@"' -- "$stage/sbin/dlpolicyd" --pidfile "$PWD/lock" \
    --state-file "$PWD/use.json" --metrics-file "$PWD/metrics.prom" --verbose "$@" >>daemon.log 2>&1 3>&- &
  wait_started "$before"
}
stop_daemon() { [[ ! -e daemon.pid ]] || { kill_process "$(cat daemon.pid)" 2>/dev/null; rm -f daemon.pid; } || true; }
output() { cat "slurm-$1.out" 2>/dev/null; }
# training OPTIONS SCRIPT ARGUMENTS: a pausable job of $learners learners (2) with one GPU each.
training() { submit --dl-framework=generic --dl-learners="${learners:-2}" --dl-gpus=1 --dl-checkpoint="$(mktemp -d ck.XXXXXX)" "$@"; }
why_says() { dlctl why "$1" | grep -qE "$2"; }
dlctl() { on_login "$stage/bin/dlctl" "$@"; }
charge_is() { [[ $(job_field "$1" AdminComment) == *" charge=$2"* ]]; }
wait_charge() { wait_for "$3" "job $1 is charged as $2" charge_is "$1" "$2"; }
# in_training JOB: it has something to go on from.
in_training() { wait_step "$1" 1 20; }

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

# The first thing that must work, with slurmdbd and without.
lend_and_take_back() {
  own=$(training --account=nlp train.sh 400 50)
  lent=$(training --account=nlp train.sh 150 50)
  wait_state "$own" RUNNING 20
  wait_state "$lent" RUNNING 20
  wait_charge "$lent" borrowed 5
  in_training "$lent"
  sleep 1 # min_run has passed: from here on the seconds are counted
  before=$(date +%s)
  claim=$(training --account=vision train.sh 100 50)
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

# What is borrowed moves into its tenant's quota as that becomes free.
become_own() {
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
