#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py COLUMNSxROWS COMMAND...: runs a full-screen command in a pseudo-terminal, and does with it what the lines of standard input say:

  see REGEX       waits until the text on the terminal has it (lines end with a newline, blanks at their ends are gone)
  type TEXT       types it (escapes as in Python: \\r, \\033)
  size 40x10      gives the terminal another size
  signal TERM     sends the command a signal
  run COMMAND     runs a command of the shell, which must succeed
  lacks REGEX     nothing that was written so far, escape sequences included, has it
  fits            no text was written behind the last column or below the last row
  ends STATUS     waits until the command has ended with this status (128 + signal), and left the terminal as it was

It ends with status 1 and the text on the terminal at the first step that does not come true within a minute."""
import codecs
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 60
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([^0-9;?])|\x1b[^\[]")


def unescaped(text):
    return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")


class Screen:
    """What a terminal shows of the few sequences that the command uses; any other one is a fault."""

    def __init__(self, columns, rows):
        self.modes = {7: True, 25: True, 1049: False}  # lines wrap, the cursor is shown, the alternate screen
        self.overflow = ""
        self.left, self.main = b"", ([], 0, 0)
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def text(self):
        return "".join("".join(line).rstrip() + "\n" for line in self.cells)

    def feed(self, data):
        data = self.left + data
        # A sequence or a character may be cut off.
        text = data.decode("utf-8", "ignore") if data else ""
        whole = len(text.encode())
        while whole < len(data) and len(data) - whole > 3:
            raise AssertionError(f"not UTF-8: {data[whole:whole + 20]!r}")
        begun = text.rfind("\x1b")
        if begun >= 0 and not SEQUENCE.match(text, begun):
            text = text[:begun]
        self.left = data[len(text.encode()):]
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = SEQUENCE.match(text, at)
                self.sequence(match)
                at = match.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row >= self.rows:  # it scrolls
                self.cells = self.cells[1:] + [[" "] * self.columns]
                self.row = self.rows - 1
        elif character < " ":
            raise AssertionError(f"the control character {character!r} was written")
        elif self.column >= self.columns or self.row >= self.rows:
            self.overflow += character
        else:
            self.cells[self.row][self.column] = character
            self.column += 1

    def mode(self, number, on):
        if number == 1049 and on and not self.modes[number]:
            self.main = self.cells, self.row, self.column
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif number == 1049 and not on and self.modes[number]:
            cells, self.row, self.column = self.main
            empty = [[" "] * self.columns] * self.rows  # the size may have changed meanwhile
            self.cells = [(line + [" "] * self.columns)[:self.columns] for line in (cells + empty)[:self.rows]]
        self.modes[number] = on

    def sequence(self, match):
        numbers, final = match.group(1) or "", match.group(2) or "?"
        if final == "H":
            row, column = (numbers.split(";") + ["1", "1"])[:2] if numbers else ("1", "1")
            self.row, self.column = int(row) - 1, int(column) - 1
        elif final == "J" and numbers == "2":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K" and numbers == "2":
            if self.row < self.rows:
                self.cells[self.row] = [" "] * self.columns
        elif final in "hl" and numbers.startswith("?") and int(numbers[1:]) in self.modes:
            self.mode(int(numbers[1:]), final == "h")
        elif final != "m":
            raise AssertionError(f"the sequence {match.group(0)!r} was written")


class Command:
    def __init__(self, columns, rows, argv):
        self.terminal, self.theirs = pty.openpty()
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.theirs)
        self.screen, self.written = Screen(columns, rows), b""
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)
            for standard in range(3):
                os.dup2(self.theirs, standard)
            os.close(self.terminal)
            os.close(self.theirs)
            os.execvp(argv[0], argv)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, wait):
        """Reads what there is; False if there was nothing."""
        if not select.select([self.terminal], [], [], wait)[0]:
            return False
        try:
            data = os.read(self.terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.written += data
        self.screen.feed(data)
        return bool(data)

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = 128 - code if code < 0 else code
        return self.status is not None

    def until(self, done, what):
        end = time.monotonic() + LIMIT
        while not done():
            if time.monotonic() > end:
                raise AssertionError(f"not within {LIMIT} s: {what}")
            self.read(0.1)

    def sees(self, regex):
        return re.search(regex, self.screen.text(), re.MULTILINE) is not None

    def step(self, line):
        word, _, rest = line.partition(" ")
        if word == "see":
            self.until(lambda: self.sees(rest), line)
        elif word == "type":
            os.write(self.terminal, unescaped(rest).encode("latin-1"))
        elif word == "size":
            columns, rows = map(int, rest.split("x"))
            while self.read(0):
                pass
            self.screen.resize(columns, rows)
            self.set_size(columns, rows)
        elif word == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + rest))
        elif word == "run":
            subprocess.run(rest, shell=True, check=True, stdin=subprocess.DEVNULL)
        elif word == "lacks":
            found = re.search(rest.encode(), self.written)
            assert found is None, f"{found.group(0)!r} was written"
        elif word == "fits":
            assert not self.screen.overflow, f"written beyond the terminal: {self.screen.overflow[:200]!r}"
        elif word == "ends":
            self.until(self.has_ended, line)
            while self.read(0.1):
                pass
            assert self.status == int(rest), f"it ended with status {self.status}, not {rest}"
            assert termios.tcgetattr(self.theirs) == self.before, "the terminal's settings are others than before"
            assert self.screen.modes == {7: True, 25: True, 1049: False}, f"the terminal's modes: {self.screen.modes}"
        else:
            raise AssertionError(f"no such step: {line}")


def main():
    columns, rows = map(int, sys.argv[1].split("x"))
    steps = [line.strip() for line in sys.stdin if line.strip()]
    command = Command(columns, rows, sys.argv[2:])
    line = ""
    try:
        for line in steps:
            command.step(line)
    except (AssertionError, subprocess.CalledProcessError) as error:
        print(f"{line}: {error}\non the terminal:\n{command.screen.text()}", flush=True)
        return 1
    finally:
        if not command.has_ended():
            os.kill(command.pid, signal.SIGKILL)
            os.waitpid(command.pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
