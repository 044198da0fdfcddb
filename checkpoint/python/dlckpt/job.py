# SPDX-License-Identifier: Apache-2.0
"""attach() and Job: checkpoints for a training loop in two lines."""
from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, Union

from . import arguments as allowed, codec, library
from .attached import Attached, Peeked, peek
from .context import Context, SaveStats
from .entries import Entry
from .errors import Error, InternalError, InvalidError, MismatchError, StateError, error_for
from .log import say
from .objects import DefaultRandomEntry, OptimizerEntry, RandomEntry, entry
from .progress import Progress
from .run_id import find_run_id
from .settings import Every, find_settings
from .signals import StopSignals
from .turns import all_in_turn, in_turn
from .world import World, find_world

EXIT_SAVED = 75
EXIT_NOT_SAVED = 76


def attach(*, dir: Optional[str] = None, every: Every = None, keep: int = 0, rng: bool = True, strict: bool = True,
           final_save: bool = True, rank: Optional[int] = None, world_size: Optional[int] = None, run_id: Optional[str] = None,
           timeout: float = 0.0, mode: Optional[str] = None, keep_every: int = 0, best: Optional[str] = None,
           arrays: Optional[Dict[str, Any]] = None, **objects: Any) -> "Job":
    """Attaches a program's state to its checkpoint directory, and restores the newest checkpoint there, if there is one.

    **objects     what makes up the state, each under a name of your choice (it names the state in the checkpoint): modules
                  (wrapped in DistributedDataParallel or not), optimizers, schedulers, GlobalBatches, anything with state_dict()
                  and load_state_dict() whose state is made of plain values and arrays, arrays and tensors and nested dicts and lists of them (also DTensors, as
                  FSDP has them), dlckpt.Shard, pytrees of JAX (job["name"] is the restored one), models, optimizers and
                  variables of Keras and TensorFlow, random generators, dlckpt.PerRank. Plain values: put them into
                  ``job.state``, a dict.
    arrays        a dict of arrays, restored in place; the same as an object named "arrays"
    dir           checkpoint directory, created if missing (its parent must exist); all learners must see it. The directory named
                  at submission comes first (DL_CHECKPOINT_DIR or DL_CHECKPOINT), then this one, then CHECKPOINT_DIR. Without
                  any, training runs without saving, and says so once.
    every         how often to save: "10m", seconds, "50steps", or "auto" (computed from the cost of saves; libdlckpt(3)). every=
                  of --dl-checkpoint comes first. Train steps work anywhere. By time, dlrun decides if a time was given at
                  submission; without dlrun learner 0's clock decides.
    keep          how many checkpoints to keep (0: keep= of --dl-checkpoint, else 3)
    keep_every    checkpoints of train steps divisible by this are kept as well
    best          the best checkpoints by a metric that job.metric() gives are kept as well: "loss:min:2"
    mode          "async": a save lasts until the state is copied, and is written in the background. "lazy": the state is copied in
                  the background, too, and the attached torch optimizers wait before their step() until that is done (state that
                  they do not change is copied at once). "sync": a save lasts until the checkpoint is durable.
                  DL_CHECKPOINT_MODE comes first; default async
    rng           save and restore the default random generators of Python, NumPy and torch, for each learner. attach() restores
                  them at once, and steps() (or the first check()) again, so draws in between have no effect. Therefore set-up
                  that must be the same at each start, such as a random split of the data, belongs before attach()
    strict        refuse a checkpoint that lacks a named object, or has another one; False: report it and go on
    final_save    save when steps() ends
    rank, world_size, run_id, timeout (in seconds)    replace the values that the launcher set in the environment; see dlckpt.h

    Replicated state (modules, optimizers, arrays, job.state) must be the same on all learners; learner 0's is the one that is saved.
    With the same world size training continues bit for bit as if it had not been interrupted, if the program itself is
    deterministic. With another size, nothing is lost or repeated, but random numbers and the order of sums differ.

    Collective: all learners call it. Call it after the model is on its device and before the first train step.

    Raises StateError for state that cannot be stored, at once and not at the first save; BusyError if another job uses the
    directory; DeniedError; MismatchError, with nothing changed, if the checkpoint there does not fit the program;
    CorruptError if there are checkpoints but none verifies; LibraryError if there is a directory but no libdlckpt.
    """
    if arrays is not None:
        if "arrays" in objects or not isinstance(arrays, dict):
            raise InvalidError("attach(arrays=...) was given a %s; allowed: a dict of arrays" % type(arrays).__name__)
        objects["arrays"] = arrays
    if "state" in objects:
        raise InvalidError("attach(state=...): the name 'state' is used by job.state; choose another")
    rng, strict = allowed.flag("rng", rng), allowed.flag("strict", strict)
    for name in objects:
        codec.check_name(name)
    entries: List[Entry] = [entry(name, value) for name, value in objects.items() if value is not None]
    entries += [DefaultRandomEntry("default random generators", None)] if rng else []
    job = open_job(find_world(rank, world_size), dir=dir, every=every, keep=keep, final_save=final_save, run_id=run_id,
                   timeout=timeout, mode=mode, keep_every=keep_every, best=best)
    job._start(entries, strict)
    return job


def open_job(world: World, *, dir: Optional[str], every: Every, keep: int, final_save: bool, run_id: Optional[str],
             timeout: float, mode: Optional[str] = None, keep_every: int = 0, best: Optional[str] = None) -> "Job":
    """A job whose directory is open, but which has no objects yet; for attach() and for the adapters of frameworks."""
    settings, given = find_settings(dir, every, keep, mode), allowed.of_context(run_id, timeout, keep_every, best)
    job = Job(world, allowed.flag("final_save", final_save), settings.mode)
    if settings.dir is None:
        job._say("no checkpoint directory (--dl-checkpoint, DL_CHECKPOINT_DIR or attach(dir=...)): training without saving")
        return job
    if settings.remark:
        job._say(settings.remark)
    job._dir = settings.dir
    given.update(run_id=run_id or find_run_id(world), keep=settings.keep)
    job._context = Context(settings.dir, rank=world.rank, world_size=world.size, every_s=settings.interval.seconds,
                           every_steps=settings.interval.steps, **given)
    if settings.interval.seconds and not settings.every_asked and os.environ.get("DL_PROGRESS"):
        job._say("every=%r has no effect here: dlrun alone saves by time, so that all learners save at the same train step. "
                 "Ask for it at submission (--dl-checkpoint=PATH,every=10m), or give train steps (every='50steps')" % (every,))
    return job


class Job(Progress):
    """A training job with its checkpoints; made by attach(). If several threads use it, one call waits for another.
    state       a dict of your own plain values and arrays, saved with the rest. The same on all learners.
    train_step  the next train step to run = how many are done
    world       (rank, size)
    And batch, local_batch, accumulation, lr_scale and samples, of progress.py.
    """

    def __init__(self, world: World, final_save: bool, mode: str = "async") -> None:
        super().__init__(world)
        self.state: Dict[str, Any] = {}
        self.restored = False
        self._dir = ""
        self._final_save = final_save
        self._context: Optional[Context] = None
        self._attached: Optional[Attached] = None
        self._signals: Optional[StopSignals] = None
        self._mode = mode
        self._unhook: List[Callable[[], None]] = []
        self._files: Dict[str, Tuple[str, bool]] = {}
        self._strict = True
        self._failures = 0  # number of failed background saves that were reported so far
        self._saved_step = self._restored_step = -1
        self._told_noise: Optional[float] = None
        self._in_steps = False
        self._closed, self._unusable = False, ""  # after a restore that failed, _unusable is the reason
        self._last_stats: Optional[SaveStats] = None  # set when the job is closed

    # ---- the loop ------------------------------------------------------------------------------------------------------

    def steps(self, total: Optional[int] = None) -> Iterator[int]:
        """Yields the train steps that are still to be run, from the restored one to total - 1, or without a number until an attached
        GlobalBatches has been trained on for all its ``epochs``: as many samples at any size of batch.

        Between two train steps it saves when that is due, and when the job is asked to stop (preemption, time limit, dlctl
        pause; SIGTERM or Ctrl-C to a single learner without dlrun) it saves and raises SystemExit: 75 if the state was saved,
        76 if not, so that dlrun or Slurm can put the job back into the queue. At the end it saves once more.

        A periodic save that fails (for example because the disk is full) is reported when that is known, and training goes on: the
        next save may succeed, and the last good checkpoint still exists. A final save that fails raises an error, because its result
        would otherwise be lost unnoticed: NoSpaceError, IoError and so on, all derived from dlckpt.Error.

        After a restore the random generators are restored when the first train step begins, so that draws of the program
        between attach() and the loop (iter() of a DataLoader makes some) change nothing. If you leave the loop by ``break``, call
        finish(); the train step in which a loop is left does not count as done, unless you call step_done() before. So write
        zip(job.steps(total), loader), and not the other way round."""
        if self._in_steps:
            raise InvalidError("job.steps() is already being iterated over; allowed: one loop at a time")
        batches = self._batches
        if total is None and (batches is None or batches.total_samples is None):
            raise InvalidError("job.steps() without a number needs a GlobalBatches(..., epochs=N) among what attach() was given")
        end = None if total is None else allowed.train_steps("total", total)
        self._in_steps = True
        try:
            while (end is None or self.train_step < end) and not (batches is not None and batches.done):
                self.check()
                yield self.train_step
                self.step_done()
        finally:
            self._in_steps = False
        self.finish()

    def check(self) -> None:
        """Saves or stops between two train steps if that is due. steps() calls it. In a loop of your own, call it before each
        train step, call step_done() after each, and finish() at the end. All learners must call it with the same train step."""
        self._must_be_usable()
        if self._context is None:
            return self._must_not_be_closed()
        self._give_random_back()
        self._tell_failures()
        self._tell_noise()
        if self._signals is None:
            # Not earlier: until its first train step a learner has nothing to save, and dlrun ends it by SIGTERM.
            self._signals = StopSignals(bool(os.environ.get("DL_PROGRESS")), self.world.size == 1, self._say)
        wanted = self._context.want(self.train_step)
        signalled = self._signals.requested is not None
        if not wanted and not signalled:
            return
        saved = False
        if wanted & library.WANT_SAVE or signalled:
            saved = self._try_save(last=bool(wanted & library.WANT_EXIT) or signalled)
        if wanted & library.WANT_EXIT:
            self._stop(self._context.exit_code())
        if signalled:
            self._stop(EXIT_SAVED if saved else EXIT_NOT_SAVED)

    def finish(self) -> None:
        """Saves the final state, unless attach(final_save=False), tells dlrun that training is done, and releases the
        directory. May be called again. Raises if the save fails."""
        self._must_be_usable()
        if self._context is None:
            return
        try:
            if self._final_save:
                self._save(library.SYNC)
            else:
                self._settle()
            self._context.finished()
        finally:
            self._keep_ignoring()
            self.close()

    def __getitem__(self, name: str) -> Any:
        """The object attached under this name. For a pytree of JAX: the restored one, or the one that was assigned last."""
        return self._entry(name).value

    def __setitem__(self, name: str, value: Any) -> None:
        """Replaces a pytree of JAX, whose arrays are immutable, by one of the same structure, which the next save then saves.
        InvalidError for an object of another kind: change that in place instead."""
        found = self._entry(name)
        if type(found).__name__ != "TreeEntry":
            raise InvalidError("job['%s'] cannot be replaced, since attach() saves the object that it was given: change that one in "
                               "place" % name)
        found.value = value

    def _entry(self, name: str) -> Entry:
        for found in self._entries:
            if found.name == name:
                return found
        raise InvalidError("attach() was given no object named '%s'; it was given: %s" % (name, ", ".join(e.name for e in self._entries) or "none"))

    def save(self, *, wait: bool = True) -> None:
        """Collective. Saves now, as the checkpoint of ``train_step``. If it fails, it raises dlckpt.Error, and nothing is committed.
        With wait=False it saves as periodic saves do (``mode`` of attach()); wait() or the next check() reports the outcome.
        Without a directory it does nothing. InvalidError after close() and the loop's end, unless this step is saved already."""
        self._must_be_usable()
        wait = allowed.flag("wait", wait)
        if self._context is not None:
            self._save(library.SYNC if wait else self._flags())
        elif self._saved_step != self.train_step:
            self._must_not_be_closed()

    def wait(self, timeout: float = -1.0) -> int:
        """Waits until no save is in flight. Returns the newest durable train step, -1 if there is none. Raises the error of the
        last save, or WaitTimeoutError if it is still in flight after this time (negative: no time limit)."""
        timeout = allowed.seconds("timeout", timeout, allowed="a number of seconds; negative: no limit")
        if self._context is None:
            return self._saved_step
        self._saved_step = max(self._saved_step, self._context.wait(timeout))
        return self._saved_step

    @property
    @in_turn
    def stats(self) -> Optional[SaveStats]:
        """Numbers of the last finished save: bytes, time for which training was blocked, and so on; None without a directory."""
        return self._last_stats if self._context is None else self._context.stats()

    @property
    def saves(self) -> int:
        """The number of checkpoints that this job has committed since it was attached."""
        return self.stats.saves if self.stats else 0

    def metric(self, name: str, value: float) -> None:
        """Stores a number such as a validation loss with the next checkpoint, for ``best`` of attach(). Only learner 0's counts."""
        name, value = allowed.text("name", name), allowed.real("value", value)
        if self._context is not None:
            self._context.metric(name, value)

    def files(self, *, per_rank: bool = False, **paths: "Union[str, os.PathLike[str]]") -> None:
        """Adds files that the program writes itself, each under a name: every save copies their present content into the
        checkpoint, with checksums. If a checkpoint was restored, its files are put at these paths at once. Learner 0's files
        count, or with per_rank each learner's own. While a save is in flight they may be replaced, but not written to. May be
        called again for further files; the former ones stay as they are. Collective if a checkpoint was restored. MismatchError
        if that checkpoint lacks such a file, unless attach(strict=False)."""
        per_rank, named = allowed.flag("per_rank", per_rank), {name: allowed.path(name, path) for name, path in paths.items()}
        if self._context is None or self._attached is None:
            return
        # A restore puts all registered files back, and the program may have changed the former ones since.
        for name in self._files:
            self._context.forget(name)
        try:
            for name, path in named.items():
                self._context.member(name, path, per_rank=per_rank)
            if self.restored and self._saved_step == self.train_step:
                self._attached.restore_members(self.train_step)
        except MismatchError as error:
            if self._strict:
                for name in paths:
                    self._context.forget(name)
                raise
            self._say("%s; going on without (strict=False)" % error)
        finally:
            for name, (path, each) in self._files.items():
                if name not in paths:
                    self._context.member(name, path, per_rank=each)
        self._files.update({name: (path, per_rank) for name, path in named.items()})

    def close(self) -> None:
        """Releases the checkpoint directory and restores the signals, without saving. May be called again."""
        if self._signals is not None:
            self._signals.restore()
        if self._context is not None:
            self._closed = True
            with contextlib.suppress(Error):  # of the last save: reported before; a child of fork() may only close the context
                self.wait()
            with contextlib.suppress(Error):
                self._last_stats = self._context.stats()
            for undone in filter(None, [self._context.close()]):
                self._say(undone)
        for undo in self._unhook:
            undo()
        self._unhook, self._context, self._attached, self._signals = [], None, None, None
        atexit.unregister(self.close)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _say(self, text: str) -> None:
        if self.world.rank == 0:
            say(text)

    def _must_be_usable(self) -> None:
        if self._unusable:
            raise InvalidError(self._unusable)

    def _must_not_be_closed(self) -> None:
        if self._closed:
            raise InvalidError("this job has let go of its checkpoint directory, and saves nothing more: steps() came to its end, or finish() "
                               "or close() was called; attach() again")

    def _start(self, entries: List[Entry], strict: bool) -> None:
        """Takes the objects, and restores them if there is a checkpoint. On an error it releases the directory."""
        self._entries = entries
        self._strict = strict
        if self._context is None:
            return
        attached = Attached(self._context, self._dir, self.world, entries, self.state, strict)
        try:
            attached.prove()
            restored = attached.restore()
        except MismatchError as error:
            self.close()
            self._unusable = "this job was not restored and cannot be used: %s" % error
            raise MismatchError("%s: %s" % (self._dir, error)) from error
        except BaseException as error:
            self.close()
            self._unusable = "this job was not restored and cannot be used: %s" % error
            raise
        for remark in attached.remarks:
            self._say(remark)
        if restored is not None:
            self.restored = True
            self.train_step = self._saved_step = self._restored_step = restored.step
            for note in restored.notes:
                self._say(note)
            batch = self._take_progress(restored.progress)
            learners = "" if restored.world_size == self.world.size else " (saved by %d learners, now %d)" % (
                restored.world_size, self.world.size)
            self._say("resumed at train step %d from %s%s%s" % (restored.step, self._dir, learners, batch))
        self._attached = attached
        # This must run before the interpreter destroys modules: a context that is closed later could not release its lease.
        atexit.register(self.close)

    def _give_random_back(self) -> None:
        """Undoes what was drawn between the restore and the first train step; at later train steps it forgets the kept states."""
        for item in self._entries:
            if isinstance(item, RandomEntry):
                item.begin() if self.train_step == self._restored_step else item.let_go()

    def _peek(self) -> Optional[Peeked]:
        """Collective. The records of the newest checkpoint that verifies, before any object is known; None if there is none."""
        return None if self._context is None else peek(self._context)

    def _flags(self) -> int:
        return {"sync": library.SYNC, "lazy": library.LAZY}.get(self._mode, 0)

    def _save(self, flags: int) -> None:
        if self._attached is None:
            raise InternalError("job.save() was called before attach() opened the checkpoint directory")
        if self.train_step != self._restored_step:
            self._give_random_back()  # forgets the kept states
        self._attached.guarded = self._guarded() if flags & library.LAZY else None
        if flags & library.SYNC:
            self._settle()  # reports a failure of the save in flight, even if the new save raises
        self._attached.progress = self._progress()
        failed_before = self._attached.save(self.train_step, flags)
        if failed_before and self._context is not None:
            stats = self._context.stats()
            self._failures = stats.failed_saves
            if stats.outcome != library.OK and stats.step != self.train_step and not failed_before.startswith("objects="):
                self._tell_failure(stats.step, error_for(stats.outcome, failed_before))
            else:  # the reported save is this one, which has ended already; or none was, and the store failed
                self._say(failed_before if failed_before.startswith("objects=") else "a checkpoint was not saved: " + failed_before)
        if flags & library.SYNC:
            self._saved_step = self.train_step

    def _guarded(self) -> Optional[Set[int]]:
        """The addresses that a lazy save may read later: arrays that only the step() of the optimizers changes, which wait for it."""
        if self._context is None:
            return None
        optimizers = [item.value for item in self._entries if isinstance(item, OptimizerEntry)]
        guarded: Set[int] = set()
        for optimizer in optimizers:
            from . import torch_adapter
            guarded.update(torch_adapter.guarded_addresses(optimizer))
            if len(self._unhook) < len(optimizers):
                self._unhook.append(torch_adapter.before_step(optimizer, self._turns.taking(self._context.before_mutation)))
        return guarded

    def _try_save(self, last: bool) -> bool:
        """Makes a save that is due; if it is the last one, it is durable on return. False if it failed."""
        try:
            self._save(library.SYNC if last else self._flags())
            return True
        except (StateError, InvalidError):
            raise  # a mistake of the program, which would fail each time
        except Error as error:
            self._tell_failure(self.train_step, error)
            return False

    def _tell_failures(self) -> None:
        """Reports each failure of a background save once."""
        if self._context is None:
            return
        stats = self._context.stats()
        if stats.outcome == library.OK:
            self._saved_step = max(self._saved_step, stats.step)
        if stats.failed_saves > self._failures and stats.outcome != library.OK:
            error = self._context.last_error()
            if error.code == stats.outcome:  # otherwise the next save is in flight already, and its save() has reported this one
                self._tell_failure(stats.step, error)

    def _tell_noise(self) -> None:
        """Stores the noise with the next checkpoint, as a metric is; dlrun reads it to show how the job scales."""
        if self._context is not None and self._noise is not None and self._noise != self._told_noise:
            self._context.metric("noise_scale", self._noise)
            self._told_noise = self._noise

    def _settle(self) -> None:
        """Waits for the save in flight, and reports a failure instead of raising it."""
        if self._context is not None:
            with contextlib.suppress(Error):
                self._context.wait()
            self._tell_failures()

    def _tell_failure(self, step: int, error: Error) -> None:
        if self._context is not None:
            self._failures = self._context.stats().failed_saves
        kept = "train step %d is the newest that is saved" % self._saved_step if self._saved_step >= 0 else \
            "nothing is saved so far"
        self._say("train step %d was not saved: %s (%s); %s" % (step, error, error.name, kept))

    def _stop(self, code: int) -> None:
        self._say("stopping at train step %d, %s; exit status %d" % (self.train_step, "saved" if code == EXIT_SAVED else "not saved", code))
        self._keep_ignoring()
        self.close()
        sys.stdout.flush()
        sys.exit(code)

    def _keep_ignoring(self) -> None:
        """Under dlrun ignored signals stay ignored for the rest of the process: a signal that Slurm sends to all processes must
        not end a learner that dlrun lets finish, nor turn the exit status of one that has just saved into that of a kill."""
        if self._signals is not None and self._signals.under_dlrun:
            self._signals = None


all_in_turn(Job, "check", "finish", "save", "wait", "metric", "files", "close")
