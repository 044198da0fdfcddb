# SPDX-License-Identifier: Apache-2.0
"""An array in the form that libdlckpt needs."""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Tuple


class Memory(NamedTuple):
    """Memory of the host, or of a device that libdlckpt can access, in C order without gaps unless there are ``strides`` (in
    bytes). ``owner`` keeps it alive. After libdlckpt has written to it, ``finish()`` copies the values to their place, if they
    are not there yet."""

    pointer: int
    owner: object
    finish: Optional[Callable[[], None]]
    strides: Optional[Tuple[int, ...]] = None
    on_device: bool = False
