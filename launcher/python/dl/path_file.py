# SPDX-License-Identifier: Apache-2.0
"""``dlctl python --install``: writes a file slurm-dl.pth, with which a Python finds the installed modules dlckpt and dl.

The file is in the active virtual environment or conda environment, or else in the user's own site-packages. So there is
only one copy of the modules, and an update of slurm-dl also updates them.
"""
import os
import site
import sys
import sysconfig
from typing import NoReturn

NAME = "slurm-dl.pth"


def fail(text: str) -> NoReturn:
    print(f"dlctl python: {text}", file=sys.stderr)
    sys.exit(1)


def place() -> str:
    own = sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
    if own:
        return sysconfig.get_paths()["purelib"]
    if not site.ENABLE_USER_SITE:
        fail(f"{sys.executable} takes no packages of a user's own; allowed: a virtual environment (python3 -m venv), or eval \"$(dlctl python)\"")
    return site.getusersitepackages()


def main() -> int:
    action, folder = sys.argv[1:3]
    path = os.path.join(place(), NAME)
    try:
        if action == "--remove":
            os.unlink(path)
            print(f"removed {path}")
            return 0
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(folder + "\n")
    except FileNotFoundError:
        fail(f"there is no {path}: nothing was removed")
    except OSError as error:
        fail(f"{path}: {error.strerror}; allowed: an environment that you can write to (python3 -m venv), or eval \"$(dlctl python)\"")
    print(f"wrote {path}: {sys.executable} finds dlckpt and dl from now on")
    return 0
