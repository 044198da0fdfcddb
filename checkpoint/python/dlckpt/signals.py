# SPDX-License-Identifier: Apache-2.0
"""What a learner does about signals that ask it to stop.

Under dlrun (DL_PROGRESS is set) a stop reaches the learner through its progress page, with a train step on which all
learners agree. But if Slurm tracks processes itself (proctrack/linuxproc, cgroup with KillWait, `scancel --full`), it signals every process
of the job's steps when it preempts the job or ends it at its time limit: the learner would die of a SIGTERM that was meant as
a notice, before it could save. So under dlrun SIGTERM and SIGUSR2 are ignored from the first train step until the process
ends; dlrun's agent, and Slurm after the grace period, end a learner with SIGKILL, which it cannot ignore.

Without dlrun, and with a single learner, SIGTERM and SIGINT ask for a stop at the next train step; a second signal has its
usual effect. Several learners without dlrun cannot agree on a train step, so their signals are left alone.

A handler that the user has installed is never replaced. Only the main thread can install handlers; on others nothing is done.
"""
from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable, Dict, Optional

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class StopSignals:
    """Installs the handlers on construction; ``requested`` is the name of the signal that asked for a stop, or None."""

    def __init__(self, under_dlrun: bool, single: bool, say: Callable[[str], None]) -> None:
        self.requested: Optional[str] = None
        self.under_dlrun = under_dlrun
        self._say = say
        self._previous: Dict[int, Any] = {}
        self._pid = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            return
        if under_dlrun:
            self._install(signal.SIGTERM, signal.SIG_IGN)
            self._install(signal.SIGUSR2, signal.SIG_IGN)
        elif single:
            self._install(signal.SIGTERM, self._on_signal)
            self._install(signal.SIGINT, self._on_signal)
        if self._previous:
            # SIGTERM must end a DataLoader's workers and other forked children, so they get the default back.
            os.register_at_fork(after_in_child=self.restore)

    def _install(self, number: int, handler: Any) -> None:
        current = signal.getsignal(number)
        # dlrun's agent starts the learner with SIGUSR2 ignored, which does not count as a handler of the user's.
        if current in _DEFAULTS or (current is signal.SIG_IGN and handler is signal.SIG_IGN):
            self._previous[number] = current
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        self.requested = signal.Signals(number).name
        self._restore_one(number)  # the second signal has its former effect
        self._say("%s: saving at the end of this train step, then stopping; once more to stop at once" % self.requested)

    def _restore_one(self, number: int) -> None:
        previous = self._previous.pop(number, None)
        if previous is not None:
            signal.signal(number, previous)

    def restore(self) -> None:
        """Restores the former handlers. May be called again."""
        for number in list(self._previous):
            try:
                self._restore_one(number)
            except ValueError:  # this is no longer the main thread
                return
