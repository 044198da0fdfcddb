# SPDX-License-Identifier: Apache-2.0
"""Runs a compiler's command line, and notes in $DL_BENCH_NOTES the CPU seconds of each C++ file that it compiles."""
import os
import resource
import subprocess
import sys

status = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sources = [word for word in sys.argv[1:] if word.endswith((".cpp", ".cc"))]
notes = os.environ.get("DL_BENCH_NOTES")
if notes and "-c" in sys.argv and sources:
    with open(notes, "a") as file:
        name = os.path.relpath(sources[-1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
        file.write("%.2f %s\n" % (used.ru_utime + used.ru_stime, name))
sys.exit(status)
