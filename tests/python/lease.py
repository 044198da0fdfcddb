# SPDX-License-Identifier: Apache-2.0
"""The lease on a checkpoint directory (dlckpt_lease.h), as dlrun takes it for its learners."""
import ctypes

import support  # noqa: F401  finds the package

from dlckpt import library
from dlckpt.errors import InvalidError, error_for


class Lease:
    """At most one job at a time may write into a checkpoint directory. BusyError names the holder."""

    def __init__(self, dir, owner, job_id):
        self._handle = ctypes.c_void_p()
        self._lib = library.load()
        self._lib.dlckpt_lease_token.restype = ctypes.c_char_p
        code = self._lib.dlckpt_lease_acquire(dir.encode(), owner.encode(), job_id.encode(), ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    @property
    def token(self):
        """The value that dlrun gives the learners in DL_CHECKPOINT_LEASE."""
        if not self._handle:
            raise InvalidError("this lease was released; take the lease again")
        return (self._lib.dlckpt_lease_token(self._handle) or b"").decode()

    def renew(self):
        """Renews the lease. BusyError: another job has taken it over, so stop writing."""
        if not self._handle:
            raise InvalidError("this lease was released; take the lease again")
        code = self._lib.dlckpt_lease_renew(self._handle)
        if code != library.OK:
            raise error_for(code, "the lease on the checkpoint directory was lost")

    def release(self):
        """Releases the directory. May be called again."""
        if self._handle:
            self._lib.dlckpt_lease_release(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.release()
