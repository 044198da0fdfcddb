# SPDX-License-Identifier: Apache-2.0
"""libdlpool for Python: elastic pools, whose members hold keys between them, and which clients address as one.

    import dlpool

    with dlpool.Client() as pool:                     # where dlrun --servers MIN:MAX says (DL_POOL, DL_POOL_SECRET)
        pool.update("visits", b"1")                   # the answer, as bytes
        pool.read("visits")
        pool.call([("a", b"1"), ("b", weights)])      # many at once; NumPy arrays are sent as their bytes

    class Counter:                                    # what a member serves; see Pool
        def __init__(self):
            self.slots = dlpool.Map(str.encode, bytes.decode)
        def apply(self, key, data):
            self.slots[key] = str(int(self.slots.get(key, "0")) + int(data))
            return self.slots[key].encode()
        ...

    dlpool.Pool(Counter()).serve()

dlpool.h is the contract: what is promised when members join, leave and are killed. Every error is a dlpool.Error, of a class for each code
of enum dlpool_result, with the library's sentence. Nothing is loaded on import, NumPy included.
"""
from .client import Client
from .directory import Directory, Facts
from .errors import (CallTimeoutError, DeniedError, Error, FullError, InternalError, InvalidError, IoError, LibraryError, LostError,
                     NoMemoryError, ObjectError, PeerError, StateError)
from .library import version
from .member import Key, Load, Map, Pool

__all__ = ["CallTimeoutError", "Client", "DeniedError", "Directory", "Error", "Facts", "FullError", "InternalError", "InvalidError", "IoError",
           "Key", "LibraryError", "Load", "LostError", "Map", "NoMemoryError", "ObjectError", "PeerError", "Pool", "StateError", "version"]
