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

# grep fails where a process ends meanwhile.
in_folder() { grep -lz "^DL_CONFIG=$PWD/tmp" /proc/[0-9]*/environ 2>/dev/null | grep -q .; }

@test "ended from outside, it leaves no dlrun and no folder" {
  [ -e "$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1" ] || skip "built without NCCL"
  local pid status=0
  mkdir tmp
  TMPDIR=$PWD/tmp "$gpu" --rehearse collectives >out 2>&1 3>&- &
  pid=$!
  for _ in $(seq 3000); do
    ! compgen -G 'tmp/*/*/control.json' >/dev/null || break
    sleep 0.1
  done
  in_folder
  kill "$pid"
  wait "$pid" || status=$?
  [ "$status" -eq 143 ]
  run ! in_folder
  run ! compgen -G 'tmp/tmp.*' # Open MPI has a folder of its own there
}

@test "the whole rehearsal passes" {
  [[ -x $learner ]] || skip "built without HDF5"
  run timeout 1800 "$gpu" --rehearse
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  [ "$(grep -c '^ok' <<<"$output")" -eq 14 ]
  run ! grep '^not ok' <<<"$output"
}
