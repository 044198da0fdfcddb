# SPDX-License-Identifier: Apache-2.0
"""Support for JAX: pytrees of arrays. The arrays are immutable, so a restored tree is a new one (Job.__getitem__)."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

import jax
import jax.numpy
import numpy as np

from . import arrays, codec
from .entries import Entry, compare_arrays
from .errors import StateError
from .parts import Parts


def is_tree(value: Any) -> bool:
    """Whether it is a tree with a jax.Array among its leaves."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(value))


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


class TreeEntry(Entry):
    """A pytree. The program gives its structure; the checkpoint holds its leaves by their names. With jax.distributed each
    process saves the parts that it holds; without it every learner has the whole."""

    takes_tensors = True

    def same_everywhere(self, path: str) -> bool:
        return True

    def _leaves(self) -> Dict[str, Any]:
        found = {}
        for path, leaf in jax.tree_util.tree_flatten_with_path(self.value)[0]:
            found["/".join(codec.escape(_part(key)) for key in path)] = leaf
        return found

    def capture(self) -> Any:
        return _nested({name: _to_store(leaf, "%s/%s" % (self.name, name)) for name, leaf in self._leaves().items()})

    def targets(self) -> Any:
        return _nested({name: _to_fill(leaf) for name, leaf in self._leaves().items()})

    def check(self, saved: Any) -> List[str]:
        plain = codec.mapping(saved)
        if plain is None:
            return ["%s: the checkpoint does not hold a tree of arrays under this name" % self.name]
        return compare_arrays(self.name, _flat_saved(plain), _flat(self.capture()))

    def apply(self, state: Any) -> None:
        values = _flat(state)
        leaves = [_given_back(leaf, values[name]) for name, leaf in self._leaves().items()]
        self.value = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(self.value), leaves)


def _nested(leaves: Dict[str, Any]) -> Dict[str, Any]:
    """Puts leaves, given by path, into nested dicts, so that they have the same path in the checkpoint as in the tree."""
    out: Dict[str, Any] = {}
    for name, value in leaves.items():
        *groups, last = name.split("/")
        place = out
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return out


def _flat(tree: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    found = {}
    for key, value in tree.items():
        found.update(_flat(value, prefix + key + "/") if isinstance(value, dict) else {prefix + key: value})
    return found


def _flat_saved(tree: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """The leaves of a checkpoint's tree by path; there the leaves themselves are dicts."""
    found = {}
    for key, value in tree.items():
        inner = codec.mapping(value)
        found.update({prefix + key: value} if inner is None else _flat_saved(inner, prefix + key + "/"))
    return found


def _part(key: Any) -> Any:
    """The plain name in a key of a tree's path: DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey."""
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return getattr(key, name)
    return str(key)


def _boxes(leaf: Any) -> List[Tuple[Tuple[int, ...], Tuple[int, ...], Any]]:
    """(offset, extent, data) of each different part that this process holds."""
    found: Dict[Any, Any] = {}
    for shard in leaf.addressable_shards:
        offset = tuple(int(piece.start or 0) for piece in shard.index)
        found.setdefault(offset, (offset, tuple(int(n) for n in shard.data.shape), shard.data))
    return list(found.values())


def _is_divided(leaf: Any) -> bool:
    return not leaf.is_fully_addressable or jax.process_count() > 1 and not leaf.is_fully_replicated


def _to_store(leaf: Any, where: str) -> Any:
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    if isinstance(leaf, jax.Array):
        if not _is_divided(leaf):
            return np.asarray(leaf)
        boxes = tuple((offset, np.asarray(data)) for offset, _, data in _boxes(leaf))
        return Parts("numpy", leaf.dtype.name, tuple(leaf.shape), boxes, True)
    if isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        return leaf
    raise StateError("%s: a leaf of type %s cannot be stored; allowed: arrays and numbers" % (where, type(leaf).__name__))


def _to_fill(leaf: Any) -> Any:
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    if not isinstance(leaf, jax.Array):
        return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
    if not _is_divided(leaf):
        return np.empty(leaf.shape, leaf.dtype)
    boxes = tuple((offset, np.empty(extent, leaf.dtype)) for offset, extent, _ in _boxes(leaf))
    return Parts("numpy", leaf.dtype.name, tuple(leaf.shape), boxes, True)


def _given_back(leaf: Any, value: Any) -> Any:
    """A new leaf with the restored value, on the devices of the old one."""
    if _is_key(leaf):
        data = jax.device_put(value, jax.random.key_data(leaf).sharding)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    if not isinstance(leaf, jax.Array):
        return value
    if isinstance(value, Parts):
        by_offset = {offset: data for offset, data in value.boxes}
        pieces = [jax.device_put(by_offset[tuple(int(piece.start or 0) for piece in shard.index)], shard.device)
                  for shard in leaf.addressable_shards]
        return jax.make_array_from_single_device_arrays(leaf.shape, leaf.sharding, pieces)
    return jax.device_put(value, leaf.sharding)
