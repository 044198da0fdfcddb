# SPDX-License-Identifier: Apache-2.0
"""Element types: their names (NumPy's, as stored in a checkpoint), numbers (``dlckpt_dtype``) and sizes in bytes."""
from __future__ import annotations

from typing import Dict, Tuple

# name: (number in the ABI, bytes of one element)
DTYPES: Dict[str, Tuple[int, int]] = {
    "float64": (1, 8),
    "float32": (2, 4),
    "float16": (3, 2),
    "bfloat16": (4, 2),
    "float8_e4m3fn": (5, 1),
    "float8_e5m2": (6, 1),
    "int64": (7, 8),
    "int32": (8, 4),
    "int16": (9, 2),
    "int8": (10, 1),
    "uint64": (11, 8),
    "uint32": (12, 4),
    "uint16": (13, 2),
    "uint8": (14, 1),
    "bool": (15, 1),
    "complex64": (16, 8),
    "complex128": (17, 16),
}


def known(name: str) -> bool:
    """Whether a checkpoint can hold elements of this type."""
    return name in DTYPES


def number(name: str) -> int:
    """The value in enum dlckpt_dtype. KeyError for an unknown name."""
    return DTYPES[name][0]


def size(name: str) -> int:
    """Bytes of one element. KeyError for an unknown name."""
    return DTYPES[name][1]
