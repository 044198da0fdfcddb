#!/usr/bin/env bats
# The commands in README.md that need a cluster, taken from there, on a Slurm that is configured as README.md says.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/readme.bash
source "$top_srcdir/tests/lib/readme.bash"

# Two nodes of four GPUs. The sandbox without slurmdbd has partitions where README.md's dl.toml has QOS.
setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  readme_blocks toml | sed -E 's/^qos = "normal"/partition = "batch"/; s/^qos = "preemptable"/partition = "borrow"/' >"$toml"
  printf '[frameworks]\ncatalogue = ["%s"]\n' "$(readlink -f "$stage/share/slurm-dl/frameworks.d")" >>"$toml"
  cluster_up --nodes 2 --gpus-per-node 4 --dl-toml "$toml"
  [[ -z $DL_NO_CLUSTER ]] || return 0
  # shellcheck disable=SC2016  # backticks of Markdown
  sed -nE 's/.*`(Include [a-z.-]+)`.*/\1/p' "$readme" >>"$DL_SANDBOX_DIR/etc/slurm.conf"
  grep -q 'an empty .dl-licenses.conf.' "$readme" && : >"$DL_SANDBOX_DIR/etc/dl-licenses.conf"
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  export SBATCH_ACCOUNT=vision
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 slurm-*.out 2>/dev/null || true
  cluster_teardown
}

# typed COMMAND: on the login host, in the folder of the test.
typed() { on_login env -C "$PWD" PATH="$PWD/bin:$stage/bin:$stage/sbin:$PATH" bash -c "$1" </dev/null; }
quotas_are_known() { typed "$(from_readme 'dlctl quota sync') --yes"; }
past_step() { (($(typed "dlctl status --json $1" | jq '.[0].step // 0') >= $2)); }
write_training() {
  [[ -e $stage/lib/libdlckpt.so.1 ]] || skip "built without HDF5"
  /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "/usr/bin/python3 has no NumPy"
  # The python3 of the README is Debian's, whatever else comes first in PATH.
  mkdir bin
  ln -s /usr/bin/python3 bin/python3
  write_train_py
  readme_blocks bash >train.sh
}

@test "tenants: the configuration is checked, Slurm gets the licences, and quotas are shown" {
  run typed "$(from_readme 'dlctl config check')"
  [ "$status" -eq 0 ]
  assert_contains "$(typed "$(from_readme 'dlctl doctor')" || true)" '^wrong  licences: licence .dl_speech.: Slurm has none, the quotas of dl.toml need 8'
  run typed "$(from_readme 'dlctl quota sync')"
  assert_contains "$output" '^licence +dl_vision +- +8$'
  assert_contains "$output" 'allowed: --yes to do it'
  quotas_are_known
  run typed "$(from_readme 'dlpolicyd --once --dry-run')"
  [ "$status" -eq 0 ]
  run typed "$(from_readme 'dlctl quota')"
  [ "$status" -eq 0 ]
  assert_contains "$output" '^vision +8 '
  assert_contains "$output" '^speech +8 '
}

@test "train.sh and the training loop: submitted, waiting, running, paused, resumed, its logs and its checkpoints" {
  write_training
  quotas_are_known
  blocker=$(submit --nodes=2 --exclusive --wrap 'sleep 300')
  wait_state "$blocker" RUNNING 20
  export STEP_TIME=0.05 TRAIN_STEPS=300
  run typed "$(from_readme 'sbatch train.sh')"
  [ "$status" -eq 0 ]
  job=$(sed -nE 's/^Submitted batch job ([0-9]+).*/\1/p' <<<"$output")
  [ -n "$job" ]
  run typed "$(from_readme 'dlctl why *')"
  [ "$status" -eq 0 ]
  assert_contains "$output" "$job"
  on_login scancel "$blocker"
  wait_for 60 "job $job is past train step 5" past_step "$job" 5
  run typed "$(from_readme 'dlctl status *')"
  assert_contains "$output" '^state +PROCESSING since'
  assert_contains "$output" '^learners +4 x 1 GPU on n'
  run typed "$(from_readme 'dlctl pause *')"
  [ "$status" -eq 0 ]
  assert_contains "$output" 'paused: saved at train step [0-9]+'
  saved=$(grep -oE 'train step [0-9]+' <<<"$output" | head -n 1)
  run typed "$(from_readme 'dlctl resume *')"
  [ "$status" -eq 0 ]
  run typed "$(from_readme 'dlctl logs -f *')"
  [ "$status" -eq 0 ]
  assert_contains "$output" "dlckpt: resumed at $saved"
  # Which of the four lines are one depends on when they came.
  assert_contains "$output" '^\[[0-3,-]+\] done: 300 of 300 train steps counted'
  run typed "dlctl logs --no-fold $job"
  for rank in 0 1 2 3; do assert_contains "$output" "^\[$rank\] done: 300 of 300 train steps counted"; done
  wait_state "$job" COMPLETED 30
  run typed "$(from_readme 'dlckpt ls *')"
  assert_contains "$output" '300 '
  typed "$(from_readme 'dlckpt verify *')"
}

@test "dlrun --submit writes a batch script and submits it" {
  write_training
  quotas_are_known
  run typed "$(from_readme 'dlrun --submit *')"
  [ "$status" -eq 0 ]
  job=$(sed -nE 's/^Submitted batch job ([0-9]+)$/\1/p' <<<"$output")
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat "slurm-$job.out")" '^\[3\] done: 20 of 20 train steps counted'
}
