# SPDX-License-Identifier: Apache-2.0
"""The progress of a job, counted in samples, and its batch: the part of Job that an elastic training uses."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import arguments
from .batch import asked_batch, local_batch
from .entries import Entry
from .noise import NoiseScale
from .samplers import GlobalBatches
from .turns import Turns
from .voting import vote
from .world import World


class Progress:
    """The batch that --dl-batch gives this number of learners (DL_GLOBAL_BATCH and so on), or that of an attached GlobalBatches.
    It stays the same until the learners are started again from a checkpoint.
    batch         samples of a train step, of all learners together; 0: not known
    local_batch   this learner's samples of a train step
    accumulation  passes of a train step
    lr_scale      factor for the learning rate; 1 for a program with a batch of its own
    samples       samples that all learners together have trained on since the training began; saved and restored
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._turns = Turns()
        self.train_step = 0
        self._entries: List[Entry] = []
        self._asked = asked_batch()
        self._samples = 0  # used if no GlobalBatches counts them
        self._noise: Optional[float] = None

    def step_done(self) -> None:
        """Counts a train step. Calls step_done() of objects that have it, such as GlobalBatches."""
        self.train_step += 1
        self._samples += self.batch
        for item in self._entries:
            told = getattr(item.value, "step_done", None)
            if callable(told):
                told()
            if isinstance(item.value, NoiseScale) and item.value.value is not None:
                self._noise = item.value.value

    @property
    def _batches(self) -> Optional[GlobalBatches]:
        return next((item.value for item in self._entries if isinstance(item.value, GlobalBatches)), None)

    @property
    def batch(self) -> int:
        if self._batches is not None:
            return self._batches.step_samples
        return self._asked.batch if self._asked else 0

    @property
    def local_batch(self) -> int:
        if self._batches is not None:
            return self._batches.local_batch * self._batches.batches_per_step
        return local_batch(self._asked.batch, self._asked.accumulation, self.world.rank, self.world.size) if self._asked else 0

    @property
    def accumulation(self) -> int:
        if self._batches is not None:
            return self._batches.accumulation
        return self._asked.accumulation if self._asked else 1

    @property
    def lr_scale(self) -> float:
        batch = self._batches._batch if self._batches is not None else self._asked
        return batch.lr_scale_for(self._noise) if batch else 1.0

    @property
    def samples(self) -> int:
        return self._batches.cursor if self._batches is not None else self._samples

    def noise_scale(self, samples: float) -> None:
        """Reports the gradient noise scale, in samples: the trace of the covariance of one sample's gradient, over the square
        of the norm of the mean gradient. rule=adascale computes lr_scale from it. All learners must report the same; it is
        saved and restored. InvalidError if it is negative or not finite."""
        number = arguments.real("samples", samples, "0 or more samples")
        if not 0 <= number < float("inf"):
            raise arguments.refused("samples", samples, "0 or more samples")
        self._noise = number

    def vote(self, change: int, reason: str = "") -> None:
        """Says how many learners the job needs: dlckpt.vote(). Each learner votes by itself; no directory is needed."""
        vote(change, reason)

    def _progress(self) -> Dict[str, Any]:
        """The progress that is recorded with each checkpoint; empty if the batch is not known."""
        if not self.batch:
            return {}
        progress = {"samples": self.samples, "batch": self.batch, "lr_scale": self.lr_scale}
        return progress if self._noise is None else dict(progress, noise_scale=self._noise)

    def _take_progress(self, progress: Dict[str, Any]) -> str:
        """Continues from a recorded progress. Returns a remark for the user if the batch is another one."""
        samples, noise, batch = (progress.get(name) for name in ("samples", "noise_scale", "batch"))
        if isinstance(samples, int) and samples >= 0:
            self._samples = samples
        if isinstance(noise, (int, float)) and 0 <= noise < float("inf"):
            self._noise = float(noise)
        # A program without a GlobalBatches may or may not follow the batch.
        if self._batches is None or not batch or batch == self.batch:
            return ""
        return ", with batches of %s samples, now %d" % (batch, self.batch)
