# SPDX-License-Identifier: Apache-2.0
"""GradientNoise: a NoiseScale that watches a DistributedDataParallel of PyTorch."""
from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed

from .errors import InvalidError
from .noise import NoiseScale
from .samplers import GlobalBatches


class GradientNoise(NoiseScale):
    """Measures the noise of each ``every``-th train step while DistributedDataParallel averages gradients: it takes their norms on
    each learner before, and the norm of the average after, and adds three more numbers up over the learners. If there are several
    passes, call all but the last under model.no_sync(), as usual. Attach the object; job.steps() informs it of each train step.

        model = DistributedDataParallel(network)
        noise = dlckpt.GradientNoise(model, batches)
        job = dlckpt.attach(model=model, opt=optimizer, data=batches, noise=noise)

    Multiply the loss by batches.loss_weight, as for any GlobalBatches. It uses the model's communication hook; a model has only one.
    """

    def __init__(self, model: Any, batches: GlobalBatches, *, every: int = 1, smoothing: float = 0.95) -> None:
        super().__init__(smoothing)
        if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise InvalidError("GradientNoise: the model is a %s; allowed: a DistributedDataParallel, since others do not show a learner's own "
                               "gradients" % type(model).__name__)
        if int(every) < 1:
            raise InvalidError("GradientNoise(every=%s): the value is out of range; allowed: 1 or more train steps" % every)
        self._batches, self._every, self._seen = batches, int(every), 0
        self._own: Optional[Any] = None  # squared norm of this learner's gradient
        self._mean: Optional[Any] = None
        self._group = model.process_group
        # PyTorch requires annotations with its own types, or none.
        model.register_comm_hook(None, lambda _state, bucket: self._hook(bucket))

    def _hook(self, bucket: Any) -> Any:
        learners = self._batches._world.size
        buffer = bucket.buffer()
        measured = self._seen % self._every == 0
        if measured:
            own = buffer.detach().float().pow(2).sum()
            self._own = own if self._own is None else self._own + own
        buffer.div_(learners)
        done = torch.distributed.all_reduce(buffer, group=self._group, async_op=True).get_future()

        def averaged(future: Any) -> Any:
            mean = future.value()[0] if isinstance(future.value(), (list, tuple)) else future.value()
            if measured:
                norm = mean.detach().float().pow(2).sum()
                self._mean = norm if self._mean is None else self._mean + norm
            return mean

        return done.then(averaged)

    def step_done(self) -> None:
        """Called by job.steps() when a train step is done. Collective if the step was measured."""
        self._seen += 1
        own, mean, self._own, self._mean = self._own, self._mean, None, None
        if own is None or mean is None:
            return
        world, batches = self._batches._world, self._batches
        samples = float(batches.local_batch * (1 if batches._batch else batches.batches_per_step))
        # The loss was multiplied by loss_weight, and so this learner's gradient was, too.
        weight = samples * world.size / batches.step_samples
        numbers = torch.stack([own.double() / weight ** 2, torch.full_like(own, 1 / samples, dtype=torch.float64)])
        torch.distributed.all_reduce(numbers, group=self._group)
        norms, inverses = (float(number) / world.size for number in numbers)
        # add() only needs the means, so it gets learners of equal size that have these means.
        self.add([(norms, 1 / inverses)] * world.size, (float(mean), float(batches.step_samples)))


__all__ = ["GradientNoise"]
