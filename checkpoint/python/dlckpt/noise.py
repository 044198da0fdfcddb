# SPDX-License-Identifier: Apache-2.0
"""NoiseScale: the gradient noise scale, estimated from gradients of small batches and their average over a large one.

Let G be the true gradient, and S the trace of the covariance of one sample's gradient. The gradient over b samples has
E |g|^2 = |G|^2 + S / b. So from the mean squared norm s of gradients over small batches, whose mean 1/b is q, and the squared norm l
of their average over all B samples (McCandlish, Kaplan, Amodei: An Empirical Model of Large-Batch Training, 2018, appendix A.1):

    S = (s - l) / (q - 1/B)        |G|^2 = (l - s / (q B)) / (1 - 1 / (q B))        noise = S / |G|^2, in samples

Both are smoothed over train steps before they are divided, since the estimates of one step are far too noisy, and may be negative.
"""
from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .errors import InvalidError, MismatchError

MOST = 1e9  # samples; no batch is larger, so a larger value would change nothing


class NoiseScale:
    """Attach it beside the model: attach(model=..., noise=noise). With rule=adascale job.lr_scale then follows it; it is saved and
    restored. It is the same on all learners, which must add() the same numbers.

    smoothing    weight of the past in each estimate, from 0 to below 1
    steps        train steps that were added
    value        samples, from 0 to 1e9; None before 10 steps, or as long as the estimates give no noise
    """

    FEWEST = 10

    def __init__(self, smoothing: float = 0.95) -> None:
        if not 0 <= smoothing < 1:
            raise InvalidError("NoiseScale(smoothing=%s): the value is out of range; allowed: from 0 to below 1" % smoothing)
        self.smoothing = float(smoothing)
        self.steps = 0
        self._variance = self._signal = 0.0  # smoothed S and |G|^2

    def add(self, small: Iterable[Tuple[float, float]], large: Tuple[float, float]) -> bool:
        """Adds one train step: (squared norm, samples) of the gradient of each learner, or of each pass, and of their average
        over all samples. Returns False, and counts nothing, if an estimate is impossible: fewer than two small gradients, or a
        number that is not finite or negative."""
        pairs = list(small) + [large]
        if len(pairs) < 3 or not all(math.isfinite(norm) and norm >= 0 and math.isfinite(count) and count > 0 for norm, count in pairs):
            return False
        pairs.pop()
        inverse = sum(1 / count for _, count in pairs) / len(pairs)
        mean = sum(norm for norm, _ in pairs) / len(pairs)
        total = large[1]
        gap = inverse - 1 / total
        if gap <= 0 or not math.isfinite(mean):
            return False
        variance = (mean - large[0]) / gap
        signal = (large[0] * inverse - mean / total) / gap
        if not (math.isfinite(variance) and math.isfinite(signal)):
            return False
        self._variance = self.smoothing * self._variance + (1 - self.smoothing) * variance
        self._signal = self.smoothing * self._signal + (1 - self.smoothing) * signal
        self.steps += 1
        return True

    @property
    def value(self) -> Optional[float]:
        if self.steps < self.FEWEST or (self._variance <= 0 and self._signal <= 0):
            return None
        if self._signal <= 0 or self._variance >= MOST * self._signal:
            return MOST
        return max(0.0, self._variance / self._signal)

    def state_dict(self) -> Dict[str, Any]:
        return {"steps": self.steps, "variance": self._variance, "signal": self._signal}

    def check_state_dict(self, state: Dict[str, Any]) -> List[str]:
        steps, numbers = state.get("steps"), [state.get("variance"), state.get("signal")]
        if isinstance(steps, int) and steps >= 0 and all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
            return []
        return ["the checkpoint does not hold a NoiseScale under this name"]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        problems = self.check_state_dict(state)
        if problems:
            raise MismatchError(problems[0])
        self.steps, self._variance, self._signal = state["steps"], float(state["variance"]), float(state["signal"])


__all__ = ["NoiseScale"]
