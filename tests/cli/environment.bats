#!/usr/bin/env bats
# What a learner finds in its environment is what `dlrun --dry-run` says, name by name. Under Slurm: tests/cluster/flags.bats.
# shellcheck disable=SC2016  # expanded by the shells of learners
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() { dlrun_setup; }

# as_said OPTION...: of dlrun, for learners that write down their environment.
as_said() {
  rm -rf found job && mkdir found
  env -0 >found/inherited
  "$dlrun" --dry-run --json --job-dir job "$@" -- sh -c 'env -0 >found/$DL_RANK' >plan.json
  "$dlrun" -q --job-dir job "$@" -- sh -c 'env -0 >found/$DL_RANK'
  python3 "$top_srcdir/tests/lib/compare_environment.py" cat plan.json found
}

@test "each framework's learners find what the dry run says" {
  local framework
  for framework in cat/*.toml; do
    framework=$(basename "$framework" .toml)
    grep -q '^launch = "mpi"' "cat/$framework.toml" && continue  # tests/cluster/mpi.bats
    as_said --framework "$framework" -n 2 || { echo "above: $framework" >&2; false; }
  done
}

@test "with a checkpoint, with servers, and with what the user set" {
  as_said --framework pytorch -n 3 --checkpoint ck
  as_said --framework tensorflow -n 2 --servers 1
  export OMP_NUM_THREADS=3 PYTHONPATH=/mine PYTHONUNBUFFERED="" RANK=9 MASTER_PORT=1234 DL_PROGRESS=/stale
  as_said --framework pytorch -n 2
}

@test "with a PyTorch that has no libuv" {
  USE_LIBUV=0 as_said --framework pytorch -n 2
  grep -zqx TORCHELASTIC_USE_AGENT_STORE=False found/1
}

@test "a variable of the framework's version wins over that of its family, and the user's over both" {
  printf 'summary = "torch of the site"\nfamilies = ["torch"]\n[[versions]]\nversion = "1"\nenvironment = { OMP_NUM_THREADS = "7" }\n' >cat/site.toml
  as_said --framework site -n 2
  grep -zqx OMP_NUM_THREADS=7 found/1
  OMP_NUM_THREADS=2 as_said --framework site -n 2
  grep -zqx OMP_NUM_THREADS=2 found/1
}

@test "a difference is found" {
  as_said -n 1
  printf 'NEW=1\0' >>found/0
  run python3 "$top_srcdir/tests/lib/compare_environment.py" cat plan.json found
  [ "$status" -eq 1 ]
  [ "$output" = "rank 0: NEW='1' was not said" ]
}

@test "a variable that was to be found later, and is not there, is found" {
  local rank
  as_said -n 2
  for rank in 0 1; do # DL_METRICS_FILE is rank 0's alone
    grep -zvE '^(DL_RUN_ID|DL_METRICS_FILE)=' "found/$rank" >less
    mv less "found/$rank"
  done
  run python3 "$top_srcdir/tests/lib/compare_environment.py" cat plan.json found
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 3 ]
  contains "${lines[0]}" '^rank 0: DL_METRICS_FILE was to be found later \(of rank 0 alone: .*\) and is not there$'
  contains "${lines[1]}" '^rank 0: DL_RUN_ID was to be found later '
  contains "${lines[2]}" '^rank 1: DL_RUN_ID was to be found later '
}
