#!/usr/bin/env bats
# libdlpool as whole processes: the example trains while parameter servers join, leave and are killed, and its weights are those of a fixed
# pool, bit for bit; under dlrun, too. In one process, with hostile bytes: tests/unit/pool_run.cpp.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup_file() {
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 "$top_srcdir/frameworks/cpp/example/pool_digits.cpp" -I"$top_srcdir/launcher/pool/include" \
    -L"$top_builddir/launcher/pool/.libs" -ldlpool -Wl,-rpath,"$top_builddir/launcher/pool/.libs" -o "$BATS_FILE_TMPDIR/pool_digits"
}
bats_require_minimum_version 1.5.0
setup() {
  dlrun_setup
  program=$BATS_FILE_TMPDIR/pool_digits digits=$top_srcdir/frameworks/dllearner/example/digits.txt
  export DL_POOL DL_POOL_SECRET=$PWD/secret
  started=()
}
teardown() { for pid in "${started[@]}" ${directory:-}; do kill -9 "$pid" 2>/dev/null || true; done; }

directory() { # starts a directory, which is asked by ask
  coproc DIRECTORY { exec "$program" directory "$DL_POOL_SECRET" 2>&1 3>&-; }
  directory=$DIRECTORY_PID
  read -r DL_POOL <&"${DIRECTORY[0]}"
  [[ $DL_POOL == 127.0.0.1:* ]]
}
ask() { echo >&"${DIRECTORY[1]}"; read -r facts <&"${DIRECTORY[0]}"; }
until_members() { # NUMBER: that many, and nothing is moving
  local i
  for ((i = 0; i < 1200; i++)); do
    ask
    [[ $facts == "$1 members, 0 unsettled, 0 lost, "* ]] && return 0
    sleep 0.05
  done
  echo "no $1 members within a minute: $facts" >&2
  return 1
}
server() { "$program" server >"server-${#started[@]}.log" 2>&1 3>&- & started+=($!); last=$!; }
learners() { # STEPS: two of them
  local rank
  for rank in 0 1; do "$program" learner $rank 2 "$digits" "$1" >"learner-$rank.log" 2>&1 3>&- & started+=($!); learner[rank]=$!; done
}
until_step() { # NUMBER
  local i
  for ((i = 0; i < 1200; i++)); do
    [ "$(grep -c . learner-0.log)" -ge $(($1 / 10 + 1)) ] && return 0
    kill -0 "${learner[0]}" || break
    sleep 0.05
  done
  cat learner-*.log >&2
  return 1
}
result() { # both learners have ended well, with the same weights
  if ! wait "${learner[0]}" || ! wait "${learner[1]}"; then
    cat learner-*.log server-*.log >&2
    return 1
  fi
  [ "$(tail -n 1 learner-0.log)" = "$(tail -n 1 learner-1.log)" ]
  weights=$(tail -n 1 learner-0.log)
  contains "$weights" '^[0-9]+ of 297 test digits are right, weights [0-9a-f]{16}$'
}
fixed() { # STEPS: the weights with a pool in which nobody comes or goes
  directory
  server && server && until_members 2
  learners "$1"
  result
  kill "$directory"
  wait "$directory" || true
  expected=$weights started=()
  [ "${expected%% *}" -gt 240 ]
}

@test "a server joins and one leaves while learners train: no restart, and the weights are those of a fixed pool, bit for bit" {
  fixed 1500
  directory
  server && first=$last && until_members 1
  learners 1500
  until_step 50
  server && until_members 2
  until_step 150
  server && until_members 3
  kill "$first"
  wait "$first"
  until_members 2
  kill -0 "${learner[0]}"
  result
  [ "$weights" = "$expected" ]
  contains "$facts" '[1-9][0-9]* moved$'
  [ "$(grep -l '^serves after [0-9]* ms$' server-*.log | wc -l)" -ge 3 ]
}

@test "a server that is killed is replaced by its copies: the weights are the same, bit for bit" {
  fixed 1500
  directory
  server && victim=$last && server && server && until_members 3
  learners 1500
  until_step 100
  kill -9 "$victim"
  until_members 2
  until_step 200
  server && until_members 3
  result
  [ "$weights" = "$expected" ]
}

@test "where every server is killed at once, learners are told what is lost, and nothing is served empty" {
  directory
  server && a=$last && server && b=$last && until_members 2
  learners 100000
  until_step 50
  kill -9 "$a" "$b"
  run ! wait "${learner[0]}"
  server
  for ((i = 0; i < 1200; i++)); do grep -q lost learner-0.log && break; sleep 0.05; done
  contains "$(cat learner-0.log)" '^(pull|push): the pool has lost the state of slot [0-9]+ with members that were killed; start a new pool from a checkpoint$'
}

@test "under dlrun, which hosts the directory and starts the servers" {
  run timeout 120 "$dlrun" -q -f cpp -n 2 --servers 2:4 --job-dir job -- "$program" "$digits" 200
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  [ "$(cat job/logs/latest/learner-*.log | grep -oE 'weights [0-9a-f]{16}' | sort -u | wc -l)" -eq 1 ]
  [ "$(cat job/logs/latest/learner-*.log | grep -c 'serves after')" -ge 2 ]
  run "$dlrun" -q -f cpp -n 1 -- "$program" "$digits" 200
  [ "$status" -eq 2 ]
  contains "$output" 'start this by dlrun --framework cpp --servers MIN:MAX$'
}
