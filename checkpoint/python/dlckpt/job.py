# SPDX-License-Identifier: Apache-2.0
"""attach() and Job: checkpoints for a training loop in two lines."""
from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import library
from .context import Context
from .errors import Error, InternalError, InvalidError, MismatchError, StateError
from .objects import DefaultRandomEntry, Entry, entry
from .settings import Every, find_settings
from .signals import StopSignals
from .store import Peeked, Store, peek
from .world import World, find_run_id, find_world

EXIT_SAVED = 75
EXIT_NOT_SAVED = 76


def say(text: str) -> None:
    """How dlckpt tells the user something: a line on standard error. Replace it with dlckpt.set_log()."""
    print("dlckpt: " + text, file=sys.stderr, flush=True)


_log: Callable[[str], None] = say


def set_log(log: Optional[Callable[[str], None]]) -> None:
    """Sends dlckpt's sentences to a function of yours; None: back to standard error."""
    global _log
    _log = log or say


def attach(*, dir: Optional[str] = None, every: Every = None, keep: int = 0, rng: bool = True, strict: bool = True,
           final_save: bool = True, rank: Optional[int] = None, world_size: Optional[int] = None, run_id: Optional[str] = None,
           timeout: float = 0.0, arrays: Optional[Dict[str, Any]] = None, **objects: Any) -> "Job":
    """Attaches a program's state to its checkpoint directory, and restores the newest checkpoint there, if there is one.

    **objects     what makes up the state, each under a name of your choice (it names the state in the checkpoint): modules
                  (wrapped in DistributedDataParallel or not), optimizers, schedulers, GlobalBatches, anything with state_dict()
                  and load_state_dict() whose state is made of plain values and arrays, arrays and tensors, dlckpt.Shard,
                  random generators, dlckpt.PerRank. Plain values: put them into ``job.state``, a dict.
    arrays        a dict of arrays, restored in place; the same as an object named "arrays"
    dir           checkpoint directory, made if missing (its parent must exist); all learners must see it. What was asked for
                  at submission wins: DL_CHECKPOINT_DIR or DL_CHECKPOINT, then this, then CHECKPOINT_DIR. Without any,
                  training runs without saving, and says so once.
    every         how often to save: "10m", seconds, or "50steps". every= of --dl-checkpoint wins. Train steps work anywhere;
                  by time, dlrun does it if it was told at submission, and here it works for a single learner without dlrun.
    keep          how many checkpoints to keep (0: keep= of --dl-checkpoint, else 3)
    rng           save and restore the default random generators of Python, NumPy and torch, for each learner
    strict        refuse a checkpoint that lacks a named object, or has one more; False: say so and go on
    final_save    save when steps() comes to its end
    rank, world_size, run_id, timeout    instead of what the launcher set in the environment; see dlckpt.h. Seconds.

    Replicated state (modules, optimizers, arrays, job.state) must be the same on all learners; learner 0's is what counts.
    With the same world size training continues bit for bit as if it had not been interrupted, where the program itself is
    deterministic. With another, nothing is lost or repeated, but random numbers and the order of sums differ.

    Collective: all learners call it. Call it after the model is on its device and before the first train step.

    Raises StateError for state that cannot be stored, at once and not at the first save; BusyError if another job uses the
    directory; DeniedError; MismatchError, with nothing changed, if the checkpoint there does not fit the program;
    CorruptError if there are checkpoints but none verifies; LibraryError if there is a directory but no libdlckpt.
    """
    if arrays is not None:
        if "arrays" in objects or not isinstance(arrays, dict):
            raise InvalidError("attach(arrays=...) takes a dict of arrays")
        objects["arrays"] = arrays
    for name in ("state",):
        if name in objects:
            raise InvalidError("attach(%s=...): this name is used by job.state; choose another" % name)
    entries: List[Entry] = [entry(name, value) for name, value in objects.items() if value is not None]
    if rng:
        entries.append(DefaultRandomEntry("default random generators", None))
    job = open_job(find_world(rank, world_size), dir=dir, every=every, keep=keep, final_save=final_save, run_id=run_id,
                   timeout=timeout)
    job._start(entries, strict)
    return job


def open_job(world: World, *, dir: Optional[str], every: Every, keep: int, final_save: bool, run_id: Optional[str],
             timeout: float) -> "Job":
    """A job whose directory is open and which knows no objects yet; for attach() and for the adapters of frameworks."""
    settings = find_settings(dir, every, keep)
    job = Job(world, final_save)
    if settings.dir is None:
        job._say("no checkpoint directory (--dl-checkpoint, DL_CHECKPOINT_DIR or attach(dir=...)): training without saving")
        return job
    if settings.remark:
        job._say(settings.remark)
    job._dir = settings.dir
    job._context = Context(settings.dir, rank=world.rank, world_size=world.size, run_id=run_id or find_run_id(world),
                           every_s=settings.interval.seconds, every_steps=settings.interval.steps, keep=settings.keep,
                           timeout_s=timeout)
    if settings.interval.seconds and os.environ.get("DL_PROGRESS"):
        job._say("every= by time is for dlrun to do, so that all learners save at the same train step: ask for it at submission "
                 "(--dl-checkpoint=PATH,every=10m), or use train steps (every='50steps')")
    elif settings.interval.seconds and world.size > 1:
        job._say("every= by time needs dlrun where there are several learners; use every='50steps' or the like")
    return job


class Job:
    """A training job with its checkpoints; made by attach(). Use it from one thread.

    state       a dict of your own plain values and arrays, saved with the rest. The same on all learners.
    train_step  the next train step to run = how many are done
    world       (rank, size)
    """

    def __init__(self, world: World, final_save: bool) -> None:
        self.state: Dict[str, Any] = {}
        self.train_step = 0
        self.world = world
        self.restored = False
        self._entries: List[Entry] = []
        self._dir = ""
        self._final_save = final_save
        self._context: Optional[Context] = None
        self._store: Optional[Store] = None
        self._signals: Optional[StopSignals] = None
        self._saved_step = -1
        self._in_steps = False

    # ---- the loop ------------------------------------------------------------------------------------------------------

    def steps(self, total: int) -> Iterator[int]:
        """Yields the train steps that are still to be run, from the restored one to total - 1.

        Between two train steps it saves when that is due, and when the job is asked to stop (preemption, time limit, dlctl
        pause; SIGTERM or Ctrl-C to a single learner without dlrun) it saves and raises SystemExit: 75 if the state was saved,
        76 if not, so that dlrun or Slurm can put the job back into the queue. At the end it saves once more.

        A periodic save that fails (disk full, say) is told and training goes on, for the next may succeed and the last good
        checkpoint is still there. A final save that fails raises, for its result would be lost in silence; NoSpaceError,
        IoError and so on, all dlckpt.Error.

        If you leave the loop by ``break``, call finish() afterwards."""
        if self._in_steps:
            raise InvalidError("job.steps() is already being iterated over")
        self._in_steps = True
        try:
            while self.train_step < total:
                self.check()
                yield self.train_step
                self.step_done()
        finally:
            self._in_steps = False
        self.finish()

    def check(self) -> None:
        """Between two train steps: saves or stops if that is due. steps() calls it; call it in a loop of your own, with
        step_done() after each train step, and finish() at the end. All learners must call it with the same train step."""
        if self._context is None:
            return
        if self._signals is None:
            # Not before: dlrun ends a learner that has not come to its first train step by SIGTERM, as it has nothing to save.
            self._signals = StopSignals(bool(os.environ.get("DL_PROGRESS")), self.world.size == 1, self._say)
        wanted = self._context.want(self.train_step)
        signalled = self._signals.requested is not None
        if not wanted and not signalled:
            return
        saved = False
        if wanted & library.WANT_SAVE or signalled:
            saved = self._try_save()
        if wanted & library.WANT_EXIT:
            self._stop(self._context.exit_code())
        if signalled:
            self._stop(EXIT_SAVED if saved else EXIT_NOT_SAVED)

    def step_done(self) -> None:
        """Counts a train step. Objects with a method step_done(), such as GlobalBatches, are told."""
        self.train_step += 1
        for item in self._entries:
            told = getattr(item.value, "step_done", None)
            if callable(told):
                told()

    def finish(self) -> None:
        """Saves the final state, unless attach(final_save=False), tells dlrun that training is done, and lets go of the
        directory. May be called again. Raises if the save fails."""
        if self._context is None:
            return
        try:
            if self._final_save:
                self._save()
            self._context.finished()
        finally:
            self._keep_ignoring()
            self.close()

    def save(self) -> None:
        """Collective. Saves now, as the checkpoint of ``train_step``. Raises dlckpt.Error if it fails; nothing is committed
        then. Without a checkpoint directory it does nothing."""
        if self._context is not None:
            self._save()

    def close(self) -> None:
        """Lets go of the checkpoint directory and puts the signals back, without saving. May be called again."""
        if self._signals is not None:
            self._signals.restore()
        if self._context is not None:
            self._context.close()
        self._context = self._store = self._signals = None
        atexit.unregister(self.close)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # ---- inside --------------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        if self.world.rank == 0:
            _log(text)

    def _start(self, entries: List[Entry], strict: bool) -> None:
        """Takes the objects in, and restores them if there is a checkpoint. Lets go of the directory on an error."""
        self._entries = entries
        if self._context is None:
            return
        store = Store(self._context, self.world, entries, self.state, strict)
        try:
            store.encode(0)  # what cannot be stored is refused now, not after hours at the first save
            restored = store.restore()
        except MismatchError as error:
            self.close()
            raise MismatchError("%s: %s" % (self._dir, error)) from error
        except BaseException:
            self.close()
            raise
        if restored is not None:
            self.restored = True
            self.train_step = self._saved_step = restored.step
            for note in restored.notes:
                self._say(note)
            learners = "" if restored.world_size == self.world.size else " (saved by %d learners, now %d)" % (
                restored.world_size, self.world.size)
            self._say("resumed at train step %d from %s%s" % (restored.step, self._dir, learners))
        self._store = store
        # Before the interpreter takes modules apart: a context that is closed late could not give up its lease.
        atexit.register(self.close)

    def _peek(self) -> Optional[Peeked]:
        """Collective. What the newest checkpoint that verifies says, before any object is known; None if there is none."""
        return None if self._context is None else peek(self._context)

    def _save(self) -> None:
        if self._store is None:
            raise InternalError("no store")
        self._store.save(self.train_step)
        self._saved_step = self.train_step

    def _try_save(self) -> bool:
        try:
            self._save()
            return True
        except (StateError, InvalidError):
            raise  # the program's own mistake: it would fail each time
        except Error as error:
            kept = "train step %d is the newest that is saved" % self._saved_step if self._saved_step >= 0 else \
                "nothing is saved so far"
            self._say("train step %d was not saved: %s (%s); %s" % (self.train_step, error, error.name, kept))
            return False

    def _stop(self, code: int) -> None:
        step = self.train_step
        saved = "saved" if code == EXIT_SAVED else "not saved"
        self._say("stopping at train step %d, %s; exit status %d" % (step, saved, code))
        self._keep_ignoring()
        self.close()
        sys.stdout.flush()
        sys.exit(code)

    def _keep_ignoring(self) -> None:
        """Under dlrun what is ignored stays so for the rest of the process: a notice that Slurm sends to all processes must
        not end one that dlrun lets finish, nor turn the exit status of one that has just saved into that of a kill."""
        if self._signals is not None and self._signals.under_dlrun:
            self._signals = None
