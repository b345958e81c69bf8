"""Standard output for results, and standard error for everything else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from serverdyno import clean, wording
from serverdyno.errors import DynoError

if TYPE_CHECKING:
    from serverdyno.plan.model import Configuration, Suite

WIDTH = 120  # columns of a table that goes to a file or a pipe


def standard_output() -> Console:
    """Return a console as wide as the terminal, or wide enough for every table if there is none."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def say(console: Console, line: str) -> None:
    """Print a line that may contain untrusted text: not wrapped, without markup and control characters."""
    console.print(clean.text(line), soft_wrap=True, markup=False, emoji=False, highlight=False)


def say_load(console: Console, suite: Suite, configurations: Sequence[Configuration]) -> None:
    """Print the protocol settings of a suite that change its figures, such as whether connections are kept open."""
    from serverdyno.plan.spoken import protocols_of  # noqa: PLC0415

    for protocol in protocols_of(configurations, suite):
        how = protocol.described(suite.settings(protocol), wording.seconds(suite.timeout_s))
        say(console, f"suite {suite.name}: {how}")


def complain(error: DynoError) -> None:
    print(f"error: {clean.text(f'{error}')}", file=sys.stderr)
    if error.hint:
        print(clean.text(wording.hint(error.hint)), file=sys.stderr)
