# SPDX-License-Identifier: Apache-2.0
"""GlobalBatches: which samples each learner trains on, counted for the whole job, so that a resume at any number of learners
neither repeats nor skips a sample."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from . import arguments
from .batch import Batch, local_batch, part_size
from .errors import InvalidError, MismatchError
from .world import find_world, split_evenly

_STATE_KEYS = ("n_samples", "seed", "shuffle", "cursor")


class GlobalBatches:
    """The samples of all train steps, as one endless sequence that all learners share: the samples of data epoch 0 in its order,
    then those of data epoch 1, and so on. ``cursor`` counts the samples of that sequence that all learners together have trained
    on. Each train step takes the next ``global_batch`` samples; learner r of W gets a part of consecutive ones, and the sizes of
    the parts differ by at most one. So the samples of a train step depend on n_samples, global_batch, seed and shuffle, but not
    on the number of learners. A batch may reach over the end of a data epoch: no sample is dropped.

    global_batch is a fixed number, or find_batch(64): the size that dlrun chose among those of --dl-batch, or 64 without
    --dl-batch. That size may change at each resume. The cursor counts samples, so each sample of each data epoch is still trained
    on once. A batch of find_batch() is drawn in ``accumulation`` parts, one for each pass of a train step.

    With ``epochs`` the sequence ends exactly after this number of data epochs, whatever the sizes of batches: the last train steps
    are smaller, or larger by fewer samples than there are learners, so that each learner still has one; job.steps() without a
    number ends there, too. (If it is resumed with more learners than samples are left, some draw an empty list.)

    If global_batch is not divisible by the world size, the first learners get one sample more. An average over learners of
    average losses (which DistributedDataParallel computes) then weighs samples unequally. Multiply the loss by ``loss_weight`` to
    get the exact average over the global batch at any world size (and divide it by ``accumulation``, if there are several
    passes). A global batch with fewer samples than learners is refused.

    The order of data epoch e is that of numpy.random.RandomState([seed, e]).permutation(n_samples), which NumPy keeps the
    same in all versions. Each learner keeps it in memory (8 bytes per sample).

    Two ways to use it, not both at once:

        batches = dlckpt.GlobalBatches(len(x), 64, seed=1)       # 1. indices, drawn as they are trained
        job = dlckpt.attach(model=model, data=batches)
        for step in job.steps(total):
            index = next(batches)                                # job.accumulation times if there are several passes

        loader = DataLoader(dataset, batch_sampler=batches)      # 2. a DataLoader, whose workers draw ahead
        for step, batch in zip(job.steps(total), loader):

    In the second way job.steps() moves the cursor by ``batches_per_step`` global batches per train step (more than 1 for
    gradient accumulation), and samples that were drawn ahead but not trained on are drawn again after a resume.
    """

    def __init__(self, n_samples: int, global_batch: Union[int, Batch], seed: int = 0, shuffle: bool = True, *, rank: Optional[int] = None,
                 world_size: Optional[int] = None, batches_per_step: int = 1, epochs: Optional[int] = None) -> None:
        world = find_world(rank, world_size)
        self._batch = global_batch if isinstance(global_batch, Batch) else None
        if isinstance(global_batch, Batch):
            if batches_per_step != 1:
                raise InvalidError("GlobalBatches: batches_per_step=%s beside find_batch(), which knows the passes of a train step; leave "
                                   "it out" % batches_per_step)
            passes, global_batch = global_batch.accumulation, global_batch.batch
        else:
            passes = arguments.whole("batches_per_step", batches_per_step, 1, 2**53)
        n_samples, global_batch, batches_per_step = (
            arguments.whole(name, value, 1, 2**53) for name, value in
            (("n_samples", n_samples), ("global_batch", global_batch), ("batches_per_step", batches_per_step)))
        epochs = None if epochs is None else arguments.whole("epochs", epochs, 1, 2**53)
        seed, shuffle = arguments.whole("seed", seed, 0, 2**32 - 1), arguments.flag("shuffle", shuffle)
        if global_batch < world.size:
            raise InvalidError("GlobalBatches: a global batch of %d samples cannot be divided over %d learners; allowed: one sample for "
                               "each, or more" %
                               (global_batch, world.size))
        self.n_samples, self.global_batch, self.seed, self.shuffle = int(n_samples), int(global_batch), int(seed), bool(shuffle)
        self.batches_per_step = int(batches_per_step)
        self.total_samples = None if epochs is None else int(epochs) * self.n_samples
        if self.total_samples is not None and self.total_samples < world.size:
            raise InvalidError("GlobalBatches: %d samples in all cannot be divided over %d learners; allowed: one sample for each, or "
                               "more" % (self.total_samples, world.size))
        self.cursor = 0
        self._passes = passes
        # for trainers of other packages, which count passes: samples that are too few for a train step are added to the last
        # one
        self._equal_passes = False
        self._step = (0, 0, 0)  # size and passes of the train step that next() is in, and the number of passes already drawn
        # of the last next(): samples of this learner, size and passes of the step
        self._drawn: Optional[Tuple[int, int, int]] = None
        self._world = world
        self._restores = 0
        self._drawn_ahead = False
        self._order: Tuple[int, Any] = (-1, None)

    @property
    def data_epoch(self) -> int:
        """The number of complete passes over all samples so far."""
        return self.cursor // self.n_samples

    @property
    def local_batch(self) -> int:
        """This learner's number of samples in a global batch."""
        return local_batch(self.global_batch, self._passes if self._batch else 1, self._world.rank, self._world.size)

    @property
    def step_samples(self) -> int:
        """The samples of a train step, of all learners together: global_batch, times batches_per_step."""
        return self.global_batch * self.batches_per_step

    @property
    def accumulation(self) -> int:
        """The number of parts in which the present train step is drawn, one for each pass."""
        return self._step[1] if self._step[2] else self._step_at(self.cursor)[1]

    @property
    def lr_scale(self) -> float:
        """The factor for the learning rate from find_batch(); 1 if the batch was given as a number."""
        return self._batch.lr_scale if self._batch else 1.0

    @property
    def done(self) -> bool:
        """Whether all ``epochs`` are finished."""
        return self.total_samples is not None and self.cursor >= self.total_samples

    @property
    def loss_weight(self) -> float:
        """Samples of this learner * world size / samples of all learners, in the pass that next() drew last: 1.0 if the global
        batch divides evenly. With a loader whose parts have different sizes use weight_of(len(part))."""
        if self._drawn is not None:
            samples, size, passes = self._drawn
            return samples * self._world.size * passes / size
        size, passes = self._step_at(self.cursor)
        return self.weight_of(part_size(part_size(size, 0, passes), self._world.rank, self._world.size))

    def weight_of(self, samples: int) -> float:
        """The loss_weight of a part of the present train step in which this learner has this number of samples."""
        size, passes = self._step[:2] if self._step[2] else self._step_at(self.cursor)
        return samples * self._world.size * passes / size if size else 1.0

    def __next__(self) -> List[int]:
        """This learner's sample indices of the next part: the next global batch, or its next pass if there are several. They
        count as trained from now on. StopIteration after all ``epochs``."""
        if self.done:
            raise StopIteration
        size, passes, drawn = self._step
        if not drawn:
            size, passes = self._step_at(self.cursor)
        samples = part_size(size, drawn, passes)
        indices = self._part(self.cursor, samples)
        self.cursor += samples
        self._step = (size, passes, (drawn + 1) % passes)
        self._drawn = (len(indices), size, passes)
        return indices

    def _step_at(self, position: int) -> Tuple[int, int]:
        """Samples and passes of the train step that begins at this position."""
        whole, learners = self.step_samples, self._world.size
        least = learners * (self._passes if self._equal_passes else 1)
        if self.total_samples is None or self.total_samples - position >= whole + least:
            return whole, self._passes
        left = max(0, self.total_samples - position)
        size = left
        if left > whole and left >= 2 * learners and not self._equal_passes:
            size = min(whole, left - learners)  # so that each learner has a sample in the last step, too
        return size, max(1, min(self._passes, size // learners))

    def __iter__(self) -> Iterator[List[int]]:
        """Draws ahead of training without moving the cursor (for a DataLoader's batch_sampler); job.steps() moves it."""
        self._drawn_ahead = True
        return self._draw_ahead(self.cursor, self._restores)

    def _draw_ahead(self, position: int, restores: int) -> Iterator[List[int]]:
        while self.total_samples is None or position < self.total_samples:
            size, passes = self._step_at(position)
            for number in range(passes):
                if restores != self._restores:
                    raise InvalidError("GlobalBatches was restored after this iteration over it began; begin to iterate (iter(loader)) "
                                       "after dlckpt.attach()")
                samples = part_size(size, number, passes)
                yield self._part(position, samples)
                position += samples

    def step_done(self) -> None:
        """Called by job.steps() when a train step is done."""
        if self._drawn_ahead:
            self.cursor += self._step_at(self.cursor)[0]

    def _part(self, position: int, samples: int) -> List[int]:
        start, stop = split_evenly(samples, self._world.rank, self._world.size)
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
        """The cursor, and the numbers that give it its meaning."""
        return {key: getattr(self, key) for key in _STATE_KEYS}

    def check_state_dict(self, state: Dict[str, Any]) -> List[str]:
        """Sentences on what does not fit: with another data set, seed or shuffling the cursor would mean other samples. Another
        global batch is allowed."""
        return ["the checkpoint was made with GlobalBatches(%s=%s), the program has %s" % (key, state.get(key), getattr(self, key))
                for key in _STATE_KEYS[:-1] if state.get(key) != getattr(self, key)]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Sets the cursor. MismatchError if check_state_dict() finds a difference."""
        problems = self.check_state_dict(state)
        if problems:
            raise MismatchError("; ".join(problems))
        self.cursor = int(state["cursor"])
        self._restores += 1
        self._step, self._drawn = (0, 0, 0), None
