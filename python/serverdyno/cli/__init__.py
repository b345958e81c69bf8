"""The command line: one file a verb.

A verb's file is imported when the verb is asked for, and what it needs when it runs (`tests/cli/test_imports.py`).
"""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from serverdyno import __version__
from serverdyno.cli import streams
from serverdyno.lazy import LazyTable

MODULES = {
    "load": "load",
    "run": "run",
    "resume": "resume",
    "report": "report",
    "list": "catalogue",
    "show": "catalogue",
    "open": "live",
    "compare": "compare",
    "audit": "audit",
    "suites": "suites",
    "servers": "servers",
    "selftest": "selftest",
    "powercut": "powercut",
    "bonnie": "bonnie",
    "scenario": "scenario",
    "node": "node",
    "tree": "tree",
    "published": "published",
    "suite": "suites",
    "plan": "plan",
    "fleet": "fleet",
    "workload": "workload",
    "reference": "reference",
}
"""The module of each verb, in the order of the help."""
OBJECTS_OF_IMPORTS = 200_000
"""More than a verb imports. Nothing of that is garbage: looking for it takes a tenth of a short verb's CPU time."""
INTERRUPTED = 130  # what typer ends with after KeyboardInterrupt
_signals: list[int] = []
"""Other signals than Ctrl-C that have come."""
PLAIN: Any = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
"""How errors and help are printed."""


def _made(verb: str) -> Any:
    """Import a verb's module and make its command, or its group of commands."""
    registered = typer.Typer(**PLAIN)
    import_module(f"serverdyno.cli.{MODULES[verb]}").register(registered)
    return get_group(registered).commands[verb]


class Verbs(TyperGroup):
    """The verbs. Each is imported and made when it is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyTable(MODULES, _made)})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, without making the commands."""
        return list(self.commands)


app = typer.Typer(
    name="dyno",
    cls=Verbs,
    help="Load a web or file server with more and more clients, find its peak, and compare configurations.",
    epilog="Example: dyno load http://127.0.0.1:8080/ measures a web server that runs on this machine.\n\n"
    "Suites re-create published parameters. They are not the original programs, and no figure is a result "
    "of WebBench or NetBench.",
    no_args_is_help=True,
    **PLAIN,
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"serverdyno {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Runs the command line. Exit status: 0 done, 1 failed runs, 2 the user's mistake, 128 and its number for a signal:
    129 a closed terminal, 130 Ctrl-C, 131 Ctrl-\\, 143 SIGTERM.
    """
    gc.set_threshold(OBJECTS_OF_IMPORTS)
    atexit.register(gc.disable)  # the interpreter would look for garbage once more before it ends
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        # Whoever ignores one has asked for that: nohup does.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    try:
        streams.prepare()
        try:
            app(prog_name="dyno")
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if end.code == INTERRUPTED and _signals:
            sys.exit(128 + _signals[0])
        raise
    except Exception as error:
        from serverdyno.cli import extras  # noqa: PLC0415
        from serverdyno.cli.output import complain  # noqa: PLC0415
        from serverdyno.errors import DynoError, UserError  # noqa: PLC0415

        if isinstance(error, ModuleNotFoundError):
            error = extras.refusal(error) or error
        elif not isinstance(error, DynoError) and not Path("/proc/self").exists():
            error = UserError("this needs /proc, which is not there", hint="mount -t proc proc /proc")
        if not isinstance(error, DynoError):
            raise error
        complain(error)
        sys.exit(error.exit_status)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """A polite end: as Ctrl-C, so that servers are stopped and finished mixes kept."""
    _signals.append(number)
    raise KeyboardInterrupt
