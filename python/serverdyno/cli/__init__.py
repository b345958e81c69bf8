"""The command line, with one module per command.

A command's module is imported when the command is requested, and its dependencies when it runs
(`tests/cli/test_imports.py`).
"""

from __future__ import annotations

import atexit
import gc
import resource
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
from serverdyno.errors import DynoError, UserError
from serverdyno.lazy import LazyTable

MODULES = {
    "load": "load",
    "objects": "objects",
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
"""The module of each command, in the order of the help."""
OBJECTS_OF_IMPORTS = 200_000
"""Threshold of garbage collection: more objects than a command's imports create."""
INTERRUPTED = 130  # typer's exit status after KeyboardInterrupt
_signals: list[int] = []
"""Numbers of the received signals, except SIGINT (Ctrl-C)."""
PLAIN: Any = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
"""Settings for the output of errors and help."""


def _made(verb: str) -> Any:
    """Import a command's module and create the command, or its group of commands."""
    registered = typer.Typer(**PLAIN)
    import_module(f"serverdyno.cli.{MODULES[verb]}").register(registered)
    return get_group(registered).commands[verb]


class Verbs(TyperGroup):
    """The commands. Each is imported and created when it is requested."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyTable(MODULES, _made)})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names without creating the commands."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An error on the command line gets a hint if its words show the cause."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            from serverdyno.cli.habits import explain  # noqa: PLC0415

            explain(error, sys.argv[1:])
            raise


app = typer.Typer(
    name="dyno",
    cls=Verbs,
    help="Load a web, file or object server with more and more clients, find its peak, and compare configurations.",
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
    """Define the options that precede the command."""


def main() -> None:
    r"""Run the command line.

    Exit status: 0 done, 1 runs that failed or measured nothing, 2 the user's mistake, or 128 plus the number of a
    signal: 129 a closed terminal, 130 Ctrl-C, 131 Ctrl-\, 143 SIGTERM.
    """
    gc.set_threshold(OBJECTS_OF_IMPORTS)
    atexit.register(gc.disable)  # the interpreter would otherwise collect garbage once more before it ends
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        # An ignored signal was ignored on purpose, for example by nohup.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    try:
        streams.prepare()
        _check_address_space()
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

        if isinstance(error, ModuleNotFoundError):
            error = extras.refusal(error) or error
        elif isinstance(error, MemoryError) or "failed to map segment" in str(error):
            error = _out_of_memory()
        elif not isinstance(error, DynoError) and not Path("/proc/self").exists():
            error = UserError("dyno needs /proc, which is not mounted", hint="mount -t proc proc /proc")
        if not isinstance(error, DynoError):
            raise error
        complain(error)
        sys.exit(error.exit_status)


LEAST_ADDRESS_SPACE_BYTES = 1 << 30
"""Minimum address space. `dyno report` takes 0.8 GB for a small experiment, most of it reserved and never used."""


def _check_address_space() -> None:
    """Raise UserError if the address space is so small that libraries would hang or report a misleading cause."""
    limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit_bytes != resource.RLIM_INFINITY and limit_bytes < LEAST_ADDRESS_SPACE_BYTES:
        raise _out_of_memory()


def _out_of_memory() -> DynoError:
    limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit_bytes == resource.RLIM_INFINITY:
        return DynoError("not enough memory", hint="Free some memory, or use a suite with fewer clients.")
    return UserError(
        f"not enough memory: this shell limits the address space of a process to {limit_bytes >> 20:,} MiB",
        hint="ulimit -v unlimited",
    )


def _terminate(number: int, _frame: FrameType | None) -> None:
    """End the command as Ctrl-C does, so that servers are stopped and finished levels are kept."""
    _signals.append(number)
    raise KeyboardInterrupt
