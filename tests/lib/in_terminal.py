#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""in_terminal.py COLUMNSxROWS COMMAND...: runs the command in a pseudo-terminal of this size, writes what it writes there (without the carriage
returns that the terminal adds) to standard output, and ends with its exit status."""
import fcntl
import os
import pty
import struct
import sys
import termios

columns, rows = map(int, sys.argv[1].split("x"))
pid, terminal = pty.fork()
if pid == 0:
    # The size is set before the command looks at it.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
text = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:  # Linux says EIO when nobody has the terminal open any more
        break
    if not part:
        break
    text += part
sys.stdout.buffer.write(text.replace(b"\r\n", b"\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
