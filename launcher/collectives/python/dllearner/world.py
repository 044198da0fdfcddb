# SPDX-License-Identifier: Apache-2.0
"""A world of learners, and the operations in it. dllearner.h describes each call."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

import numpy as np

from . import library
from .library import check, load

_DTYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "int32": 5, "int64": 6, "uint8": 7}
_OPS = {"sum": 1, "max": 2, "min": 3, "mean": 4}
_MODES = {"sync": 1, "async": 2, "bounded": 3}


def _among(table: dict, name: str, what: str) -> int:
    if name not in table:
        raise ValueError("%s: %r is unknown; allowed: %s" % (what, name, ", ".join(table)))
    return table[name]


def _flat(array: np.ndarray, dtype: Optional[str] = None) -> np.ndarray:
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise ValueError("a C-contiguous NumPy array is needed")
    if dtype is not None and array.dtype.name != dtype:
        raise ValueError("dtype: the array is of %s; allowed: %s" % (array.dtype.name, dtype))
    return array


def _writable(array: np.ndarray, dtype: Optional[str] = None) -> np.ndarray:
    if not _flat(array, dtype).flags.writeable:
        raise ValueError("the array is read-only")
    return array


class Request:
    """An operation that was started. It keeps its arrays alive until it is done."""

    def __init__(self, handle: ctypes.c_void_p, result: np.ndarray, kept: Any) -> None:
        self._handle, self._result, self._kept = handle, result, kept

    def wait(self) -> np.ndarray:
        """Waits until the operation is done, and returns its result."""
        check(load().dllearner_wait(ctypes.byref(self._handle)))
        self._kept = None
        return self._result

    def test(self) -> bool:
        """True once the operation is done."""
        done = ctypes.c_int(0)
        check(load().dllearner_test(ctypes.byref(self._handle), ctypes.byref(done)))
        return done.value != 0


class World:
    """An opened world; a context manager. Close the objects that were made from it first."""

    def __init__(self, servers: int = 0, timeout_s: float = 0.0) -> None:
        options = library.Options(ctypes.sizeof(library.Options), servers, timeout_s)
        self._handle = ctypes.c_void_p()
        check(load().dllearner_open(ctypes.byref(options), ctypes.byref(self._handle)))
        self.rank: int = load().dllearner_rank(self._handle)
        self.size: int = load().dllearner_size(self._handle)
        self.servers: int = load().dllearner_servers(self._handle)
        self.is_server: bool = load().dllearner_role_of(self._handle) == 2

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the world. Collective, like dllearner_close; a second call does nothing."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        load().dllearner_close(handle)

    def all_reduce(self, array: np.ndarray, op: str = "sum", out: Optional[np.ndarray] = None) -> np.ndarray:
        """Combines the arrays of all learners with op. The result is in out: a new array, or a given one of the same
        dtype and size, which may be array itself."""
        out = np.empty_like(_flat(array), order="C") if out is None else self._same(array, out)
        check(load().dllearner_all_reduce(self._handle, array.ctypes.data, out.ctypes.data, array.size,
                                          _among(_DTYPES, array.dtype.name, "dtype"), _among(_OPS, op, "op")))
        return out

    def all_reduce_start(self, array: np.ndarray, op: str = "sum", out: Optional[np.ndarray] = None) -> Request:
        """Starts an all_reduce. Neither array may be changed until it is done."""
        out = np.empty_like(_flat(array), order="C") if out is None else self._same(array, out)
        handle = ctypes.c_void_p()
        check(load().dllearner_all_reduce_start(self._handle, array.ctypes.data, out.ctypes.data, array.size,
                                                _among(_DTYPES, array.dtype.name, "dtype"), _among(_OPS, op, "op"),
                                                ctypes.byref(handle)))
        return Request(handle, out, array)

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        """Copies the array of rank root into the arrays of all other ranks."""
        check(load().dllearner_broadcast(self._handle, _writable(array).ctypes.data, array.size,
                                         _among(_DTYPES, array.dtype.name, "dtype"), root))
        return array

    def reduce_scatter(self, array: np.ndarray, op: str = "sum") -> np.ndarray:
        """Combines the arrays of all learners with op; rank r gets row r. The first dimension is the number of
        learners."""
        if _flat(array).ndim < 1 or array.shape[0] != self.size:
            raise ValueError("the first dimension must be the number of learners, %d" % self.size)
        out = np.empty(array.shape[1:], array.dtype)
        check(load().dllearner_reduce_scatter(self._handle, array.ctypes.data, out.ctypes.data, out.size,
                                              _among(_DTYPES, array.dtype.name, "dtype"), _among(_OPS, op, "op")))
        return out

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        """Returns the arrays of all learners: row r is rank r's array."""
        out = np.empty((self.size,) + _flat(array).shape, array.dtype)
        check(load().dllearner_all_gather(self._handle, array.ctypes.data, out.ctypes.data, array.size,
                                          _among(_DTYPES, array.dtype.name, "dtype")))
        return out

    def barrier(self) -> None:
        """Returns when all learners have called it."""
        check(load().dllearner_barrier(self._handle))

    def buckets(self, dtype: str, counts: Sequence[int], bucket_bytes: int = 0) -> "Buckets":
        """Buckets for gradients. Collective. counts: elements of each parameter, in the order of the forward pass.
        bucket_bytes 0: 25 MiB."""
        return Buckets(self._handle, dtype, counts, bucket_bytes)

    def serve(self) -> None:
        """On a server: serves one parameter server, with SGD and momentum, until all learners have left."""
        check(load().dllearner_serve(self._handle, None, None))

    def parameter_server(self, weights: np.ndarray, mode: str = "sync", staleness: int = 0, learning_rate: float = 0.01,
                         momentum: float = 0.0) -> "ParameterServer":
        """Creates a parameter server. Collective over the learners. weights: float32; those of rank 0 are the initial
        ones. mode: sync, async or bounded."""
        return ParameterServer(self._handle, _flat(weights, "float32"), mode, staleness, learning_rate, momentum)

    @staticmethod
    def _same(array: np.ndarray, out: np.ndarray) -> np.ndarray:
        if _writable(out).dtype != _flat(array).dtype or out.size != array.size:
            raise ValueError("out must have the dtype and size of the array")
        return out


def open(servers: int = 0, timeout_s: float = 0.0) -> World:  # pylint: disable=redefined-builtin
    """Opens the world in which this process was started (dllearner_open tells how it is found). Collective. servers 0:
    from DL_SERVERS. timeout_s 0: 600; -1: wait in MPI's own calls."""
    return World(servers, timeout_s)


class Buckets:
    """Gradients that are averaged in place while others are still being computed."""

    def __init__(self, world: ctypes.c_void_p, dtype: str, counts: Sequence[int], bucket_bytes: int) -> None:
        self._dtype, self._counts = dtype, list(counts)
        self._arrays: list = []
        self._handle = ctypes.c_void_p()
        check(load().dllearner_buckets_create(world, _among(_DTYPES, dtype, "dtype"), len(self._counts),
                                              (ctypes.c_size_t * len(self._counts))(*self._counts), bucket_bytes,
                                              ctypes.byref(self._handle)))

    def ready(self, parameter: int, gradient: np.ndarray) -> None:
        """Marks a gradient as complete; do not touch it until finish returns. For bfloat16, pass an array of uint16."""
        _writable(gradient, "uint16" if self._dtype == "bfloat16" else self._dtype)
        if not 0 <= parameter < len(self._counts) or gradient.size != self._counts[parameter]:
            raise ValueError("parameter %d does not exist, or has another number of elements" % parameter)
        check(load().dllearner_buckets_ready(self._handle, parameter, gradient.ctypes.data))
        self._arrays.append(gradient)

    def finish(self) -> None:
        """Waits until every gradient is the mean over the learners."""
        check(load().dllearner_buckets_finish(self._handle))
        self._arrays.clear()

    def close(self) -> None:
        """Closes the buckets; a second call does nothing."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        load().dllearner_buckets_destroy(handle)


class ParameterServer:
    """A learner's connection to a parameter server. In each train step: pull, compute, push."""

    def __init__(self, world: ctypes.c_void_p, weights: np.ndarray, mode: str, staleness: int, learning_rate: float,
                 momentum: float) -> None:
        self._count = weights.size
        options = library.ServerOptions(ctypes.sizeof(library.ServerOptions), _among(_MODES, mode, "mode"), staleness,
                                        learning_rate, momentum)
        self._handle = ctypes.c_void_p()
        check(load().dllearner_ps_create(world, ctypes.byref(options), weights.ctypes.data, weights.size,
                                         ctypes.byref(self._handle)))

    def pull(self, weights: np.ndarray) -> np.ndarray:
        """Writes the newest weights that the mode allows into the array."""
        check(load().dllearner_ps_pull(self._handle, self._sized(_writable(weights, "float32")).ctypes.data))
        return weights

    def push(self, gradient: np.ndarray) -> None:
        """Sends a gradient, one after each pull. The array may be used again when this returns."""
        check(load().dllearner_ps_push(self._handle, self._sized(_flat(gradient, "float32")).ctypes.data))

    def close(self) -> None:
        """Makes this learner leave the parameter server; a second call does nothing."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        load().dllearner_ps_destroy(handle)

    def _sized(self, array: np.ndarray) -> np.ndarray:
        if array.size != self._count:
            raise ValueError("the array has %d elements, not %d" % (array.size, self._count))
        return array
