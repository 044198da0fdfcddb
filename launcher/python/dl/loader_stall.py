# SPDX-License-Identifier: Apache-2.0
"""LoaderStall: which part of its time a training waits for its loader, and a vote where that is much."""
import time
from typing import Callable, Generic, Iterable, Iterator, Optional, TypeVar

from .voting import checked, vote

Item = TypeVar("Item")


class LoaderStall(Generic[Item]):
    """Measures which part of its time a training waits for its loader: ``for batch in dl.LoaderStall(loader): ...``

    loader     any iterable; may be iterated over again and again, as a loader is in each data epoch
    threshold  None: votes are not cast. Else the part from which the training votes for more learners, at most once a minute, and
               below half of which it votes for no change, if it had voted for more
    change     the vote
    smoothing  weight of the past for each batch, from 0 to below 1

    stall      the part, from 0 to 1, of the newest batches (smoothed); 0 before there were two
    waited     seconds that were waited for batches, all together

    What counts is the wall time from asking for a batch until it is there, against that from one batch to the next. Work on a
    GPU that the loop does not wait for hides in that of a later call; measured over a loop that does, the part is right.
    """

    EACH_S = 60.0

    def __init__(self, loader: Iterable[Item], threshold: Optional[float] = None, change: int = 1, smoothing: float = 0.95,
                 clock: Callable[[], float] = time.monotonic) -> None:
        if not 0 <= smoothing < 1:
            raise ValueError(f"dl.LoaderStall: smoothing: {smoothing} is out of range; allowed: from 0 to below 1")
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"dl.LoaderStall: threshold: {threshold} is out of range; allowed: above 0 to 1, or None")
        checked(change, "")
        self._loader, self._threshold, self._change, self._smoothing, self._clock = loader, threshold, change, smoothing, clock
        self.waited = 0.0
        self._wait = self._whole = 0.0  # smoothed seconds of a batch
        self._voted: Optional[float] = None  # when
        self._wants_more = False

    @property
    def stall(self) -> float:
        return self._wait / self._whole if self._whole > 0 else 0.0

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Item]:
        items = iter(self._loader)
        last: Optional[float] = None  # when the last batch was there
        while True:
            asked = self._clock()
            try:
                item = next(items)
            except StopIteration:
                return
            there = self._clock()
            self.waited += there - asked
            if last is not None:  # before the first batch workers start, once in an epoch
                self._add(there - asked, there - last)
                self._vote(there)
            last = there
            yield item

    def _add(self, wait: float, whole: float) -> None:
        self._wait = self._smoothing * self._wait + (1 - self._smoothing) * wait
        self._whole = self._smoothing * self._whole + (1 - self._smoothing) * whole

    def _vote(self, now: float) -> None:
        if self._threshold is None or (self._voted is not None and now - self._voted < self.EACH_S):
            return
        if self.stall >= self._threshold:
            self._wants_more = True
        elif self.stall < self._threshold / 2 and self._wants_more:
            self._wants_more = False
        elif not self._wants_more:
            return
        self._voted = now
        vote(self._change if self._wants_more else 0, f"loader stalls {100 * self.stall:.0f} %")
