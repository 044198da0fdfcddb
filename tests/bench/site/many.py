# SPDX-License-Identifier: Apache-2.0
"""FfDL's scale test (Middleware 2019) as real jobs: 700 on 680 GPUs, of ten tenants, with dlpolicyd. There 12 of the 700 got stuck, each on a
node whose hardware had failed."""
import os
import re
import subprocess
import time

from dlbench.rows import Row
from dlbench.samples import Series

from at_once import numbers, outputs
from site_cluster import Site, cpu_seconds, memory_mib, until

JOBS, NODES, GPUS, TENANTS = 700, 85, 8, 10
STEP_MS, MIB = 1000, 1
STEPS = 300  # so many seconds
PATIENCE_S = 1800
KINDS = ("REQUEST_UPDATE_JOB", "REQUEST_JOB_INFO_SINGLE", "REQUEST_JOB_INFO", "REQUEST_SUBMIT_BATCH_JOB", "REQUEST_NODE_INFO")

SCRIPT = """#!/bin/bash
#SBATCH --dl-framework=pytorch --dl-learners=1 --dl-gpus=1
began=$EPOCHREALTIME
dlrun -q -- %(learner)s %(folder)s %(steps)d %(ms)d %(mib)d
status=$?
echo $EPOCHREALTIME $status $began >%(folder)s/end.$1
"""
# Two at a time, each tenant in turn.
SUBMIT = """for k in 0 1; do {
  for ((i = k; i < $1; i += 2)); do
    for try in 1 2 3 4 5; do
      sbatch -Q -A t$((i %% %d)) -o $2/out.%%j --dl-checkpoint=$2/ck-%%j,every=60s $2/job.sh $i && break
    done
  done
} & jobs[k]=$!; done
for k in 0 1; do wait ${jobs[k]} || exit 1; done"""


class Watch:
    """What is looked at while the jobs run."""

    def __init__(self, site, folder):
        self.folder, self.site = folder, site
        self.most_running, self.most_rss, self.rounds = 0, 0.0, []
        self.pid = site.pid("slurmctld")
        self.began, self.cpu = time.monotonic(), cpu_seconds(self.pid)

    def look(self):
        """Jobs are counted by what their learners wrote down: slurmctld has enough to do."""
        names = os.listdir(self.folder)
        self.most_running = max(self.most_running, sum(name.startswith("main.") for name in names) - sum(name.startswith("done.") for name in names))
        self.most_rss = max(self.most_rss, memory_mib(self.pid))
        self.rounds.append(self.site.metric("dl_policyd_round_seconds"))

    def share(self):
        return 100 * (cpu_seconds(self.pid) - self.cpu) / (time.monotonic() - self.began)


def free_mib():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return int(re.search(r"MemAvailable:\s*(\d+)", file.read()).group(1)) / 1024


def states(site):
    """Of all jobs, by name, how many Slurm has in each state."""
    found = {}
    for state in site.slurm("squeue", "--noheader", "--states=all", "--format=%T").split():
        found[state] = found.get(state, 0) + 1
    return found


def steady(site, seconds, watch):
    """While all GPUs have a job that trains: requests that slurmctld gets in a minute, by kind, and its share of a core."""
    before, cpu, began = site.requests(), cpu_seconds(watch.pid), time.monotonic()
    while time.monotonic() < began + seconds:
        time.sleep(5)
        watch.rounds.append(site.metric("dl_policyd_round_seconds"))
    span = time.monotonic() - began
    after = site.requests()
    found = {name: 60 * (after.get(name, 0) - before.get(name, 0)) / span for name in KINDS}
    found["cpu"] = 100 * (cpu_seconds(watch.pid) - cpu) / span
    return found


def measure(build, quick, told, _runs):
    jobs, nodes, steps, window = (30, 4, 40, 10) if quick else (JOBS, NODES, STEPS, 60)
    before = free_mib()
    site = Site(build, "many", nodes, GPUS, True, TENANTS, nodes * GPUS // TENANTS, conf=("MinJobAge=7200", "MessageTimeout=100"))
    try:
        site.start_daemon()
        folder = os.path.join(site.folder, "jobs")
        os.mkdir(folder)
        with open(os.path.join(folder, "job.sh"), "w", encoding="ascii") as file:
            file.write(SCRIPT % {"learner": site.program("site", "learner"), "folder": folder, "steps": steps, "ms": STEP_MS, "mib": MIB})
        watch, began = Watch(site, folder), time.monotonic()
        with open(os.path.join(site.folder, "submit.log"), "w", encoding="utf-8") as log:
            with subprocess.Popen(["bash", "-c", SUBMIT % TENANTS, "submit", str(jobs), folder], env=site.environment, cwd=folder, stderr=log) as submit:
                until(lambda: watch.look() or submit.poll() is not None, PATIENCE_S, "all jobs are submitted", 1)
        submitted = time.monotonic() - began
        full = min(jobs, nodes * GPUS)
        told(0, 3, "submitted in %.0f s" % submitted)
        until(lambda: watch.look() or len(numbers(folder, "main")) >= full, PATIENCE_S, "all GPUs have a learner", 1)
        started = time.monotonic() - began
        used = before - free_mib()
        told(1, 3, "%d learners after %.0f s" % (full, started))
        window_found = steady(site, window, watch) if not numbers(folder, "end") else {}
        until(lambda: watch.look() or len(numbers(folder, "end")) == jobs, PATIENCE_S, "the scripts of all jobs have ended", 1)
        all_s = time.monotonic() - began
        until(lambda: site.jobs() == 0, PATIENCE_S, "Slurm knows it", 1)
        status_s = site.timed("dlctl", "status")
        told(2, 3, "all have ended after %.0f s" % all_s)
        return rows_of(site, folder, jobs, full, steps, watch, window_found,
                       {"submitted": submitted, "started": started, "all": all_s, "used": used, "status": status_s})
    finally:
        site.close()


def rows_of(site, folder, jobs, full, steps, watch, window, took):
    ended, done, found = numbers(folder, "end"), numbers(folder, "done"), states(site)
    bad = [i for i, (_, status, _) in ended.items() if status != 0]
    whole = sum(1 for job in done if site.verified(os.path.join(folder, "ck-%d" % job), steps))
    # An sbatch whose answer came too late is made again, and its job may be there twice.
    if bad or set(found) != {"COMPLETED"} or found["COMPLETED"] < jobs:
        raise RuntimeError("of %d jobs %d failed; Slurm has %s: %s" % (jobs, len(bad), found, outputs(folder)))
    rows = [
        Row("many.completed", "%d jobs on %d GPUs that completed" % (jobs, site.nodes * site.gpus), "all", "jobs", ">= 1", Series([float(len(ended) - len(bad))]),
            Series([float(jobs)])),
        Row("many.saved", "of these, with the last train step in a whole checkpoint", "all", "jobs", ">= 1", Series([float(whole)]), Series([float(jobs)])),
        Row("many.at-once", "most that ran at once", "GPUs", "jobs", ">= 1", Series([float(watch.most_running)]), Series([float(full)])),
    ]
    for name, label, unit, value in (
            ("submitted", "until all were submitted, by sbatch, two at a time", "s", took["submitted"]),
            ("started", "until each GPU had a learner that had begun", "s", took["started"]),
            ("all", "until all had ended (each trains %g s)" % (steps * STEP_MS / 1000), "s", took["all"]),
            ("run", "a job from its script's first line to its last, mean", "s", sum(e - b for e, _, b in ended.values()) / len(ended)),
            ("memory", "memory of the machine for %d jobs at once, nodes included, for each job" % full, "MiB", took["used"] / full),
            ("status", "dlctl status, when all have ended", "s", took["status"]),
            ("slurmctld.cpu", "slurmctld, in all the time", "% of a core", watch.share()),
            ("slurmctld.memory", "slurmctld, most", "MiB", watch.most_rss),
            ("policyd.round", "dlpolicyd's rounds, slowest that was seen", "s", max(watch.rounds)),
            ("policyd.memory", "dlpolicyd, most", "MiB", memory_mib(site.daemon.pid, "VmHWM"))):
        rows.append(Row("many." + name, label, "-", unit, None, Series([value]), None, "informs"))
    # Of each kind that most jobs cause.
    for name, count in sorted(site.requests().items()):
        if count >= jobs / 2 and name != "REQUEST_JOB_INFO":  # which this bench asks itself
            rows.append(Row("many.each." + name.lower(), name + " for each job", "-", "", None, Series([count / jobs]), None, "informs"))
    for name, value in window.items():
        label, unit = ("slurmctld while all train", "% of a core") if name == "cpu" else (name + " while all train", "a minute")
        rows.append(Row("many.steady." + name.lower(), label, "-", unit, None, Series([value]), None, "informs"))
    return rows
