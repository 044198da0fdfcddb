# SPDX-License-Identifier: Apache-2.0
"""A batch script that starts the training by other scripts, as `bash train.sh`: all are read as one text, and each gets its
part of the changes."""
import os
import re
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from . import launch as launches, shell
from .counts import Note
from .forms import Forms
from .launchers import HEADS, MODULES
from .rendezvous import MOST_OF_A_FILE, OWN_FOLDER
from .words import Cursor

NAMES = [r"\s+".join(map(re.escape, words)) for words, name in HEADS.items() if name not in ("ssh", "pdsh")] + [re.escape(name) for name in MODULES]
LAUNCHES = re.compile(r"^[^#\n]*(?<![\w.-])(?:" + "|".join(NAMES) + r"|\$\{?\w*(?i:torchrun)\w*)(?![\w-])", re.M)
PYTHON = re.compile(r"^[^#\n]*\bpython", re.M)
SUBMITS = re.compile(r"^[^#\n]*\b(sbatch|salloc)\b", re.M)
COPY = ".dl"  # the name of a new file is that of the old one with this behind it
SOURCES = ("source", ".")

Edits = Dict[Tuple[int, int], str]


class Called(NamedTuple):
    """One call. Several calls of the same script have the same place and content."""
    name: str         # as the batch script writes it
    place: str        # where it is
    content: str
    start: int        # of the command in the batch script
    end: int
    behind: int       # where its name ends
    sourced: bool     # it runs in the batch script's own shell
    background: bool  # it is called with & behind it


class Part(NamedTuple):
    """A script that the batch script calls, and what it becomes."""
    place: str
    old: str
    new: str


class Piece(NamedTuple):
    """A piece of the joined text."""
    start: int         # where it is there
    end: int
    of: Optional[int]  # the index of the call from whose script it is; None: it is of the batch script
    origin: int        # where it begins in its file


def called_by(script: Forms) -> List[Called]:
    """The calls of scripts that can be read here and may start the training: of those with a launcher, and of the last that runs
    Python; of all that run Python if none has a launcher."""
    found: List[Called] = []
    plain: List[Called] = []
    for command in script.commands:
        cursor = Cursor(script.text, command.words, script.assigned)
        if script.feeds_another(command) or not launches.skip_front(cursor):
            continue
        first = cursor.word()
        words = [word for word in command.words if not word.redirect and word.start >= first.start]
        raw = [script.text[word.start:word.end] for word in words]
        sourced = raw[0] in SOURCES
        at = 0
        if raw[0] in launches.SHELLS or sourced:
            at = next((i for i, word in enumerate(raw) if i and not re.fullmatch(r"-[eluvx]+", word)), 0)
        name = (script.values.text(raw[at], first.start) if at else None) or shell.unquoted(raw[at])
        place = script.place_of(name) if re.search(r"\.(sh|bash)$", name) else None
        content = script.read_at(place) if place else None
        if not place or not content or SUBMITS.search(content):
            continue
        behind = words[at].end - (1 if raw[at][-1:] in "\"'" else 0)
        one = Called(name, place, content, first.start, words[-1].end, behind, sourced, command.after == "&")
        if LAUNCHES.search(content):
            found.append(one)
        elif PYTHON.search(content) and not sourced:
            plain.append(one)
    calls = sorted(found + [one for one in plain if not found or one.place == plain[-1].place], key=lambda one: one.start)
    return calls if sum(len(one.content) for one in calls) < MOST_OF_A_FILE else []


def joined(text: str, called: List[Called]) -> Tuple[str, List[Piece]]:
    """The batch script with the content of each script in the place of its call."""
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
    """The edits of each file: those of the batch script under None, others under the index of the call. None if an edit belongs to
    two files."""
    parts: Dict[Optional[int], Edits] = {}
    for (start, stop), new in edits.items():
        piece = next((one for one in pieces if one.start <= start and stop <= one.end), None)
        if piece is None:
            return None
        move = piece.origin - piece.start
        parts.setdefault(piece.of, {})[(start + move, stop + move)] = new
    return parts


def call_at(at: Optional[int], pieces: List[Piece]) -> Optional[int]:
    """The call whose script holds this place of the joined text, by its index."""
    return next((one.of for one in pieces if at is not None and one.start <= at < one.end), None)


def at_odds(parts: Dict[Optional[int], Edits], called: List[Called]) -> Optional[Tuple[Called, Called]]:
    """Two calls of one script that need different edits in it, if there are such."""
    first: Dict[str, int] = {}
    for i, one in enumerate(called):
        if parts.get(i) != parts.get(first.setdefault(one.place, i)):
            return called[first[one.place]], one
    return None


def as_learner(text: str, called: List[Called], trains: Called, front: str) -> Tuple[Edits, List[Note]]:
    """Edits and notes for a script that starts one process: dlrun starts the script, whatever that does before and after. `front`:
    words between dlrun and the script."""
    edits: Edits = {}
    notes: List[Note] = []
    for one in called:
        if one.place == trains.place:
            edits[(one.start, one.start)] = "dlrun --alone -- " + front
            notes += _of_its_place(text, one, "")
        elif not one.sourced:
            notes.append(Note(_line_of(text, one), f"{one.name} stays as it is; if it trains, too, write dlrun --alone -- in front of it"))
    return edits, notes


def changed(text: str, called: List[Called], parts: Dict[Optional[int], Edits], copies: bool) -> Tuple[List[Part], Edits, List[Note]]:
    """The scripts that get edits, each once, and the edits and notes for their calls. `copies`: the new files are called."""
    others: Dict[str, Part] = {}
    edits: Edits = {}
    notes: List[Note] = []
    for i, one in enumerate(called):
        if i not in parts:
            continue
        others[one.place] = Part(one.place, one.content, shell.applied(one.content, parts[i]))
        if copies:
            edits[(one.behind, one.behind)] = COPY
        notes.append(Note(_line_of(text, one), f"{one.name} starts the training, so it is changed, too"))
        notes += _of_its_place(text, one, f": put {os.path.relpath(one.place)}{COPY} there as {one.name}{COPY}" if copies else ": make its changes there, too")
    return list(others.values()), edits, notes


def note_at_odds(text: str, one: Called, other: Called) -> Note:
    return Note(_line_of(text, one), f"{one.name} needs other changes for the call in line {_line_of(text, other)} than for this one, so neither is changed: "
                "make a script for each, and run dlctl migrate again")


def _of_its_place(text: str, one: Called, what_to_do: str) -> List[Note]:
    """A note if another file was read than the one that is called."""
    name = OWN_FOLDER.sub("", one.name)
    unknown = re.search(r"[$`]", name) is not None
    if not unknown and (name[:1] != "/" or os.path.isfile(name)):
        return []
    why = f"where {one.name} lies is not known here" if unknown else f"{one.name} is not here"
    return [Note(_line_of(text, one), f"{why}; {os.path.relpath(one.place)} was read in its place{what_to_do}")]


def _line_of(text: str, one: Called) -> int:
    return text.count("\n", 0, one.start) + 1


def notes_of(notes: List[Note], both: str, text: str, called: List[Called], pieces: List[Piece]) -> List[Note]:
    """The notes with lines of the batch script; those about another script name its line."""
    starts = [0] + [match.end() for match in re.finditer("\n", both)]
    result: List[Note] = []
    said: Set[Tuple[str, int, str]] = set()
    for note in notes:
        at = starts[min(max(note.line, 1), len(starts)) - 1]
        piece = next((one for one in pieces if one.start <= at <= one.end), pieces[-1])
        origin = at - piece.start + piece.origin
        if piece.of is None:
            result.append(Note(text.count("\n", 0, origin) + 1 if note.line else 0, note.text))
            continue
        one = called[piece.of]
        line = one.content.count("\n", 0, origin) + 1
        if (one.place, line, note.text) not in said:  # the same script may be called several times
            said.add((one.place, line, note.text))
            result.append(Note(_line_of(text, one), f"{one.name}:{line}: {note.text}"))
    return result
