# SPDX-License-Identifier: Apache-2.0
"""What is raised."""
from __future__ import annotations


class DllearnerError(RuntimeError):
    """A call of libdllearner failed. The text is its sentence; ``code`` is of enum dllearner_result, 0 if the library
    was not found."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
