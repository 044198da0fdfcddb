#!/usr/bin/env bats
# dlrun without Slurm: what a researcher tries first, on the login node. Exit codes, signals, logs, bad input, MPI, and
# nothing left behind.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/job_directory.bash
source "$top_srcdir/tests/lib/job_directory.bash"
setup() {
  dlrun_setup
}

@test "four learners find their ranks, one master, and a log each" {
  run "$dlrun" --learners 4 -- sh -c 'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT id $LEARNER_ID"; echo err >&2'
  [ "$status" -eq 0 ]
  contains "$output" '^dlrun: 4 learners of generic on .*; logs in '"$PWD"'/dl-local-[0-9]+-[0-9]+-[0-9]+/logs/latest'
  for r in 0 1 2 3; do contains "$output" "^\[$r\] rank $r of 4 at 127\.0\.0\.1:[0-9]+ id $((r + 1))"; done
  [ "$(grep -oE '127.0.0.1:[0-9]+' <<<"$output" | sort -u | wc -l)" -eq 1 ]
  contains "$output" '^dlrun: completed in '
  run cat dl-local-*/logs/latest/learner-2.log
  contains "$output" '^rank 2 of 4'
  contains "$output" '^err$'
  [ "$(jq -r 'select(.learner==null).state' dl-local-*/events.jsonl | xargs)" = "DEPLOY PROCESSING COMPLETED" ]
  [ ! -e "$(echo dl-local-*/control.json)" ]
  # What is not in the table of the job directory has no business there.
  run strange_files dl-local-*/
  [ -z "$output" ]
  [ "$(jq .directory_version dl-local-*/plan.json)" = 1 ]
}

@test "one learner is not prefixed; its command is handed on exactly; no option of ours is taken out of it" {
  run "$dlrun" -q -n 1 --job-dir job -- printf '<%s>' a 'b c' -n -- --learners
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  [ "$(cat job/logs/latest/learner-0.log)" = '<a><b c><-n><--><--learners>' ]
  run "$dlrun" printf '%s\n' --help -q
  contains "$output" '^--help$'
}

@test "--alone: the only learner is told no rank, and what the user has set stays" {
  run env RANK=7 MASTER_PORT=123 "$dlrun" --alone -- sh -c 'echo "rank $RANK of ${WORLD_SIZE-none}, ${LOCAL_RANK-none}, ${MASTER_ADDR-none}:$MASTER_PORT, ours $DL_RANK, $LEARNER_ID"'
  [ "$status" -eq 0 ]
  contains "$output" '^rank 7 of none, none, none:123, ours 0, 1$'
}

@test "the exit status is the first cause: code, signal, missing command, not executable" {
  run "$dlrun" -n 2 -- sh -c '[ $RANK = 1 ] && exit 7; sleep 100'
  [ "$status" -eq 7 ]
  contains "$output" '^dlrun: learner 1 exited with code 7; its output: .*/learner-1.log'
  run "$dlrun" -n 2 -- sh -c '[ $RANK = 0 ] && kill -SEGV $$; sleep 100'
  [ "$status" -eq 139 ]
  contains "$output" 'learner 0 was killed by signal 11 \(SIGSEGV\)'
  run -127 "$dlrun" -- no-such-command
  touch plain
  run "$dlrun" -- ./plain
  [ "$status" -eq 126 ]
}

@test "closed standard files are no reason to fail" {
  for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- >&- 2>&-'; do
    rm -rf job
    run bash -c '"$0" -q -n 2 --job-dir job -- sh -c "echo rank \$RANK; echo \$RANK >>\"$1\"" '"$closed" "$dlrun" "$PWD/ran"
    [ "$status" -eq 0 ]
    [ "$(cat job/logs/latest/learner-1.log)" = 'rank 1' ]
    [ "$(tail -n 1 job/events.jsonl | jq -r .state)" = COMPLETED ]
  done
  [ "$(wc -l <ran)" -eq 10 ] # each ran once
}

@test "learner 0 reads what dlrun is given, and no other learner" {
  run bash -c 'printf "one\ntwo\n" | "$0" -n 2 -- sh -c "sed s/^/\$RANK:/"' "$dlrun"
  [ "$status" -eq 0 ]
  [ "$(grep '^\[' <<<"$output")" = $'[0] 0:one\n[0] 0:two' ]
  echo 'from a file' >words
  run bash -c '"$0" -- cat <words' "$dlrun"
  contains "$output" '^from a file$'
}

@test "a failure ends the others at once, and what they detached" {
  begin=$SECONDS
  run "$dlrun" -n 3 -- sh -c 'setsid sleep 314159 & trap "" TERM; [ $RANK = 2 ] && { sleep 0.3; exit 4; }; sleep 314160'
  [ "$status" -eq 4 ]
  ((SECONDS - begin < 10))
  gone 'sleep 3141(59|60)'
}

@test "processes left behind by a learner that ended well are ended, and said" {
  run "$dlrun" -- sh -c 'setsid sleep 271828 & sleep 0.2'
  [ "$status" -eq 0 ]
  contains "$output" 'learner 0 left processes behind \([0-9]+\)'
  gone 'sleep 271828'
}

@test "restarts: as often as asked, each in its own log" {
  run "$dlrun" -n 2 -r 2 --job-dir job -- sh -c 'echo "attempt $DL_ATTEMPT"; [ $DL_ATTEMPT = 3 ] || exit 9'
  [ "$status" -eq 0 ]
  contains "$output" 'exited with code 9; restart 2 of 2'
  # plan.json is the newest attempt's.
  [ "$(jq -r '.attempt, .log_dir, .learners[0].log' job/plan.json | xargs)" = \
    "3 $PWD/job/logs/attempt-3 $PWD/job/logs/attempt-3/learner-0.log" ]
  contains "$(cat job/logs/attempt-2/learner-?.log)" 'attempt 2'
  run "$dlrun" -r 1 -- sh -c 'exit 9'
  [ "$status" -eq 9 ]
}

@test "restarts with data: each attempt has it fetched, one dl-data of the job holds it, and none is left" {
  mkdir set && echo 7 >set/x
  export top=$PWD
  printf '[data]\ncache = "%s"\n' "$PWD/cache" >>dl.toml
  run "$dlrun" -r 2 --job-dir job --data "$PWD/set,cache=node" -- sh -c '
    echo "attempt $DL_ATTEMPT: $(cat $DATA_DIR/x), $(pgrep -fc "dl-data fetch --hold --sources $top/job"), ${DL_CONTROL_DATA-none}"
    sleep 0.5; [ $DL_ATTEMPT = 3 ] || exit 9'
  [ "$status" -eq 0 ]
  [ "$(cat job/logs/attempt-?/learner-?.log | grep -c '^attempt [123]: 7, 1, none$')" -eq 3 ]
  run ! pgrep -f "dl-data fetch --hold --sources $PWD/job"
}

@test "SIGTERM: learners get it and may end in order; the shell's status is told" {
  "$dlrun" -n 2 --job-dir job -- sh -c 'trap "echo told; exit 0" TERM; echo ready; while :; do sleep 0.1; done' >out 2>&1 3>&- &
  pid=$!
  wait_grep ready job/logs/attempt-1/learner-0.log
  wait_grep ready job/logs/attempt-1/learner-1.log
  pid=$(jq -r .pid job/control.json)
  kill -TERM "$pid"
  status=0
  wait $! || status=$?
  [ "$status" -eq 143 ]
  contains "$(cat out)" '^\[0\] told'
}

@test "Ctrl-C: learners that use the library save at one train step, and a second run goes on there" {
  [[ -x $learner ]] || skip "built without HDF5"
  "$dlrun" -n 3 -c ck --job-dir job -- "$learner" 100000 20 >out 2>&1 3>&- &
  for _ in $(seq 150); do
    [[ $("$top_builddir/launcher/ctl/dlctl" status --json "$PWD/job" | jq '.[0].step') == [0-9]* ]] && break
    sleep 0.1
  done
  kill -INT "$(jq -r .pid job/control.json)"
  status=0
  wait $! || status=$?
  [ "$status" -eq 75 ]
  [ "$(sed -nE 's/^\[.\] saved at train step ([0-9]+): ok/\1/p' out | sort -u | wc -l)" -eq 1 ]
  step=$(sed -nE 's/^\[0\] saved at train step ([0-9]+): ok/\1/p' out)
  run "$dlrun" -n 2 -c ck -- "$learner" "$((step + 5))" 1
  [ "$status" -eq 0 ]
  contains "$output" "^\[1\] attempt 1 starts at train step $step with $step counted"
  contains "$output" '^\[1\] done: .* none lost'
}

@test "dlrun killed: agents end everything" {
  "$dlrun" -n 2 --job-dir job -- sh -c 'setsid sleep 161803 & echo ready; sleep 161804' >out 2>&1 3>&- &
  wait_grep ready job/logs/attempt-1/learner-1.log
  kill -9 "$(jq -r .pid job/control.json)"
  gone 'sleep 16180(3|4)'
}

@test "an agent killed: named, the rest is ended, the detached child too" {
  "$dlrun" -n 2 --job-dir job -- sh -c 'setsid sleep 141421 & echo ready; sleep 100' >out 2>&1 3>&- &
  wait_grep ready job/logs/attempt-1/learner-1.log
  pid=$(jq -r .pid job/control.json)
  kill -9 "$(pgrep -P "$pid" -f dl-agent | head -n 1)"
  status=0
  wait $! || status=$?
  [ "$status" -eq 74 ]
  contains "$(cat out)" 'was lost: its agent \(dl-agent\) on .* was killed'
  gone 'sleep 141421'
}

@test "two runs on one checkpoint directory: the second is refused, and says who holds it" {
  [[ -x $learner ]] || skip "built without HDF5"
  "$dlrun" -c ck --job-dir job -- "$learner" 100000 20 >out 2>&1 3>&- &
  wait_grep 'starts at' job/logs/attempt-1/learner-0.log
  run "$dlrun" -c ck -- "$learner" 5 1
  [ "$status" -eq 73 ]
  contains "$output" 'dlrun: checkpoint directory: .*dlrun local-'
  kill -INT "$(jq -r .pid job/control.json)"
  wait $! || true
}

@test "bad input is refused with the value and what is allowed, and starts nothing" {
  refused() {
    local pattern=$1
    shift
    run "$dlrun" "$@"
    [ "$status" -eq 2 ] || { echo "status $status: $output" >&2; return 1; }
    contains "$output" "$pattern"
  }
  refused 'no command given'
  refused 'no command given' --learners 2 --
  refused '--learners.*0' --learners 0 -- true
  refused '--learners.*x' --learners x -- true
  refused '--learners.*4:2' --learners 4:2 -- true
  refused 'nosuch.*known:.*generic' --framework nosuch -- true
  refused '--gpus' --gpus -1 -- true
  refused '--checkpoint.*every' --checkpoint ck,every=never -- true
  refused '--restarts' --restarts -1 -- true
  refused '--grace' --grace soon -- true
  refused '--placement.*block' --placement heap -- true
  refused '--alone: .*but there are 4; allowed: --learners 1' --alone --learners 4 -- true
  refused '--json' --json -- true
  refused 'no-such-option' --no-such-option -- true
  CUDA_VISIBLE_DEVICES=0,1 refused 'needs 1 learner x 3 GPUs but this machine has 2 GPUs; allowed: --gpus=0' --gpus 3 -- true
  DL_LEARNERS=many refused 'DL_LEARNERS.*many' -- true
  echo 'nonsense = 1' >dl.toml
  refused 'dl.toml' -- true
  run ls
  [ "$output" = $'cat\ndl.toml' ]
}

@test "folders that cannot be made are named" {
  run "$dlrun" --job-dir /proc/none -- true
  [ "$status" -eq 73 ]
  contains "$output" '/proc/none'
  run "$dlrun" -c /proc/none -- true
  [ "$status" -eq 73 ]
  contains "$output" 'checkpoint directory: .*/proc/none'
}

@test "help and version" {
  run "$dlrun" --help
  [ "$status" -eq 0 ]
  contains "$output" 'dlrun --learners 4 -- python3 train.py'
  run "$dlrun" --version
  contains "$output" '^dlrun \(slurm-dl\) [0-9]'
  run "$dlrun" --dry-run -n 2 --json -- true
  [ "$(jq '.command[0]' <<<"$output")" = '"true"' ]
}

@test "--submit without Slurm trains here; what is only for it is refused without it" {
  # sbatch may be installed; this machine has none in this PATH.
  mkdir bin && for program in sh echo env; do ln -s "$(command -v $program)" bin/; done
  run env PATH="$PWD/bin" "$dlrun" --submit -n 2 --time 1:00 --partition gpu -- sh -c 'echo "rank $RANK"'
  [ "$status" -eq 0 ]
  contains "$output" '^dlrun: --submit: there is no Slurm here \(no sbatch in PATH\); the learners run on this machine'
  contains "$output" '^\[1\] rank 1'
  [ -z "$(compgen -G '*.sbatch')" ]
  run "$dlrun" --time 5 -- true
  [ "$status" -eq 2 ]
  contains "$output" '^dlrun: --time: is an option of the batch script that --submit writes; allowed: '
  run "$dlrun" --submit --sbatch=exclusive -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: --sbatch: 'exclusive' is not an option of sbatch; allowed: --NAME or --NAME=VALUE"
}

@test "an MPI program is known by itself and runs through mpirun; its first failure is the cause" {
  mpicc -o allreduce "$top_srcdir/tests/cluster/mpi_allreduce.c" 2>/dev/null || skip "no mpicc"
  run "$dlrun" -n 3 -- ./allreduce
  [ "$status" -eq 0 ]
  contains "$output" 'allreduce is an MPI program: started through mpirun'
  contains "$output" '^\[2\] rank 2 of 3 on .*: sum 3'
  run "$dlrun" -n 2 -f mpi -- sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 6; sleep 100'
  [ "$status" -eq 6 ]
}

@test "an MPI program runs where neither ssh nor rsh is installed" {
  mpicc -o allreduce "$top_srcdir/tests/cluster/mpi_allreduce.c" 2>/dev/null || skip "no mpicc"
  mkdir bin
  local program
  for program in /usr/bin/*; do
    case $program in */ssh | */rsh) ;; *) ln -s "$program" bin/ ;; esac
  done
  PATH=$PWD/bin run "$dlrun" -n 2 -- ./allreduce
  [ "$status" -eq 0 ]
  contains "$output" '^\[1\] rank 1 of 2 on .*: sum 1'
}

@test "PyTorch's store listens on the held port" {
  python=$(command -v /usr/bin/python3) && "$python" -c 'import torch.distributed' 2>/dev/null || skip "no torch"
  run "$dlrun" -n 2 -f pytorch -- "$python" -c '
import torch, torch.distributed as d
d.init_process_group("gloo"); t = torch.ones(1) * d.get_rank(); d.all_reduce(t); print("sum", t.item()); d.barrier()'
  [ "$status" -eq 0 ]
  contains "$output" '^\[1\] sum 1.0'
}

@test "a request that an earlier run left behind stops nothing, and is removed; a fresh one is obeyed" {
  mkdir job
  echo '{"action":"pause","reason":"left behind"}' >job/request.json
  touch -d '1 hour ago' job/request.json
  run "$dlrun" --job-dir job -- sleep 2
  [ "$status" -eq 0 ]
  contains "$output" 'request.json is older than this run'
  [ ! -e job/request.json ]
  "$dlrun" --job-dir job -- sleep 100 >out 2>&1 3>&- &
  pid=$!
  wait_grep '"attempt":2,.*PROCESSING' job/events.jsonl
  echo '{"action":"pause","reason":"by file"}' >job/request.json
  wait_grep 'by file' out
  wait "$pid" || [ $? -eq 76 ]
  [ ! -e job/request.json ]
}

@test "a job directory has one dlrun at a time: another is refused with its name, and takes over when it is gone" {
  "$dlrun" --job-dir job -- sleep 100 >out 2>&1 3>&- &
  pid=$!
  wait_grep PROCESSING job/events.jsonl
  before=$(wc -l <job/events.jsonl)
  run "$dlrun" --job-dir job -- true
  [ "$status" -eq 73 ]
  [ "$(wc -l <<<"$output")" -eq 1 ]
  contains "$output" "^dlrun: .*/job is in use by dlrun of job local-[0-9-]+ on [^ ]+ \(process [0-9]+\)"
  [ "$(wc -l <job/events.jsonl)" -eq "$before" ]
  # While the other one dies it is waited for.
  (sleep 1; pkill -KILL -P "$pid"; kill -KILL "$pid") 3>&- &
  run "$dlrun" --job-dir job -- true
  [ "$status" -eq 0 ]
}

@test "the last words of dlrun come behind the last output, also where that is read slowly" {
  run bash -c '"$1" -n 2 -- seq 40000 2>&1 | { sleep 1; tail -n 1; }' - "$dlrun"
  contains "$output" '^dlrun: completed in '
  run bash -c '"$1" -n 2 -- sh -c "seq 40000; exit 3" 2>&1 | { sleep 1; tail -n 11; } | grep -v "^dlrun: "' - "$dlrun"
  [ -z "$output" ]
}

@test "logs: when they were written is recorded, an old attempt's are compressed, and dlctl reads them all" {
  cat >chatty.sh <<'SH'
echo "first of $DL_ATTEMPT"
seq -f "attempt $DL_ATTEMPT, line %06g" 20000
sleep 3
echo "last of $DL_ATTEMPT"
sleep 1
[ "$DL_ATTEMPT" = 4 ]
SH
  dlctl=$top_builddir/launcher/ctl/dlctl
  run "$dlrun" --learners 2 --restarts 3 --quiet --job-dir job -- sh chatty.sh
  [ "$status" -eq 0 ]
  for attempt in 1 2 3 4; do [ -s job/logs/attempt-$attempt/index.bin ]; done
  [ "$(head -c 8 job/logs/attempt-4/index.bin)" = DLLOGIX1 ]
  [ -f job/logs/attempt-1/learner-0.log.zst ]
  [ ! -e job/logs/attempt-1/learner-0.log ]
  [ -f job/logs/attempt-3/learner-1.log ]
  [ -f job/logs/attempt-4/learner-1.log ]
  [ "$("$dlctl" logs job --attempt 1 | wc -l)" = 20002 ]
  [ "$("$dlctl" logs job --attempt 1 | tail -n 1)" = '[0-1] last of 1' ]
  # The last line came three seconds after the others.
  began=$(jq -rs '[.[] | select(.attempt == 4)][0].time_ms / 1000 | floor' job/events.jsonl)
  [ "$("$dlctl" logs job --attempt 4 --since "@$((began + 3))" 2>said)" = '[0-1] last of 4' ]
  [ ! -s said ]
  rm job/logs/attempt-4/index.bin
  run "$dlctl" logs job --attempt 4 --since "@$((began + 3))"
  contains "$output" 'the times of attempt 4 were not recorded; they are estimated'
}

@test "a log that cannot be written (a full disk) is said at once, in the status, and at the end" {
  mkdir -p job/logs/attempt-1
  ln -s /dev/full job/logs/attempt-1/learner-0.log
  "$dlrun" -q --job-dir job -n 2 -- sh -c 'echo began; until [ -e go ]; do sleep 0.1; done' >out 2>&1 3>&- &
  pid=$!
  wait_grep '^dlrun: learner 0: write .*/learner-0.log: No space left on device; it goes on, but its log lacks what' out
  run "$top_builddir/launcher/ctl/dlctl" status "$PWD/job"
  contains "$output" 'its log is incomplete: write .*: No space left on device'
  touch go
  wait "$pid"
  contains "$(tail -n 1 out)" '^dlrun: 1 log is incomplete: [0-9]+ B of output could not be written \(write '
  contains "$(tail -n 1 job/events.jsonl)" '"COMPLETED".*1 log is incomplete'
}

@test "--learners auto is a learner for each GPU of this machine, or for each --gpus of them" {
  run env CUDA_VISIBLE_DEVICES=0,1,2,3 "$dlrun" --learners auto --dry-run --json -- true
  [ "$(jq -r '"\(.world_size) \(.gpus_per_learner)"' <<<"$output")" = "4 1" ]
  run env CUDA_VISIBLE_DEVICES=0,1,2,3 "$dlrun" --learners auto --gpus 2 --dry-run --json -- true
  [ "$(jq -r '"\(.world_size) \(.gpus_per_learner)"' <<<"$output")" = "2 2" ]
  run env CUDA_VISIBLE_DEVICES= "$dlrun" --learners auto -- true
  [ "$status" -eq 0 ]
  contains "$output" 'dlrun: --learners auto: there are no GPUs here, so one learner is started; --learners N starts more'
  run env CUDA_VISIBLE_DEVICES=0 "$dlrun" --learners auto --gpus 2 --dry-run -- true
  [ "$status" -eq 2 ]
  contains "$output" 'no node has 2 GPUs, as --gpus asks for each learner; there is 1 GPU on 1 node'
  run "$dlrun" --submit --learners auto -- true
  [ "$status" -eq 2 ]
  contains "$output" "--learners: 'auto' takes the GPUs of a job that runs"
}

@test "--debug: a breakpoint in learner 0 is answered at a terminal, though it stands still, and only its output is shown" {
  command -v script >/dev/null || skip "needs the program script of util-linux"
  cat >debugged.py <<'END'
import os
x = 40 + int(os.environ["WORLD_SIZE"])
print("hello from", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "0":
    breakpoint()
print("x is", x, flush=True)
END
  line="'$dlrun' --debug --learners 2 --hang-timeout 1s -- /usr/bin/python3 debugged.py"
  # What is typed comes late, after the time in which a learner that stands still would have been killed.
  (wait_grep '\(Pdb\)' typescript && sleep 2 && printf 'p x\nx = 7\n' && wait_grep '^(\(Pdb\) )?42' typescript && printf 'continue\n' &&
    wait_grep 'completed in' typescript) |
    timeout 180 script -q -e -f -c "$line" typescript >shown.txt 2>&1 3>&-
  cat typescript
  grep -qE '^(\(Pdb\) )?42' typescript
  grep -qE 'x is 7' typescript
  grep -qE 'completed in' typescript
  run ! grep -qE 'hello from 1' typescript
  grep -qE 'hello from 1' dl-local-*/logs/attempt-1/learner-1.log
}

@test "what is printed and cannot be written is an error" {
  [ -c /dev/full ] || skip "no /dev/full"
  for words in --help --version '--dry-run -- true' '--dry-run --json -- true'; do
    # shellcheck disable=SC2016,SC2086  # expanded by that shell; several words on purpose
    run sh -c '"$@" >/dev/full' sh "$dlrun" $words
    [ "$status" -eq 73 ]
    contains "$output" '^dlrun: standard output: No space left on device$'
  done
}

@test "--debug: a breakpoint() in every learner stops learner 0 alone" {
  printf 'import os\nbreakpoint()\nprint("rank", os.environ["RANK"], os.environ.get("PYTHONBREAKPOINT"), flush=True)\n' >all.py
  run bash -c "echo continue | '$dlrun' --debug --learners 2 -- /usr/bin/python3 all.py"
  [ "$status" -eq 0 ]
  contains "$output" 'rank 0 None$'
  grep -qx 'rank 1 0' dl-local-*/logs/attempt-1/learner-1.log
  rm -r dl-local-*
  run bash -c "echo continue | PYTHONBREAKPOINT=os.getpid '$dlrun' --debug --learners 2 -- /usr/bin/python3 all.py"
  grep -qx 'rank 1 os.getpid' dl-local-*/logs/attempt-1/learner-1.log
}

@test "--debug takes a debugger's commands from a pipe, and is refused where nobody can answer" {
  printf 'import sys\nprint("got", sys.stdin.readline().strip())\n' >reads.py
  run bash -c "echo words | '$dlrun' --debug --learners 2 -- /usr/bin/python3 reads.py"
  [ "$status" -eq 0 ]
  contains "$output" '^got words$'
  run bash -c "'$dlrun' --debug -- true </dev/null"
  [ "$status" -eq 2 ]
  contains "$output" '--debug: standard input is no terminal, so nobody can answer a debugger; allowed: '
  run "$dlrun" --debug --submit -- true
  [ "$status" -eq 2 ]
  contains "$output" 'salloc, then dlrun --debug'
}

@test "a job directory that cannot be made names the option, with a check of nodes and without" {
  local options
  for options in --quiet --preflight=quick; do
    run "$dlrun" "$options" --job-dir /proc/nowhere -- true
    [ "$status" -eq 73 ]
    contains "$output" '^dlrun: .*/proc/nowhere.*; (allowed|name a folder).*--job-dir'
  done
}

@test "an image that is asked for by its digest is that one, or nothing is started" {
  local image='odd \name.sqfs' right
  echo 'not really an image' >"$image"
  right=$(sha256sum <"$image" | cut -c 1-64)
  run "$dlrun" --image "$PWD/$image@sha256:$right" -- true
  [[ $output != *digest* ]] # whatever the container runtime says of it, if there is one
  run "$dlrun" --image "$PWD/$image@sha256:$(printf '0%.0s' {1..64})" -- touch started
  [ "$status" -eq 2 ]
  contains "$output" "has the digest sha256:$right, and sha256:0{64} was asked for; allowed: "
  [ ! -e started ]
  mkdir folder.sqfs
  run "$dlrun" --image "$PWD/folder.sqfs@sha256:$right" -- true
  [ "$status" -eq 2 ]
  contains "$output" 'folder.sqfs cannot be checked by its digest: .*; allowed: a file'
}

@test "an empty --job-dir is refused: the working directory is nobody's job directory" {
  run "$dlrun" --job-dir "" -- true
  [ "$status" -eq 2 ]
  contains "$output" '^dlrun: --job-dir: the value is empty; allowed: a path'
  [ ! -e events.jsonl ]
}

@test "a job directory of a site that is named by user and job is used without Slurm, too, and found again" {
  cp "$DL_CONFIG" named.toml
  printf '[launcher]\njob_dir = "jobs/%%u/%%x-%%j"\n' >>named.toml
  DL_CONFIG=$PWD/named.toml run "$dlrun" -q -- /usr/bin/env true
  [ "$status" -eq 0 ]
  [ -e "$(echo "jobs/$(id -un)"/env-local-*/events.jsonl)" ]
  mkdir -p "jobs/$(id -un)/other" && cp "jobs/$(id -un)"/env-local-*/*.json* "jobs/$(id -un)/other"
  run "$top_builddir/launcher/ctl/dlctl" status --ended "jobs/$(id -un)"
  [ "$status" -eq 0 ]
  contains "$output" '^local-[0-9-]+ +COMPLETED'
  [ "$(grep -c COMPLETED <<<"$output")" -eq 1 ] # a copy lies where its plan does not say
}
