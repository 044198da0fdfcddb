# SPDX-License-Identifier: Apache-2.0
"""What `dlctl export` passes on: the runs of a job, as launcher/ctl/export_runs.h describes them."""
import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import IO, Any, Dict, Iterator, List, Tuple

ATTEMPT = "attempt"  # the series that tells which attempt began where


class ExportError(RuntimeError):
    """A sentence for the user: why nothing, or not all, was exported."""


@dataclass(frozen=True)
class Point:
    step: int  # a train step, or the seconds since the first value of the job (Series.axis)
    time_ms: int
    value: float  # may be NaN or infinite
    attempt: int


@dataclass(frozen=True)
class Series:
    tag: str
    axis: str  # "step" or "seconds"
    points: List[Point]


@dataclass(frozen=True)
class Run:
    job: str
    directory: str  # of the job
    state: str  # of the job: COMPLETED, FAILED, ...
    attempt: int  # 0: the true curve over all attempts
    last: bool  # whether the job has no later attempt
    series: List[Series]

    @property
    def name(self) -> str:
        return self.job + (f" attempt {self.attempt}" if self.attempt else "")

    @property
    def key(self) -> str:
        """The same for each export of this run, and another for any other: 16 letters and digits."""
        return hashlib.sha256(f"{os.path.realpath(self.directory)}\0{self.attempt}".encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def times_ms(self) -> Tuple[int, int]:
        """When the first and the last point were measured."""
        times = [point.time_ms for series in self.series for point in series.points]
        return min(times, default=0), max(times, default=0)

    @property
    def count(self) -> int:
        return sum(len(series.points) for series in self.series if series.tag != ATTEMPT)


def read(file: IO[bytes]) -> List[Run]:
    data: Dict[str, Any] = json.load(file)
    runs = [run for run in data["runs"] if run["series"]]
    newest = max((run["attempt"] for run in runs), default=0)
    return [Run(data["job"], data["directory"], data["state"], run["attempt"], run["attempt"] == newest,
                [Series(one["tag"], one["axis"], [
                    Point(step, time_ms, float(value), attempt)
                    for step, time_ms, value, attempt in zip(one["step"], one["time_ms"], one["value"], one["attempt"])])
                 for one in run["series"]])
            for run in runs]


def in_time(run: Run) -> Iterator[Tuple[Series, Point]]:
    """All points in the order in which they were measured; of those read at once, by their steps."""
    points = [(point.time_ms, point.attempt, point.step, order, number)
              for order, series in enumerate(run.series) for number, point in enumerate(series.points)]
    for _, _, _, order, number in sorted(points):
        yield run.series[order], run.series[order].points[number]


def check_folder(folder: str) -> None:
    """Makes the folder if it is not there. Raises ExportError if nothing can be written in it."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{folder} cannot be made: {error.strerror}; name another folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExportError(f"{folder} cannot be written to; name another folder")


class Progress:
    """What part is done, on a terminal, where it takes more than two seconds."""

    def __init__(self, whole: int):
        self._whole, self._done, self._from = max(whole, 1), 0, time.monotonic() + 2
        self._shown = -1

    def add(self, count: int) -> None:
        self._done += count
        percent = 100 * self._done // self._whole
        if percent != self._shown and time.monotonic() > self._from and sys.stderr.isatty():
            self._shown = percent
            print(f"\r{percent:3} % exported", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown >= 0:
            print("\r              \r", end="", file=sys.stderr, flush=True)
