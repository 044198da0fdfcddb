#!/usr/bin/env bats
# The bench of checkpoints works, at tiny sizes: its figures mean nothing here, and no target is held.

# shellcheck source=tests/lib/jq.bash
source "${top_srcdir:?}/tests/lib/jq.bash"
setup() {
  run=${top_srcdir:?}/tests/bench/checkpoint/run
  [ -x "${top_builddir:?}/tests/bench/checkpoint/checkpoint_driver" ] || skip "the bench's program is not built (no libhdf5?)"
  dir=$BATS_TEST_TMPDIR/bench
  [ "$(stat -f -c %T "$BATS_TEST_TMPDIR")" != tmpfs ] || skip "the temporary folder is in memory, and the bench measures disks"
}

# measured ARGUMENTS...: runs the bench; missed targets (status 1) are no failure. The rows are in $dir/rows.
measured() {
  local status=0
  "$run" --tiny --json --dir "$dir" "$@" >"$BATS_TEST_TMPDIR/rows" 2>"$BATS_TEST_TMPDIR/err" || status=$?
  [ "$status" -le 1 ] || { cat "$BATS_TEST_TMPDIR/err"; false; }
}

@test "the checkpoint bench answers with all rows, and names the peers it could not measure" {
  DL_BENCH_PYTHON=none measured
  jq -e 'length > 60 and all(.[]; has("name") and has("ours") and has("other") and has("unit") and has("ratio") and has("target")
    and has("met")) and (map(.name) | unique | length) == length' "$BATS_TEST_TMPDIR/rows"
  # Every row has figures, or says why not.
  jq -e 'all(.[]; (.ours > 0 and .other > 0 and .ratio > 0) or (.note | length > 0))' "$BATS_TEST_TMPDIR/rows"
  jq -e 'any(.[]; .name == "durable-1g-large.save-ours.hdf5" and .ratio > 0)' "$BATS_TEST_TMPDIR/rows"
  jq -e 'any(.[]; .name == "durable-1g-large.save-ours.torch" and .note == "no Python with NumPy" and .met == null)' "$BATS_TEST_TMPDIR/rows"
  [ -s "$dir/results/table.md" ]
  grep -q '</svg>' "$dir/results/figure.svg"
  [ -z "$(find "$dir" -name 'data-*')" ]
}

@test "the checkpoint bench goes on where it was interrupted" {
  DL_BENCH_PYTHON=none measured --only verify
  DL_BENCH_PYTHON=none measured --only verify
  [ "$(grep -c measuring "$BATS_TEST_TMPDIR/err")" -eq 0 ]
  DL_BENCH_PYTHON=none measured --only verify --anew
  grep -q measuring "$BATS_TEST_TMPDIR/err"
}

@test "the checkpoint bench records one group beside what is recorded of the others" {
  local top=$BATS_TEST_TMPDIR/top results=$BATS_TEST_TMPDIR/top/tests/bench/checkpoint/results
  mkdir -p "$top/man/guide" "$results"
  cp "$top_srcdir/README.md" "$top"
  cp "$top_srcdir/man/guide/benchmarks.md" "$top/man/guide"
  cp "$top_srcdir/tests/bench/checkpoint/results/"* "$results"
  chmod -R u+w "$top"
  DL_BENCH_PYTHON=none measured --only verify-1g-large --record --top "$top"
  rows_of() { jq -e "[.[] | select(.name | startswith(\"$1\"))]" "$2/rows.json"; }
  [ "$(rows_of durable-1g-large "$results")" = "$(rows_of durable-1g-large "$top_srcdir/tests/bench/checkpoint/results")" ]
  [ "$(rows_of verify-1g-large "$results")" != "$(rows_of verify-1g-large "$top_srcdir/tests/bench/checkpoint/results")" ]
  grep -q "^- verify-1g-large .*: $(date +%Y)-" "$results/table.md"
  grep -q "Measured from .* to $(date +%Y)-" "$top/man/guide/benchmarks.md"
}

@test "the checkpoint bench measures PyTorch beside us" {
  /usr/bin/python3 -c 'import numpy, torch' 2>/dev/null || skip "Debian's Python has no torch"
  DL_BENCH_PYTHON=/usr/bin/python3 measured --only durable-10m
  jq -e 'any(.[]; .name == "durable-10m.save-ours.torch" and .ratio > 0)' "$BATS_TEST_TMPDIR/rows"
  DL_BENCH_PYTHON=/usr/bin/python3 measured --only training
  jq -e 'any(.[]; .name == "training.seconds-async-10.torch" and .ratio > 0)' "$BATS_TEST_TMPDIR/rows"
}

@test "the checkpoint bench refuses a wrong command line with status 2" {
  for line in '--nonsense' '--only nonsense' '--record --quick'; do
    # shellcheck disable=SC2086
    run "$run" $line --dir "$dir"
    [ "$status" -eq 2 ]
  done
}

@test "the observe bench finds logs by time, has a learner write, and reads what collectors do" {
  # 1: a target is missed, as on a busy machine.
  output=$(DL_BUILD_DIR=$top_builddir "$top_srcdir/tests/bench/observe/run" --quick --json) || [ $? -eq 1 ]
  jq -e '[.[].name | select(test("events.*[.](data-server|loader)$") | not)] == ["observe.use.8", "observe.use.64", "observe.report.time", "observe.report.size",
    "observe.events.scalars", "observe.events.kept", "observe.events.mixed", "observe.patterns", "observe.seen",
    "observe.since.middle", "observe.since.end", "observe.tee"]' <<<"$output"
}

@test "collectors and dlruns that are killed leave logs and series that can be read, with nothing twice" {
  DL_BUILD_DIR=$top_builddir "$top_srcdir/tests/bench/observe/run" --quick --only kills --json >"$BATS_TEST_TMPDIR/kills.json"
  jq -e 'map(.ours) == [5, 5]' "$BATS_TEST_TMPDIR/kills.json"
}

@test "the site bench makes a round of dlpolicyd on made-up records, and judges it" {
  output=$(DL_BUILD_DIR=$top_builddir "$top_srcdir/tests/bench/site/run" --quick --only simulated --json 2>/dev/null) || [ $? -eq 1 ]
  jq -e '[.[].name] | index("simulated.200x10000.round") != null and index("simulated.200x10000.mib") != null' <<<"$output"
  jq -e 'all(.ours > 0)' <<<"$output"
}
