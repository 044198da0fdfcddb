#!/usr/bin/env bats
# What dlrun makes of a failure: the cause in the learner's own words, its class, and the answer. Without Slurm.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
}
teardown() { [ -z "${group:-}" ] || rmdir "$group"; }
failed_event() { jq -rc 'select(.learner == 1 and .state == "FAILED") | [.code, .failure, .exit, .reason]' job/events.jsonl; }

@test "the cause is told in the learner's own words, with the last lines of its log, in events and on the terminal" {
  printf 'import os, time\nprint("reading data")\nif os.environ["RANK"] == "1":\n    {}["lr"]\ntime.sleep(100)\n' >train.py
  run "$dlrun" -n 3 --job-dir job -- /usr/bin/python3 train.py
  [ "$status" -eq 1 ]
  contains "$output" "^dlrun: learner 1 exited with code 1: KeyError: 'lr'; its output: .*/learner-1.log"
  contains "$output" '^dlrun:   \| reading data$'
  contains "$output" "^dlrun:   \| KeyError: 'lr'$"
  contains "$(failed_event)" '"C201","exit",1,"learner 1 exited with code 1: KeyError'
}

@test "an exception that torch's @record wrote is found, though its traceback went nowhere" {
  /usr/bin/python3 -c 'import torch.distributed.elastic' 2>/dev/null || skip "no torch"
  cat >train.py <<'END'
import os, time
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    if os.environ["RANK"] == "1":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore")
    time.sleep(100)
main()
END
  run "$dlrun" -n 2 -f pytorch --job-dir job -- sh -c 'exec /usr/bin/python3 train.py 2>/dev/null'
  [ "$status" -eq 1 ]
  contains "$output" '^dlrun: learner 1 exited with code 1: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB; class gpu-memory \(C211, yours\); its output'
  contains "$(failed_event)" '"C211","gpu-memory",1'
}

@test "a learner that the kernel killed for want of memory is called that" {
  parent=/sys/fs/cgroup/memory
  [ -e $parent/memory.limit_in_bytes ] || skip "no memory cgroup of version 1"
  group=$parent/dl-test-$$
  mkdir "$group" 2>/dev/null || { group=; skip "memory cgroups cannot be made here"; }
  echo $((96 << 20)) >"$group/memory.limit_in_bytes"
  run sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$dlrun" -n 2 --job-dir job -- \
    sh -c '[ $RANK = 1 ] && exec /usr/bin/python3 -c "x = bytearray(400 << 20)"; sleep 100'
  [ "$status" -eq 137 ]
  contains "$output" '^dlrun: learner 1 was killed by signal 9 \(SIGKILL\): out of memory; class memory \(C210, yours\)'
  contains "$(failed_event)" '"C210","memory",137'
}

@test "a kill by somebody else is not out of memory" {
  run "$dlrun" -n 2 --job-dir job -- sh -c '[ $RANK = 1 ] && kill -9 $$; sleep 100'
  [ "$status" -eq 137 ]
  contains "$output" '^dlrun: learner 1 was killed by signal 9 \(SIGKILL\); its output'
}

@test "exit code 93: neither restarted nor requeued" {
  run "$dlrun" -r 5 --job-dir job -- sh -c 'exit 93'
  [ "$status" -eq 93 ]
  contains "$output" 'learner 0 exited with code 93; class given-up \(C202, yours\)'
  [ ! -e job/logs/attempt-2 ]
}

@test "a class has its own limit of restarts" {
  run "$dlrun" -r 5 --job-dir job -- sh -c 'echo "RuntimeError: CUDA out of memory"; exit 1'
  [ "$status" -eq 1 ]
  contains "$output" '; at most 1 restart after failures of class gpu-memory'
  [ -e job/logs/attempt-2 ]
  [ ! -e job/logs/attempt-3 ]
}

@test "a site's own row of dl.toml decides" {
  printf '\n[[failure]]\npattern = "licen[cs]e server .* gone"\nclass = "licence"\nanswer = "fail"\nfault = "ours"\n' >>dl.toml
  run "$dlrun" -r 5 --job-dir job -- sh -c 'echo "the license server n9 is gone"; exit 1'
  [ "$status" -eq 1 ]
  contains "$output" 'exited with code 1; class licence \(S199, ours\)'
  [ ! -e job/logs/attempt-2 ]
}

@test "the same failure at the same train step twice: no third try" {
  [[ -x $learner ]] || skip "built without HDF5"
  run "$dlrun" -n 2 -r 9 -c ck,every=10steps --job-dir job -- "$learner" 40 5 'exit!15'
  [ "$status" -eq 3 ]
  contains "$output" 'exited with code 3; the same failure at train step 15 in 2 attempts: not started again'
  [ -e job/logs/attempt-2 ]
  [ ! -e job/logs/attempt-3 ]
}

@test "SIGUSR1 that a script hands on goes to learners with a handler, which go on, and ends none without one" {
  "$dlrun" -n 2 --job-dir job -- sh -c '[ $RANK = 1 ] || trap "touch told" USR1; echo ready; until [ -e told ]; do sleep 0.1; done; echo went on' >out 2>&1 3>&- &
  pid=$!
  wait_grep ready job/logs/attempt-1/learner-0.log
  wait_grep ready job/logs/attempt-1/learner-1.log
  kill -USR1 "$pid"
  wait "$pid"
  [ "$(grep -c '\] went on$' out)" -eq 2 ]
}

@test "the class of a failure is told once, also where somebody has to act" {
  run "$dlrun" --job-dir full -- sh -c 'echo "No space left on device" >&2; exit 4'
  [ "$status" -eq 4 ]
  [ "$(grep -o 'S306' <<<"$output" | wc -l)" -eq 1 ]
}
