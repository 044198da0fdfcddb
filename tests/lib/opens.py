#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""opens.py FILE COMMAND...: runs a command and prints how often FILE was opened meanwhile, by anybody; the command's output goes to
standard error. Exit status: the command's."""
import ctypes
import os
import struct
import subprocess
import sys

IN_OPEN, IN_CLOSE = 0x20, 0x18  # closing is watched, too: the kernel joins two equal events that follow one another

libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(sys.argv[1]), IN_OPEN | IN_CLOSE) < 0:
    sys.exit("opens.py: %s cannot be watched: %s" % (sys.argv[1], os.strerror(ctypes.get_errno())))
status = subprocess.run(sys.argv[2:], stdout=sys.stderr, check=False).returncode
count = 0
while True:
    try:
        events = os.read(watch, 65536)
    except BlockingIOError:
        break
    at = 0
    while at < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, at)
        count += mask & IN_OPEN != 0
        at += 16 + length
print(count)
sys.exit(status)
