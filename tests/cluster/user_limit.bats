#!/usr/bin/env bats
# max_user_gpus without slurmdbd: what one user of a tenant may hold over all jobs, kept by dlpolicyd.
# shellcheck disable=SC2016,SC2030,SC2031,SC2119  # $job is each test's own
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/quota.bash
source "$(dirname "$BATS_TEST_FILENAME")/quota.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

setup_file() {
  cat >"$BATS_FILE_TMPDIR/dl.toml" <<'END'
[nodes]
gpus_per_node = 4
[tenants.vision]
quota = 6
max_user_gpus = 2
[tenants.nlp]
quota = 2
END
  cluster_up --nodes 2 --gpus-per-node 4 --dl-toml "$BATS_FILE_TMPDIR/dl.toml" --conf Licenses=dl_vision:6,dl_nlp:2
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
}
teardown() {
  stop_daemon
  cluster_teardown
}
running() { [ "$(on_login squeue -h -r -u "$(some_user)" -t RUNNING -o %i | wc -l)" = "$1" ]; }
never_more_than() {
  local i
  for ((i = 0; i < 20; i++)); do
    (($(on_login squeue -h -r -u "$(some_user)" -t RUNNING -o %i | wc -l) <= $1)) || { on_login squeue -r; return 1; }
    sleep 0.1
  done
}

@test "a user's jobs hold no more GPUs together than max_user_gpus, though quota and GPUs are free" {
  start_daemon
  first=$(user_submit -A vision --gpus=1 --wrap 'sleep 300')
  for _ in 1 2 3; do last=$(user_submit -A vision --gpus=1 --wrap 'sleep 300'); done
  wait_for 20 "two of them run" running 2
  never_more_than 2
  wait_for 5 "its owner is told" why_says "$last" \
    "user $(some_user) has 2 of the 2 GPUs a user of tenant 'vision' may have"
  # Others are not concerned.
  job=$(submit -A vision -o /dev/null --gpus=2 --wrap 'sleep 300')
  wait_state "$job" RUNNING 20
  on_login scancel "$first"
  wait_for 20 "the next one runs" running 2
  never_more_than 2
}

@test "so do the elements of an array" {
  start_daemon
  job=$(user_submit -A vision --array=1-5 --gpus=1 --wrap 'sleep 4')
  wait_for 20 "two of them run" running 2
  never_more_than 2
  wait_for 60 "all have run" eval '[ "$(on_login squeue -h -r -t COMPLETED -j '"$job"' -o %i | wc -l)" = 5 ]'
}

@test "without dlpolicyd jobs go on, a little later" {
  job=$(user_submit -A vision --gpus=1 --wrap true)
  assert_contains "$(job_field "$job" AdminComment)" 'charge=own'
  wait_state "$job" COMPLETED 60
}

# A round every second for months, over every job there is.
@test "a round of dlpolicyd leaves no memory behind, libslurm's neither" {
  local checker
  checker=$(${CC:-cc} -print-file-name=liblsan.so 2>/dev/null)
  [[ $checker == /* ]] || skip "no LeakSanitizer (liblsan.so) for the compiler here"
  for job in 1 2 3; do submit -A nlp --hold --dl-gpus=1 --wrap true >/dev/null; done
  run on_login env LD_PRELOAD="$checker" "$stage/sbin/dlpolicyd" --once --pidfile "$PWD/lock" --state-file "$PWD/use.json"
  [[ $status -eq 0 && $output != *LeakSanitizer* ]] || { echo "$output" | grep -vE ' #[0-9]+ .*libc' | head -40; return 1; }
}
