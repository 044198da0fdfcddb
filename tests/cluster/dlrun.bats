#!/usr/bin/env bats
# dlrun in Slurm jobs on real nodes: launch, states, kills, restarts, preemption, pause, time limit, loop guard, checkpoint
# directories that cannot be used. Learners are tests/lib/toy_learner.c, which counts its train steps and says whether
# one was lost.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2 --grace 15; }
teardown_file() { cluster_down; }
teardown() { cluster_teardown; }
setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
  printf '#!/bin/bash\ndlrun -- sh -c "$@"\necho "dlrun ended with $?"\n' >shell.sh
}

# events JOB: its states, attempts and reasons, one a line, without the learners.
events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl"; }
output() { cat "slurm-$1.out" 2>/dev/null; }
has_event() { events "$1" 2>/dev/null | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "job $1 has the event '$2'" has_event "$1" "$2"; }
# wait_trained JOB: until its learners have made a train step.
wait_trained() { wait_step "$1" 1 20; }
no_process() { ! own_pgrep -f -- "$1" >/dev/null; }
restarts_of() { job_field "$1" Restarts; }

# bats test_tags=versions
@test "learners find rank, world, master and log; states go to events and comment; nothing is left in the folder" {
  job=$(submit --dl-framework=generic --dl-learners=4 --dl-gpus=1 --comment 'my own' shell.sh \
    'echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT on $(hostname)"')
  wait_state "$job" COMPLETED 30
  for r in 0 1 2 3; do assert_contains "$(output "$job")" "^\[$r\] rank $r of 4 local $((r % 2)) of 2 at 10\.77\.[0-9.]+:[0-9]+ on n"; done
  run cat "dl-$job/logs/latest/learner-3.log"
  assert_contains "$output" '^rank 3 of 4'
  run events "$job"
  [ "$output" = "1 DEPLOY 
1 PROCESSING all learners run
1 COMPLETED all learners finished" ]
  assert_contains "$(job_field "$job" Comment)" "^my own \| dl:COMPLETED attempt=1 dir=$PWD/dl-$job reason=all learners finished"
  [ ! -e "dl-$job/control.json" ]
  run find /dev/shm /tmp -maxdepth 1 -name 'dl-progress-*' -newer train.sh
  [ -z "$output" ]
}

# bats test_tags=versions
@test "--debug of several learners: a prompt, which ends no line, is shown before anything is typed" {
  printf 'import os\nbreakpoint()\nprint("rank", os.environ["RANK"], "is through", flush=True)\n' >debugged.py
  mkfifo typed
  on_login salloc --quiet --dl-framework=generic --dl-learners=2 dlrun --debug -- /usr/bin/python3 debugged.py <typed >shown 2>&1 &
  exec 7>typed
  wait_file shown '\(Pdb\)' 60
  echo continue >&7
  exec 7>&-
  wait $!
  assert_contains "$(cat shown)" 'rank 0 is through'
  run cat dl-*/logs/attempt-1/learner-1.log
  [ "$output" = 'rank 1 is through' ]
}

@test "kill -9 of one learner fails the job: first cause named, all else killed, detached children too" {
  job=$(submit --dl-framework=generic --dl-learners=4 shell.sh \
    'setsid sleep 31415 & if [ "$RANK" = 2 ]; then sleep 1; kill -9 $$; fi; sleep 100')
  wait_state "$job" COMPLETED,FAILED 30
  assert_contains "$(output "$job")" 'learner 2.* was killed by signal 9 \(SIGKILL\)'
  assert_contains "$(output "$job")" 'dlrun ended with 137'
  assert_contains "$(job_field "$job" Comment)" 'dl:FAILED .*learner 2.* signal 9'
  assert_contains "$(cat "dl-$job/events.jsonl")" '"learner":2,"state":"FAILED".*"code":"C201","exit":137'
  no_process 'sleep 31415'
}

@test "with --dl-restarts the learners start again from the newest checkpoint, in the same allocation" {
  job=$(submit --dl-framework=generic --dl-learners=3 --dl-restarts=2 --dl-checkpoint=ck,every=10steps train.sh 40 20 kill1@25)
  wait_state "$job" COMPLETED 40
  assert_contains "$(output "$job")" 'learner 1.* was killed by signal 9 \(SIGKILL\); restart 1 of 2'
  assert_contains "$(output "$job")" '^\[0\] attempt 2 starts at train step 20 with 20 counted'
  assert_contains "$(output "$job")" '^\[0\] done: 40 counted, none lost'
  assert_contains "$(output "$job")" 'dlrun ended with 0'
  run events "$job"
  assert_contains "$output" '2 DEPLOY restart 1 of 2: learner 1'
  [ "$(restarts_of "$job")" = 0 ]
}

@test "restarts end: a learner that fails each time leaves its own exit code" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-restarts=1 shell.sh '[ "$RANK" = 0 ] && exit 5; sleep 100')
  wait_state "$job" COMPLETED,FAILED 30
  assert_contains "$(output "$job")" 'learner 0 exited with code 5, after 1 restart([^s]|$)'
  assert_contains "$(output "$job")" 'dlrun ended with 5'
}

@test "loop guard: a job that saves nothing new in two attempts is held with the reason" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-restarts=9 --dl-checkpoint=ck,every=10steps shell.sh \
    "$learner 40 10 'exit!15' || exit \$((DL_ATTEMPT + 2))")
  wait_for 40 "job $job is held" eval '[[ $(job_field '"$job"' Reason) == *JobHeld* || $(job_field '"$job"' Reason) == *held* ]]'
  run events "$job"
  assert_contains "$output" 'HALTED held: 2 attempts in a row saved no new train step; last: learner [01].* exited with code [56]'
  assert_contains "$(job_field "$job" Comment)" 'dl:HALTED .*held: 2 attempts'
}

@test "the same failure at the same train step twice is the program's: no third try" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-restarts=9 --dl-checkpoint=ck,every=10steps train.sh 40 10 'exit!15')
  wait_state "$job" COMPLETED,FAILED 40
  assert_contains "$(output "$job")" 'exited with code 3; the same failure at train step 15 in 2 attempts: not started again'
  assert_contains "$(output "$job")" 'dlrun ended with 3'
  assert_contains "$(job_field "$job" Comment)" 'dl:FAILED attempt=2 .*at train step 15 in 2 attempts'
}

@test "an agent that is killed: the job fails, what its learner had detached is killed too, and its page is removed" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-gpus=1 -w n2 shell.sh 'setsid sleep 27182 & sleep 100')
  wait_event "$job" PROCESSING 20
  kill -9 "$(agent_of "$job" 1)"
  wait_state "$job" COMPLETED,FAILED 30
  assert_contains "$(output "$job")" 'learner 1.* was lost: its agent \(dl-agent\) on n2 was killed'
  assert_contains "$(output "$job")" 'dlrun ended with 74'
  wait_for 5 "no process is left" no_process 'sleep 27182'
  run on_node n2 find /dev/shm -name 'dl-progress-*'
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

# As after a reconfigure, when slurmctld does not know yet that a node is up.
refusing_srun() {
  mkdir bin
  cat >bin/srun <<EOF
#!/bin/bash
n=\$(cat "$PWD/refused" 2>/dev/null || echo 0)
if ((n < $1)); then
  echo \$((n + 1)) >"$PWD/refused"
  echo "srun: error: Unable to create step for job \$SLURM_JOB_ID: Memory required by task is not available" >&2
  exit 1
fi
exec $(command -v srun) "\$@"
EOF
  chmod +x bin/srun
  printf '#!/bin/bash\nPATH=%s:$PATH\ndlrun -- "$@"\necho "dlrun ended with $?"\n' "$PWD/bin" >refused.sh
}

@test "a step that Slurm refuses for a moment is tried again, and the job goes on" {
  refusing_srun 2
  job=$(submit -N2 --dl-framework=generic --dl-learners=2 refused.sh echo started)
  wait_state "$job" COMPLETED,FAILED 40
  [ "$(cat refused)" -eq 2 ]
  assert_contains "$(output "$job")" 'srun could not start the agents .* trying again in 2s \(try 2 of 5\)'
  [ "$(grep -c '^\[[01]\] started' <<<"$(output "$job")")" -eq 2 ]
  assert_contains "$(output "$job")" 'dlrun ended with 0'
  # No restart is counted for it.
  [ "$(jq -s 'map(.attempt // 0) | max' "dl-$job/events.jsonl")" -eq 1 ]
}

# srun has the agent on n1 killed when it does not reach n2.
@test "a node that srun does not reach when it starts the agents: they are started again, and the job goes on" {
  printf '#!/bin/bash\nuntil [ -e go ]; do sleep 0.1; done\ndlrun -- sh -c "echo started"\necho "dlrun ended with $?"\n' >late.sh
  wait_nodes idle 60
  job=$(submit -w n1,n2 -N2 --dl-framework=generic --dl-learners=2 --dl-preflight=off late.sh)
  wait_state "$job" RUNNING 30
  dl_sandbox daemon stop slurmd@n2
  touch go
  wait_file "slurm-$job.out" 'srun could not start the agents .* trying again' 60
  assert_contains "$(output "$job")" 'Task launch for .* failed on node n2'
  dl_sandbox daemon start slurmd@n2
  wait_state "$job" COMPLETED,FAILED 120
  [ "$(grep -c '^\[[01]\] started' <<<"$(output "$job")")" -eq 2 ]
  assert_contains "$(output "$job")" 'dlrun ended with 0'
  [ "$(jq -s 'map(.attempt // 0) | max' "dl-$job/events.jsonl")" -eq 1 ]
  wait_nodes idle 60
}

@test "a job whose start is refused is stopped at once when it is cancelled, and ends by itself in the end" {
  refusing_srun 1000
  job=$(submit --dl-framework=generic --dl-learners=2 refused.sh true)
  wait_for 20 "a start was refused" grep -qs 'trying again' "slurm-$job.out"
  on_login scancel --batch --signal=TERM "$job"
  wait_state "$job" COMPLETED,FAILED,CANCELLED 10
  rm refused
  job=$(submit --dl-framework=generic --dl-learners=2 refused.sh true)
  wait_state "$job" COMPLETED,FAILED 60
  [ "$(grep -c '^srun: error: Unable to create step' "slurm-$job.out")" -eq 6 ]
  assert_contains "$(output "$job")" 'trying again in 15s \(try 5 of 5\)'
  assert_contains "$(output "$job")" 'could not be started: srun ended before it had started the learners'
  assert_contains "$(output "$job")" 'dlrun ended with 71'
}

@test "a job whose start is refused is paused at once by its request file" {
  refusing_srun 1000
  job=$(submit --dl-framework=generic --dl-learners=2 refused.sh true)
  wait_for 40 "dlrun waits 8 s" grep -qs 'trying again in 8s' "slurm-$job.out"
  echo '{"action":"pause","reason":"by file"}' >"dl-$job/request.json"
  wait_for 4 "dlrun has taken the request" eval "[ ! -e dl-$job/request.json ]"
  wait_event "$job" 'HALTED paused' 20
}

@test "an agent that does not connect in time: its learner and node are named" {
  cp "$DL_SANDBOX_DIR/etc/dl.toml" slow.toml && printf '[launcher]\nagent_timeout = "3s"\n' >>slow.toml
  # The slurmd of n2 answers nothing, as on a node that swaps.
  printf '#!/bin/bash\nslurmd=%s\ntrap "kill -CONT $slurmd" EXIT\nkill -STOP $slurmd\nDL_CONFIG=%s dlrun -- true\necho "dlrun ended with $?"\n' \
    "$(cat "$DL_SANDBOX_DIR/run/slurmd.n2.slurm")" "$PWD/slow.toml" >slow.sh
  job=$(submit -w n1,n2 -N2 --dl-framework=generic --dl-learners=2 slow.sh)
  wait_state "$job" COMPLETED,FAILED 40
  assert_contains "$(output "$job")" 'learner 1 on n2 could not be started: its agent has not connected within 3s; class no-agent \(S102, ours\)'
  assert_contains "$(output "$job")" 'dlrun ended with 71'
}

@test "dlrun that is killed: agents end the learners, nothing is left" {
  job=$(submit --dl-framework=generic --dl-learners=2 shell.sh 'setsid sleep 16180 & sleep 100')
  wait_event "$job" PROCESSING 20
  kill_process "$(jq -r .pid "dl-$job/control.json")"
  wait_state "$job" COMPLETED,FAILED 30
  wait_for 5 "no process is left" no_process 'sleep 16180'
}

@test "slurmctld restarted in mid-job: training goes on, the comment follows" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck train.sh 80 50)
  wait_event "$job" PROCESSING 20
  dl_sandbox daemon stop slurmctld  # a kill would lose a job younger than its last written state
  sleep 1 # for so long it is away
  dl_sandbox daemon start slurmctld
  wait_state "$job" COMPLETED 60
  assert_contains "$(output "$job")" '^\[1\] done: 80 counted, none lost'
  wait_for 20 "the comment says COMPLETED" eval '[[ $(job_field '"$job"' Comment) == *dl:COMPLETED* ]]'
}

# bats test_tags=versions
@test "preempted: all save at one train step, the job is requeued and runs on within seconds, nothing lost" {
  job=$(submit -p borrow -N2 --dl-framework=generic --dl-learners=4 --dl-gpus=1 --dl-checkpoint=ck train.sh 150 50)
  wait_trained "$job"
  other=$(submit -p batch -N3 --gpus-per-node=2 --wrap true)
  wait_event "$job" 'PENDING preempted: saved at train step [0-9]+' 20
  wait_state "$other" COMPLETED 30
  begin=$SECONDS
  wait_event "$job" '^2 PROCESSING' 90
  ((SECONDS - begin < 100)) # Slurm alone: 120 s
  wait_completed "$job" 60
  steps=$(output "$job" | sed -nE 's/^\[[0-9]\] saved at train step ([0-9]+): ok/\1/p' | sort -u)
  [ "$(wc -l <<<"$steps")" = 1 ]
  for r in 0 1 2 3; do
    assert_contains "$(output "$job")" "^\[$r\] attempt 2 starts at train step $steps with $steps counted"
    assert_contains "$(output "$job")" "^\[$r\] done: 150 counted, none lost"
  done
  if slurm_at_least 24.05 && ! slurm_at_least 26.05; then
    # Slurm has started it once more.
    [ "$(restarts_of "$job")" = 2 ]
    assert_contains "$(output "$job")" 'dlrun: Slurm puts a job that was preempted back once more after its end; that start will run nothing'
    assert_contains "$(output "$job")" 'dlrun: this command completed in an earlier start of job '
  else
    [ "$(restarts_of "$job")" = 1 ]
  fi
  [ "$(output "$job" | grep -c 'attempt [0-9]* starts at train step')" = 8 ]
}

@test "preempted without the checkpoint library: SIGTERM within the grace period, then requeued" {
  job=$(submit -p borrow -N3 --gpus-per-node=2 --dl-framework=generic --dl-learners=3 shell.sh \
    '[ "$DL_ATTEMPT" = 2 ] && exit 0; trap "echo told; exit 0" TERM; while :; do sleep 0.1; done')
  wait_event "$job" PROCESSING 20
  other=$(submit -p batch -N3 --gpus-per-node=2 --wrap true)
  wait_event "$job" 'PENDING preempted: not saved' 20
  wait_state "$other" COMPLETED 30
  wait_completed "$job" 60
  # Slurm empties the output file of a requeued job unless it is appended to; the learners' logs stay.
  assert_contains "$(cat "dl-$job/logs/attempt-1/learner-0.log")" '^told'
}

# bats test_tags=versions
@test "paused by dlctl: saved, held under its id; resumed: goes on where it was" {
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck train.sh 100 50)
  wait_trained "$job"
  on_login dlctl pause "$job"
  wait_event "$job" 'HALTED paused: saved at train step' 20
  wait_for 20 "job $job is held" eval '[[ $(job_field '"$job"' Reason) == *JobHeld* || $(job_field '"$job"' Reason) == *held* ]]'
  assert_contains "$(job_field "$job" Comment)" 'dl:HALTED attempt=1 step=[0-9]+ '
  wait_state "$job" PENDING 20
  on_login dlctl resume "$job"
  wait_state "$job" COMPLETED 60
  assert_contains "$(output "$job")" '^\[1\] done: 100 counted, none lost'
  assert_contains "$(output "$job")" '^\[0\] attempt 2 starts at train step [1-9]'
}

@test "a pause may be asked by a file where dlctl cannot connect" {
  job=$(submit --dl-framework=generic --dl-learners=1 --dl-checkpoint=ck train.sh 400 50)
  wait_event "$job" PROCESSING 20
  echo '{"action":"pause","reason":"by file"}' >"dl-$job/request.json"
  wait_event "$job" 'HALTED paused: saved at train step' 20
  [ ! -e "dl-$job/request.json" ]
}

@test "time limit: saved before it, requeued, and goes on" {
  job=$(submit --time=1 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck train.sh 800 80)
  wait_event "$job" 'PENDING time limit: saved at train step' 80
  wait_event "$job" '^2 PROCESSING' 40
  wait_file "dl-$job/logs/attempt-2/learner-0.log" 'attempt 2 starts at train step [1-9]' 20
}

@test "periodic saves by time are agreed by all" {
  job=$(submit --dl-framework=generic --dl-learners=3 --dl-checkpoint=ck,every=1s train.sh 80 50)
  wait_state "$job" COMPLETED 40
  steps=$(output "$job" | sed -nE 's/^\[[0-9]\] saved at train step ([0-9]+): ok/\1/p' | sort | uniq -c | awk '{print $1}' | sort -u)
  [ "$steps" = 3 ]
  run events "$job"
  assert_contains "$output" '1 PROCESSING saved at train step'
}

@test "two jobs on one checkpoint directory: the second is refused, and says who holds it" {
  first=$(submit --dl-framework=generic --dl-learners=1 --dl-checkpoint="$PWD/ck" train.sh 400 50)
  wait_event "$first" PROCESSING 20
  second=$(submit --dl-framework=generic --dl-learners=1 --dl-checkpoint="$PWD/ck" train.sh 5 50)
  wait_state "$second" COMPLETED,FAILED 20
  assert_contains "$(output "$second")" "checkpoint directory: .*job $first"
  assert_contains "$(output "$second")" 'dlrun ended with 73'
  [ ! -e "dl-$second/logs" ]
  assert_contains "$(job_field "$second" Comment)" 'dl:FAILED'
  [ "$(job_state "$first")" = RUNNING ]
}

@test "a checkpoint path that cannot be written fails before any learner starts" {
  job=$(submit --dl-framework=generic --dl-learners=1 --dl-checkpoint=/proc/none train.sh 5 50)
  wait_state "$job" COMPLETED,FAILED 20
  assert_contains "$(output "$job")" 'dlrun: checkpoint directory: .*/proc/none'
  assert_contains "$(output "$job")" 'dlrun ended with 73'
}

@test "a command that does not exist" {
  printf '#!/bin/bash\ndlrun -- no-such-command\necho "dlrun ended with $?"\n' >none.sh
  job=$(submit --dl-framework=generic --dl-learners=2 none.sh)
  wait_state "$job" COMPLETED,FAILED 20
  assert_contains "$(output "$job")" 'learner [01].* could not be started: no-such-command: no such program in PATH'
  assert_contains "$(output "$job")" 'dlrun ended with 127'
}

# bats test_tags=versions
@test "MPI programs run under the agents, and a rank that fails is named" {
  mpicc -o allreduce "$top_srcdir/tests/cluster/mpi_allreduce.c" || skip "no mpicc"
  printf '#!/bin/bash\ndlrun -- ./allreduce\necho "dlrun ended with $?"\n' >mpi.sh
  job=$(submit -N2 --dl-framework=mpi --dl-learners=4 mpi.sh)
  wait_state "$job" COMPLETED 40
  assert_contains "$(output "$job")" 'dlrun ended with 0'
}

@test "a node that is cut off is noticed within seconds, and does not train on by itself" {
  job=$(submit -N2 -w n1,n3 --dl-framework=generic --dl-learners=2 shell.sh 'sleep 14142')
  wait_event "$job" PROCESSING 20
  begin=$SECONDS
  dl_sandbox node cut n3
  wait_event "$job" 'FAILED learner 1.* was lost: node n3 does not answer' 15
  ((SECONDS - begin <= 6))
  wait_for 10 "the learner there has ended" no_process '^(sh -c )?sleep 14142'
  dl_sandbox node heal n3
}

@test "requeued by a person in mid-training, dlrun being the script itself: saved within KillWait, back within seconds" {
  printf '#!/bin/bash\nexec dlrun -- %s "$@"\n' "$learner" >exec.sh
  job=$(submit --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck exec.sh 150 50)
  wait_trained "$job"
  on_login scontrol requeue "$job"
  wait_event "$job" 'PENDING requeued by Slurm: saved at train step' 20
  begin=$SECONDS
  wait_file "dl-$job/logs/attempt-2/learner-0.log" 'attempt 2 starts at train step [1-9]' 60
  ((SECONDS - begin < 30))
  wait_state "$job" COMPLETED 60
}
