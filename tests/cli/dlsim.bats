#!/usr/bin/env bats
# dlsim as people type it.

setup() {
  dlsim=${top_builddir:?}/slurm-plugin/sim/dlsim
  cd "$BATS_TEST_TMPDIR" || return
}

@test "dlsim makes a trace, checks it and replays it under every policy, as a table, JSON and a plot" {
  "$dlsim" generate --days 2 --nodes a100=4x8 --tenants 3 -o trace.csv
  "$dlsim" generate --days 2 --nodes a100=4x8 --tenants 3 --format json -o trace.json
  "$dlsim" check trace.csv >csv.txt
  "$dlsim" check - <trace.json >json.txt
  cmp csv.txt json.txt
  grep -q 'tenants    t1, t2, t3' csv.txt
  "$dlsim" run trace.csv --nodes a100=4x8 --tenants --plot queue.svg >table.txt
  [ "$(grep -c '^t1 ' table.txt)" -eq "$("$dlsim" policies | wc -l)" ]
  "$dlsim" policies | while read -r name _; do grep -q "^$name " table.txt; done
  grep -q '</svg>' queue.svg
  "$dlsim" run trace.json --nodes a100=4x8 -p lend,fifo --json |
    jq -e 'map(.policy) == ["lend", "fifo"] and all(.[]; .completed + .refused == .jobs and .deadlocks == 0 and .utilisation > 0)'
}

@test "dlsim refuses what it does not know with status 2, and says what is allowed" {
  printf 'id,submit,tenant,gpus,run\n1,0,a,1,60\n2,0,a,none,60\n' >bad.csv
  run "$dlsim" run bad.csv
  [ "$status" -eq 2 ]
  [[ $output == *"bad.csv:3: gpus: 'none'"*allowed:* ]]
  sed -i 's/none/k80:1/' bad.csv
  for line in '' 'nonsense' 'run' 'run bad.csv' 'run bad.csv -p best' 'run bad.csv --nodes 8' 'run bad.csv --min-run soon' \
    'run nowhere.csv' 'generate --days 0' 'generate --format xml' 'generate --borrow 0.6 --guaranteed 0.6' 'check'; do
    # shellcheck disable=SC2086
    run "$dlsim" $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
    [ -n "$output" ]
  done
  "$dlsim" run bad.csv --nodes a100=1x1,k80=1x1 -p lend
  run "$dlsim" generate --days 1 -o /nonexistent/trace.csv
  [ "$status" -eq 2 ]
}

@test "the policy bench answers with a row for each size, and the decision on 400 jobs is timed beside its limit" {
  [ -x "$top_builddir/tests/bench/policy/decide_once" ] || skip "the bench's program is not built"
  DL_BUILD_DIR=$top_builddir "${top_srcdir:?}/tests/bench/policy/run" --quick --json >rows || [ $? -eq 1 ]
  jq -e 'length == 60 and all(.[]; .ours > 0 and .ratio > 0) and (map(select(.target != null)) | length == 30)' rows
}
