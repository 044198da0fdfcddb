# SPDX-License-Identifier: Apache-2.0
"""The program that each learner of a call runs: ``python3 -m dl.run FOLDER``. Its exit status is 1 if the function
raised."""
import os
import pickle
import sys
import traceback
from typing import Any, Dict, List, Tuple

from . import call as files


def _whole_number(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else default


def load_function(folder: str, item: int) -> Tuple[Any, Tuple[Any, ...], Dict[str, Any]]:
    call = files.read_call(folder, files.DRAFT)
    if call["python"] != files.python_version():
        raise RuntimeError(f"the function was pickled by Python {call['python']} and this learner runs Python {files.python_version()} "
                           f"({sys.executable}); give dl.submit() the interpreter that learners shall use: python=PATH")
    os.chdir(call["cwd"])
    # Modules beside the submitting script can be imported here, too.
    sys.path.extend(entry for entry in call["path"] if entry not in sys.path)
    function, keywords = pickle.loads(files.read(os.path.join(folder, files.FUNCTION)))
    arguments = pickle.loads(files.read(os.path.join(files.item_folder(folder, item), files.ARGS)))
    return function, arguments, keywords


def pickled(value: Any) -> bytes:
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle  # type: ignore[assignment]
    return bytes(pickler.dumps(value, protocol=4))


def run(folder: str) -> int:
    item = _whole_number("SLURM_ARRAY_TASK_ID", 0)
    rank = _whole_number("DL_RANK", 0)
    path = files.result_path(folder, item, rank)
    header: Dict[str, Any] = {"rank": rank, "world": _whole_number("DL_WORLD_SIZE", 1), "attempt": _whole_number("DL_ATTEMPT", 1),
                              "job_dir": os.environ.get("DL_JOB_DIR", "")}
    try:
        function, arguments, keywords = load_function(folder, item)
        value = function(*arguments, **keywords)
    except Exception as error:
        text = traceback.format_exc()
        sys.stderr.write(text)
        try:
            payload = pickled(error)
        except Exception:
            payload = b""
        files.write_result(path, {**header, "kind": "error", "text": text}, payload)
        return 1
    try:
        payload = pickled(value)
    except Exception as error:
        # The work is done, so the job does not fail and is not run again.
        text = f"what the function returned (type {type(value).__name__}) cannot be pickled: {type(error).__name__}: {error}"
        sys.stderr.write(f"dl.run: {text}\n")
        files.write_result(path, {**header, "kind": "unpicklable", "text": text}, b"")
        return 0
    files.write_result(path, {**header, "kind": "value", "text": ""}, payload)
    return 0


def main(arguments: List[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("dl.run: started by dl.submit() in each learner; usage: python3 -m dl.run FOLDER\n")
        return 2
    return run(arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
