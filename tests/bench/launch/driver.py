# SPDX-License-Identifier: Apache-2.0
"""Runs inside the allocation and starts what it is told to (dlbench/worker.py): {"op": "start", "argv", "env", "folder"} begins a
command, {"op": "wait", "seconds"} waits for its end. What it prints goes to FOLDER/output."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

running = None


def start(request):
    global running
    folder = request["folder"]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "output"), "wb") as output:
        began = time.monotonic()
        running = subprocess.Popen(request["argv"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder,
                                   env={**os.environ, **request.get("env", {})}, start_new_session=True)
    return {"began": began}


def kill():
    try:
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def wait(request):
    # wait(timeout) would look only every 50 ms.
    timer = threading.Timer(request["seconds"], kill)
    timer.start()
    status = running.wait()
    ended = time.monotonic()
    timer.cancel()
    return {"status": status, "ended": ended}


for line in sys.stdin:
    told = json.loads(line)
    try:
        answer = {"start": start, "wait": wait}[told["op"]](told)
    except OSError as failure:
        answer = {"error": str(failure)}
    print(json.dumps(answer), flush=True)
