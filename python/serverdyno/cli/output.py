"""Where a verb prints: what was asked for on standard output, what happens meanwhile on standard error."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH = 120  # columns of a table that goes to a file or a pipe


def standard_output() -> Console:
    """As wide as the terminal, or wide enough for every table where there is none."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def say(console: Console, line: str) -> None:
    """One line as it is: not wrapped, no part of it taken for markup."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)
