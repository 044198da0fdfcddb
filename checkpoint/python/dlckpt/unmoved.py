# SPDX-License-Identifier: Apache-2.0
"""Recognises a tree of plain NumPy arrays that is as it was when it was encoded. A state may hold a million arrays that are saved again and
again, and to find out that they are the same ones takes a small part of the time that it takes to encode them."""
from __future__ import annotations

import json
import operator
from typing import Any, Dict, List, Optional, Tuple

from . import arrays

# The arrays of an encoded tree by path: the array, whether its writing may be divided over the learners, its address.
Found = Dict[str, Tuple[Any, bool, int]]


class Unmoved:
    """What was made of a tree: ``text``, its JSON (about 100 bytes for each array), and ``found``. It is kept from one save to the next. It
    holds no copy of the arrays' elements, only references to the arrays, as the registration of their memory does."""

    def __init__(self, tree: Any, found: Found) -> None:
        self.text = ""
        self.found = found
        self._root = tree
        self._containers: List[Tuple[Any, List[Any], List[Any]]] = []  # with keys (of a dict) and values
        self._arrays = [value for value, _, _ in found.values()]
        self._addresses = [address for _, _, address in found.values()]
        few: Dict[Any, Any] = {}  # a million arrays have few shapes
        self._shapes = [few.setdefault(array.shape, array.shape) for array in self._arrays]
        self._dtypes = [array.dtype for array in self._arrays]

    @classmethod
    def of(cls, tree: Any, record: Any, found: Found) -> "Optional[Unmoved]":
        """None if the tree holds anything but plain NumPy arrays, each of which was found under its own path."""
        if not found or not all(map(operator.itemgetter(2), found.values())):
            return None
        made = cls(tree, found)
        ends: List[Any] = []
        made._walk(tree, ends)
        if len(ends) != len(found) or not all(map(operator.is_, ends, made._arrays)):
            return None
        made.text = to_text(record)
        return made

    def holds(self, tree: Any) -> bool:
        """Whether the tree is made of the same arrays in the same places, and these have the same memory, dtypes and shapes."""
        if tree is not self._root or not all(map(_same, self._containers)):
            return False
        address_of, buffer_of = arrays.address_of_buffer, arrays.buffer_of
        try:
            if [address_of(buffer_of(array)) for array in self._arrays] != self._addresses:
                return False
        except (TypeError, ValueError, BufferError):  # read-only, or no longer in C order
            return False
        return [array.shape for array in self._arrays] == self._shapes and [array.dtype for array in self._arrays] == self._dtypes

    def _walk(self, node: Any, ends: List[Any]) -> None:
        """Notes the containers below, and puts into ``ends`` what else there is: arrays, and containers of other types, in which
        something may change that holds() does not look at."""
        if type(node) is dict:
            keys, values = list(node), list(node.values())
        elif type(node) in (list, tuple):
            keys, values = [], list(node)
        else:
            ends.append(node)
            return
        self._containers.append((node, keys, values))
        for value in values:
            if type(value) in _CONTAINERS:
                self._walk(value, ends)
            else:
                ends.append(value)


_CONTAINERS = frozenset([dict, list, tuple])


def _same(container: Tuple[Any, List[Any], List[Any]]) -> bool:
    node, keys, values = container
    if len(node) != len(values):
        return False
    if type(node) is dict:
        return list(node) == keys and all(map(operator.is_, node.values(), values))
    return all(map(operator.is_, node, values))


def to_text(record: Any) -> str:
    """The JSON of what codec.encode() returned. It made the trees, so none contains itself, and json need not check for it."""
    return json.dumps(record, ensure_ascii=False, check_circular=False)


def with_objects(record: Dict[str, Any], texts: Dict[str, str]) -> str:
    """The JSON of a record whose "objects" lack those that are given as text."""
    objects = ["%s: %s" % (to_text(name), text) for name, text in texts.items()]
    objects += ["%s: %s" % (to_text(name), to_text(value)) for name, value in record["objects"].items()]
    rest = {key: value for key, value in record.items() if key != "objects"}
    return to_text(rest)[:-1] + ', "objects": {%s}}' % ", ".join(objects)
