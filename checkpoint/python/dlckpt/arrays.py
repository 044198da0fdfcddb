# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays, torch tensors, arrays with __cuda_array_interface__ (CuPy's) and Shards as memory that libdlckpt can write from
and read into.

Neither NumPy nor torch is imported here unless the program has imported it: without that it cannot have such a value.
"""
from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import cuda_array, dtypes
from .errors import StateError
from .memory import Memory
from .parts import ArrayInfo, Parts
from .shard import Shard


_numpy_names: Dict[Any, str] = {}  # names by dtype, since NumPy takes a microsecond to make one


def _numpy() -> Any:
    return sys.modules.get("numpy")


@functools.lru_cache(maxsize=1024)
def _of_numpy(name: str, shape: Tuple[int, ...]) -> ArrayInfo:
    return ArrayInfo("numpy", name, shape, shape, None)


@functools.lru_cache(maxsize=1024)
def _of_torch(name: str, shape: Tuple[int, ...]) -> ArrayInfo:
    return ArrayInfo("torch", name, shape, shape, None)


def _address(array: Any) -> int:
    """The address of the elements of a NumPy array. NumPy's own way to get it takes ten times as long."""
    try:
        return address_of_buffer(buffer_of(array))
    # read-only, not in C order, empty, or elements that the buffer protocol does not know
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)


# numpy.ndarray, set when is_array() first sees one. A state may hold a million of them, so the functions that are called for each
# array compare its type with this before they do anything slower.
_ndarray: Any = None

# torch_adapter.describe_tensor for the types torch.Tensor and Parameter (not for types derived from them), set when describe() first
# sees one.
_tensor_types: Dict[type, Callable[[Any, str], Tuple[str, Tuple[int, ...]]]] = {}

# Of a writable array in C order: buffer_of() raises TypeError, ValueError or BufferError for any other one, for empty ones, and for elements
# that the buffer protocol does not know.
address_of_buffer, buffer_of = ctypes.addressof, ctypes.c_char.from_buffer

# Most values of a state have one of these types, so they are recognised by their type alone.
_array_types: Set[type] = {Shard, Parts}
_PLAIN_TYPES = frozenset([type(None), bool, int, float, complex, str, bytes, dict, list, tuple, set, frozenset])


def is_array(value: Any) -> bool:
    """True for a NumPy array (not a NumPy scalar), a torch tensor, a writable array on a GPU, a Shard of these, and Parts."""
    kind = type(value)
    if kind in _array_types:
        return True
    if kind in _PLAIN_TYPES:
        return False
    global _ndarray
    np, torch = _numpy(), sys.modules.get("torch")
    if isinstance(value, (Shard, Parts)) or (np is not None and isinstance(value, np.ndarray)) or (
            torch is not None and isinstance(value, torch.Tensor)):
        _array_types.add(kind)
        if np is not None and kind is np.ndarray:
            _ndarray = kind
        return True
    return cuda_array.interface(value) is not None


def describe(value: Any, where: str) -> ArrayInfo:
    """StateError, naming ``where``, if its element type or layout cannot be stored."""
    if type(value) is _ndarray:  # there may be a million of these, so they are handled first
        known = _numpy_names.get(value.dtype)
        if known is not None:
            return _of_numpy(known, value.shape)
    describe_tensor = _tensor_types.get(type(value))
    if describe_tensor is not None:
        return _of_torch(*describe_tensor(value, where))
    np = _numpy()
    if isinstance(value, Parts):
        if not dtypes.known(value.dtype):
            raise StateError("%s: an array of dtype '%s' cannot be stored; allowed: %s" %
                             (where, value.dtype, ", ".join(dtypes.DTYPES)))
        return ArrayInfo(value.kind, value.dtype, value.shape, value.shape, (0,) * len(value.shape))
    if isinstance(value, Shard):
        inner = describe(value.array, where)
        return inner._replace(global_shape=value.global_shape, offset=value.offset)
    if np is not None and isinstance(value, np.ndarray):
        if type(value) not in (np.ndarray, np.memmap):
            raise StateError("%s: an array of the class %s cannot be stored; give a plain numpy.ndarray" %
                             (where, type(value).__name__))
        name = _numpy_names.get(value.dtype)
        if name is None:
            name = value.dtype.name
            if not dtypes.known(name) or value.dtype.itemsize != dtypes.size(name):
                raise StateError("%s: a NumPy array of dtype '%s' cannot be stored; allowed: %s" %
                                 (where, value.dtype, ", ".join(dtypes.DTYPES)))
            _numpy_names[value.dtype] = name
        return _of_numpy(name, value.shape)
    if cuda_array.is_one(value):
        name, shape = cuda_array.describe(value, where)
        return ArrayInfo("cuda", name, shape, shape, None)
    from . import torch_adapter
    parts = divided(value)
    if isinstance(parts, Parts):
        return describe(parts, where)
    name, shape = torch_adapter.describe_tensor(value, where)
    if type(value) in torch_adapter.PLAIN_TYPES:
        _tensor_types[type(value)] = torch_adapter.describe_tensor
    return _of_torch(name, shape)


def is_big_endian(value: Any) -> bool:
    """Whether it is a NumPy array whose elements have their most significant byte first."""
    if type(value) is _ndarray and value.dtype.isnative:
        return sys.byteorder == "big" and value.dtype.byteorder != "|"
    np = _numpy()
    if np is None or not isinstance(value, np.ndarray):
        return False
    order = value.dtype.byteorder
    return bool(order == ">" or (order == "=" and sys.byteorder == "big"))


def memory_order(value: Any) -> Optional[List[int]]:
    """The dimensions of a NumPy array or a torch tensor, from the one whose elements lie farthest apart in memory to the one whose
    elements lie closest together; None in C order, and for arrays whose elements are not all apart or which are divided."""
    if type(value) is _ndarray:
        strides = () if value.flags.c_contiguous else value.strides
    elif type(value) in _tensor_types:
        strides = () if value.is_contiguous() and 1 not in value.shape else value.stride()
    else:
        return None
    if not strides or min(strides) <= 0 or 0 in value.shape:
        return None
    shape = value.shape  # a stride of a dimension of size 1 is no distance, but PyTorch compares strides
    order = sorted(range(len(strides)), key=lambda dim: (-strides[dim], shape[dim] == 1, dim))
    return None if order == list(range(len(strides))) else order


def plain_address(value: Any) -> int:
    """The address of a plain NumPy array whose own memory can be saved and restored: it is writable, in C order and native byte order,
    and not empty. 0 for every other value; slower functions then find out more."""
    if type(value) is not _ndarray or not value.dtype.isnative:
        return 0
    try:
        return address_of_buffer(buffer_of(value))
    except (TypeError, ValueError, BufferError):
        return 0


def address_of(value: Any) -> Optional[int]:
    """The address of the first element; None where place_of() is None. Arrays that have the same place have the same address, and the
    address takes much less time to find."""
    if type(value) is _ndarray:
        return _address(value) if value.size else None
    if hasattr(value, "data_ptr") and hasattr(value, "stride"):
        return int(value.data_ptr()) if value.numel() else None
    place = place_of(value)
    return None if place is None else int(place[0])


def place_of(value: Any) -> Any:
    """A value that is equal for two arrays with the same memory (tied weights), and for no others; None if the array cannot be
    compared."""
    np = _numpy()
    if np is not None and isinstance(value, np.ndarray):
        return (_address(value), value.dtype, value.shape, value.strides) if value.size else None
    if hasattr(value, "data_ptr") and hasattr(value, "stride") and value.numel():
        return (value.data_ptr(), str(value.device), str(value.dtype), tuple(value.shape), value.stride(), value.is_conj(), value.is_neg())
    return None


def why_not_filled(value: Any) -> str:
    """The reason for which a restore cannot write into the array in place; "" if it can."""
    if isinstance(value, Parts):
        return ""
    if isinstance(value, Shard):
        return why_not_filled(value.array)
    np = _numpy()
    if np is not None and isinstance(value, np.ndarray):
        if not value.flags.writeable:
            return "it is read-only; give a writable one"
        strides = value.strides
    elif hasattr(value, "stride") and hasattr(value, "is_sparse"):  # a tensor of torch
        strides = value.stride()
    else:
        return ""
    if 0 in strides and 0 not in value.shape and any(stride == 0 and size > 1 for stride, size in zip(strides, value.shape)):
        return "several of its elements are one in memory, as expand() makes them; give a copy (clone())"
    return ""


def divided(value: Any) -> Any:
    """A DTensor as Parts, or as a plain tensor if every learner has the whole; any other value as it is."""
    if type(value).__name__ != "DTensor" or isinstance(value, (Shard, Parts)):
        return value
    from . import torch_adapter
    return torch_adapter.dtensor_parts(value)


def to_store(value: Any, staging: Any = None, strided: bool = False, device: bool = False) -> Memory:
    """The values of the array as memory to be read. This is the array's own memory if it is little-endian and contiguous (or
    ``strided`` is allowed), on the CPU, or with ``device`` on a GPU that libdlckpt can access. Otherwise it is a copy on the
    host, made in ``staging`` (an owner that an earlier call returned) if that is such a copy and fits."""
    if isinstance(value, Shard):
        return to_store(value.array, staging, strided=strided, device=device)
    np = _numpy()
    if np is not None and isinstance(value, np.ndarray):
        if strided and value.size and not value.flags.c_contiguous and value.dtype.isnative:
            return Memory(_address(value), value, None, tuple(value.strides))
        if not _is_plain(value):
            value = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("=")).reshape(value.shape)
        return Memory(_address(value) if value.size else 0, value, None)
    if cuda_array.is_one(value):
        return cuda_array.to_store(value, device)
    from . import torch_adapter
    return torch_adapter.tensor_to_store(value, staging, strided, device)


def copied(value: Any, host: Memory) -> Memory:
    """A copy of the memory that to_store(value) returned on the host; the same memory if that is a copy already."""
    if isinstance(value, Shard):
        return copied(value.array, host)
    size = _num_bytes(describe(value, "array"))
    if host.owner is not value and not _aliases(value, host.pointer):
        return host
    memory = (ctypes.c_char * size)()
    ctypes.memmove(memory, host.pointer, size)
    return Memory(ctypes.addressof(memory), memory, None)


def _aliases(value: Any, pointer: int) -> bool:
    if cuda_array.is_one(value):
        return False  # memory on the host is a copy
    return bool((value.ctypes.data if hasattr(value, "ctypes") else value.data_ptr()) == pointer)


def into_place(value: Any, *, device: bool = False) -> Memory:
    """Memory into which the array's values can be restored, in place; call finish() afterwards if it is not None. It is on the
    host, unless ``device`` says that libdlckpt itself will write to it."""
    if isinstance(value, Shard):
        return into_place(value.array, device=device)
    np = _numpy()
    if np is not None and isinstance(value, np.ndarray):
        if not value.flags.writeable:
            raise StateError("a NumPy array that is to be restored is read-only; give a writable one, such as a copy of the array")
        if _is_plain(value):
            return Memory(_address(value) if value.size else 0, value, None)
        if value.size and value.dtype.isnative and 0 not in value.strides:
            return Memory(value.ctypes.data, value, None, tuple(value.strides))
        staging = np.empty(value.shape, dtype=value.dtype.newbyteorder("="))
        return Memory(staging.ctypes.data if staging.size else 0, staging, lambda: np.copyto(value, staging))
    if cuda_array.is_one(value):
        return cuda_array.into_place(value, device)
    from . import torch_adapter
    return torch_adapter.tensor_into_place(value, device)


def empty(kind: str, dtype: str, shape: Tuple[int, ...], big_endian: bool = False, order: Optional[Sequence[int]] = None) -> Any:
    """A new array to restore into, with undefined values; on the host, unless the array was CuPy's. ``order``: see memory_order()."""
    if kind == "cuda":
        return cuda_array.empty(dtype, shape)
    if order is not None:
        value = empty(kind, dtype, tuple(shape[dim] for dim in order), big_endian)
        back = sorted(range(len(order)), key=lambda at: order[at])
        return value.transpose(back) if kind == "numpy" else value.permute(back)
    if kind == "numpy":
        import numpy as np
        if dtype == "bfloat16" or dtype.startswith("float8"):
            try:
                import ml_dtypes
            except ImportError:
                raise StateError("NumPy has no %s of its own; install the package ml_dtypes, or load it as a tensor of torch "
                                 "(kind='torch')" % dtype) from None
            return np.empty(shape, dtype=getattr(ml_dtypes, dtype))
        return np.empty(shape, dtype=np.dtype(dtype).newbyteorder(">") if big_endian else dtype)
    from . import torch_adapter
    return torch_adapter.empty_tensor(dtype, shape)


def copy(target: Any, values: Any) -> None:
    """Copies the elements of an array into another one of the same shape, and converts them if it has another dtype."""
    np = _numpy()
    if np is not None and isinstance(target, np.ndarray):
        np.copyto(target, values, casting="unsafe")
        return
    if cuda_array.is_one(target):
        target[...] = values
        return
    from . import torch_adapter
    torch_adapter.copy_tensor(target.array if isinstance(target, Shard) else target, values)


def to_bytes(value: Any) -> bytes:
    """The elements in C order, little-endian."""
    info = describe(value, "array")
    host = to_store(value)
    return ctypes.string_at(host.pointer, _num_bytes(info)) if host.pointer else b""


def from_bytes(kind: str, dtype: str, shape: Tuple[int, ...], data: bytes, big_endian: bool = False,
               order: Optional[Sequence[int]] = None) -> Any:
    """The inverse of to_bytes: a new array. StateError if the length does not fit."""
    if order is not None:
        value = empty(kind, dtype, shape, big_endian, order)
        copy(value, from_bytes(kind, dtype, shape, data))
        return value
    value = empty(kind, dtype, shape)
    host = into_place(value)
    expected = _num_bytes(ArrayInfo(kind, dtype, shape, shape, None))
    if expected != len(data):
        raise StateError("an array of %d bytes was found where %s %s needs %d" % (len(data), dtype, shape, expected))
    if data:
        ctypes.memmove(host.pointer, data, len(data))
    return value.astype(value.dtype.newbyteorder(">")) if big_endian and kind == "numpy" else value


def _num_bytes(info: ArrayInfo) -> int:
    count = 1
    for size in info.shape:
        count *= size
    return count * dtypes.size(info.dtype)


def _is_plain(array: Any) -> bool:
    return bool(array.flags.c_contiguous and array.dtype.isnative)
