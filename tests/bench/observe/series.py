# SPDX-License-Identifier: Apache-2.0
"""The files of series that dl-metrics writes: made up for a report, and read to see what is in them."""
import json
import os
import struct

BASE_S = 1790000000


def crc_of_byte(crc):
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


CRC_TABLE = [crc_of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def write_series(root, points, attempts=2):
    """A job whose attempts have so many values of one series together, as dl-metrics writes them."""
    with open(os.path.join(root, "events.jsonl"), "w", encoding="ascii") as events:
        for attempt in range(1, attempts + 1):
            for at, state in ((0, "DEPLOY"), (1, "PROCESSING"), (points // attempts, "PENDING" if attempt < attempts else "COMPLETED")):
                time_ms = (BASE_S + (attempt - 1) * points // attempts + at) * 1000
                events.write(json.dumps({"time_ms": time_ms, "attempt": attempt, "state": state, "reason": ""}) + "\n")
    for attempt in range(attempts):
        folder = os.path.join(root, "metrics", "attempt-%d" % (attempt + 1))
        os.makedirs(folder)
        first, count = attempt * points // attempts, points // attempts
        with open(os.path.join(folder, "learner-0.series"), "wb") as series:
            series.write(b"DLSERIE1")
            name = struct.pack("<IB", 0, 5) + b"trainloss"
            payload = b"N" + struct.pack("<H", len(name)) + name
            for begin in range(first, first + count, 5000):
                payload += b"".join(
                    struct.pack("<cHIqqd", b"P", 28, 0, (BASE_S + step) * 1000, step, 1e6 / (step + 1e5) + step * 7919 % 1000 / 1000)
                    for step in range(begin, min(begin + 5000, first + count)))
                series.write(struct.pack("<II", len(payload), crc32c(payload)) + payload)
                payload = b""


def points_from(data, at):
    """The points of the whole frames from this byte on, as (step, value), and where the next frame begins; checksums are not looked at."""
    points = []
    while len(data) >= at + 8:
        length = struct.unpack_from("<I", data, at)[0]
        if len(data) < at + 8 + length:
            break
        place, at = at + 8, at + 8 + length
        while place < at:
            kind, size = struct.unpack_from("<cH", data, place)
            if kind == b"P":
                _, _, step, value = struct.unpack_from("<Iqqd", data, place + 3)
                points.append((step, value))
            place += 3 + size
    return points, at


def points_of(path):
    """All points of a file of series, which may be missing."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    if data and data[:8] != b"DLSERIE1":
        raise ValueError("%s is no file of series" % path)
    return points_from(data, 8)[0]
