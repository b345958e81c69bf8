"""`dyno node FOLDER`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno node lab/nodes/a"


def register(app: typer.Typer) -> None:
    app.command("node", epilog=EXAMPLE)(node)


def node(
    folder: Annotated[
        Path, typer.Argument(help="This node's folder, created by dyno fleet init: nodes/NAME of the fleet.")
    ],
) -> None:
    """Generate load for a fleet on this machine, until Ctrl-C.

    If the scheduler ends, the node waits and then rejoins it.
    """
    # Imports create no garbage, and searching for garbage takes a tenth of the start's CPU time.
    gc.disable()
    from serverdyno.fleet import node as fleet_node  # noqa: PLC0415
    from serverdyno.fleet.folder import NodeFolder  # noqa: PLC0415

    gc.freeze()
    gc.enable()

    fleet_node.run(NodeFolder.open(folder), lambda line: typer.echo(line, err=True))
