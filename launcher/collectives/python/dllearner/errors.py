# SPDX-License-Identifier: Apache-2.0
"""The exception of the package."""
from __future__ import annotations


class DllearnerError(RuntimeError):
    """A call of libdllearner failed. The text is the library's message. ``code`` is of enum dllearner_result, or 0 if
    the library was not found."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
