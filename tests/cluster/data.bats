#!/usr/bin/env bats
# Data in, results out, on two nodes of a real Slurm: --dl-data is fetched to each node before the learners start, and
# --dl-results is stored after success, failure, a pause and a preemption. Each node has a cache of its own.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 0 --grace 20
  [[ -z ${DL_NO_CLUSTER:-} ]] || return 0
  printf '[data]\ncache = "/dev/shm/dl-cache"\nlimit = "64MiB"\n' >>"$DL_SANDBOX_DIR/etc/dl.toml"
  mkdir -p "$DL_SANDBOX_DIR/etc/datasets.d" "$DL_SANDBOX_DIR/digits"
  echo seven >"$DL_SANDBOX_DIR/digits/7"
  printf 'path = "%s"\nsummary = "handwritten digits"\nlicence = "CC0"\n' "$DL_SANDBOX_DIR/digits" >"$DL_SANDBOX_DIR/etc/datasets.d/digits.toml"
}
teardown_file() { cluster_down; }
teardown() {
  [[ -z ${listener:-} ]] || kill "$listener" 2>/dev/null || true
  cluster_teardown
}
setup() {
  cluster_setup
  printf '#!/bin/bash\ndlrun -- sh -c "$@"\nstatus=$?\necho "dlrun ended with $status"\nexit $status\n' >shell.sh
  mkdir -p set/deep
  echo one >set/a
  echo two >set/deep/b
}

events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl"; }
states() { jq -r 'select(.learner == null) | .state' "dl-$1/events.jsonl" | uniq | paste -sd' '; }
output() { cat "slurm-$1.out" 2>/dev/null; }
has_event() { events "$1" 2>/dev/null | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "job $1 has the event '$2'" has_event "$1" "$2"; }
no_process() { ! own_pgrep -f -- "$1" >/dev/null; }
dlctl() { on_login "$stage/bin/dlctl" "$@"; }

@test "data is on both nodes before the learners start, and results are stored when they have ended" {
  printf '[[source]]\nfrom = "%s/set"\nto = "train"\ncache = "node"\n[[source]]\nfrom = "set/deep"\nto = "test"\n' "$PWD" >sets.toml
  job=$(submit -N2 --dl-learners=2 --dl-data=sets.toml --dl-results="$PWD/out" shell.sh \
    'echo "$(hostname) has $(cat $DATA_DIR/train/a $DATA_DIR/train/deep/b $DATA_DIR/test/b | paste -sd-)"; readlink -f $DATA_DIR/train/a; echo $LEARNER_ID >$RESULT_DIR/learner-$LEARNER_ID')
  wait_state "$job" COMPLETED,FAILED 60
  for n in 1 2; do assert_contains "$(output "$job")" "n$n has one-two-two"; done
  [ "$(output "$job" | grep -c ' /dev/shm/dl-cache/0/')" = 2 ]
  [ "$(states "$job")" = "DEPLOY DOWNLOADING PROCESSING STORING COMPLETED" ]
  assert_contains "$(events "$job")" "^1 DOWNLOADING data is fetched to 2 nodes$"
  for id in 1 2; do [ "$(cat "out/$job/results/learner-$id")" = "$id" ]; done
  grep -q 'n1 has one' "out/$job"/logs/attempt-1/learner-*.log
  run dlctl results "$job"
  assert_contains "$output" "^stored in  $PWD/out/$job$"
  assert_contains "$output" "^stored     yes, after attempt 1, "
  [ "$(dlctl results "$job" --json | jq -r '.to + " " + (.stored | tostring)')" = "$PWD/out/$job true" ]
  dlctl results "$job" --fetch "$PWD/copy"
  [ "$(cat copy/results/learner-1)" = 1 ]
  # Nothing holds the data any more.
  wait_for 20 "no dl-data runs" no_process 'libexec/slurm-dl/dl-data'
}

@test "a set of the site's catalogue is read where it lies" {
  run dlctl data catalogue
  assert_contains "$output" "^@digits +$DL_SANDBOX_DIR/digits +none +all +CC0 +handwritten digits"
  [ "$(dlctl data catalogue --json | jq -r '.[0].name')" = digits ]
  job=$(submit -N1 --dl-learners=1 --dl-data=@digits shell.sh 'echo "at $DATA_DIR: $(cat $DATA_DIR/7)"')
  wait_state "$job" COMPLETED,FAILED 60
  assert_contains "$(output "$job")" "at $DL_SANDBOX_DIR/digits: seven"
  job=$(submit -N1 --dl-learners=1 --wrap 'DL_DATA=@digit exec dlrun -- true')
  wait_state "$job" FAILED 60
  assert_contains "$(output "$job")" "^dlrun: DL_DATA: '@digit' is not in the site's catalogue; allowed: @digits$"
}

@test "a source that is not there fails the job with one sentence, and it is not put back" {
  job=$(submit -N2 --requeue --dl-learners=2 --dl-data=none/here --dl-results="$PWD/out" shell.sh 'echo ran >ran')
  wait_state "$job" FAILED 60
  assert_contains "$(output "$job")" "^dlrun: the data could not be fetched on n[12]: .*$PWD/none/here.*"
  assert_contains "$(output "$job")" '^dlrun ended with 65'
  [ ! -e ran ]
  [ "$(job_field "$job" Restarts)" = 0 ]
  [ "$(jq -r 'select(.state == "FAILED" and .learner == null) | .code' "dl-$job/events.jsonl")" = C103 ]
  [[ $(job_field "$job" Comment) == *FAILED* ]]
}

@test "results are stored after a failure, which stays the job's" {
  job=$(submit -N1 --dl-learners=1 --dl-results="$PWD/out/%x-%j" -J mine shell.sh 'echo half >$RESULT_DIR/half; exit 3')
  wait_state "$job" FAILED 60
  [ "$(cat "out/mine-$job/results/half")" = half ]
  assert_contains "$(output "$job")" '^dlrun ended with 3'
  [ "$(states "$job")" = "DEPLOY PROCESSING STORING FAILED" ]
}

@test "a place that cannot be written fails a training that ended well, and says where the results are" {
  job=$(submit -N1 --dl-learners=1 --dl-results="$PWD/taken/out" shell.sh 'echo file >taken; echo all >$RESULT_DIR/all')
  wait_state "$job" FAILED 60
  assert_contains "$(output "$job")" "the results are not stored \(S303\): .*; they are in $PWD/dl-$job"
  assert_contains "$(output "$job")" '^dlrun ended with 65'
  [ "$(cat "dl-$job/results/all")" = all ]
  run dlctl results "$job" --fetch "$PWD/copy"
  assert_contains "$output" '^stored     no, after attempt 1'
  [ "$(cat copy/results/all)" = all ]
}

@test "preempted: results are stored within the grace period, and again at the end; warm data is not fetched twice" {
  job=$(submit -p borrow -N2 --exclusive --requeue --open-mode=append --dl-learners=2 --dl-data=set,cache=node --dl-results="$PWD/out" shell.sh \
    'cat $DATA_DIR/a; echo $DL_ATTEMPT >$RESULT_DIR/attempt-$DL_ATTEMPT; [ $DL_ATTEMPT = 2 ] && exit 0; trap "exit 0" TERM; while :; do sleep 0.1; done')
  wait_event "$job" PROCESSING 60
  other=$(submit -p batch -N2 --exclusive --wrap true)
  wait_event "$job" '^1 STORING' 60
  wait_event "$job" '^1 PENDING preempted: not saved' 60
  [ "$(cat "out/$job/results/attempt-1")" = 1 ]
  [ ! -e "out/$job/results/attempt-2" ]
  wait_state "$other" COMPLETED 60
  wait_completed "$job" 120
  [ "$(cat "out/$job/results/attempt-2")" = 2 ]
  [ "$(jq .fetched "dl-$job/data/fetch-n1.json")" = 0 ]
}

@test "paused: results are stored before the job is held" {
  job=$(submit -N1 --requeue --dl-learners=1 --dl-results="$PWD/out" shell.sh \
    'echo part >$RESULT_DIR/part; trap "exit 0" TERM; while :; do sleep 0.1; done')
  wait_event "$job" PROCESSING 60
  wait_for 20 "the learner has written" test -e "dl-$job/results/part"
  dlctl pause --force "$job"
  wait_event "$job" HALTED 30
  [ "$(cat "out/$job/results/part")" = part ]
  [ "$(states "$job")" = "DEPLOY PROCESSING STORING HALTED" ]
}

# silent_server: on the login host, one that takes connections and never answers; its port is in ./port.
silent_server() {
  rm -f port
  on_login python3 -c 'import os, socket
server = socket.create_server(("", 0))
open("pid", "w").write(str(os.getpid()))
open("port", "w").write(str(server.getsockname()[1]) + "\n")
held = []
while True: held.append(server.accept())' >/dev/null 2>&1 &
  wait_file port '^[0-9]+$' 20
  listener=$(cat pid)
}

@test "cancelled while data is fetched: status says so, it ends at once, and nothing is left" {
  silent_server
  address=$(on_login hostname -I | tr ' ' '\n' | grep -m1 '^10\.77\.')
  job=$(submit -N2 --dl-learners=2 --dl-data="https://$address:$(cat port)/x,checksum=sha256:$(printf '%064d' 0)" shell.sh 'echo ran >ran')
  wait_event "$job" '^1 DOWNLOADING' 60
  wait_for 20 "status tells of the fetch" says_data "$job"
  on_login scancel "$job"
  wait_state "$job" CANCELLED 30
  wait_for 30 "no dl-data runs" no_process 'libexec/slurm-dl/dl-data'
  wait_for 30 "no agent runs" no_process 'libexec/slurm-dl/dl-agent'
  [ ! -e ran ]
}
says_data() { dlctl status "$1" | grep -qE '^data +(looking at|fetching)'; }

@test "cancelled while results are stored, a job that was to be put back ends and does not come back" {
  command -v rclone >/dev/null || skip "there is no rclone here, and the store that does not end is one of its"
  silent_server
  address=$(on_login hostname -I | tr ' ' '\n' | grep -m1 '^10\.77\.')
  export RCLONE_CONFIG_LAB_TYPE=webdav RCLONE_CONFIG_LAB_URL
  RCLONE_CONFIG_LAB_URL="http://$address:$(cat port)/"
  # In the place of the batch script, dlrun lives until KillWait.
  printf '#!/bin/bash\nexec dlrun -- sh -c "$@"\n' >exec.sh
  job=$(submit -N1 --requeue --dl-learners=1 --dl-results=lab:out exec.sh \
    'echo part >$RESULT_DIR/part; trap "exit 0" TERM; while :; do sleep 0.1; done')
  wait_event "$job" PROCESSING 60
  wait_for 20 "the learner has written" test -e "dl-$job/results/part"
  dlctl pause --force "$job" >pause.out 2>&1 & # it waits until the job is held
  wait_event "$job" '^1 STORING' 60
  on_login scancel "$job"
  wait_event "$job" '^1 FAILED could not be put back: it was cancelled while its results were stored' 60
  wait_for 30 "no dl-data runs" no_process 'libexec/slurm-dl/dl-data'
  wait_state "$job" CANCELLED 60
  run ! has_event "$job" 'HALTED|PENDING'
}

# late_results [options of sbatch]: a job whose results have to go to a server that is silent until its time limit, which it brings near itself.
late_results() {
  command -v rclone >/dev/null || skip "there is no rclone here, and the store that does not end is one of its"
  silent_server
  address=$(on_login hostname -I | tr ' ' '\n' | grep -m1 '^10\.77\.'):$(cat port)
  printf '#!/bin/bash\nscontrol update jobid="$SLURM_JOB_ID" endtime=now+25\nexec dlrun -- sh -c "$@"\n' >late.sh
  job=$(RCLONE_CONFIG_LAB_TYPE=webdav RCLONE_CONFIG_LAB_URL="http://$address/" submit -N1 --no-requeue --time=10 --dl-learners=1 --dl-results=lab:out "$@" late.sh 'echo part >$RESULT_DIR/part')
}
# handed_over: waits until it is, and sets $later to the job that stores them then.
handed_over() {
  wait_file "slurm-$job.out" '^dlrun: job [0-9]+ stores the results: the time did not suffice$' 90
  later=$(sed -nE 's/^dlrun: job ([0-9]+) stores the results: .*/\1/p' "slurm-$job.out")
}

@test "results for which the time does not suffice are stored by a job without GPUs, which dlctl results finds" {
  late_results
  handed_over
  [ "$(job_field "$later" JobName)" = "dl-store-$job" ]
  [[ $(job_field "$later" TresPerNode) != *gpu* ]]
  wait_completed "$job" 60
  assert_contains "$(events "$job")" "^1 COMPLETED .*; job $later stores the results: the time did not suffice"
  assert_contains "$(dlctl results "$job")" "^stored     not yet, since attempt 1, .*: job $later does it \\((PENDING|RUNNING)\\)$"
  # The server answers from now on.
  kill_process "$listener"
  mkdir dav
  on_login rclone serve webdav --addr "$address" dav >dav.log 2>&1 &
  wait_state "$later" COMPLETED,FAILED 120
  [ "$(cat "dav/out/$job/results/part")" = part ]
  assert_contains "$(dlctl results "$job")" '^stored     yes, after attempt 1, '
  [ "$(dlctl results "$job" --json | jq .stored)" = true ]
}

@test "the job that stores late results is cancelled by its name, and where none can be submitted one sentence says so" {
  late_results
  handed_over
  on_login scancel --name="dl-store-$job"
  wait_state "$later" CANCELLED 60
  assert_contains "$(dlctl results "$job")" "^stored     no, after attempt 1, .*: the time did not suffice, and job $later, which was to do it, is CANCELLED; see "
  [ "$(dlctl results "$job" --json | jq -r '.store_job + " " + .store_job_state')" = "$later CANCELLED" ]
  kill_process "$listener"
  late_results -p borrow
  on_login scontrol update partitionname=batch state=inactive
  wait_file "slurm-$job.out" 'no job without GPUs could be submitted to store them: ' 90
  on_login scontrol update partitionname=batch state=up
  assert_contains "$(output "$job")" "^dlrun: the results are not stored: the time did not suffice, and no job without GPUs could be submitted to store them: .*artition.*; they are in $PWD/dl-$job$"
  [ -z "$(on_login squeue -h --name="dl-store-$job")" ]
}

# forged JOB DIR PLACE: of this job, a job directory of another user, whose record says that results are stored in PLACE.
forged() {
  cp -a "dl-$1" "$2"
  jq -n --arg to "$3" '{to: $to, done: true, attempt: 1, time_ms: 1}' >"$2/data/stored.json"
  chown -R nobody "$2"
}

@test "a forged record of results starts no program, and names no other place" {
  job=$(submit -N1 --dl-learners=1 --dl-results="$PWD/out" shell.sh 'echo mine >$RESULT_DIR/mine')
  wait_state "$job" COMPLETED,FAILED 60
  chmod 755 .
  mkdir bin copies
  chmod 777 copies
  printf '#!/bin/sh\necho "$@" "$HOME" >>%s/copies/rclone.said\n' "$PWD" >bin/rclone
  chmod 755 bin/rclone
  local place n=0
  for place in ':sftp,ssh="touch copies/hacked":x' 'lab,ssh=x:y' '--config=x:y' '-x:y' 'relative/place' 'https://host/x' ''; do
    forged "$job" "forged-$((n += 1))" "$place"
    PATH=$PWD/bin:$PATH run dlctl results "$PWD/forged-$n" --fetch "$PWD/copies/$n"
    echo "$place: $output"
    [ "$status" -ne 0 ]
    assert_contains "$output" 'the record of the job names no place for results'
    [ ! -e copies/rclone.said ]
  done
  # A remote is the owner's, of the owner's configuration.
  forged "$job" theirs lab:out
  PATH=$PWD/bin:$PATH run dlctl results "$PWD/theirs" --fetch "$PWD/copies/theirs"
  assert_contains "$(cat copies/rclone.said)" "^copy -- lab:out $PWD/copies/theirs $(getent passwd nobody | cut -d: -f6)$"
  # Whoever is not its owner gets what lies in the job directory, wherever the record points.
  mkdir secret
  echo other >secret/other
  forged "$job" mine "$PWD/secret"
  chmod -R a+rX mine secret
  run on_login setpriv --reuid=65533 --regid=65533 --clear-groups "$stage/bin/dlctl" results "$PWD/mine" --fetch "$PWD/copies/third"
  assert_contains "$output" 'from the job directory'
  [ "$(cat copies/third/results/mine)" = mine ]
  [ ! -e copies/third/other ]
}

# refused PATTERN COMMAND…: the command submits nothing, and says one sentence with PATTERN for it.
refused() {
  ! on_login "${@:2}" >said 2>&1 || return 1
  echo "${*:2}: $(cat said)"
  [ "$(grep -cE "$1" said)" = 1 ] || return 1
  [ -z "$(on_login squeue -h --name=refused)" ]
}

@test "a place that is not there is refused at submission, with one sentence" {
  echo file >taken
  printf '[lab]\ntype = s3\n' >rclone.conf
  chmod 600 rclone.conf
  export RCLONE_CONFIG=$PWD/rclone.conf
  printf 'path = "%s"\nsummary = "theirs"\ntenants = ["physics"]\n' "$PWD/set" >"$DL_SANDBOX_DIR/etc/datasets.d/theirs.toml"
  local ours=(sbatch -J refused --dl-learners=1 --wrap true) not_known="names a remote that is not in your rclone configuration"
  refused "dl: --dl-data: '$PWD/none': No such file" "${ours[@]}" --dl-data="$PWD/none"
  refused "dl: --dl-data: '@digit' is not in the site's catalogue; allowed: @digits, @theirs" "${ours[@]}" --dl-data=@digit
  refused "dl: --dl-data: 'lap:bucket' $not_known" "${ours[@]}" --dl-data=lap:bucket
  refused "dl: --dl-results: 'lap:out' $not_known" "${ours[@]}" --dl-results=lap:out
  refused "dl: --dl-results: '$PWD/taken/out' cannot be made" "${ours[@]}" --dl-results="$PWD/taken/out"
  refused "dl: --dl-checkpoint: objects: 'lap:ckpt' $not_known" "${ours[@]}" --dl-checkpoint=ckpt,objects=lap:ckpt
  ours=(dlrun --submit --learners 1 --job-name refused)
  refused "^dlrun: --data: $PWD/none/here: No such file" "${ours[@]}" --data none/here -- true
  refused "^dlrun: --data: '@theirs' is not for tenant 'chemistry'; allowed: a job of the account physics" "${ours[@]}" --account chemistry --data @theirs -- true
  refused "^dlrun: --results: '$PWD/taken/out' cannot be made" "${ours[@]}" --results taken/out -- true
  if command -v rclone >/dev/null; then
    refused "^dlrun: --results: 'lap:out' $not_known" "${ours[@]}" --results lap:out -- true
    chmod 644 rclone.conf
    refused "^dlrun: --data: $PWD/rclone.conf can be read by others" "${ours[@]}" --data lab:bucket -- true
  fi
  chmod 644 rclone.conf
  refused "dl: --dl-data: $PWD/rclone.conf can be read by others, with the credentials in it; chmod 600 it" sbatch -J refused --dl-learners=1 --dl-data=lab:bucket --wrap true
  [ -z "$(find . -name '*.sbatch')" ]
  # A script that chooses a configuration by itself is not second-guessed.
  printf '#!/bin/bash\nexport RCLONE_CONFIG=other\n' >own.sh
  on_login sbatch --dl-learners=1 --dl-data=lap:bucket own.sh
}

@test "a credential is refused at submission, and stands nowhere" {
  for place in https://ada:hunter2@host/x 'https://host/x?X-Amz-Signature=hunter2' ':s3,secret_access_key=hunter2:b' 'lab,secret_access_key=hunter2:b'; do
    run on_login sbatch --dl-learners=1 --dl-data="$place" --wrap true
    [ "$status" -ne 0 ]
    assert_contains "$output" 'dl: --dl-data: '
    # Slurm itself repeats the value, on the user's terminal alone.
    [[ $(grep -v 'Invalid --dl-data argument' <<<"$output") != *hunter2* ]]
  done
}
