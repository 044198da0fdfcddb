#!/usr/bin/env bats
# What a job of a real Slurm has used: dlrun's last line, the record and dlctl say what its program has measured of itself.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 train.out dl-*/events.jsonl 2>/dev/null || true
  cluster_teardown
}

@test "a learner on each of two nodes uses one CPU fully and 200 MiB, and the end of the job says so" {
  # It computes until the first points are written, so that there is something to be told, and then says what it has used itself.
  cat >train.py <<'END_OF_PROGRAM'
import glob, os, time
began = time.monotonic()
block = b"x" * (200 << 20)
while time.monotonic() - began < 12 or not glob.glob(os.environ["DL_JOB_DIR"] + "/metrics/attempt-1/use.series"):
    sum(range(100000))
with open("own.%s" % os.environ["DL_RANK"], "w") as own:
    own.write("%.3f %.3f\n" % (time.process_time(), time.monotonic() - began))
END_OF_PROGRAM
  printf '#!/bin/bash\nexec dlrun -- /usr/bin/python3 train.py\n' >train.sh
  job=$(submit --output=train.out --time=5 --mem=1G --dl-learners=2 --nodes=2 train.sh)
  wait_state "$job" COMPLETED 180
  grep -E '^dlrun: used [0-9.]+ of [0-9]+ CPUs, [0-9]+ MiB of 2 GiB$' train.out
  /usr/bin/python3 - "dl-$job/events.jsonl" train.out own.0 own.1 <<'END_OF_PROGRAM'
import json, re, sys
used = [event["use"] for event in map(json.loads, open(sys.argv[1])) if "use" in event and "learner" not in event]
assert len(used) == 1, used
own = [[float(word) for word in open(name).read().split()] for name in sys.argv[3:]]
cpu, cpus = sum(cpu for cpu, _ in own), sum(cpu / wall for cpu, wall in own)
assert abs(used[0]["cpu_seconds"] - cpu) < 0.1 * cpu, (used, own)
said = float(re.search(r"^dlrun: used ([0-9.]+) of", open(sys.argv[2]).read(), re.M).group(1))
assert abs(said - cpus) < 0.25, (said, cpus)
assert 400 << 20 < used[0]["memory_bytes"] < 500 << 20, used
assert used[0]["memory_asked_bytes"] == 2 << 30, used
assert used[0]["gpus"] == 0 and "gpu_share" not in used[0], used
each = {event["learner"]: event["use"] for event in map(json.loads, open(sys.argv[1])) if "use" in event and "learner" in event}
assert sorted(each) == [0, 1], each
for rank, (its_cpu, _) in enumerate(own):
    assert abs(each[rank]["cpu_seconds"] - its_cpu) < 0.2 + 0.1 * its_cpu, (each, own)
    assert 200 << 20 < each[rank]["memory_bytes"] < 250 << 20, each
END_OF_PROGRAM
  on_login dlctl status "$job" --dir "$PWD/dl-$job" >status.txt
  grep -E '^use +used [0-9.]+ of [0-9]+ CPUs, [0-9]+ MiB of 2 GiB$' status.txt
  on_login dlctl metrics "$PWD/dl-$job" --group use >metrics.txt
  grep -E '^cpus_used +use ' metrics.txt
}
