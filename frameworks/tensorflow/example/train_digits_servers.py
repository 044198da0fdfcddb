#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with TensorFlow's ParameterServerStrategy on the UCI handwritten digits that come with scikit-learn.

    dlrun --framework tensorflow --learners 3 --servers 1 -- python3 train_digits_servers.py     on this machine
    sbatch --dl-framework=tensorflow --dl-learners=3 --dl-servers=1 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m --wrap 'dlrun -- python3 train_digits_servers.py'      on a cluster

Learner 0 is the chief: it runs the training loop, and divides each train step's batch among the workers. The other learners
are the workers, which compute gradients; the servers hold the variables. dlrun ends workers and servers when the chief has ended.
The lines marked with * are all that slurm-dl needs in the training loop.
"""
import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")

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
    parser.add_argument("--global-batch", type=int, default=60, help="samples per train step, of all workers together")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Runs a worker or a parameter server: it does what the chief asks, until dlrun ends it."""
    gpus, own = tf.config.list_physical_devices("GPU"), os.environ.get("DL_LOCAL_GPUS", "0")
    tf.config.set_visible_devices([gpus[int(own.split(",")[0])]] if gpus else [], "GPU")
    server = tf.distribute.Server(cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc")
    print("%s %d serves" % (cluster.task_type, cluster.task_id), flush=True)
    server.join()


def train(opts: argparse.Namespace, cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    tf.config.set_visible_devices([], "GPU")  # the chief computes nothing
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    workers = len(cluster.cluster_spec().as_dict()["worker"])

    digits = load_digits()
    images, labels = (digits.images.reshape(-1, 64) / 16).astype("float32"), digits.target.astype("int32")
    held_out = np.arange(len(labels)) % 5 == 0
    test_images, test_labels = images[held_out], labels[held_out]
    images, labels = images[~held_out], labels[~held_out]

    draw = np.random.RandomState(opts.seed)
    with strategy.scope():  # on the servers, in turn
        weights = [tf.Variable(draw.normal(0, 1 / 8, (64, 96)).astype("float32")), tf.Variable(tf.zeros(96)),
                   tf.Variable(draw.normal(0, 1 / 10, (96, 10)).astype("float32")), tf.Variable(tf.zeros(10))]

    @tf.function(input_signature=[tf.TensorSpec((None, 64), tf.float32), tf.TensorSpec((None,), tf.int32)])
    def update(x, y):  # on a worker
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3]
            # Divided by the global batch, so that the sum over all workers is the average over all samples.
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)) / opts.global_batch
        for variable, gradient in zip(weights, tape.gradient(loss, weights)):
            variable.assign_sub(0.5 * gradient)
        return loss

    batches = dlckpt.GlobalBatches(len(labels), opts.global_batch, seed=opts.seed, rank=0, world_size=1)  # *
    job = dlckpt.attach(weights=weights, data=batches, rank=0, world_size=1)                              # *
    for step in job.steps(opts.steps):                                                                    # *
        index = next(batches)                                                                             # *
        parts = [coordinator.schedule(update, args=(images[part], labels[part]))
                 for part in np.array_split(np.asarray(index), workers)]
        coordinator.join()  # no gradient must be in flight when a checkpoint is taken
        if (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, sum(float(part.fetch()) for part in parts)), flush=True)

    hidden = np.maximum(test_images @ weights[0].numpy() + weights[1].numpy(), 0)
    guessed = np.argmax(hidden @ weights[2].numpy() + weights[3].numpy(), axis=1)
    print("held-out accuracy: %.2f %% with %d workers" % (100 * (guessed == test_labels).mean(), workers), flush=True)


def main() -> None:
    opts = options()
    if "TF_CONFIG" not in os.environ:
        sys.exit("train_digits_servers.py: there is no TF_CONFIG; start it by dlrun --framework tensorflow --learners 3 --servers 1")
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("worker", "ps"):
        serve(cluster)
    else:
        train(opts, cluster)


if __name__ == "__main__":
    main()
