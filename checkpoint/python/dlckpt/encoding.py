# SPDX-License-Identifier: Apache-2.0
"""Turns the state of all attached objects into what a save stores: two JSON records (see attached.py), and the arrays beside them."""
from __future__ import annotations

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Union

from . import arrays, codec
from .entries import Entry
from .errors import StateError
from .parts import Parts
from .shard import Shard
from .unmoved import Found, Unmoved, to_text, with_objects
from .world import World

SCHEMA = 1


class Encoded(NamedTuple):
    """``arrays``: {path: (array, whether its writing may be divided over the learners, its arrays.plain_address())}. ``texts``: the JSON of
    objects that are as they were before; ``shared`` does not have these."""

    shared: Dict[str, Any]
    own: Dict[str, Any]
    arrays: Found
    texts: Dict[str, str]

    def shared_json(self) -> bytes:
        return with_objects(self.shared, self.texts).encode()

    def own_json(self) -> bytes:
        return to_text(self.own).encode()


def encode(step: int, world: World, shared_entries: List[Entry], own_entries: List[Entry], state: Dict[str, Any],
           progress: Dict[str, Any], unmoved: Dict[str, Unmoved], anew: bool = False) -> Encoded:
    """STATE and RANK of a checkpoint of train step ``step``, and its arrays. ``state`` is job.state, ``progress`` Attached.progress.
    ``unmoved`` has the objects of earlier calls by name; it is used, unless all is to be made ``anew``, and updated.
    StateError for state that cannot be stored. Nothing else is changed."""
    found: Found = {}
    first_at: Dict[int, str] = {}  # address: path of the first array there
    later: List[Found] = []  # arrays whose addresses are still to be put there
    places: Dict[Any, str] = {}  # place_of(): path, only of addresses that several arrays have

    def tied(first: str, path: str, value: Any) -> str:
        """The array of ``path`` has the address of the array of ``first``. Returns the path of the earlier array that is the same one
        in memory, or ``path`` if all earlier arrays at this address differ in shape, strides or dtype."""
        places.setdefault(arrays.place_of(found[first][0]), first)
        return places.setdefault(arrays.place_of(value), path)

    def catch_up() -> None:
        while later:
            for path, (_, _, address) in later.pop().items():
                first_at[address] = path

    def meets(some: Found) -> bool:
        """Whether one of these arrays has a path, or begins at the address, of one that was found before. Then they may be tied."""
        if not found:
            return False
        catch_up()
        return not found.keys().isdisjoint(some) or not first_at.keys().isdisjoint(address for _, _, address in some.values())

    def sink_for(entry: Optional[Entry]) -> codec.Sink:
        in_place = entry is not None and entry.in_place
        per_rank = entry is not None and entry.per_rank
        everywhere = entry is not None and entry.all_same_everywhere and not per_rank

        def sink(path: str, value: Any) -> Union[bool, str]:
            if later:
                catch_up()
            plain = arrays.plain_address(value)
            if plain and everywhere and path not in found and first_at.setdefault(plain, path) == path:  # nearly all of a million arrays
                found[path] = (value, True, plain)
                return True
            if path in found:
                raise StateError("%s: two values of the state have this path; rename one of them, in the dict or in attach()" %
                                 path)
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

    texts: Dict[str, str] = {}

    def objects(entries: List[Entry]) -> Dict[str, Any]:
        records = {}
        for e in entries:
            tree = e.capture()
            known = unmoved.get(e.name) if e.all_same_everywhere and not e.per_rank else None
            if known is not None and not anew and known.holds(tree) and not meets(known.found):
                found.update(known.found)
                later.append(known.found)
                texts[e.name] = known.text
                continue
            before = len(found)
            records[e.name] = record = codec.encode(tree, codec.escape(e.name), sink_for(e))
            made = None
            if e.all_same_everywhere and not e.per_rank:
                made = Unmoved.of(tree, record, dict(itertools.islice(found.items(), before, None)))
            if made is not None:
                unmoved[e.name] = made
            else:
                unmoved.pop(e.name, None)
        return records

    shared = {
        "schema": SCHEMA,
        "train_step": step,
        "world_size": world.size,
        "objects": objects(shared_entries),
        "state": codec.encode(state, "state", sink_for(None)),
        "progress": dict(progress),
    }
    own = {
        "schema": SCHEMA,
        "rank": world.rank,
        "objects": objects(own_entries),
    }
    return Encoded(shared, own, found, texts)
