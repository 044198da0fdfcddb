#!/usr/bin/env python3
"""Finds messages in C++ and Python files and in scripts that break a rule: message_rules.py FILE...

Prints FILE:LINE: the rule: the message, for each finding. A message is what the texts in quotes of one statement say
together; a text without a blank is not one. What EXCEPTIONS names may break a rule."""

import ast
import re
import sys
from typing import Iterator, List, Tuple

Found = Iterator[Tuple[int, List[str], str]]  # line, texts in quotes, the whole statement

RULES = [
    ("no exclamation mark", r"[A-Za-z]!( |$)"),
    ("one space between words", r"[a-z,;:]  [a-z](?!.*\\n)"),
    ("no riddle: name the thing, and what is allowed",
     r"\bstands? there\b|\bsaid something\b|\bsomething unknown\b|\bhas no like\b|(?<!there) is none$|\bwhat is no\b|"
     r"(?<!there )\b(is|are) no (address|directory|list|numbers?|ranks?|regular expression|time)\b|\bnobody has said\b|"
     r"\bit cannot be understood$|(^|: )not understood$|\bit is NULL\b|\bwhat was said\b|\btoo many hosts$"),
    ("no value: name what was given, and what is wrong with it",
     r"^(an? )?(bad|illegal|invalid|malformed|wrong) (argument|format|input|number|option|parameter|request|value)s?$"),
    ("no blame: say what is missing or wrong, not who did it", r"\byou (forgot|must not|should have)\b|\byour (fault|mistake)\b"),
    ("no full stop at the end of what is allowed", r"; allowed: [^.]*[a-z0-9]\.$"),
]
PATTERNS = [(rule, re.compile(pattern)) for rule, pattern in RULES]
REFUSED = re.compile(r"\bis (out of range|unknown|not accepted)\b")
ALLOWED = "what is allowed: behind what is refused stands '; allowed: ...'"

# A part of a message that may break a rule, and the reason.
EXCEPTIONS = {
    "run time   median": "the name of a row of a table, with blanks up to its column",
    "a deep-learning program on several learners": "the text of --help, with an example that is set in",
}

TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|\'(?:\\.|[^\'\\\n])+\'|"((?:\\.|[^"\\\n])*)"|[;{}]|\n', re.S)


def of_cpp(text: str) -> Found:
    line, begin, at = 1, 1, 0
    texts: List[str] = []
    statement, since = "", ""  # since the statement's beginning; since its last text in quotes
    for found in TEXT.finditer(text):
        statement += text[at:found.start()]
        since += text[at:found.start()]
        at = found.end()
        what = found.group(0)
        if what in (";", "{", "}"):
            if texts:
                yield begin, texts, statement
            texts, statement = [], ""
        elif what.startswith('"'):
            if texts and not since.strip():
                texts[-1] += found.group(2)  # a text that goes on in the next line
            else:
                begin = begin if texts else line
                texts.append(found.group(2))
            statement += what
            since = ""
        line += what.count("\n")
    if texts:
        yield begin, texts, statement


def of_python(text: str) -> Found:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Raise, ast.Return)):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # the text that describes a function
        texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if texts:
            yield node.lineno, texts, ast.get_source_segment(text, node) or ""


def of_script(text: str) -> Found:
    for number, line in enumerate(text.split("\n"), 1):
        for found in re.finditer(r'\b(?:echo|die|say|without) (?:-[a-z] )?"((?:\\.|[^"\\])*)"', line):
            yield number, [found.group(1)], line


def findings(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    reader = of_python if path.endswith(".py") else of_cpp if path.endswith((".cpp", ".h", ".hpp")) else of_script
    for line, texts, statement in reader(text):
        messages = [t for t in texts if re.search(r"[A-Za-z] [A-Za-z]", t) and not any(part in t for part in EXCEPTIONS)]
        for message in messages:
            for rule, pattern in PATTERNS:
                if pattern.search(message):
                    yield f"{path}:{line}: {rule}: {message}"
            if REFUSED.search(message) and "allowed" not in statement:
                yield f"{path}:{line}: {ALLOWED}: {message}"


def main() -> None:
    for path in sys.argv[1:]:
        for finding in findings(path):
            print(finding)


main()
