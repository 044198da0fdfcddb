#!/usr/bin/env bats
# dlrun --servers MIN:MAX without Slurm: servers come, leave and are killed while learners go on, and no addition is lost or made twice
# (pool_count.cpp). What the pool itself promises: pool.bats.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cli/servers_pool_lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/servers_pool_lib.bash"
setup_file() { build_pool_count; }
setup() { dlrun_setup; count=$BATS_FILE_TMPDIR/pool_count dlctl=$top_builddir/launcher/ctl/dlctl; }
teardown() { [[ -z ${launcher:-} ]] || kill -9 "$launcher" 2>/dev/null || true; }

start() { # OPTION... -- ROUNDS [MS]
  local options=()
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  "$dlrun" -f cpp --job-dir job "${options[@]}" -- "$count" "$@" >out 2>&1 3>&- &
  launcher=$!
}

@test "a pool grows and shrinks while learners count: none of them begins anew, and each key is right" {
  start -n 2 --servers 1:4 -- 400 20
  until_servers 1
  echo 3 >wanted
  until_servers 3
  echo 1 >wanted
  until_servers 1
  echo 4 >wanted
  until_servers 4
  contains "$("$dlctl" status job)" '^servers +4 of 1 to 4$'
  wait "$launcher" || { cat out; false; }
  [ "$(grep -c '0 keys are wrong$' out)" -eq 2 ]
  contains "$(cat out)" '^dlrun: 2 learners and 1 to 4 servers of cpp on '
  contains "$(cat out)" '^dlrun: the pool wants 3 servers: server 1 starts$'
  contains "$(cat out)" '^dlrun: server [0-3] has left the pool$'
  run ! grep -E 'restart|failed|was killed' out
  [ "$(jq -r 'select(.learner == null and .state == "DEPLOY") | .attempt' job/events.jsonl | sort -u)" = 1 ]
  [ "$(jq -r 'select(.learner == 5) | .state' job/events.jsonl | tail -n 1)" = COMPLETED ]
  [ ! -e job/pool.secret ]
}

@test "servers that are killed one after the other cost no addition, and others take their places" {
  start -n 2 --servers 2:3 -- 500 20
  until_servers 2
  local turn
  for turn in 1 2 3; do
    kill -9 "$(cat server.$((turn % 2)))"
    until grep -c 'was killed by signal 9 (SIGKILL); the pool goes on$' out | grep -qx $turn; do sleep 0.05; done
    until [ "$(grep -c 'server [0-2] begins as process' out)" -eq $((2 + turn)) ]; do sleep 0.05; done
    until_servers 2
  done
  wait "$launcher" || { cat out; false; }
  [ "$(grep -c '0 keys are wrong$' out)" -eq 2 ]
  contains "$(cat out)" '^dlrun: server [01] was killed by signal 9 \(SIGKILL\); the pool goes on$'
}

@test "state that is lost with all servers ends the attempt, which begins anew with a new pool" {
  start -n 1 -r 1 --servers 2:2 -- 150 20
  until_servers 2
  kill -9 "$(cat server.0)" "$(cat server.1)"
  wait "$launcher" || { cat out; false; }
  contains "$(cat out)" '^dlrun: the pool has lost the state of [0-9]+ of its 1024 slots$'
  contains "$(cat out)" '^dlrun: server [01] was killed by signal 9 \(SIGKILL\); restart 1 of 1'
  contains "$(cat out)" '0 keys are wrong$'
}

@test "a program that is no server is the run's failure at once; after five failures in a row no other servers are started for a while" {
  run "$dlrun" -f cpp -n 1 --servers 1:2 -- sh -c '[ $DL_ROLE = learner ] && exec sleep 100; exit 6'
  [ "$status" -eq 6 ]
  contains "$output" '^dlrun: server 0 exited with code 6'
  run "$dlrun" -f cpp -n 1 --servers 1:2 -- sh -c '[ $DL_ROLE = learner ] && exec sleep 100; exit 0'
  contains "$output" '^dlrun: server 0 could not be started: it ended with code 0 and has not served; a server joins the pool and'
  # The second server fails, again and again.
  echo 2 >wanted
  run "$dlrun" -f cpp -n 1 --servers 1:2 -- sh -c '[ $DL_ROLE_RANK = 1 ] && exit 7; exec "$0" "$@"' "$count" 900 20
  [ "$status" -eq 0 ]
  [ "$(grep -c 'server 1 exited with code 7; the pool goes on' <<<"$output")" -eq 5 ]
  contains "$output" 'server 1 exited with code 7; the pool goes on with 1 server; no more are started for 300 s, since 5 have failed in a row$'
  contains "$output" '0 keys are wrong$'
}

@test "learners that fail, stop or are interrupted end the pool with them" {
  run "$dlrun" -f cpp -n 1 --servers 1:2 -r 1 -- sh -c '[ $DL_ROLE = server ] && exec "$0"; sleep 0.5; exit 9' "$count"
  [ "$status" -eq 9 ]
  contains "$output" 'learner 0 exited with code 9; restart 1 of 1'
  contains "$output" '^\[1\] server 0 begins as process [0-9]+$'
  run ! grep -E 'server 0 (was|exited)' <<<"$output"
  run timeout -s INT 2 "$dlrun" -f cpp -n 1 --servers 2:3 -- "$count" 100000 20
  run ! pgrep -f "$count"
}

@test "what learners and servers find, and what --dry-run shows" {
  CUDA_VISIBLE_DEVICES=5 run "$dlrun" -f cpp -n 2 --servers 1:3 -- sh -c '
    echo "$DL_ROLE $DL_ROLE_RANK of $DL_ROLE_SIZE, rank $DL_RANK of $DL_WORLD_SIZE, local $DL_LOCAL_WORLD_SIZE, $DL_SERVERS servers, GPU $CUDA_VISIBLE_DEVICES"
    echo "pool at $DL_POOL, $(stat -c %a "$DL_POOL_SECRET")"
    [ $DL_ROLE = server ] && exec "$0"; sleep 1' "$count"
  [ "$status" -eq 0 ]
  contains "$output" '^\[1\] learner 1 of 2, rank 1 of 2, local 2, 1:3 servers, GPU 5$'
  contains "$output" '^\[2\] server 0 of 3, rank 2 of 2, local 2, 1:3 servers, GPU -1$'
  contains "$output" '^\[0\] pool at 127.0.0.1:[0-9]+, 600$'
  run "$dlrun" --dry-run -f cpp -n 2 --servers 1:3 -- ./x
  contains "$output" '^learners +2 and 1 to 3 parameter servers on 1 node'
  (($(nproc) > 4)) || contains "$output" '^warning +2 learners and up to 3 servers share '
  contains "$output" 'DL_POOL'
}

@test "ranges that are none, and worlds whose size cannot change, are refused" {
  run "$dlrun" --servers 3:1 -- true
  [ "$status" -eq 2 ]
  contains "$output" "^dlrun: --servers: '3:1' has a MIN above its MAX; allowed: a whole number from 0 to 100000, or MIN:MAX from 1 to 4096 for an elastic pool"
  run "$dlrun" --servers 0:3 -- true
  contains "$output" "^dlrun: --servers: '0:3' is not a number of parameter servers"
  run "$dlrun" --servers 1:x -- true
  contains "$output" "^dlrun: --servers: '1:x' is not a range of parameter servers"
  run "$dlrun" -f tensorflow -n 2 --servers 1:3 -- true
  [ "$status" -eq 2 ]
  contains "$output" '^dlrun: --servers 1:3: framework tensorflow has parameter servers of its own, whose number cannot change; allowed: --servers N'
  run "$dlrun" -f dllearner -n 2 --servers 1:3 -- true
  contains "$output" '^dlrun: --servers 1:3: servers that come and go cannot be ranks of an MPI world, and framework dllearner starts one, which mpirun starts outside of Slurm; allowed: --servers N, or a Slurm job$'
}
