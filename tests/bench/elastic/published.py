#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares objectives of `dlsim decide` on the workloads and profiles that Pollux (OSDI 2021) published; see tests/bench/elastic/README.md.

They are the branch osdi21-artifact of https://github.com/petuum/adaptdl (Apache-2.0), whose folder `simulator` is --simulator.

What is modelled: 16 nodes of 4 GPUs; a job's goodput is its measured throughput at each size and batch, times the statistical
efficiency by its measured gradient noise; a resize stops a job for 30 s; a decision each 60 s. All policies know the true goodput of
each size at the present epoch of a job. Sizes are 1 to 3 GPUs and whole nodes, and are never scattered.
"""
import argparse
import bisect
import csv
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
GPUS, PER_NODE, DECIDE_S, RESTART_S = 64, 4, 60, 30
# Epochs until a job is done, and the largest batch of a GPU where the profile has larger ones, as in the artifact.
EPOCHS = {"bert": (2, None), "cifar10": (100, None), "ncf": (10, None), "imagenet": (90, None), "deepspeech2": (80, None),
          "yolov3": (50, 8)}
POLICIES = ("pollux", "speedup", "completion", "completion-known")
LOADS = {"0.5": "workloads-0.5", "1": "workloads", "1.5": "workloads-1.5", "2": "workloads-2.0"}
MOST_PASSES = 16  # of gradient accumulation


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Application:
    def __init__(self, folder, epochs, most_local):
        self.epochs = epochs
        self.noise = {}  # by batch: for each epoch (progress after it, squared gradient, its variance)
        for path in glob.glob(os.path.join(folder, "validation-*.csv")):
            batch = int(path.rsplit("-", 1)[1].split(".")[0])
            self.noise[batch] = [tuple(float(row[k]) for k in ("progress", "grad_sqr", "grad_var")) for row in rows_of(path)]
        self.batches = sorted(self.noise)
        self.progress = [0.0] + [min(rows[e][0] for rows in self.noise.values()) for e in range(epochs)]
        self.choices = {}  # by GPUs: (batch, seconds of a train step)
        fixed = os.path.basename(folder) == "ncf"  # one GPU and the largest batch, as in the artifact
        for gpus, local, step_s, sync_s in self.measured(folder):
            if (most_local and local > most_local) or (fixed and gpus > 1):
                continue
            for passes in range(1, MOST_PASSES + 1):
                batch = gpus * local * passes
                if self.batches[0] <= batch <= self.batches[-1] and not (fixed and batch < 0.9 * self.batches[-1]):
                    self.choices.setdefault(gpus, []).append((batch, step_s + (passes - 1) * (step_s - sync_s)))
        self.known = {}

    @staticmethod
    def measured(folder):
        """(GPUs, samples of a GPU, seconds of a step, of them for synchronisation) on as few nodes as possible."""
        for row in rows_of(os.path.join(folder, "placements.csv")):
            parts = row["placement"]
            if parts == "4" * len(parts) or len(parts) == 1:
                yield sum(map(int, parts)), int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])
        for row in rows_of(os.path.join(folder, "scalability.csv")):
            gpus = int(row["num_replicas"])
            if gpus == PER_NODE * int(row["num_nodes"]) and gpus > 16:
                yield gpus, int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])

    def noise_at(self, batch, epoch):
        above = bisect.bisect_left(self.batches, batch)
        low, high = self.batches[max(0, above - 1)], self.batches[min(above, len(self.batches) - 1)]
        if high == batch or low == high:
            return self.noise[high][epoch][1:]
        part = (batch - low) / (high - low)
        return [a * (1 - part) + b * part for a, b in zip(self.noise[low][epoch][1:], self.noise[high][epoch][1:])]

    def goodputs(self, epoch):
        """By GPUs: progress in a second with the batch that is best there."""
        if epoch not in self.known:
            self.known[epoch] = {}
            for gpus, choices in self.choices.items():
                best = 0.0
                for batch, step_s in choices:
                    square, variance = self.noise_at(batch, epoch)
                    gain = (variance + square) / (variance * self.batches[0] / batch + square)
                    best = max(best, gain / step_s)
                self.known[epoch][gpus] = best
        return self.known[epoch]

    def left_s(self, epoch, progress):
        """On its fewest GPUs."""
        fewest = min(self.choices)
        return sum((self.progress[e + 1] - max(progress, self.progress[e])) / self.goodputs(e)[fewest] for e in range(epoch, self.epochs))


class Job:
    def __init__(self, row, applications):
        self.name, self.submit_s, self.application = row["name"], float(row["time"]), applications[row["application"]]
        self.epoch, self.progress, self.gpus, self.stands_s, self.restarts = 0, 0.0, 0, 0.0, 0
        self.first_s = self.end_s = None

    def train(self, now_s, seconds):
        stands = min(self.stands_s, seconds)
        self.stands_s -= stands
        left = seconds - stands
        while self.gpus > 0 and left > 0:
            goodput = self.application.goodputs(self.epoch)[self.gpus]
            needed = (self.application.progress[self.epoch + 1] - self.progress) / goodput
            if needed > left:
                self.progress += goodput * left
                return
            left -= needed
            self.epoch += 1
            self.progress = self.application.progress[self.epoch]
            if self.epoch == self.application.epochs:
                self.end_s, self.gpus = now_s + seconds - left, 0

    def question(self, policy, now_s, others):
        goodputs = self.application.goodputs(self.epoch)
        fewest = min(goodputs)
        first_s = now_s if self.first_s is None else self.first_s
        one = {"id": self.name, "restart_s": RESTART_S, "restarts": self.restarts, "age_s": now_s - first_s, "waited_s": max(0, first_s - self.submit_s)}
        if policy == "pollux":
            # Its fitness is the harmonic mean of speed / speed with an equal share of the GPUs: a sum, as in dlsim elastic.
            share = max(g for g in goodputs if g <= max(GPUS // others, fewest))
            one.update(weight=goodputs[share] / goodputs[fewest], age_s=now_s - self.submit_s)
            goodputs = {g: 2 - goodputs[fewest] / v if v >= goodputs[fewest] else v / goodputs[fewest] for g, v in goodputs.items()}
        if policy == "completion-known":
            one["left_s"] = self.application.left_s(self.epoch, self.progress)
        one["speeds"] = {"gpu": [{"gpus": g, "speed": v} for g, v in goodputs.items()]}
        if self.gpus > 0:
            one["now"] = {"gpus": self.gpus}
        return one

    def resize(self, gpus, now_s):
        if gpus == self.gpus:
            return
        self.restarts += 1 if self.gpus > 0 else 0
        self.first_s = now_s if self.first_s is None else self.first_s
        self.gpus, self.stands_s = gpus, RESTART_S


def replay(dlsim, path, policy, applications):
    """Hours from submission to the end, of each job."""
    jobs = [Job(row, applications) for row in rows_of(path)]
    now_s = 0
    with subprocess.Popen([dlsim, "decide", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as service:
        while any(job.end_s is None for job in jobs):
            for job in jobs:
                job.train(now_s, DECIDE_S)
            now_s += DECIDE_S
            live = [job for job in jobs if job.submit_s <= now_s and job.end_s is None]
            if not live:
                continue
            question = {"nodes": [{"gpus": PER_NODE, "count": GPUS // PER_NODE}], "objective": "speedup",
                        "jobs": [job.question(policy, now_s, len(live)) for job in live]}
            if policy.startswith("completion"):
                question["objective"] = "completion"
            service.stdin.write(json.dumps(question) + "\n")
            answer = json.loads(service.stdout.readline())
            if "error" in answer:
                raise ValueError(answer["error"])
            for job, row in zip(live, answer["jobs"]):
                job.resize(row["gpus"], now_s)
        service.stdin.close()
    return sorted((job.end_s - job.submit_s) / 3600 for job in jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulator", required=True, metavar="DIR", help="the folder `simulator` of the branch osdi21-artifact")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each load and policy")
    parser.add_argument("--quick", action="store_true", help="one workload of each load: does everything work?")
    chosen = parser.parse_args()
    dlsim = os.path.join(os.environ.get("DL_BUILD_DIR") or os.path.join(TOP, "build"), "slurm-plugin", "sim", "dlsim")
    if not os.path.isdir(os.path.join(chosen.simulator, "traces")):
        sys.stderr.write("published.py: --simulator: '%s' has no folder `traces`; give the folder `simulator` of adaptdl's branch osdi21-artifact\n" % chosen.simulator)
        return 3
    try:
        applications = {name: Application(os.path.join(chosen.simulator, "traces", name), *most) for name, most in EPOCHS.items()}
        for load, folder in LOADS.items():
            paths = sorted(glob.glob(os.path.join(chosen.simulator, folder, "workload-*.csv")))[:1 if chosen.quick else None]
            beside = None
            for policy in POLICIES:
                found = [replay(dlsim, path, policy, applications) for path in paths]
                means = [sum(hours) / len(hours) for hours in found]
                mean, p99 = sum(means) / len(means), sum(hours[int(0.99 * len(hours))] for hours in found) / len(found)
                beside = beside or means
                row = {"load": load, "policy": policy, "workloads": len(paths), "mean_h": round(mean, 3), "p99_h": round(p99, 2),
                       "ratio_to_pollux": round(sum(means) / sum(beside), 3), "worst_ratio": round(max(a / b for a, b in zip(means, beside)), 3)}
                print(json.dumps(row) if chosen.json else "  ".join("%s %s" % pair for pair in row.items()), flush=True)
    except (OSError, ValueError, KeyError, ZeroDivisionError, subprocess.SubprocessError) as failure:
        sys.stderr.write("published.py: %s cannot be replayed: %s\n" % (chosen.simulator, failure))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
