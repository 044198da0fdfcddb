# SPDX-License-Identifier: Apache-2.0
"""What an array is to libdlckpt."""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Tuple


class Memory(NamedTuple):
    """Host memory, or a device's that libdlckpt reaches, in C order without gaps unless there are ``strides`` (in bytes). ``owner``
    keeps it alive. After libdlckpt has written to it, ``finish()`` brings the values to where they belong, if they are not
    there yet."""

    pointer: int
    owner: object
    finish: Optional[Callable[[], None]]
    strides: Optional[Tuple[int, ...]] = None
    on_device: bool = False
