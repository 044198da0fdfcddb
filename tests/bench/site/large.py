# SPDX-License-Identifier: Apache-2.0
"""A real slurmctld that knows 10,000 nodes, of which one is there: the others are cloud nodes that are switched off. No job runs, but what
slurmctld tells, and so what commands and dlpolicyd have to read, is as large as on such a site. 10,000 jobs wait, held."""
import os
import statistics
import time

from dlbench.rows import Row
from dlbench.samples import Series

from nodes import ASKED, OWNER
from site_cluster import Site, cpu_seconds, memory_mib, until

NODES, WAITING, TENANTS, GPUS = 10000, 10000, 100, 8
QUIET_S = 30
# slurmctld has no use for the addresses of nodes that are off.
CLOUD = """PrivateData=cloud
ResumeProgram=/bin/true
SuspendProgram=/bin/true
NodeName=c[1-%d] NodeAddr=127.0.0.1 Port=[20001-%d] Sockets=1 CoresPerSocket=16 RealMemory=1000 Gres=gpu:8 State=CLOUD
"""
LIMITS = {"quota": 2.0, "why": 2.0, "status": 2.0, "policyd.round": 1.0}


def add_nodes(site, nodes):
    site.call("daemon", "stop", "slurmctld")
    path = os.path.join(site.where, "etc", "slurm.conf")
    with open(path, "a", encoding="utf-8") as file:
        file.write(CLOUD % (nodes, 20000 + nodes))
    site.call("daemon", "start", "slurmctld")
    until(site.answers, 120, "slurmctld answers")


def measure(build, quick, told, _runs):
    nodes, waiting, quiet_s = (100, 40, 5) if quick else (NODES, WAITING, QUIET_S)
    site = Site(build, "large", 1, GPUS, True, TENANTS, 800)
    found = {}
    try:
        add_nodes(site, nodes)
        storm = ["exec", "--user", OWNER, "--", site.program("submit", "storm"), str(waiting), "4"]
        found["submitted"] = float(site.call(*storm).split()[0])
        told(0, 2, "%d nodes, %d jobs" % (nodes, waiting))
        site.start_daemon()
        time.sleep(5)
        pid, rounds = site.pid("slurmctld"), []
        cpu, began = cpu_seconds(pid), time.monotonic()
        while time.monotonic() < began + quiet_s:
            time.sleep(1)
            rounds.append(site.metric("dl_policyd_round_seconds"))
        found["slurmctld"] = 100 * (cpu_seconds(pid) - cpu) / (time.monotonic() - began)
        found["policyd.round"], found["policyd.memory"] = statistics.median(rounds), memory_mib(site.daemon.pid)
        found["slurmctld.memory"] = memory_mib(pid)
        job = site.slurm("squeue", "--noheader", "--format=%i").split()[0]
        for name, command in (("squeue", ["squeue"]), ("scontrol", ["scontrol", "show", "nodes"]), ("quota", ["dlctl", "quota"]),
                              ("why", ["dlctl", "why", job]), ("status", ["dlctl", "status", "--all"])):
            found[name] = statistics.median(site.timed(*command) for _ in range(ASKED))
        told(1, 2, "asked")
    finally:
        site.close()
    words = {"submitted": ("submissions of all that wait, four at a time", "s"), "slurmctld": ("slurmctld", "% of a core"),
             "slurmctld.memory": ("slurmctld, memory", "MiB"), "policyd.round": ("dlpolicyd, a round", "s"), "policyd.memory": ("dlpolicyd, memory", "MiB"),
             "squeue": ("squeue", "s"), "scontrol": ("scontrol show nodes", "s"), "quota": ("dlctl quota", "s"), "why": ("dlctl why JOB", "s"),
             "status": ("dlctl status --all", "s")}
    rows = []
    for name, value in found.items():
        limit = LIMITS.get(name)
        rows.append(Row("large." + name, "%d nodes that are off, %d jobs wait: %s" % (nodes, waiting, words[name][0]), "limit" if limit else "-",
                        words[name][1], "<= 1.0" if limit else None, Series([value]), Series([limit]) if limit else None, "" if limit else "informs"))
    return rows
