#!/usr/bin/env bats
# Parameter servers beside the learners, without Slurm: what they find, when they are ended, what their failure means, and that
# learners save without them. The frameworks that use them: collectives.bats, frameworks.bats.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() { dlrun_setup; }

@test "roles, ranks in them and no GPU; a server that does not end by itself is ended after the learners, and that is no failure" {
  CUDA_VISIBLE_DEVICES=5 run "$dlrun" -n 2 --servers 2 --job-dir job -- sh -c '
    echo "$DL_ROLE $DL_ROLE_RANK of $DL_ROLE_SIZE, rank $RANK of $WORLD_SIZE, $DL_SERVERS servers, GPU $CUDA_VISIBLE_DEVICES"
    [ "$DL_ROLE" = learner ] || { setsid sleep 2718281 & exec sleep 2718282; }; sleep 0.3'
  [ "$status" -eq 0 ]
  contains "$output" '^\[1\] learner 1 of 2, rank 1 of 4, 2 servers, GPU 5$'
  contains "$output" '^\[3\] server 1 of 2, rank 3 of 4, 2 servers, GPU -1$'
  contains "$output" 'dlrun: completed in [0-9.]+ s'
  run ! pgrep -f 'sleep 271828[12]'
  [ "$(jq -r 'select(.learner == 3) | .state' job/events.jsonl | tail -n 1)" = COMPLETED ]
}

@test "a server may end by itself; one that fails counts like a learner that fails" {
  run "$dlrun" -n 1 --servers 1 -- sh -c '[ $DL_ROLE = server ] || sleep 0.3'
  [ "$status" -eq 0 ]
  run "$dlrun" -n 1 --servers 1 -r 1 -- sh -c '[ $DL_ROLE = learner ] && exec sleep 100; exit 6'
  [ "$status" -eq 6 ]
  contains "$output" 'learner 1 exited with code 6; restart 1 of 1'
}

@test "learners agree, save and stop without the servers, and go on from there at another number" {
  [[ -x $learner ]] || skip "built without HDF5"
  run timeout -s INT 2 "$dlrun" -n 2 --servers 1 -c ck --job-dir job -- sh -c '[ $DL_ROLE = learner ] || exec sleep 1000; exec "$0" 100 50' "$learner"
  contains "$output" 'Ctrl-C: all learners save and stop at train step'
  contains "$output" 'dlrun: interrupted: saved at train step [0-9]+'
  run "$dlrun" -n 3 --servers 2 -c ck -- sh -c '[ $DL_ROLE = learner ] || exec sleep 1000; exec "$0" 40 1' "$learner"
  [ "$status" -eq 0 ]
  contains "$output" '^\[2\] attempt 1 starts at train step [1-9]'
  contains "$output" '^\[2\] done: 40 counted, none lost'
}

@test "a SIGTERM that reaches every process, as Slurm may send it, does not end a server before its learners" {
  run "$dlrun" -n 1 --servers 1 --job-dir job -- sh -c '
    if [ $DL_ROLE = server ]; then echo $$ >pid.new; mv pid.new pid; exec sleep 1000; fi
    until [ -e pid ]; do sleep 0.1; done; kill -TERM $(cat pid); sleep 0.5; kill -0 $(cat pid) && echo it serves on'
  [ "$status" -eq 0 ]
  contains "$output" '^\[0\] it serves on'
}

@test "a number of servers that is none is refused" {
  run "$dlrun" --servers -1 -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: --servers: '-1' is not a number of parameter servers; allowed: a whole number from 0 to"
}
