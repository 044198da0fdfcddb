#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sweep of the paper on elastic scaling (MASCOTS 2020) with our own parameters; see tests/bench/README.md.

Runs `dlsim elastic` for 40 and 400 GPUs, loads from 0.5 to 3, jobs that wait and jobs that are dropped, all categories of jobs together
and each alone, several seeds. Prints the whole sweep as tables, and whether jobs whose batch cannot vary gain exactly nothing.

Exit status: 0, or 1 when the null does not hold, 2 for a wrong command line, 3 when it could not be run.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "lib")]

from dlbench.samples import Series  # noqa: E402
from dlbench.svg import Line, Lines, picture  # noqa: E402

POLICIES = ("elastic", "elastic-fixed-batch", "fixed", "fifo")
LOADS = ("0.5", "1", "1.5", "2", "3")
CATEGORIES = ("all", "compute", "balanced", "communication", "fixed")
MEASURES = (("completed", "jobs completed"), ("mean_completion_s", "mean completion"), ("p99_completion_s", "p99"), ("dropped", "dropped"))


def sweep(dlsim, gpus, categories, seed, hours):
    command = [dlsim, "elastic", "--gpus", str(gpus), "--load", ",".join(LOADS), "--categories", categories, "--seed", str(seed), "--time",
               "%dm" % round(60 * hours), "--json"]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=3600).stdout)
    return [dict(row, gpus=gpus, categories=categories, seed=seed) for row in rows if row["policy"] in POLICIES]


def values(rows, measure, **at):
    return [row[measure] for row in rows if all(row[key] == value for key, value in at.items())]


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else 0.0


def shown(measure, value):
    if not measure.endswith("_s"):
        return "%d" % round(value)
    return "%.1f h" % (value / 3600) if value >= 5400 else "%.1f min" % (value / 60)


def table(rows, gpus, categories, admission):
    lines = ["", "%d GPUs, %s jobs, %s" % (gpus, categories, "jobs wait" if admission == "hold" else "jobs without room are dropped"), "",
             "| load | policy | " + " | ".join(label for _, label in MEASURES) + " | jobs, mean against the baseline |", "|---" * (len(MEASURES) + 3) + "|"]
    for load in LOADS:
        at = dict(gpus=gpus, categories=categories, admission=admission, load=float(load))
        base = {m: mean(values(rows, m, policy="elastic-fixed-batch", **at)) for m, _ in MEASURES}
        for policy in POLICIES:
            got = {m: mean(values(rows, m, policy=policy, **at)) for m, _ in MEASURES}
            against = "%.2f, %.2f" % (got["completed"] / max(1, base["completed"]), got["mean_completion_s"] / max(1e-9, base["mean_completion_s"]))
            lines.append("| %s | `%s` | %s | %s |" % (load, policy, " | ".join(shown(m, got[m]) for m, _ in MEASURES), against))
    return lines


def without_gain(rows):
    """What breaks the null: with jobs whose batch cannot vary, elastic is the baseline."""
    key = lambda row: (row["gpus"], row["seed"], row["admission"], row["load"])  # noqa: E731
    of = {policy: {key(row): row for row in rows if row["categories"] == "fixed" and row["policy"] == policy} for policy in POLICIES[:2]}
    return [at for at, row in of["elastic"].items() for m, _ in MEASURES if row[m] != of["elastic-fixed-batch"][at][m]]


def figure(rows, gpus, seeds, hours):
    def panel(title, axis, admission, measure, scale):
        lines = Lines(title, "load", axis)
        for colour, policy in enumerate(POLICIES):
            points = [(load, Series([value / scale for value in values(rows, measure, gpus=gpus, categories="all", admission=admission,
                                                                       load=float(load), policy=policy)])) for load in LOADS]
            lines.lines.append(Line(policy, points, colour))
        return lines

    panels = [panel("Mean time until completion, jobs wait", "minutes", "hold", "mean_completion_s", 60),
              panel("Jobs completed, jobs wait", "jobs", "hold", "completed", 1),
              panel("Jobs completed, those without room are dropped", "jobs", "drop", "completed", 1)]
    return picture(panels, "Elastic jobs over the load of a cluster of %d GPUs" % gpus,
                   "%d GPUs, made-up jobs of four categories submitted for %g h, %d seed%s; dots are medians, bars from least to most"
                   % (gpus, hours, seeds, "" if seeds == 1 else "s"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dlsim", default=os.path.join(os.environ.get("DL_BUILD_DIR") or os.path.join(TOP, "build"), "slurm-plugin", "sim", "dlsim"))
    parser.add_argument("--gpus", type=lambda text: [int(size) for size in text.split(",")], default=[40, 400], metavar="N[,N...]",
                        help="sizes of the cluster (40,400)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=8, help="for how long jobs are submitted")
    parser.add_argument("--json", metavar="FILE", help="write all rows into this file")
    parser.add_argument("--svg", metavar="FILE", help="draw the largest cluster into this file")
    chosen = parser.parse_args()
    sizes = chosen.gpus
    rows = []
    try:
        for gpus in sizes:
            for categories in CATEGORIES:
                for seed in range(1, chosen.seeds + 1):
                    rows += sweep(chosen.dlsim, gpus, categories, seed, chosen.hours)
    except (OSError, subprocess.SubprocessError, ValueError) as failure:
        sys.stderr.write("paper.py: %s\n" % failure)
        return 3
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if chosen.svg:
        with open(chosen.svg, "w", encoding="utf-8") as file:
            file.write(figure(rows, sizes[-1], chosen.seeds, chosen.hours))
    for gpus in sizes:
        for categories in CATEGORIES:
            for admission in ("hold", "drop"):
                print("\n".join(table(rows, gpus, categories, admission)))
    broken = without_gain(rows)
    print("\njobs whose batch cannot vary: %s" % ("exactly the baseline" if not broken else "NOT the baseline at %s" % broken[:3]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
