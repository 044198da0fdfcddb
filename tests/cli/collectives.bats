#!/usr/bin/env bats
# libdllearner over MPI on this machine, started by dlrun and by mpirun: what the operations give, how they fail, and the
# example on real digits.
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup_file() {
  command -v mpirun >/dev/null || return 0
  ls "$top_builddir"/checkpoint/.libs/libdlckpt.so >/dev/null 2>&1 || return 0
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 "$top_srcdir/frameworks/dllearner/example/train_digits.cpp" \
    -I"$top_srcdir/launcher/collectives/include" -I"$top_srcdir/checkpoint/include" \
    -L"$top_builddir/launcher/collectives/.libs" -L"$top_builddir/checkpoint/.libs" -ldllearner -ldlckpt \
    -Wl,-rpath,"$top_builddir/launcher/collectives/.libs:$top_builddir/checkpoint/.libs" -o "$BATS_FILE_TMPDIR/train_digits"
}
setup() {
  command -v mpirun >/dev/null || skip "mpirun is not installed"
  dlrun_setup
  export OMPI_MCA_mpi_yield_when_idle=1
  ranks=$top_builddir/tests/lib/collective_ranks
  digits=$top_srcdir/frameworks/dllearner/example/digits.txt
}
mpi() { timeout 180 mpirun --oversubscribe --bind-to none --allow-run-as-root -n "$@"; }
# With memory of a GPU, by doubles of CUDA and NCCL.
gpu_memory() {
  local library=$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1 name
  [[ -e $library && -e $top_builddir/launcher/collectives/.libs/dllearner_nccl.so ]] || skip "built without NCCL"
  mkdir -p gpu
  for name in libcuda.so.1 libnccl.so.2 $(readelf -d "$top_builddir/launcher/collectives/.libs/dllearner_nccl.so" | grep -o 'libcudart[.0-9so]*'); do
    ln -sf "$(readlink -f "$library")" "gpu/$name"
  done
  export LD_LIBRARY_PATH=$PWD/gpu GPU_MEMORY=1 DLLEARNER_NCCL_MODULE=$top_builddir/launcher/collectives/.libs/dllearner_nccl.so
}
train() { # LEARNERS ARGUMENTS of dlrun...
  [ -x "$BATS_FILE_TMPDIR/train_digits" ] || skip "libdlckpt is not built"
  run timeout 180 "$dlrun" -f dllearner -n "$1" "${@:2}"
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
}
right() { sed -nE 's/.*: ([0-9]+) of 297 test digits are right.*weights are the same everywhere.*/\1/p' <<<"$1"; }

@test "every operation in every dtype gives what it must on 2, 3 and 4 learners" {
  for n in 2 3 4; do
    run timeout 180 "$dlrun" -q -f dllearner -n "$n" --job-dir "job-$n" -- "$ranks" all
    [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
    [ "$(cat "job-$n"/logs/latest/learner-*.log | grep -c "of $n: all ok")" -eq "$n" ]
  done
}

@test "the same where MPI itself waits, under mpirun without dlrun, and alone" {
  run env NO_TIMEOUT=1 bash -c "$(declare -f mpi); mpi 3 '$ranks' all"
  [ "$status" -eq 0 ]
  [ "$(grep -c 'of 3: all ok' <<<"$output")" -eq 3 ]
  run "$ranks" all
  [ "$status" -eq 0 ]
  contains "$output" '^rank 0 of 1: all ok$'
}

@test "ranks that MPI was not told of are refused in one sentence" {
  run env DL_RANK=0 DL_WORLD_SIZE=3 "$ranks" open
  [ "$status" -eq 3 ]
  contains "$output" '^open: DLLEARNER_E_WORLD: DL_WORLD_SIZE is 3, but MPI_COMM_WORLD has 1 rank, so MPI was not told'
  run env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "$ranks" open
  [ "$status" -eq 3 ]
  contains "$output" 'this job step has 2 tasks, but neither dlrun nor PMIx tells them of one another'
}

@test "a rank that does not come is a timeout for the others, not a hang" {
  run mpi 3 "$ranks" late 1 4
  contains "$output" 'rank 0 of 3: all-reduce: DLLEARNER_E_TIMEOUT: all-reduce: another rank did not take part within 1 s'
  contains "$output" 'rank 2 of 3: all-reduce: DLLEARNER_E_TIMEOUT'
}

@test "memory of a GPU: every operation and buckets over NCCL (a double) on 2, 3 and 4 learners, with and without a time" {
  gpu_memory
  for n in 2 3 4; do
    run timeout 180 "$dlrun" -q -f dllearner -n "$n" --job-dir "job-$n" -- "$ranks" all
    [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
    [ "$(cat "job-$n"/logs/latest/learner-*.log | grep -c "of $n: all ok")" -eq "$n" ]
  done
  NO_TIMEOUT=1 run timeout 180 "$dlrun" -q -f dllearner -n 2 --job-dir job-none -- "$ranks" all
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
}

@test "memory of a GPU: a communicator that fails or that a rank does not join, a collective that fails or hangs, each in one sentence and no hang" {
  gpu_memory
  try() { # SENTENCE VARIABLE=VALUE...
    run env "${@:2}" timeout 30 "$dlrun" -f dllearner -n 3 -- "$ranks" late 9 0
    [[ $status -ne 0 && $status -ne 124 && $output == *"$1"* ]] || { echo "${*:2}: $status: $output" >&2; return 1; }
  }
  try 'all-reduce: DLLEARNER_E_PEER: start NCCL: unhandled system error' GPU_DOUBLE_NO_INIT=rank0,rank1,rank2
  try 'all-reduce: DLLEARNER_E_TIMEOUT: NCCL: another rank did not take part within 1 s' GPU_DOUBLE_NO_SHOW=rank1
  try 'all-reduce: DLLEARNER_E_PEER: NCCL: remote process exited' GPU_DOUBLE_FAIL=rank0,rank1,rank2 GPU_DOUBLE_FROM=1
  try 'all-reduce: DLLEARNER_E_TIMEOUT: NCCL: another rank did not take part within 1 s' GPU_DOUBLE_HANG=rank2 GPU_DOUBLE_FROM=1
}

@test "a rank that dies ends the job at once: its exit status is dlrun's" {
  begin=$SECONDS
  run timeout 180 "$dlrun" -f dllearner -n 3 -- "$ranks" die 1
  [ "$status" -eq 9 ]
  contains "$output" 'learner 1 exited with code 9'
  ((SECONDS - begin < 20))
}

@test "digits are learned equally well by 1, 2 and 4 learners" {
  for n in 1 2 4; do
    train "$n" -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 500
    good=$(right "$output")
    [ "$n" -ne 1 ] || one=$good
    # The sums of a batch are rounded in another order: a digit on the edge may fall to the other side.
    ((good >= 267 && good - one <= 2 && one - good <= 2)) || { echo "$n learners: $good, one learner: $one" >&2; return 1; }
  done
}

@test "with parameter servers digits are learned as well in all three modes, and to the same bits synchronously" {
  train 2 -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 500
  buckets=$(right "$output") sum=$(grep -o 'sum .*' <<<"$output")
  for mode in sync async bounded; do
    export DL_SERVERS=1
    [ "$mode" = async ] || export DL_SERVERS=2
    train 2 -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 500 0 "$mode"
    contains "$output" "2 learners, $mode, train step 500"
    good=$(right "$output")
    # Two gradients have one sum: the same as with buckets. Late gradients find another way to weights that are as good.
    if [ "$mode" = sync ]; then
      [ "$(grep -o 'sum .*' <<<"$output")" = "$sum" ]
    else
      ((good >= buckets - 6)) || { echo "$mode: $good, buckets: $buckets" >&2; return 1; }
    fi
  done
}

@test "the Python module: collectives and buckets on 1 and 3 learners, parameter servers in all modes" {
  /usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "/usr/bin/python3 has no NumPy"
  export PYTHONPATH=$top_srcdir/launcher/collectives/python PYTHONDONTWRITEBYTECODE=1
  export DLLEARNER_LIBRARY=$top_builddir/launcher/collectives/.libs/libdllearner.so.1
  program=$top_srcdir/tests/cli/collectives_python.py
  run /usr/bin/python3 "$program"
  [ "$status" -eq 0 ]
  run mpi 3 /usr/bin/python3 "$program"
  [ "$status" -eq 0 ]
  [ "$(grep -o 'rank [0-2] of 3: ok' <<<"$output" | sort -u | wc -l)" -eq 3 ]
  for mode in sync async bounded; do
    run mpi 3 env DL_SERVERS=1 /usr/bin/python3 "$program" "$mode"
    [ "$status" -eq 0 ] && [ "$(grep -o 'rank [01] of 2: ok' <<<"$output" | sort -u | wc -l)" -eq 2 ] || { echo "$mode: $output" >&2; return 1; }
  done
}

@test "saved by 2 learners and resumed by 3, it ends where an uninterrupted run ends" {
  train 2 -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 300
  whole=$(right "$output")
  train 2 --checkpoint "$PWD/ckpt,every=50steps" -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 100
  train 3 --checkpoint "$PWD/ckpt,every=50steps" -- "$BATS_FILE_TMPDIR/train_digits" "$digits" 300
  contains "$output" 'resumed at train step 100'
  good=$(right "$output")
  ((good - whole <= 2 && whole - good <= 2))
}
