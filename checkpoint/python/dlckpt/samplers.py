# SPDX-License-Identifier: Apache-2.0
"""GlobalBatches: which samples each learner trains on, counted for the whole job, so that a resume at any number of learners
neither repeats nor skips a sample."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from .errors import InvalidError, MismatchError
from .world import find_world, split_evenly

_STATE_KEYS = ("n_samples", "seed", "shuffle", "cursor")


class GlobalBatches:
    """The samples of train step after train step, as one endless sequence that all learners share: the samples of data epoch
    0 in its order, then those of data epoch 1, and so on. ``cursor`` counts the samples of that sequence that were trained,
    by all learners together. Each train step takes the next ``global_batch`` of them, and learner r of W its part:
    consecutive ones, sizes differing by at most one. So what is trained on in which train step depends on n_samples,
    global_batch, seed and shuffle, and not on the number of learners. A batch may reach over the end of a data epoch:
    nothing is dropped.

    If global_batch is not divisible by the world size, the first learners get one sample more. An average over learners of
    average losses (what DistributedDataParallel computes) then weighs samples unequally; multiply the loss with
    ``loss_weight`` to get the exact average over the global batch at any world size. With fewer samples in a global batch
    than learners it is refused.

    The order of data epoch e is that of numpy.random.RandomState([seed, e]).permutation(n_samples), which NumPy keeps the
    same in all versions. Each learner keeps it in memory (8 bytes per sample).

    Two ways to use it, not both at once:

        batches = dlckpt.GlobalBatches(len(x), 64, seed=1)       # 1. indices, drawn as they are trained
        job = dlckpt.attach(model=model, data=batches)
        for step in job.steps(total):
            index = next(batches)

        loader = DataLoader(dataset, batch_sampler=batches)      # 2. a DataLoader, whose workers draw ahead
        for step, batch in zip(job.steps(total), loader):

    In the second the cursor is moved by job.steps(), ``batches_per_step`` global batches per train step (more than 1 for
    gradient accumulation), and what was drawn ahead but not trained is drawn again after a resume.
    """

    def __init__(self, n_samples: int, global_batch: int, seed: int = 0, shuffle: bool = True, *, rank: Optional[int] = None,
                 world_size: Optional[int] = None, batches_per_step: int = 1) -> None:
        world = find_world(rank, world_size)
        for name, value in (("n_samples", n_samples), ("global_batch", global_batch), ("batches_per_step", batches_per_step)):
            if int(value) < 1:
                raise InvalidError("GlobalBatches: %s is %s; it must be at least 1" % (name, value))
        if not 0 <= int(seed) < 2**32:
            raise InvalidError("GlobalBatches: seed is %s; allowed: 0 to 4294967295" % seed)
        if global_batch < world.size:
            raise InvalidError("GlobalBatches: a global batch of %d samples cannot be divided over %d learners" %
                               (global_batch, world.size))
        self.n_samples, self.global_batch, self.seed, self.shuffle = int(n_samples), int(global_batch), int(seed), bool(shuffle)
        self.batches_per_step = int(batches_per_step)
        self.cursor = 0
        self._world = world
        self._restores = 0
        self._drawn_ahead = False
        self._order: Tuple[int, Any] = (-1, None)

    @property
    def data_epoch(self) -> int:
        """How many times all samples were trained on, whole ones."""
        return self.cursor // self.n_samples

    @property
    def local_batch(self) -> int:
        """This learner's number of samples in a global batch."""
        start, stop = split_evenly(self.global_batch, self._world.rank, self._world.size)
        return stop - start

    @property
    def loss_weight(self) -> float:
        """local_batch * world size / global_batch: 1.0 where the global batch divides evenly."""
        return self.local_batch * self._world.size / self.global_batch

    def __next__(self) -> List[int]:
        """This learner's sample indices of the next global batch, which counts as trained from now on."""
        indices = self._part(self.cursor)
        self.cursor += self.global_batch
        return indices

    def __iter__(self) -> Iterator[List[int]]:
        """Draws ahead of training without moving the cursor (for a DataLoader's batch_sampler); job.steps() moves it."""
        self._drawn_ahead = True
        return self._draw_ahead(self.cursor, self._restores)

    def _draw_ahead(self, position: int, restores: int) -> Iterator[List[int]]:
        while True:
            if restores != self._restores:
                raise InvalidError("GlobalBatches was restored after this iteration over it began; begin to iterate (iter(loader)) "
                                   "after dlckpt.attach()")
            yield self._part(position)
            position += self.global_batch

    def step_done(self) -> None:
        """Called by job.steps() when a train step is done."""
        if self._drawn_ahead:
            self.cursor += self.global_batch * self.batches_per_step

    def _part(self, position: int) -> List[int]:
        start, stop = split_evenly(self.global_batch, self._world.rank, self._world.size)
        position, remaining, indices = position + start, stop - start, []
        while remaining:
            data_epoch, place = divmod(position, self.n_samples)
            count = min(remaining, self.n_samples - place)
            indices += self._samples(data_epoch, place, place + count)
            position, remaining = position + count, remaining - count
        return indices

    def _samples(self, data_epoch: int, start: int, stop: int) -> List[int]:
        if not self.shuffle:
            return list(range(start, stop))
        if self._order[0] != data_epoch:
            import numpy as np
            self._order = (data_epoch, np.random.RandomState([self.seed, data_epoch]).permutation(self.n_samples))
        return list(self._order[1][start:stop].tolist())

    def state_dict(self) -> Dict[str, Any]:
        """The cursor, and what it counts."""
        return {key: getattr(self, key) for key in _STATE_KEYS}

    def check_state_dict(self, state: Dict[str, Any]) -> List[str]:
        """What does not fit, as sentences: with another data set, seed or shuffling the cursor would mean other samples.
        Another global batch is allowed."""
        return ["the checkpoint was made with GlobalBatches(%s=%s), the program has %s" % (key, state.get(key), getattr(self, key))
                for key in _STATE_KEYS[:-1] if state.get(key) != getattr(self, key)]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """MismatchError if check_state_dict() finds anything."""
        problems = self.check_state_dict(state)
        if problems:
            raise MismatchError("; ".join(problems))
        self.cursor = int(state["cursor"])
        self._restores += 1
