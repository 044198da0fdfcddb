# SPDX-License-Identifier: Apache-2.0
"""Reads the words of one command. Where a variable of the script holds a launcher's words, the words of its value are
read."""
import functools
import re
from typing import FrozenSet, List, Optional, Set, Tuple

from .shell import Assignment, Word, inside, unquoted, words_of

DEPTH = 6
MOST_PIECES = 16  # of a value that NAME+=value puts together
GLUED = re.compile(r'"?(?:\$\{\w+\})+\$\{?(\w+)\}?"?')  # bash -c "${PREPARE}${RUN}"
VARIABLE = re.compile(r'"?\$\{?(\w+)(\[[@*]\])?\}?"?')


@functools.lru_cache(maxsize=4)
def read_into(text: str) -> FrozenSet[str]:
    """The names of which a script may read a value, or which it counts with in a loop."""
    return frozenset(name for rest in re.findall(r"\b(?:for|read|mapfile|readarray)\b([^\n;]*)", text) for name in re.findall(r"\w+", rest))


class Holder:
    """A sequence of words: those of a command, or of a variable's value."""

    def __init__(self, words: List[Word], assignment: Optional[Assignment] = None, shared: bool = False):
        self.words, self.assignment, self.at = words, assignment, 0
        # branches of the script assign different values to the variable, so it stays in the command
        self.shared = shared
        self.gone: Set[int] = set()  # indexes of the words that belong to the launcher and are removed
        self.borders: Set[int] = set()  # indexes of the first words of values that NAME+=value appends, which stand elsewhere in the text

    def runs(self) -> List[Tuple[int, int]]:
        """The removed words as runs of neighbours: the indexes of the first and the last of each run."""
        result: List[Tuple[int, int]] = []
        for i in sorted(self.gone):
            if result and result[-1][1] == i - 1 and i not in self.borders:
                result[-1] = (result[-1][0], i)
            else:
                result.append((i, i))
        return result

    def ends_with(self, index: int) -> bool:
        """Whether no word follows this one in the same value."""
        return index + 1 >= len(self.words) or index + 1 in self.borders

    def end_of(self, index: int) -> int:
        """Where the removal of a run ends whose last word this is: at the next word of the same value, or at its own end."""
        return self.words[index].end if self.ends_with(index) else self.words[index + 1].start


class Cursor:
    """Reads words from left to right; take() removes a word from the command, keep() leaves it."""

    def __init__(self, text: str, words: List[Word], assigned: List[Assignment], shared: FrozenSet[str] = frozenset()):
        self.text, self._assigned, self._shared = text, assigned, shared
        self.runs_words = False  # a word before runs the following words, so that NAME=VALUE is no assignment there
        self.top = Holder([word for word in words if not word.redirect])
        self.stack = [self.top]
        self.seen = [self.top]

    def raw(self, ahead: int = 0) -> Optional[str]:
        """The next word, or the one that is `ahead` words further in the same holder; None at its end."""
        self._leave()
        holder = self.stack[-1]
        if holder.at + ahead >= len(holder.words):
            return None
        word = holder.words[holder.at + ahead]
        return self.text[word.start:word.end]

    def word(self) -> Word:
        self._leave()
        return self.stack[-1].words[self.stack[-1].at]

    def plain(self, ahead: int = 0) -> Optional[str]:
        raw = self.raw(ahead)
        return None if raw is None else unquoted(raw)

    def enter(self) -> bool:
        """Goes on within the value of the variable that is the next word. False if that is no variable, or its value
        has no words."""
        raw = self.raw()
        glued = GLUED.fullmatch(raw) if raw is not None else None
        match = VARIABLE.fullmatch(raw) or glued if raw is not None else None
        if match is None or len(self.stack) > DEPTH:
            return False
        before = self.top.words[0].start
        found = [item for item in self._assigned if item.name == match.group(1) and item.start < before and
                 all(holder.assignment is not item for holder in self.stack)]
        if not found:
            return False
        first = max((i for i, item in enumerate(found) if not item.appends), default=0)
        parts = [words_of(self.text, *item.value) for item in found[first:][:MOST_PIECES]]
        words = [word for part in parts for word in part]
        if not words:
            return False
        known = [holder for holder in self.seen if holder.assignment is found[first]]
        holder = known[0] if known else Holder(words, found[first], match.group(1) in self._shared or glued is not None)
        holder.at = 0
        if not known:
            holder.borders = {sum(len(part) for part in parts[:i]) for i in range(1, len(parts))}
            self.seen.append(holder)
        self.stack.append(holder)
        return True

    def is_set(self, name: str) -> bool:
        """Whether the script assigns a value to the variable, reads one into it, or counts with it in a loop."""
        return any(item.name == name for item in self._assigned) or name in read_into(self.text)

    def held(self, word: str) -> str:
        """What a word that is one variable holds, without quotes: the last value that the script assigns before, or VALUE if that is
        ${1:-VALUE}; else the word itself."""
        name = VARIABLE.fullmatch(word)
        before = self.top.words[0].start
        values = [item.value for item in self._assigned if name and item.name == name.group(1) and item.start < before and not item.appends]
        held = unquoted(self.text[values[-1][0]:values[-1][1]]) if values else word
        default = re.fullmatch(r"\$\{\w+:?-([^{}$`]+)\}", held)
        return default.group(1) if default else held

    def leave_unread(self) -> None:
        """Goes back out of the variable that was entered last, and forgets it if none of its words was removed."""
        holder = self.stack.pop()
        if not holder.gone:
            self.seen = [item for item in self.seen if item is not holder]

    def take(self) -> str:
        raw = self.raw()
        assert raw is not None
        self.stack[-1].gone.add(self.stack[-1].at)
        self.stack[-1].at += 1
        return raw

    def keep(self) -> None:
        self._leave()
        self.stack[-1].at += 1

    def quoted(self) -> Optional[Tuple[int, int]]:
        return inside(self.text, self.word())

    def _leave(self) -> None:
        while len(self.stack) > 1 and self.stack[-1].at >= len(self.stack[-1].words):
            done = self.stack.pop()
            if len(done.gone) == len(done.words) and not done.shared:
                self.stack[-1].gone.add(self.stack[-1].at)
            self.stack[-1].at += 1
