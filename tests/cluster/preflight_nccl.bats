#!/usr/bin/env bats
# NCCL measured before the first learner starts, on a real Slurm of four nodes, with doubles of CUDA and NCCL: no GPU is here.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  [ -e "$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1" ] || return 0
  cluster_up --nodes 4 --gpus-per-node 2
}
teardown_file() { [ ! -e "$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1" ] || cluster_down; }
setup() {
  [ -e "$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1" ] || skip "built without NCCL"
  cluster_setup
  mkdir -m 1777 job shared
  mkdir gpu
  cp -L "$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1" gpu/libcuda.so.1
  ln gpu/libcuda.so.1 gpu/libnccl.so.2
  chmod -R a+rX gpu
}
teardown() { cluster_teardown; }
job() { # VARIABLE=VALUE...: the batch script, with the doubles
  printf '#!/bin/bash\nexport LD_LIBRARY_PATH=%q GPU_DOUBLE_COUNT=2 GPU_DOUBLE_RATE=1e9 GPU_DOUBLE_FOLDER=%q %s\nexec dlrun --job-dir %q -- sh -c '\''echo "rank $RANK on $(hostname)"'\''\n' \
    "$PWD/gpu" "$PWD/shared" "$*" "$PWD/job" >job.sh
}
hosts() { grep -oE 'on n[0-9]+' "$1" | sort -u | xargs; }

@test "good GPUs: pairs and all nodes together are measured, and nothing is said" {
  job
  job=$(submit --output=out --dl-framework=generic --dl-learners=4 --dl-gpus=2 --dl-preflight=full job.sh)
  wait_state "$job" COMPLETED 120
  run grep -E 'preflight: .*(NCCL|nccl)' out
  [ "$status" -ne 0 ] || { echo "$output" >&2; return 1; }
  [ "$(jq -r '[.nccl[] | select(.bytes_per_s > 1e8) | .nodes | join("")] | join(" ")' job/preflight.json)" = "n1n2 n3n4 n1n2n3n4" ]
  [ -z "$(find job -name '*nccl*')" ]
}

@test "a node whose NCCL hangs is named with the help of a good one, and left out" {
  job GPU_DOUBLE_HANG=n3
  job=$(submit --output=out --dl-framework=generic --dl-learners=3:4 --dl-gpus=2 --dl-preflight=full job.sh)
  wait_state "$job" COMPLETED 150
  assert_contains "$(cat out)" '^dlrun: preflight: n3: NCCL.s all-reduce is slow or fails with n4 \(.*did not end within 10 s\) and with n1 \('
  [ "$(hosts out)" = "on n1 on n2 on n4" ]
  [ "$(jq -r '.nccl[-1].nodes | join("")' job/preflight.json)" = n1n2n4 ]
}
