# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint with its file system writer and sync_files=True, in its default settings; loads in place. With
several ranks the state is divided by rows (DTensor over Gloo)."""
import time
from typing import Any, Dict

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp

from state import State

if not hasattr(dcp, "save"):
    raise ImportError("torch %s has no torch.distributed.checkpoint.save" % torch.__version__)


class Peer:
    def __init__(self, state: State) -> None:
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=state.rank, world_size=state.world)
        tensors = {name: torch.from_numpy(array) for name, array in state.arrays.items()}
        self.tensors: Dict[str, Any] = tensors
        if state.world > 1:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import DTensor, Shard

            mesh = init_device_mesh("cpu", (state.world,))
            self.tensors = {name: DTensor.from_local(tensor, mesh, [Shard(0)]) for name, tensor in tensors.items()}

    def save(self, path: str) -> None:
        dcp.save(self.tensors, storage_writer=dcp.FileSystemWriter(path, sync_files=True))

    def save_in_background(self, path: str) -> float:
        """Seconds until the state may change; returns when all is written."""
        began = time.monotonic()
        future = dcp.async_save(self.tensors, storage_writer=dcp.FileSystemWriter(path, sync_files=True))
        blocked = time.monotonic() - began
        future.result()
        return blocked

    def restore(self, path: str) -> None:
        dcp.load(self.tensors, storage_reader=dcp.FileSystemReader(path))
