# SPDX-License-Identifier: Apache-2.0
"""The example of PyTorch with a pool, whose servers read from the file `wanted` how many there should be."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "frameworks", "pytorch", "example"))
import train_digits_pool  # noqa: E402


def wanted(_, load):
    try:
        with open("wanted") as file:
            return int(file.read())
    except (OSError, ValueError):
        return load.members


train_digits_pool.Weights.wanted = wanted
train_digits_pool.main()
