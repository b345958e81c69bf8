"""`dyno scenario`: a user's commands on files, each timed as by `time`, with the requests to the server beside it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno import wording
from serverdyno.cli.file_target import (
    AsJson,
    Authentication,
    Directory,
    Hours,
    LogOn,
    Server,
    Settings,
    User,
    target_at,
    url_of,
)

if TYPE_CHECKING:
    from serverdyno import _native
    from serverdyno.published.tables import Cell
    from serverdyno.scenarios.carry_out import StepResult
    from serverdyno.scenarios.model import Scenario

EXAMPLE = "Example: dyno scenario etesting-2002 -d nfs://127.0.0.1/export --scale 0.1"
TIMES_TABLE = "interaction"
"""Of a published report: seconds by figure, server and kind of time."""
_COLUMNS = (("elapsed", 10), ("user", 8), ("system", 8))
_HEAD = (
    f"{'step':<24} {'':<6} {'elapsed s':>10} {'user s':>8} {'system s':>8} {'entries':>9} {'MB':>9}  requests"
)


def register(app: typer.Typer) -> None:
    app.command("scenario", epilog=EXAMPLE)(scenario)


def scenario(
    name_or_file: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="A name, or a TOML file. Without: the names.")
    ] = None,
    directory: Directory = ".",
    server: Server = None,
    settings: Settings = None,
    scale: Annotated[
        float, typer.Option(help="So many times the files, and the bytes of single files; results say so.")
    ] = 1.0,
    drop_caches: Annotated[
        bool,
        typer.Option("--drop-caches", help="Drop this machine's page cache before each step; root alone."),
    ] = False,
    readdirplus: Annotated[
        bool, typer.Option(help="NFS: list with attributes; --no-readdirplus as clients before 2003.")
    ] = True,
    direct: Annotated[
        bool, typer.Option("--direct", help="A directory: around the page cache (O_DIRECT), where aligned.")
    ] = False,
    local: Annotated[
        Path | None,
        typer.Option(help="Where files to copy lie for a while; by default with temporary files."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of contents.")] = 0,
    user: User = None,
    authentication: Authentication = "ntlm",
    hours: Hours = 24.0,
    as_json: AsJson = False,
) -> None:
    """Carry a scenario's steps out: lists, copies, a tree that is unpacked and built. What it makes, it removes."""
    from serverdyno import scenarios  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan.protocols.files import block_bytes  # noqa: PLC0415
    from serverdyno.scenarios import carry_out, model  # noqa: PLC0415

    if name_or_file is None:
        for name in scenarios.names():
            typer.echo(f"{name:<20} {scenarios.load(name).title}")
        return
    if not (math.isfinite(scale) and 0 < scale <= 1):
        raise UserError("--scale must be above 0 and at most 1", hint=EXAMPLE)
    scheme = url_of(directory).partition(":")[0] if server is None else None
    if (not readdirplus and scheme not in {None, "nfs"}) or (direct and scheme != "file"):
        raise UserError("--no-readdirplus is for nfs://, and --direct for a directory", hint=EXAMPLE)
    chosen = model.scaled(scenarios.load(name_or_file), scale)
    more = {"readdirplus": False} if not readdirplus else {"direct": True} if direct else {}
    done: list[StepResult] = []
    tell = _teller(chosen, done, as_json=as_json)
    with target_at(directory, server, settings or (), LogOn(user, authentication), more) as (url, target):
        options = carry_out.Options(block_bytes(url), drop_caches, local, seed, hours * 3600)
        if scale != 1:
            typer.echo(f"Scale {scale:g}: not the sizes of the scenario.", err=True)
        carry_out.carry_out(chosen, target, options, tell)
    if as_json:
        head = {"scenario": chosen.name, "url": url, "scale": scale, "caches_dropped": drop_caches}
        typer.echo(json.dumps(head | {"steps": [asdict(result) for result in done]}, indent=1))
        return
    dropped = "dropped before" if drop_caches else "kept what it had"
    typer.echo(
        f"\ncold: in a fresh session, this machine's page cache {dropped}. warm: once more in the same session.\n"
        "user and system: CPU time of the client's thread, which does not sort or print. Not results of the original "
        "programs.",
        err=True,
    )


def _teller(chosen: Scenario, done: list[StepResult], *, as_json: bool) -> Callable[[StepResult], None]:
    """Return what notes each step in `done`, and prints it where no JSON is asked for."""
    then = {} if as_json else _published(chosen)

    def tell(result: StepResult) -> None:
        if not done and not as_json:
            typer.echo(_HEAD)
        done.append(result)
        if not as_json:
            _tell(result)
            for line in then.get(result.name, ()):
                typer.echo(line)
            sys.stdout.flush()

    return tell


def _published(scenario: Scenario) -> dict[str, list[str]]:
    """By step the lines of the report that the scenario re-creates: other machines, and the sizes of scale 1."""
    if scenario.published is None:
        return {}
    from serverdyno import published  # noqa: PLC0415
    from serverdyno.scenarios import model  # noqa: PLC0415

    report = published.load(scenario.published)
    year, table = scenario.published.partition("-")[0], report.tables[TIMES_TABLE]
    found: dict[str, list[str]] = {}
    for step in scenario.steps:
        rows = table.select({"figure": step.figure}) if step.figure is not None else []
        servers = dict.fromkeys(row["server"] for row in rows)
        found[model.label(step)] = [
            f"  {year}: {server:<22.22}" + "".join(_cell(rows, server, *column) for column in _COLUMNS)
            for server in servers
        ]
    return found


def _cell(rows: list[dict[str, Cell]], server: Cell, time: str, width: int) -> str:
    from serverdyno.published.tables import number  # noqa: PLC0415

    seconds = next(number(row["seconds"]) for row in rows if (row["server"], row["time"]) == (server, time))
    return f" {wording.NOTHING if seconds is None else f'{seconds:.3f}':>{width}}"


def _tell(result: StepResult) -> None:
    """A line for each pass or phase, as it ends; of several clients also the rate."""
    for number, one in enumerate(result.passes):
        requests = ", ".join(f"{name} {count:,}" for name, count in sorted(one["requests"].items()))
        name = "" if number else result.name
        state = one["phase"] or ("warm" if number else "cold")
        typer.echo(
            f"{name:<24} {state:<6} {one['elapsed_s']:>10.3f} {one['user_s']:>8.3f} {one['system_s']:>8.3f} "
            f"{one['entries']:>9,} {one['bytes'] / 1e6:>9,.1f}  {_rate(one)}{requests}"
        )


def _rate(one: _native.StepPass) -> str:
    """`1,234 files/s; ` of a phase, with percentiles where reads and writes were timed by themselves."""
    if one["phase"] is None:
        return ""
    elapsed_s = max(one["elapsed_s"], 1e-9)
    if one["p50_us"] is None or one["p99_us"] is None:
        return f"{one['entries'] / elapsed_s:,.0f} files/s; "
    moved = one["bytes"] / 1e6 / elapsed_s
    return f"{moved:,.1f} MB/s, p50 {one['p50_us']:,.0f} us, p99 {one['p99_us']:,.0f} us; "
