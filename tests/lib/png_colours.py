#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""png_colours.py FILE: reads a PNG of 8 bits a channel, checks its chunks, and prints its width and height, the colour of its first
pixel, and then each colour with the number of its pixels, the most frequent first. A colour is written #rrggbb; what is transparent is
shown on black."""
import collections
import struct
import sys
import zlib


def chunks(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "this is no PNG"
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body), "a chunk is damaged"
        yield kind, body
        at += 12 + length


def rows(raw, width, height, size):
    """The rows of pixels, without the filters of PNG."""
    length = width * size
    before = bytes(length)
    for at in range(0, height * (length + 1), length + 1):
        kind, line = raw[at], bytearray(raw[at + 1:at + 1 + length])
        if kind == 2:
            if line.count(0) == length:
                line = before
            else:
                line = bytearray(value + above & 255 for value, above in zip(line, before))
        elif kind:
            left, corner = [0] * size, [0] * size  # of each channel
            for i, above in enumerate(before):
                channel = i % size
                a, c = left[channel], corner[channel]
                if kind == 1:
                    a += line[i]
                elif kind == 3:
                    a = line[i] + (a + above) // 2
                else:
                    to_left, to_above, to_corner = abs(above - c), abs(a - c), abs(a + above - 2 * c)
                    if to_above < to_left and to_above <= to_corner:
                        a = above
                    elif to_corner < to_left and to_corner < to_above:
                        a = c
                    a += line[i]
                line[i] = left[channel] = a & 255
                corner[channel] = above
        yield line
        before = line


def main(path):
    with open(path, "rb") as file:
        parts = list(chunks(file.read()))
    assert parts[-1][0] == b"IEND", "it has no end"
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    assert depth == 8 and kind in (2, 6) and not interlaced, "this form of PNG is not read here"
    size = 4 if kind == 6 else 3
    counts, first = collections.Counter(), None
    for line in rows(zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT")), width, height, size):
        pixels = [bytes(line[i:i + size]) for i in range(0, len(line), size)]
        first = first or pixels[0]
        counts.update(pixels)

    def written(pixel):
        shown = pixel[:3] if size == 3 else bytes(value * pixel[3] // 255 for value in pixel[:3])
        return "#" + shown.hex()

    print(width, height)
    print(written(first))
    for pixel, count in counts.most_common():
        print(written(pixel), count)


main(sys.argv[1])
