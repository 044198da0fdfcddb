#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a researcher meets in the first hundred hours, on a real Slurm: odd shells, odd moments, odd words.
# shellcheck disable=SC2016  # expanded by the shells of jobs
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# A test does something within KillWait, which must suffice on a machine that stands still now and then.
setup_file() { cluster_up --nodes 2 --gpus-per-node 2 --conf KillWait=60; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { cluster_teardown; }

# script NAME LINE...: a batch script.
script() { printf '%s\n' '#!/bin/bash' "${@:2}" >"$1"; }
# out JOB: what its script wrote.
out() { cat "slurm-$1.out"; }

@test "a job that cannot save is not paused unless that is meant: it would lose what it has done" {
  local ck why
  printf '#!/bin/bash\nexec dlrun -- sh -c "echo began; sleep 60"\n' >train.sh
  for ck in '' ck; do
    why='^dlctl pause: job [0-9]+ has no checkpoint directory \(--dl-checkpoint\), so a pause would throw away'
    [ -z "$ck" ] || why='^dlctl pause: the program of job [0-9]+ has not begun a train step with the checkpoint library yet, so a pause would throw away'
    job=$(submit --dl-learners=1 ${ck:+--dl-checkpoint=$ck} train.sh)
    wait_file "slurm-$job.out" '^began' 30
    run on_login dlctl pause "$job"
    [ "$status" -eq 2 ]
    assert_contains "$output" "$why"
    [ "$(job_state "$job")" = RUNNING ]
    run on_login dlctl pause --force "$job"
    [ "$status" -eq 0 ]
    wait_state "$job" PENDING 30
    assert_contains "$(on_login dlctl status "$job")" '^state +HALTED'
  done
}

# bats test_tags=versions
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
  assert_contains "$(cat said)" "job $job has no job directory .*; what its batch script writes is in $PWD/slurm-$job.out$"
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

# bats test_tags=versions
@test "learner 0 reads what dlrun is given, on whichever node" {
  script stdin.sh 'printf "one\ntwo\n" | dlrun -- sh -c '\''sed "s/^/$RANK:/"'\'
  job=$(submit --nodes=2 --dl-learners=2 stdin.sh)
  wait_state "$job" COMPLETED 30
  [ "$(out "$job" | grep -E '^\[')" = $'[0] 0:one\n[0] 0:two' ]
}

# bats test_tags=versions
@test "--signal without B: reaches a learner's own handler, once, as it would without dlrun" {
  script handles.sh 'dlrun -- bash -c '\''trap "echo got it; exit 0" USR1; echo ready; while :; do sleep 0.1; done'\'
  job=$(submit --nodes=2 --dl-learners=2 --signal=USR1@1 handles.sh)
  wait_for 40 "both learners of job $job are ready" ready_twice "$job"
  on_login scancel --signal=USR1 "$job"
  wait_state "$job" COMPLETED 40
  [ "$(out "$job" | grep -c 'got it')" = 2 ]
}
# bats test_tags=versions
@test "--signal without B: ends no learner that has no handler, and none that can still save" {
  local learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  script sleeps.sh 'dlrun -- sh -c "echo ready; sleep 4; echo slept"'
  script saves.sh "dlrun -- $learner 150 50"
  sleeps=$(submit --dl-learners=1 --signal=USR1@1 sleeps.sh)
  saves=$(submit --dl-learners=1 --dl-checkpoint=ck --signal=USR1@1 saves.sh)
  wait_file "slurm-$sleeps.out" ready 40
  wait_step "$saves" 1 40
  on_login scancel --signal=USR1 "$sleeps" "$saves"
  wait_state "$sleeps" COMPLETED 40
  assert_contains "$(out "$sleeps")" '^slept$'
  wait_state "$saves" COMPLETED 60
  assert_contains "$(out "$saves")" 'done: 150 counted, none lost'
  for job in "$sleeps" "$saves"; do run ! grep -E 'SIGUSR1|signal 10' "slurm-$job.out"; done
}
# bats test_tags=versions
@test "--signal=B: that the script hands on reaches a learner's own handler, which ends as it likes" {
  for signal in USR1 HUP; do
    script "hands-$signal.sh" "trap 'kill -$signal \$pid' $signal" "dlrun -- bash -c 'trap \"echo got it; exit 0\" $signal; echo ready; while :; do sleep 0.1; done' &" 'pid=$!' 'wait $pid; wait $pid'
    job=$(submit --nodes=2 --dl-learners=2 --signal=B:$signal@1 "hands-$signal.sh")
    wait_for 40 "both learners of job $job are ready" ready_twice "$job"
    on_login scancel --batch --signal=$signal "$job"
    wait_state "$job" COMPLETED 40
    [ "$(out "$job" | grep -c 'got it')" = 2 ]
  done
}
ready_twice() { [ "$(out "$1" | grep -c '\] ready$')" = 2 ]; }

@test "sbatch --chdir: the job directory and relative checkpoints are both there, and dlctl finds them" {
  mkdir -m 1777 there
  script train.sh 'exec dlrun -- sh -c "echo in=\$PWD ck=\$DL_CHECKPOINT_DIR"'
  job=$(submit --chdir="$PWD/there" --dl-learners=1 --dl-checkpoint=ck train.sh)
  wait_state "$job" COMPLETED 30
  assert_contains "$(cat "there/slurm-$job.out")" "^in=$PWD/there ck=$PWD/there/ck$"
  [ -s "there/dl-$job/events.jsonl" ]
  [ ! -e "dl-$job" ]
  assert_contains "$(on_login dlctl status "$job")" "^directory +$PWD/there/dl-$job$"
}

@test "scancel by its user: shown as CANCELLED, saved nothing and says only that" {
  local learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  script train.sh "exec dlrun -- $learner \"\$@\""
  job=$(submit --dl-learners=2 --dl-checkpoint=ck,every=10steps train.sh 1000 40)
  wait_file "slurm-$job.out" 'saved at train step 20' 40
  on_login scancel "$job"
  wait_state "$job" CANCELLED 40
  wait_file "dl-$job/events.jsonl" 'cancelled: not saved: the job was cancelled' 20
  run on_login dlctl status "$job"
  assert_contains "$output" '^state +CANCELLED'
  [[ $output != *FAILED\ since* ]]
  run ! grep -E 'a save takes|are left' "slurm-$job.out"
  job=$(submit --hold --dl-learners=1 --wrap true)
  on_login scancel "$job"
  assert_contains "$(on_login dlctl status "$job")" '^state +CANCELLED'
}

@test "scancel of a script that has more lines than dlrun, which Slurm kills with the shell: CANCELLED in dlctl status, --ended and clean" {
  for options in '' '--dl-checkpoint=ck-%j'; do
    # shellcheck disable=SC2086  # none or one
    job=$(submit --nodes=2 --dl-learners=2 $options --wrap 'dlrun -- sleep 100; true')
    wait_file "dl-$job/events.jsonl" '"attempt":1,"state":"PROCESSING"' 40
    on_login scancel "$job"
    wait_state "$job" CANCELLED 40
    # An agent records it, unless dlrun has recorded it just before it was killed. Slurm's word is the same.
    run grep -c '"reason":"cancelled:' "dl-$job/events.jsonl"
    [ "$output" -le 1 ] || { cat "dl-$job/events.jsonl"; return 1; }
    assert_contains "$(on_login dlctl status "$job")" '^state +CANCELLED'
    assert_contains "$(on_login dlctl status --ended "$PWD")" "^$job +CANCELLED .* cancelled[,:] "
    assert_contains "$(on_login dlctl clean "$PWD")" "^$job +CANCELLED"
  done
  # One that ended by itself, and left its dlrun behind, was not cancelled.
  job=$(submit --dl-learners=1 --wrap 'dlrun -- sleep 100 & until grep -qs "the learner runs" dl-$SLURM_JOB_ID/events.jsonl; do sleep 0.1; done')
  wait_state "$job" COMPLETED 60
  run ! grep cancelled "dl-$job/events.jsonl"
}

# shown_cancelled JOB WHY: in status, and in the history.
shown_cancelled() {
  assert_contains "$(on_login dlctl status "$1")" '^state +CANCELLED'
  assert_contains "$(on_login dlctl status --json "$1")" "\"reason\": ?\"cancelled, by its user or an operator; before: $2"
  assert_contains "$(on_login dlctl status --ended "$PWD")" "^$1 +CANCELLED"
  assert_contains "$(on_login dlctl clean "$PWD")" "^$1 +CANCELLED"
}

@test "scancel of a job that waits to go on: put back, paused, or put back after it had failed: CANCELLED in status and history" {
  local learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  script train.sh "exec dlrun -- $learner 40000 50"
  back=$(submit --dl-learners=1 --dl-checkpoint=ck-back,every=10steps train.sh)
  paused=$(submit --dl-learners=1 --dl-checkpoint=ck-paused,every=10steps train.sh)
  failed=$(submit --requeue --dl-learners=1 --wrap 'dlrun -- false')
  for job in "$back" "$paused"; do wait_file "dl-$job/logs/attempt-1/learner-0.log" '^saved at train step' 60; done
  wait_state "$failed" FAILED 60
  # Held, so that they wait until they are cancelled.
  on_login scontrol requeuehold "$back"
  on_login dlctl pause "$paused"
  on_login scontrol requeuehold "$failed"
  for job in "$back" "$paused" "$failed"; do wait_state "$job" PENDING 60; done
  # What Slurm does not know any more: the same records, under numbers that it never gave.
  cp -r "dl-$back" dl-999991
  cp -r "dl-$paused" dl-999992
  # It may be known on another cluster with the same home, or on one that nobody has recorded.
  cp -r "dl-$paused" dl-999993
  cp -r "dl-$paused" dl-999994
  jq '.cluster = "elsewhere"' "dl-$paused/plan.json" >dl-999993/plan.json
  jq 'del(.cluster)' "dl-$paused/plan.json" >dl-999994/plan.json
  # As long as they wait, they are not part of the history.
  run on_login dlctl status --ended "$PWD"
  for job in "$back" "$paused" "$failed"; do [[ $output != *$'\n'"$job "* ]]; done
  on_login scancel "$back" "$paused" "$failed"
  for job in "$back" "$paused" "$failed"; do wait_state "$job" CANCELLED 60; done
  shown_cancelled "$back" 'requeued by Slurm'
  shown_cancelled "$paused" 'paused: saved'
  shown_cancelled "$failed" 'learner 0.* exited with code 1'
  run on_login dlctl status --ended "$PWD"
  assert_contains "$output" '^999991 +CANCELLED .* no longer in Slurm: cancelled, or ended before dlrun ran again'
  assert_contains "$output" '^999992 +HALTED .* no longer in Slurm; before: paused'
  run on_login dlctl clean --older-than 0s --yes "$PWD"
  assert_contains "$output" '^999992 +HALTED .* removed$'
  [ ! -e dl-999992 ]
  assert_contains "$output" '^999993 +HALTED .* stays: it is paused$'
  assert_contains "$output" '^999994 +HALTED .* stays: its plan.json does not say of which cluster it is, and it may wait there$'
}

@test "a job whose directory has a name of its own, or is reached through a link, is known by its plan: while it waits, and cancelled" {
  local learner=$top_builddir/tests/lib/toy_learner link
  [[ -x $learner ]] || skip "built without HDF5"
  script train.sh "exec dlrun --job-dir runs/train-%j -- $learner 40000 50"
  job=$(submit --dl-learners=1 --dl-checkpoint=ck,every=10steps train.sh)
  wait_file "runs/train-$job/logs/attempt-1/learner-0.log" '^saved at train step' 60
  [ "$(jq -r .cluster "runs/train-$job/plan.json")" = "$(on_login scontrol show config | sed -n 's/^ClusterName *= *//p')" ]
  on_login scontrol requeuehold "$job"
  wait_state "$job" PENDING 60
  link=$BATS_TEST_TMPDIR/link
  ln -s "$PWD" "$link"
  for dir in "$PWD" "$link"; do
    run on_login dlctl status "$dir/runs/train-$job"
    assert_contains "$output" '^state +PENDING'
    assert_contains "$output" "^job +$job( |$)"
    [[ $output != *"no longer in Slurm"* ]]
  done
  on_login scancel "$job"
  wait_state "$job" CANCELLED 60
  for dir in "$PWD" "$link"; do
    assert_contains "$(on_login dlctl status "$dir/runs/train-$job")" '^state +CANCELLED'
  done
  assert_contains "$(on_login dlctl status --ended "$PWD/runs")" "^$job +CANCELLED"
  assert_contains "$(on_login dlctl clean "$PWD/runs")" "^$job +CANCELLED"
}

events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl" 2>/dev/null; }
has_event() { events "$1" | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "$1 has the event '$2'" has_event "$1" "$2"; }

@test "what Slurm kills before its save has ended has not failed: the job goes back and says what happened" {
  local learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  script train.sh "exec dlrun -- $learner 40000 50 stuck@0"
  job=$(submit --nodes=2 --dl-learners=2 --dl-checkpoint=ck train.sh)
  for rank in 0 1; do wait_file "dl-$job/logs/attempt-1/learner-$rank.log" '^attempt 1 starts at train step 0' 60; done
  local asked deadline
  asked=$(date +%s)
  on_login scontrol requeue "$job"
  wait_file "dl-$job/logs/attempt-1/learner-1.log" '^stuck in its save' 30
  # It knows until when it may save: slurm.conf has another KillWait than Slurm's default of 30 s.
  wait_file "dl-$job/events.jsonl" '"deadline_ms"' 20
  deadline=$(jq -s '[.[].memory.stop.deadline_ms // empty] | last / 1000 | floor' "dl-$job/events.jsonl")
  ((deadline - asked >= 50 && deadline - asked <= 70)) || { echo "asked at $asked, deadline $deadline" >&2; false; }
  # As the slurmd of its node does at the end of KillWait, if that is over there a moment before dlrun takes it to be.
  kill -9 "$(agent_of "$job" 1)"
  local words='not saved: killed [0-9]+ s after Slurm began to end the job, before its save had ended; save more often'
  wait_event "$job" "^1 PENDING requeued by Slurm: $words" 60
  run ! has_event "$job" FAILED
  # It starts again, and there its learners save.
  wait_file "dl-$job/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step 0' 180
  assert_contains "$(on_login dlctl status "$job")" "^.* 1 +PENDING .* requeued by Slurm: not saved: killed"
}

@test "a job that Slurm ends before its learners run has KillWait of slurm.conf, also where another dlrun takes the place of one that died" {
  # Its agents do not start: this srun waits until dlrun has gone.
  mkdir late
  script late/srun 'trap "" TERM' 'touch "asked-$SLURM_JOB_ID"' 'while [ -e "dl-$SLURM_JOB_ID/control.json" ]; do sleep 0.2; done'
  chmod 755 late/srun
  script train.sh "export PATH=$PWD/late:\$PATH" 'exec dlrun --preflight=off -- true'
  local of dlrun asked deadline
  for of in first other; do
    # With a restart, since another dlrun goes on with the job only then, or if the end of the job has reached it at once.
    job=$(submit --dl-learners=1 --dl-restarts=1 train.sh)
    wait_for 30 "dlrun of job $job has asked for its agents" test -e "asked-$job"
    dlrun=$(jq -r .pid "dl-$job/control.json")
    # So that it is another one that learns of the end.
    [ $of = first ] || kill_process "$dlrun"
    asked=$(date +%s)
    on_login scontrol requeue "$job"
    wait_file "dl-$job/events.jsonl" '"deadline_ms"' 30
    deadline=$(jq -s '[.[].memory.stop.deadline_ms // empty] | last / 1000 | floor' "dl-$job/events.jsonl")
    ((deadline - asked >= 50 && deadline - asked <= 75)) || { echo "asked at $asked, deadline $deadline" >&2; cat "slurm-$job.out" >&2; false; }
    wait_event "$job" 'requeued by Slurm' 60
    on_login scancel "$job"
  done
}

# bats test_tags=versions
@test "what is said at submission is no error, and tells of learners that nothing would start" {
  run on_login sbatch --dl-learners=2 --dl-gpus=1 --wrap 'python3 -c 0'
  [ "$status" -eq 0 ]
  assert_contains "$output" '^sbatch: dl: understood as generic, 2 learners x 1 GPU'
  assert_contains "$output" '^sbatch: dl: the script calls neither dlrun nor srun, so it runs once, on the first node, and what 2 learners were'
  # Also where Slurm's own options say how many there are.
  run on_login sbatch --ntasks=2 --dl-gpus=1 --wrap 'python3 -c 0'
  assert_contains "$output" 'dl: the script calls neither dlrun nor srun, .* what 2 learners were'
  run on_login sbatch --dl-learners=2 --dl-gpus=1 --wrap 'dlrun -- python3 -c 0'
  [[ $output != *neither* ]]
  # If Slurm refuses the job after that, its commands print all of it as errors: then it does not read as the reason.
  run on_login sbatch --dl-learners=2 --dl-gpus=1 --licenses=none:1 --wrap 'dlrun -- true'
  [ "$status" -ne 0 ]
  assert_contains "$output" '^sbatch: error: dl: understood as generic, 2 learners x 1 GPU'
  assert_contains "${lines[-1]}" '^sbatch: error: Batch job submission failed: Invalid license specification$'
  for client in salloc srun; do
    run on_login "$client" --ntasks=2 --dl-learners=2 --dl-gpus=1 true
    [ "$status" -eq 0 ]
    assert_contains "$output" "^$client: dl: understood as generic, 2 learners x 1 GPU"
    [[ $output != *error* ]]
  done
}

@test "--mem-per-gpu beside --dl-gpus is refused with what to do, wherever it is said" {
  script train.sh '#SBATCH --mem-per-gpu=64M' 'exec dlrun -- true'
  for said in '--mem-per-gpu=64M --wrap true' 'train.sh'; do
    # shellcheck disable=SC2086  # two words
    run on_login sbatch --dl-learners=2 --dl-gpus=1 $said
    [ "$status" -ne 0 ]
    assert_contains "$output" 'dl: --mem-per-gpu conflicts with --dl-gpus: .*; allowed: --mem-per-cpu or --mem'
  done
}

# bats test_tags=versions
@test "a request that is refused before it reaches Slurm is one line, without words on plugins" {
  for client in sbatch salloc srun; do
    script true.sh true
    run on_login "$client" --dl-framework=torch --dl-learners=1 "$PWD/true.sh"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    assert_contains "$output" "^$client: error: dl: --dl-framework: 'torch' is not a known framework; known: .*; did you mean 'pytorch'\?$"
  done
  run on_login env SLURM_EXIT_ERROR=77 srun --dl-framework=torch --dl-learners=1 true
  [ "$status" -eq 77 ]
}

@test "a version that the catalogue does not list is refused; a missing place for the job directory names the option" {
  run on_login sbatch --dl-framework=pytorch:9.9 --dl-learners=1 --wrap 'dlrun -- true'
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: --dl-framework: '9.9' is no version that can be chosen: the entry of pytorch lists none"
  script train.sh 'cd /proc; exec dlrun --job-dir /proc/nowhere -- true'
  job=$(submit --dl-learners=1 train.sh)
  wait_state "$job" FAILED 30
  assert_contains "$(out "$job")" '/proc/nowhere.*; (allowed|name a folder).*--job-dir'
}

# bats test_tags=versions
@test "more GPUs than the nodes of slurm.conf have are refused at submission; what Slurm's own options ask for is left to Slurm" {
  script true.sh true
  for client in sbatch salloc srun; do
    run on_login "$client" --ntasks=5 --dl-learners=5 --dl-gpus=1 "$PWD/true.sh"
    [ "$status" -ne 0 ]
    assert_contains "$output" 'dl: --dl-learners=5: all nodes together have GPUs for 4 learners with 1 GPU each \(NodeName in slurm.conf\), so the job would never start; allowed: at most 4'
  done
  run on_login sbatch --dl-learners=2:9 --dl-gpus=1 --hold --wrap true
  [ "$status" -eq 0 ]
  run on_login sbatch --gpus=5 --hold --wrap true
  [ "$status" -eq 0 ]
}
