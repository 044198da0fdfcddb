# SPDX-License-Identifier: Apache-2.0
"""A site of 200 nodes with a job on each, and then with 10,000 jobs that wait: what slurmctld and its users feel, with slurm-dl and, on the
same site, without it."""
import os
import statistics
import time

from dlbench.rows import Row
from dlbench.samples import Series, alternate

from at_once import numbers
from site_cluster import NICE, Site, checked, cpu_seconds, memory_mib, percentile, until

NODES, GPUS, TENANTS = 200, 8, 100
WAITING, WAITING_S = 10000, 60
OWNER = "games"  # of the jobs that wait: another user than root, who asks, as on a real site
QUIET_S, SBATCHES, STORM, ASKED = 40, 100, 400, 3
STEP_MS, MIB = 1000, 1
KINDS = ("REQUEST_UPDATE_JOB", "REQUEST_JOB_INFO", "REQUEST_JOB_INFO_SINGLE", "REQUEST_NODE_INFO")

OURS = """#!/bin/bash
#SBATCH --dl-framework=generic --dl-learners=1 --dl-gpus=8
exec dlrun -q -- %(learner)s %(folder)s 100000 %(ms)d %(mib)d
"""
BARE = """#!/bin/bash
#SBATCH --ntasks=1 --gres=gpu:8
export DL_CHECKPOINT=%(folder)s/ck-$SLURM_JOB_ID,every=60s
exec srun -n1 %(learner)s %(folder)s 100000 %(ms)d %(mib)d
"""
# Four at a time, the tenants in turn.
SUBMIT = """for k in 0 1 2 3; do {
  for ((i = k; i < $1; i += 4)); do sbatch -Q -A t$((i %% %d)) -o $2/out.%%j $3 $2/job.sh || exit 1; done
} & jobs[k]=$!; done
for k in 0 1 2 3; do wait ${jobs[k]} || exit 1; done"""


def fill(site, count, number):
    """A job on each node; returns when the learners of all have begun."""
    folder = os.path.join(site.folder, "jobs-%d" % number)
    os.mkdir(folder)
    with open(os.path.join(folder, "job.sh"), "w", encoding="ascii") as file:
        file.write((OURS if site.ours else BARE) % {"learner": site.program("site", "learner"), "folder": folder, "ms": STEP_MS, "mib": MIB})
    flags = "--dl-checkpoint=%s/ck-%%j,every=60s" % folder if site.ours else ""
    began = time.monotonic()
    checked(["bash", "-c", SUBMIT % TENANTS, "submit", str(count), folder, flags], env=site.environment, cwd=folder)
    until(lambda: len(numbers(folder, "main")) == count, 600, "%d learners" % count, 0.5)
    return time.monotonic() - began


def quiet(site, seconds):
    """While nobody asks but what runs by itself."""
    pid = site.pid("slurmctld")
    requests, cpu, began = site.requests(), cpu_seconds(pid), time.monotonic()
    ours, rounds = cpu_seconds(site.daemon.pid) if site.daemon else 0, []
    while time.monotonic() < began + seconds:
        time.sleep(1)
        if site.daemon:
            rounds.append(site.metric("dl_policyd_round_seconds"))
    span = time.monotonic() - began
    found = {"cpu": 100 * (cpu_seconds(pid) - cpu) / span, "memory": memory_mib(pid)}
    after = site.requests()
    for name in KINDS:
        found[name] = 60 * (after.get(name, 0) - requests.get(name, 0)) / span
    if site.daemon:
        found.update({"policyd.round": statistics.median(rounds), "policyd.round.max": max(rounds),
                      "policyd.cpu": 100 * (cpu_seconds(site.daemon.pid) - ours) / span, "policyd.memory": memory_mib(site.daemon.pid)})
    return found


def submissions(site, quick):
    """By sbatch, one after the other, with the flags that a user of the site gives; and through libslurm, without the start of a program."""
    flags = ["--dl-framework=generic", "--dl-learners=1", "--dl-gpus=1"] if site.ours else ["--ntasks=1", "--gres=gpu:1"]
    took = [1000 * site.timed("sbatch", "--quiet", "--hold", "--account=t1", "--job-name=probe", "--output=/dev/null", *flags, "--wrap=true")
            for _ in range(10 if quick else SBATCHES)]
    storm = site.call("exec", "--", "nice", "-n", str(NICE), site.program("submit", "storm"), "40" if quick else str(STORM), "1").split()
    site.slurm("scancel", "--user=root", "--name=probe")
    site.slurm("scancel", "--user=root", "--name=storm")
    return {"sbatch.p50": percentile(took, 0.5), "sbatch.p99": percentile(took, 0.99), "submit.p50": float(storm[1]), "submit.p99": float(storm[2])}


def asked(site, waiting):
    """Seconds that answers take; each is asked some times."""
    job = site.slurm("squeue", "--noheader", "--format=%i", "--states=" + ("PENDING" if waiting else "RUNNING")).split()[0]
    commands = {"squeue": ["squeue"], "scontrol": ["scontrol", "show", "nodes"]}
    if site.ours:
        commands.update({"quota": ["dlctl", "quota"], "why": ["dlctl", "why", job], "status": ["dlctl", "status", "--all"],
                         "status.job": ["dlctl", "status", job], "top": ["dlctl", "status", "--all", "--json"]})
    return {name: statistics.median(site.timed(*command) for _ in range(ASKED)) for name, command in commands.items()}


def look(site, stage, quick, waiting=False):
    found = quiet(site, 10 if quick else QUIET_S)
    found.update(submissions(site, quick))
    found.update(asked(site, waiting))
    return {"%s.%s" % (stage, name): value for name, value in found.items()}


def one_round(site, ours, number, quick, told):
    site.empty()
    site.use(ours)
    running, waiting = (site.nodes, 400) if quick else (site.nodes, WAITING)
    found = {"nodes.filled": fill(site, running, 2 * number + (1 if ours else 0))}
    time.sleep(5)
    found.update(look(site, "nodes", quick))
    told(0, 1, "with slurm-dl" if ours else "without")
    storm = ["exec", "--user", OWNER, "--", site.program("submit", "storm"), str(waiting), "4", str(TENANTS), str(WAITING_S)]
    found["queue.submitted"] = float(site.call(*storm).split()[0])
    time.sleep(10)
    found.update(look(site, "queue", quick, True))
    site.slurm("scancel", "--user=" + OWNER)
    return found


UNITS = {"cpu": ("slurmctld", "% of a core"), "memory": ("slurmctld, memory", "MiB"), "filled": ("until all nodes had a learner, from the first sbatch", "s"),
         "submitted": ("submissions of all that wait, four at a time", "s"), "sbatch.p50": ("sbatch, p50", "ms"), "sbatch.p99": ("sbatch, p99", "ms"),
         "submit.p50": ("a submission through libslurm, p50", "ms"), "submit.p99": ("a submission through libslurm, p99", "ms"),
         "squeue": ("squeue", "s"), "scontrol": ("scontrol show nodes", "s"), "quota": ("dlctl quota", "s"), "why": ("dlctl why JOB", "s"),
         "status": ("dlctl status --all", "s"), "top": ("dlctl status --all --json", "s"), "status.job": ("dlctl status JOB", "s"),
         "policyd.round": ("dlpolicyd, a round", "s"), "policyd.round.max": ("dlpolicyd, its slowest round", "s"),
         "policyd.cpu": ("dlpolicyd", "% of a core"), "policyd.memory": ("dlpolicyd, memory", "MiB")}
# Beside the same site without slurm-dl; and a limit where there is nothing to compare with.
TARGETS = {"sbatch.p50": "<= 1.5", "submit.p50": "<= 1.1", "squeue": "<= 1.5"}
LIMITS = {"policyd.round": 1.0, "quota": 2.0, "why": 2.0, "status": 2.0, "status.job": 1.0}


def measure(build, quick, told, runs):
    site = Site(build, "nodes", 20 if quick else NODES, GPUS, True, TENANTS, max(8, (20 if quick else NODES) * GPUS // TENANTS),
                conf=("MinJobAge=60",))
    told(0, 1, "%d nodes are up after %.0f s" % (site.nodes, site.up_s))
    try:
        subjects = {name: lambda number, o=ours: one_round(site, o, number, quick, told) for name, ours in (("ours", True), ("without", False))}
        found = alternate(subjects, 1 if quick else runs or 3, 0, told)
    finally:
        site.close()
    rows = []
    for stage, words in (("nodes", "%d nodes, a job on each" % site.nodes), ("queue", "and %d jobs wait" % (400 if quick else WAITING))):
        for name in [key[len(stage) + 1:-len("/ours")] for key in found if key.startswith(stage + ".") and key.endswith("/ours")]:
            ours, other = Series(found["%s.%s/ours" % (stage, name)]), found.get("%s.%s/without" % (stage, name))
            label, unit = UNITS.get(name, (name, "a minute"))
            if other is not None:
                rows.append(Row("%s.%s" % (stage, name), "%s: %s" % (words, label), "without slurm-dl", unit, TARGETS.get(name), ours, Series(other)))
            else:
                limit = LIMITS.get(name)
                rows.append(Row("%s.%s" % (stage, name), "%s: %s" % (words, label), "limit" if limit else "-", unit, "<= 1.0" if limit else None,
                                ours, Series([limit]) if limit else None, "" if limit else "informs"))
    return rows
