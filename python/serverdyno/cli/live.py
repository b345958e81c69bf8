"""The local pages: the option `--live` and the command `dyno open`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Live = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Show the run on a page at http://127.0.0.1:PORT/. 0 takes any free port.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("open", epilog="Example: dyno open experiments")(open_experiments)


def open_experiments(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Experiments, or folders that contain experiments. [default: experiments]"),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0: any free port.")] = 0,
) -> None:
    """Show experiments side by side in the browser, with their reports, until Ctrl-C.

    The page listens only on loopback and changes nothing.
    """
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli.catalogue import experiments_below  # noqa: PLC0415
    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.live import browse, serve  # noqa: PLC0415

    wanted = folders or [Path("experiments")]
    if absent := [f"{folder}" for folder in wanted if not folder.is_dir()]:
        raise UserError(
            f"no such folder: {', '.join(absent)}",
            hint="`dyno run` and `dyno load` create the folder experiments.",
        )
    below = (each for folder in wanted for each in experiments_below(folder))
    found = list(dict.fromkeys(below))
    if not found:
        raise UserError(
            f"no experiment in or below {', '.join(map(str, wanted))}",
            hint="To make one: dyno run PLAN, or dyno load URL.",
        )
    listener = serve.listening(port)
    url = serve.url(listener)
    say(Console(stderr=True), f"{url} shows {len(found)} of your experiments; Ctrl-C ends it")
    if any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
        import webbrowser  # noqa: PLC0415

        webbrowser.open(url)
    serve.server(browse.application(sorted(found, reverse=True))).run([listener])
