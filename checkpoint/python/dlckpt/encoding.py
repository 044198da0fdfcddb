# SPDX-License-Identifier: Apache-2.0
"""Turns the state of all attached objects into what a save stores: two JSON records (see store.py), and the arrays beside them."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import arrays, codec
from .entries import Entry
from .errors import StateError
from .parts import Parts
from .shard import Shard
from .world import World

SCHEMA = 1


class Encoded(NamedTuple):
    """``arrays``: {path: (array, whether its writing may be divided over the learners, its arrays.plain_address())}."""

    shared: Dict[str, Any]
    own: Dict[str, Any]
    arrays: Dict[str, Tuple[Any, bool, int]]


def encode(step: int, world: World, shared_entries: List[Entry], own_entries: List[Entry], state: Dict[str, Any],
           progress: Dict[str, Any]) -> Encoded:
    """STATE and RANK of a checkpoint of train step ``step``, and its arrays. ``state`` is job.state, ``progress`` Store.progress.
    StateError for state that cannot be stored. Nothing is changed."""
    found: Dict[str, Tuple[Any, bool, int]] = {}
    first_at: Dict[int, str] = {}  # address: path of the first array there
    places: Dict[Any, str] = {}  # place_of(): path, only of addresses that several arrays have

    def tied(first: str, path: str, value: Any) -> str:
        """The array of ``path`` has the address of the array of ``first``. Returns the path of the earlier array that is the same one
        in memory, or ``path`` if all earlier arrays at this address differ in shape, strides or dtype."""
        places.setdefault(arrays.place_of(found[first][0]), first)
        return places.setdefault(arrays.place_of(value), path)

    def sink_for(entry: Optional[Entry]) -> codec.Sink:
        in_place = entry is not None and entry.in_place
        per_rank = entry is not None and entry.per_rank

        def sink(path: str, value: Any) -> Union[bool, str]:
            if path in found:
                raise StateError("%s: two values of the state have this path; rename one of them, in the dict or in attach()" %
                                 path)
            plain = arrays.plain_address(value)
            if not plain:
                value = arrays.divided(value)
                unfit = arrays.why_not_filled(value) if in_place else ""
                if unfit:
                    raise StateError("%s: it could be saved, but not restored in place: %s" % (path, unfit))
            if per_rank:
                return False  # it goes into the learner's own record
            divided = (not plain and isinstance(value, (Shard, Parts))) or (entry is not None and entry.same_everywhere(path))
            if not divided and len(value.shape) == 0:
                return False  # learner 0's copy goes into STATE, because one learner alone cannot register a scalar
            address = plain or arrays.address_of(value)
            if address is not None:
                first = first_at.setdefault(address, path)
                stored = path if first == path else tied(first, path, value)  # tied weights are stored once
                if stored != path:
                    return stored
            found[path] = (value, divided, plain)
            return True
        return sink

    shared = {
        "schema": SCHEMA,
        "train_step": step,
        "world_size": world.size,
        "objects": {e.name: codec.encode(e.capture(), codec.escape(e.name), sink_for(e)) for e in shared_entries},
        "state": codec.encode(state, "state", sink_for(None)),
        "progress": dict(progress),
    }
    own = {
        "schema": SCHEMA,
        "rank": world.rank,
        "objects": {e.name: codec.encode(e.capture(), codec.escape(e.name), sink_for(e)) for e in own_entries},
    }
    return Encoded(shared, own, found)
