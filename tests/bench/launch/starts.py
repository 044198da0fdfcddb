# SPDX-License-Identifier: Apache-2.0
"""From the command to the learners: their main, and their first collective; dlrun beside bare srun, mpirun and torchrun."""
from dlbench.rows import Row
from dlbench.samples import Series, alternate

from cluster import CPUS

LIMIT_S = 0.05  # over bare srun, at 8 ranks


def nodes_for(ranks):
    return "-N%d" % -(-ranks // CPUS)


def dlrun(ranks, *rest):
    return ["dlrun", "-q", "-n", str(ranks), "--job-dir", "{}/job", *rest]


def srun(ranks, *rest):
    return ["srun", nodes_for(ranks), "-n", str(ranks), *rest]


def mpirun(ranks, *rest):
    # Without Slurm's own launcher: the other way of starting on one machine.
    return ["env", "-u", "SLURM_JOB_ID", "-u", "SLURM_JOBID", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *rest]


def to_main(cluster, tools, ranks):
    return {"dlrun": dlrun(ranks, "-f", "pytorch", "--", tools.learner, "{}"),
            "srun": srun(ranks, tools.learner, "{}"),
            "mpirun": mpirun(ranks, tools.learner, "{}"),
            **({"torchrun": tools.torchrun + ["--no-python", "--nproc-per-node", str(ranks), tools.learner, "{}"]} if tools.torchrun else {})}


def to_collective(cluster, tools, ranks):
    found = {}
    if tools.collective:
        found["mpi"] = {"dlrun": dlrun(ranks, "-f", "mpi", "--", tools.collective, "{}"),
                        "srun": srun(ranks, "--mpi=pmix", tools.collective, "{}"),
                        "mpirun": mpirun(ranks, tools.collective, "{}")}
    if tools.torchrun:
        script = [tools.python, tools.script, "{}"]
        found["torch"] = {"dlrun": dlrun(ranks, "-f", "pytorch", "--", *script),
                          "srun": ["env", "MASTER_ADDR=n1", "MASTER_PORT=29511"] + srun(ranks, *script),
                          "torchrun": tools.torchrun + ["--nproc-per-node", str(ranks), tools.script, "{}"]}
    return found


def timed(cluster, command, event, ranks):
    def measure(_number):
        run = cluster.run(command)
        return {event: run.last(event, ranks) - run.began, "all": run.ended - run.began}
    return measure


def rows_of(name, what, event, found, overhead):
    ours = Series(found["%s/dlrun" % event])
    rows = [Row("%s.%s" % (name, peer), what, peer, "s", None, ours, Series(found["%s/%s" % (event, peer)]))
            for peer in ("srun", "mpirun", "torchrun") if "%s/%s" % (event, peer) in found]
    if overhead:
        more = [a - b for a, b in zip(found["%s/dlrun" % event], found["%s/srun" % event])]
        rows.append(Row(name + ".overhead", what + ", over bare srun", "limit", "s", "<= 1.0", Series(more), Series([LIMIT_S])))
        whole = [a - b for a, b in zip(found["all/dlrun"], found["all/srun"])]
        rows.append(Row(name + ".whole", "the same until the command ends", "-", "s", None, Series(whole), None, "informs"))
    return rows


def measure(cluster, tools, quick, told):
    runs, warm_up = (1, 0) if quick else (7, 1)
    rows = []
    for ranks in ((2, 8) if quick else (1, 2, 4, 8)):
        commands = to_main(cluster, tools, ranks)
        found = alternate({peer: timed(cluster, command, "main", ranks) for peer, command in commands.items()}, runs, warm_up, told)
        rows += rows_of("main.%d" % ranks, "%d ranks to main" % ranks, "main", found, ranks == 8)
    for ranks in ((2,) if quick else (2, 8)):
        for kind, commands in to_collective(cluster, tools, ranks).items():
            found = alternate({peer: timed(cluster, command, "collective", ranks) for peer, command in commands.items()},
                              1 if quick else 5, warm_up, told)
            rows += rows_of("collective.%s.%d" % (kind, ranks), "%d ranks to the first collective, %s" % (ranks, kind), "collective", found, False)
    return rows
