"""The documents and the commands in them. This module neither parses nor runs a command."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from support.places import ROOT

ENDS = {";", "&", "&&", "|", "||", ">", "<<", ")"}
"""Shell words that end a command."""


class Shown(NamedTuple):
    """A command in a document; if `is_whole`, it is in a block for readers to copy and run."""

    place: str
    words: Sequence[str]
    is_whole: bool


def documents() -> list[Path]:
    """Return all documents for people, including dated runs and those next to plans and fuzz targets."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.splitlines() if (path := ROOT / name).exists()]


def commands(path: Path) -> Iterator[Shown]:
    block: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path.relative_to(ROOT)}:{number}"
        if fence := re.match(r"\s*```(\w*)", line):
            block = (fence[1] or "text") if block is None else None
        elif block == "sh" or (block == "console" and line.startswith("$ ")):
            yield from (Shown(place, words, True) for words in of_shell(line.removeprefix("$ ")))
        elif block is None:
            spans = re.findall(r"`((?:\w+=\S+ )*dyno [^`]+)`", line)
            yield from (Shown(place, words, False) for span in spans for words in of_shell(span))


def of_shell(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each `dyno` in a shell line."""
    words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    words = _split(line) if "dyno" in words else []
    for start in (index for index, word in enumerate(words) if word == "dyno"):
        before = words[:start]
        if before and before[-1] not in {*ENDS, "do"} and "=" not in before[-1]:
            continue  # an argument of another command
        end = next((index for index in range(start, len(words)) if words[index] in ENDS), len(words))
        yield words[start + 1 : end]


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def current() -> list[Path]:
    """Return the documents that describe the present, without dated runs, which show the commands of their day."""
    return [path for path in documents() if ROOT / "benches" not in path.parents]
