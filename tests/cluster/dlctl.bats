#!/usr/bin/env bats
# dlctl end to end: what it tells of waiting, running, paused and ended jobs; pause and resume by each way; logs that are
# followed over a pause; and what it refuses. The learners are small programs of the shell, and the digits example where
# train steps matter.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2 --conf Licenses=token:1; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -x $stage/bin/dlrun ]] || skip "dlrun is not built"
}
teardown() { cluster_teardown; }

dlctl() { on_login env -C "$PWD" "$stage/bin/dlctl" "$@"; }
# field JOB KEY: from dlctl status --json.
field() { dlctl status --json "$1" | jq -r ".[0].$2"; }
state_is() { [[ $(field "$1" state 2>/dev/null) == "$2" ]]; }
wait_dl() { wait_for "$3" "dlctl shows job $1 as $2" state_is "$1" "$2"; }
why_says() { dlctl why "$1" | grep -qE "$2"; }
step_reached() { (($(field "$1" step) >= $2)); }

# learner [SECONDS]: a batch script whose learners say who they are and then work for so long.
write_script() {
  cat >train.sh <<SH
#!/bin/bash
dlrun -- bash -c 'echo "learner \$RANK of \$WORLD_SIZE, attempt \$DL_ATTEMPT"; sleep $1; echo "learner \$RANK is done"'
SH
}
# The digits example, slow enough to be met in mid-training; skipped where its Python modules are missing.
write_training() {
  /usr/bin/python3 -c 'import torch, sklearn' 2>/dev/null || skip "needs torch and scikit-learn"
  cat >train.sh <<SH
#!/bin/bash
export PYTHONPATH=$stage/share/slurm-dl/python
dlrun -- /usr/bin/python3 $top_srcdir/frameworks/pytorch/example/train_digits.py --steps $1 --step-delay 0.05
SH
}

@test "status: a job that waits is PENDING with Slurm's reason in words, and QUEUED for a limit" {
  write_script 60
  first=$(submit -N2 --exclusive --wrap 'sleep 300')
  wait_state "$first" RUNNING 20
  job=$(submit --dl-learners=2 --dl-gpus=1 train.sh)
  wait_for 20 "Slurm has looked at it" bash -c "$(declare -f dlctl on_login dl_sandbox); stage=$stage top_srcdir=$top_srcdir; dlctl status $job | grep -qE 'Resources|Priority'"
  [ "$(field "$job" state)" = PENDING ]
  run dlctl status
  assert_contains "$output" "^JOB +NAME +STATE"
  assert_contains "$output" "^$job +train.sh +PENDING"
  on_login scancel "$first" "$job"
  holder=$(submit --licenses=token:1 --wrap 'sleep 300')
  wait_state "$holder" RUNNING 20
  job=$(submit --licenses=token:1 --dl-learners=1 train.sh)
  wait_dl "$job" QUEUED 20
  assert_contains "$(field "$job" reason)" 'quota is used up'
}

# No AccountingStorageTRES here, so no TRES is called gres/gpu.
@test "why: GPUs are counted where the accounting does not count them, and more than there are never come" {
  for _ in 1 2 3 4; do submit -c1 --gres=gpu:1 -t5 --output=/dev/null --wrap 'sleep 300'; done
  wait_for 20 "four jobs run" bash -c "$(declare -f on_login dl_sandbox); top_srcdir=$top_srcdir; (( \$(on_login squeue -h -t R | wc -l) == 4 ))"
  write_script 1
  job=$(submit --dl-learners=1 --dl-gpus=1 -t5 train.sh)
  # Slurm has looked at it, and knows that all four run.
  wait_for 20 "what it waits for is told" why_says "$job" Resources
  wait_for 20 "all GPUs are counted" why_says "$job" 'free .* are 0 of 4 GPUs'
  run dlctl why "$job"
  assert_contains "$output" "it asks for 1 node, 1 CPU, 1 GPU; free in partition 'batch' are 0 of 4 GPUs, "
  assert_contains "$output" 'running there, by the end of their time limits: [0-9]+ of root \(1 node, 1 GPU\) until '
  [[ $output != *'memory counts, too'* ]]
  # It would be refused, but a slurm.conf that slurmctld has not read yet says nothing about the nodes.
  touch "$DL_SANDBOX_DIR/etc/slurm.conf"
  if job=$(submit --dl-learners=5 --dl-gpus=1 -t5 train.sh 2>refused); then
    wait_for 20 "Slurm has looked at it" why_says "$job" 'it never starts there'
    run dlctl why "$job"
    assert_contains "$output" "it asks for 5 GPUs, and partition 'batch' has 4, so it never starts there"
    assert_contains "$output" 'what you can do: scancel [0-9]+, and submit it with at most 4 GPUs'
  else # newer Slurms refuse it themselves
    assert_contains "$(cat refused)" 'Requested node configuration is not available'
  fi
}

@test "status: a running job shows its learners, a finished one how it ended" {
  write_script 4
  job=$(submit --dl-learners=2 --dl-gpus=1 train.sh)
  wait_dl "$job" PROCESSING 120
  run dlctl status "$job"
  assert_contains "$output" '^state +PROCESSING since'
  assert_contains "$output" '^learners +2 x 1 GPU on n'
  assert_contains "$output" '^1 +n[12] +PROCESSING'
  wait_state "$job" COMPLETED 120
  [ "$(field "$job" state)" = COMPLETED ]
  run dlctl status "$job"
  assert_contains "$output" ' COMPLETED '
}

@test "status: a learner's failure is told with its class" {
  printf '#!/bin/bash\ndlrun -- bash -c "sleep 1; exit 7"\n' >train.sh
  job=$(submit --dl-learners=2 train.sh)
  wait_state "$job" FAILED 120
  run dlctl status "$job"
  assert_contains "$output" '^state +FAILED'
  assert_contains "$output" 'C201'
}

@test "logs: all learners with their rank, one alone without, the last lines, and following to the end" {
  write_script 2
  job=$(submit --dl-learners=2 train.sh)
  wait_dl "$job" PROCESSING 120
  run dlctl logs -f "$job"
  [ "$status" -eq 0 ]
  assert_contains "$output" '^\[0\] learner 0 of 2, attempt 1'
  assert_contains "$output" '^\[1\] learner 1 is done'
  [ "$(dlctl logs "$job" --learner 1 | tail -n 1)" = 'learner 1 is done' ]
  [ "$(dlctl logs "$job" --learner 0 -n 1)" = 'learner 0 is done' ]
}

@test "pause and resume: saved at one train step, held, resumed at once, finished, and the logs followed over it" {
  write_training 120
  job=$(submit --dl-framework=pytorch --dl-learners=2 --dl-checkpoint=ck,every=10m train.sh)
  wait_dl "$job" PROCESSING 120
  wait_for 240 "train step 10" step_reached "$job" 10
  run dlctl pause "$job" --reason 'a test'
  [ "$status" -eq 0 ]
  assert_contains "$output" "^job $job: paused: saved at train step [0-9]+; resume it: dlctl resume $job"
  [ "$(field "$job" state)" = HALTED ]
  [ "$(job_state "$job")" = PENDING ]
  assert_contains "$(cat slurm-"$job".out)" 'a test: all learners save and stop at train step'
  saved=$(field "$job" saved_step)
  wait_nodes idle 20
  run dlctl pause "$job"
  [ "$status" -eq 0 ]
  assert_contains "$output" 'held already'
  dlctl logs -f "$job" >followed 2>&1 &
  follower=$!
  before=$SECONDS
  dlctl resume "$job"
  wait_state "$job" RUNNING 60
  ((SECONDS - before < 60)) # Slurm alone would let it wait for two minutes
  wait_state "$job" COMPLETED 300
  wait "$follower" || true
  [ "$(field "$job" attempt)" = 2 ]
  assert_contains "$(dlctl logs "$job")" "$saved"
  [ "$(dlctl status --json "$job" | jq -r '[.[0].events[].state] | index("HALTED") != null')" = true ]
}

@test "metrics: of a job that was killed, paused and resumed each train step is shown once, by the attempt that counts" {
  /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "needs NumPy"
  cat >train.py <<'PY'
import os, time
import numpy
import dl, dlckpt
attempt = int(os.environ["DL_ATTEMPT"])
job = dlckpt.attach(arrays={"weights": numpy.zeros(8)})
for step in job.steps(300):
    dl.metric(loss=attempt, step=step)
    print(f"step {step}: lr=0.5", flush=True)
    print(f"cost <{attempt}> ({step})", flush=True)
    if attempt == 1 and step == 50:
        os.kill(os.getpid(), 9)
    # Long enough to be paused before its end.
    time.sleep(0.2 if attempt == 2 and step >= 70 else 0.02)
dl.metric(accuracy=0.75, step=299, group="test")
PY
  cat >train.sh <<SH
#!/bin/bash
export PYTHONPATH=$stage/share/slurm-dl/python
dlrun -- /usr/bin/python3 \$PWD/train.py
SH
  job=$(submit --dl-framework=generic --dl-learners=1 --dl-restarts=1 --dl-checkpoint=ck,every=20steps --dl-metrics='cost <%{FLOAT:val_cost}> .%{INT:step}.' train.sh)
  wait_for 240 "train step 70 of the second attempt" step_reached "$job" 70
  # While it runs, what was reported is there within seconds.
  wait_for 30 "its metrics are shown" bash -c "$(declare -f dlctl on_login dl_sandbox); stage=$stage top_srcdir=$top_srcdir; dlctl metrics $job | grep -qE '^loss +train +[0-9]+ +[0-9]+ +2 '"
  dlctl pause "$job"
  saved=$(field "$job" saved_step)
  dlctl report "$job" -o - >paused.html
  dlctl resume "$job"
  wait_state "$job" COMPLETED 300
  dlctl metrics --json "$job" >shown.json
  dlctl metrics --json --all "$job" >all.json
  loss() { jq -c ".jobs[0].series[] | select(.name == \"loss\") | $1" "$2"; }
  [ "$(loss .step shown.json)" = "$(jq -nc '[range(300)]')" ] || { cat shown.json >&2; false; }
  # The value of each point is the attempt that reported it.
  [ "$(loss '.value == .attempt and (.attempt | unique) == [1, 2, 3]' shown.json)" = true ]
  [ "$(loss '[.step, .attempt] | transpose | map(select(.[1] == 3))[0][0]' shown.json)" -eq "$saved" ]
  # What was trained between the last save and the kill was trained again.
  [ "$(loss '[.step, .attempt, .superseded] | transpose | map(select(.[2])) | length > 0 and all(.[0] <= 50 and .[1] == 1)' all.json)" = true ] || { cat all.json >&2; false; }
  [ "$(jq -c '.jobs[0].series[] | select(.name == "lr") | .step' shown.json)" = "$(jq -nc '[range(300)]')" ]
  # The flag's expression has found the same, attempt by attempt.
  cost=$(jq -c '.jobs[0].series[] | select(.name == "cost" and .group == "validate") | [.step, .value == .attempt]' shown.json)
  [ "$cost" = "$(jq -nc '[[range(300)], true]')" ] || { echo "$cost" >&2; false; }
  run dlctl metrics "$job"
  assert_contains "$output" '^accuracy +test +1 +299 +0.75 '
  assert_contains "$output" "^attempt 3 began with train step $saved\$"
  # One page tells the same, of the paused job and of the one that has ended.
  dlctl report "$job" -o - >ended.html
  assert_contains "$(cat paused.html)" '<i class="halted"></i>HALTED</span>paused: saved at train step [0-9]+'
  assert_contains "$(cat ended.html)" '<i class="completed"></i>COMPLETED</span>'
  for text in '<figcaption>loss</figcaption>' '<title>attempt 3 began with train step' 'killed by signal 9' "<h1>Job $job: train.sh</h1>" \
    '#SBATCH --dl-checkpoint=.*/ck,every=20steps' "scontrol write batch_script $job -" '<dt>memory</dt><dd>[0-9.]+ [KM]iB of '; do
    assert_contains "$(cat ended.html)" "$text"
  done
  assert_contains "$(cat ended.html)" "<td class=\"n\">$saved</td>"
}

@test "pause: where dlrun cannot be reached, by a file and a signal" {
  write_training 400
  job=$(submit --dl-framework=pytorch --dl-learners=2 --dl-checkpoint=ck train.sh)
  wait_dl "$job" PROCESSING 120
  wait_for 240 "train step 5" step_reached "$job" 5
  # The way to dlrun is barred: nobody listens at port 9 of the login host.
  jq -c '.host = "127.0.0.1" | .port = 9' "dl-$job/control.json" >control.new
  cat control.new >"dl-$job/control.json"
  run dlctl pause "$job" --timeout 180s
  [ "$status" -eq 0 ]
  assert_contains "$output" 'paused: saved at train step'
  [ ! -e "dl-$job/request.json" ]
}

@test "pause: a job that has not started is held, and resume lets it start" {
  write_script 1
  first=$(submit -N2 --exclusive --wrap 'sleep 300')
  wait_state "$first" RUNNING 20
  job=$(submit --dl-learners=1 train.sh)
  run dlctl pause "$job"
  assert_contains "$output" 'had not started and is held now'
  # A report needs no job directory.
  assert_contains "$(dlctl report "$job" -o -)" 'The job has no job directory \(yet\), so this page shows only what Slurm says'
  on_login scancel "$first"
  wait_nodes idle 20
  [ "$(job_state "$job")" = PENDING ]
  dlctl resume "$job"
  wait_state "$job" COMPLETED 120
}

@test "refused: unknown, ended, running and other people's jobs" {
  run dlctl pause 99999
  [ "$status" -eq 3 ]
  assert_contains "$output" 'not known to Slurm'
  run dlctl resume 99999
  [ "$status" -eq 3 ]
  write_script 20
  job=$(submit --dl-learners=1 train.sh)
  wait_dl "$job" PROCESSING 120
  run dlctl resume "$job"
  [ "$status" -eq 2 ]
  assert_contains "$output" 'is not paused: it is RUNNING'
  for command in pause resume; do
    run as_user "$(some_user)" "$stage/bin/dlctl" $command "$job"
    [ "$status" -eq 4 ]
    assert_contains "$output" 'belongs to root'
  done
  run as_user "$(some_user)" "$stage/bin/dlctl" status "$job"
  [ "$status" -eq 0 ]
  assert_contains "$output" 'PROCESSING'
  on_login scancel "$job"
  wait_state "$job" CANCELLED,FAILED,COMPLETED 120
  run dlctl pause "$job"
  [ "$status" -eq 2 ]
  assert_contains "$output" 'cannot be paused'
  plain=$(submit --wrap 'sleep 30')
  wait_state "$plain" RUNNING 20
  run dlctl pause "$plain"
  [ "$status" -eq 3 ]
  assert_contains "$output" 'dlrun did not start the job'
}

@test "resume: a job that an administrator holds is not the user's to release" {
  user=$(some_user)
  job=$(as_user "$user" sbatch --parsable -H --chdir="$PWD" --wrap true)
  on_login scontrol hold "$job"
  run as_user "$user" "$stage/bin/dlctl" resume "$job"
  [ "$status" -eq 4 ]
  assert_contains "$output" 'administrator'
}

@test "status --ended and clean: what has ended is listed and removed, what runs or is paused stays; --learners auto takes the GPUs of a job" {
  # As users without --dl-* flags have them: the job's GPUs, and a learner for each.
  printf '#!/bin/bash\nexec dlrun --learners auto -- bash -c "echo learner \\$RANK of \\$WORLD_SIZE; sleep ${1:-0}"\n' >auto.sh
  ended=$(submit -N2 --gres=gpu:2 --output=ended.out auto.sh)
  wait_state "$ended" COMPLETED 40
  [ "$(grep -cE 'learner [0-3] of 4' ended.out)" -eq 4 ]
  # Its second run has ended.
  printf '#!/bin/bash\ndlrun --learners 1 -- sh -c "touch begun; sleep 60" &\nuntil [ -e begun ]; do sleep 0.1; done\ndlrun --learners 1 -- true\nwait\n' >two.sh
  running=$(submit -n 2 two.sh)
  wait_file "dl-$running.2/events.jsonl" COMPLETED 30
  run dlctl status --ended
  assert_contains "$output" "^$ended +COMPLETED .* 1 +- +4 +all learners finished"
  [[ $output != *$'\n'"$running"[\ .]* ]]
  # Whatever squeue is told not to show.
  run on_login env -C "$PWD" SQUEUE_STATES=PENDING SQUEUE_PARTITION=none SQUEUE_USERS=nobody "$stage/bin/dlctl" clean --older-than 0s --yes
  assert_contains "$output" "^$running\.1 +PROCESSING .* stays: Slurm has it: RUNNING"
  assert_contains "$output" "^$running\.2 +COMPLETED .* stays: Slurm has it: RUNNING"
  assert_contains "$output" "^$ended +COMPLETED .* removed$"
  [ ! -e "dl-$ended" ]
  [ -e "dl-$running/events.jsonl" ]
  [ -e "dl-$running.2/events.jsonl" ]
}

@test "a job that Slurm has forgotten is found by its folder" {
  write_script 1
  job=$(submit --dl-learners=1 train.sh)
  wait_state "$job" COMPLETED 120
  cp -r "dl-$job" dl-987654
  run dlctl status 987654
  [ "$status" -eq 0 ]
  assert_contains "$output" '^state +COMPLETED'
  run dlctl logs --dir "dl-$job" 987655
  assert_contains "$output" 'learner 0 is done'
}

# Without HDF5 there is no learner whose saves and train steps are known.
@test "top: two jobs train, one is paused and resumed by its keys, and Slurm is asked once in ten seconds" {
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  printf '#!/bin/bash\nexec dlrun --checkpoint "ck-$SLURM_JOB_ID,every=10m" -- %s 100000 50\n' "$learner" >train.sh
  wait_nodes idle 60 # top lists a job that is still completing, and keeps it
  first=$(submit --dl-framework=generic --dl-learners=1 --job-name=first train.sh)
  second=$(submit --dl-framework=generic --dl-learners=1 --job-name=second train.sh)
  wait_dl "$first" PROCESSING 120
  wait_dl "$second" PROCESSING 120
  wait_for 60 "train steps" step_reached "$first" 3
  # What top asks Slurm, and when.
  mkdir bin
  for program in squeue scontrol sinfo sacct; do
    printf '#!/bin/bash\necho "$(date +%%s.%%N) %s $PPID $(tr "\\\\0" " " </proc/$PPID/cmdline)" >>%s/asked\nexec %s "$@"\n' "$program" "$PWD" "$(command -v $program)" >bin/$program
    chmod +x bin/$program
  done
  run on_login env -C "$PWD" PATH="$PWD/bin:$PATH" TERM=xterm LC_ALL=C.UTF-8 \
    python3 "$top_srcdir/tests/lib/on_terminal.py" 120x30 "$stage/bin/dlctl" top <<STEPS
see 2 jobs: 2 PROCESSING
see ^> $first +first +PROCESSING .* [0-9]+ .*
see ^  $second +second +PROCESSING
see ^. $first +first +PROCESSING +\S+ +\d+ +\d+(\.\d+)? +
see Slurm asked
type j
see ^> $second
type p
see Pause job $second \(second\)\? y/n
type y
see job $second is told to pause
see ^. $second +second +HALTED .* paused: saved at train step [0-9]+
run timeout 60 sh -c "until squeue -h -j $second -o %r | grep -qE 'JobHeld| held'; do sleep 0.3; done"
type r
see Resume job $second \(second\)\? y/n
type y
see job $second may start again
see ^. $second +second +PROCESSING
type \r
see ^train step +[0-9]+, saved at [0-9]+
see attempt 2 (began with|starts at) train step [0-9]+
type \\033[F
see PROCESSING +attempt 1 .* all learners run|last lines of
type q
size 40x10
see ^. $first +PROCESSING
fits
type q
ends 0
STEPS
  printf '%s\n' "$output"
  [ "$status" -eq 0 ]
  [ "$(job_state "$first")" = RUNNING ]
  # Of top itself, and not of the pause and the resume that it has started.
  grep -F ' squeue ' asked | grep -F 'dlctl top' | awk '{ if (last && $1 - last < 9.9) { print "asked after " $1 - last " s"; bad = 1 } last = $1; n++ } END { exit bad || n < 2 }'
  run grep -vE ' squeue |/proc/self/exe (pause|resume) ' asked
  [ -z "$output" ]
}

# On a site with 10,000 waiting jobs this list took 22 s. No timing here: what is counted is what made it slow.
@test "a list of many jobs of a user reads dl.toml once, asks once who that is, and starts no process for jobs that never started" {
  local listed opened asked made
  [[ $EUID -eq 0 ]] || skip "needs root, who takes a user's rights to read files"
  as_user "$(some_user)" bash -c 'for i in {1..40}; do sbatch -Q --hold -o /dev/null --wrap "sleep 1" || exit 1; done'
  listed=$(dlctl status --all | grep -c JobHeldUser)
  ((listed >= 40))
  opened=$(on_login python3 "$top_srcdir/tests/lib/opens.py" /etc/slurm/dl.toml "$stage/bin/dlctl" status --all 2>list)
  [ "$(grep -c JobHeldUser list)" = "$listed" ]
  ((opened >= 1 && opened <= 4))
  # A file of its own, which nothing else of this machine opens.
  asked=$(on_login unshare --mount sh -c 'cp /etc/group group && mount --bind group /etc/group && exec "$@"' sh \
    python3 "$top_srcdir/tests/lib/opens.py" /etc/group "$stage/bin/dlctl" status --all 2>/dev/null)
  ((asked >= 1 && asked <= 3))
  # The numbers of processes in a namespace of its own follow one another.
  made=$(on_login unshare --pid --fork sh -c '"$0" status --all >/dev/null; sh -c "echo \$\$"' "$stage/bin/dlctl")
  ((made >= 2 && made < 30))
  cancel_all
}
