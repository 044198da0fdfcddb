# SPDX-License-Identifier: Apache-2.0
"""How much of the computing learners lose to the agents beside them, with a line of log every 20 steps."""
import os

from dlbench.rows import Row
from dlbench.samples import Series, alternate

from starts import dlrun, srun


def rate(cluster, command, ranks):
    def measure(_number):
        return {"steps": sum(cluster.run(command).all("steps").values()) / ranks}
    return measure


def measure(cluster, tools, quick, told):
    ranks = min(2, os.cpu_count() or 1)
    learner = [tools.learner, "{}", "train", "0.5" if quick else "5"]
    found = alternate({"dlrun": rate(cluster, dlrun(ranks, "-f", "generic", "--", *learner), ranks),
                       "srun": rate(cluster, srun(ranks, *learner), ranks)}, 1 if quick else 7, 0 if quick else 1, told)
    return [Row("training.srun", "train steps a second, %d ranks" % ranks, "srun", "1/s", ">= 0.99", Series(found["steps/dlrun"]),
                Series(found["steps/srun"]))]
