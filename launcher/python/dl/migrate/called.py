# SPDX-License-Identifier: Apache-2.0
"""A batch script that starts the training by other scripts, as `bash train.sh`: all are read as one text, and each gets its
part of the changes."""
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import launch as launches, shell
from .counts import Note
from .forms import Forms
from .rendezvous import MOST_OF_A_FILE
from .words import Cursor

STARTS = r"\btorchrun\b|torch\.distributed|\baccelerate\b|\bdeepspeed\b|\bmpirun\b|\bmpiexec\b|\bsrun\b|\bhorovodrun\b"
LAUNCHES = re.compile(r"^[^#\n]*(" + STARTS + r")", re.M)
PYTHON = re.compile(r"^[^#\n]*\bpython", re.M)
SUBMITS = re.compile(r"^[^#\n]*\b(sbatch|salloc)\b", re.M)
COPY = ".dl"  # behind the name of the new file
SOURCES = ("source", ".")

Edits = Dict[Tuple[int, int], str]


class Called(NamedTuple):
    name: str      # as the batch script writes it
    place: str     # where it is
    content: str
    start: int     # of the command in the batch script
    end: int
    behind: int    # where its name ends
    sourced: bool = False


class Part(NamedTuple):
    """A file that the batch script calls, and what it becomes."""
    place: str
    old: str
    new: str


class Piece(NamedTuple):
    """A piece of the joined text: where it is there, whose it is (None: the batch script's), and where it begins in that file."""
    start: int
    end: int
    of: Optional[int]
    origin: int


def called_by(script: Forms) -> List[Called]:
    """The scripts that can be read here and may start the training: those with a launcher, and the last that runs Python."""
    found: List[Called] = []
    plain: List[Called] = []
    for command in script.commands:
        cursor = Cursor(script.text, command.words, script.assigned)
        if command.after == "|" or not launches.skip_front(cursor):
            continue
        first = cursor.word()
        words = [word for word in command.words if not word.redirect and word.start >= first.start]
        raw = [script.text[word.start:word.end] for word in words]
        at = 0
        if raw[0] in launches.SHELLS or raw[0] in SOURCES:
            at = next((i for i, word in enumerate(raw) if i and not re.fullmatch(r"-[eluvx]+", word)), 0)
        name = shell.unquoted(raw[at])
        value = script.values.text(raw[at], first.start) if at else None
        place = script.place_of(value or name) if re.search(r"\.(sh|bash)$", value or name) else None
        content = script.read_at(place) if place else None
        if not place or not content or len(content) >= MOST_OF_A_FILE or SUBMITS.search(content) or any(one.place == place for one in found):
            continue
        behind = words[at].end - (1 if raw[at][-1:] in "\"'" else 0)
        one = Called(value or name, place, content, first.start, words[-1].end, behind, raw[0] in SOURCES)
        if LAUNCHES.search(content):
            found.append(one)
        elif PYTHON.search(content) and not one.sourced:
            plain.append(one)
    return sorted(found + plain[-1:], key=lambda one: one.start)


def joined(text: str, called: List[Called]) -> Tuple[str, List[Piece]]:
    new: List[str] = []
    pieces: List[Piece] = []
    length = at = 0
    for i, one in enumerate(called):
        pieces.append(Piece(length, length + one.start - at, None, at))
        length += one.start - at + 1
        pieces.append(Piece(length, length + len(one.content), i, 0))
        length += len(one.content) + 1
        # Its own #SBATCH lines are remarks here.
        new += [text[at:one.start], "\n", re.sub(r"^#SBATCH", "#sbatch", one.content, flags=re.M), "\n"]
        at = one.end
    pieces.append(Piece(length, length + len(text) - at, None, at))
    return "".join(new) + text[at:], pieces


def parts_of(edits: Edits, pieces: List[Piece]) -> Optional[Dict[Optional[int], Edits]]:
    """The edits of each file, those of the batch script under None. Nothing if an edit belongs to two files."""
    parts: Dict[Optional[int], Edits] = {}
    for (start, stop), new in edits.items():
        piece = next((one for one in pieces if one.start <= start and stop <= one.end), None)
        if piece is None:
            return None
        move = piece.origin - piece.start
        parts.setdefault(piece.of, {})[(start + move, stop + move)] = new
    return parts


def notes_of(notes: List[Note], both: str, text: str, called: List[Called], pieces: List[Piece]) -> List[Note]:
    """The notes with lines of the batch script; those about another script name its line."""
    starts = [0] + [match.end() for match in re.finditer("\n", both)]
    result: List[Note] = []
    for note in notes:
        at = starts[min(max(note.line, 1), len(starts)) - 1]
        piece = next((one for one in pieces if one.start <= at <= one.end), pieces[-1])
        origin = at - piece.start + piece.origin
        if piece.of is None:
            result.append(Note(text.count("\n", 0, origin) + 1 if note.line else 0, note.text))
            continue
        one = called[piece.of]
        result.append(Note(text.count("\n", 0, one.start) + 1, f"{one.name}:{one.content.count(chr(10), 0, origin) + 1}: {note.text}"))
    return result
