# SPDX-License-Identifier: Apache-2.0
"""dlckpt: checkpoints for deep-learning jobs, durable, checked, and restored at any number of learners.

Two lines in a training loop::

    job = dlckpt.attach(model=model, opt=opt, sched=sched, data=batches)   # restores, if there is something to restore
    for step in job.steps(total):                                         # saves, and stops when the job is asked to
        ...

One for reading, whoever owns the directory::

    model.load_state_dict(dlckpt.open("/shared/run/ckpt").state("model"))

Works under dlrun, torchrun, srun and plain python3; with PyTorch from 1.13 on, with NumPy alone, or with neither. Pure
Python (3.9 or newer) over the C library libdlckpt, which is loaded when the first checkpoint directory is opened. See
dlckpt-python(3); the C functions one by one are in dlckpt.context, the file format in dlckpt-format(5).
"""
import importlib
from typing import Any

from .batch import Batch, find_batch
from .context import Context, SaveStats
from .errors import (BusyError, CorruptError, DeniedError, Error, InternalError, InvalidError, IoError, LibraryError,
                     InFlightError, MismatchError, NoMemoryError, NoSpaceError, NotFoundError, StateError, WaitTimeoutError)
from .job import EXIT_NOT_SAVED, EXIT_SAVED, Job, attach
from .library import version
from .log import set_log
from .noise import NoiseScale
from .objects import PerRank
from .reader import TensorInfo
from .reading import Checkpoint, Loaded, open
from .samplers import GlobalBatches
from .shard import Shard
from .voting import vote
from .world import World, find_world, split_evenly

_ADAPTERS = ("dcp", "huggingface", "lightning")


def __getattr__(name: str) -> Any:
    """Imports dlckpt.dcp, dlckpt.huggingface, dlckpt.lightning and GradientNoise when they are first used, because they need
    their frameworks."""
    if name in _ADAPTERS:
        return importlib.import_module("." + name, __name__)
    if name == "GradientNoise":
        return importlib.import_module(".noise_torch", __name__).GradientNoise
    raise AttributeError("module 'dlckpt' has no attribute '%s'" % name)


__all__ = [
    "attach", "Job", "open", "Checkpoint", "Loaded", "TensorInfo", "Batch", "find_batch", "GlobalBatches", "NoiseScale", "Shard", "PerRank", "Context", "SaveStats", "World", "find_world", "split_evenly",
    "set_log", "version", "vote", "EXIT_SAVED", "EXIT_NOT_SAVED",
    "Error", "BusyError", "CorruptError", "DeniedError", "InFlightError", "InternalError", "InvalidError", "IoError", "LibraryError",
    "MismatchError", "NoMemoryError", "NoSpaceError", "NotFoundError", "StateError", "WaitTimeoutError",
]
