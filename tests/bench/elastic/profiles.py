#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes speed-up curves for `dlsim elastic --curves` of the profiles and workloads that Pollux (OSDI 2021) published; see tests/bench/elastic/README.md.

They are the branch osdi21-artifact of https://github.com/petuum/adaptdl (Apache-2.0), whose folder `simulator` is --simulator. Applications, the
GPUs that users ask for and their batches, and how often each is submitted, are those of `workloads-realistic`. A batch of up to eight times the
smallest one of a profile counts as one that keeps accuracy, as in the paper on elastic scaling. Gradient accumulation is allowed to everybody, so
that a fixed batch fits on few GPUs, too. With --goodput a speed is multiplied by the statistical efficiency of the batch, averaged over the epochs.
"""
import argparse
import collections
import glob
import json
import os
import sys

import published
from published import EPOCHS, MOST_PASSES, Application, rows_of

MOST_TIMES = 8  # the smallest batch


class Profile:
    def __init__(self, folder, name):
        self.application = Application(os.path.join(folder, "traces", name), *EPOCHS[name])
        self.smallest = self.application.batches[0]
        self.steps = collections.defaultdict(list)  # by GPUs: (samples of a GPU, seconds of a step, of them for synchronisation)
        most_local = EPOCHS[name][1]
        for gpus, local, step_s, sync_s in Application.measured(os.path.join(folder, "traces", name)):
            if not most_local or local <= most_local:
                self.steps[gpus].append((local, step_s, sync_s))
        for rows in self.steps.values():
            rows.sort()

    def step_s(self, gpus, batch):
        """With as many passes as are fastest; None: a GPU would have fewer samples than were ever measured."""
        rows, found = self.steps[gpus], []
        for passes in range(1, MOST_PASSES * MOST_TIMES + 1):
            local = batch / gpus / passes
            if local > rows[-1][0]:
                continue
            if local < rows[0][0]:
                break
            above = next(i for i, row in enumerate(rows) if row[0] >= local)
            low, high = rows[max(0, above - 1)], rows[above]
            part = 0 if low is high else (local - low[0]) / (high[0] - low[0])
            step_s, sync_s = (a + part * (b - a) for a, b in zip(low[1:], high[1:]))
            found.append(step_s + (passes - 1) * (step_s - sync_s))
        return min(found, default=None)

    def efficiency(self, batch):
        rows = [self.application.noise_at(batch, epoch) for epoch in range(self.application.epochs)]
        return sum((variance + square) / (variance * self.smallest / batch + square) * self.smallest / batch for square, variance in rows) / len(rows)

    def speeds(self, users, goodput):
        batches = sorted({self.smallest * 2**i for i in range(MOST_TIMES.bit_length())} | {users})
        for gpus in sorted(self.steps):
            for batch in batches:
                step_s = self.step_s(gpus, batch)
                if step_s:
                    speed = batch / step_s * (self.efficiency(batch) if goodput else 1)
                    yield {"gpus": gpus, "batch": batch, "samples_s": float("%.6g" % speed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulator", required=True, metavar="DIR", help="the folder `simulator` of the branch osdi21-artifact")
    parser.add_argument("--goodput", action="store_true", help="multiply speeds by the statistical efficiency")
    chosen = parser.parse_args()
    folder = chosen.simulator
    asked = collections.Counter((row["application"], int(row["num_replicas"]), int(row["batch_size"]))
                                for path in glob.glob(os.path.join(folder, "workloads-realistic", "workload-*.csv")) for row in rows_of(path))
    if not asked:
        sys.stderr.write("profiles.py: --simulator: '%s' has no workloads-realistic; give the folder `simulator` of adaptdl's branch osdi21-artifact\n" % folder)
        return 3
    profiles = {name: Profile(folder, name) for name in EPOCHS}
    jobs = []
    for (name, gpus, batch), part in sorted(asked.items()):
        speeds = list(profiles[name].speeds(batch, chosen.goodput))
        if not any(speed["batch"] == batch for speed in speeds):
            raise ValueError("%s has no speed with a batch of %d" % (name, batch))
        jobs.append({"name": "%s, %d GPUs, batch %d" % (name, gpus, batch), "part": part, "batch": batch, "asked": gpus, "speeds": speeds})
    rows = ",\n".join(json.dumps(job) for job in jobs)
    print('{"jobs": [\n%s\n]}' % rows)
    return 0


if __name__ == "__main__":
    assert published.PER_NODE == 4  # nodes of four GPUs, on which the profiles were measured
    sys.exit(main())
