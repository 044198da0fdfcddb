#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with JAX on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                        one learner, on this machine
    dlrun --framework jax --learners 4 -- python3 train_digits.py  four learners, on this machine
    sbatch --dl-framework=jax --dl-learners=4 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch      four learners, on a cluster

All devices of all learners form one mesh; the samples are divided over it, the parameters are on every device, and XLA adds
the gradients up. The lines marked with * are all that slurm-dl needs in a training loop: with them the training survives
preemption, time limits, pauses and crashes.
"""
import argparse
import hashlib
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
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


def new_parameters(key):
    first, second = jax.random.split(key)
    return {"w1": jax.random.normal(first, (64, 96)) / 8, "b1": jnp.zeros(96),
            "w2": jax.random.normal(second, (96, 10)) / 10, "b2": jnp.zeros(10)}


def logits(parameters, images):
    hidden = jax.nn.relu(images @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


@jax.jit
def loss_and_gradients(parameters, images, labels, weights):
    def average_loss(p):
        log_p = jax.nn.log_softmax(logits(p, images))
        return -(weights * jnp.take_along_axis(log_p, labels[:, None], axis=1)[:, 0]).sum() / weights.sum()

    return jax.value_and_grad(average_loss)(parameters)


@jax.jit
def update(parameters, momentum, gradients, rate):
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return jax.tree.map(lambda p, m: p - rate * m, parameters, momentum), momentum


def main() -> None:
    opts = options()
    if int(os.environ.get("DL_WORLD_SIZE", 1)) > 1:
        jax.distributed.initialize()  # all that it needs is in the environment
    mesh = Mesh(np.array(jax.devices()), ("samples",))
    divided, everywhere = NamedSharding(mesh, PartitionSpec("samples")), NamedSharding(mesh, PartitionSpec())

    digits = load_digits()
    images, labels = (digits.images.reshape(-1, 64) / 16).astype("float32"), digits.target.astype("int32")
    held_out = np.arange(len(labels)) % 5 == 0
    test_images, test_labels = images[held_out], labels[held_out]
    images, labels = images[~held_out], labels[~held_out]

    parameters = jax.jit(new_parameters, out_shardings=everywhere)(jax.random.key(opts.seed))
    momentum = jax.jit(lambda p: jax.tree.map(jnp.zeros_like, p), out_shardings=everywhere)(parameters)
    batch = dlckpt.find_batch(opts.global_batch)                                                          # *
    batches = dlckpt.GlobalBatches(len(labels), batch, seed=opts.seed)                                    # *
    # Every device gets the same number of rows. If a pass does not divide evenly, rows with weight 0 are added.
    rows = -(-batch.batch // (batch.accumulation * jax.device_count())) * jax.local_device_count()

    def share(values):
        local = np.zeros((rows,) + values.shape[1:], values.dtype)
        local[:len(values)] = values
        return jax.make_array_from_process_local_data(divided, local)

    job = dlckpt.attach(parameters=parameters, momentum=momentum, data=batches)                           # *
    for step in job.steps(opts.steps):                                                                    # *
        loss, gradients, passes = 0.0, None, job.accumulation
        for _ in range(passes):
            index = next(batches)                                                                         # *
            part, its = loss_and_gradients(job["parameters"], share(images[index]), share(labels[index]),
                                           share(np.ones(len(index), "float32")))
            its = its if passes == 1 else jax.tree.map(lambda g: g / passes, its)
            loss += part / passes
            gradients = its if gradients is None else jax.tree.map(jnp.add, gradients, its)
        job["parameters"], job["momentum"] = update(job["parameters"], job["momentum"], gradients, 0.1 * job.lr_scale)
        if jax.process_index() == 0 and (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, float(loss)), flush=True)

    final = jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), job["parameters"])
    if jax.process_index() == 0:
        guessed = np.asarray(jnp.argmax(logits(final, test_images), axis=1))
        digest = hashlib.sha256(b"".join(leaf.tobytes() for leaf in jax.tree.leaves(final)))
        print("held-out accuracy: %.2f %% on %d devices" % (100 * (guessed == test_labels).mean(), jax.device_count()))
        print("weights sha256: %s" % digest.hexdigest(), flush=True)


if __name__ == "__main__":
    main()
