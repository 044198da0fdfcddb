#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grows trees with LightGBM on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                             one learner, on this machine
    dlrun --framework lightgbm --learners 4 -- python3 train_digits.py  four learners, on this machine
    sbatch --dl-framework=lightgbm --dl-learners=4 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch           four learners, on a cluster

Each learner has a part of the rows. The lines marked with * are all that slurm-dl needs in a training loop: with them the training
survives preemption, time limits, pauses and crashes.
"""
import argparse
import hashlib
import os
import sys

import lightgbm
import numpy as np
from sklearn.datasets import load_digits

try:
    import dlckpt
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../checkpoint/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlckpt


class Trees:
    """A booster in the form of its text, which the checkpoint service can save. A restored one goes on growing."""

    def __init__(self, parameters: dict, rows: lightgbm.Dataset) -> None:
        self.parameters, self.rows, self.text, self.booster = parameters, rows, "", None

    def state_dict(self) -> dict:
        return {"text": self.booster.model_to_string() if self.booster else self.text}

    def load_state_dict(self, state: dict) -> None:
        self.text, self.booster = state["text"], None

    def grow(self) -> None:
        if self.booster:
            self.booster.update()
            return
        before = lightgbm.Booster(model_str=self.text) if self.text else None
        self.booster = lightgbm.train(self.parameters, self.rows, 1, init_model=before, keep_training_booster=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="rounds of boosting (default %(default)s)")
    opts = parser.parse_args()

    rank, size = int(os.environ.get("DL_RANK", 0)), int(os.environ.get("DL_WORLD_SIZE", 1))
    parameters = {"objective": "multiclass", "num_class": 10, "num_leaves": 15, "verbose": -1, "deterministic": True, "seed": 1,
                  "num_threads": int(os.environ.get("OMP_NUM_THREADS", 1))}
    if size > 1:
        parameters.update(tree_learner="data", pre_partition=True, num_machines=size, time_out=2,
                          machines=os.environ["DL_PEERS"], local_listen_port=int(os.environ["DL_PORTS"].split(",")[0]))
    digits = load_digits()
    images, labels = digits.images.reshape(-1, 64), digits.target
    held_out = np.arange(len(labels)) % 5 == 0  # every fifth image is held out
    mine = np.flatnonzero(~held_out)[rank::size]
    trees = Trees(parameters, lightgbm.Dataset(images[mine], labels[mine], free_raw_data=False))
    job = dlckpt.attach(trees=trees)                                                                      # *

    for step in job.steps(opts.steps):                                                                    # *
        trees.grow()
        if rank == 0 and (step + 1) % 10 == 0:
            print("round %d" % (step + 1), flush=True)

    if rank == 0:
        model = lightgbm.Booster(model_str=trees.state_dict()["text"])
        guessed = model.predict(images[held_out]).argmax(axis=1)
        print("held-out accuracy: %.2f %% with %d learners" % (100 * (guessed == labels[held_out]).mean(), size))
        print("trees sha256: %s" % hashlib.sha256(model.model_to_string().encode()).hexdigest(), flush=True)


if __name__ == "__main__":
    main()
