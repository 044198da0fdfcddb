# SPDX-License-Identifier: Apache-2.0
"""Commands that run others: eval of a variable with several commands, GNU parallel and xargs. Each becomes the commands that it
runs, at their own places in the text. Pure."""
import os
import re
from typing import List, Optional, Tuple

from . import shell
from .words import VARIABLE

# Options of parallel and xargs that take their value from the next word.
VALUED = {"parallel": set("-j --jobs -P --max-procs --joblog --delay --colsep -C -a --arg-file --tmpdir --results --retries --timeout -N -n --max-args -I --load --memfree "
                          "--halt --halt-on-error --tagstring --env --workdir --wd --basefile --bf -d --delimiter --nice --shuf-seed -L".split()),
          "xargs": set("-P --max-procs -n --max-args -I -L --max-lines -a --arg-file -d --delimiter -s --max-chars -E".split())}
ELSEWHERE = re.compile(r"-S|--sshlogin(file)?\b|--slf\b|--pipe(part)?\b")  # runs on other machines, or reads the text that it hands on
INPUT = re.compile(r":::?:?\+?")


def unfolded(text: str, found: List[shell.Command]) -> List[shell.Command]:
    """Where the words of such a command stand for commands, these in its place."""
    assigned = shell.assignments(text, found)
    result: List[shell.Command] = []
    for command in found:
        inner = _of_eval(text, command, assigned)
        inner = _of_parallel(text, command, assigned) if inner is None else inner
        result += [command] if inner is None else inner
    return result


def going_on(text: str) -> Tuple[str, List[int]]:
    """The text with each \\ that blanks or a remark follow, in front of a line of options, as the last character of its line, and
    the numbers of these lines."""
    found = shell.commands(text, 0, len(text))
    spans: List[Tuple[int, int]] = []
    for one, after in zip(found, found[1:]):
        last = [word for word in one.words if not word.redirect][-1:]
        if last and re.fullmatch(r"\\[ \t]", text[last[0].start:last[0].end]) and re.match(r"--?[A-Za-z]", text[after.words[0].start:after.words[0].end]):
            end = text.index("\n", last[0].end)
            if re.fullmatch(r"[ \t]*(#.*)?", text[last[0].end:end]):
                spans.append((last[0].start + 1, end))
    return shell.applied(text, {span: "" for span in spans}) if spans else text, [text.count("\n", 0, start) + 1 for start, _ in spans]


def _value(text: str, raw: str, before: int, assigned: List[shell.Assignment]) -> Optional[shell.Assignment]:
    """The assignment whose value a word has that is one variable, if the script assigns it once, and wholly."""
    name = VARIABLE.fullmatch(raw)
    items = [one for one in assigned if name and one.name == name.group(1)]
    return items[0] if len(items) == 1 and items[0].start < before and not items[0].appends and not items[0].array else None


def _of_eval(text: str, command: shell.Command, assigned: List[shell.Assignment]) -> Optional[List[shell.Command]]:
    """eval "$CMD", where CMD holds several commands."""
    words = [word for word in command.words if not word.redirect]
    raw = [text[word.start:word.end] for word in words]
    if len(raw) < 2 or raw[-2] != "eval" or not set(raw[:-2]) <= shell.RESERVED:
        return None
    one = _value(text, raw[-1], words[0].start, assigned)
    inner = shell.commands(text, *one.value) if one is not None else []
    return inner if len(inner) > 1 else None


def _of_parallel(text: str, command: shell.Command, assigned: List[shell.Assignment]) -> Optional[List[shell.Command]]:
    """parallel -j 4 python train.py --seed {} ::: 1 2 3 4, and the same with the command in quotes; xargs -P 4 python train.py."""
    words = [word for word in command.words if not word.redirect]
    raw = [text[word.start:word.end] for word in words]
    while raw and (raw[0] in shell.RESERVED or re.match(r"[A-Za-z_]\w*=", raw[0]) or raw[0] in ("nohup", "time", "exec")):
        words, raw = words[1:], raw[1:]
    if not raw:
        return None
    name, options = os.path.basename(raw[0]), raw[1:]
    held = _value(text, raw[0], words[0].start, assigned)
    if held is not None:
        # parallel="parallel -j 4"; $parallel ...
        inside = [text[word.start:word.end] for word in shell.words_of(text, *held.value)]
        name, options = os.path.basename(inside[0]) if inside else "", inside[1:] + raw[1:]
    if name not in VALUED:
        return None
    at = len(raw) - len(options)
    while options and options[0].startswith("-"):
        if ELSEWHERE.match(options[0]):
            return None
        skip = 2 if options[0] in VALUED[name] else 1
        options, at = options[skip:], at + skip
    if at < 1 or at >= len(words):
        return None
    within = shell.inside(text, words[at])
    if within is not None and " " in text[within[0]:within[1]]:
        return [shell.Command(one.words, one.before, "&") for one in shell.commands(text, *within)]
    end = next((i for i, word in enumerate(raw) if i > at and INPUT.fullmatch(word)), len(words))
    return [shell.Command(words[at:end], command.before, "&")] if words[at:end] else None
