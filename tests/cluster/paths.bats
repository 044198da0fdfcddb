#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Paths of a job on a real Slurm: names of the job in them, working directories with odd names, job arrays.
# shellcheck disable=SC2016,SC2088  # nothing in the paths is meant for this shell
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  printf '#!/bin/bash\nexec dlrun -- sh -c '"'"'echo "dir=$DL_CHECKPOINT_DIR"'"'"'\n' >train.sh
}
teardown() { cluster_teardown; }

# ends JOB: it completed, and this is what it wrote.
ends() { wait_state "$1" COMPLETED 60 && cat "slurm-$1.out"; }

@test "names of the job in --dl-checkpoint: by dlrun, by plain srun, and ~ for the home directory" {
  job=$(submit --dl-learners=1 -J my-run --dl-checkpoint='ck-%j/%A/%x/%u/100%%' train.sh)
  assert_contains "$(ends "$job")" "^\[?.*dir=$PWD/ck-$job/$job/my-run/root/100%$"
  mkdir home
  job=$(HOME=$PWD/home submit --dl-learners=1 -J my-run --dl-checkpoint='~/ck-%j' train.sh)
  assert_contains "$(ends "$job")" "dir=$PWD/home/ck-$job$"
  run on_login srun --dl-framework=generic --dl-learners=1 -J plain --dl-checkpoint='%x-%6j,keep=2' sh -c 'echo "dir=$DL_CHECKPOINT_DIR=$DL_CHECKPOINT=$SLURM_JOB_ID"'
  job=${output##*=}
  assert_contains "$output" "^dir=$PWD/plain-$(printf %06d "$job")=$PWD/plain-$(printf %06d "$job"),keep=2=$job$"
}

@test "job arrays: each element has the checkpoints that its path names; one path for all is refused" {
  job=$(submit --array=3-5 --dl-learners=1 --dl-checkpoint='ck-%2a' train.sh)
  for i in 3 4 5; do
    wait_file "slurm-${job}_$i.out" "dir=" 60
    assert_contains "$(cat "slurm-${job}_$i.out")" "dir=$PWD/ck-0$i$"
  done
  wait_for 30 "all elements have ended" eval "! on_login squeue -h -j $job -t PD,R,CG 2>/dev/null | grep -q ."
  run on_login sbatch --array=0-1 --dl-learners=1 --dl-checkpoint='ck-%A' train.sh
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: --array=0-1 conflicts with --dl-checkpoint: its tasks would share one directory; allowed: a path with %a or %j"
  run on_login sbatch --dl-learners=1 --dl-checkpoint='ck-%a' train.sh
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: --dl-checkpoint: 'ck-%a': '%a' is the index in a job array, and this job is none"
}

@test "what is never expanded is refused at submission, naming it and what is" {
  for path in 'ck-%q' '$HOME/ck' '~ada/ck' 'ck-%N' '"ck'; do
    run on_login sbatch --dl-learners=1 --dl-checkpoint="$path" train.sh
    [ "$status" -ne 0 ]
    assert_contains "$output" "dl: --dl-checkpoint: '[^']*[%~\"$]"
    assert_contains "$output" 'allowed: (%j \(job id\), %A and %a|PATH)'
  done
  run on_login dlrun --checkpoint '$SCRATCH/ck' -- true
  [ "$status" -eq 2 ]
  assert_contains "$output" "^dlrun: --checkpoint: '\\\$SCRATCH/ck': '\\\$' is not expanded, since no shell reads this"
  run on_login dlrun --job-dir 'runs/%q' -- true
  [ "$status" -ne 0 ]
  assert_contains "$output" "^dlrun: --job-dir: 'runs/%q': '%q' stands for nothing here"
}

@test "the job directory takes the same names" {
  printf '#!/bin/bash\ndlrun --job-dir "runs/%%x-%%j" -- true\n' >named.sh
  job=$(submit --dl-learners=1 -J sweep named.sh)
  wait_state "$job" COMPLETED 60
  [ -e "runs/sweep-$job/events.jsonl" ]
  assert_contains "$(on_login dlctl status "$job")" "runs/sweep-$job"
}

@test "a working directory with a comma, an equals sign and a percent sign: learners save there and go on from there" {
  mkdir 'lr=0.1,bs=32 %j $x "q"' && cd 'lr=0.1,bs=32 %j $x "q"'
  printf '#!/bin/bash\nexec dlrun -- %s 30 20\n' "$top_builddir/tests/lib/toy_learner" >toy.sh
  job=$(submit --dl-learners=2 --dl-checkpoint=ck,every=10steps toy.sh)
  wait_state "$job" COMPLETED 60
  [ -n "$(ls -d ck/step-*)" ]
  again=$(submit --dl-learners=2 --dl-checkpoint=ck,every=10steps toy.sh)
  wait_state "$again" COMPLETED 60
  assert_contains "$(cat "slurm-$again.out")" 'starts at train step 30'
  job=$(submit --dl-learners=1 '--dl-checkpoint="a,b",keep=2' ../train.sh)
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat "slurm-$job.out")" '/a,b$'
}

@test "names of the job in local= and in events: of --dl-metrics, in the elements of an array; what is never expanded is refused" {
  printf '#!/bin/bash\nexec dlrun -- sh -c '"'"'echo "spec=$DL_CHECKPOINT"'"'"'\n' >spec.sh
  job=$(submit --array=1-2 --dl-learners=1 --dl-checkpoint='ck/%A_%a,local=/tmp/%A-%2a' --dl-metrics='events:tb/%A_%a' spec.sh)
  for i in 1 2; do
    wait_file "slurm-${job}_$i.out" 'spec=' 60
    assert_contains "$(cat "slurm-${job}_$i.out")" "spec=$PWD/ck/${job}_$i,keep=3,local=/tmp/$job-0$i$"
    [ "$(jq -r '.metrics[]' "dl-${job}_$i/plan.json")" = "events:tb/${job}_$i" ]
  done
  job=$(submit --array=1-2 --dl-framework=generic --dl-learners=1 --dl-checkpoint='ck-%a,local=/tmp/%A-%a' --wrap 'srun sh -c "echo spec=\$DL_CHECKPOINT"')
  for i in 1 2; do wait_file "slurm-${job}_$i.out" "^spec=$PWD/ck-$i,keep=3,local=/tmp/$job-$i$" 60; done
  # shellcheck disable=SC2016
  for flag in '--dl-checkpoint=ck,local=/scratch/$SLURM_JOB_ID' '--dl-metrics=events:$HOME/tb' '--dl-metrics=events:tb-%q' '--dl-image=~/a.sif'; do
    run on_login sbatch --dl-learners=1 "$flag" spec.sh
    [ "$status" -ne 0 ]
    assert_contains "$output" "dl: ${flag%%=*}: .*(is not expanded, since no shell reads this|stands for nothing here)"
  done
}

@test "names that begin and end with blanks, and have tabs: of the working directory, the job directory and the checkpoints" {
  local folder=' a b ' learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  mkdir "$folder" && cd "$folder"
  printf '#!/bin/bash\nexec dlrun --job-dir "runs/%%j " -- %s 40000 50\n' "$learner" >named.sh
  printf '#!/bin/bash\nexec dlrun -- %s 40000 50\n' "$learner" >plain.sh
  for script in named plain; do
    job=$(submit --dl-learners=2 --dl-checkpoint="ck $script ,every=10steps" $script.sh)
    dir=$PWD/dl-$job
    [ $script = plain ] || dir="$PWD/runs/$job "
    wait_file "$dir/logs/attempt-1/learner-0.log" '^saved at train step' 60
    [ "$(on_login dlctl status --json "$job" | jq -r '.[0].dir')" = "$dir" ]
    on_login dlctl logs "$job" | grep -q 'saved at train step'
    [ -n "$(ls -d "ck $script "/step-*)" ]
    on_login dlctl pause "$job"
    wait_state "$job" PENDING 60
    assert_contains "$(on_login dlctl status "$job")" '^state +HALTED'
    assert_contains "$(on_login dlctl status "$dir")" '^state +HALTED'
    on_login dlctl resume "$job"
    wait_file "$dir/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' 90
    on_login scancel "$job"
    wait_state "$job" CANCELLED 60
    assert_contains "$(on_login dlctl status --ended "$(dirname "$dir")")" "^$job +CANCELLED"
  done
  # What waits is found by its working directory alone.
  job=$(submit --hold --dl-learners=1 plain.sh)
  assert_contains "$(on_login dlctl status "$job")" '^state +PENDING'
  # A tab, which checkpoints do not allow.
  mkdir $'\tc\t' && cd $'\tc\t'
  job=$(submit --dl-learners=1 --wrap 'dlrun -- sh -c "echo here; sleep 100"')
  wait_file "dl-$job/logs/attempt-1/learner-0.log" '^here' 60
  [ "$(on_login dlctl status --json "$job" | jq -r '.[0].dir')" = "$PWD/dl-$job" ]
  [ "$(on_login dlctl logs "$job")" = here ]
  on_login scancel "$job"
  wait_state "$job" CANCELLED 60
  assert_contains "$(on_login dlctl status "$PWD/dl-$job")" '^state +CANCELLED'
}
