#!/usr/bin/env bats
# dlrun that is killed, on a real Slurm of three nodes: another takes its place in the allocation. The fault matrix (tests/faults) does the
# same in each phase of a job, bit for bit.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 0 --grace 15 --conf SlurmdTimeout=20 --conf KillWait=30; }
teardown_file() { cluster_down; }
teardown() { cluster_teardown; }
setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  printf '#!/bin/bash\nexec dlrun -- %s "$@"\n' "$learner" >exec.sh
}

output() { cat "slurm-$1.out" 2>/dev/null; }
events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl"; }
trained() { wait_file "slurm-$1.out" '^(\[0\] )?saved at train step 20' 40; }
dlrun_of() { jq -r .pid "dl-$1/control.json"; }
guard_of() { ps -o ppid= -p "$(dlrun_of "$1")" | tr -d ' '; }

@test "dlrun killed in mid-training: another goes on in the allocation from the newest checkpoint, nothing lost" {
  for script in train.sh exec.sh; do
    job=$(submit -N2 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck,every=10steps "$script" 240 40)
    trained "$job"
    [ "$(cat "/proc/$(guard_of "$job")/comm")" = dl-guard ]
    kill_process "$(dlrun_of "$job")"
    wait_state "$job" COMPLETED 40
    assert_contains "$(output "$job")" '^dlrun: dlrun was killed by signal 9 \(SIGKILL\); another has taken its place'
    assert_contains "$(output "$job")" '^\[1\] attempt 2 starts at train step [1-9][0-9]*0 with [1-9][0-9]*0 counted'
    for r in 0 1; do assert_contains "$(output "$job")" "^\[$r\] done: 240 counted, none lost"; done
    [ "$(job_field "$job" Restarts)" = 0 ]
    assert_contains "$(events "$job")" '^2 DEPLOY restart of dlrun: dlrun was killed by signal 9 \(SIGKILL\)'
    [ ! -e "dl-$job/control.json" ]
    rm -r ck
  done
}

@test "an agent that stands still beside a killed dlrun: its learner is ended before another trains" {
  job=$(submit -N2 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck,every=10steps train.sh 120 40)
  trained "$job"
  agent=$(agent_of "$job" 1)
  its_learner=$(pgrep -P "$agent")
  kill -STOP "$agent"
  kill_process "$(dlrun_of "$job")"
  wait_file "slurm-$job.out" '^\[1\] attempt 2 starts' 40
  run grep -E '^State:[[:space:]]+[^ZX]' "/proc/$its_learner/status" # at most not reaped yet
  [ "$status" -ne 0 ]
  wait_state "$job" COMPLETED 40
  assert_contains "$(output "$job")" '^\[1\] done: 120 counted, none lost'
}

@test "dlrun killed when somebody has been told that the job will be paused: it is held, and does not train on" {
  # shellcheck disable=SC2016  # the learner's shell expands it
  printf '#!/bin/bash\nexec dlrun -- sh -c '\''trap "" TERM; echo "attempt $DL_ATTEMPT began"; sleep 60'\''\n' >deaf.sh
  job=$(submit --dl-framework=generic --dl-learners=1 --dl-restarts=1 deaf.sh)
  wait_file "slurm-$job.out" 'attempt 1 began' 30
  on_login dlctl pause --force --no-wait --reason 'a demo' "$job"
  wait_file "slurm-$job.out" 'asking the learners to end' 10
  kill_process "$(dlrun_of "$job")"
  is_held() { [[ $(job_state "$job") == PENDING && $(job_field "$job" Reason) == *[Hh]eld* ]]; }
  wait_for 60 "job $job is held" is_held
  assert_contains "$(events "$job")" '^1 PROCESSING to be paused: a demo'
  assert_contains "$(events "$job")" '^1 HALTED paused: dlrun died before the learners had saved'
  [ "$(grep -c 'attempt 2 began' "slurm-$job.out")" = 0 ]
}

# No save of the first attempt before a stop ever ends, so dlrun can be killed within it.
@test "a request to give GPUs back, accepted or not read yet when dlrun was killed: the job goes back and does not train on" {
  for when in accepted unread; do
    job=$(submit --open-mode=append -N2 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck,every=10steps train.sh 120 40 stuck@5)
    trained "$job"
    on_login scontrol update "JobId=$job" "AdminComment=dl:1 yields=999@$(($(date +%s) + 90)):0"
    [ $when = accepted ] || kill -STOP "$(dlrun_of "$job")"
    on_login scancel --signal=USR2 "$job"
    if [ $when = accepted ]; then
      wait_file "dl-$job/events.jsonl" 'to be stopped: lent GPUs are taken back' 20
    fi
    kill_process "$(dlrun_of "$job")"
    wait_for 40 "job $job is put back" has_restarts "$job" 1
    assert_contains "$(events "$job")" '^1 PENDING lent GPUs are taken back: dlrun died before the learners had saved'
    goes_on_after_requeue "$job"
    [ "$(events "$job" | grep -c '^2 DEPLOY restart of dlrun')" = 0 ]
    rm -r ck
  done
}

restarts_of() { job_field "$1" Restarts; }
has_restarts() { [[ $(restarts_of "$1") == "$2" ]]; }
kill_both() {
  local child guard
  child=$(dlrun_of "$1")
  guard=$(guard_of "$1")
  kill_process "$guard" "$child"
}
# power_off NODE: its cable is dead, and everything on it ends at once. One find for all processes: on a busy machine dlrun would train on
# for half a minute while a shell looks at them one by one, and as long as it lives no agent has the job put back.
power_off() {
  local holder net pids
  read -r holder _ <"$DL_SANDBOX_DIR/run/$1.pid"
  net=$(readlink "/proc/$holder/ns/net")
  dl_sandbox node cut "$1"
  while true; do
    # Zombies have no namespace.
    mapfile -t pids < <(find /proc/[0-9]*/ns/net -maxdepth 0 -lname "net:\\[${net//[^0-9]/}\\]" 2>/dev/null |
      cut -d/ -f3 | grep -vx "$holder")
    ((${#pids[@]} > 0)) || break
    kill -9 "${pids[@]}" 2>/dev/null || true
  done
}
# goes_on_after_requeue JOB: it was put back once, by one agent, and lost nothing.
goes_on_after_requeue() {
  # Slurm waits two minutes with a job whose start time has passed before it is done completing: seen on a busy machine.
  wait_state "$1" COMPLETED 200
  has_restarts "$1" 1
  assert_contains "$(output "$1")" '^\[1\] attempt 2 starts at train step [1-9][0-9]*0 with [1-9][0-9]*0 counted'
  for r in 0 1; do assert_contains "$(output "$1")" "^\[$r\] done: 120 counted, none lost"; done
}

# By that on n1, or two seconds later by that on n2, if the first one has not come so far.
put_back() { events "$1" | grep -qE '^1 PENDING dlrun and its guard were killed; put back by the agent on n[12]'; }

@test "dlrun and its guard killed: an agent has the job put back, whether the script goes on or dlrun was in its place" {
  # shellcheck disable=SC2016  # for the job
  printf '#!/bin/bash\ndlrun -- %s "$@"\n[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || sleep 300\n' "$learner" >longer.sh
  for script in longer.sh exec.sh train.sh; do
    job=$(submit --open-mode=append -N2 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck,every=10steps "$script" 120 40)
    trained "$job"
    kill_both "$job"
    if [ "$script" = train.sh ]; then # which tells Slurm that all is well
      wait_state "$job" COMPLETED 20
      sleep 4 # no agent puts it back
      has_restarts "$job" 0
    else
      wait_for 40 "the agent has said that it put job $job back" put_back "$job"
      wait_for 20 "job $job is put back" has_restarts "$job" 1
      goes_on_after_requeue "$job"
    fi
    rm -rf ck
  done
}

comment_says() { job_field "$1" Comment | grep -qE "$2"; }

@test "the batch host is off: an agent has the job put back within seconds; it goes on when Slurm gives the node up" {
  wait_nodes idle 60
  job=$(submit --open-mode=append -N2 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck,every=10steps train.sh 120 40)
  trained "$job"
  [ "$(job_field "$job" BatchHost)" = n1 ]
  begin=$SECONDS
  power_off n1
  wait_for 15 "job $job is put back" has_restarts "$job" 1
  wait_for 10 "the agent has said so" comment_says "$job" 'dl:PENDING attempt=1 .*reason=dlrun or its node n1 was lost; put back by the agent on n2'
  goes_on_after_requeue "$job"
  # Slurm alone: SlurmdTimeout (20 s), and two minutes from then on. Slurm 24.11 waits these two minutes for a job that was put back before, too.
  ! slurm_at_least 23.02 || most=200
  ((SECONDS - begin < ${most:-130}))
  dl_sandbox node heal n1
  dl_sandbox daemon start slurmd@n1
  wait_nodes idle 60
}

@test "what Slurm itself ends is not put back by an agent: scancel, requeue, no permission" {
  options=(-N2 --dl-framework=generic --dl-learners=2)
  for script in train.sh exec.sh; do
    cancelled=$(submit "${options[@]}" --dl-checkpoint=ck1,every=10steps "$script" 1000 40)
    trained "$cancelled"
    on_login scancel "$cancelled"
    wait_state "$cancelled" CANCELLED 30
    killed=$(submit "${options[@]}" --dl-checkpoint=ck2,every=10steps "$script" 1000 40)
    on_login scontrol update "jobid=$killed" requeue=0
    trained "$killed"
    kill_both "$killed"
    wait_state "$killed" FAILED,COMPLETED 30
    requeued=$(submit --open-mode=append "${options[@]}" --dl-checkpoint=ck3,every=10steps "$script" 120 40)
    trained "$requeued"
    on_login scontrol requeue "$requeued"
    on_login scontrol update "jobid=$requeued" starttime=now+8
    sleep 5 # no agent puts them back
    has_restarts "$cancelled" 0
    has_restarts "$killed" 0
    wait_state "$requeued" COMPLETED 200 # as goes_on_after_requeue
    has_restarts "$requeued" 1
    rm -rf ck1 ck2 ck3
  done
}
