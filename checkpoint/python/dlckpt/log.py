# SPDX-License-Identifier: Apache-2.0
"""Messages of dlckpt to the user."""
from __future__ import annotations

import sys
from typing import Callable, Optional


def _on_standard_error(text: str) -> None:
    print("dlckpt: " + text, file=sys.stderr, flush=True)


_log: Callable[[str], None] = _on_standard_error


def say(text: str) -> None:
    _log(text)


def set_log(log: Optional[Callable[[str], None]]) -> None:
    """Sends dlckpt's messages to a function of yours; None: back to standard error."""
    global _log
    _log = log or _on_standard_error
