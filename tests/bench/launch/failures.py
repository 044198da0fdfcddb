# SPDX-License-Identifier: Apache-2.0
"""Deaths: until the others are told, until a lost node is noticed, and until the learners' main after a restart."""
import json
import os
import time

from dlbench.rows import Row
from dlbench.samples import Series, alternate

from cluster import NODES
from starts import dlrun, srun

RANKS = 8
DEATH_S, NODE_S, RESTART_S = 0.05, 3.0, 1.0


def death(cluster, command):
    def measure(_number):
        run = cluster.run(command)
        return {"told": run.last("told", RANKS - 1) - run.last("dies", 1)}
    return measure


def restart(cluster, command):
    def measure(_number):
        run = cluster.run(command)
        return {"restart": run.last("main", RANKS, attempt=2) - run.last("dies", 1)}
    return measure


def failed_at(run):
    """Unix seconds of the first failure of a learner in dlrun's events, or None."""
    try:
        with open(os.path.join(run.folder, "job", "events.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return None
    return next((event["time_ms"] / 1000 for event in events if event["state"] == "FAILED" and "learner" in event), None)


def node_loss(cluster, command):
    def measure(_number):
        run = cluster.start(command)
        cluster.until(lambda: len(run.all("main")) == RANKS)
        time.sleep(1)
        cut = time.time()  # before the cable is drawn, which itself takes some milliseconds
        cluster.call("node", "cut", "n%d" % NODES)
        try:
            cluster.until(lambda: failed_at(run) is not None)
        finally:
            cluster.call("node", "heal", "n%d" % NODES)
        cluster.finish(run)
        # The node is used again: what the lost step left there has to be gone.
        cluster.until(lambda: cluster.run(srun(RANKS, "true")).status == 0)
        return {"node": failed_at(run) - cut}
    return measure


def measure(cluster, tools, quick, told):
    runs, warm_up = (1, 0) if quick else (7, 1)
    die = [tools.learner, "{}", "die", str(RANKS)]
    commands = {"dlrun": dlrun(RANKS, "-f", "generic", "--", *die), "srun": srun(RANKS, "--kill-on-bad-exit=1", *die)}
    again = {"dlrun": dlrun(RANKS, "-f", "pytorch", "-r", "1", "--", *die)}
    if tools.torchrun:
        torchrun = tools.torchrun + ["--no-python", "--nproc-per-node", str(RANKS)]
        commands["torchrun"] = torchrun + die
        again["torchrun"] = torchrun + ["--max-restarts", "1"] + die
    found = alternate({peer: death(cluster, command) for peer, command in commands.items()}, runs, warm_up, told)
    found.update(alternate({peer: restart(cluster, command) for peer, command in again.items()}, runs, warm_up, told))
    wait = dlrun(RANKS, "-f", "generic", "--", tools.learner, "{}", "wait")
    found.update(alternate({"dlrun": node_loss(cluster, wait)}, 1 if quick else 5, 0, told))
    rows = []
    for name, what, event, limit in (("death", "a learner dies until the others are told", "told", DEATH_S),
                                     ("restart", "a learner dies until main after the restart, %d ranks" % RANKS, "restart", RESTART_S),
                                     ("node", "a node's network is cut until it is noticed", "node", NODE_S)):
        ours = Series(found[event + "/dlrun"])
        rows.append(Row(name + ".limit", what, "limit", "s", "<= 1.0", ours, Series([limit])))
        rows += [Row("%s.%s" % (name, peer), what, peer, "s", None, ours, Series(found["%s/%s" % (event, peer)]))
                 for peer in ("srun", "torchrun") if "%s/%s" % (event, peer) in found]
    return rows
