"""`dyno reference http`."""

from __future__ import annotations

import contextlib
import json
import signal
from typing import Annotated

import typer

EXAMPLE = "Example: dyno reference http --port 8080"


def register(app: typer.Typer) -> None:
    """Adds the verbs."""
    references = typer.Typer(help="Servers that come with Serverdyno.", epilog=EXAMPLE, no_args_is_help=True)
    references.command("http", epilog=EXAMPLE)(http)
    app.add_typer(references, name="reference")


def http(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: any free one.")] = 0,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that serve.")] = 1,
    body_bytes: Annotated[
        int | None,
        typer.Option(min=0, max=2**30, help="Serve so many bytes for every path, not the WebBench tree."),
    ] = None,
    fault: Annotated[
        str | None, typer.Option(help="Commit a fault in every answer; --list-faults names them.")
    ] = None,
    list_faults: Annotated[bool, typer.Option("--list-faults", help="Name the faults, and end.")] = False,
) -> None:
    """Serve the WebBench tree from memory on loopback: the ruler for the generator, not a product."""
    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415

    if list_faults:
        for name, meaning in _native.reference_faults():
            typer.echo(f"{name:<16} {meaning}")
        return
    try:
        server = _native.ReferenceServer.start(port=port, threads=threads, body_bytes=body_bytes, fault=fault)
    except (ValueError, OSError) as error:
        raise UserError(f"the reference server can't be started: {error}") from error
    with contextlib.suppress(KeyboardInterrupt):
        # For programs that start it: where it listens, on one line, as soon as it does.
        typer.echo(json.dumps({"port": server.port}))
        signal.pause()
    server.stop()
