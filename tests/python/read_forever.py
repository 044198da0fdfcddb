# SPDX-License-Identifier: Apache-2.0
"""Reads the newest checkpoint of save_forever.py again and again for so many seconds. Each that can be read is full of its own train step;
one that its job removed meanwhile is said to be removed. Prints how many of each there were."""
import collections
import sys
import time

import dlckpt

found = collections.Counter()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        with dlckpt.open(sys.argv[1]) as checkpoint:
            assert checkpoint.note == "", checkpoint.note
            for path in ("arrays/first", "arrays/second"):
                values = checkpoint.load(path, kind="numpy")
                assert (values == checkpoint.step).all(), (checkpoint.step, path, values.min(), values.max())
            try:
                checkpoint.older()
            except dlckpt.NotFoundError:
                found["older"] += 1
        found["read"] += 1
    except dlckpt.NotFoundError as error:
        assert " was removed by its job meanwhile; the newest is that of train step " in error.sentence, error.sentence
        found["removed"] += 1
print("%d read, %d removed" % (found["read"], found["removed"]))
