# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for the Trainer of Hugging Face Transformers (version 4.40 or newer)::

    checkpoints = dlckpt.huggingface.DlckptCallback("ckpt", every="50steps")
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[checkpoints])
    trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))

The Trainer's own checkpoints (save_strategy, save_steps) are not needed then and may be switched off with
save_strategy="no"; they still work.
"""
from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from typing import Any, Dict, List, Optional

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from . import codec
from .batch import asked_batch
from .entries import Entry
from .errors import InternalError, InvalidError, MismatchError
from .job import Job, open_job
from .huggingface_batch import FollowedBatch
from .objects import DefaultRandomEntry, StatefulEntry, entry
from .settings import Every
from .world import World


class DlckptCallback(TrainerCallback):
    """Saves model, optimizer, scheduler, gradient scaler, random states and the Trainer's own state when that is due, between two
    train steps. When the job is asked to stop, it saves, ends the other callbacks, and raises SystemExit, as Job.steps()
    does. At the end of the training it saves once more.

    dir, every, keep, strict, final_save, timeout    as for dlckpt.attach()

    ``job`` is the dlckpt.Job while training runs: job.state for values of your own.

    A resumed training goes on at the exact train step. With the same number of learners, and a data set whose items do not
    depend on random numbers, its weights are the same, bit for bit, as without the interruption. The data collator may draw random
    numbers in the main process (dataloader_num_workers=0), as that of masked language models does.

    In a job with --dl-batch the Trainer trains with the chosen batch, instead of per_device_train_batch_size: max_steps, if it is
    given, means train steps of the smallest batch (MIN); the learning rate is multiplied by the factor of the rule, and its
    schedule follows the samples. Each sample of each data epoch is trained on once, whatever the sizes at which the job is restarted.

    DeepSpeed cannot be used with it, because its engine does not hand out the state (InvalidError).
    """

    def __init__(self, dir: Optional[str] = None, *, every: Every = None, keep: int = 0, strict: bool = True,
                 final_save: bool = True, timeout: float = 0.0) -> None:
        self.job: Optional[Job] = None
        self._options: Dict[str, Any] = dict(dir=dir, every=every, keep=keep, final_save=final_save, timeout=timeout)
        self._strict = strict
        self._trainer: Any = None
        self._folder: Optional[str] = None
        self._fetched = _FetchedEntry()
        self._followed: Optional[FollowedBatch] = None
        # the cursor of the checkpoint, which says where the training was in the samples
        self._data: Optional[Dict[str, Any]] = None

    def resume(self, trainer: Any) -> Optional[str]:
        """Collective; call it right before trainer.train(), with its result as resume_from_checkpoint. Opens the directory and
        finds the newest checkpoint that verifies: a folder with the Trainer's state of then, which train() wants to see (it is
        removed again), or None if there is none. Raises what dlckpt.attach() raises."""
        if trainer.is_deepspeed_enabled:
            raise InvalidError("DlckptCallback cannot save what DeepSpeed holds; use DeepSpeed's own checkpoints")
        if self not in trainer.callback_handler.callbacks:
            raise InvalidError("DlckptCallback.resume(trainer): this trainer does not have the callback; give it to "
                               "Trainer(callbacks=[...]) first")
        if self.job is not None:
            self.job.close()
        self._trainer = trainer
        args = trainer.args
        self.job = open_job(World(args.process_index, args.world_size), run_id=None, **self._options)
        try:
            peeked = self.job._peek()
        except BaseException:
            self.job.close()
            raise
        self._fetched = _FetchedEntry()
        self._follow_no_batch()
        batch = asked_batch()
        if batch is not None:
            self._followed = FollowedBatch(trainer, batch, self.job.world)
            self._fetched.ahead = 0  # Accelerate does not change this loader
        self._fetched.watch(trainer)
        # train() must load nothing from files: on_train_begin() takes the state from the checkpoint.
        trainer._load_from_checkpoint = lambda *_args, **_kwargs: None
        if peeked is None:
            if self._followed is not None:
                self._followed.start(0, None)
            return None
        stored = peeked.shared["objects"].get("trainer")
        if stored is None:
            self.job.close()
            raise MismatchError("the checkpoint of train step %d was not written by DlckptCallback" % peeked.step)
        self._data = self._find_data(peeked.step, peeked.shared["objects"].get("data"))
        if self._followed is not None:
            self._followed.start(peeked.step, self._data)
        self._folder = tempfile.mkdtemp(prefix="dlckpt-trainer-")
        with open(os.path.join(self._folder, "trainer_state.json"), "w", encoding="utf-8") as file:
            json.dump(codec.decode(stored, _no_arrays), file)
        return self._folder

    def _find_data(self, step: int, stored: Any) -> Optional[Dict[str, Any]]:
        """The cursor of a checkpoint. A checkpoint made with --dl-batch is refused in a job without it, and the other way
        round, because the two count and order the samples differently."""
        data = None if stored is None else codec.mapping(codec.decode(stored, _no_arrays))
        if (data is None) != (self._followed is None) and self.job is not None:
            self.job.close()
            raise MismatchError("the checkpoint of train step %d was made %s --dl-batch, and this job is started %s it; allowed: as it was "
                                "begun" % ((step, "with", "without") if data is not None else (step, "without", "with")))
        return data

    def _follow_no_batch(self) -> None:
        if self._followed is not None:
            self._followed.undo()
        self._followed = self._data = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.job is None or self._trainer is None:
            raise InvalidError("DlckptCallback: start the training with trainer.train(resume_from_checkpoint=callback.resume(trainer))")
        trainer = self._trainer
        trainer.__dict__.pop("_load_from_checkpoint", None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        entries: List[Entry] = [entry("model", trainer.model), entry("optimizer", kwargs["optimizer"]),
                                entry("scheduler", kwargs["lr_scheduler"]), StatefulEntry("trainer", _TrainerState(trainer))]
        scaler = getattr(trainer.accelerator, "scaler", None)
        if scaler is not None:
            entries.append(entry("scaler", scaler))
        if self._followed is not None:
            entries.append(entry("data", self._followed.batches))
        # Before its first train step the Trainer draws random numbers (for the order of the data). check() in on_step_begin()
        # restores the generators afterwards.
        entries += [DefaultRandomEntry("default random generators", None), self._fetched]
        self.job._start(entries, self._strict)
        if self._followed is not None:
            self._followed.restored(kwargs["optimizer"], kwargs["lr_scheduler"], self._data if self.job.restored else None)
        if self.job.restored and self.job.train_step != state.global_step:
            raise InternalError("the Trainer goes on at train step %d, the checkpoint is of %d" %
                                (state.global_step, self.job.train_step))
        if self.job.restored and state.global_step >= state.max_steps:
            # The training is done already, but the Trainer compares with max_steps only after a train step.
            trainer._run_epoch = lambda *_args, **_kwargs: None
            control.should_training_stop = True

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # This is not done at the end of the former step, because that step's logs and evaluations come later and belong into
        # the checkpoint.
        if self.job is None:
            return
        self.job.train_step = state.global_step
        try:
            self.job.check()
        except SystemExit:
            self.job = None
            self._trainer.callback_handler.on_train_end(args, state, control)
            self._follow_no_batch()
            raise
        self._fetched.begin_step()
        if self._followed is not None:
            self._followed.begin_step(kwargs.get("lr_scheduler"))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._followed is not None and self.job is not None:
            self._followed.end_step(state, control)

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._fetched.begin_epoch()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.job is not None:
            self._trainer.__dict__.pop("_run_epoch", None)
            self.job.train_step = state.global_step
            self.job.finish()
            self.job = None
            self._follow_no_batch()


class _FetchedEntry(Entry):
    """The states of the random generators before each batch that was fetched but not trained on yet: the batches of the train
    step that begins, and one more, which Accelerate fetches ahead. A resumed training fetches these batches again, with the
    same random numbers."""

    per_rank = True
    ahead = 1  # number of batches that are fetched ahead

    def __init__(self) -> None:
        super().__init__("generators before fetched batches", None)
        self._generators = DefaultRandomEntry("", None)
        self._before: List[Any] = []
        self._again: List[Any] = []

    def watch(self, trainer: Any) -> None:
        """Makes the loader of the training (not those of evaluations) report each batch that it makes."""
        trainer.__dict__.pop("get_train_dataloader", None)
        original = trainer.get_train_dataloader

        def get_train_dataloader() -> Any:
            collate = trainer.data_collator

            def watched(items: Any) -> Any:
                if torch.utils.data.get_worker_info() is None:
                    if self._again:
                        self._generators.set(self._again.pop(0))
                    self._before.append(self._generators.now())
                return collate(items)

            trainer.data_collator = watched
            try:
                return original()
            finally:
                trainer.data_collator = collate

        trainer.get_train_dataloader = get_train_dataloader

    def begin_step(self) -> None:
        del self._before[:len(self._before) - self.ahead]

    def begin_epoch(self) -> None:
        self._before.clear()

    def capture(self) -> Any:
        return list(self._before)

    def apply(self, state: Any) -> None:
        self._again = list(state)


class _TrainerState:
    """The Trainer's own state. train() itself restores it, from the file that resume() makes."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> Dict[str, Any]:
        state = self._trainer.state
        callbacks: Dict[str, Any] = {}
        for callback in self._trainer.callback_handler.callbacks + [self._trainer.control]:
            if isinstance(callback, ExportableState):
                callbacks.setdefault(type(callback).__name__, []).append(callback.state())
        fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        fields["stateful_callbacks"] = {name: states[0] if len(states) == 1 else states for name, states in callbacks.items()}
        return dict(json.loads(json.dumps(fields)))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        pass


def _no_arrays(reference: Dict[str, Any]) -> Any:
    raise MismatchError("the Trainer's state in the checkpoint holds an array, which DlckptCallback does not write there; it was "
                        "changed by another program")


__all__ = ["DlckptCallback"]
