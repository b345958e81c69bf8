"""The error for a damaged file, whose content differs from what was written: it names file, problem and place.

A file that can't be read at all (permissions, a failing disk) may be intact, so it does not count as damaged.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from serverdyno.errors import DynoError

MOST_PROBLEMS = 5
"""Maximum number of problems reported per file: enough to begin a repair by hand."""


class DamagedError(DynoError):
    """The file `path` is damaged."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is {problem}",
            hint="Restore it from a copy. Or use `dyno resume`, which renames damaged records of runs and "
            "measures their load levels again.",
        )
        self.path = path


def damaged(path: Path, reason: object) -> DamagedError:
    """Return the error for a damaged file. `reason`: the error from reading the content, or a text."""
    return DamagedError(path, f"damaged: {_words(reason)}")


def _words(reason: object) -> str:
    """Return the reason with its place: line and column, or byte, each counted from 1 as in editors."""
    if isinstance(reason, json.JSONDecodeError):
        return f"line {reason.lineno}, column {reason.colno}: {reason.msg}"
    if isinstance(reason, UnicodeDecodeError):
        return f"byte {reason.start + 1} is not valid UTF-8"
    if isinstance(reason, ValidationError):
        problems = reason.errors(include_url=False, include_input=False)
        said = [
            f"{'.'.join(map(str, problem['loc'])) or 'the whole file'}: {problem['msg']}"
            for problem in problems[:MOST_PROBLEMS]
        ]
        more = len(problems) - len(said)
        return "; ".join([*said, f"and {more:,} more"] if more else said)
    return f"{reason}".rstrip(".")
