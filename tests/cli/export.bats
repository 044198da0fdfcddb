#!/usr/bin/env bats
# The metrics of a training for TensorBoard, MLflow and W&B, read back by their own Python packages where those are installed.
# shellcheck disable=SC2016,SC2154  # the scripts of learners expand there; bats sets stderr
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

# Where packaging/install-frameworks puts an interpreter.
frameworks=${DL_TEST_FRAMEWORKS:-${XDG_CACHE_HOME:-$HOME/.cache}/slurm-dl/frameworks}

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
  export DL_PYTHON_FOLDER=$top_srcdir/launcher/python HOME=$PWD
}

# run_job DIR SCRIPT
run_job() { "$dlrun" -f generic --job-dir "$PWD/$1" -- sh -c "$2" >"out-$1.txt" 2>&1 || { cat "out-$1.txt" >&2; return 1; }; }
# resumed_job: the job a, whose second attempt went on at train step 20.
resumed_job() {
  run_job a 'for i in 0 10 20 30; do echo "step $i: loss=0.$((9 - i / 10)) val_loss: nan"; done'
  run_job a 'for i in 20 30 40; do echo "step $i: loss=0.$((6 - i / 10))"; done'
  name=$("$dlctl" metrics --json a | jq -r '.jobs[0].job')
}
# needs_package NAME: puts an interpreter that has this package first in PATH, or leaves the test out.
needs_package() {
  local python
  for python in python3 "$frameworks/bin/python3"; do
    "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null || continue
    python=$(command -v "$python")
    PATH=${python%/*}:$PATH
    return 0
  done
  skip "no python3 here has the package $1"
}
# Of the event files in a folder: each scalar that TensorBoard reads, as TAG STEP VALUE.
tensorboard_reads() {
  python3 - "$1" <<'PY'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
files = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
files.Reload()
for tag in sorted(files.Tags()["scalars"]):
    for event in files.Scalars(tag):
        assert event.wall_time > 1.7e9, event
        print(tag, event.step, "%.6g" % event.value)
PY
}

@test "event files of a resumed job have the curve that counts, and a second export replaces them" {
  resumed_job
  run "$dlctl" export a --tensorboard 'my runs'
  [ "$status" -eq 0 ]
  contains "$output" '^[0-9]+ points of job '"$name"' written into my runs/'"$name"'; to look at them: tensorboard --logdir '"'my runs'"'$'
  contains "$output" '^[0-9]+ points that later attempts have superseded left out; --all exports each attempt as a run of its own$'
  [ "$(ls "my runs/$name")" = events.out.tfevents.0.slurm-dl ]
  # Once more: the same file, replaced.
  cp "my runs/$name/events.out.tfevents.0.slurm-dl" before
  "$dlctl" export a --tensorboard 'my runs'
  cmp before "my runs/$name/events.out.tfevents.0.slurm-dl"
}

@test "TensorBoard itself reads tags, train steps, values and attempts, also of each attempt alone" {
  needs_package tensorboard
  resumed_job
  "$dlctl" export a --tensorboard runs --name loss
  [ "$(tensorboard_reads "runs/$name" | grep -v '^validate')" = "$(printf '%s\n' 'attempt 0 1' 'attempt 20 2' \
    'train/loss 0 0.9' 'train/loss 10 0.8' 'train/loss 20 0.4' 'train/loss 30 0.3' 'train/loss 40 0.2')" ]
  contains "$(tensorboard_reads "runs/$name")" '^validate/loss 0 nan$'
  "$dlctl" export a --tensorboard runs --name loss --group train --all
  [ "$(tensorboard_reads "runs/$name/attempt-1")" = "$(printf '%s\n' 'attempt 0 1' \
    'train/loss 0 0.9' 'train/loss 10 0.8' 'train/loss 20 0.7' 'train/loss 30 0.6')" ]
  [ "$(tensorboard_reads "runs/$name/attempt-2" | wc -l)" -eq 4 ]
}

@test "what cannot be exported, or not there, is refused in one sentence, and nothing is touched" {
  resumed_job
  mkdir -p "full/$name" none
  echo mine >"full/$name/notes.txt"
  run -1 "$dlctl" export a --tensorboard full
  [ "$output" = "dlctl export: full/$name holds notes.txt, which is no export of dlctl's; name another folder" ]
  [ "$(ls "full/$name")" = notes.txt ]
  echo mine >file
  run -1 "$dlctl" export a --tensorboard file
  [ "$output" = "dlctl export: file/$name is not a folder; name another folder" ]
  mkdir -p "pipe/$name" && mkfifo "pipe/$name/events.out.tfevents.0.slurm-dl"
  run -1 "$dlctl" export a --tensorboard pipe
  contains "$output" 'cannot be written: it is not a regular file; name another file$'
  [ -p "pipe/$name/events.out.tfevents.0.slurm-dl" ]
  run -2 "$dlctl" export a
  contains "$output" 'allowed: --tensorboard DIR, --mlflow DIR or --wandb DIR$'
  run -2 "$dlctl" export a --tensorboard x --wandb y
  contains "$output" '^dlctl export: --tensorboard and --wandb exclude each other; allowed: one of them$'
  run -3 "$dlctl" export a --tensorboard x --name nothing
  contains "$output" 'has no such metrics; "dlctl metrics" shows those that it has$'
  run -3 "$dlctl" export "$PWD/none" --tensorboard x
  run_job quiet true
  run -3 "$dlctl" export quiet --group train --tensorboard x
  [ ! -e x ]
}

@test "an answer that cannot be printed is an error" {
  [ -c /dev/full ] || skip "there is no /dev/full"
  resumed_job
  run -1 sh -c '"$@" >/dev/full' sh "$dlctl" export a --tensorboard runs
  [ "$output" = 'dlctl export: standard output: No space left on device' ]
  sh -c '"$@" >&-' sh "$dlctl" export a --tensorboard runs
}

@test "without their packages, MLflow and W&B are said to be missing, with what installs them" {
  resumed_job
  mkdir bare
  # An interpreter without any package but its own.
  printf '#!/bin/sh\nexec "%s" -S -E "$@"\n' "$(command -v python3)" >bare/python3
  chmod +x bare/python3
  for package in mlflow wandb; do
    PATH=$PWD/bare:$PATH run -1 --separate-stderr "$dlctl" export a "--$package" out
    contains "$stderr" "^dlctl export: .*python3.* has no package $package; install it \(.*python3.* -m pip install $package\), or put a python3 that has it first in PATH$"
  done
  [ ! -e out ]
  mkdir none
  PATH=$PWD/none run -1 "$dlctl" export a --mlflow out
  contains "$output" 'there is no python3 in PATH'
}

@test "MLflow reads a run with its metrics, times and how the job ended, and a second export takes its place" {
  needs_package mlflow
  resumed_job
  run "$dlctl" export a --mlflow store --name loss
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" 'points in 1 run of job '"$name"' written into store, experiment slurm-dl; to look at them: .*mlflow ui --backend-store-uri store$'
  "$dlctl" export a --mlflow store --name loss
  cat >read.py <<'PY'
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow.tracking import MlflowClient
client = MlflowClient("file://" + os.path.abspath("store"))
runs = client.search_runs([client.get_experiment_by_name("slurm-dl").experiment_id])
assert len(runs) == 1, runs
print(runs[0].info.run_name, runs[0].info.status)
for key in ("train/loss", "attempt"):
    history = sorted(client.get_metric_history(runs[0].info.run_id, key), key=lambda point: point.step)
    assert all(point.timestamp > 1.7e12 for point in history), history
    print(key, *["%d=%g" % (point.step, point.value) for point in history])
PY
  run python3 read.py
  [ "$output" = "$(printf '%s\n' "$name FINISHED" "train/loss 0=0.9 10=0.8 20=0.4 30=0.3 40=0.2" "attempt 0=1 20=2")" ] || { echo "$output" >&2; false; }
  mkdir other && echo mine >other/notes.txt
  run -1 "$dlctl" export a --mlflow other
  contains "$output" '^dlctl export: other has other contents than runs of MLflow; name another folder$'
  [ "$(ls other)" = notes.txt ]
  run -1 "$dlctl" export a --mlflow other/notes.txt
  contains "$output" '^dlctl export: other/notes.txt cannot be made: File exists; name another folder$'
}

@test "W&B reads an offline run with a row for each train step, and a second export takes its place" {
  needs_package wandb
  resumed_job
  run "$dlctl" export a --wandb out --name loss
  [ "$status" -eq 0 ] || { echo "$output" >&2; false; }
  contains "$output" 'points in 1 run of job '"$name"' written into out/wandb; to send them: cd out && wandb sync --include-offline --sync-all$'
  "$dlctl" export a --wandb out --name loss
  folders=(out/wandb/offline-run-*)
  [ ${#folders[@]} -eq 1 ]
  cat >read.py <<'PY'
import glob, json, struct
from wandb.proto import wandb_internal_pb2

def records(data):
    """Of W&B's file: 7 bytes, then blocks of 32 KiB with pieces of records, as LevelDB writes its log."""
    at, record = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4:at + 7])
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""

file, = glob.glob("out/wandb/offline-run-*/*.wandb")
for data in records(open(file, "rb").read()):
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    if record.HasField("run"):
        print(record.run.display_name, record.run.project)
    if record.HasField("history"):
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        assert row["_timestamp"] > 1.7e9 and ("validate/loss" in row) == (row["attempt"] == 1), row
        if "train/loss" in row:
            print(row["train_step"], row["attempt"], row["train/loss"])
PY
  run python3 read.py
  [ "$output" = "$(printf '%s\n' "$name slurm-dl" '0 1 0.9' '10 1 0.8' '20 2 0.4' '30 2 0.3' '40 2 0.2')" ] || { echo "$output" >&2; false; }
  mkdir other && echo mine >other/wandb
  run -1 "$dlctl" export a --wandb other
  contains "$output" '^dlctl export: other/wandb is no folder that can be written to; name another folder$'
}
