#!/usr/bin/env bats
# dlpolicyd end to end: idle GPUs are lent, and taken back for a claim without losing work. The same with slurmdbd:
# reclaim_slurmdbd.bats.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

setup_file() { reclaim_up; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() {
  [[ ! -e cut ]] || dl_sandbox node heal n2
  [[ ! -e cut ]] || on_login scontrol update NodeName=n2 State=RESUME || true
  # A slurmd that starts registers at once. Slurm 24.11 does not answer any more after a reconfigure beside a node that was cut off.
  [[ ! -e cut ]] || { dl_sandbox daemon stop slurmd@n2 && dl_sandbox daemon start slurmd@n2; }
  reclaim_teardown
}

# bats test_tags=versions
@test "idle GPUs are lent, taken back for a claim within seconds, and the victim goes on where it was" { lend_and_take_back; }

@test "an elastic borrower is shrunk rather than stopped: it goes on smaller, at once" {
  lent=$(learners=2:4 training --account=nlp --dl-tier=borrow train.sh 400 50)
  wait_state "$lent" RUNNING 20
  [ "$(job_field "$lent" NumNodes)" = 2 ]
  in_training "$lent"
  claim=$(training --account=vision train.sh 200 50)
  wait_for 5 "job $lent is asked to shrink to 2 learners" grep -q "job $lent: yield: yields 2 GPUs.*yields=$claim@[0-9]*:2'" daemon.log
  wait_state "$claim" RUNNING 20
  wait_state "$lent" RUNNING 20
  wait_file "slurm-$lent.out" 'attempt 2 starts at train step [1-9]' 20
  [ "$(job_field "$lent" NumNodes)" = 1 ]
  [ "$(job_state "$claim")" = RUNNING ]
}

@test "an elastic claim beside another one starts at its smallest size, and both start when their victims have gone" {
  for i in 0 1; do
    victims[i]=$(training --account=nlp --dl-tier=borrow train.sh 4000 50)
    wait_state "${victims[i]}" RUNNING 20
    in_training "${victims[i]}"
  done
  stop_daemon # both claims in one decision
  elastic=$(learners=2:4 training --account=vision train.sh 200 50)
  other=$(training --account=nlp train.sh 200 50)
  start_daemon
  wait_state "$elastic" RUNNING 20
  wait_state "$other" RUNNING 20
  [ "$(job_field "$elastic" NumNodes)" = 1 ]
  [ "$(job_state "$elastic")" = RUNNING ]
  for victim in "${victims[@]}"; do [ "$(restarts_of "$victim")" = 1 ]; done
  [ "$(grep -c ': yield: ' daemon.log)" = 2 ]
  [[ $(job_field "$elastic" AdminComment) == *' nodes=1:2 '* ]]
}

@test "who ignores the request is requeued at the deadline; a daemon that was killed in the midst of it, and a slurmctld, go on" {
  lend_to deaf
  claim=$(training --account=vision train.sh 20 50)
  wait_for 5 "job $lent is asked to yield" asked "$lent" "$claim"
  asked_at=$(date +%s)
  stop_daemon
  dl_sandbox daemon stop slurmctld 3>&-
  dl_sandbox daemon start slurmctld 3>&-
  rm -f metrics.prom
  start_daemon
  wait_rounds 2
  asked "$lent" "$claim" # the same request still
  [ "$(restarts_of "$lent")" = 0 ]
  wait_for 25 "Slurm requeues job $lent" requeued "$lent"
  (($(date +%s) - asked_at >= 14))
  wait_state "$claim" RUNNING,COMPLETED 20
  wait_for 10 "the request is done with" not_asked "$lent"
  wait_state "$claim" COMPLETED 20
  wait_state "$lent" RUNNING 20
  [ "$(grep -c "job $lent: requeue" daemon.log)" = 1 ]
}

@test "a borrower that gave a lost node back gives its lent GPUs back, too, also where Slurm takes no change of it any more" {
  lent=$(submit --account=nlp --dl-tier=borrow --dl-framework=generic --dl-learners=1:2 --dl-gpus=2 --dl-checkpoint=ck,every=10steps train.sh 2000 50)
  wait_file "slurm-$lent.out" '^\[0\] saved at train step 20' 40
  touch cut
  dl_sandbox node cut n2
  wait_file "slurm-$lent.out" 'n2 is left out; 1 learner on n1' 30
  has_given_back() { [ "$(job_field "$lent" NodeList)" = n1 ]; }
  wait_for 30 "job $lent has given n2 back" has_given_back
  on_login scontrol update NodeName=n2 State=DRAIN Reason=cut # Slurm may not have noticed yet
  claim=$(training --account=vision train.sh 20 50)
  wait_file daemon.log "job $lent: yield" 30
  wait_state "$claim" RUNNING,COMPLETED 40
  wait_state "$claim" COMPLETED 40
  wait_state "$lent" RUNNING 40
  [ "$(restarts_of "$lent")" = 1 ]
  wait_file "slurm-$lent.out" 'attempt [3-9] starts at train step [1-9]' 20
  wait_for 10 "the request is done with" not_asked "$lent"
  # Each change that Slurm refuses holds up all others for 5 s.
  [ "$(grep -c "job $lent: slurmctld takes no change" daemon.log)" -le 1 ]
  [ "$(grep -c "job $lent: .*failed" daemon.log)" -le 1 ]
}

@test "metrics tell of a job what Slurm and its dlrun say, whatever the job is called" {
  job=$(submit -J "my \"run\" \\o/" --account=nlp --dl-framework=generic --dl-learners=2 --dl-gpus=1 --dl-checkpoint="$(mktemp -d ck.XXXXXX),every=2s" train.sh 4000 50)
  wait_state "$job" RUNNING 20
  # told METRIC VALUE [SECONDS]
  told() { wait_file metrics.prom "^$1\\{job_id=\"$job\",tenant=\"nlp\"[^}]*\\} $2\$" "${3:-20}"; }
  wait_file metrics.prom "^dl_job_state\\{job_id=\"$job\",tenant=\"nlp\",state=\"PROCESSING\"\\} 1" 30
  told dl_job_train_step '[1-9][0-9]*' 60
  told dl_job_saved_step '[1-9][0-9]*'
  told dl_job_blocked_seconds '[0-9.]+'
  told dl_job_told_timestamp_seconds '[0-9]{10}'
  told dl_job_gpus 2
  told dl_job_learners 2
  told dl_job_borrowed_gpus 0
  told dl_job_requeues 0
  grep -qF 'name="my \"run\" \\o/"} 1' metrics.prom
  on_login scancel "$job"
  wait_file metrics.prom '^trainer_trainings_delete_total\{tenant="nlp"\} [1-9]' 30
  if promtool=$("$top_srcdir/packaging/install-promtool"); then "$promtool" check metrics <metrics.prom; fi
}

@test "a claim that goes away leaves alone who has not gone yet" {
  stop_daemon
  sed 's/^grace = .*/grace = "8s"/' "$DL_SANDBOX_DIR/etc/dl.toml" >short.toml
  export DL_CONFIG=$PWD/short.toml
  start_daemon
  lend_to deaf
  claim=$(training --account=vision train.sh 20 50)
  wait_for 5 "job $lent is asked to yield" asked "$lent" "$claim"
  on_login scancel "$claim"
  wait_for 5 "the request is taken back" not_asked "$lent"
  sleep 13 # the deadline passes, after the grace of 8 s, and the 3 s after which dlpolicyd would requeue the job; nobody goes
  [ "$(job_state "$lent")" = RUNNING ]
  [ "$(restarts_of "$lent")" = 0 ]
}

has_license() { [ "$(job_field "$1" Licenses)" = "$2" ]; }

@test "of a job that exceeds the quota, what the quota has left is charged as own, and only the rest as borrowed" {
  large=$(learners=3 training --account=nlp train.sh 4000 50)
  wait_state "$large" RUNNING 20
  in_training "$large"
  wait_for 10 "two of its GPUs are charged as own" has_license "$large" dl_nlp:2
  assert_contains "$(job_field "$large" AdminComment)" ' charge=borrowed own=2'
  run dlctl quota
  assert_contains "$output" '^nlp +2 +2 +0 +1 '
  claim=$(training --account=vision train.sh 4000 50)
  wait_for 5 "job $large is asked to yield" asked "$large" "$claim"
  wait_state "$claim" RUNNING 20
  run dlctl quota
  assert_contains "$output" '^nlp +2 +0 +0 +0 '
}

@test "a borrowed job becomes its tenant's own when quota is free, without a restart, and is no victim any more" { become_own; }

quota_says() { dlctl quota | grep -qE "$1"; }
label_says() { job_field "$1" AdminComment | grep -qE "$2"; }

@test "a job that does not use its GPUs is told so, does without its tenant's quota, and gives way to the tenant's next job" {
  mkdir lib
  cc -shared -fPIC -o lib/libnvidia-ml.so.1 "$top_srcdir/tests/lib/nvml_double.c" || skip "no C compiler"
  echo '0 0' >uses
  printf '#!/bin/bash\nexport LD_LIBRARY_PATH=%s NVML_DOUBLE=%s\nexec ./train.sh "$@"\n' "$PWD/lib" "$PWD/uses" >idle.sh
  chmod 755 train.sh idle.sh
  other=$(training --account=nlp train.sh 4000 50)
  wait_state "$other" RUNNING 20
  idle=$(training --account=vision idle.sh 4000 50)
  wait_state "$idle" RUNNING 20
  wait_file "slurm-$idle.out" 'warning: .*learner.* (has|have) not used (its|their) (2 GPUs|GPU) for' 20
  wait_charge "$idle" borrowed 45 # if the two become idle a second apart, the comment follows half a minute later
  wait_for 45 "dlctl quota tells so" quota_says "^vision: job $idle has not used 2 of its 2 GPUs for [0-9]+s: they count as lent"
  run dlctl quota
  assert_contains "$output" '^vision +2 +0 +[0-9]+ +2 +2 '
  run dlctl status "$idle"
  assert_contains "$output" '^not used +2 GPUs for '
  wait_file metrics.prom "dl_job_idle_gpus\{job_id=\"$idle\",tenant=\"vision\"\} 2" 20
  next=$(training --account=vision train.sh 400 50)
  wait_for 5 "job $idle is asked to yield" asked "$idle" "$next"
  echo '90 90' >uses
  wait_state "$next" RUNNING 30
  wait_for 5 "the idle job is in the queue" in_state "$idle" PENDING
  assert_contains "$(output "$idle")" 'lent GPUs are taken back: saved at train step'
  wait_for 10 "dlpolicyd has seen it there" label_says "$idle" ' queued=[0-9]+'
  wait_state "$next" COMPLETED 60
  wait_state "$idle" RUNNING 200 # Slurm waits two minutes with a job whose start time has passed before it is done completing
  wait_charge "$idle" own 10
}

@test "a guaranteed job takes back from its own tenant, and a job of another tenant goes on" {
  own=$(training --account=nlp train.sh 4000 50)
  other=$(training --account=vision train.sh 4000 50)
  wait_state "$own" RUNNING 20
  wait_state "$other" RUNNING 20
  in_training "$own"
  firm=$(training --account=nlp --dl-tier=guaranteed train.sh 40 50)
  wait_for 5 "job $own is asked to yield" asked "$own" "$firm"
  wait_state "$firm" RUNNING,COMPLETED 20
  [ "$(restarts_of "$other")" = 0 ]
  wait_state "$firm" COMPLETED 20
  wait_state "$own" RUNNING 20
  wait_file "slurm-$own.out" 'attempt 2 starts at train step [1-9]' 20
  # There are free GPUs: no restart.
  on_login scancel "$other"
  firm=$(training --account=nlp --dl-tier=guaranteed train.sh 20 50)
  wait_state "$firm" RUNNING,COMPLETED 20
  charge_is "$own" borrowed
  [ "$(restarts_of "$own")" = 1 ]
}

@test "dlctl tells who holds what, why a job waits, and what would be taken back" {
  lend_to deaf
  stop_daemon
  claim=$(training --account=vision train.sh 20 50)
  run dlctl quota
  assert_contains "$output" '^TENANT +QUOTA +OWN +LENT +BORROWED +UNUSED +PENDING'
  assert_contains "$output" '^vision +2 +0 +2 +0 +0 +2 in 1'
  assert_contains "$output" '^nlp +2 +2 +0 +2 +0 '
  [ "$(dlctl quota --json | jq -r '.tenants[] | select(.tenant == "nlp") | .borrowed')" = 2 ]
  # Until then the borrower is still within its minimum run time, and the claim waits for that.
  wait_for 5 "the claim is told that its GPUs are being taken back" \
    why_says "$claim" "^job $claim waits: its 2 GPUs are tenant 'vision''s own and are being taken back"
  run dlctl quota reclaim --dry-run "$claim"
  assert_contains "$output" "job $lent of 'nlp' stops and gives 2 GPUs"
  not_asked "$lent"
  run on_login "$stage/sbin/dlpolicyd" --once --dry-run --json
  [ "$(jq -r '.[] | select(.action == "yield") | .job' <<<"$output")" = "$lent" ]
  not_asked "$lent"
  run dlctl why 99999
  [ "$status" -eq 3 ]
}

@test "a dl.toml with a fault is not taken by the running daemon, a good one is" {
  local toml=$DL_SANDBOX_DIR/etc/dl.toml
  cp "$toml" good.toml
  echo 'half_life = 7' >>"$toml" # belongs to no tenant
  kill -HUP "$(cat daemon.pid)"
  wait_file daemon.log 'the old configuration is kept: .*dl.toml:[0-9]+: ' 5
  wait_file metrics.prom '^dl_policyd_config_in_force 0$' 5
  cat good.toml >"$toml"
  kill -HUP "$(cat daemon.pid)"
  wait_file daemon.log 'read .*dl.toml again: 2 tenants' 5
  wait_file metrics.prom '^dl_tenant_quota_gpus{tenant="vision"} 2' 5
  wait_file metrics.prom '^dl_policyd_config_in_force 1$' 5
  # A file that was changed and not read again is not in force either; the same text anew is.
  echo '# another' >>"$toml"
  wait_file metrics.prom '^dl_policyd_config_in_force 0$' 5
  cat good.toml >"$toml"
  wait_file metrics.prom '^dl_policyd_config_in_force 1$' 5
  wait_file metrics.prom '^dl_policyd_failed_updates_total{reason="denied"} 0$' 5
}

# Where its one round meets the jobs in the midst of something, the next one does not.
denied_once() {
  as_user "$(some_user)" "$stage/sbin/dlpolicyd" --once --pidfile "$PWD/lock.other" --metrics-file "$PWD/denied.prom" || true
  grep -qs '^dl_policyd_failed_updates_total{reason="denied"} [1-9]' denied.prom
}

@test "changes that slurmctld denies are counted" {
  stop_daemon
  borrower=$(learners=3 training -A nlp train.sh 500 100)
  wait_state "$borrower" RUNNING 30
  learners=2 training -A vision train.sh 500 100 # its own GPUs have to come back
  wait_for 20 "a change is denied" denied_once
}
