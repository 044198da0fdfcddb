# SPDX-License-Identifier: Apache-2.0
"""A learner for the tests that holds parts of arrays: rows of one, columns of another, a box of a third."""
import sys

import dlckpt
import numpy as np

dir, mode = sys.argv[1:]
rank, size = dlckpt.find_world()
rows = np.arange(7 * 3, dtype=np.float32).reshape(7, 3)
columns = np.arange(2 * 10, dtype=np.int64).reshape(2, 10)
start, stop = dlckpt.split_evenly(7, rank, size)
left, right = dlckpt.split_evenly(10, rank, size)
my_rows, my_columns = rows[start:stop].copy(), columns[:, left:right].copy()
few = np.full((1 if rank == 0 else 0, 2), 4.5)  # all of it on one learner, nothing on the others
if mode == "hole":
    my_rows = my_rows[:-1]
if mode == "read":
    my_rows[:], my_columns[:], few[:] = -1, -1, -1
job = dlckpt.attach(rows=dlckpt.Shard(my_rows, (7, 3), (start, 0)), columns=dlckpt.Shard(my_columns, (2, 10), (0, left)),
                    few=dlckpt.Shard.dim0(few, 1, 0 if rank == 0 else 1), dir=dir)
if mode == "hole":
    try:
        job.save()
    except dlckpt.InvalidError as error:
        print("InvalidError", error)
    job.close()
elif mode == "write":
    for _ in job.steps(1):
        pass
else:
    assert job.restored and job.train_step == 1
    np.testing.assert_array_equal(my_rows, rows[start:stop])
    np.testing.assert_array_equal(my_columns, columns[:, left:right])
    np.testing.assert_array_equal(few, np.full(few.shape, 4.5))
    job.close()
