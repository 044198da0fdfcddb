# SPDX-License-Identifier: Apache-2.0
"""A training loop (a perceptron with Adam on the CPU) that saves every so many train steps, or not, in one of several ways.
Answers how long the train steps took with all that was saved durable at the end (lib/dlbench/worker.py).

    train.py WIDTH
"""
from __future__ import annotations

import inspect
import os
import sys
import time
from typing import Any, Callable, Dict, Optional

from main import serve

BATCH = 64


class Nothing:
    """Training without saving."""

    def __init__(self, _training: "Training", _folder: str) -> None:
        pass

    def save(self, step: int) -> None:
        pass

    def finish(self) -> None:
        pass


class Ours(Nothing):
    """Through dlckpt.attach, saving as periodic saves are made."""

    mode = "async"

    def __init__(self, training: "Training", folder: str) -> None:
        import dlckpt

        modes = "mode" in inspect.signature(dlckpt.attach).parameters
        if self.mode != "async" and not modes:
            raise ImportError("this dlckpt has no %s saves" % self.mode)
        more = {"mode": self.mode} if modes else {}
        self.waiting = {"wait": False} if modes else {}
        self.job = dlckpt.attach(dir=folder, model=training.model, opt=training.optimizer, final_save=False, keep=2, **more)

    def save(self, step: int) -> None:
        self.job.train_step = step
        self.job.save(**self.waiting)

    def finish(self) -> None:
        if self.waiting:
            self.job.wait()  # raises the last save's error
        self.job.close()


class Lazy(Ours):
    """The optimizer's step waits until the save has copied the state, by a hook of dlckpt.attach."""

    mode = "lazy"


class TorchFile(Nothing):
    """torch.save, flush and fsync; the checkpoint before the last is removed."""

    def __init__(self, training: "Training", folder: str) -> None:
        self.training, self.folder = training, folder
        self.kept: list = []
        os.makedirs(folder, exist_ok=True)

    def save(self, step: int) -> None:
        import torch

        path = os.path.join(self.folder, "%d.pt" % step)
        with open(path, "wb") as file:
            torch.save(self.training.state(), file)
            file.flush()
            os.fsync(file.fileno())
        self.kept.append(path)
        if len(self.kept) > 2:
            os.unlink(self.kept.pop(0))


class DistributedInBackground(Nothing):
    """torch.distributed.checkpoint.async_save, one at a time."""

    def __init__(self, training: "Training", folder: str) -> None:
        import torch.distributed
        import torch.distributed.checkpoint as dcp

        if not hasattr(dcp, "async_save"):
            raise ImportError("this torch has no torch.distributed.checkpoint.async_save")
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        self.dcp, self.training, self.folder = dcp, training, folder
        self.future: Optional[Any] = None

    def save(self, step: int) -> None:
        self.finish()
        writer = self.dcp.FileSystemWriter(os.path.join(self.folder, "%d.dcp" % step), sync_files=True)
        self.future = self.dcp.async_save(self.training.state(), storage_writer=writer)

    def finish(self) -> None:
        if self.future is not None:
            self.future.result()


WAYS: Dict[str, Callable[["Training", str], Nothing]] = {
    "none": Nothing, "async": Ours, "lazy": Lazy, "torch": TorchFile, "dcp": DistributedInBackground}


class Training:
    def __init__(self, width: int) -> None:
        import torch

        torch.manual_seed(0)
        linear, relu = torch.nn.Linear, torch.nn.ReLU
        self.model = torch.nn.Sequential(linear(width, 2 * width), relu(), linear(2 * width, 2 * width), relu(), linear(2 * width, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.inputs = torch.randn(BATCH, width)
        self.labels = torch.randint(0, 10, (BATCH,))
        self.loss = torch.nn.functional.cross_entropy
        self.step()  # makes Adam's state

    def state(self) -> Dict[str, Any]:
        return {"model": self.model.state_dict(), "opt": self.optimizer.state_dict()}

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.model(self.inputs), self.labels).backward()
        self.optimizer.step()

    def obey(self, order: Dict[str, Any]) -> Dict[str, Any]:
        if order["op"] == "facts":
            values = sum(p.numel() for p in self.model.parameters())
            return {"bytes": 3 * 4 * values}
        if order["op"] != "run":
            return {"error": "'%s' is not an order" % order["op"]}
        way = WAYS[order["way"]](self, order["folder"])
        every, steps = order["every"], order["steps"]
        began = time.monotonic()
        for step in range(1, steps + 1):
            self.step()
            if every and step % every == 0:
                way.save(step)
        way.finish()
        return {"seconds": time.monotonic() - began}


if __name__ == "__main__":
    WIDTH = int(sys.argv[1])
    serve(lambda: Training(WIDTH))
