#!/usr/bin/env bats
# dlctl why of jobs that no tenant owns: Slurm's own reason in words, with the numbers behind it.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 2 --slurmdbd
  [[ -z $DL_NO_CLUSTER ]] || return 0
  on_login sacctmgr -i modify qos dl-guaranteed set GrpTRES=gres/gpu=1 >/dev/null
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  on_login scontrol update NodeName=n2 State=RESUME
  cluster_teardown
}

dlctl() { on_login env -C "$PWD" "$stage/bin/dlctl" "$@"; }
sleeper() { submit --time=10 --output=/dev/null "$@" --wrap "sleep 300"; }
says() { dlctl why "$1" | grep -qE -- "$2"; }
# tells JOB TEXT: sooner or later, when the scheduler has looked at it.
tells() { wait_for 20 "dlctl why $1 says '$2', not: $(dlctl why "$1")" says "$1" "$2"; }

# bats test_tags=versions
@test "a job that waits for its turn is told who is ahead, who holds what it needs, and what its priority is made of" {
  holder=$(sleeper -N2 --gres=gpu:2)
  wait_state "$holder" RUNNING 20
  first=$(sleeper --gres=gpu:1)
  second=$(sleeper --gres=gpu:1)
  tells "$first" "^job $first waits: waiting for free nodes or GPUs \(Resources\)"
  run dlctl why "$first"
  assert_contains "$output" 'asks for 1 node, 1 CPU, 1 GPU; free in partition .batch. are 0 of 4 GPUs, 6 of 8 CPUs'
  assert_contains "$output" "running there, by the end of their time limits: $holder of root \(2 nodes, 4 GPUs\) until "
  assert_contains "$output" 'its priority is [0-9]+: .*(fair share|QOS) [0-9]+'
  tells "$second" "1 job is ahead of it in partition .batch., with at least its priority: $first of root \(1 node, 1 GPU\)"
  run dlctl why --json "$second"
  [ "$(jq -r '.slurm.slurm_reason' <<<"$output")" = Priority ]
  [ "$(jq -r '.slurm.room.gpus_free' <<<"$output")" = 0 ]
  [ "$(jq -r '.slurm.ahead[0].job' <<<"$output")" = "$first" ]
  run dlctl why "$holder"
  assert_contains "$output" "^job $holder does not wait: it is RUNNING on n\[1-2\] since "
}

# bats test_tags=versions
@test "held, begun later, dependent, too large, on a node that is out, over a limit: each is told with what can be done" {
  held=$(sleeper -H)
  later=$(sleeper --begin=now+1hour)
  after=$(sleeper -d "afterok:$held")
  large=
  slurm_at_least 23.11 || large=$(sleeper -N7) # refused at submission since then
  on_login scontrol update NodeName=n2 State=DRAIN Reason="bad disk, see ticket 7"
  out=$(sleeper -w n2)
  limited=$(sleeper --qos=dl-guaranteed --gres=gpu:2)
  tells "$held" "held by its user \(JobHeldUser\)"
  run dlctl why "$held"
  assert_contains "$output" "what you can do: scontrol release $held lets it go"
  tells "$later" 'it may start at .*\(in (59m|1h00m)'
  tells "$after" "job $held of root is PENDING \(JobHeldUser\)"
  if [ -n "$large" ]; then
    tells "$large" 'partition .batch. has 2 nodes with at most 4 CPUs'
    [ "$(dlctl why --json "$large" | jq .can_ever_run)" = false ]
  fi
  tells "$out" 'n2 is .*DRAIN.*\(bad disk, see ticket 7\)'
  tells "$limited" "the limit of QOS 'dl-guaranteed' is 1 GPU \(or other GRES\); 0 are used"
  run dlctl why 99999
  [ "$status" -eq 3 ]
  assert_contains "$output" '^dlctl why: job 99999 is not known to Slurm \(any more\), so it does not wait; '
}

@test "what the learners of a running job say of their number is told beside its state" {
  cat >vote.py <<'PY'
import os, time
import dl
dl.vote(+2, "loader stalls 40 %")
while not os.path.exists("go"):
    time.sleep(0.1)
PY
  printf '#!/bin/bash\nexec dlrun -- /usr/bin/python3 vote.py\n' >vote.sh
  job=$(submit --time=10 --output=vote.out --dl-framework=generic --dl-learners=2 vote.sh)
  wait_state "$job" RUNNING 30
  tells "$job" '^votes: \+2 by 2 of 2 learners \(at most 2 were asked for\): loader stalls 40 %$'
  [ "$(dlctl why --json "$job" | jq -r .votes)" = '+2 by 2 of 2 learners (at most 2 were asked for): loader stalls 40 %' ]
  assert_contains "$(dlctl status "$job")" '^votes +\+2 by 2 of 2 learners'
  touch go
  wait_state "$job" COMPLETED 60
  [ "$(dlctl why --json "$job" | jq -c .votes)" = null ]
}
