# SPDX-License-Identifier: Apache-2.0
"""The files of a call. dl.submit() and dl.run write and read them; they are private to the package.

    FOLDER/submitting.json       what learners need to know about the call
    FOLDER/call.json             the same with the job's id, written last: without it, the call was never submitted
    FOLDER/function.pkl          the function and its keyword arguments
    FOLDER/ITEM/args.pkl         positional arguments; ITEM is 0, or the index of the element of a job array
    FOLDER/ITEM/RANK.result      the learner's return value or exception: a line of JSON, then a pickle

Reading a pickle runs code that its writer chose. So a file is read only if it belongs to the user who reads it.
"""
import json
import os
import pickle
import stat
import sys
import tempfile
from typing import Any, Dict, Tuple

from .errors import ResultError, SubmitError

FORMAT = 1
CALL_KEYS = ("format", "items", "function", "python", "submitted_ms", "cwd", "path")
FUNCTION, ARGS, CALL, DRAFT = "function.pkl", "args.pkl", "call.json", "submitting.json"


def python_version() -> str:
    return "{}.{}".format(*sys.version_info[:2])


def cloudpickle() -> Any:
    """Returns the module cloudpickle, which pickles functions of notebooks and scripts by value."""
    try:
        import cloudpickle as module
    except ImportError:
        raise SubmitError(f"{sys.executable} has no package 'cloudpickle', which carries the function into the job; "
                          "install it (pip install cloudpickle, or apt install python3-cloudpickle)") from None
    return module


def write(path: str, data: bytes) -> None:
    """Replaces the whole file at once. Only its owner can read it."""
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def read(path: str) -> bytes:
    """Reads a file. Raises FileNotFoundError if it does not exist, PermissionError if it is another user's or not a
    regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise PermissionError(f"{path} is not a regular file; it is not read")
        if seen.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to user {seen.st_uid}, and reading it would run that user's code; it is not read")
        return file.read()


def read_call(folder: str, name: str = CALL) -> Dict[str, Any]:
    """Reads the description of a call. Raises FileNotFoundError if FOLDER has none, ValueError if another version wrote
    it."""
    path = os.path.join(folder, name)
    keys = CALL_KEYS + (("job_id",) if name == CALL else ())
    try:
        call = json.loads(read(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(call, dict) or call.get("format") != FORMAT or any(key not in call for key in keys):
        raise ValueError(f"{path} was not written by this version of slurm-dl (format {FORMAT})")
    return call


def item_folder(folder: str, item: int) -> str:
    return os.path.join(folder, str(item))


def result_path(folder: str, item: int, rank: int) -> str:
    return os.path.join(item_folder(folder, item), f"{rank}.result")


def write_result(path: str, header: Dict[str, Any], payload: bytes) -> None:
    """Writes a result. `header`: kind ("value", "error" or "unpicklable"), rank, world, attempt, text."""
    line = json.dumps({**header, "format": FORMAT, "python": python_version(), "size": len(payload)})
    write(path, line.encode() + b"\n" + payload)


def read_result(path: str) -> Tuple[Dict[str, Any], bytes]:
    """Reads a result. Raises FileNotFoundError if there is none, ResultError if it is damaged."""
    line, _, payload = read(path).partition(b"\n")
    try:
        header = json.loads(line)
        whole = header["format"] == FORMAT and header["size"] == len(payload)
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise ResultError(f"{path} is damaged: it is not a whole result of this version of slurm-dl")
    return header, payload


def unpickle(payload: bytes, header: Dict[str, Any], what: str) -> Any:
    try:
        return pickle.loads(payload)
    except Exception as error:
        there, here = header.get("python", "?"), python_version()
        pythons = f"; it was written by Python {there}, this is {here}" if there != here else ""
        raise ResultError(f"{what} cannot be read here: {type(error).__name__}: {error}{pythons}") from error
