"""`dyno bonnie`: the six phases of T. Bray's Bonnie on a directory, an NFS export or an SMB share."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno.cli import one_liner
from serverdyno.cli.fields import add
from serverdyno.cli.habits import ON_FILES, FilesCommand
from serverdyno.cli.one_liner import AsJson, Authentication, Directory, Hours, Into, Server, Settings, User
from serverdyno.units import MIB

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from serverdyno.store.records import LevelRecord

EXAMPLE = "Example: dyno bonnie -d /mnt/disk -s 2047 -m mydisk; or -d nfs://127.0.0.1/export"
ALONE = "Leave it out."
HABITS = {
    "-u": (
        "the user that runs dyno creates the files",
        "Leave the option out, or run dyno as that user. Over NFS the URL names the user: "
        "?uid=1000&gid=1000.",
    ),
    "-g": (
        "the group that runs dyno owns the files",
        "Leave the option out. Over NFS the URL names the group: ?uid=1000&gid=1000.",
    ),
    "-n": (
        "dyno bonnie has no phases that create files",
        "Leave the option out; dyno scenario metadata creates files.",
    ),
    "-r": (
        "dyno bonnie does not derive the size from the memory",
        "Leave the option out, and give the size: -s 16G.",
    ),
    "--size": ("the option for the size is -s", "-s 16G, or a number of MB."),
    "-f": ("the character phases always run", ALONE),
    "-b": (
        "dyno bonnie does not sync after each write",
        "Leave the option out; dyno scenario streams flushes at the end.",
    ),
    "-x": ("one run prints one row", "For several rows, use dyno run with a plan that has repetitions = 3."),
    "-q": ("only the row goes to standard output", ALONE),
    "-D": ("Bonnie uses the page cache", "dyno scenario streams --direct bypasses it."),
    "-y": ("all clients begin each phase together", "Several at once: --clients 4."),
    "-p": (
        "a port (smbclient's -p) belongs in the URL, and all clients begin each phase together (bonnie++'s "
        "-p)",
        "-d smb://HOST:PORT/SHARE. Several clients at once: --clients 4.",
    ),
    "-z": ("the option for the seed is --seed", "--seed 1"),
}
"""Options of bonnie++ that `dyno bonnie` lacks: what dyno does, and what to use instead."""


class BonnieCommand(FilesCommand):
    """The command `dyno bonnie`, which also recognises options of bonnie++."""

    habits = ON_FILES | HABITS


def register(app: typer.Typer) -> None:
    add(app, "bonnie", bonnie, _fields, epilog=EXAMPLE, cls=BonnieCommand)


def _fields() -> Mapping[str, FieldInfo]:
    from pydantic import Field  # noqa: PLC0415
    from pydantic.fields import FieldInfo  # noqa: PLC0415

    from serverdyno.plan.model import MAX_CLIENTS, Suite  # noqa: PLC0415
    from serverdyno.plan.protocols.bonnie import BonnieSettings  # noqa: PLC0415
    from serverdyno.plan.protocols.options import Option, option_of  # noqa: PLC0415

    sentence = "Number of clients that begin each phase together, each with its own file."
    bounds = Field(ge=1, le=MAX_CLIENTS, description=sentence)
    names = Option(option_of("clients", Suite.model_fields["clients"]).names)
    of_suite = {"clients": FieldInfo.from_annotation(Annotated[int, bounds, names])}  # type: ignore[arg-type]
    return BonnieSettings.model_fields | of_suite | one_liner.fields_of_plans()


def bonnie(
    given: dict[str, Any],
    directory: Directory = ".",
    server: Server = None,
    settings: Settings = None,
    machine: Annotated[str, typer.Option("-m", help="Label of the row.")] = "",
    html: Annotated[
        bool, typer.Option("--html", help="Print the row as HTML, like the original -html.")
    ] = False,
    user: User = None,
    authentication: Authentication = "ntlm",
    hours: Hours = 24.0,
    into: Into = None,
    as_json: AsJson = False,
) -> None:
    """Run the six phases of Bonnie on a directory, an NFS export or an SMB share.

    Each file is removed at the end. This re-creates the program from its description. Its rows are not results of the
    original.
    """
    from serverdyno.analysis import bonnie_rows  # noqa: PLC0415
    from serverdyno.plan import suites  # noqa: PLC0415
    from serverdyno.plan.protocols.bonnie import BONNIE, BonnieSettings  # noqa: PLC0415
    from serverdyno.plan.protocols.files import FILES, FilesSettings  # noqa: PLC0415
    from serverdyno.store.records import step_figures  # noqa: PLC0415

    if "size_mib" in given:
        given = given | {"size_mib": _mib(f"{given['size_mib']}")}
    values = one_liner.read(given, _fields(), "dyno bonnie")
    own = {name: values.pop(name) for name in BonnieSettings.model_fields if name in values}
    suite = suites.load(BONNIE).with_settings(FILES, FilesSettings(bonnie=BonnieSettings(**own)))
    changed = {
        "clients": [values.pop("clients", suite.clients[0])],
        "length_s": hours * 3600,
        "certainty": {},
    }
    place = one_liner.Place(directory, server, settings or (), user, authentication)
    records, url, suite = one_liner.run(suite.model_copy(update=changed), place, values, into, command=BONNIE)
    wanted, clients = suite.settings(FILES).bonnie, suite.clients[0]
    assert wanted is not None  # the suite is Bonnie's
    phases = [step_figures(record, of_bonnie=True) for record in records]
    rates = bonnie_rows.rates(
        [bonnie_rows.Phase(phase=phase["step"], **{key: phase[key] for key in TIMES}) for phase in phases],  # type: ignore[typeddict-item]
        clients * wanted.size_bytes,
        clients * wanted.seeks,
    )
    if as_json:
        told = [{"phase": phase.pop("step"), **phase} for phase in phases]
        for phase in told:
            per_s, phase["cpu_percent"] = rates[phase["phase"]]
            phase["seeks_s" if phase["phase"] == "seeks" else "kib_s"] = per_s
        sizes = {"size_bytes": wanted.size_bytes, "seeks": wanted.seeks}
        typer.echo(json.dumps({"url": url, "clients": clients, **sizes, "phases": told}, indent=1))
        return
    label = machine or socket.gethostname().partition(".")[0]
    row = bonnie_rows.html_row if html else bonnie_rows.text_row
    typer.echo(("" if html else bonnie_rows.HEAD) + row(label, wanted.size_bytes // MIB, rates), nl=False)
    _tell(phases, clients * wanted.size_bytes)
    _tell_bound(records, url, values.get("max_rate_per_s"))


def _mib(size: str) -> str:
    """Return a size, with a unit as in bonnie++ (k, m or g), in MB (2^20 bytes). Raises UserError."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    found = re.fullmatch(r"(\d+)(?:([kmgt])(?:i?b)?)?", size, re.IGNORECASE | re.ASCII)
    kib = int(found[1]) * KIB[(found[2] or "m").lower()] if found else 0
    if found is not None and kib % 1024:
        raise UserError(
            f"-s {size}: not a whole number of MiB: {kib:,} KiB are {kib / 1024:,.4g} MiB",
            hint=f"Use -s {-(-kib // 1024)}.",
        )
    if found is None:
        raise UserError(
            f"-s {size}: the size must be a whole number of MB, or end with K, M or G",
            hint="For example -s 16384 or -s 16G. For bonnie++'s -s SIZE:CHUNK, use -s SIZE --chunk BYTES.",
        )
    return f"{kib // 1024}"


KIB = {"k": 1, "m": 1 << 10, "g": 1 << 20, "t": 1 << 30}
TIMES = ("elapsed_s", "user_s", "system_s")


def _tell(phases: Sequence[Mapping[str, Any]], all_bytes: int) -> None:
    """Print figures that the original does not measure: percentiles of the calls, and requests to the server."""
    typer.echo("\nBy call, as measured by this program:", err=True)
    typer.echo("phase      calls      p50 us      p99 us      max us  requests", err=True)
    for phase in phases:
        requests = ", ".join(f"{name} {count:,}" for name, count in sorted(phase["requests"].items()))
        typer.echo(
            f"{phase['step']:<8} {phase['calls']:>7,} {phase['p50_us']:>11,.1f} {phase['p99_us']:>11,.1f} "
            f"{phase['max_us']:>11,.1f}  {requests}",
            err=True,
        )
    checked, unknown = (
        sum(phase[figure] for phase in phases) for figure in ("bytes_checked", "bytes_unknown")
    )
    if checked or unknown:
        typer.echo(f"Compared with the written data: {checked:,} bytes, all correct.", err=True)
    else:
        typer.echo("The data read were not compared with the data written.", err=True)
    if unknown:
        typer.echo(
            f"Not checked: {unknown:,} bytes that another seeker overwrote at the same time.", err=True
        )
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if all_bytes < 2 * memory_bytes:
        typer.echo(
            f"The files are smaller than twice this machine's memory ({memory_bytes // MIB:,} MB): "
            "caches will answer most requests.",
            err=True,
        )


def _tell_bound(records: Sequence[LevelRecord], url: str, bound: float | None) -> None:
    """Print the phases that the rate limit slowed."""
    from serverdyno.analysis.trust import rate_marks  # noqa: PLC0415

    limited = [f"{record.step}" for record in records if rate_marks(record.bounded_s(url), bound)]
    if limited:
        typer.echo(
            f"The rate limit of {bound:g} requests/s slowed {', '.join(limited)}: "
            "these figures show the limit, not the server.",
            err=True,
        )
