# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package."""
from typing import Optional


class SubmitError(ValueError):
    """The job was not submitted; nothing runs. The text says what to change."""


class JobFailed(RuntimeError):
    """The job ended without a result.

    job_id      Slurm's id
    reason      why it ended, in the words of slurm-dl or Slurm
    traceback   of the learner whose exception ended the job, or None
    ``__cause__`` is the exception itself, if it could be pickled.
    """

    def __init__(self, job_id: str, reason: str, traceback: Optional[str] = None):
        text = self._words(job_id, reason)
        super().__init__(text + "\n" + traceback.rstrip() if traceback else text)
        self.job_id, self.reason, self.traceback = job_id, reason, traceback

    @staticmethod
    def _words(job_id: str, reason: str) -> str:
        return f"job {job_id} failed: {reason}"

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.job_id, self.reason, self.traceback)


class JobCancelled(JobFailed):
    """Somebody ended the job: scancel, or Job.cancel()."""

    @staticmethod
    def _words(job_id: str, reason: str) -> str:
        return f"job {job_id} was {reason}" if reason.startswith("cancelled") else f"job {job_id} was cancelled: {reason}"


class ResultError(RuntimeError):
    """The job completed, but its return value cannot be pickled, or cannot be read here."""
