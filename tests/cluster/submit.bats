#!/usr/bin/env bats
# dlrun --submit on a login node of a real Slurm: the script it writes is what sbatch and bash read it as.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { cluster_teardown; }

@test "a command line becomes a script, a job, and learners; values with blanks and quotes arrive as they were" {
  mkdir 'a "b" c' && cd 'a "b" c'
  run --separate-stderr on_login env VIRTUAL_ENV=/nowhere dlrun --submit -n 4 -g 1 --time 5 --sbatch='--comment=one "two" #three \ four' --placement cyclic -- \
    sh -c 'echo "rank $RANK of $WORLD_SIZE in $PWD: $1 $VIRTUAL_ENV"' sh "it's"
  [ "$status" -eq 0 ]
  [[ $output =~ ^Submitted\ batch\ job\ ([0-9]+)$ ]]
  job=${BASH_REMATCH[1]}
  assert_contains "$stderr" "^dlrun: the batch script, $PWD/sh.sbatch:"
  assert_contains "$stderr" "^    #SBATCH --dl-learners=4"
  assert_contains "$stderr" "dlctl status $job; dlctl logs $job"
  wait_state "$job" COMPLETED 30
  for r in 0 1 2 3; do assert_contains "$(cat "slurm-$job.out")" "^\[$r\] rank $r of 4 in $PWD: it's /nowhere"; done
  assert_contains "$(job_field "$job" Comment)" '^one "two" #three \\ four \| dl:COMPLETED'
  [ "$(job_field "$job" JobName)" = sh ]
  # It stands for itself: submitted again from elsewhere it does the same.
  again=$(cd / && on_login sbatch --parsable "$OLDPWD/sh.sbatch")
  wait_state "$again" COMPLETED 30
  assert_contains "$(cat "slurm-$again.out")" "rank 3 of 4 in $PWD"
}

@test "nothing is lost: scripts are kept, --dry-run writes none, a refused job says why and leaves no script" {
  run --separate-stderr on_login dlrun --submit --dry-run --job-name one -- true
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  [ -z "$(ls)" ]
  assert_contains "$output" '^exec .*dlrun -- true$'
  echo mine >one.sbatch
  run --separate-stderr on_login dlrun --submit -q --json --job-name one -- true
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  [ "$(cat one.sbatch)" = mine ]
  [ "$(jq -r .script <<<"$output")" = "$PWD/one-2.sbatch" ]
  job=$(jq -r .job_id <<<"$output")
  wait_state "$job" COMPLETED 30
  run on_login dlrun --submit --job-name two -f nonsense -- true
  [ "$status" -eq 71 ]
  [ ! -e two.sbatch ]
  assert_contains "$output" "^dlrun: --dl-framework: 'nonsense' is not a known framework; known: "
  run ! grep -q 'spank' <<<"$output"
  run on_login dlrun --submit --job-name three -n 0 -- true
  [ "$status" -eq 2 ]
  [ ! -e three.sbatch ]
  assert_contains "$output" "^dlrun: --learners: '0'"
  run on_login dlrun --submit --time soon -- true
  [ "$status" -eq 71 ]
  assert_contains "$output" '^dlrun: Invalid --time specification$'
  # The plugin has accepted this one, and says so; Slurm has not.
  run on_login dlrun --submit --job-name four --gpus 1 --sbatch=--licenses=none:1 -- true
  [ "$status" -eq 71 ]
  assert_contains "$(tail -n 1 <<<"$output")" '^dlrun: Batch job submission failed: Invalid license specification$'
  # Also where the plugin had more to say of it.
  run on_login dlrun --submit --job-name five --gpus 1 --sbatch=--dl-tier=borrow --sbatch=--licenses=none:1 -- true
  [ "$status" -eq 71 ]
  assert_contains "$(tail -n 1 <<<"$output")" '^dlrun: Batch job submission failed: Invalid license specification$'
}

@test "in a job it runs there" {
  run on_login srun -N1 dlrun --submit -- sh -c 'echo "here in $SLURM_JOB_ID"'
  [ "$status" -eq 0 ]
  assert_contains "$output" '^dlrun: --submit: this is a Slurm job already; the learners run in it'
  assert_contains "$output" '^here in [0-9]+'
}
