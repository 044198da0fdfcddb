#!/usr/bin/env bats
# README.md's first command: a training that is preempted in its middle ends with the weights of one that was not.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/readme.bash
source "$top_srcdir/tests/lib/readme.bash"

# It keeps its files and its cluster in $DL_BUILD_DIR; here that is a folder of this test's own beside the installed tree.
setup_file() {
  local sum
  DL_NO_CLUSTER=$(why_no_cluster)
  sum=$(printf '%s' "$top_builddir:$BATS_TEST_FILENAME" | cksum | cut -d' ' -f1)
  export DL_NO_CLUSTER DL_BUILD_DIR=/tmp/dlsb-test-$sum
  export DL_SANDBOX_DIR=$DL_BUILD_DIR/quickstart.d/cluster
  [[ -z $DL_NO_CLUSTER ]] || return 0
  rm_quickstart
  mkdir "$DL_BUILD_DIR"
  ln -s "$(readlink -f "$stage")" "$DL_BUILD_DIR/stage"
}
teardown_file() { [[ -n $DL_NO_CLUSTER ]] || rm_quickstart; }
teardown() { [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 "$DL_BUILD_DIR"/quickstart.d/run/*.out 2>/dev/null || true; }
# Removes what a run of it made, also one that was killed.
rm_quickstart() {
  dl_sandbox down || true
  rm -rf "$DL_BUILD_DIR"
}

@test "./quickstart shows a preempted training, whose weights are those of an uninterrupted one" {
  [[ -z $DL_NO_CLUSTER ]] || skip "$DL_NO_CLUSTER"
  needs_torch
  /usr/bin/python3 -c 'import sklearn' 2>/dev/null || skip "/usr/bin/python3 has no scikit-learn"
  [[ -e $stage/lib/libdlckpt.so.1 ]] || skip "built without HDF5"
  cd "$top_srcdir"
  # The packages are installed and the build is finished, so it skips both.
  run bash -c "exec $(from_readme './quickstart') --no-build" </dev/null 3>&-
  echo "$output"
  [ "$status" -eq 0 ]
  assert_contains "$output" '^\[[0-9 ]+ s\] +job [0-9]+ is at train step [0-9]+; submitting a guaranteed job'
  assert_contains "$output" 'dlckpt: stopping at train step [0-9]+, saved'
  assert_contains "$output" 'dlckpt: resumed at train step [0-9]+'
  assert_contains "$output" 'the final weights are equal bit for bit'
  one=$(sed -nE 's/^ *weights, uninterrupted +//p' <<<"$output")
  two=$(sed -nE 's/^ *weights, preempted\+resumed +//p' <<<"$output")
  [[ $one =~ ^[0-9a-f]{64}$ && $one == "$two" ]]
  # It has taken its cluster down.
  [ ! -e "$DL_SANDBOX_DIR" ]
}
