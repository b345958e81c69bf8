"""`dyno bonnie`: the six phases of T. Bray's Bonnie on a directory, an NFS export or an SMB share."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno.cli.file_target import (
    MIB,
    AsJson,
    Authentication,
    Directory,
    Hours,
    LogOn,
    Server,
    Settings,
    User,
    target_at,
)

if TYPE_CHECKING:
    from serverdyno import _native

EXAMPLE = "Example: dyno bonnie -d /mnt/disk -s 2047 -m mydisk; or -d nfs://127.0.0.1/export"


def register(app: typer.Typer) -> None:
    app.command("bonnie", epilog=EXAMPLE)(bonnie)


def bonnie(
    directory: Directory = ".",
    server: Server = None,
    settings: Settings = None,
    size_mib: Annotated[
        int, typer.Option("-s", min=1, max=1 << 22, help="Size of the file in MB (2^20).")
    ] = 100,
    machine: Annotated[str, typer.Option("-m", help="The label of the row.")] = "",
    html: Annotated[bool, typer.Option("--html", help="Print the row as HTML, as -html did.")] = False,
    chunk_bytes: Annotated[
        int,
        typer.Option(
            "--chunk",
            min=512,
            max=MIB,
            help="Bytes per read or write. The default is 16384; older programs used 8192.",
        ),
    ] = 16384,
    seeks: Annotated[int, typer.Option(min=1, max=10**7, help="Seeks of one Bonnie, in all.")] = 4000,
    seekers: Annotated[int, typer.Option(min=1, max=64, help="Seekers of one Bonnie at the same time.")] = 3,
    clients: Annotated[
        int,
        typer.Option(
            min=1,
            max=16,
            help="Bonnies at once, each with a session and a file of its own, which begin each phase together. "
            "The row is of all together.",
        ),
    ] = 1,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Compare everything that is read with what was written."),
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the places of the seeks.")] = 0,
    user: User = None,
    authentication: Authentication = "ntlm",
    hours: Hours = 24.0,
    as_json: AsJson = False,
) -> None:
    """Run the six phases of Bonnie on a directory, an NFS export or an SMB share.

    Each file is removed at the end. This re-creates the program from its description. Its rows are not results of the
    original.
    """
    from serverdyno.analysis import bonnie_rows  # noqa: PLC0415
    from serverdyno.tasks import bonnie as task  # noqa: PLC0415

    wanted = task.Bonnie(
        size_mib=size_mib, chunk_bytes=chunk_bytes, seeks=seeks, seekers=seekers, clients=clients, check=check
    )
    size_bytes = wanted.size_bytes
    place = server or directory
    typer.echo(f"File '{place.rstrip('/')}/{task.file_name()}', size: {size_bytes}", err=True)
    if clients > 1:
        typer.echo(f"{clients} at once, each with a file of that size. The row is of all together.", err=True)
    with target_at(directory, server, settings or (), LogOn(user, authentication)) as (url, target):
        phases = task.carry_out(target, url, wanted, seed, hours * 3600)
    if as_json:
        figures = {"url": url, "clients": clients, "size_bytes": size_bytes, "seeks": seeks, "phases": phases}
        typer.echo(json.dumps(figures, indent=1))
        return
    label = machine or socket.gethostname().partition(".")[0]
    rates = bonnie_rows.rates(phases, wanted.all_bytes, wanted.all_seeks)
    if html:
        typer.echo(bonnie_rows.html_row(label, size_bytes // MIB, rates), nl=False)
    else:
        typer.echo(bonnie_rows.HEAD + bonnie_rows.text_row(label, size_bytes // MIB, rates), nl=False)
    _tell(phases, wanted.all_bytes)


def _tell(phases: list[_native.BonniePhase], all_bytes: int) -> None:
    """What the original does not know: percentiles of the calls, and requests to the server."""
    typer.echo("\nBy call, as this program measured it:", err=True)
    typer.echo("phase      calls      p50 us      p99 us      max us  requests", err=True)
    for phase in phases:
        requests = ", ".join(f"{name} {count:,}" for name, count in sorted(phase["requests"].items()))
        typer.echo(
            f"{phase['phase']:<8} {phase['calls']:>7,} {phase['p50_us']:>11,.1f} {phase['p99_us']:>11,.1f} "
            f"{phase['max_us']:>11,.1f}  {requests}",
            err=True,
        )
    checked, unknown = (
        sum(phase[figure] for phase in phases) for figure in ("bytes_checked", "bytes_unknown")
    )
    if checked or unknown:
        typer.echo(f"Compared with what was written: {checked:,} bytes, all of them right.", err=True)
    else:
        typer.echo("What was read was not compared with what was written.", err=True)
    if unknown:
        typer.echo(
            f"Not known whether right: {unknown:,} bytes, read while another seeker wrote them.", err=True
        )
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if all_bytes < 2 * memory_bytes:
        typer.echo(
            f"What is written is smaller than twice this machine's memory ({memory_bytes // MIB:,} MB): "
            "caches will answer most requests.",
            err=True,
        )
