#!/usr/bin/env bats
# dlpolicyd end to end with slurmdbd: see reclaim.bats.
# shellcheck disable=SC2016,SC2154,SC2119,SC2030,SC2031  # what jq is told is not for the shell; variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

setup_file() { reclaim_up --slurmdbd; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

@test "idle GPUs are lent, taken back for a claim within seconds, and the victim goes on where it was" { lend_and_take_back; }

@test "a borrowed job becomes its tenant's own when quota is free, without a restart, and is no victim any more" { become_own; }

# held JOB: the GPU-hours of all its starts as slurmdbd has them; two GPUs each.
held() { on_login sacct -XnPD -j "$1" -o elapsedraw | awk '{ sum += $1 * 2 / 3600 } END { printf "%.6f", sum }'; }
# usage_is FILE JQ-CONDITION: what dlctl usage --json has printed into it, beside before.json; own, lent: hours of these jobs by slurmdbd.
usage_is() {
  jq -n --slurpfile before before.json --slurpfile now "$1" --argjson own "$(held "$own")" --argjson lent "$(held "$lent")" \
    'def of($all; $name): $all[0].tenants | map(select(.tenant == $name))[0] // {own: 0, borrowed: 0, uncharged: 0, jobs: 0};
     def grew($name; $what): of($now; $name)[$what] - (of($before; $name)[$what] // 0);
     def about($a; $b; $within): ($a - $b) | fabs < $within; '"$2" -e >/dev/null ||
    { cat before.json "$1" >&2; echo "own $(held "$own"), lent $(held "$lent")" >&2; return 1; }
}

@test "dlctl usage sums from slurmdbd what tenants and users had as their own and borrowed, and from the history what was lent, while jobs run and afterwards" {
  user=$(some_user)
  stop_daemon
  dlctl usage --json >before.json
  jq -e '.source == "Slurm'"'"'s accounting" and all(.tenants[]; .lent == null)' before.json
  start_daemon
  short=$(as_user "$user" sbatch --parsable --account=vision --gpus=1 --output=/dev/null --wrap 'sleep 2')
  wait_state "$short" COMPLETED 30
  lend_to deaf
  # dlpolicyd keeps its history as soon as it has begun, and then each five minutes.
  stop_daemon
  start_daemon --history-file "$PWD/history.csv"
  wait_for 10 "the history tells what is lent" grep -qE ',vision,2,0,2,' history.csv
  # While they run: slurmdbd has their GPUs, and slurmctld how they are charged. A second passes between two questions.
  wait_for 10 "slurmdbd knows that both run" eval '[ "$(on_login sacct -XnP -j "$own,$lent" -s R -o state | grep -c RUNNING)" -eq 2 ]'
  dlctl usage --json --history-file "$PWD/history.csv" >running.json
  usage_is running.json 'grew("nlp"; "own") > 0 and grew("nlp"; "borrowed") > 0 and grew("nlp"; "uncharged") == 0 and grew("nlp"; "jobs") == 2
    and about(grew("nlp"; "own"); $own; 0.01) and about(grew("nlp"; "borrowed"); $lent; 0.01)'
  usage_is running.json 'of($now; "vision").lent > 0 and of($now; "nlp").lent == 0'
  on_login scancel "$own" "$lent"
  wait_for 30 "slurmdbd knows that both have ended" eval '[ "$(on_login sacct -XnP -j "$own,$lent" -o state | grep -c CANCELLED)" -eq 2 ]'
  dlctl usage --json --history-file "$PWD/history.csv" >ended.json
  # The job that borrowed may have become its tenant's own when the other one ended.
  usage_is ended.json 'about(grew("nlp"; "own") + grew("nlp"; "borrowed"); $own + $lent; 0.0001) and grew("nlp"; "uncharged") == 0'
  usage_is ended.json 'of($now; "vision").users | map(select(.user == "'"$user"'"))[0] | .own > 0.0005 and .jobs >= 1 and .borrowed == 0'
  dlctl usage --csv --account NLP --history-file "$PWD/history.csv" >usage.csv
  [ "$(head -n 1 usage.csv)" = tenant,user,jobs,own,lent,borrowed,uncharged,source ]
  assert_contains "$(cat usage.csv)" "^nlp,,[0-9]+,[0-9.]+,0\\.0000,[0-9.]+,0\\.0000,Slurm's accounting\$"
  assert_contains "$(cat usage.csv)" "^nlp,root,[0-9]+,[0-9.]+,,[0-9.]+,0\\.0000,Slurm's accounting\$"
  assert_contains "$(dlctl usage --since 1h)" "^GPU-hours, from Slurm's accounting\$"
}

@test "without slurmdbd for a while, GPUs are lent and taken back all the same" {
  dl_sandbox daemon stop slurmdbd
  lend_and_take_back
  dl_sandbox daemon start slurmdbd 3>&-
}
