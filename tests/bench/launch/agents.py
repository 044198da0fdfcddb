# SPDX-License-Identifier: Apache-2.0
"""What a rank costs dlrun, up to 10,000 of them: the plan by --dry-run, and simulated agents (storm.cpp) for the rest."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from dlbench.rows import Row
from dlbench.samples import Series, alternate

LIMIT_S = 0.05  # the plan for 10,000 ranks
PER_NODE = 8


def allocation(folder, ranks):
    """The environment of a job with so many ranks, eight on a node, whose srun is the storm. The nodes' names are addresses of this
    machine, so that none has to be looked up."""
    nodes = -(-ranks // PER_NODE)
    names = ["127.%d.%d.%d" % (1 + i // 62500, i // 250 % 250, 1 + i % 250) for i in range(nodes)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "DL_"))}
    kept["DL_PMIX"] = "slurm"  # the storm plays agents, and no PMIx servers
    return {**kept, "PATH": folder, "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": ",".join(names), "SLURM_NTASKS": str(ranks),
            "SLURM_JOB_CPUS_PER_NODE": "%d(x%d)" % (PER_NODE, nodes), "BENCH_STORM": os.path.join(folder, "report"),
            "DL_CONFIG": os.path.join(folder, "dl.toml")}


def plan(tools, folder, ranks):
    # The whole command, with its own start; what it prints for so many ranks is not part of the plan.
    def measure(_number):
        began = time.monotonic()
        subprocess.run([tools.dlrun, "--dry-run", "--", "true"], stdout=subprocess.DEVNULL, env=allocation(folder, ranks), check=True, cwd=folder)
        return {"plan": time.monotonic() - began}
    return measure


def storm(tools, folder, ranks):
    def measure(number):
        job = os.path.join(folder, "job-%d" % number)
        report = os.path.join(folder, "report")
        if os.path.exists(report):
            os.unlink(report)
        began = time.monotonic()
        done = subprocess.run([tools.dlrun, "-q", "-f", "generic", "--job-dir", job, "--", "true"], env=allocation(folder, ranks), cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=180)
        ended = time.monotonic()
        shutil.rmtree(job, ignore_errors=True)
        if not os.path.exists(report):
            raise RuntimeError("storm of %d: %s" % (ranks, done.stdout[-2000:]))
        with open(report, encoding="ascii") as file:
            return {**json.load(file), "all": ended - began}
    return measure


def measure(_cluster, tools, quick, told):
    rows = []
    folder = tempfile.mkdtemp(prefix="bench-agents-")
    try:
        os.symlink(tools.storm, os.path.join(folder, "srun"))
        os.symlink("/bin/true", os.path.join(folder, "scontrol"))
        with open(os.path.join(folder, "dl.toml"), "w", encoding="ascii") as file:
            file.write('[frameworks]\ncatalogue = ["%s"]\n' % tools.catalogue)
        for ranks in ((10, 100) if quick else (10, 100, 1000, 10000)):
            runs, warm_up = (1, 0) if quick else (5, 1)
            found = alternate({"dlrun": storm(tools, folder, ranks)}, runs, warm_up, told)
            found.update(alternate({"dlrun": plan(tools, folder, ranks)}, runs, warm_up, told))
            for name, what, unit, scale in (("plan", "plan for %d ranks, with the command's own start" % ranks, "s", 1),
                                            ("start", "%d agents connect and are told to start, for each" % ranks, "ms", 1000 / ranks),
                                            ("end", "one of %d learners dies until the last other is told" % ranks, "s", 1)):
                ours = Series([value * scale for value in found["%s/dlrun" % name]])
                held = name == "plan" and ranks == 10000
                rows.append(Row("agents.%s.%d" % (name, ranks), what, "limit" if held else "-", unit, "<= 1.0" if held else None, ours,
                                Series([LIMIT_S]) if held else None, "" if held else "informs"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows
