"""The command line: one file a verb. Verbs import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

from serverdyno.cli import (
    calibrate,
    compare,
    load,
    plan,
    reference,
    report,
    resume,
    run,
    servers,
    suites,
    tree,
)

app = typer.Typer(
    name="dyno",
    help="A dynamometer for servers: more and more clients, the peak, the behaviour past it, and how far to trust it.",
    epilog="Suites re-create published parameters; they are not the original programs, and no figure is a result "
    "of WebBench or NetBench.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (load, run, resume, report, compare, suites, plan, servers, calibrate, tree, reference):
    verb.register(app)


def main() -> None:
    """Runs the command line. Exit status: 0 done, 1 failed runs, 2 the user's mistake, 130 interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except Exception as error:
        from serverdyno.errors import DynoError  # noqa: PLC0415

        if not isinstance(error, DynoError):
            raise
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_status)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    """A polite end: as Ctrl-C, so that servers are stopped and finished mixes kept."""
    raise KeyboardInterrupt
