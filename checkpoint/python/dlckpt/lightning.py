# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for the Trainer of Lightning (version 2)::

    checkpoints = dlckpt.lightning.DlckptCallback("ckpt", every="50steps")
    trainer = lightning.Trainer(max_steps=1000, callbacks=[checkpoints])
    trainer.fit(model, loader, ckpt_path=checkpoints.resume())

Lightning goes on in the middle of a data epoch only if the loader has state_dict() and load_state_dict(). Loader is one; it takes
its batches from dlckpt.GlobalBatches, so that no sample is trained twice or left out, at any number of learners::

    loader = dlckpt.lightning.Loader(dataset, dlckpt.GlobalBatches(len(dataset), 64))

With dlckpt.find_batch(64) instead of 64, and epochs=, it follows the batch that --dl-batch chose.
"""
from __future__ import annotations

import enum
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any, Dict, Optional

from torch.utils.data import DataLoader

try:
    from lightning.fabric.plugins import CheckpointIO
    from lightning.pytorch import Callback
except ImportError:  # the same package under its older name
    from lightning_fabric.plugins import CheckpointIO
    from pytorch_lightning import Callback

from . import codec, committed
from .batch import Batch, asked_batch
from .errors import InternalError
from .job import Job, open_job
from .objects import DefaultRandomEntry, StatefulEntry
from .samplers import GlobalBatches
from .settings import Every, find_settings
from .world import World


class DlckptCallback(Callback):  # type: ignore[misc]
    """Saves everything that Lightning puts into a checkpoint (module, optimizers, schedulers, loops, callbacks, loader, precision),
    and the random states of each learner, when that is due, at the end of a train step. When the job is asked to stop, it saves and
    raises SystemExit, as Job.steps() does, and Lightning tears down. At the end of the training it saves once more.

    dir, every, keep, strict, final_save, timeout    as for dlckpt.attach()

    ``job`` is the dlckpt.Job while training runs. With the same number of learners and a loader that can go on where it stopped,
    a resumed training ends with the same weights, bit for bit, as one that was not interrupted.

    In a job with --dl-batch, and with a Loader over find_batch(), accumulate_grad_batches becomes the number of passes of a train
    step, and the learning rates are multiplied by the factor of the rule. Schedulers count train steps; larger batches mean fewer.

    Strategies that divide the module (FSDP, DeepSpeed) are refused with StateError at the start.
    """

    def __init__(self, dir: Optional[str] = None, *, every: Every = None, keep: int = 0, strict: bool = True,
                 final_save: bool = True, timeout: float = 0.0) -> None:
        self.job: Optional[Job] = None
        self._options: Dict[str, Any] = dict(dir=dir, every=every, keep=keep, final_save=final_save, timeout=timeout)
        self._strict = strict
        self._dir = find_settings(dir, every, keep).dir
        self._entry = _TrainerEntry()
        self._step = -1  # the Trainer's step after the last batch

    def resume(self) -> Optional[str]:
        """The value for ckpt_path of trainer.fit(): the checkpoint directory if there is a checkpoint, else None. fit() loads
        the newest checkpoint that verifies; it raises what dlckpt.attach() raises."""
        return self._dir if self._dir is not None and committed.checkpoints(self._dir) else None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self._entry.trainer, self._entry.loaded = trainer, None
            trainer.strategy.checkpoint_io = _Io(self, trainer.strategy.checkpoint_io)

    def _load(self) -> Dict[str, Any]:
        """Collective; called from within fit()."""
        self._open()
        if self._entry.loaded is None:
            raise InternalError("there was a checkpoint in %s, but now there is none" % self._dir)
        _recount_batches(self._entry.loaded, asked_batch())
        return self._entry.loaded

    def _open(self) -> None:
        trainer = self._entry.trainer
        self.job = open_job(World(trainer.global_rank, trainer.world_size), run_id=None, **self._options)
        self.job._start([self._entry, DefaultRandomEntry("default random generators", None)], self._strict)
        self._entry.attached = True

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if self.job is None:
            self._open()
        elif self._entry.loaded is not None and self._entry.loaded["dlckpt"]["last_batch"]:
            self.job._give_random_back()  # before the loader begins a new data epoch, as it did in the saved run

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._step = trainer.global_step
        if isinstance(trainer.train_dataloader, Loader) and trainer.train_dataloader.follows:
            before = self._entry.loaded["dlckpt"].get("lr_scale", 1.0) if self._entry.loaded else 1.0
            self._entry.follow(trainer, trainer.train_dataloader.batches, before)
        if self.job is None:
            return
        if self._entry.loaded is None and self.job._attached is not None:
            self.job._attached.prove()  # so that state that cannot be stored is refused now, not at the first save after hours
        self._entry.loaded = None
        self.job.train_step = trainer.global_step
        # Lightning's own handler would stop here without saving, and at another train step than dlrun's.
        handler = signal.getsignal(signal.SIGTERM)
        ours = self.job.world.size == 1 or bool(os.environ.get("DL_PROGRESS"))
        if ours and "lightning" in type(handler).__module__ and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        # Lightning's set-up draws random numbers, for instance for the order of the data.
        if self.job is not None:
            self.job._give_random_back()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loader = trainer.train_dataloader
        if isinstance(loader, Loader) and (not loader.follows or trainer.global_step != self._step):
            loader.batches.step_done()
            trainer.should_stop = trainer.should_stop or loader.batches.done
            if self.job is not None and loader.follows:
                self.job._samples = loader.batches.cursor
        self._step = trainer.global_step
        if self.job is not None and trainer.global_step != self.job.train_step:  # otherwise gradients are being accumulated
            self.job.train_step = trainer.global_step
            self._entry.last_batch = bool(trainer.is_last_batch)
            self.job.check()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.job is not None:
            self.job.train_step = trainer.global_step
            self._entry.last_batch = True
            self.job.finish()
            self.job = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")  # Lightning itself does not call it

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if self.job is not None:
            self.job.close()
            self.job = None
        if isinstance(trainer.strategy.checkpoint_io, _Io):
            trainer.strategy.checkpoint_io = trainer.strategy.checkpoint_io.other


class Loader(DataLoader):  # type: ignore[type-arg]
    """A DataLoader over the batches of a GlobalBatches (``batches``), which Lightning can stop and resume at any batch. Its
    data epochs have n_samples / global_batch batches, rounded up; the batches continue from one data epoch to the next.

        If --dl-batch chose the batch of ``batches``, so that it changes with the number of learners, the loader has no length and
        goes by samples: a data epoch ends with the train step that takes its last sample. Then give GlobalBatches epochs=, too, so
        that the training ends at the right sample.
    """

    def __init__(self, dataset: Any, batches: GlobalBatches, **options: Any) -> None:
        follows = batches._batch is not None and asked_batch() is not None
        super().__init__(dataset, batch_sampler=_AheadBySamples(batches) if follows else _Ahead(batches), **options)
        self.batches, self.follows = batches, follows
        batches._equal_passes = batches._equal_passes or follows

    def state_dict(self) -> Dict[str, Any]:
        return self.batches.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.batches.load_state_dict(state)


class _Ahead:
    """The batches of a data epoch of GlobalBatches; iterating does not move the cursor."""

    def __init__(self, batches: GlobalBatches) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return -(-self._batches.n_samples // self._batches.global_batch)

    def __iter__(self) -> Any:
        done = self._batches.cursor // self._batches.global_batch % len(self)
        return (batch for batch, _ in zip(iter(self._batches), range(len(self) - done)))


class _AheadBySamples:
    """As _Ahead, by samples. It has no length, since the length for one size would be wrong for a data epoch that began with
    another."""

    def __init__(self, batches: GlobalBatches) -> None:
        self._batches = batches

    def __iter__(self) -> Any:
        batches, position = self._batches, self._batches.cursor
        end = (position // batches.n_samples + 1) * batches.n_samples
        drawn = iter(batches)
        while position < end and (batches.total_samples is None or position < batches.total_samples):
            size, passes = batches._step_at(position)
            for _ in range(passes):
                yield next(drawn)
            position += size


class _TrainerEntry(StatefulEntry):
    """A Lightning trainer's state. It is loaded before there is an object to load it into, so ``loaded`` keeps it."""

    def __init__(self) -> None:
        super().__init__("lightning", None)
        self.trainer: Any = None
        self.attached = self.last_batch = False
        self.loaded: Optional[Dict[str, Any]] = None
        self.accumulation, self.lr_scale = 1, 1.0

    def follow(self, trainer: Any, batches: GlobalBatches, scale_before: float) -> None:
        """Sets the Trainer's number of passes in a train step, and multiplies the learning rates by this batch's factor. The
        optimizers have their learning rates as they were created, or as a run with the factor ``scale_before`` saved them."""
        trainer.accumulate_grad_batches = self.accumulation = batches._passes
        self.lr_scale = batches.lr_scale
        ratio = self.lr_scale / scale_before
        if ratio == 1.0:
            return
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                for name in ("lr", "initial_lr"):
                    if name in group:
                        group[name] = group[name] * ratio
        for config in trainer.lr_scheduler_configs:
            if hasattr(config.scheduler, "base_lrs"):
                config.scheduler.base_lrs = [rate * ratio for rate in config.scheduler.base_lrs]

    def capture(self) -> Any:
        if not self.attached:
            return {}
        module = self.trainer.lightning_module
        self._parameters = {"lightning/state_dict/" + codec.escape(name) for name, _ in module.named_parameters()}
        state = self.trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        state["dlckpt"] = {"last_batch": self.last_batch, "accumulation": self.accumulation, "lr_scale": self.lr_scale}
        return _plain(state)

    def same_everywhere(self, path: str) -> bool:
        return path in self._parameters or path.startswith("lightning/optimizer_states/")

    def apply(self, state: Any) -> None:
        self.loaded = state


def _recount_batches(state: Dict[str, Any], batch: Optional[Batch]) -> None:
    """Lightning ends a train step whenever the number of batches in the data epoch is a multiple of its passes. Batches that
    were counted with another number of passes are therefore counted again."""
    before = int(state["dlckpt"].get("accumulation", 1))
    if batch is None or batch.accumulation == before:
        return
    current = state["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]
    steps = -(-int(current["ready"]) // before)
    lacking = {name: int(current["ready"]) - int(current[name]) for name in ("started", "processed", "completed")}
    current["ready"] = steps * batch.accumulation
    for name, missing in lacking.items():
        current[name] = current["ready"] - missing


def _plain(value: Any) -> Any:
    """The value as plain dicts, texts and numbers, without subclasses of these. Functions in the state of schedulers are left
    out."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items() if not callable(item)}
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


class _Io(CheckpointIO):  # type: ignore[misc]
    """Lightning's own way to files, except for the checkpoint directory of a DlckptCallback."""

    def __init__(self, callback: DlckptCallback, other: Any) -> None:
        self._callback = callback
        self.other = other

    def save_checkpoint(self, checkpoint: Dict[str, Any], path: Any, storage_options: Any = None) -> None:
        self.other.save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        if self._callback._dir is not None and os.fspath(path) == self._callback._dir:
            return self._callback._load()
        return self.other.load_checkpoint(path, *args, **kwargs)

    def remove_checkpoint(self, path: Any) -> None:
        self.other.remove_checkpoint(path)

    def teardown(self) -> None:
        self.other.teardown()


__all__ = ["DlckptCallback", "Loader"]
