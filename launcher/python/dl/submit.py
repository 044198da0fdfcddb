# SPDX-License-Identifier: Apache-2.0
"""dl.submit() and dl.map_array(): make a Slurm job of a function, with ``dlrun --submit``."""
import inspect
import json
import operator
import os
import re
import shutil
import sys
import tempfile
import time as clock
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar, Union

from . import call as files
from . import programs
from .errors import SubmitError
from .job import CALLS, Job

T = TypeVar("T")
Number = Union[int, str, "os.PathLike[str]"]

# Keywords of dl.submit(), and the options of dlrun with the same meaning and values.
DLRUN_OPTIONS = {
    "framework": "--framework", "learners": "--learners", "gpus": "--gpus", "servers": "--servers", "checkpoint": "--checkpoint",
    "restarts": "--restarts", "hang_timeout": "--hang-timeout", "preflight": "--preflight", "metrics": "--metrics",
    "image": "--image", "data": "--data", "results": "--results", "bind": "--bind", "time": "--time", "partition": "--partition",
    "account": "--account", "qos": "--qos", "cpus_per_task": "--cpus-per-task", "mem": "--mem",
}


def submit(function: Callable[..., T], *args: Any, kwargs: Optional[Dict[str, Any]] = None, name: Optional[str] = None,
           learners: Number = 1, gpus: Optional[Number] = None, checkpoint: Optional[str] = None, framework: Optional[str] = None,
           time: Optional[Number] = None, sbatch: Sequence[str] = (), python: Optional[str] = None, **options: Optional[Number]) -> Job[T]:
    """Submits a job in which each learner calls ``function(*args, **kwargs)``, and returns at once.

    function     a function of a module, a script or a notebook, a lambda, or a method; cloudpickle must be able to pickle it.
                 The learner imports the modules that it uses, and searches the same folders as this process.
    kwargs       keyword arguments for the function. The other keyword arguments of submit() are for the job.
    name         of the job; default: that of the function
    learners, gpus, checkpoint, framework, time, servers, restarts, hang_timeout, preflight, metrics, image, data, results,
    bind, partition, account, qos, cpus_per_task, mem
                 as the options of dlrun(1): numbers or text. A relative checkpoint lies in the working directory.
    sbatch       any other options of sbatch, each as it takes them: ("--exclusive", "--dl-tier=borrow")
    python       the interpreter that learners run; default: this one. It needs cloudpickle and the same version. A path must
                 be there where submit() is called, unless image is given; a name alone is looked for in the learners' PATH.

    Learners start in the working directory of this process. Raises SubmitError if the job was refused, and TypeError for an
    unknown option.
    """
    return _submit(function, [args], None, kwargs, name, python, sbatch,
                   dict(options, learners=learners, gpus=gpus, checkpoint=checkpoint, framework=framework, time=time))[0]


def map_array(function: Callable[..., T], *items: Iterable[Any], at_once: Optional[int] = None, kwargs: Optional[Dict[str, Any]] = None,
              name: Optional[str] = None, learners: Number = 1, gpus: Optional[Number] = None, framework: Optional[str] = None,
              time: Optional[Number] = None, sbatch: Sequence[str] = (), python: Optional[str] = None,
              **options: Optional[Number]) -> List[Job[T]]:
    """Submits one job for each item, all as one job array: element i calls ``function(items[i])``.

    Several iterables give several arguments, as with map(); the shortest one determines the number of jobs.
    at_once      how many of the jobs may run at the same time; default: no limit
    The other arguments are those of submit(). Returns the jobs in the order of the items; none for no items.
    """
    arguments = list(zip(*items))
    if not items:
        raise TypeError("dl.map_array: there are no items; it is called as dl.map_array(function, items)")
    if at_once is not None and at_once < 1:
        raise SubmitError(f"at_once: {at_once} is less than 1; it is how many of the jobs may run at a time")
    if not arguments:
        return []
    array = f"--array=0-{len(arguments) - 1}" + (f"%{at_once}" if at_once else "")
    return _submit(function, arguments, array, kwargs, name, python, sbatch,
                   dict(options, learners=learners, gpus=gpus, framework=framework, time=time))


def _name_of(function: Any) -> str:
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    name = str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<lambda>", "lambda").replace("<locals>.", "")
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[-60:].lstrip(".-") or "call"


def _options(options: Dict[str, Optional[Number]], sbatch: Sequence[str]) -> List[str]:
    words: List[str] = []
    for key, value in options.items():
        if key not in DLRUN_OPTIONS:
            raise TypeError(f"dl.submit() has no option '{key}'; it has {', '.join(sorted(DLRUN_OPTIONS))}, and sbatch=(\"--option=value\",) "
                            "for what only sbatch knows; keyword arguments of the function go into kwargs={...}")
        if value is None:
            continue
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        elif not isinstance(value, (str, bool)) and hasattr(value, "__index__"):
            value = operator.index(value)  # whole numbers of NumPy's, too
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TypeError(f"dl.submit(): {key} is {value!r}; it takes a number or text, as dlrun's option {DLRUN_OPTIONS[key]} does")
        if key == "checkpoint":
            value = _beside(os.getcwd(), str(value))
        if key == "metrics":
            value = " || ".join(_events_beside(os.getcwd(), part) for part in str(value).split(" || "))
        if key in ("data", "results") and re.match(r'[^/~@:"]+(/|,|$)', str(value)):
            value = os.path.join(os.getcwd().replace("%", "%%") if key == "results" else os.getcwd(), str(value))
        if key == "image":
            value = os.path.join(os.getcwd(), os.path.expanduser(str(value)))
        words.append(f"{DLRUN_OPTIONS[key]}={value}")
    if isinstance(sbatch, str):
        raise TypeError(f"dl.submit(): sbatch is the text {sbatch!r}; it takes a list of options: sbatch=[{sbatch!r}]")
    for option in sbatch:
        if re.match(r"(--array|-a)\b", str(option)):
            raise SubmitError(f"sbatch=[{option!r}]: a job array is made by dl.map_array(function, items), which gives each element its own arguments")
        words.append(f"--sbatch={option}")
    return words


def _beside(folder: str, checkpoint: str) -> str:
    """PATH[,options] with the path below the folder, in the form that dlrun reads; dlrun itself runs in another
    folder."""
    path, comma, rest = checkpoint.partition(",")
    if path.startswith(("/", "~", '"')):
        return checkpoint
    whole = folder.replace("%", "%%") + "/" + path
    if not re.search(r'[,$`"\\]', folder):
        return whole + comma + rest
    # Such a folder has to be quoted, and within quotes names of the job are not expanded.
    if "%" in path:
        raise SubmitError(f"checkpoint={checkpoint!r}: names of the job cannot stand in a relative path here, since the working directory "
                          f"'{folder}' holds one of , $ ` \" \\; give an absolute path")
    return '"' + re.sub(r'(["\\])', r"\\\1", os.path.join(folder, path)) + '"' + comma + rest


def _events_beside(folder: str, part: str) -> str:
    """A part of ``metrics`` that names a relative folder of event files, "events:DIR", with the path below the folder:
    the learners' working directory, which is not that of dlrun."""
    path = part.strip().partition("events:")[2]
    if not part.strip().startswith("events:") or path.startswith(("/", "~", " ")) or not path or "%{" in path or "(?" in path:
        return part
    return "events:" + folder.replace("%", "%%") + "/" + path


def _pickled(function: Any, arguments: List[Tuple[Any, ...]], kwargs: Dict[str, Any]) -> Tuple[bytes, List[bytes]]:
    pickler = files.cloudpickle()
    what = f"the function {_name_of(function)} and its keyword arguments"
    try:
        code = pickler.dumps((function, kwargs), protocol=4)
        items: List[bytes] = []
        for what in ("the arguments" if len(arguments) == 1 else f"item {i}" for i in range(len(arguments))):
            items.append(pickler.dumps(arguments[len(items)], protocol=4))
    except Exception as error:
        raise SubmitError(f"{what} cannot be pickled, so no job can have it: {type(error).__name__}: {error}; " "open files, locks and the like within the function") from error
    return code, items


def _interpreter(python: Optional[str], in_image: bool) -> str:
    """The interpreter for learners. A relative path is below the working directory, since dlrun runs in the folder of
    the call. A name alone is looked for in the learners' PATH."""
    if python is None:
        return sys.executable
    python = os.path.expanduser(os.fspath(python))
    if os.sep not in python:
        return python
    path = os.path.abspath(python)
    if not in_image and not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise SubmitError(f"python={python!r}: {path} " + ("cannot be run" if os.path.exists(path) else "is not there")
                          + "; it takes the path of an interpreter, or a name alone, such as \"python3\", which is looked for where learners run")
    return path


def _new_folder(name: str) -> str:
    """Makes a folder for this call, which other users cannot read."""
    prefix = clock.strftime(f"{name}-%Y%m%d-%H%M%S-")
    try:
        os.makedirs(CALLS, mode=0o700, exist_ok=True)
        return os.path.abspath(tempfile.mkdtemp(prefix=prefix, dir=CALLS))
    except OSError as error:
        raise SubmitError(f"the call cannot be kept in {os.path.abspath(CALLS)}: {error.strerror}; submit from a folder that you can write to "
                          "(os.chdir), which learners see, too") from error


def _submit(function: Callable[..., Any], arguments: List[Tuple[Any, ...]], array: Optional[str], kwargs: Optional[Dict[str, Any]],
            name: Optional[str], python: Optional[str], sbatch: Sequence[str], options: Dict[str, Optional[Number]]) -> List[Job[Any]]:
    if not callable(function):
        raise TypeError(f"dl.submit(): {function!r} cannot be called; the first argument is the function that learners run")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SubmitError(f"{_name_of(function)} is an async function or a generator, which a call alone does not run; submit a function that runs it: "
                          "lambda: asyncio.run(f()), or lambda: list(f())")
    words = _options(options, sbatch)
    if array is not None:
        words.append(f"--sbatch={array}")
    interpreter = _interpreter(python, any(re.match(r"--(dl-)?image\b", word.partition("--sbatch=")[2] or word) for word in words))
    code, items = _pickled(function, arguments, dict(kwargs or {}))
    folder = _new_folder(_name_of(function))
    try:
        call = {"format": files.FORMAT, "items": None if array is None else len(items), "function": _name_of(function),
                "python": files.python_version(), "submitted_ms": int(clock.time() * 1000), "cwd": os.getcwd(),
                "path": [os.path.abspath(entry) for entry in sys.path if os.path.isdir(entry or os.curdir)]}
        # A learner may start before this process gets the job's id, so the files that learners read are written before.
        try:
            files.write(os.path.join(folder, files.FUNCTION), code)
            for i, item in enumerate(items):
                os.mkdir(files.item_folder(folder, i), 0o700)
                files.write(os.path.join(files.item_folder(folder, i), files.ARGS), item)
            files.write(os.path.join(folder, files.DRAFT), json.dumps(call).encode())
        except OSError as error:
            raise SubmitError(f"the call cannot be written into {folder}: {error.strerror}") from error
        job_id = _run_dlrun(folder, words + [f"--job-name={name or _name_of(function)}"], interpreter)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        files.write(os.path.join(folder, files.CALL), json.dumps({**call, "job_id": job_id}).encode())
    except OSError as error:
        # Without this file, nobody could find the job again.
        ended = programs.run(["scancel", job_id]).returncode == 0
        shutil.rmtree(folder, ignore_errors=True)
        raise SubmitError(f"job {job_id} was submitted, " + ("and is cancelled again" if ended else "and could not be cancelled (scancel)")
                          + f": {os.path.join(folder, files.CALL)} cannot be written: {error.strerror}") from error
    return [Job(folder, item) for item in range(len(items))]


def _run_dlrun(folder: str, words: List[str], python: str) -> str:
    """Runs dlrun, and returns Slurm's id of the submitted job."""
    if not shutil.which("sbatch"):
        raise SubmitError("there is no Slurm here (no sbatch in PATH); dl.submit() needs a cluster, and dlrun(1) runs learners without one")
    try:
        done = programs.run(["dlrun", "--submit", "--quiet", "--json"] + words + ["--", python, "-m", "dl.run", folder], cwd=folder)
    except programs.NoProgram as error:
        raise SubmitError(str(error)) from None
    if done.returncode != 0:
        raise SubmitError(re.sub(r"(^|; )dlrun: ", r"\1", programs.complaint(done)))
    try:
        return str(json.loads(done.stdout)["job_id"])
    except (ValueError, KeyError, TypeError):
        raise SubmitError(f"the output of dlrun --submit is not JSON: {done.stdout.strip() or programs.complaint(done)}; dlrun and this "
                          f"package must be of one version of slurm-dl") from None
