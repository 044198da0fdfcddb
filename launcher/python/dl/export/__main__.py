# SPDX-License-Identifier: Apache-2.0
"""python3 -m dl.export mlflow|wandb FOLDER: `dlctl export` calls it after checking its own command line, with the runs as JSON on
standard input.

Exit status, as for dlctl(1): 0; 1: the package is not there, or the folder cannot be written.
"""
import argparse
import importlib.util
import io
import os
import sys
from typing import NoReturn

from . import mlflow_runs, wandb_runs
from .runs import ExportError, read

TARGETS = {"mlflow": mlflow_runs.write, "wandb": wandb_runs.write}


def fail(text: str) -> NoReturn:
    line = " ".join(text.split())
    print("dlctl export: " + "".join(c if c.isprintable() else "?" for c in line), file=sys.stderr)
    sys.exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="dlctl export")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("folder")
    options = parser.parse_args()
    runs = read(sys.stdin.buffer)
    package = options.target
    if importlib.util.find_spec(package) is None:
        fail(f"{sys.executable} has no package {package}; install it ({sys.executable} -m pip install {package}), or put a python3 that has "
             "it first in PATH")
    try:
        where = TARGETS[package](runs, options.folder)
    except ExportError as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{sys.executable} cannot load the package {package}: {error}")
    except OSError as error:
        fail(f"{error.filename or options.folder} cannot be written: {error.strerror}; name another folder")
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # of the package: whatever it raises
        fail(f"the package {package} says: {type(error).__name__}: {str(error)[:500]}")
    count = sum(run.count for run in runs)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(f"{count} points in {len(runs)} run{'s' if len(runs) != 1 else ''} of job {runs[0].job} {where}", flush=True)
    except OSError as error:
        # Nothing is left to be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"standard output: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
