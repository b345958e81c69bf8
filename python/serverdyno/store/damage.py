"""Files whose content can't be what was written: which one, and what is wrong with it, at which place.

A file that can't be read at all (a right that is missing, a disk that fails) is another matter: it may be whole.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from serverdyno.errors import DynoError

MOST_PROBLEMS = 5
"""Of one file; who wants to mend it by hand starts with the first."""


class DamagedError(DynoError):
    """The content of the file `path` is not what was written."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is {problem}",
            hint="Restore it from a copy. Or use `dyno resume`, which renames damaged records of runs and measures "
            "their mixes again.",
        )
        self.path = path


def damaged(path: Path, reason: object) -> DamagedError:
    """`reason`: an error that reading the content ended with, or words."""
    return DamagedError(path, f"damaged: {_words(reason)}")


def _words(reason: object) -> str:
    """With the place, as an editor counts: lines and columns, or bytes, from 1."""
    if isinstance(reason, json.JSONDecodeError):
        return f"line {reason.lineno}, column {reason.colno}: {reason.msg}"
    if isinstance(reason, UnicodeDecodeError):
        return f"byte {reason.start + 1} is no UTF-8"
    if isinstance(reason, ValidationError):
        problems = reason.errors(include_url=False, include_input=False)
        said = [
            f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}"
            for problem in problems[:MOST_PROBLEMS]
        ]
        more = len(problems) - len(said)
        return "; ".join([*said, f"and {more:,} more"] if more else said)
    return f"{reason}".rstrip(".")
