#!/usr/bin/env bats
# dlrun without Slurm that dies: its guard ends what it left, and another takes its place, from the newest checkpoint. And that
# nothing else has changed for those who call it: exit statuses, signals, the terminal.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() { dlrun_setup; }

its_pid() { jq -r .pid job/control.json; }
# ends_with STATUS: dlrun, whose guard is $guard.
ends_with() {
  local status=0
  wait "$guard" || status=$?
  [ "$status" = "$1" ] || { echo "ended with $status, not $1" >&2; cat out >&2; return 1; }
}
# dead PID: it has ended, or is about to be reaped.
dead() {
  for _ in $(seq 50); do
    grep -qsE '^State:\s+[^ZX]' "/proc/$1/status" || return 0
    sleep 0.1
  done
  return 1
}
need_learner() { [[ -x $learner ]] || skip "built without HDF5"; }

@test "killed in mid-training: another goes on from the newest checkpoint at once, no train step lost or counted twice" {
  need_learner
  "$dlrun" -n 2 -c ck,every=10steps --job-dir job -- "$learner" 120 20 >out 2>&1 3>&- &
  guard=$!
  wait_grep '^\[0\] saved at train step 20' out
  first=$(its_pid)
  [ "$(cat "/proc/$guard/comm")" = dl-guard ]
  [ "$(cat "/proc/$first/comm")" != dl-guard ]
  [ "$first" != "$guard" ]
  kill -9 "$first"
  wait_grep 'attempt 2 starts' job/logs/attempt-2/learner-0.log
  [ "$(its_pid)" != "$first" ]
  ends_with 0
  contains "$(cat out)" '^dlrun: dlrun was killed by signal 9 \(SIGKILL\); another has taken its place'
  contains "$(cat out)" '^\[1\] attempt 2 starts at train step [2-9]0 with [2-9]0 counted'
  for r in 0 1; do contains "$(cat out)" "^\[$r\] done: 120 counted, none lost"; done
  contains "$(jq -c 'select(.learner == null and .attempt == 2 and .state == "DEPLOY")' job/events.jsonl)" \
    '"reason":"restart of dlrun: dlrun was killed by signal 9 \(SIGKILL\)","code":"S105"'
  [ "$(find . -maxdepth 1 -name 'dl-local-*' | wc -l)" = 0 ]
  [ ! -e job/control.json ]
  [ ! -e ck/LEASE ]
  gone "$learner 120 20"
}

@test "a crash is answered like a kill; the default job directory stays the same" {
  need_learner
  "$dlrun" -n 2 -c ck,every=10steps -- "$learner" 60 20 >out 2>&1 3>&- &
  guard=$!
  wait_grep '^\[0\] saved at train step 20' out
  kill -SEGV "$(jq -r .pid dl-local-*/control.json)"
  ends_with 0
  contains "$(cat out)" 'dlrun was killed by signal 11 \(SIGSEGV\); another'
  contains "$(cat out)" '^\[1\] done: 60 counted, none lost'
  [ "$(find . -maxdepth 1 -name 'dl-local-*' | wc -l)" = 1 ]
}

@test "a job without checkpoints begins anew where restarts are allowed; else it has failed, and its events say so" {
  "$dlrun" -n 2 -r 1 --job-dir job -- sh -c 'echo "attempt $DL_ATTEMPT"; [ "$DL_ATTEMPT" = 2 ] || sleep 112358' >out 2>&1 3>&- &
  guard=$!
  wait_grep 'attempt 1' job/logs/attempt-1/learner-1.log
  kill -9 "$(its_pid)"
  ends_with 0
  contains "$(cat out)" '^\[1\] attempt 2'
  gone 'sleep 112358'
  rm -r job
  "$dlrun" -n 2 --job-dir job -- sh -c 'setsid sleep 112359 & echo ready; sleep 112359' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-1.log
  kill -9 "$(its_pid)"
  ends_with 137
  contains "$(cat out)" '^dlrun: dlrun was killed by signal 9 \(SIGKILL\); class launcher \(S105, ours\)'
  contains "$(tail -n 1 job/events.jsonl)" '"state":"FAILED","reason":"dlrun was killed by signal 9 \(SIGKILL\)","code":"S105","exit":137'
  [ ! -e job/control.json ]
  gone 'sleep 112359'
}

@test "three times within an hour, no fourth" {
  "$dlrun" -n 1 -r 1 --job-dir job -- sh -c 'sleep 132134' >out 2>&1 3>&- &
  guard=$!
  for attempt in 1 2 3 4; do
    wait_grep "\"attempt\":$attempt,\"state\":\"PROCESSING\"" job/events.jsonl
    kill -9 "$(its_pid)"
  done
  ends_with 137
  contains "$(cat out)" 'dlrun was killed by signal 9 \(SIGKILL\); dlrun may be started again 3 times within an hour'
  gone 'sleep 132134'
}

@test "a process that a learner left is ended before another dlrun begins, and so is an agent that stands still" {
  "$dlrun" -n 2 -r 1 --job-dir job -- sh -c 'setsid sleep 235711 & echo ready; [ "$DL_ATTEMPT" = 2 ] || sleep 235711' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-1.log
  wait_grep '"learner":1,"state":"PROCESSING"' job/events.jsonl
  dead=$(its_pid)
  agent=$(pgrep -P "$dead" -f dl-agent | head -n 1)
  kill -STOP "$agent"
  kill -9 "$dead"
  ends_with 0
  dead "$agent"
  gone 'sleep 235711'
}

@test "the guard killed: nothing is left" {
  "$dlrun" -n 2 -r 3 --job-dir job -- sh -c 'setsid sleep 577215 & echo ready; sleep 577215' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-1.log
  dlrun_pid=$(its_pid)
  kill -9 "$guard"
  gone 'sleep 577215'
  dead "$dlrun_pid"
}

# As a terminal does it: to the whole process group.
@test "one Ctrl-C has the learners save and ends with 75; two end all at once" {
  need_learner
  setsid "$dlrun" -n 2 -c ck,every=10steps --job-dir job -- "$learner" 100000 20 >out 2>&1 3>&- &
  guard=$!
  wait_grep '^\[1\] saved at train step 10: ok' out # both train, and take requests
  kill -INT -- "-$guard"
  ends_with 75
  contains "$(cat out)" '^\[0\] stops at train step [0-9]+ with code 75'
  rm -r job
  setsid "$dlrun" -n 2 --grace 60s --job-dir job -- sh -c 'trap "" INT TERM; echo ready; while :; do sleep 0.2; done' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-0.log
  wait_grep ready job/logs/attempt-1/learner-1.log
  wait_grep '"learner":1,"state":"PROCESSING"' job/events.jsonl
  begin=$SECONDS
  kill -INT -- "-$guard"
  wait_grep 'asking the learners to end' out
  sleep 0.4 # within 0.3 s another Ctrl-C counts as the same
  run ! grep -q 'stopping at once' out
  kill -INT -- "-$guard"
  ends_with 130
  contains "$(cat out)" 'stopping at once'
  ((SECONDS - begin < 20))
}

@test "signals to the guard and to dlrun itself mean the same; exit codes come through" {
  for whom in guard dlrun; do
    rm -rf job
    "$dlrun" -n 1 --job-dir job -- sh -c 'trap "echo told; exit 0" TERM; echo ready; while :; do sleep 0.1; done' >out 2>&1 3>&- &
    guard=$!
    wait_grep ready job/logs/attempt-1/learner-0.log
    wait_grep '"learner":0,"state":"PROCESSING"' job/events.jsonl
    if [ "$whom" = guard ]; then kill -TERM "$guard"; else kill -TERM "$(its_pid)"; fi
    ends_with 143
    [ "$(grep -c told out)" = 1 ]
  done
  for code in 0 3 70 93; do
    run "$dlrun" -q -- sh -c "exit $code"
    [ "$status" -eq "$code" ]
  done
}

# Starts a learner that does not end at SIGTERM, within a grace period of a minute.
train_on_at_sigterm() {
  "$dlrun" -n 1 -r 3 --grace 60s --job-dir job -- sh -c 'trap "" TERM; echo ready; while :; do sleep 0.2; done' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-0.log
  wait_grep '"learner":0,"state":"PROCESSING"' job/events.jsonl
}

@test "a kill after a stop was asked for is the end" {
  train_on_at_sigterm
  kill -TERM "$guard"
  wait_grep 'asking the learners to end' out
  kill -9 "$(its_pid)"
  ends_with 137
  run ! grep -q 'another has taken' out
}

@test "a stop that dlrun itself had accepted when it was killed: another carries it out, and does not train on" {
  train_on_at_sigterm
  kill -TERM "$(its_pid)"
  wait_grep 'asking the learners to end' out
  contains "$(cat job/events.jsonl)" '"state":"PROCESSING","reason":"to be stopped: a signal"'
  kill -9 "$(its_pid)"
  ends_with 143
  contains "$(tail -n 1 job/events.jsonl)" '"state":"HALTED","reason":"interrupted: dlrun died before the learners had saved"'
  run ! grep -q '"attempt":2' job/events.jsonl
}

@test "a dlrun that is killed before it has begun leaves nothing of an earlier run to the one in its place" {
  "$dlrun" -n 1 --job-dir job -- sleep 161803 >out 2>&1 3>&- &
  guard=$!
  wait_grep '"learner":0,"state":"PROCESSING"' job/events.jsonl
  echo '{"action":"pause","reason":"a demo"}' >job/request.json
  ends_with 76
  contains "$(tail -n 1 job/events.jsonl)" '"HALTED","reason":"paused: '
  # The first dlrun waits for this lock when it is killed.
  exec 9>>job/dlrun.lock
  flock 9
  "$dlrun" -n 1 -r 1 --job-dir job -- echo trained >out 2>&1 3>&- 9>&- &
  guard=$!
  for _ in $(seq 100); do
    first=$(pgrep -P "$guard") && readlink "/proc/$first/fd/"* | grep -q '/dlrun\.lock$' && break
    sleep 0.05
  done
  kill -9 "$first"
  exec 9>&-
  ends_with 0
  contains "$(cat out)" '^dlrun: dlrun was killed by signal 9 \(SIGKILL\); another has taken its place'
  contains "$(cat out)" '^trained'
}

# With a terminal and job control, as in a shell of a person.
@test "Ctrl-Z stops dlrun and its guard, fg goes on" {
  "$dlrun" -n 1 --job-dir job -- sh -c 'echo ready; for i in $(seq 20); do sleep 0.1; done' >out 2>&1 3>&- &
  guard=$!
  wait_grep ready job/logs/attempt-1/learner-0.log
  child=$(its_pid)
  kill -TSTP "$guard"
  for _ in $(seq 50); do
    [ "$(ps -o stat= -p "$guard" | cut -c1)$(ps -o stat= -p "$child" | cut -c1)" = TT ] && break
    sleep 0.1
  done
  [ "$(ps -o stat= -p "$guard" | cut -c1)$(ps -o stat= -p "$child" | cut -c1)" = TT ]
  kill -CONT "$guard"
  ends_with 0
}
