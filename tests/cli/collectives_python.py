# SPDX-License-Identifier: Apache-2.0
"""A rank of tests/cli/collectives.bats: the Python module dllearner. Prints "rank R of N: ok"."""
import sys

import numpy as np

import dllearner


def collectives(world):
    rank, size = world.rank, world.size
    mine = np.arange(6, dtype=np.float32).reshape(2, 3) + rank
    ranks = sum(range(size))
    everyone = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(world.all_reduce(mine), everyone * size + ranks)
    assert np.array_equal(world.all_reduce_start(mine, "max").wait(), everyone + size - 1)
    assert np.array_equal(world.all_gather(mine), np.stack([everyone + r for r in range(size)]))
    assert np.array_equal(world.reduce_scatter(np.full((size, 4), rank, np.int64)), np.full(4, ranks))
    assert np.array_equal(world.broadcast(np.full(3, rank, np.float16), size - 1), np.full(3, size - 1))
    world.barrier()
    for wrong in (lambda: world.all_reduce(mine.T), lambda: world.all_reduce(mine, "median"),
                  lambda: world.all_reduce(mine.astype(np.complex64)), lambda: world.all_reduce(mine, out=np.empty(2))):
        try:
            wrong()
        except ValueError:
            continue
        raise AssertionError("a wrong argument was not refused")
    try:
        world.all_reduce(np.ones(2, np.int32), "mean")
    except dllearner.DllearnerError as error:
        assert error.code == 1 and "MEAN of integers" in str(error), error
    else:
        raise AssertionError("a mean of integers was not refused")
    buckets = world.buckets("float32", [5, 7])
    gradients = [np.full(5, rank, np.float32), np.full(7, 2 * rank, np.float32)]
    for i in (1, 0):
        buckets.ready(i, gradients[i])
    buckets.finish()
    buckets.close()
    assert np.array_equal(gradients[0], np.full(5, ranks / size)) and np.array_equal(gradients[1], np.full(7, 2 * ranks / size))


def descend(world, mode):
    """Finds the least squares of a distance by gradients: each learner's target differs, the optimum is their mean."""
    if world.is_server:
        world.serve()
        return
    weights = np.zeros(10, np.float32)
    server = world.parameter_server(weights, mode, staleness=1, learning_rate=0.2)
    for _ in range(80):
        server.pull(weights)
        server.push(weights - np.float32(world.rank))
    server.pull(weights)
    world.barrier()
    server.pull(weights)
    server.close()
    best = (world.size - 1) / 2
    # Whose gradients come last has its target nearer: exact only where all are applied together.
    assert np.allclose(weights, best, atol=1e-4 if mode == "sync" else 0.5), (mode, weights)


with dllearner.open() as opened:
    if opened.servers:
        descend(opened, sys.argv[1])
    else:
        collectives(opened)
    print("rank %d of %d: ok" % (opened.rank, opened.size), flush=True)
