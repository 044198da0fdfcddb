# SPDX-License-Identifier: Apache-2.0
"""Reads Bash as far as needed to find the commands of a script: words with their places in the text. Nothing is expanded.

    for command in commands(text, 0, len(text)):
        for word in command.words: text[word.start:word.end]

Continuation lines are joined, comments and here documents are left out, and quotes and $(...) stay within their word. For
a script that it does not understand this gives fewer words or wrong ones, but it always ends.
"""
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

RESERVED = {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "case", "esac", "{", "}", "!", "time", "in", "function", "for", "select"}
META = " \t\n;&|<>()"


class Word(NamedTuple):
    start: int
    end: int
    redirect: bool = False  # an operator such as 2>&1, or one with the file after it


class Command(NamedTuple):
    words: List[Word]
    before: str  # the operator before it: "", "|", "&&", ...
    after: str   # the operator after it: "", "|", "&", ...


def skip_word(text: str, at: int, end: int) -> int:
    """The end of the word that begins at `at`."""
    while at < end:
        char = text[at]
        if char == "\\":
            # In double quotes, \$( is the $( of the inner shell.
            at = _skip_brackets(text, at + 2, end) if text[at + 1:at + 3] in ("$(", "${") else at + 2
        elif char == "'":
            at = _closing(text, at + 1, end, "'") + 1
        elif char == '"':
            at = skip_double(text, at + 1, end)
        elif char == "`":
            at = _closing(text, at + 1, end, "`") + 1
        elif char == "$" and at + 1 < end and text[at + 1] in "({":
            at = _skip_brackets(text, at + 1, end)
        elif text.startswith("$[", at):
            at = _closing(text, at + 2, end, "]") + 1
        elif char == "$" and at + 1 < end and text[at + 1] == "'":
            at = _closing(text, at + 2, end, "'") + 1
        elif char == "{" and text.startswith("{{", at):
            close = text.find("}}", at, end)  # {{ name }} of a template that something else fills in
            at = close + 2 if 0 < close and "\n" not in text[at:close] else at + 2
        elif char in META:
            if char == "(" and at > 0 and text[at - 1] == "=":  # NAME=( ... )
                at = _skip_brackets(text, at, end)
                continue
            break
        else:
            at += 1
    return min(at, end)


def _closing(text: str, at: int, end: int, quote: str) -> int:
    while at < end and text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "'" else 1
    return at


def skip_double(text: str, at: int, end: int) -> int:
    while at < end and text[at] != '"':
        if text[at] == "\\":
            at += 2
        elif text[at] == "$" and at + 1 < end and text[at + 1] in "({":
            at = _skip_brackets(text, at + 1, end)
        elif text[at] == "`":
            at = _closing(text, at + 1, end, "`") + 1
        else:
            at += 1
    return at + 1


def _skip_brackets(text: str, at: int, end: int) -> int:
    """The offset after the bracket that closes the one at `at`."""
    opening, depth = text[at], 0
    closing = ")" if opening == "(" else "}"
    while at < end:
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'" and opening == "(":
            at = _closing(text, at + 1, end, "'")
        elif char == '"':
            at = skip_double(text, at + 1, end) - 1
        elif char == "#" and opening == "(" and text[at - 1] in " \t\n":
            while at < end and text[at] != "\n":
                at += 1
            continue
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return end


def commands(text: str, start: int, end: int) -> List[Command]:
    found: List[Command] = []
    words: List[Word] = []
    heredocs: List[Tuple[str, bool]] = []
    before = ""
    at = start

    def finish(operator: str) -> None:
        nonlocal words, before
        if words:
            found.append(Command(words, before, operator))
        words, before = [], operator

    while at < end:
        char = text[at]
        if char in " \t\r":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif char == "#":
            while at < end and text[at] != "\n":
                at += 1
        elif char == "\n":
            finish("")
            at += 1
            for delimiter, dashed in heredocs:
                at = _skip_heredoc(text, at, end, delimiter, dashed)
            heredocs = []
        elif char in ";|&()" and not (char == "&" and text.startswith("&>", at)):
            operator = next(op for op in ("&&", "||", "|&", ";;", char) if text.startswith(op, at))
            finish(operator if operator in ("|", "|&", "&", "&&", "||") else "")
            at += len(operator)
        else:
            redirect = re.compile(r"\d*(<<<|<<-?|>>|>&|<&|&>>?|<>|>\||[<>])").match(text, at, end)
            if redirect:
                at = _take_redirect(text, at, end, redirect, words, heredocs)
                continue
            stop = skip_word(text, at, end)
            if stop == at:
                at += 1
                continue
            words.append(Word(at, stop))
            at = stop
    finish("")
    return found


def of_evals(text: str, found: List[Command]) -> List[Command]:
    """Replaces each eval of a quoted text by the commands in that text. Other evals stay, since their words are a
    command."""
    result: List[Command] = []
    for command in found:
        words = [word for word in command.words if not word.redirect]
        raw = [text[word.start:word.end] for word in words]
        within = inside(text, words[-1]) if len(raw) > 1 and raw[-2] == "eval" and set(raw[:-2]) <= RESERVED else None
        result += commands(text, *within) if within else [command]
    return result


def _take_redirect(text: str, at: int, end: int, redirect: "re.Match[str]", words: List[Word], heredocs: List[Tuple[str, bool]]) -> int:
    stop = redirect.end()
    while stop < end and text[stop] in " \t":
        stop += 1
    if text.startswith("(", stop):  # <( ... ) and >( ... )
        stop = _skip_brackets(text, stop, end)
    else:
        target = stop
        stop = skip_word(text, stop, end)
        if redirect.group(1) in ("<<", "<<-"):
            heredocs.append((re.sub(r"[\"'\\]", "", text[target:stop]), redirect.group(1) == "<<-"))
    words.append(Word(at, stop, True))
    return stop


def _skip_heredoc(text: str, at: int, end: int, delimiter: str, dashed: bool) -> int:
    while at < end:
        stop = text.find("\n", at, end)
        line = text[at:end if stop < 0 else stop]
        at = end if stop < 0 else stop + 1
        if (line.lstrip("\t") if dashed else line) == delimiter:
            break
    return at


def words_of(text: str, start: int, end: int) -> List[Word]:
    """The words into which bash would split the value of a variable or an array."""
    words: List[Word] = []
    at = start
    while at < end:
        if text[at] in " \t\r\n":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#" and (at == start or text[at - 1] in " \t\n"):
            while at < end and text[at] != "\n":
                at += 1
        else:
            stop = at
            while stop < end and text[stop] not in " \t\r\n" and not text.startswith("\\\n", stop):
                after = skip_word(text, stop, end)
                stop = after if after > stop else stop + 1
            words.append(Word(at, stop))
            at = stop
    return words


def lines_of(text: str) -> List[str]:
    """The lines with their ends. Only a line feed ends a line, as for bash and patch."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def names_ending(text: str, ends: str, within: str = r"[^\s'\";=]+") -> List[str]:
    """The names in the text that end with a dot and one of `ends`, as in "py" or "sh|bash". `within`: what a name is made of. One
    pattern for the whole would look at a long word once for each of its characters."""
    found: List[str] = []
    for word in re.finditer(within, text):
        last = None
        for last in re.finditer(r"\.(?:" + ends + r")\b", word.group(0)):
            pass
        if last is not None and last.start() > 0:
            found.append(word.group(0)[:last.end()])
    return found


def unquoted(raw: str) -> str:
    """The word as the program gets it. A $ in it is kept, since nothing is expanded."""
    raw = raw.replace("\\\n", "")
    if len(raw) >= 2 and raw[0] == raw[-1] == "'" and "'" not in raw[1:-1]:
        return raw[1:-1]
    return re.sub(r'\\(.)', r"\1", raw.replace('"', "")) if "'" not in raw else raw.replace("'", "").replace('"', "")


def quoted(value: str) -> str:
    """The value quoted for bash where that is needed."""
    return value if re.fullmatch(r"[\w./:,@%+=^-]*", value) else "'" + value.replace("'", "'\\''") + "'"


def inside(text: str, word: Word) -> Optional[Tuple[int, int]]:
    """The place of the text within the quotes of a word that is quoted as a whole; None for other words."""
    raw = text[word.start:word.end]
    if len(raw) >= 2 and raw[0] in "'\"" and raw[-1] == raw[0]:
        return word.start + 1, word.end - 1
    return None


class Assignment(NamedTuple):
    name: str
    start: int        # of the whole command, `export` included
    end: int
    value: Tuple[int, int]
    alone: bool       # the command assigns only this name
    array: bool
    appends: bool = False  # NAME+=value, or NAME="$NAME value"


def assignments(text: str, found: List[Command]) -> List[Assignment]:
    result: List[Assignment] = []
    for command in found:
        words = [word for word in command.words if not word.redirect]
        raw = [text[word.start:word.end] for word in words]
        while len(raw) > 1 and raw[0] in ("then", "else", "do", "{"):
            words, raw = words[1:], raw[1:]
        first = 0
        if raw and raw[0] == ":":
            # : ${NAME:=value}
            for word, item in zip(words[1:], raw[1:]):
                default = re.fullmatch(r"\"?\$\{(\w+):?=(\"?)(.*?)\2\}\"?", item, re.S)
                if default:
                    result.append(Assignment(default.group(1), words[0].start, words[-1].end, (word.start + default.start(3), word.start + default.end(3)), False, False))
            continue
        if raw and raw[0] in ("export", "declare", "local", "readonly", "typeset"):
            first = 1
            while first < len(raw) and raw[first].startswith("-"):
                first += 1
        elif not all(re.match(r"[A-Za-z_]\w*\+?=", item) for item in raw):
            continue
        for word, item in zip(words[first:], raw[first:]):
            match = re.match(r"([A-Za-z_]\w*)\+?=", item)
            if not match:
                continue
            start, end = word.start + match.end(), word.end
            array = text[start:start + 1] == "("
            if array:
                start, end = start + 1, end - 1
            elif inside(text, Word(start, end)):
                start, end = start + 1, end - 1
            # NAME="$NAME more", NAME=("${NAME[@]}" more), and NAME="${NAME%\'} more'", which takes a quote off and puts it behind
            former = re.compile(r"\s*\"?\$\{?" + match.group(1) + r"(?:\[[@*]\]|%[^}\s]*)?\}?\"?(?=\s)").match(text, start, end)
            start = former.end() if former else start
            result.append(Assignment(match.group(1), words[0].start, words[-1].end, (start, end), len(words) - first == 1, array, "+=" in match.group(0) or former is not None))
    return result


def with_bodies(text: str) -> str:
    """Puts a : where all lines of a branch or a loop have gone, since bash wants a command there."""
    def filled(match: "re.Match[str]") -> str:
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        indent = line[:len(line) - len(line.lstrip(" \t"))]
        return match.group(0) if "#" in line else f"{match.group(0)}{indent}  :\n"
    return re.sub(r"(?<![^\s;])(?:then|else|do)[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*(?=[ \t]*(?:fi|else|elif|done)\b)", filled, text)


class Edits(Dict[Tuple[int, int], str]):
    """New texts by the parts of a text that they replace. It knows of each place whether a part holds it, however many there are.
    Parts are put in by [] alone, and stay."""

    def __init__(self, length: int):
        super().__init__()
        self._taken = bytearray(length + 1)

    def __setitem__(self, part: Tuple[int, int], new: str) -> None:
        super().__setitem__(part, new)
        start, end = max(part[0], 0), min(part[1], len(self._taken))
        if end > start:
            self._taken[start:end] = b"\1" * (end - start)

    def holds(self, at: int) -> bool:
        return 0 <= at < len(self._taken) and self._taken[at] != 0


def applied(text: str, edits: Dict[Tuple[int, int], str]) -> str:
    """The text with all edits. An edit within a part that another edit removes has no effect."""
    result: List[str] = []
    at = 0
    for (start, end), new in sorted(edits.items(), key=lambda item: (item[0][0], item[0][1] > item[0][0], -item[0][1])):
        if start < at:
            continue
        result += [text[at:start], new]
        at = end
    return with_bodies("".join(result) + text[at:])
