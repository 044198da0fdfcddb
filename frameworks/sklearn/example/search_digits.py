#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches the best support vector machine for the UCI handwritten digits that come with scikit-learn.

    python3 search_digits.py                                            one process, on this machine
    dlrun --framework sklearn --learners 4 -- python3 search_digits.py  four, on this machine: each tries a quarter
    sbatch --dl-framework=sklearn --dl-learners=4 search_digits.sbatch  four, on a cluster

Learners do not communicate: each tries its own candidates, on the cores that it was given, and writes its results
to RESULT_DIR/learner-ID.json.
"""
import itertools
import json
import os

from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC


def main() -> None:
    learner, learners = int(os.environ.get("LEARNER_ID", 1)), int(os.environ.get("NUM_LEARNERS", 1))
    images, digits = load_digits(return_X_y=True)
    candidates = list(itertools.product((0.1, 1, 10), (0.0001, 0.001, 0.01)))
    found = []
    for c, gamma in candidates[learner - 1::learners]:
        accuracy = cross_val_score(SVC(C=c, gamma=gamma), images, digits, cv=3, n_jobs=-1).mean()
        found.append({"C": c, "gamma": gamma, "accuracy": accuracy})
    folder = os.environ.get("RESULT_DIR", ".")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "learner-%d.json" % learner), "w") as file:
        json.dump(found, file, indent=1)
    best = max(found, key=lambda candidate: candidate["accuracy"])
    print("learner %d of %d tried %d of %d candidates; best: C=%g gamma=%g, accuracy %.2f %%" %
          (learner, learners, len(found), len(candidates), best["C"], best["gamma"], 100 * best["accuracy"]), flush=True)


if __name__ == "__main__":
    main()
