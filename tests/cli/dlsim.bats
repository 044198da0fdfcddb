#!/usr/bin/env bats
# dlsim as people type it.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
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

@test "dlsim import sacct prints its command, reads what that prints, and says what it left out, beside the trace" {
  command=$("$dlsim" import sacct --command)
  heading=${command##* }
  cat >sacct.txt <<END
${heading//,/|}
7|vision|1000|1000|1100|600|60|COMPLETED|cpu=8,gres/gpu:a100=2,gres/gpu=2,node=1|cpu=8,gres/gpu=2|1
8|nlp|1010|1010|1010|50|UNLIMITED|FAILED|gres/gpu:a100=8,node=2|gres/gpu=8|2
8.batch|nlp|1010|1010|1010|50||FAILED|gres/gpu=8|cpu=8|2
9|nlp|1020|1020|None|0|60|CANCELLED by 1000||gres/gpu=1|1
END
  "$dlsim" import sacct - <sacct.txt >trace.csv 2>said
  grep -q '^2 jobs of 2 tenants from 5 lines$' said
  grep -q '^left out: 1 lines of job steps$' said
  "$dlsim" import sacct sacct.txt --checkpoint 10m --json -o with.csv | jq -e '.jobs == 2 and (.left_out | length) == 2 and .changed == {}'
  grep -q '^7,0,vision,a100:2,1,600,,3600,auto,pack,600,60,100$' with.csv
  "$dlsim" check trace.csv | grep -q 'tenants    nlp, vision'
  "$dlsim" compare trace.csv --nodes a100=1x8 -p backfill,fifo --sizes --calibrate --plot waits.svg >table.txt
  grep -qE '^all +real +2 ' table.txt
  grep -q '^backfill: fitted to the first half' table.txt
  grep -q '</svg>' waits.svg
  "$dlsim" compare trace.csv --nodes a100=1x8 --json | jq -e '.[0].policy == "backfill" and .[0].real.count == 2 and (.[0].sizes | length) == 2'
  for line in 'import' 'import slurm' 'import sacct nowhere' 'import sacct trace.csv' 'import sacct sacct.txt --checkpoint soon' \
    'compare' 'compare trace.csv --nodes a100=1x8 -p best' 'compare trace.csv --nodes a100=1x8 --unavailable 2'; do
    # shellcheck disable=SC2086
    run "$dlsim" $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
    [ -n "$output" ]
  done
  sed -i 's/,[0-9]*$/,/; 1s/,$/,waited/' trace.csv
  run "$dlsim" compare trace.csv --nodes a100=1x8
  [ "$status" -eq 2 ]
  [[ $output == *"no job tells how long it really waited; allowed: "* ]]
}

@test "dlsim run tells how sure its means are, waits by size, and what failures of nodes cost; dlsim sweep what placement does" {
  "$dlsim" generate --days 12 --nodes a100=4x8 --load 0.9 -o trace.csv
  "$dlsim" run trace.csv --nodes a100=4x8 -p lend,backfill --sizes --confidence 95 --mtbf 5d --repair 1h --seeds 2 >table.txt
  grep -q '^lend #2 ' table.txt
  grep -qE '^1 +backfill #1 ' table.txt
  grep -qE "^backfill +[^ ]+ \[" table.txt
  "$dlsim" run trace.csv --nodes a100=4x8 -p lend,backfill --confidence 90 --mtbf 5d --interval 30s --unavailable 0.25 --json |
    jq -e 'all(.[]; .node_failures > 0 and .confidence.level == 0.9 and .confidence.wait_s.low <= .confidence.wait_s.high and (.sizes | length) > 2)'
  "$dlsim" sweep --nodes g=4x4 --nodes g=2x8 --load 0.5,0.7 --days 4 --seeds 2 --plot sweep.svg >sweep.txt
  [ "$(wc -l <sweep.txt)" -eq 9 ]
  grep -q '</svg>' sweep.svg
  "$dlsim" sweep --nodes g=4x4 --load 0.6 --days 4 --seeds 1 --json | jq -e 'length == 2 and .[0].times_the_first == null and .[1].load == 0.6'
  for line in 'sweep --load fast' 'sweep --nodes 8' 'sweep -p best' 'sweep --seeds 0' 'run trace.csv --confidence 5' 'run trace.csv --mtbf soon'; do
    # shellcheck disable=SC2086
    run "$dlsim" $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
  done
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
  jq -e 'length == 72 and all(.[]; .ours > 0 and .ratio > 0) and (map(select(.target != null)) | length == 36)' rows
}

# ask QUESTION: answers to the lines, without the times.
ask() { printf '%s\n' "$@" | "$dlsim" decide - | jq -c 'del(.seconds, .seconds_to_read)'; }

@test "dlsim decide divides GPUs among jobs by their speeds, within tenants, and answers line by line" {
  two='"jobs":[{"id":"a","speeds":{"gpu":[{"gpus":1,"speed":10},{"gpus":4,"speed":38}]}},{"id":"b","speeds":{"gpu":[{"gpus":1,"speed":7},{"gpus":4,"speed":9},{"gpus":7,"speed":9.5}]}}]'
  answer=$(ask '{"nodes":[{"gpus":8}],'"$two"'}')
  jq -e '.exact and (.jobs | map([.id, .gpus, .state]) == [["a", 4, "start"], ["b", 4, "start"]])' <<<"$answer"
  # The batch is chosen with the GPUs; what runs is changed only if it pays.
  answer=$(ask '{"nodes":[{"type":"a100","gpus":8}],"jobs":[{"id":"a","now":{"gpus":1,"batch":64},"age_s":1000,"restart_s":10,"speeds":{"a100":[{"gpus":1,"batch":64,"speed":10},{"gpus":8,"batch":64,"speed":10.2},{"gpus":8,"batch":512,"speed":60}]}}]}' \
    '{"nodes":[{"type":"a100","gpus":8}],"jobs":[{"id":"a","now":{"gpus":1,"batch":64},"age_s":1,"restart_s":1000,"speeds":{"a100":[{"gpus":1,"batch":64,"speed":10},{"gpus":8,"batch":512,"speed":60}]}}]}')
  [ "$(jq -c '.jobs[0] | [.gpus, .batch, .state]' <<<"$answer")" = $'[8,512,"change"]\n[1,64,"stay"]' ]
  # Two levels of tenants, and a job that does not fit any more.
  one='"speeds":{"gpu":[{"gpus":2,"speed":2},{"gpus":3,"speed":3},{"gpus":6,"speed":6}]}'
  answer=$(ask '{"nodes":[{"gpus":8}],"admission":"drop","tenants":[{"name":"lab","most":{"gpu":6}},{"name":"vision","parent":"lab","most":{"gpu":3}}],"jobs":[{"id":"1","tenant":"vision",'"$one"'},{"id":"2","tenant":"lab",'"$one"'},{"id":"3","tenant":"vision",'"$one"'}]}')
  [ "$(jq -c '.jobs | map([.gpus, .state])' <<<"$answer")" = '[[3,"start"],[3,"start"],[0,"drop"]]' ]
  # For jobs completed per second a short job comes before an older one, until that has waited long enough.
  answer=$(for waited in 0 1e8; do
    ask '{"nodes":[{"gpus":6}],"objective":"completion","jobs":[{"id":"1","left_s":1e5,"waited_s":'$waited','"$one"'},{"id":"2","left_s":3000,'"$one"'}]}'
  done)
  [ "$(jq -c '.jobs | map([.gpus, .state])' <<<"$answer")" = $'[[0,"hold"],[6,"start"]]\n[[6,"start"],[0,"hold"]]' ]
}

@test "dlsim decide says which member of a question is wrong, and goes on with the next line" {
  good='{"nodes":[{"gpus":2}],"jobs":[]}'
  while IFS='|' read -r question words; do
    run "$dlsim" decide - <<<"$question"$'\n'"$good"
    [ "$status" -eq 2 ] || { echo "$question: $status"; false; }
    [[ $output == *"$words"* && $output == *'"jobs":[]'* ]] || { echo "$question: $output"; false; }
  done <<'END'
nonsense|the line is not JSON
[]|the line: is no object
{"jobs":[]}|nodes: is missing
{"nodes":[],"jobs":[]}|nodes: the list is empty
{"nodes":[{"gpus":0}],"jobs":[]}|nodes[0].gpus: 0 is not allowed; allowed: a whole number from 1 to 1024
{"nodes":[{"gpus":1e30}],"jobs":[]}|nodes[0].gpus
{"nodes":[{"gpus":2}],"jobs":[],"admision":"drop"}|admision: is not known here; allowed: admission, 
{"nodes":[{"gpus":2}],"jobs":[],"admission":"later"}|allowed: hold, drop
{"nodes":[{"gpus":2}],"jobs":[],"objective":"fairness"}|objective: 'fairness' is not allowed; allowed: speedup, completion
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","left_s":-1,"speeds":{"gpu":[{"gpus":1,"speed":1}]}}]}|jobs[0].left_s: -1
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","speeds":{}}]}|jobs[0].speeds: none is for 1 to
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","speeds":{"h100":[{"gpus":1,"speed":1}]}}]}|'h100' is the type of no node
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","speeds":{"gpu":[{"gpus":1,"speed":-1}]}}]}|jobs[0].speeds.gpu[0].speed: -1
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","min":3,"max":2,"speeds":{"gpu":[{"gpus":1,"speed":1}]}}]}|min 3 is more than max 2
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","now":{"gpus":2},"speeds":{"gpu":[{"gpus":1,"speed":1}]}}]}|jobs[0].now: 2 GPUs
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","tenant":"x","speeds":{"gpu":[{"gpus":1,"speed":1}]}}]}|jobs[0].tenant: 'x' is not one
{"nodes":[{"gpus":2}],"tenants":[{"name":"x","parent":"y"}],"jobs":[]}|tenants[0].parent
{"nodes":[{"gpus":2}],"jobs":[{"id":"a","speeds":{"gpu":[{"gpus":1,"nodes":2,"speed":1}]}}]}|jobs[0].speeds.gpu[0].nodes: 2 nodes are too many for 1 GPU;
END
  # Tenants in one another without end would end the stack; types without end, the patience.
  jq -cn '{nodes: [{gpus: 2}], jobs: [], tenants: ([{name: "0"}] + [range(1; 70) | {name: "\(.)", parent: "\(. - 1)"}])}' >deep
  jq -cn '{jobs: [], nodes: [range(100) | {type: "t\(.)", gpus: 1}]}' >many
  run "$dlsim" decide deep
  [[ $output == *'the depth of share 64 is 65; allowed: at most 64 in one another'* ]] || { echo "$output"; false; }
  run "$dlsim" decide many
  [[ $output == *'more than 64 types'* ]]
  run "$dlsim" decide /nonexistent/questions
  [ "$status" -eq 2 ]
}

@test "dlsim elastic compares policies over the load, as a table, JSON and a picture, and refuses what it does not know" {
  "$dlsim" elastic --gpus 16 --time 2h --load 0.5,2 --plot sweep.svg >table.txt
  [ "$(wc -l <table.txt)" -eq 29 ]
  grep -q '</svg>' sweep.svg
  "$dlsim" elastic --gpus 16 --time 2h --load 1 --admission drop --categories fixed --json |
    jq -e 'length == 7 and (map(select(.policy | startswith("elastic")) | del(.policy, .solver_mean_ms, .solver_max_ms, .wall_s)) | unique | length) == 1'
  for line in '--gpus 0' '--load fast' '--load 0' '--admission later' '--categories none' '--restart soon' '--time 1s' 'more'; do
    # shellcheck disable=SC2086
    run "$dlsim" elastic $line
    [ "$status" -eq 2 ] || { echo "$line: $status"; false; }
  done
}

@test "dlsim elastic replays jobs with measured speeds, and refuses a file that is none, or whose jobs cannot run" {
  echo '{"jobs": [{"name": "a", "batch": 8, "asked": 2, "speeds": [{"gpus": 2, "batch": 8, "samples_s": 10}, {"gpus": 1, "batch": 64, "samples_s": 30}]}]}' >curves.json
  "$dlsim" elastic --gpus 16 --time 4h --load 2 --admission hold --curves curves.json --json |
    jq -e 'map({(.policy): .completed}) | add | .elastic > 1.5 * ."elastic-fixed-batch" and ."elastic-fixed-batch" > 0'
  echo '{"jobs": [{"name": "a", "batch": 8, "speeds": [{"gpus": 2, "batch": 8, "samples_s": "fast"}]}]}' >wrong.json
  run "$dlsim" elastic --curves wrong.json
  [ "$status" -eq 2 ]
  [[ $output == *'wrong.json: jobs[0].speeds[0].samples_s: "fast" is not allowed'* ]] || { echo "$output"; false; }
  run "$dlsim" elastic --gpus 1 --curves curves.json
  [ "$status" -eq 2 ]
  [[ $output == *"'a' cannot run with its user's batch on 1 GPUs"* ]] || { echo "$output"; false; }
  run "$dlsim" elastic --categories fixed --curves curves.json
  [ "$status" -eq 2 ]
  run "$dlsim" elastic --curves /nonexistent
  [ "$status" -ne 0 ]
}

@test "the elastic bench on published workloads says where they are to be had, if they are not there" {
  run "${top_srcdir:?}/tests/bench/elastic/published.py" --simulator /nonexistent
  [ "$status" -eq 3 ]
  [[ $output == *"'/nonexistent' has no folder"*osdi21-artifact* ]] || { echo "$output"; false; }
}
