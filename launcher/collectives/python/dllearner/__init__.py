# SPDX-License-Identifier: Apache-2.0
"""libdllearner for Python: collectives, gradient buckets and parameter servers over NumPy arrays.

    import dllearner

    with dllearner.open() as world:
        loss = world.all_reduce(loss, "mean")
        buckets = world.buckets(dtype="float32", counts=[w.size for w in weights])
        for i in reversed(range(len(weights))):
            buckets.ready(i, gradients[i])
        buckets.finish()

dllearner.h says what each call means. Arrays are C-contiguous and in host memory. All calls are made by one thread at a
time. Errors are raised as DllearnerError, whose ``code`` is that of enum dllearner_result.
"""
from .errors import DllearnerError
from .library import version
from .world import Buckets, ParameterServer, Request, World, open

__all__ = ["Buckets", "DllearnerError", "ParameterServer", "Request", "World", "open", "version"]
