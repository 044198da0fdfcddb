# SPDX-License-Identifier: Apache-2.0
"""Reads the file that describes a container for srun --environment (EDF, as CSCS has it): NAME.toml in ~/.edf, or a path."""
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

DEPTH = 10  # how many files may each name another one as base_environment


class Described(NamedTuple):
    path: str
    image: str
    mounts: List[str]
    workdir: str
    env: List[Tuple[str, str]]
    hooks: bool  # it asks for hooks of the site


def read(name: str, place_of: Callable[[str], Optional[str]]) -> Optional[Described]:
    """None if no such file can be read here, or no image is named. `place_of` looks for a file beside the script."""
    found = _read(name, place_of, 0)
    return found if found is not None and found.image else None


def _read(name: str, place_of: Callable[[str], Optional[str]], depth: int) -> Optional[Described]:
    path = _path_of(name, place_of)
    table = _table_of(path) if path is not None and depth < DEPTH else None
    if path is None or table is None:
        return None
    image, workdir, hooks = "", "", bool(table.get("annotations"))
    mounts: List[str] = []
    env: Dict[str, str] = {}
    bases = table.get("base_environment") or []
    for base in [bases] if isinstance(bases, str) else bases:
        below = _read(str(base), place_of, depth + 1)
        if below is None:
            return None
        image, workdir, hooks = below.image or image, below.workdir or workdir, below.hooks or hooks
        mounts += below.mounts
        env.update(below.env)
    own = table.get("env") or {}
    own_mounts = table.get("mounts") or []
    if not isinstance(own, dict) or not isinstance(own_mounts, list):
        return None
    mounts += [str(one) for one in own_mounts]
    env.update({str(key): str(value) for key, value in own.items() if re.fullmatch(r"[A-Za-z_]\w*", str(key))})
    return Described(path, str(table.get("image") or image), mounts, str(table.get("workdir") or workdir), list(env.items()), hooks)


def _path_of(name: str, place_of: Callable[[str], Optional[str]]) -> Optional[str]:
    if "/" in name or name.endswith(".toml"):
        path = re.sub(r"^\$\{?HOME\}?(?=/)", "~", name)
        path = os.path.expanduser(path)
        return path if os.path.isabs(path) and os.path.isfile(path) else place_of(name)
    folders = [folder for folder in os.environ.get("EDF_PATH", "").split(":") if folder] + [os.path.expanduser("~/.edf")]
    there = next((path for path in (os.path.join(folder, name + ".toml") for folder in folders) if os.path.isfile(path)), None)
    return there or place_of(name + ".toml") or place_of(f"edf/{name}.toml") or place_of(f".edf/{name}.toml")


def _table_of(path: str) -> Optional[Dict[str, Any]]:
    try:
        import tomllib
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (ImportError, OSError, ValueError, RecursionError):  # tomllib is in Python from 3.11 on
        return None
