#!/usr/bin/env python3
"""Stands where a program of the user's stands that needs no PyTorch: says with what it was started, and saves what it has done."""
import os
import sys
import time

out = sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else None
seconds = float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 0
end = time.time() + seconds
while time.time() < end:
    time.sleep(0.1)
line = f"task {os.environ.get('SLURM_PROCID', '-')} of {os.environ.get('SLURM_NTASKS', '-')}, args {' '.join(sys.argv[1:])}"
print(line, flush=True)
if out:
    with open(out, "w") as file:
        file.write(line + "\n")
