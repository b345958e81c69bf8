"""`dyno fleet init | up | status | down`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from serverdyno.units import MIB, MS_PER_S

EXAMPLE = "Example: dyno fleet init lab --at 10.0.0.1 --nodes a,b,c"
Folder = Annotated[Path, typer.Argument(help="The fleet's folder, created by dyno fleet init.")]


def register(app: typer.Typer) -> None:
    fleet = typer.Typer(
        no_args_is_help=True, help="Let several machines generate load together.", epilog=EXAMPLE
    )
    fleet.command("init", epilog=EXAMPLE, short_help="Create a fleet's folder and certificates.")(init)
    fleet.command("up", short_help="Start the scheduler here, or all hosts of a file over SSH.")(up)
    fleet.command("status", short_help="Show which nodes have joined, and their state.")(status)
    fleet.command("down", short_help="End the nodes and the scheduler.")(down)
    app.add_typer(fleet, name="fleet")


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create; its name becomes the fleet's name.")],
    at: Annotated[str, typer.Option(help="HOST or HOST:PORT at which every node can reach this machine.")],
    nodes: Annotated[str, typer.Option(help="Names of the nodes, with commas between them: a,b,c.")],
    days: Annotated[float, typer.Option(help="Validity of the certificates, in days.")] = 90,
    renew: Annotated[
        bool, typer.Option("--renew", help="Create new certificates for an existing fleet.")
    ] = False,
) -> None:
    """Create a fleet: its own certificate authority, and a certificate for each node."""
    from serverdyno.fleet.folder import NODES, create  # noqa: PLC0415

    made = create(folder, at, [name.strip() for name in nodes.split(",") if name.strip()], days, renew=renew)
    typer.echo(
        f"fleet {made.name} with {len(made.nodes)} nodes; its certificates are valid for {days:g} days"
    )
    typer.echo(f"1. Copy {folder / NODES}/NAME to each node, as you would a private key.")
    typer.echo(f"2. Here: dyno fleet up {folder}")
    typer.echo("3. On each node: dyno node NAME")
    typer.echo(f"A node on this machine needs no copy: dyno node {folder / NODES}/NAME")


def up(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The fleet's folder, created by dyno fleet init, or HOSTS.toml, whose hosts become nodes over SSH."
        ),
    ],
) -> None:
    """Start the fleet's scheduler on this machine, and over SSH the nodes that a file names."""
    from serverdyno.fleet.folder import FleetFolder  # noqa: PLC0415
    from serverdyno.fleet.up import start_over_ssh, start_scheduler  # noqa: PLC0415

    if folder.is_file():
        opened, nodes = start_over_ssh(folder)
        typer.echo(f"{len(nodes)} nodes of {opened.name} have joined at {opened.at}: {', '.join(nodes)}")
    else:
        opened = FleetFolder.open(folder)
        pid = start_scheduler(opened)
        typer.echo(f"the scheduler of {opened.name} listens at {opened.at} (process {pid})")
    typer.echo(f"To end the fleet: dyno fleet down {opened.path}")


def status(folder: Folder) -> None:
    """Show the nodes that have joined: CPUs, versions, clocks, network links and spare memory."""
    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.fleet.status import status_of  # noqa: PLC0415

    found = status_of(folder)
    out = standard_output()
    out.print(_table(found))
    refused = found["refused_connections"]
    out.print(
        f"{found['at']}: {sum(row['there'] for row in found['nodes'])} of {len(found['nodes'])} nodes have "
        f"joined; certificates expire on {found['certificates_end']:%d %B %Y}; connections refused: "
        f"{refused}"
    )
    for problem in found["problems"]:
        out.print(problem, markup=False)
    if missing := [row["node"] for row in found["nodes"] if not row["there"]]:
        out.print(
            f"To start {missing[0]} on its machine: dyno node FOLDER, where FOLDER is its copy of "
            f"{folder / 'nodes' / missing[0]}",
            markup=False,
        )
    if found["problems"] or missing:
        raise typer.Exit(1)


def _table(found: dict[str, Any]) -> Any:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from serverdyno.clean import line  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in ("node", "host", "CPUs", "version", "clock error", "links", "free MiB", "state"):
        table.add_column(name)
    for row in found["nodes"]:
        if not row["there"]:
            table.add_row(row["node"], *[""] * 6, "not joined")
            continue
        links = ", ".join(f"{name} {link['mbit_s'] or '?'} Mbit/s" for name, link in row["links"].items())
        cells = (
            row["node"],
            row["host"],
            f"{len(row['cpus'])}",
            row["version"],
            "" if row["clock_error_s"] is None else f"{row['clock_error_s'] * MS_PER_S:.2f} ms",
            links or "loopback",
            f"{row['memory_available_bytes'] // MIB:,}",
            "in use" if row["in_use"] else "free",
        )
        # Half of the cells come from the nodes, so their text is cleaned.
        table.add_row(*(Text(line(cell)) for cell in cells))
    return table


def down(folder: Folder) -> None:
    """End the fleet: its nodes and its scheduler."""
    from serverdyno.fleet.folder import FleetFolder  # noqa: PLC0415
    from serverdyno.fleet.up import end_all  # noqa: PLC0415

    for line in end_all(FleetFolder.open(folder)):
        typer.echo(line)
