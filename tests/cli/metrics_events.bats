#!/usr/bin/env bats
# TensorBoard's event files as a source of metrics, without Slurm: of a writer of our own, and of PyTorch's.
# shellcheck disable=SC2016  # the scripts of learners expand there
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

bats_require_minimum_version 1.5.0

setup() {
  dlrun_setup
  dlctl=$top_builddir/launcher/ctl/dlctl
}

# writes FILE: a training that writes TensorBoard's event files: train.py FOLDER BEGIN END LOSS
writes() {
  cat >"$1" <<'PY'
import os, struct, sys, time

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

def varint(value):
    text = b""
    while value >= 0x80:
        text, value = text + bytes([value & 0x7F | 0x80]), value >> 7
    return text + bytes([value])

def field(number, value):
    return bytes([number << 3 | 2]) + varint(len(value)) + value

def record(data):
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)

def scalar(step, tag, value):
    summary = field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
    return record(b"\x09" + struct.pack("<d", time.time()) + b"\x10" + varint(step) + field(5, summary))

folder, begin, end, loss = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
os.makedirs(folder, exist_ok=True)
with open(f"{folder}/events.out.tfevents.{begin}.{os.getpid()}.host", "wb") as file:
    file.write(record(b"\x09" + struct.pack("<d", time.time()) + field(3, b"brain.Event:2")))
    for step in range(begin, end, 10):
        file.write(scalar(step, "Loss/train", loss) + scalar(step, "lr", 0.125))
    file.write(scalar(end, "val_acc", 0.5)[:-1])  # torn
PY
}

# run_job FOLDER COMMAND...
run_job() { "$dlrun" -f generic --job-dir "$PWD/$1" "${@:2}" >out.txt 2>&1 || { cat out.txt >&2; return 1; }; }

@test "scalars of a folder that --metrics names are there, and of two attempts in it the curve that counts" {
  writes train.py
  run_job a --metrics 'events:runs || depth: %{INT:depth}' -- python3 train.py runs 0 40 0.75
  run_job a --metrics 'events:runs || depth: %{INT:depth}' -- sh -c 'echo depth: 7; exec python3 train.py runs 20 60 0.25'
  run jq -c '.jobs[0].series[] | [.group, .name, .step, .value, .attempt]' <("$dlctl" metrics --json a)
  [ "${lines[0]}" = '["train","Loss",[0,10,20,30,40,50],[0.75,0.75,0.25,0.25,0.25,0.25],[1,1,2,2,2,2]]' ] || { echo "$output" >&2; false; }
  contains "$output" '^\["train","depth",'
  contains "$output" '^\["train","lr",'
  run ! grep -q val <<<"$output"
  [ "$("$dlctl" metrics --json a | jq -c '.jobs[0].notes')" = '[]' ]
}

@test "the folder tb of LOG_DIR is read without being named" {
  writes train.py
  "$dlrun" -f pytorch --job-dir "$PWD/a" -- sh -c 'exec python3 train.py "$LOG_DIR/tb/validation" 0 30 0.5' >out.txt 2>&1 || { cat out.txt >&2; false; }
  run "$dlctl" metrics a
  contains "$output" '^Loss +train +3 +20 +0.5 '
  contains "$output" '^lr +validate +3 +20 +0.125 '
}

@test "a damaged event file costs what follows in it alone, and that is said" {
  writes train.py
  run_job a --metrics events:runs -- sh -c 'python3 train.py runs 0 30 0.5; for f in runs/*; do printf "%064d" 0 >>"$f"; done; echo "step 1: f1=0.5"'
  run "$dlctl" metrics a
  contains "$output" '^f1 +train +1 +1 +0.5 '
  contains "$output" '^Loss +train +3 +20 +0.5 '
  contains "$output" 'event file runs/events.out.tfevents.* is damaged; what follows is not read$'
}

@test "what PyTorch's SummaryWriter writes is understood" {
  python3 -c 'from torch.utils.tensorboard import SummaryWriter' 2>/dev/null || skip "python3 has no PyTorch with TensorBoard"
  cat >train.py <<'PY'
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("runs/digits") as writer:
    for step in range(5):
        writer.add_scalar("Loss/train", 1 / (1 + step), step)
        writer.add_scalar("new", 0.5, step, new_style=True)
        writer.add_scalars("acc", {"train": 0.5, "val": 0.25}, step)
    writer.add_text("words", "some")
PY
  run_job a --metrics events:runs -- python3 train.py
  run jq -c '.jobs[0].series[] | [.group, .name, .step, .value]' <("$dlctl" metrics --json a)
  contains "$output" '^\["train","Loss",\[0,1,2,3,4\],\[1(.0)?,0.5,0.333'
  contains "$output" '^\["train","new",\[0,1,2,3,4\],\[0.5,'
  contains "$output" '^\["train","acc",\[0,1,2,3,4\],\[0.5,'
  contains "$output" '^\["validate","acc",\[0,1,2,3,4\],\[0.25,'
}
