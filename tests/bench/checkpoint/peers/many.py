# SPDX-License-Identifier: Apache-2.0
"""Many arrays of four bytes through the Python module: how long it takes to register them one by one, as a program in C does, and,
in another directory, to attach them and to save them for the first time until that is durable.

    many.py ARRAYS FOLDER        prints a line of JSON; seconds
"""
from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

import dlckpt


def main() -> None:
    count, folder = int(sys.argv[1]), sys.argv[2]
    dlckpt.set_log(lambda _sentence: None)
    values = np.arange(count, dtype=np.float32)
    arrays = {"layers.%05d.weight" % i: values[i:i + 1] for i in range(count)}
    pointer, found = values.ctypes.data, {}
    with dlckpt.Context(os.path.join(folder, "registered")) as context:
        began = time.perf_counter()
        for i, name in enumerate(arrays):
            context.tensor("model/" + name, "float32", (1,), pointer + 4 * i)
        found["register"] = time.perf_counter() - began
    began = time.perf_counter()
    with dlckpt.attach(dir=os.path.join(folder, "attached"), final_save=False, model=arrays) as job:
        job.save()
        found["first"] = time.perf_counter() - began
    print(json.dumps(found))


if __name__ == "__main__":
    main()
