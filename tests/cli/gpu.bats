#!/usr/bin/env bats
# tests/gpu/run, which tries what needs a GPU: here its rehearsal, with doubles of CUDA and NCCL.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
  export DL_BUILD_DIR=$top_builddir
  gpu=$top_srcdir/tests/gpu/run
}

@test "a word that is no part is refused; where there is no GPU, one sentence says so" {
  run "$gpu" memory nonsense
  [ "$status" -eq 2 ]
  contains "$output" "'nonsense' is neither a part nor an option; allowed: --rehearse, memory, training, collectives, node"
  [ ! -e /dev/nvidia0 ] || skip "there is a GPU here"
  run "$gpu"
  [ "$status" -eq 0 ]
  [ "$output" = "1..0 # SKIP there is no GPU here (/dev/nvidia0); tests/gpu/run --rehearse does the same with doubles of CUDA and NCCL" ]
}

@test "the whole rehearsal passes" {
  [[ -x $learner ]] || skip "built without HDF5"
  run timeout 1800 "$gpu" --rehearse
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  [ "$(grep -c '^ok' <<<"$output")" -eq 14 ]
  run ! grep '^not ok' <<<"$output"
}
