# SPDX-License-Identifier: Apache-2.0
"""10, 20, 30 and 40 jobs at once on 40 GPUs, ours beside bare srun's on a cluster without our plugins. FfDL's workshop paper
(NIPS 2017) had a mean time of 50.15, 58.36, 74.67 and 81.36 s, 1.62 times from 10 to 40."""
import glob
import os

from dlbench.rows import Row
from dlbench.samples import Series, alternate

from site_cluster import Site, Spread, checked, until

COUNTS = (10, 20, 30, 40)
NODES, GPUS = 10, 4
STEPS, STEP_MS, MIB, EVERY = 200, 100, 1, "5s"
PATIENCE_S = 300
LIMIT = 1.10
FFDL_GROWTH = 1.62

# Slurm looks at the queue at once, or a second later at most; by default it may be three.
CONF = ("SchedulerParameters=batch_sched_delay=0,bf_interval=30",)
# $1 is the job's own number; it writes down when it ends and when it began.
OURS = """#!/bin/bash
#SBATCH --dl-framework=generic --dl-learners=1 --dl-gpus=1
began=$EPOCHREALTIME
dlrun -q -- %(learner)s %(folder)s %(steps)d %(ms)d %(mib)d
status=$?
echo $EPOCHREALTIME $status $began >%(folder)s/end.$1
"""
BARE = """#!/bin/bash
#SBATCH --ntasks=1 --gres=gpu:1
began=$EPOCHREALTIME
export DL_CHECKPOINT=%(folder)s/ck-$SLURM_JOB_ID,every=%(every)s
srun -n1 %(learner)s %(folder)s %(steps)d %(ms)d %(mib)d
status=$?
echo $EPOCHREALTIME $status $began >%(folder)s/end.$1
"""
# All at once; each sbatch is timed from its start.
SUBMIT = "for i in $(seq $1); do { echo $EPOCHREALTIME >$2/begin.$i; sbatch -Q -o $2/out.%j $3 $2/job.sh $i || echo 0 9 0 >$2/end.$i; } & done; wait"


WORDS = {"begin": 1, "main": 2, "done": 2, "end": 3}


def numbers(folder, event):
    """The numbers that each job wrote down, by the job's own number or Slurm's."""
    found = {}
    for name in os.listdir(folder):
        if name.startswith(event + ".") and not name.endswith(".tmp"):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                words = file.read().split()
            if len(words) == WORDS[event]:
                found[int(name.rsplit(".", 1)[1])] = [float(word) for word in words]
    return found


def outputs(folder):
    """The ends of what some jobs printed."""
    said = []
    for path in sorted(glob.glob(os.path.join(folder, "out.*")))[:3]:
        with open(path, encoding="utf-8", errors="replace") as file:
            said.append(file.read()[-500:].strip())
    return " | ".join(said)


def one_round(site, count, number, steps):
    folder = os.path.join(site.folder, "round-%d-%d" % (count, number))
    os.mkdir(folder)
    words = {"learner": site.program("site", "learner"), "folder": folder, "steps": steps, "ms": STEP_MS, "mib": MIB, "every": EVERY}
    with open(os.path.join(folder, "job.sh"), "w", encoding="ascii") as file:
        file.write((OURS if site.ours else BARE) % words)
    flags = "--dl-checkpoint=%s/ck-%%j,every=%s" % (folder, EVERY) if site.ours else ""
    checked(["bash", "-c", SUBMIT, "submit", str(count), folder, flags], env=site.environment, cwd=folder)
    until(lambda: len(numbers(folder, "end")) == count, PATIENCE_S, "%d jobs have ended" % count)
    begins, ends = numbers(folder, "begin"), numbers(folder, "end")
    bad = [i for i, (_, status, _) in ends.items() if status != 0]
    if bad:
        raise RuntimeError("jobs %s of %d failed: %s" % (bad, count, outputs(folder)))
    until(lambda: site.jobs() == 0, 60, "Slurm knows that they have ended")
    took = Spread([ends[i][0] - begins[i][0] for i in ends])
    ran = Spread([end - began for end, _, began in ends.values()])
    return {"mean": took.mean, "least": took.least, "most": took.most, "deviation": took.deviation, "run": ran.mean}


def measure(build, quick, told, runs):
    counts, steps, runs = ((4, 8), 20, 1) if quick else (COUNTS, STEPS, runs or 5)
    ours = Site(build, "ours", NODES, GPUS, True, conf=CONF)
    bare = None
    try:
        bare = Site(build, "bare", NODES, GPUS, False, conf=CONF)
        subjects = {}
        for count in counts:
            for name, site in (("ours", ours), ("srun", bare)):
                subjects["%s-%d" % (name, count)] = lambda number, s=site, c=count: one_round(s, c, number, steps)
        found = alternate(subjects, runs, 0, told)
    finally:
        ours.close()
        if bare is not None:
            bare.close()
    return rows_of(found, counts, steps)


def rows_of(found, counts, steps):
    rows = []
    for count in counts:
        for part, label, target in (("mean", "mean", "<= %.2f" % LIMIT), ("run", "mean without the queue", None),
                                    ("most", "slowest", None), ("deviation", "standard deviation", None)):
            rows.append(Row("at-once.%d.%s" % (count, part), "%d jobs at once of %g s, %s" % (count, steps * STEP_MS / 1000, label), "bare srun", "s",
                            target, Series(found["%s/ours-%d" % (part, count)]), Series(found["%s/srun-%d" % (part, count)])))
    few, many = counts[0], counts[-1]

    def growth(name):
        return Series([b / a for a, b in zip(found["mean/%s-%d" % (name, few)], found["mean/%s-%d" % (name, many)])])

    rows.append(Row("at-once.growth", "mean of %d jobs / mean of %d" % (many, few), "bare srun", "", "<= %.2f" % LIMIT, growth("ours"), growth("srun")))
    rows.append(Row("at-once.growth.ffdl", "the same", "FfDL, by its paper", "", None, growth("ours"), Series([FFDL_GROWTH])))
    return rows
