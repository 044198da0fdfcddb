# SPDX-License-Identifier: Apache-2.0
"""Python state as JSON plus arrays, and back. Nothing is pickled: reading a checkpoint can run no code of its writer.

What can be stored: None, bool, int, float, complex, str, bytes; list, tuple, dict, OrderedDict, Counter, deque, set,
frozenset of such; NumPy arrays and scalars; torch tensors, dtypes and devices; Shards. Types are matched exactly, so a value
comes back with its own type. Any other value is refused with a StateError, which says where it was found.

JSON values stand for themselves, except objects with a key "$", which names a type:
{"$": "tuple", "v": [...]}, {"$": "tensor", "path": ..., "kind": "torch", "dtype": "float32", "shape": [2, 3]} (its elements
are the dataset of that path), {"$": "array", ..., "v": base64} (its elements are in the text), and so on.
"""
from __future__ import annotations

import base64
import math
import re
import sys
from collections import Counter, OrderedDict, deque
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import arrays, dtypes
from .errors import StateError, is_of_device, of_framework
from .parts import ArrayInfo

MAX_DEPTH = 100
MAX_PATH = 512  # bytes, as dlckpt_tensor says
MAX_DIMS = 32
_ESCAPED = re.compile("[/%\x00-\x1f\x7f]")
_NO_NAMES = frozenset(["", ".", ".."])  # what no part of a path may be
_TEXT = frozenset([str])
_MAX_INT_BITS = 8192  # json reads no number of more than 4300 digits

# A function (path, array) that gets each array of a tree. It returns True if it has taken the array, False if the array shall
# go into the JSON, or the path of an earlier array with the same memory. Without such a function all arrays go into the JSON.
Sink = Callable[[str, Any], Union[None, bool, str]]
# Maps a reference {"$": "tensor", ...} to the array that holds its values.
Source = Callable[[Dict[str, Any]], Any]


# References by dtype, shape and so on, to be copied for each array. There may be a million arrays of few kinds.
_templates: Dict[ArrayInfo, Dict[str, Any]] = {}


def escape(part: Any) -> str:
    """A key as one part of a tensor's path: 'a/b' -> 'a%2Fb'. Different keys give different parts."""
    text = part if type(part) is str else "%" + type(part).__name__ + ":" + repr(part) if not isinstance(part, (str, int)) else str(part)
    if _ESCAPED.search(text) is None and text not in _NO_NAMES:
        return text  # nearly all keys
    out = "".join("%%%02X" % ord(c) if c in "/%" or ord(c) < 32 or ord(c) == 127 else c for c in text)
    if out in ("", ".", ".."):
        out = "%" if out == "" else out.replace(".", "%2E")
    return out


def encode(value: Any, path: str, sink: Optional[Sink], depth: int = 0) -> Any:
    """The JSON of a tree. ``path`` is its place ("opt/state"), for tensors' paths and for messages."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if value.bit_length() > _MAX_INT_BITS:
            raise StateError("%s: a number of more than %d bits cannot be stored; keep it as text or bytes" % (path, _MAX_INT_BITS))
        return value
    if kind is str:
        return _text(value, path)
    if kind is float:
        return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
    if depth > MAX_DEPTH:
        raise StateError("%s: nested deeper than the %d levels that are allowed; flatten it, or see whether it contains itself" %
                         (path, MAX_DEPTH))
    if kind is complex:
        return {"$": "complex", "v": [encode(value.real, path, sink), encode(value.imag, path, sink)]}
    if kind is bytes:
        return {"$": "bytes", "v": base64.b64encode(value).decode()}
    if arrays.is_array(value):
        return _encode_array(value, path, sink)
    if kind is dict:
        return _encode_dict(value, path, sink, depth)
    if kind in (OrderedDict, Counter):
        return {"$": "odict" if kind is OrderedDict else "counter", "v": _encode_pairs(value, path, sink, depth)}
    if kind is list:
        return _encode_items(value, path, sink, depth)
    if kind is tuple:
        return {"$": "tuple", "v": _encode_items(value, path, sink, depth)}
    if kind is deque:
        return {"$": "deque", "maxlen": value.maxlen, "v": _encode_items(value, path, sink, depth)}
    if kind in (set, frozenset):
        return {"$": kind.__name__, "v": [_encode_key(item, path, depth) for item in sorted(value, key=repr)]}
    return _encode_foreign(value, path)


def check_name(name: str) -> None:
    """StateError if an object cannot have this name."""
    _text(name, "attach()")
    if name == "$":
        raise StateError("attach(): an object cannot be named '$'; allowed: any other name")


def _text(value: str, path: str) -> str:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise StateError("%s: a text with half a surrogate pair (at character %d) cannot be stored; a file name that is no UTF-8 is "
                         "better kept as bytes (os.fsencode)" % (printable(path), error.start)) from None
    return value


def printable(text: str) -> str:
    """The text in a form that is safe in a message, whatever names the program has given its objects."""
    return text.encode("utf-8", "backslashreplace").decode()


def _encode_items(items: Any, path: str, sink: Optional[Sink], depth: int) -> List[Any]:
    return [encode(item, "%s/%d" % (path, index), sink, depth + 1) for index, item in enumerate(items)]


def _encode_pairs(value: Any, path: str, sink: Optional[Sink], depth: int) -> List[List[Any]]:
    pairs, seen = [], {}
    for key, item in value.items():
        encoded = _encode_key(key, path, depth)
        part = escape(key)
        if part in seen:  # 1 and "1": the second one gets another path
            part = "%" + type(key).__name__ + ":" + part
        seen[part] = True
        pairs.append([encoded, encode(item, path + "/" + part, sink, depth + 1)])
    return pairs


def _encode_key(key: Any, path: str, depth: int) -> Any:
    """Encodes a key of a dict or an item of a set. An array there is looked up by its identity, not by its values: an array
    that is read back is another object."""
    if type(key) is str:
        return _text(key, path)
    if arrays.is_array(key):
        raise StateError("%s: a %s is the key of a dict or an item of a set; it cannot be stored, since the restored one would be "
                         "another object and not be found. Use texts, numbers or tuples of them there, and put arrays among the "
                         "values" % (path, type(key).__name__))
    return encode(key, path, None, depth + 1)


def _encode_dict(value: Dict[Any, Any], path: str, sink: Optional[Sink], depth: int) -> Any:
    if "$" in value or not _TEXT.issuperset(map(type, value)):
        return {"$": "dict", "v": _encode_pairs(value, path, sink, depth)}
    out, below, is_array = {}, path + "/", arrays.is_array
    # There may be a million keys with an array each. So all keys are looked at together, and arrays do not go through encode().
    together = "".join(value)
    plain = together.isascii() and _ESCAPED.search(together) is None and value.keys().isdisjoint(_NO_NAMES)
    for key, item in value.items():
        inner = below + (key if plain else escape(_text(key, path)))
        out[key] = _encode_array(item, inner, sink) if is_array(item) else encode(item, inner, sink, depth + 1)
    return out


def _encode_array(value: Any, path: str, sink: Optional[Sink]) -> Dict[str, Any]:
    info = arrays.describe(value, path)
    if len(info.global_shape) > MAX_DIMS:
        raise StateError("%s: an array of %d dimensions cannot be stored; allowed: up to %d" % (path, len(info.global_shape), MAX_DIMS))
    if sink is not None and 4 * len(path) > MAX_PATH and len(path.encode()) > MAX_PATH:
        raise StateError("%s...: the names that lead to this array are %d bytes long; allowed: %d" %
                         (path[:80], len(path.encode()), MAX_PATH))
    out = _templates.get(info)
    if out is None:
        if len(_templates) > 4096:
            _templates.clear()
        out = _templates[info] = {"$": "tensor", "path": path, "kind": info.kind, "dtype": info.dtype, "shape": list(info.global_shape)}
        if info.offset is not None:
            out["sharded"] = True
    out = out.copy()
    out["path"] = path
    if info.kind == "numpy" and arrays.is_big_endian(value):
        out["order"] = "big"  # the byte order of the program's array; the stored one is little-endian
    order = arrays.memory_order(value) if len(info.shape) > 1 else None
    if order is not None:
        out["layout"] = order  # of the program's array; stored is C order
    taken = False if sink is None else sink(path, value)
    if taken is not False:
        out["path"] = taken if isinstance(taken, str) else path
        return out
    if info.offset is not None:
        raise StateError("%s: a Shard is divided over all learners, and cannot be part of the state of one learner; give the part "
                         "itself, or put the Shard into the state that all share" % path)
    del out["path"]
    try:
        out["$"], out["v"] = "array", base64.b64encode(arrays.to_bytes(value)).decode()
    except Exception as error:
        raise of_framework(error, path) from error
    return out


def _encode_foreign(value: Any, path: str) -> Any:
    np, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if np is not None and isinstance(value, np.generic):
        scalar = np.asarray(value)
        if type(value) is scalar.dtype.type and dtypes.known(scalar.dtype.name):
            return {"$": "scalar", "dtype": scalar.dtype.name, "v": base64.b64encode(arrays.to_bytes(scalar)).decode()}
    if torch is not None:
        if isinstance(value, torch.dtype):
            return {"$": "torch.dtype", "v": str(value).split(".", 1)[1]}
        if isinstance(value, torch.device):
            return {"$": "torch.device", "v": str(value)}
        if type(value) is torch.Size:
            return {"$": "torch.Size", "v": list(value)}
    raise StateError(
        "%s: a value of type %s.%s cannot be stored in a checkpoint (nothing is pickled); allowed: None, numbers, text, bytes, "
        "lists, tuples, dicts, sets, arrays and tensors. Give the object a state_dict() of such values, or leave it out" %
        (path, type(value).__module__, type(value).__qualname__))


def decode(value: Any, source: Source, depth: int = 0) -> Any:
    """The tree of a JSON value. ``source`` returns the arrays that are stored elsewhere. StateError for a value that no version
    so far has written."""
    if depth > 2 * MAX_DEPTH + 10:  # a tuple is two levels of JSON
        raise StateError("the checkpoint's state is nested deeper than the %d levels that are allowed" % MAX_DEPTH)
    if isinstance(value, list):
        return [decode(item, source, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: source(item) if type(item) is dict and item.get("$") == "tensor" else decode(item, source, depth + 1)
                for key, item in value.items()}
    return _decode_tagged(value, source, depth)


def _decode_tagged(value: Dict[str, Any], source: Source, depth: int) -> Any:
    tag = value["$"]
    content: Any = value.get("v")
    if tag == "tensor":
        return source(value)
    if tag == "array":
        try:
            return arrays.from_bytes(value["kind"], value["dtype"], tuple(value["shape"]), base64.b64decode(content),
                                     value.get("order") == "big", memory_order(value, len(value["shape"])))
        except Exception as error:
            if not is_of_device(error):
                raise
            raise of_framework(error, "an array of %s %s in a record" % (value["dtype"], value["shape"])) from error
    if tag == "scalar":
        return arrays.from_bytes("numpy", value["dtype"], (), base64.b64decode(content))[()]
    if tag == "float":
        return float(content)
    if tag == "complex":
        return complex(decode(content[0], source), decode(content[1], source))
    if tag == "bytes":
        return base64.b64decode(content)
    if tag == "torch.Size":
        from . import torch_adapter
        return torch_adapter.size_of(content)
    if tag in ("torch.dtype", "torch.device"):
        from . import torch_adapter
        return torch_adapter.named_constant(tag, content)
    if tag in ("dict", "odict", "counter"):
        pairs: List[Tuple[Any, Any]] = [(decode(k, source, depth + 1), decode(v, source, depth + 1)) for k, v in content]
        makers: Dict[str, Any] = {"dict": dict, "odict": OrderedDict, "counter": _counter}
        return makers[tag](pairs)
    items = decode(content, source, depth + 1) if isinstance(content, list) else None
    if items is not None and tag in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](items)
    if items is not None and tag == "deque":
        return deque(items, value.get("maxlen"))
    raise StateError("the checkpoint holds a value of the kind '%s', which this version of dlckpt does not know; install the version "
                     "that wrote the checkpoint, or a later one" % tag)


def mapping(value: Any) -> Optional[Dict[str, Any]]:
    """A dict with text as keys, as encode() wrote it: its values are still JSON. None for anything else."""
    if not isinstance(value, dict) or value.get("$", "dict") != "dict":
        return None
    if "$" not in value:
        return value
    pairs = value.get("v")  # a dict with a key "$", or with keys of other types
    if not isinstance(pairs, list) or not all(isinstance(key, str) for key, _ in pairs):
        return None
    return {key: item for key, item in pairs}


def _counter(pairs: List[Tuple[Any, Any]]) -> "Counter[Any]":
    return Counter(dict(pairs))


def memory_order(reference: Dict[str, Any], dimensions: int) -> Optional[List[int]]:
    """The order in memory of the array that a reference means (arrays.memory_order), and that has so many dimensions; None for C order, and
    where the checkpoint does not say it, as older ones. StateError if it is not an order of these dimensions."""
    order = reference.get("layout")
    if order is None:
        return None
    if not isinstance(order, list) or not all(type(dim) is int for dim in order) or sorted(order) != list(range(dimensions)):
        raise StateError("the checkpoint says of an array of %d dimensions that their order in memory is %s" %
                         (dimensions, printable(repr(order)[:80])))
    return order


def inline_arrays(value: Any, path: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """The arrays that are in a JSON value themselves, each with the path that encode() had for it."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from inline_arrays(item, "%s/%d" % (path, index))
    elif isinstance(value, dict) and "$" not in value:
        for key, item in value.items():
            yield from inline_arrays(item, path + "/" + escape(key))
    elif isinstance(value, dict) and value["$"] == "array":
        yield path, value
    elif isinstance(value, dict) and value["$"] in ("tuple", "deque"):
        yield from inline_arrays(value.get("v"), path)
    elif isinstance(value, dict) and value["$"] in ("dict", "odict"):
        for key, item in value["v"]:
            if type(key) in (str, int):
                yield from inline_arrays(item, path + "/" + escape(key))


def references(value: Any, found: Optional[Dict[str, Dict[str, Any]]] = None) -> Dict[str, Dict[str, Any]]:
    """All {"$": "tensor"} references in a JSON value, by path."""
    found = {} if found is None else found
    if isinstance(value, list):
        for item in value:
            references(item, found)
    elif isinstance(value, dict):
        if value.get("$") == "tensor":
            found[value["path"]] = value
        else:
            for item in value.values():
                references(item, found)
    return found
