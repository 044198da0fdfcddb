# SPDX-License-Identifier: Apache-2.0
"""A batch script that starts the training by another script, as `bash train.sh`: both are read as one text, and each gets its
part of the changes."""
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import launch as launches, shell
from .counts import Note
from .forms import Forms
from .rendezvous import MOST_OF_A_FILE
from .words import Cursor

LAUNCHES = re.compile(r"^[^#\n]*(\btorchrun\b|torch\.distributed|\baccelerate\b|\bdeepspeed\b|\bmpirun\b|\bmpiexec\b|\bsrun\b|\bhorovodrun\b|\bpython)", re.M)
SUBMITS = re.compile(r"^[^#\n]*\b(sbatch|salloc)\b", re.M)
COPY = ".dl"  # behind the name of the new file


class Called(NamedTuple):
    name: str      # as the batch script writes it
    place: str     # where it is
    content: str
    start: int     # of the command in the batch script
    end: int
    behind: int    # where its name ends


class Part(NamedTuple):
    """A file that the batch script calls, and what it becomes."""
    place: str
    old: str
    new: str


def called_by(script: Forms) -> Optional[Called]:
    """The script that starts the training; None unless exactly one that can be read may do that."""
    found: List[Called] = []
    for command in script.commands:
        cursor = Cursor(script.text, command.words, script.assigned)
        if command.after == "|" or not launches.skip_front(cursor):
            continue
        first = cursor.word()
        words = [word for word in command.words if not word.redirect and word.start >= first.start]
        raw = [script.text[word.start:word.end] for word in words]
        at = 0
        if raw[0] in launches.SHELLS:
            at = next((i for i, word in enumerate(raw) if i and not re.fullmatch(r"-[eluvx]+", word)), 0)
        name = shell.unquoted(raw[at])
        place = script.place_of(name) if re.search(r"\.(sh|bash)$", name) else None
        content = script.read_at(place) if place else None
        if place and content and len(content) < MOST_OF_A_FILE and LAUNCHES.search(content) and not SUBMITS.search(content):
            behind = words[at].end - (1 if raw[at][-1:] in "\"'" else 0)
            found.append(Called(name, place, content, first.start, words[-1].end, behind))
    return found[0] if len(found) == 1 else None


def joined(text: str, called: Called) -> str:
    return text[:called.start] + "\n" + called.content + "\n" + text[called.end:]


def parts_of(edits: Dict[Tuple[int, int], str], called: Called) -> Optional[Tuple[Dict[Tuple[int, int], str], Dict[Tuple[int, int], str]]]:
    """The edits of the batch script and those of the other one; None if one of them belongs to both."""
    begin = called.start + 1
    end = begin + len(called.content)
    ours: Dict[Tuple[int, int], str] = {}
    theirs: Dict[Tuple[int, int], str] = {}
    for (start, stop), new in edits.items():
        if stop <= called.start:
            ours[(start, stop)] = new
        elif start > end:
            ours[(start - end - 1 + called.end, stop - end - 1 + called.end)] = new
        elif begin <= start and stop <= end:
            theirs[(start - begin, stop - begin)] = new
        else:
            return None
    return ours, theirs


def notes_of(notes: List[Note], text: str, called: Called) -> List[Note]:
    """The notes with lines of the batch script; those about the other script name its line."""
    first = text.count("\n", 0, called.start) + 1
    lines = called.content.count("\n") + 1
    over = lines + 1 - text.count("\n", called.start, called.end)
    result: List[Note] = []
    for note in notes:
        if note.line <= first:
            result.append(note)
        elif note.line <= first + lines:
            result.append(Note(first, f"{called.name}:{note.line - first}: {note.text}"))
        else:
            result.append(Note(note.line - over, note.text))
    return result
