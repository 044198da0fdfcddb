# SPDX-License-Identifier: Apache-2.0
"""The lease on a checkpoint directory (dlckpt_lease.h), for the tests. It is not part of the interface: dlrun takes the lease for
its learners, and dlckpt.Context does where there is no dlrun."""
from __future__ import annotations

import ctypes
from typing import Optional

from . import library
from .errors import InvalidError, error_for


class Lease:
    """The lease on a checkpoint directory: at most one job at a time may write there. BusyError names the
    holder. Call :meth:`renew` at least every library.LEASE_EXPIRY_S / 4 seconds."""

    def __init__(self, dir: str, owner: str, job_id: Optional[str] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._lib = library.load()
        job = None if job_id is None else job_id.encode()
        code = self._lib.dlckpt_lease_acquire(dir.encode(), owner.encode(), job, ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    @property
    def token(self) -> str:
        """The value that dlrun gives the learners in DL_CHECKPOINT_LEASE."""
        if not self._handle:
            raise InvalidError("this lease was released; take the lease again")
        return (self._lib.dlckpt_lease_token(self._handle) or b"").decode()

    def renew(self) -> None:
        """Renews the lease. BusyError: another job has taken it over, so stop writing."""
        if not self._handle:
            raise InvalidError("this lease was released; take the lease again")
        code = self._lib.dlckpt_lease_renew(self._handle)
        if code != library.OK:
            raise error_for(code, "the lease on the checkpoint directory was lost")

    def release(self) -> None:
        """Releases the directory. May be called again."""
        if self._handle:
            self._lib.dlckpt_lease_release(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()
