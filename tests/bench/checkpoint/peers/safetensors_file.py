# SPDX-License-Identifier: Apache-2.0
"""safetensors with fsync of the file and of its directory; reading copies into the tensors that are there."""
import safetensors
import safetensors.torch
import torch

from state import State, sync_parent, sync_path


class Peer:
    def __init__(self, state: State) -> None:
        self.tensors = {name: torch.from_numpy(array) for name, array in state.arrays.items()}

    def save(self, path: str) -> None:
        safetensors.torch.save_file(self.tensors, path)
        sync_path(path)
        sync_parent(path)

    def restore(self, path: str) -> None:
        with safetensors.safe_open(path, framework="pt") as file:
            for name, tensor in self.tensors.items():
                tensor.copy_(file.get_tensor(name))
