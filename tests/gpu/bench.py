#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long saves from the memory of a GPU block training, and how long an all-reduce of 4 KiB takes, each beside its peers.

    bench.py [--gib N] [--rounds N] [--dir DIR]      saves and loads (medians, the smallest and the largest value)
    dlrun -f dllearner -n 1 -- python3 bench.py --all-reduce     also with -n 2; on one GPU NCCL_HOSTID=$DL_RANK

Needs a GPU and PyTorch; DLCKPT_LIBRARY, DLLEARNER_LIBRARY and DLLEARNER_NCCL_MODULE name what was built (README.md)."""
import argparse
import ctypes
import os
import shutil
import statistics
import sys
import tempfile
import time
from typing import Callable, Dict, List

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(TOP, "checkpoint", "python"), os.path.join(TOP, "launcher", "collectives", "python")]

import torch
import torch.distributed as dist

TENSORS = 16
seconds: Dict[str, List[float]] = {}


def measure(name: str, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    seconds.setdefault(name, []).append(took)
    if not (name.startswith("(") or name.startswith("all-reduce")):
        print("  %s: %.4f s" % (name, took), file=sys.stderr, flush=True)
    return took


def show(count: int, unit: float = 1.0, name_of_unit: str = "s") -> None:
    """The last ``count`` values of each row, so that the first rounds do not count."""
    for name, values in seconds.items():
        values = [value * unit for value in values[-count:]]
        print("%-62s %9.4f (%.4f to %.4f) %s" % (name, statistics.median(values), min(values), max(values), name_of_unit), flush=True)


def forget_pages(folder: str) -> None:
    os.sync()
    for place, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(place, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


class Saves:
    def __init__(self, folder: str, size: int) -> None:
        from dlckpt.context import Context
        self.folder = folder
        self.tensors = {"layer.%d" % i: torch.empty(size // TENSORS // 4, device="cuda") for i in range(TENSORS)}
        self.pinned = {name: torch.empty(tensor.shape, pin_memory=True) for name, tensor in self.tensors.items()}
        self.numbers = torch.rand(8192, 8192, device="cuda", dtype=torch.bfloat16)
        self.step = 0
        self.context = Context(os.path.join(folder, "ours"), world_size=1, run_id="bench", keep=1)
        for name, tensor in self.tensors.items():
            self.context.tensor(name, "float32", tuple(tensor.shape), tensor.data_ptr(), flags=1)

    def change(self) -> None:
        """Random bits, so that nobody finds them unchanged or compresses them."""
        for tensor in self.tensors.values():
            tensor.view(torch.int32).random_()
        self.step += 1
        os.sync()
        torch.cuda.synchronize()

    def queue(self, products: int = 70) -> None:
        """About 0.1 s of work on an H100."""
        for _ in range(products):
            torch.mm(self.numbers, self.numbers)

    def copy(self) -> None:
        for name, tensor in self.tensors.items():
            self.pinned[name].copy_(tensor, non_blocking=True)
        torch.cuda.synchronize()

    def asynchronous(self) -> None:
        self.change()
        took = measure("asynchronous save: blocked", lambda: self.context.save(self.step))
        seconds.setdefault("asynchronous save: durable after", []).append(took + measure("(rest)", self.context.wait))
        del seconds["(rest)"]

    def lazy(self) -> None:
        from dlckpt.library import LAZY
        self.change()
        blocked = measure("lazy save, nothing queued: save()", lambda: self.context.save(self.step, LAZY))
        self.queue()  # the forward and the backward pass
        blocked += measure("(rest)", self.context.before_mutation)
        seconds.setdefault("lazy save, nothing queued: save() and the wait before step()", []).append(blocked)
        self.context.wait()
        self.change()
        self.queue()
        measure("(rest)", torch.cuda.synchronize)
        seconds.setdefault("work in the queue", []).append(seconds["(rest)"][-1])
        self.queue()
        measure("lazy save, this work queued before: save()", lambda: self.context.save(self.step, LAZY))
        self.context.before_mutation()
        self.context.wait()
        del seconds["(rest)"]

    def file(self, name: str) -> str:
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, True)
        if os.path.isfile(path):
            os.remove(path)
        return path

    def torch_save(self) -> None:
        path = self.file("torch")

        def save() -> None:
            with open(path, "wb") as out:
                torch.save(self.tensors, out)
                out.flush()
                os.fsync(out.fileno())
        self.change()
        measure("torch.save with fsync: blocked and durable", save)

    def distributed(self) -> None:
        import torch.distributed.checkpoint as dcp
        path = self.file("distributed")
        self.change()
        futures = []
        took = measure("torch.distributed.checkpoint.async_save: blocked", lambda: futures.append(
            dcp.async_save(self.tensors, storage_writer=dcp.FileSystemWriter(path, sync_files=True))))
        seconds.setdefault("torch.distributed.checkpoint.async_save: durable after", []).append(took + measure("(rest)", futures[0].result))
        del seconds["(rest)"]

    def cold_loads(self) -> None:
        import torch.distributed.checkpoint as dcp

        def theirs() -> None:
            found = torch.load(os.path.join(self.folder, "torch"), map_location="cuda")
            for name, tensor in self.tensors.items():
                tensor.copy_(found[name])
        loads = {"libdlckpt": self.context.restore, "torch.load": theirs, "torch.distributed.checkpoint": lambda: dcp.load(
            self.tensors, storage_reader=dcp.FileSystemReader(os.path.join(self.folder, "distributed")))}
        for name, load in loads.items():
            forget_pages(self.folder)
            measure("cold load: " + name, lambda: (load(), torch.cuda.synchronize()))

    def run(self, rounds: int) -> None:
        dist.init_process_group("cpu:gloo,cuda:nccl", init_method="file://" + os.path.join(self.folder, "meet"), rank=0, world_size=1)
        for _ in range(rounds + 1):
            self.change()
            measure("cudaMemcpyAsync to pinned memory", self.copy)
            for work in (self.asynchronous, self.lazy):
                work()
        for work in (self.torch_save, self.distributed, self.cold_loads):  # once, because they take long
            work()
        show(rounds)
        self.context.close()
        dist.destroy_process_group()


def all_reduce(times: int = 3000) -> None:
    from dllearner import library
    rank, size = int(os.environ.get("DL_RANK", 0)), int(os.environ.get("DL_WORLD_SIZE", 1))
    values = torch.ones(1024, device="cuda")
    lib, world = library.load(), ctypes.c_void_p()
    if lib.dllearner_open(None, ctypes.byref(world)) != 0:
        raise SystemExit("bench.py: %s" % lib.dllearner_error())
    address = ctypes.c_void_p(values.data_ptr())
    torch.cuda.synchronize()

    def ours() -> None:
        code = lib.dllearner_all_reduce(world, address, address, 1024, 1, 1)  # F32, SUM
        if code != 0:
            raise SystemExit("bench.py: %s" % lib.dllearner_error())
    meet = os.path.join(os.environ.get("DL_JOB_DIR") or tempfile.mkdtemp(), "meet")
    dist.init_process_group("nccl", init_method="file://" + meet, rank=rank, world_size=size)

    def theirs() -> None:
        dist.all_reduce(values)
        torch.cuda.synchronize()
    for name, work in {"libdllearner": ours, "torch.distributed": theirs}.items():
        for _ in range(times + 200):
            measure("all-reduce of 4 KiB, %d learners: %s" % (size, name), work)
    if rank == 0:
        show(times, 1e6, "microseconds")
    dist.destroy_process_group()
    lib.dllearner_close(world)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=4.0, help="size of the state (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="after one that does not count (default %(default)s)")
    parser.add_argument("--dir", default=None, help="where to save (default: a new folder in the present one)")
    parser.add_argument("--all-reduce", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench.py: PyTorch sees no GPU here; nothing was measured")
    if options.all_reduce:
        all_reduce()
        return
    folder = tempfile.mkdtemp(prefix="gpu-bench-", dir=options.dir or os.getcwd())
    try:
        Saves(folder, int(options.gib * (1 << 30))).run(options.rounds)
    finally:
        shutil.rmtree(folder, True)


if __name__ == "__main__":
    main()
