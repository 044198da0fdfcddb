#!/usr/bin/env bats
# Connections between dlrun and its agents that break on the way, on one machine: nobody is ended for that.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup() {
  dlrun_setup
  [[ $(id -u) -eq 0 ]] || skip "needs root: it breaks connections of this machine"
  [[ -x $learner ]] || skip "built without HDF5"
}

# broken_off: resets the connections of the dlrun of ./job with its agents.
broken_off() { ss -HKt dport = "$(jq -r .port job/control.json)" >/dev/null; }
wait_step() {
  for _ in $(seq 100); do
    grep -qsE -- "$1" out && return 0
    sleep 0.1
  done
  cat out >&2
  return 1
}

# wait_taken_up N: until so many connections were taken up again.
wait_taken_up() {
  for _ in $(seq 200); do
    [ "$(grep -sc 'taken up again' job/events.jsonl)" -ge "$1" ] && return 0
    sleep 0.05
  done
  cat out >&2
  return 1
}

@test "connections that are reset again and again: the learners train on, and no train step is repeated" {
  "$dlrun" -n 2 -c ck,every=20steps --job-dir job -- "$learner" 300 30 >out 2>&1 3>&- &
  wait_step '^\[0\] saved at train step 20'
  for breaks in 1 2 3 4 5; do
    broken_off
    wait_taken_up $((2 * breaks))
  done
  status=0
  wait $! || status=$?
  [ "$status" -eq 0 ]
  contains "$(cat out)" '^\[1\] done: 300 counted, none lost'
  contains "$(cat out)" 'dlrun: learner [01] on .*: the connection to its agent was broken \(.*\) and taken up again after [0-9]+ ms'
  run grep -c 'attempt 2' out
  [ "$output" = 0 ]
  [ "$(grep -c 'taken up again' job/events.jsonl)" -ge 10 ]
  [ "$(jq -r 'select(.state == "FAILED")' job/events.jsonl)" = "" ]
}

@test "a learner that ends while its connection is broken again and again is heard of" {
  "$dlrun" -n 1 --job-dir job -- sh -c 'sleep 1; exit 7' >out 2>&1 3>&- &
  for _ in $(seq 100); do
    grep -qs PROCESSING job/events.jsonl && break
    sleep 0.02
  done
  sleep 0.3 # until datagrams have gone both ways, which nobody tells
  port=$(jq -r .port job/control.json)
  while [ -e job/control.json ]; do ss -HKt dport = "$port" >/dev/null; done
  status=0
  wait $! || status=$?
  [ "$status" -eq 7 ]
  contains "$(cat out)" 'learner 0 exited with code 7'
  contains "$(cat out)" 'taken up again'
}
