# SPDX-License-Identifier: Apache-2.0
"""The state that dlckpt.attach() saved, under the names of torch.distributed.checkpoint: {"model": model.state_dict(), "opt":
...}, flattened."""
from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from . import codec, dcp_records, torch_adapter
from .errors import CorruptError, MismatchError


def contents(text: bytes, where: str) -> dcp_records.Contents:
    """The contents of a record that attach() wrote (attached.STATE_BLOB), without the learners' own records. CorruptError;
    MismatchError if a newer version wrote it."""
    references: Dict[int, Dict[str, Any]] = {}
    kept: List[torch.Tensor] = []  # keeps objects alive, so that no id() is used twice

    def source(reference: Dict[str, Any]) -> torch.Tensor:
        stand_in = torch.empty(reference["shape"], dtype=torch_adapter.dtype_of(reference["dtype"]), device="meta")
        kept.append(stand_in)
        references[id(stand_in)] = reference
        return stand_in

    try:
        record = json.loads(text)
        if record["schema"] != 1:
            raise MismatchError("%s has schema %s of dlckpt.attach(); this version reads 1" % (where, record["schema"]))
        tree = {name: codec.decode(saved, source) for name, saved in record["objects"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError("%s: what attach() wrote of its objects cannot be understood: %r" % (where, error)) from error
    flat, keys = flatten_state_dict(tree)
    found = dcp_records.Contents({}, {}, {}, {name: tuple(path) for name, path in keys.items()}, {}, {})
    for fqn, value in flat.items():
        reference = references.get(id(value))
        if reference is not None:
            size: Tuple[int, ...] = tuple(reference["shape"])
            found.tensors[fqn] = dcp_records.TensorEntry(reference["path"], reference["dtype"], size, True)
            found.parts[fqn] = [((0,) * len(size), size)]
        elif isinstance(value, torch.Tensor):
            found.inline[fqn] = value
        else:
            found.given[fqn] = value
    return found
