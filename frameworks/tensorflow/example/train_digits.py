#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with TensorFlow on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                               one learner, on this machine
    dlrun --framework tensorflow --learners 4 -- python3 train_digits.py  four learners, on this machine
    sbatch --dl-framework=tensorflow --dl-learners=4 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch             four learners, on a cluster

Each learner is a worker of MultiWorkerMirroredStrategy, which finds the others in TF_CONFIG. The lines marked with * are all
that slurm-dl needs in a training loop: with them the training survives preemption, time limits, pauses and crashes.
"""
import argparse
import hashlib
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

try:
    import dlckpt
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../checkpoint/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlckpt


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="train steps (default %(default)s)")
    parser.add_argument("--global-batch", type=int, default=60, help="samples per train step, of all learners together; --dl-batch wins")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    opts = options()
    # TensorFlow would take every GPU that it sees on the node, so this learner restricts it to its own.
    gpus, own = tf.config.list_physical_devices("GPU"), os.environ.get("DL_LOCAL_GPUS", "0")
    tf.config.set_visible_devices([gpus[int(own.split(",")[0])]] if gpus else [], "GPU")
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.get_strategy()
    rank = int(os.environ.get("DL_RANK", 0))

    digits = load_digits()
    images, labels = (digits.images.reshape(-1, 64) / 16).astype("float32"), digits.target.astype("int32")
    held_out = np.arange(len(labels)) % 5 == 0
    test_images, test_labels = images[held_out], labels[held_out]
    images, labels = images[~held_out], labels[~held_out]

    draw = np.random.RandomState(opts.seed)
    with strategy.scope():
        weights = [tf.Variable(draw.normal(0, 1 / 8, (64, 96)).astype("float32")), tf.Variable(tf.zeros(96)),
                   tf.Variable(draw.normal(0, 1 / 10, (96, 10)).astype("float32")), tf.Variable(tf.zeros(10))]
        momentum = [tf.Variable(tf.zeros_like(w)) for w in weights]

    def logits(x):
        return tf.nn.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3]

    def gradients_of(x, y):
        with tf.GradientTape() as tape:
            # Divided by the global batch, so that the sum over all learners is the average over all samples.
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits(x))) / batch.batch
        return tf.distribute.get_replica_context().all_reduce("SUM", [loss] + tape.gradient(loss, weights))

    @tf.function(input_signature=[tf.TensorSpec((None, 64), tf.float32), tf.TensorSpec((None,), tf.int32)])
    def loss_and_gradients(x, y):
        return [strategy.experimental_local_results(v)[0] for v in strategy.run(gradients_of, args=(x, y))]

    @tf.function
    def update(gradients, rate):
        for variable, velocity, gradient in zip(weights, momentum, gradients):
            velocity.assign(0.9 * velocity + gradient)
            variable.assign_sub(rate * velocity)

    batch = dlckpt.find_batch(opts.global_batch)                                                          # *
    batches = dlckpt.GlobalBatches(len(labels), batch, seed=opts.seed)                                    # *
    job = dlckpt.attach(weights=weights, momentum=momentum, data=batches)                                 # *
    for step in job.steps(opts.steps):                                                                    # *
        total = None
        for _ in range(job.accumulation):
            index = next(batches)                                                                         # *
            part = loss_and_gradients(images[index], labels[index])
            total = part if total is None else [a + b for a, b in zip(total, part)]
        loss = total[0]
        update(total[1:], tf.constant(0.1 * job.lr_scale))
        if rank == 0 and (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, float(loss)), flush=True)

    if rank == 0:
        guessed = tf.argmax(logits(test_images), axis=1).numpy()
        digest = hashlib.sha256(b"".join(variable.numpy().tobytes() for variable in weights))
        print("held-out accuracy: %.2f %% with %d workers" % (100 * (guessed == test_labels).mean(), strategy.num_replicas_in_sync))
        print("weights sha256: %s" % digest.hexdigest(), flush=True)


if __name__ == "__main__":
    main()
