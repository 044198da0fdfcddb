#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sweep of the paper on elastic scaling (MASCOTS 2020) with our own parameters; see tests/bench/elastic/README.md.

Runs `dlsim elastic` for 40 and 400 GPUs, loads from 0.5 to 3, jobs that wait and jobs that are dropped, all categories of jobs together
and each alone, several seeds. Prints the whole sweep as tables, and whether jobs whose batch cannot vary gain exactly nothing.

With --curves jobs have measured speeds (curves/), and there is one more load: twice what the cluster carries, which is as many jobs as the
baseline completes at the load at which it completes most.

Exit status: 0, or 1 when the null does not hold, 2 for a wrong command line, 3 when it could not be run.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

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


def sweep(dlsim, gpus, categories, seed, hours, loads=LOADS, curves=None):
    jobs = ["--curves", curves[categories]] if curves else ["--categories", categories]
    command = [dlsim, "elastic", "--gpus", str(gpus), "--load", ",".join(loads), *jobs, "--seed", str(seed), "--time", "%dm" % round(60 * hours), "--json"]
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


def with_fixed_batch(path):
    """The same jobs with speeds at their users' batches alone, in a file of its own."""
    with open(path, encoding="utf-8") as file:
        jobs = json.load(file)["jobs"]
    for job in jobs:
        job["speeds"] = [speed for speed in job["speeds"] if speed["batch"] == job["batch"]]
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8") as file:
        json.dump({"jobs": jobs}, file)
    return file.name


def carried(rows, gpus, categories):
    """The load of which the baseline completes as many jobs as it ever does, where jobs wait."""
    at = dict(gpus=gpus, categories=categories, admission="hold", policy="elastic-fixed-batch")
    return max(load * mean(values(rows, "completed", load=load, **at)) / mean(values(rows, "jobs", load=load, **at)) for load in map(float, LOADS))


def table(rows, gpus, categories, admission, loads=LOADS):
    lines = ["", "%d GPUs, %s jobs, %s" % (gpus, categories, "jobs wait" if admission == "hold" else "jobs without room are dropped"), "",
             "| load | policy | " + " | ".join(label for _, label in MEASURES) + " | jobs, mean against the baseline |", "|---" * (len(MEASURES) + 3) + "|"]
    for load in loads:
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


def figure(rows, gpus, seeds, hours, categories="all", what="made-up jobs of four categories"):
    def panel(title, axis, admission, measure, scale):
        lines = Lines(title, "load", axis)
        for colour, policy in enumerate(POLICIES):
            points = [(load, Series([value / scale for value in values(rows, measure, gpus=gpus, categories=categories, admission=admission,
                                                                       load=float(load), policy=policy)])) for load in LOADS]
            lines.lines.append(Line(policy, points, colour))
        return lines

    panels = [panel("Mean time until completion, jobs wait", "minutes", "hold", "mean_completion_s", 60),
              panel("Jobs completed, jobs wait", "jobs", "hold", "completed", 1),
              panel("Jobs completed, those without room are dropped", "jobs", "drop", "completed", 1)]
    return picture(panels, "Elastic jobs over the load of a cluster of %d GPUs" % gpus,
                   "%d GPUs, %s submitted for %g h, %d seed%s; dots are medians, bars from least to most"
                   % (gpus, what, hours, seeds, "" if seeds == 1 else "s"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dlsim", default=os.path.join(os.environ.get("DL_BUILD_DIR") or os.path.join(TOP, "build"), "slurm-plugin", "sim", "dlsim"))
    parser.add_argument("--gpus", type=lambda text: [int(size) for size in text.split(",")], default=[40, 400], metavar="N[,N...]",
                        help="sizes of the cluster (40,400)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=float, default=8, help="for how long jobs are submitted")
    parser.add_argument("--curves", metavar="FILE", help="jobs with measured speeds, as dlsim elastic --curves reads them")
    parser.add_argument("--json", metavar="FILE", help="write all rows into this file")
    parser.add_argument("--svg", metavar="FILE", help="draw the largest cluster into this file")
    chosen = parser.parse_args()
    sizes, rows, twice = chosen.gpus, [], {}
    curves = {"measured": chosen.curves, "fixed": with_fixed_batch(chosen.curves)} if chosen.curves else None
    kinds = tuple(curves) if curves else CATEGORIES
    try:
        for gpus in sizes:
            for categories in kinds:
                for seed in range(1, chosen.seeds + 1):
                    rows += sweep(chosen.dlsim, gpus, categories, seed, chosen.hours, LOADS, curves)
            if curves:
                twice[gpus] = "%.2f" % (2 * carried(rows, gpus, "measured"))
                for seed in range(1, chosen.seeds + 1):
                    rows += sweep(chosen.dlsim, gpus, "measured", seed, chosen.hours, [twice[gpus]], curves)
    except (OSError, subprocess.SubprocessError, ValueError) as failure:
        sys.stderr.write("paper.py: %s\n" % failure)
        return 3
    finally:
        if curves:
            os.unlink(curves["fixed"])
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if chosen.svg:
        with open(chosen.svg, "w", encoding="utf-8") as file:
            file.write(figure(rows, sizes[-1], chosen.seeds, chosen.hours, *(["measured", "jobs with measured speeds"] if curves else [])))
    for gpus in sizes:
        for categories in kinds:
            for admission in ("hold", "drop"):
                print("\n".join(table(rows, gpus, categories, admission)))
        for admission in ("hold", "drop") if curves else ():
            print("\nTwice the load that the cluster carries:")
            print("\n".join(table(rows, gpus, "measured", admission, [twice[gpus]])))
    broken = without_gain(rows)
    print("\njobs whose batch cannot vary: %s" % ("exactly the baseline" if not broken else "NOT the baseline at %s" % broken[:3]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
