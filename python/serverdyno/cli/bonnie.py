"""`dyno bonnie`: the six phases of T. Bray's Bonnie on a directory, an NFS export or an SMB share."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serverdyno import _native
    from serverdyno.analysis.bonnie_rows import Rate

MIB = 1 << 20
PASSWORD_VARIABLE = "DYNO_SMB_PASSWORD"
EXAMPLE = "Example: dyno bonnie -d /mnt/disk -s 2047 -m mydisk; or -d nfs://127.0.0.1/export"
# What stdio takes at once: st_blksize of a local file system, wsize of an NFS client.
LOCAL_STDIO_BYTES, REMOTE_STDIO_BYTES = 4096, MIB
NONCE_BITS = 64


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("bonnie", epilog=EXAMPLE)(bonnie)


def bonnie(
    directory: Annotated[
        str, typer.Option("-d", help="A directory of this machine, or an nfs:// or smb:// URL of loopback.")
    ] = ".",
    size_mib: Annotated[
        int, typer.Option("-s", min=1, max=1 << 22, help="Size of the file in MB (2^20).")
    ] = 100,
    machine: Annotated[str, typer.Option("-m", help="The label of the row.")] = "",
    html: Annotated[bool, typer.Option("--html", help="Print the row as HTML, as -html did.")] = False,
    chunk_bytes: Annotated[
        int,
        typer.Option(
            "--chunk", min=512, max=MIB, help="Bytes of a read or write: 16384; older programs 8192."
        ),
    ] = 16384,
    seeks: Annotated[int, typer.Option(min=1, max=10**7, help="Seeks in all.")] = 4000,
    seekers: Annotated[int, typer.Option(min=1, max=64, help="Seekers at the same time.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the places of the seeks.")] = 0,
    user: Annotated[
        str | None, typer.Option(help=f"Of an SMB server; the password is in {PASSWORD_VARIABLE}.")
    ] = None,
    hours: Annotated[float, typer.Option(min=0.001, max=1000.0, help="The longest that it may take.")] = 24.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything that was measured as JSON.")
    ] = False,
) -> None:
    """Write, rewrite, write, read, read and seek in one file, as Bonnie did; it is removed at the end.

    A re-creation from the program's description: its rows are not results of the original program.
    """
    from serverdyno.analysis import bonnie_rows  # noqa: PLC0415
    from serverdyno.errors import ServerError  # noqa: PLC0415

    url = directory if "://" in directory else Path(directory).resolve().as_uri()
    size_bytes = size_mib * MIB // chunk_bytes * chunk_bytes
    file = f"Bonnie.{os.getpid()}"
    typer.echo(f"File '{directory.rstrip('/')}/{file}', size: {size_bytes}", err=True)
    try:
        phases = _measured(
            url,
            user,
            {
                "file": file,
                "bytes": size_bytes,
                "chunk_bytes": chunk_bytes,
                "stdio_bytes": LOCAL_STDIO_BYTES if url.startswith("file:") else REMOTE_STDIO_BYTES,
                "seeks": seeks,
                "seekers": seekers,
                "seed": seed,
                "most_ns": int(hours * 3600e9),
            },
        )
    except _answer_errors() as error:
        raise ServerError(
            f"Bonnie could not be carried out at {directory}: {error.args[2]}",
            hint=error.args[3] or "Check that the directory can be written, and has room for the file.",
        ) from error
    if as_json:
        typer.echo(
            json.dumps({"url": url, "size_bytes": size_bytes, "seeks": seeks, "phases": phases}, indent=1)
        )
        return
    label = machine or socket.gethostname().partition(".")[0]
    rates = _rates(phases, size_bytes, seeks)
    if html:
        typer.echo(bonnie_rows.html_row(label, size_bytes // MIB, rates), nl=False)
    else:
        typer.echo(bonnie_rows.HEAD + bonnie_rows.text_row(label, size_bytes // MIB, rates), nl=False)
    _tell(phases, size_bytes)


def _answer_errors() -> type[Exception]:
    from serverdyno import _native  # noqa: PLC0415

    return _native.AnswerError


def _measured(url: str, user: str | None, spec: dict[str, object]) -> list[_native.BonniePhase]:
    """Raises DynoError for a target that can't be used, AnswerError where a phase failed."""
    import secrets  # noqa: PLC0415

    from serverdyno import _native, protocols  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.fleet.consent import open_target  # noqa: PLC0415
    from serverdyno.plan.model import Bounds  # noqa: PLC0415
    from serverdyno.plan.validate import url_problem  # noqa: PLC0415
    from serverdyno.protocols.access import Access  # noqa: PLC0415
    from serverdyno.protocols.files import FILES  # noqa: PLC0415

    if (
        wrong := url_problem(url, [each for p in protocols.carrying(FILES) for each in p.schemes])
    ) is not None:
        raise UserError(wrong, hint=EXAMPLE)
    protocol = protocols.of_scheme(url.partition(":")[0])
    assert protocol is not None  # its scheme was one of those
    password = os.environ.get(PASSWORD_VARIABLE) if user is not None else None
    bounds = Bounds(max_clients=1, max_rate_per_s=1.0, max_length_s=1.0)  # what is elsewhere is refused below
    target = open_target(protocol, Access(url, user, password), protocol.settings_type(), bounds)
    if not target.loopback:
        raise UserError(
            f"{url} is not on this machine: Bonnie has no bound of its rate",
            hint="Measure a server elsewhere by a plan with bounds.",
        )
    return _native.bonnie(target, json.dumps(spec), secrets.randbits(NONCE_BITS))


def _rates(phases: list[_native.BonniePhase], size_bytes: int, seeks: int) -> dict[str, Rate]:
    from serverdyno.analysis import bonnie_rows  # noqa: PLC0415

    found = {}
    for phase in phases:
        took = (max(phase["elapsed_s"], 1e-9), phase["cpu_s"])
        is_seeks = phase["phase"] == "seeks"
        rate = bonnie_rows.random(seeks, *took) if is_seeks else bonnie_rows.sequential(size_bytes, *took)
        found[phase["phase"]] = rate
    return found


def _tell(phases: list[_native.BonniePhase], size_bytes: int) -> None:
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
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size_bytes < 2 * memory_bytes:
        typer.echo(
            f"The file is smaller than twice this machine's memory ({memory_bytes // MIB:,} MB): "
            "caches answer most of it.",
            err=True,
        )
