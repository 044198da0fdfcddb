# SPDX-License-Identifier: Apache-2.0
"""Makes the Trainer of Transformers follow the batch that was chosen in a job with --dl-batch, and continue by samples.

By itself the Trainer knows its place in the data as a number of train steps, and skips as many batches of its present size.
After a change of the size that would leave samples out, or train on some twice. Therefore its loader takes the parts of a
GlobalBatches, whose cursor counts samples and is in the checkpoint. To the Trainer the whole training is one pass over a
loader of unknown length, with max_steps = train steps done + train steps left.
"""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional

import torch

from .batch import Batch
from .errors import InvalidError, MismatchError
from .samplers import GlobalBatches
from .world import World

_NAMES = ("max_steps", "gradient_accumulation_steps", "per_device_train_batch_size", "ignore_data_skip")


class TrainerBatches(GlobalBatches):
    """The samples of a Trainer's whole training. All its train steps have the same number of passes, which the Trainer needs:
    samples at the end that are too few for a train step are added to the last one."""

    def __init__(self, n_samples: int, batch: Batch, total_samples: int, seed: int, shuffle: bool, world: World) -> None:
        super().__init__(n_samples, batch, seed, shuffle, rank=world.rank, world_size=world.size)
        self.total_samples: Optional[int] = total_samples
        self._equal_passes = True
        self._lr_scale = batch.lr_scale  # the factor that the optimizer's learning rate has now

    def steps_left(self) -> int:
        left = max(0, (self.total_samples or 0) - self.cursor)
        whole = max(0, (left - self._passes * self._world.size) // self.global_batch)
        return whole + (1 if left > whole * self.global_batch else 0)

    def state_dict(self) -> Dict[str, Any]:
        return dict(super().state_dict(), lr_scale=self._lr_scale)


class FollowedBatch:
    """The changes that DlckptCallback makes in a Trainer so that it follows ``batch``; undo() reverses them."""

    def __init__(self, trainer: Any, batch: Batch, world: World) -> None:
        args, data = trainer.args, trainer.train_dataset
        if not hasattr(data, "__len__") or isinstance(data, torch.utils.data.IterableDataset):
            raise InvalidError("DlckptCallback: --dl-batch needs a train_dataset with a length, and with items by number; leave --dl-batch "
                               "out for this one (a %s)" % type(data).__name__)
        order = getattr(args, "train_sampling_strategy", "random")
        if order not in ("random", "sequential") or getattr(args, "group_by_length", False):
            raise InvalidError("DlckptCallback: --dl-batch goes with train_sampling_strategy random or sequential, not '%s'" % order)
        if args.n_gpu > 1:
            raise InvalidError("DlckptCallback: --dl-batch needs one GPU for each process, this one has %d; start one learner for each" %
                               args.n_gpu)
        if args.max_steps > 0:
            total = args.max_steps * batch.reference
        else:
            total = max(1, int(round(args.num_train_epochs * len(data))))
        seed = args.data_seed if args.data_seed is not None else args.seed
        self.batches = TrainerBatches(len(data), batch, total, seed, order == "random", world)
        self.batch, self._total = batch, total
        self._trainer = trainer
        self._before = {name: getattr(args, name) for name in _NAMES}
        self._loader: Any = None

    def start(self, train_step: int, state: Optional[Dict[str, Any]]) -> None:
        """To be called before train(). ``state`` is the cursor in a checkpoint of ``train_step``."""
        if state is not None:
            problems = self.batches.check_state_dict(state)
            if problems:
                raise MismatchError("; ".join(problems))
            self.batches.load_state_dict(state)
        trainer, args = self._trainer, self._trainer.args
        passes = self.batches.accumulation
        args.max_steps = max(1, train_step + self.batches.steps_left())
        args.gradient_accumulation_steps = passes
        args.per_device_train_batch_size = max(1, self.batches.local_batch // passes)
        args.ignore_data_skip = True
        trainer._train_batch_size = args.train_batch_size
        # Accelerate learned the number of passes when the Trainer was created.
        state_of_passes = getattr(trainer.accelerator, "gradient_state", None)
        if state_of_passes is not None:
            state_of_passes.plugin_kwargs["num_steps"] = passes
        original_loader, original_scheduler = trainer.get_train_dataloader, trainer.create_scheduler

        def get_train_dataloader() -> Any:
            return self._make_loader(original_loader())

        def create_scheduler(num_training_steps: int, *others: Any, **more: Any) -> Any:
            # The schedule counts steps of the reference batch, whatever the batch is, so that the learning rate follows the
            # samples.
            return original_scheduler(max(1, -(-self._total // self.batch.reference)), *others, **more)

        trainer.get_train_dataloader, trainer.create_scheduler = get_train_dataloader, create_scheduler

    def undo(self) -> None:
        for name, value in self._before.items():
            setattr(self._trainer.args, name, value)
        for name in ("get_train_dataloader", "create_scheduler"):
            self._trainer.__dict__.pop(name, None)

    def _make_loader(self, other: Any) -> Any:
        """As the Trainer's own loader, but with other samples. It must not be divided over the learners once more."""
        workers = int(other.num_workers)
        more = dict(multiprocessing_context=other.multiprocessing_context, prefetch_factor=other.prefetch_factor) if workers else {}
        return torch.utils.data.DataLoader(other.dataset, batch_sampler=_Ahead(self.batches), collate_fn=other.collate_fn,
                                           num_workers=workers, pin_memory=other.pin_memory, worker_init_fn=other.worker_init_fn, **more)

    def restored(self, optimizer: Any, scheduler: Any, saved: Optional[Dict[str, Any]]) -> None:
        """To be called after the optimizer's state was restored: its learning rates have the factor of the run that saved them."""
        before = float(saved.get("lr_scale", 1.0)) if saved else 1.0
        ratio = self.batch.lr_scale / before
        self.batches._lr_scale = self.batch.lr_scale
        if ratio == 1.0:
            return
        for group in optimizer.param_groups:
            for name in ("lr", "initial_lr"):
                if name in group:
                    group[name] = group[name] * ratio
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [rate * ratio for rate in scheduler.base_lrs]

    def begin_step(self, scheduler: Any) -> None:
        """Sets how often the scheduler counts after the train step that begins, by the number of samples trained on by then."""
        if hasattr(scheduler, "lr_lambdas"):
            after = self.batches.cursor + self.batches._step_at(self.batches.cursor)[0]
            scheduler.last_epoch = after // self.batch.reference - 1

    def end_step(self, state: Any, control: Any) -> None:
        """Does what the Trainer does at the end of a data epoch, because the Trainer itself only sees the last end."""
        before = self.batches.data_epoch
        self.batches.step_done()
        state.epoch = self.batches.cursor / self.batches.n_samples
        if self.batches.data_epoch == before or self.batches.done:
            return
        args = self._trainer.args
        for strategy, wish in (("logging_strategy", "should_log"), ("eval_strategy", "should_evaluate"), ("save_strategy", "should_save")):
            if str(getattr(getattr(args, strategy, "no"), "value", "")) == "epoch":
                setattr(control, wish, True)


class _Ahead:
    """A batch sampler without a length, so that the Trainer only counts by max_steps."""

    def __init__(self, batches: GlobalBatches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[List[int]]:
        return iter(self._batches)


__all__ = ["FollowedBatch", "TrainerBatches"]
