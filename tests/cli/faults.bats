#!/usr/bin/env bats
# The fault matrix as a command: its tables are whole, its document shows them, and a cell that goes otherwise than
# expected is found. The matrix itself takes a sandbox and minutes: tests/faults/run.

setup() {
  faults=${top_srcdir:?}/tests/faults
  export PYTHONPATH=$faults/lib:$top_srcdir/tests/bench/lib PYTHONDONTWRITEBYTECODE=1
}

@test "the matrix has every fault in every phase" {
  run "$faults/run" --list
  [ "$status" -eq 0 ]
  for fault in learner-killed learner-hangs learner-leaks agent-killed dlrun-killed guard-killed network-cut network-cut-spare network-cut-elastic tcp-reset tcp-dropped slurmd-killed \
    node-off node-off-spare node-off-elastic batch-host-off slurmctld-restarted \
    storage-full port-stolen clock-skewed; do
    for phase in deploying training saving finishing; do grep -qxF "$fault/$phase" <<<"$output"; done
  done
}

@test "the document has a row for every cell" {
  "$faults/run" --list | while IFS=/ read -r fault phase; do
    grep -qE "^\| $fault \| $phase \| [^|]" "$faults/README.md" || { echo "no row for $fault/$phase in tests/faults/README.md"; false; }
  done
  run grep 'not as expected' "$faults/README.md"
  [ "$status" -eq 1 ]
}

@test "a wrong command line is refused with status 2" {
  for line in '--nonsense' '--only nonsense/training' '--record --only node-off/*'; do
    # shellcheck disable=SC2086
    run "$faults/run" $line
    [ "$status" -eq 2 ]
  done
}

@test "the judge passes a cell that went as expected, and finds each way of going otherwise" {
  /usr/bin/env python3 - <<'END'
from dlfaults.cell import Seen
from dlfaults.faults import Expect
from dlfaults.judge import judge

def seen(**changes):
    found = Seen()
    found.state = found.slurm_state = "COMPLETED"
    found.way, found.said, found.next_step_ms = "restart", "learner 1 was lost", 300
    found.all_said = ["learner 1 was lost"]
    for name, value in changes.items():
        assert hasattr(found, name), name
        setattr(found, name, value)
    return found

expect = Expect("restart", "learner 1 was lost")
assert judge(seen(), expect) == [], judge(seen(), expect)
for changes in ({"state": "FAILED"}, {"slurm_state": "FAILED"}, {"way": "requeue"}, {"all_said": ["learner 0 was lost"]},
                {"next_step_ms": None}, {"left": ["n2: process sleep (7)"]}, {"unexpected": ["train steps were left out: [3]"]}):
    assert len(judge(seen(**changes), expect)) == 1, changes
assert len(judge(seen(way="undisturbed"), Expect("undisturbed"))) == 1  # a failure was told where nothing happened
END
}
