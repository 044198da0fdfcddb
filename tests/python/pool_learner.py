# SPDX-License-Identifier: Apache-2.0
"""For test_pool.py, under dlrun --servers: learners add 1 to each of 60 keys in each of ROUNDS rounds of at least SECONDS, and at last each key
has to hold exactly ROUNDS x learners. How many servers there should be is read from the file `wanted`."""
import os
import sys
import time

import dlpool

KEYS = ["key %d" % i for i in range(60)]


class Counts:
    """As in tests/cli/pool_count.cpp."""

    def __init__(self):
        self.slots = dlpool.Map(lambda number: b"%d" % number, int)

    def apply(self, key, data):
        if data != b"+":
            raise ValueError("%r is no addition" % data)
        self.slots[key] = self.slots.get(key, 0) + 1
        return b"%d" % self.slots[key]

    def read(self, key, _):
        return b"%d" % self.slots.get(key, 0)

    def wanted(self, load):
        try:
            with open("wanted") as file:
                return int(file.read())
        except (OSError, ValueError):
            return load.members


def learn(rounds, seconds):
    learners = int(os.environ["DL_WORLD_SIZE"])
    with dlpool.Client() as pool:
        last = [0] * len(KEYS)
        for _ in range(rounds):
            begin = time.monotonic()
            now = [int(answer) for answer in pool.call([(key, "+") for key in KEYS])]
            assert all(a < b for a, b in zip(last, now)), (last, now)
            last = now
            time.sleep(max(0, begin + seconds - time.monotonic()))
        while min(int(answer) for answer in pool.call([(key, b"") for key in KEYS], read=True)) < rounds * learners:
            time.sleep(0.05)
        wrong = sum(int(answer) != rounds * learners for answer in pool.call([(key, b"") for key in KEYS], read=True))
    print("%d keys are wrong" % wrong, flush=True)


if __name__ == "__main__":
    if os.environ["DL_ROLE"] == "server":
        with open("server.%s" % os.environ["DL_ROLE_RANK"], "w") as pid_file:
            print(os.getpid(), file=pid_file)
        dlpool.Pool(Counts()).serve()
    else:
        learn(int(sys.argv[1]), float(sys.argv[2]))
