# SPDX-License-Identifier: Apache-2.0
"""Simulated: what no machine of ours can run. One round of dlpolicyd without Slurm, on made-up records of up to 10,000 nodes; see
round_once.cpp. tests/bench/policy measures the decision alone, in its worst shapes."""
import os

from dlbench.rows import Row
from dlbench.samples import Series, alternate

from site_cluster import checked

# Nodes of 8 GPUs, running jobs, pending jobs, tenants.
SIZES = [(200, 400, 10000, 100), (1000, 2000, 10000, 100), (10000, 20000, 10000, 100), (10000, 20000, 30000, 1000)]
PARTS = ("view", "decide", "plan", "metrics", "quota", "mib", "actions")
LIMIT_S, LIMIT_MIB = 1.0, 512.0  # a round is due each second


def measure(build, quick, told, runs):
    program = os.path.join(build, "tests", "bench", "site", "round_once")
    sizes = SIZES[:1] if quick else SIZES

    def subject(size):
        def once(number):
            words = checked([program, *map(str, size), str(number + 1)]).split()
            found = dict(zip(PARTS, map(float, words)))
            found["round"] = found["view"] + found["decide"] + found["plan"] + found["metrics"]
            return found
        return once

    found = alternate({"%dx%d" % size[::2]: subject(size) for size in sizes}, 1 if quick else runs or 9, 0 if quick else 1, lambda *_: None)
    told(0, 1, "simulated rounds")
    rows = []
    for size in sizes:
        name = "%dx%d" % size[::2]
        label = "simulated: %d nodes, %d running and %d pending jobs of %d tenants, " % size

        def row(part, what, unit, limit=None, name=name, label=label):
            return Row("simulated.%s.%s" % (name, part), label + what, "limit" if limit else "-", unit, "<= 1.0" if limit else None,
                       Series(found["%s/%s" % (part, name)]), Series([limit]) if limit else None, "" if limit else "informs")
        rows += [row("round", "a round", "s", LIMIT_S), row("view", "of it the records as a state", "s"), row("decide", "of it the decision", "s"),
                 row("plan", "of it the changes in Slurm", "s"), row("metrics", "of it metrics", "s"), row("quota", "rows of dlctl quota", "s"),
                 row("mib", "memory", "MiB", LIMIT_MIB), row("actions", "changes", "")]
    return rows
