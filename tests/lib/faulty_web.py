#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A web server with faults, between files and whoever fetches them: faulty_web.py FOLDER CERTIFICATE PORT_FILE.

It speaks https on a free port of 127.0.0.1, which it writes to PORT_FILE, and knows ranges, ETag and If-Match. FOLDER/.faults holds a
fault in each line, `NAME FAULT [TIMES]`, and is read for each request; each request of a file that is not HEAD takes one of the first
line that names it and has TIMES left (none: always). Requests are noted in FOLDER/.requests: METHOD NAME RANGE STATUS. Faults:

  NUMBER        an answer with this status
  cut:N         the connection ends after N bytes of the body
  stall         as cut:1000, but the connection stays open without a byte more
  short, long   Content-Length is 10 bytes less, or more, than what follows
  norange       the whole file, as from a server without ranges
  nolength      the whole file, in chunks, and HEAD tells no length
  nohead        HEAD is refused with 405
  page          status 200 with a page about an error
  swap:OTHER    from then on the file is a copy of OTHER: an object that changes between two ranges
"""
import hashlib
import http.server
import os
import re
import shutil
import socketserver
import ssl
import sys
import threading
import time
from typing import Dict, Optional, Tuple

FOLDER = sys.argv[1]
TAKEN: Dict[str, int] = {}
LOCK = threading.Lock()
PIECE = 1 << 16


def fault_of(name: str) -> str:
    """The fault of this request, and notes that it has had it."""
    try:
        with open(os.path.join(FOLDER, ".faults"), encoding="utf-8") as file:
            lines = file.read().split("\n")
    except OSError:
        return ""
    with LOCK:
        for number, line in enumerate(lines):
            words = line.split()
            if len(words) < 2 or words[0] != name:
                continue
            key = "%d %s" % (number, line)
            if len(words) > 2 and TAKEN.get(key, 0) >= int(words[2]):
                continue
            TAKEN[key] = TAKEN.get(key, 0) + 1
            return words[1]
    return ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def note(self, name: str, status: int) -> None:
        with LOCK, open(os.path.join(FOLDER, ".requests"), "a", encoding="utf-8") as file:
            file.write("%s %s %s %d\n" % (self.command, name, self.headers.get("Range", "-"), status))

    def plain(self, name: str, status: int, text: bytes) -> None:
        self.note(name, status)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def part(self, size: int) -> Optional[Tuple[int, int]]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match:
            return None
        return int(match.group(1)), min(int(match.group(2) or size - 1), size - 1)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.lstrip("/").split("?")[0]
        path = os.path.join(FOLDER, name)
        fault = fault_of(name) if self.command == "GET" else ""
        if self.command == "HEAD" and "nolength" in fault_line(name):
            fault = "nolength"
        if fault.isdigit():
            self.plain(name, int(fault), b"a fault\n")
            return
        if self.command == "HEAD" and "nohead" in fault_line(name):
            self.plain(name, 405, b"")
            return
        if not os.path.isfile(path):
            self.plain(name, 404, b"no such file\n")
            return
        if fault == "page":
            self.plain(name, 200, b"<html>the service is not available</html>\n")
            return
        self.answer(name, path, fault)

    def answer(self, name: str, path: str, fault: str) -> None:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            # This answer is the last one of the old state, and whoever has all of it finds the new one.
            if fault.startswith("swap:"):
                shutil.copyfile(os.path.join(FOLDER, fault[5:]), path + ".new")
                os.replace(path + ".new", path)
            etag = '"%s"' % hashlib.md5(b"%d %d %d" % (size, status.st_mtime_ns, status.st_ino)).hexdigest()
            ranges = fault not in ("norange", "nolength") and "norange" not in fault_line(name)
            if ranges and self.headers.get("If-Match", etag) != etag:
                self.plain(name, 412, b"")
                return
            part = self.part(size) if ranges else None
            if part and part[0] >= size:
                self.plain(name, 416, b"")
                return
            begin, end = part or (0, size - 1)
            self.note(name, 206 if part else 200)
            self.send_response(206 if part else 200)
            self.send_header("ETag", etag)
            length = end - begin + 1
            if ranges:
                self.send_header("Accept-Ranges", "bytes")
            if part:
                self.send_header("Content-Range", "bytes %d-%d/%d" % (begin, end, size))
            if fault == "nolength":
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(length + {"short": -10, "long": 10}.get(fault, 0)))
            self.end_headers()
            if self.command == "HEAD":
                return
            file.seek(begin)
            self.body(file, length, fault)

    def body(self, file, length: int, fault: str) -> None:
        most = length
        if fault.startswith("cut:"):
            most = int(fault[4:])
        elif fault == "stall":
            most = 1000
        left = min(length, most)
        while left > 0:
            data = file.read(min(PIECE, left))
            left -= len(data)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if fault == "nolength" else data)
        if fault == "nolength":
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        if fault == "stall":
            while True:
                time.sleep(1)  # the fault itself: nothing comes
        if fault in ("short", "long") or most < length:
            self.close_connection = True


def fault_line(name: str) -> str:
    """All faults of a file, whether they are still to come or not."""
    try:
        with open(os.path.join(FOLDER, ".faults"), encoding="utf-8") as file:
            return " ".join(line.split()[1] for line in file if line.split()[:1] == [name])
    except OSError:
        return ""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def main() -> None:
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with open(sys.argv[3] + ".new", "w", encoding="ascii") as file:
        file.write("%d\n" % server.server_address[1])
    os.replace(sys.argv[3] + ".new", sys.argv[3])
    server.serve_forever()


main()
