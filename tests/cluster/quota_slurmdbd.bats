#!/usr/bin/env bats
# Quotas of tenants with slurmdbd: dlctl quota sync makes Slurm hold what dl.toml says, and jobs without an account are
# their user's default account's. Without slurmdbd: quota.bats.
# shellcheck disable=SC2016  # some is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/quota.bash
source "$(dirname "$BATS_TEST_FILENAME")/quota.bash"

setup_file() { quota_up --slurmdbd --conf 'Licenses=matlab:5'; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { cluster_teardown; }

@test "dlctl quota sync says what is missing where slurm.conf has licences of its own, and changes nothing" {
  run on_login dlctl quota sync --dry-run
  [ "$status" -eq 0 ]
  assert_contains "$output" '^licence +dl_vision/a100 +- +4$'
  assert_contains "$output" '^account +vision +fairshare 1 +fairshare 250$'
  assert_contains "$output" '^user +nobody in vision +- +3 GPUs$'
  # Before the first sync a GPU job is told what is missing.
  run as_user "$(some_user)" sbatch -A vision --gpus=1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "slurm.conf does not have the licence 'dl_vision/a100'.*dlctl quota sync"
  assert_contains "$(on_login dlctl config check)" '^warning: \[tenants\]: Slurm does not have the licences .*dlctl quota sync$'
  run on_login dlctl quota sync --yes
  [ "$status" -eq 2 ]
  assert_contains "$output" "slurm.conf has a Licenses of its own.*put 'Include dl-licenses.conf' in its place"
  sed -i '/^Licenses=/d' "$DL_SANDBOX_DIR/etc/slurm.conf"
  run on_login dlctl quota sync --yes
  [ "$status" -eq 2 ]
  assert_contains "$output" "does not include dl-licenses.conf; allowed: an empty file of that name in .*, and then the line 'Include dl-licenses.conf' in it"
}

@test "where slurm.conf includes a file of licences that is not there, which no command of Slurm can read, dlctl quota sync makes it" {
  local began=$SECONDS
  cp "$DL_SANDBOX_DIR/etc/slurm.conf" before.conf
  echo 'Include dl-licenses.conf' >>"$DL_SANDBOX_DIR/etc/slurm.conf"
  run on_login dlctl quota sync --dry-run
  echo "$output"
  [ "$status" -eq 2 ]
  assert_contains "$output" 'includes .*/dl-licenses.conf, which is not there, so that no command of Slurm can read it; allowed: dlctl quota sync without --dry-run'
  run on_login dlctl quota sync </dev/null
  [ "$status" -eq 2 ]
  assert_contains "$output" 'made an empty .*/dl-licenses.conf'
  assert_contains "$output" 'allowed: --yes to do it, --dry-run to see it'
  [ -e "$DL_SANDBOX_DIR/etc/dl-licenses.conf" ]
  on_login scontrol show config >/dev/null
  # Slurm itself tries for a minute.
  [ $((SECONDS - began)) -lt 50 ]
  cp before.conf "$DL_SANDBOX_DIR/etc/slurm.conf"
}

@test "dlctl quota sync writes licences, accounts and limits, keeps the site's licences, and has nothing to do the second time" {
  echo 'Include dl-licenses.conf' >>"$DL_SANDBOX_DIR/etc/slurm.conf"
  echo 'Licenses=matlab:5' >"$DL_SANDBOX_DIR/etc/dl-licenses.conf"
  run on_login dlctl quota sync </dev/null
  [ "$status" -eq 2 ]
  assert_contains "$output" 'allowed: --yes to do it, --dry-run to see it'
  # slurmdbd refuses one of the changes: all others are made, and the next run makes that one.
  mkdir bin
  printf '#!/bin/bash\n[[ $* != *name=nobody*account=vision* ]] || { echo "sacctmgr: no connection" >&2; exit 1; }\nexec %s "$@"\n' \
    "$(command -v sacctmgr)" >bin/sacctmgr
  chmod 755 bin/sacctmgr
  run on_login env PATH="$PWD/bin:$PATH" "$stage/bin/dlctl" quota sync --json --yes
  [ "$status" -eq 1 ]
  assert_contains "$output" '^dlctl quota sync: user nobody in vision: sacctmgr .*: sacctmgr: no connection'
  assert_contains "$output" 'of [0-9]+ changes could not be made, and the others are made; mend what'
  assert_contains "$output" '"done":false'
  run on_login dlctl quota sync --dry-run
  [ "$(grep -cE '^(licence|account|QOS|user) ' <<<"$output")" -eq 1 ]
  assert_contains "$output" '^user +nobody in vision '
  run on_login dlctl quota sync --yes
  [ "$status" -eq 0 ]
  on_login scontrol show lic -o >licences
  assert_contains "$(cat licences)" '^LicenseName=dl_vision/a100 Total=4 '
  assert_contains "$(cat licences)" '^LicenseName=dl_nlp/borrow Total=3 '
  assert_contains "$(cat licences)" '^LicenseName=matlab Total=5 '
  run on_login dlctl quota sync --json
  [ "$status" -eq 0 ]
  [ "$(jq -c .steps <<<"$output")" = '[]' ]
  run on_login dlctl quota sync
  [ "$output" = 'Slurm has what dl.toml says of tenants: nothing to do' ]
  assert_contains "$(on_login sacctmgr -nP show assoc account=vision user=nobody format=grptres)" 'gres/gpu=3'
  assert_contains "$(on_login sacctmgr -nP show assoc account=vision format=user,fairshare)" '^\|250$'
}

@test "a job without an account is charged to its user's default account" {
  job=$(user_submit -H --gpus=2 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  [ "$(job_field "$job" Account)" = vision ]
  job=$(user_submit -H -A NLP --gpus=1 --dl-learners=1 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_nlp:1 ]
  job=$(user_submit -H -A nlp --dl-learners=3 --dl-gpus=1 --dl-checkpoint=ck --wrap true)
  [ "$(job_field "$job" QOS)" = dl-borrow ]
  run user_submit -A nlp --qos=dl-guaranteed --gpus=6 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "tenant 'nlp' may borrow 3 GPUs"
}

@test "one user cannot hold more GPUs of a tenant than max_user_gpus, over all jobs" {
  run user_submit --gpus=4 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "4 GPUs exceed what one user of tenant 'vision' may have, 3 GPUs"
  first=$(user_submit --gpus=2 --wrap 'sleep 60')
  wait_state "$first" RUNNING 20
  second=$(user_submit --gpus=2 --wrap 'sleep 60')
  wait_for 20 'the second waits for the limit' has_reason "$second" GrpGRES
}

@test "users cannot change account, QOS or licences, and another QOS does not help a tenant past its own" {
  job=$(user_submit -H -A nlp --gpus=2 --wrap true)
  for change in Licenses= Account=vision QOS=dl-guaranteed QOS=dl-borrow QOS=normal; do
    run as_user "$(some_user)" scontrol update JobId="$job" "$change"
    [ "$status" -ne 0 ] || { echo "taken: $change"; false; }
  done
  on_login scontrol release "$job"
  blocker=$(user_submit -A nlp --gpus=2 --qos=dl-guaranteed --wrap 'sleep 60')
  third=$(user_submit -A nlp --gpus=1 --qos=normal --wrap 'sleep 60')
  wait_state "$blocker" RUNNING 20
  wait_looked_at "$third" 20
  [ "$(used dl_nlp)" -eq 2 ]
}

@test "dlsim import sacct makes a trace of what slurmdbd knows, and dlsim compare replays it" {
  job=$(user_submit --array=1-2 --gpus=1 --wrap 'sleep 2')
  again=$(user_submit --gpus=1 --requeue --wrap 'sleep 3')
  wait_state "$again" RUNNING 20
  sleep 2 # its first run has a length in slurmdbd
  on_login scontrol requeue "$again"
  # Slurm puts its begin off by two minutes again if it still completes when that is changed.
  started_at_once() {
    on_login scontrol update JobId="$again" StartTime=now 2>/dev/null
    in_state "$again" RUNNING,COMPLETED
  }
  wait_for 60 "job $again has begun again" started_at_once
  # sacct leaves out what becomes eligible only after the end of the time that is asked for, as a requeued job may, for two minutes.
  both_runs_are_known() {
    on_login sh -c "$(on_login dlsim import sacct --command)" >sacct.txt
    [ "$(grep -c "^$again|" sacct.txt)" -eq 2 ] &&
      [ "$(on_login sacct -XnP -j "$job,$again" -o state | grep -c COMPLETED)" -eq 3 ]
  }
  wait_for 150 'sacct knows that all have ended, and both runs of one' both_runs_are_known || { cat sacct.txt; false; }
  on_login dlsim import sacct "$PWD/sacct.txt" --json -o "$PWD/trace.csv" >said.json || { cat sacct.txt; false; }
  jq -e '.jobs >= 3 and .changed["jobs that were requeued: their attempts are one job"] == 1' said.json || { cat said.json sacct.txt; false; }
  # The array's elements and the requeued job: one GPU each (of its type only where AccountingStorageTRES has it), their account, their wait.
  [ "$(grep -cE "^[0-9]+,[0-9]+,vision,(a100:)?1,1,[1-9][0-9]*,[0-9.]*,[0-9]+,auto,pack,0,60,[0-9]+\$" trace.csv)" -ge 3 ] || { cat trace.csv; false; }
  grep -qE "^$again," trace.csv
  on_login dlsim compare "$PWD/trace.csv" --nodes a100=4x2 --json | jq -e '.[0].real.count >= 3 and .[0].factor >= 1'
}

@test "a slurmdbd that does not answer holds dlctl status --ended up once, however many job directories it is asked about" {
  local pid began took here
  here=$(sed -n 's/^ClusterName=//p' "$DL_SANDBOX_DIR/etc/slurm.conf")
  mkdir old
  for n in 1 2 3 4 5; do
    mkdir "old/dl-88888$n"
    echo "{\"cluster\":\"$here\"}" >"old/dl-88888$n/plan.json"
    echo '{"time_ms":1000,"attempt":1,"state":"PENDING","reason":"preempted: saved at train step 3"}' >"old/dl-88888$n/events.jsonl"
  done
  pid=$(cat "$DL_SANDBOX_DIR/run/slurmdbd.slurm")
  kill -STOP "$pid"
  began=$(date +%s%N)
  run on_login dlctl status --ended "$PWD/old"
  took=$((($(date +%s%N) - began) / 1000000))
  kill -CONT "$pid"
  [ "$(grep -cE '^88888[1-5] +CANCELLED .* no longer in Slurm: cancelled' <<<"$output")" -eq 5 ] || { echo "$output"; return 1; }
  # sacct is asked for 5 s.
  [ "$took" -ge 4500 ] && [ "$took" -lt 12000 ] || { echo "it took $took ms"; return 1; }
}

# The last one: the federation stays.
@test "in a federation a job of ours, or of tenants' GPUs, names this cluster; then it runs, with a number as large as they are there" {
  here=$(sed -n 's/^ClusterName=//p' "$DL_SANDBOX_DIR/etc/slurm.conf")
  on_login sacctmgr -i -Q add cluster elsewhere
  on_login sacctmgr -i -Q add federation all clusters="$here,elsewhere"
  wait_for 20 "slurmctld knows of the federation" eval 'on_login scontrol show federation | grep -q elsewhere'
  for flags in "--dl-framework=generic --dl-learners=1" "--gpus=1" "--gpus=1 --clusters=$here,elsewhere"; do
    # shellcheck disable=SC2086
    run on_login sbatch --account=vision $flags --wrap true
    [ "$status" -ne 0 ]
    assert_contains "$output" "dl: .*in the federation 'all' the job might start in another cluster, .*; allowed: --clusters=$here"
  done
  submit --account=vision --wrap true
  printf '#!/bin/bash\ndlrun -- true\n' >one.sh
  job=$(submit --account=vision --clusters="$here" --dl-framework=generic --dl-learners=1 --dl-gpus=1 one.sh)
  ((job > 67108864))
  wait_state "$job" COMPLETED 30
  assert_contains "$(on_login dlctl status "$job")" "^job +$job one.sh"
  assert_contains "$(on_login dlctl quota)" 'vision'
}
