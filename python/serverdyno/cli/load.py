"""`dyno load URL`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno load http://127.0.0.1:8080/ --clients 1,4,8,16 --length 10s"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("load", epilog=EXAMPLE)(load)


def load(
    url: Annotated[str, typer.Argument(help="Where to: http://host[:port]/path")],
    clients: Annotated[str, typer.Option(help="Numbers of clients, one mix each.")] = "1,2,4,8,16,32,64",
    length: Annotated[str, typer.Option(help="Length of a mix: 10s, 2m.")] = "10s",
    repetitions: Annotated[int, typer.Option(help="How often the whole curve is measured.")] = 1,
    http: Annotated[str, typer.Option(help="HTTP version: 1.0 or 1.1.")] = "1.1",
    keep_alive: Annotated[bool, typer.Option(help="Use connections again.")] = True,
    max_rate: Annotated[
        float | None, typer.Option(help="Requests a second of all clients, at most; needed outside loopback.")
    ] = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the experiment.")] = None,
) -> None:
    """Load one URL with more and more clients: a curve and a table from one line."""
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.plan.quick import QuickOptions, quick_plan  # noqa: PLC0415
    from serverdyno.runner.create import create_experiment, default_folder  # noqa: PLC0415

    plan, suite, text = quick_plan(
        QuickOptions(
            url=url,
            clients=clients,
            length=length,
            repetitions=repetitions,
            http_version=http,
            keep_alive=keep_alive,
            max_rate_per_s=max_rate,
        )
    )
    with create_experiment(into or default_folder(plan.name), text, plan, suite) as experiment:
        carry_out.carry_out_and_report(experiment)
