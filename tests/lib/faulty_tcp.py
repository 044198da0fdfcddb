#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between a client and a server, with faults: faulty_tcp.py TARGET_PORT PORT_FILE FAULTS.

It listens on a free port of 127.0.0.1, which it writes to PORT_FILE. The file FAULTS is read for each connection, and each connection takes
one of its first line `FAULT [TIMES]` that has TIMES left (none: always). Faults:

  503        each request on it is answered with this status
  cut:N      the connection ends after N bytes of the client's
  short:N    the connection ends after N bytes of the server's
"""
import socket
import socketserver
import sys
import threading
from typing import Dict

TARGET = int(sys.argv[1])
TAKEN: Dict[str, int] = {}
LOCK = threading.Lock()


def fault_of_connection() -> str:
    try:
        with open(sys.argv[3], encoding="utf-8") as file:
            lines = file.read().split("\n")
    except OSError:
        return ""
    with LOCK:
        for line in lines:
            words = line.split()
            if words and (len(words) == 1 or TAKEN.get(line, 0) < int(words[1])):
                TAKEN[line] = TAKEN.get(line, 0) + 1
                return words[0]
    return ""


def pass_on(source: socket.socket, target: socket.socket, limit: int) -> None:
    """Until one side ends, or `limit` bytes have passed (negative: no limit); then both end."""
    try:
        while limit:
            data = source.recv(65536 if limit < 0 else min(limit, 65536))
            if not data:
                break
            target.sendall(data)
            limit -= len(data) if limit > 0 else 0
    except OSError:
        pass
    for side in (source, target):
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        fault, _, number = fault_of_connection().partition(":")
        if fault == "503":
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", TARGET)) as server:
            back = threading.Thread(target=pass_on, args=(server, self.request, int(number) if fault == "short" else -1))
            back.start()
            pass_on(self.request, server, int(number) if fault == "cut" else -1)
            back.join()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


with Server(("127.0.0.1", 0), Handler) as listening:
    with open(sys.argv[2], "w", encoding="utf-8") as port_file:
        port_file.write(str(listening.server_address[1]))
    listening.serve_forever()
