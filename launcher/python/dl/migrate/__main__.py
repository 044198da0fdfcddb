# SPDX-License-Identifier: Apache-2.0
"""python3 -m dl.migrate FILE [--write FILE] [--json]: `dlctl migrate` calls it after checking its own command line.

Exit status, as for dlctl(1): 0; 1: the file cannot be read or written; 2: the file contains nothing to migrate.
"""
import argparse
import difflib
import json
import os
import re
import sys
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from . import manifest
from .accelerate import environment_of
from .called import COPY, Part
from .rewrite import migrate
from .shell import commands, lines_of

MOST_BYTES = 256 << 10  # of a script, which is read in some seconds then, whatever stands in it
MOST_COMMANDS = 4000


def fail(status: int, text: str) -> NoReturn:
    print(f"dlctl migrate: {text}", file=sys.stderr)
    sys.exit(status)


def main() -> int:
    parser = argparse.ArgumentParser(prog="dlctl migrate")
    parser.add_argument("file")
    parser.add_argument("--write")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--variables-of", action="store_true")
    options = parser.parse_args()
    if options.variables_of:
        return variables_of(options.file)
    try:
        with open(options.file, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        fail(1, f"{options.file}: {error.strerror}")
    if len(data) > MOST_BYTES or b"\0" in data:
        fail(2, f"{options.file} is not read: " + ("it is larger than 256 KiB" if len(data) > MOST_BYTES else "it holds bytes that are no text"))
    there = data.decode("utf-8", "surrogateescape")
    text = there.replace("\r\n", "\n")
    facts: Dict[str, Any]
    others: List[Part] = []
    if manifest.is_manifest(text, options.file):
        new, facts = of_manifest(text, options.file)
        old: List[str] = []
    else:
        new, facts, others = of_script(text, options.file, bool(options.write))
        old = lines_of(there)
        if text != there:
            facts["notes"].append({"line": 0, "text": "its lines end with CR LF, which sbatch refuses; those of the new script end with LF"})
    diff = "" if not old else "".join(with_ends(difflib.unified_diff(
        old, lines_of(new), options.file, options.write or options.file + ".dl")))
    places = [os.path.relpath(part.place) for part in others]
    diffs = ["".join(with_ends(difflib.unified_diff(lines_of(part.old), lines_of(part.new), place, place + COPY))) for place, part in zip(places, others)]
    if options.write:
        for place, part in zip(places, others):
            write(place + COPY, part.new, place)
        write(options.write, new, options.file)
    if options.json:
        called = [{"file": place, "script": clean(part.new), "diff": clean(of_part)} for place, part, of_part in zip(places, others, diffs)]
        say(json.dumps({**facts, "script": clean(new), "diff": clean(diff), "called": called}, indent=2) + "\n")
        return 0
    if not options.write:
        say((diff or new) + "".join(diffs))
    for note in facts["notes"]:
        where = f":{note['line']}" if note["line"] else ""
        print(f"{options.file}{where}: {note['text']}", file=sys.stderr)
    if options.write:
        learners = "1 learner" if str(facts["learners"]) == "1" else f"{facts['learners']} learners"
        also = "".join(f" and {place}{COPY}, which it calls" for place in places)
        print(f"wrote {options.write}{also}: {learners}; submit it with sbatch {options.write}", file=sys.stderr)
    return 0


def variables_of(path: str) -> int:
    """For `env $(dlctl migrate --variables-of FILE) PROGRAM`. If the file cannot be read, it prints an option that env
    refuses, so that no training starts without the settings."""
    variables, _ = environment_of(path, ".")
    spaced = [name for name, value in variables or [] if not re.fullmatch(r"[^\s*?\[\]\\]+", value)]
    if variables is None or spaced:
        say("--what-accelerate-is-told-cannot-be-read\n")
        fail(1, f"--variables-of: {path}: " + (f"the value of {spaced[0]} has blanks, which cannot be handed on" if spaced else
                "this is no configuration of accelerate that can be read here (a file in YAML, and python3 with PyYAML)"))
    say("".join(f"{name}={value}\n" for name, value in variables or []))
    return 0


def of_script(text: str, path: str, copies: bool) -> Tuple[str, Dict[str, Any], List[Part]]:
    if len(commands(text, 0, len(text))) > MOST_COMMANDS:
        fail(2, f"{path} is not read: it has more than {MOST_COMMANDS} commands")
    result = migrate(text, os.path.dirname(os.path.abspath(path)), copies)
    if result.launches == 0:
        for note in result.notes:
            print(f"{path}:{note.line}: {note.text}", file=sys.stderr)
        fail(2, f"{path}: no line was found that starts a training; looked for: torchrun, python -m torch.distributed.run or launch, srun, mpirun, "
                "mpiexec, horovodrun, accelerate launch, deepspeed, and python FILE.py")
    return result.script, {"file": path, "kind": "script", "launches": result.launches, "learners": result.learners, "gpus": result.gpus,
                           "framework": result.framework, "notes": [{"line": note.line, "text": note.text} for note in result.notes]}, list(result.others)


def of_manifest(text: str, path: str) -> Tuple[str, Dict[str, Any]]:
    try:
        script = manifest.migrate(text)
    except manifest.Broken as error:
        fail(2, f"{path}: {error}")
    except ImportError:
        fail(1, f"{sys.executable} has no package 'yaml', which reads manifests; install it (apt install python3-yaml, or pip install pyyaml)")
    return script.text, {"file": path, "kind": "manifest", "launches": 1, "learners": str(script.learners), "gpus": script.gpus,
                         "framework": script.framework, "notes": [{"line": 0, "text": note} for note in script.notes]}


def say(text: str) -> None:
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python would try to write once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(1, f"standard output: {error.strerror}")


def with_ends(lines: Any) -> List[str]:
    """The lines of a diff; a last line without an end gets diff's usual mark."""
    return [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]


def clean(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def write(path: str, text: str, source: str) -> None:
    """Writes a new file; an existing one is not overwritten."""
    mode: Optional[int] = None
    try:
        mode = os.stat(source).st_mode & 0o777
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        except OSError:
            os.unlink(path)  # otherwise half a script could be submitted
            raise
    except FileExistsError:
        fail(1, f"--write: {path} is there already, and is not overwritten; name another file")
    except OSError as error:
        fail(1, f"--write: {path}: {error.strerror}")


if __name__ == "__main__":
    sys.exit(main())
