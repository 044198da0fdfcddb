# SPDX-License-Identifier: Apache-2.0
"""Tensors of many dtypes for tests/cli/dlckpt_convert.bats: `make FILE` writes them with the safetensors package,
`same FILE…` compares what files hold bit for bit (safetensors, torch and HDF5 files, read by their own packages)."""
import sys

import torch


def bits(tensor):
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def tensors():
    torch.manual_seed(7)
    made = {"scalar": torch.tensor(3.25), "empty": torch.empty(0, 4), "deep.er/weight": torch.randn(300, 1000)}
    floats = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    for name in floats:
        if hasattr(torch, name):
            made["f/" + name] = torch.randn(33, 7).to(getattr(torch, name))
    every_half = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    made["all/bfloat16"] = every_half.clone().view(torch.bfloat16)
    made["all/float16"] = every_half.view(torch.float16)
    for name in ["int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]:
        if hasattr(torch, name):
            made["i/" + name] = torch.randint(0, 2, (5, 3, 2)).to(getattr(torch, name))
    return made


def load(path):
    if path.endswith(".pt"):
        return torch.load(path, weights_only=True)
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file

        return load_file(path)
    import h5py
    import numpy

    found = {}
    wanted = tensors()
    with h5py.File(path, "r") as file:
        for name, like in wanted.items():
            dataset = file[name]
            assert dataset.shape == tuple(like.shape), name
            size = like.numel() * like.element_size()
            if size == 0:
                found[name] = torch.empty(like.shape, dtype=like.dtype)
                continue
            raw = numpy.fromfile(path, dtype="u1", offset=dataset.id.get_offset(), count=size)
            found[name] = torch.from_numpy(raw).view(like.dtype).reshape(like.shape)
            if like.dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
                assert dataset[...].tobytes() == raw.tobytes() and dataset.dtype == like.numpy().dtype, name
    return found


def main():
    command, paths = sys.argv[1], sys.argv[2:]
    if command == "make":
        from safetensors.torch import save_file

        save_file(tensors(), paths[0])
        return
    wanted = tensors()
    for path in paths:
        found = load(path)
        assert found.keys() == wanted.keys(), (path, sorted(found.keys() ^ wanted.keys()))
        for name, tensor in wanted.items():
            other = found[name]
            assert other.dtype == tensor.dtype and other.shape == tensor.shape, (path, name)
            assert bits(other) == bits(tensor), (path, name)


main()
