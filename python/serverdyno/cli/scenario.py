"""`dyno scenario`: run a user's commands on files, time each as `time` does, and count its requests to the server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serverdyno import wording
from serverdyno.cli import one_liner
from serverdyno.cli.fields import add
from serverdyno.cli.habits import FilesCommand
from serverdyno.cli.one_liner import (
    AsJson,
    Authentication,
    Directory,
    Hours,
    Into,
    Server,
    Settings,
    User,
    url_of,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from serverdyno.plan.model import Suite
    from serverdyno.plan.protocols.scenario import Scenario, Step
    from serverdyno.published.tables import Cell

EXAMPLE = "Example: dyno scenario etesting-2002 -d nfs://127.0.0.1/export --scale 0.1"
TIMES_TABLE = "interaction"
"""The table of a published report with seconds by figure, server and kind of time."""
_COLUMNS = (("elapsed", 10), ("user", 8), ("system", 8))
_HEAD = (
    f"{'step':<24} {'':<6} {'elapsed s':>10} {'user s':>8} {'system s':>8} {'entries':>9} {'MB':>9}  requests"
)


def register(app: typer.Typer) -> None:
    add(app, "scenario", scenario, _fields, epilog=EXAMPLE, cls=FilesCommand)


def _fields() -> Mapping[str, FieldInfo]:
    from serverdyno.plan.model import Plan  # noqa: PLC0415
    from serverdyno.plan.protocols.nfs import NfsSettings  # noqa: PLC0415
    from serverdyno.plan.protocols.posix import PosixSettings  # noqa: PLC0415

    of_plan = {name: Plan.model_fields[name] for name in ("scale", "drop_caches")}
    of_protocols = {
        "readdirplus": NfsSettings.model_fields["readdirplus"],
        "direct": PosixSettings.model_fields["direct"],
    }
    return of_plan | of_protocols | one_liner.fields_of_plans()


def scenario(
    given: dict[str, Any],
    name_or_file: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUITE]", help="A suite of steps, by name or as a TOML file. Without it, list the names."
        ),
    ] = None,
    directory: Directory = ".",
    server: Server = None,
    settings: Settings = None,
    user: User = None,
    authentication: Authentication = "ntlm",
    hours: Hours = 24.0,
    into: Into = None,
    as_json: AsJson = False,
) -> None:
    """Run a list of file operations: list, copy, unpack, build. Removes its own files."""
    from serverdyno.plan.protocols.files import FILES  # noqa: PLC0415
    from serverdyno.store.records import step_figures  # noqa: PLC0415

    if name_or_file is None:
        for suite in _shipped():
            typer.echo(f"{suite.name:<20} {suite.title}")
        return
    values = one_liner.read(given, _fields(), "dyno scenario")
    suite = _suite(name_or_file, values, None if server else url_of(directory).partition(":")[0])
    place = one_liner.Place(directory, server, settings or (), user, authentication)
    suite = suite.model_copy(update={"length_s": hours * 3600})
    whole = suite.settings(FILES).scenario
    records, url, suite = one_liner.run(suite, place, values, into, command="scenario")
    chosen, scale = suite.settings(FILES).scenario, values.get("scale", 1.0)
    assert chosen is not None and whole is not None  # `_suite` accepts only suites of steps
    steps = list(_by_step(chosen, [step_figures(record, of_bonnie=False) for record in records]))
    if as_json:
        dropped = values.get("drop_caches", False)
        head = {"scenario": suite.name, "url": url, "scale": scale, "caches_dropped": dropped}
        told = [
            {"name": passes[0]["step"], "do": step.do, "passes": [_as_pass(step, one) for one in passes]}
            for step, passes in steps
        ]
        typer.echo(json.dumps(head | {"steps": told}, indent=1))
        return
    _tell_all(chosen, steps)
    if scale != 1:
        typer.echo(
            f"Scale {scale:g}: {chosen.made_entries():,} of the suite's {whole.made_entries():,} files and "
            f"directories, {chosen.workspace_bytes / 1e6:,.1f} of its {whole.workspace_bytes / 1e6:,.1f} MB. Each "
            "directory keeps at least one file of each kind.",
            err=True,
        )
    dropped = "was dropped" if values.get("drop_caches") else "keeps its contents"
    typer.echo(
        f"\ncold: in a fresh session, where this machine's page cache {dropped}. warm: repeated in the "
        "same session.\n"
        "user and system: CPU time of the client's thread, which does not sort or print. These are not results of the "
        "original programs.",
        err=True,
    )


def _shipped() -> Iterator[Suite]:
    from serverdyno.plan import suites  # noqa: PLC0415
    from serverdyno.plan.protocols.scenario import SCENARIO  # noqa: PLC0415

    return (suite for suite in map(suites.load, suites.names()) if suite.workload == SCENARIO)


def _suite(name_or_file: str, values: dict[str, Any], scheme: str | None) -> Suite:
    """Return the suite with the protocol settings that options change. Raises UserError or PlanError.

    `scheme` is the scheme of the URL; None if dyno starts the server.
    """
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.plan import suites  # noqa: PLC0415
    from serverdyno.plan.document import read_text, unknown_name  # noqa: PLC0415
    from serverdyno.plan.load import SUITE_FILE  # noqa: PLC0415
    from serverdyno.plan.protocols.bonnie import BONNIE  # noqa: PLC0415
    from serverdyno.plan.protocols.nfs import NFS  # noqa: PLC0415
    from serverdyno.plan.protocols.posix import POSIX  # noqa: PLC0415
    from serverdyno.plan.protocols.scenario import SCENARIO  # noqa: PLC0415

    if name_or_file.endswith(SUITE_FILE):
        suite = suites.parse(read_text(Path(name_or_file)), name_or_file)
    elif name_or_file in suites.names():
        suite = suites.load(name_or_file)
    else:
        known = [suite.name for suite in _shipped()]
        raise UserError(unknown_name("scenario", name_or_file, known), hint="`dyno scenario` lists them.")
    if suite.workload != SCENARIO:
        own = "Use dyno bonnie. " if suite.workload == BONNIE else ""
        raise UserError(
            f"the suite {suite.name} has no steps", hint=f"{own}`dyno scenario` lists the suites with steps."
        )
    if (not values.get("readdirplus", True) and scheme not in {None, "nfs"}) or (
        values.get("direct") and scheme != "file"
    ):
        raise UserError(
            "--no-readdirplus requires an nfs:// URL, and --direct a directory of this machine", hint=EXAMPLE
        )
    of_nfs = {name: values.pop(name) for name in ("readdirplus",) if name in values}
    of_directory = {name: values.pop(name) for name in ("direct",) if name in values}
    suite = suite.with_settings(NFS, suite.settings(NFS).model_copy(update=of_nfs))
    return suite.with_settings(POSIX, suite.settings(POSIX).model_copy(update=of_directory))


def _by_step(chosen: Scenario, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[Step, list[dict[str, Any]]]]:
    """Yield each step with the figures of its passes or phases."""
    from serverdyno.plan.protocols.scenario import states  # noqa: PLC0415

    left = iter(rows)
    for step in chosen.steps:
        yield step, [next(left) for _ in states(step)]


def _as_pass(step: Step, row: Mapping[str, Any]) -> dict[str, Any]:
    of_clients = row["state"] not in ("", "cold", "warm")
    return {
        "phase": row["state"] if of_clients else None,
        **{key: value for key, value in row.items() if key not in ("step", "state", "figure")},
        **_rates(step, row),
    }


def _tell_all(chosen: Scenario, steps: Sequence[tuple[Step, Sequence[Mapping[str, Any]]]]) -> None:
    """Print a line per pass or phase, and below each step the published lines that it re-creates."""
    then = _published(chosen)
    typer.echo(_HEAD)
    for step, passes in steps:
        for number, one in enumerate(passes):
            requests = ", ".join(f"{name} {count:,}" for name, count in sorted(one["requests"].items()))
            typer.echo(
                f"{'' if number else one['step']:<24} {one['state'] or 'cold':<6} {one['elapsed_s']:>10.3f} "
                f"{one['user_s']:>8.3f} {one['system_s']:>8.3f} {one['entries']:>9,} {one['bytes'] / 1e6:>9,.1f}  "
                f"{_rate(step, one)}{requests}"
            )
        for line in then(step.figure):
            typer.echo(line)


def _published(chosen: Scenario) -> Any:
    """Return a function that returns the published lines of a figure (measured on other machines, at scale 1)."""
    if chosen.published is None:
        return lambda _: ()
    from serverdyno import published  # noqa: PLC0415

    report = published.load(chosen.published)
    year, table = chosen.published.partition("-")[0], report.tables[TIMES_TABLE]

    def lines(figure: int | None) -> list[str]:
        rows = table.select({"figure": figure}) if figure is not None else []
        servers = dict.fromkeys(row["server"] for row in rows)
        return [
            f"  {year}: {server:<22.22}" + "".join(_cell(rows, server, *column) for column in _COLUMNS)
            for server in servers
        ]

    return lines


def _cell(rows: list[dict[str, Cell]], server: Cell, time: str, width: int) -> str:
    from serverdyno.published.tables import number  # noqa: PLC0415

    seconds = next(number(row["seconds"]) for row in rows if (row["server"], row["time"]) == (server, time))
    return f" {wording.NOTHING if seconds is None else f'{seconds:.3f}':>{width}}"


def _rate(step: Step, one: Mapping[str, Any]) -> str:
    """Return `1,234 files/s; ` for a phase; for streams, MB/s and percentiles of reads and writes."""
    match _rates(step, one):
        case {"files_s": files_s}:
            return f"{files_s:,.0f} files/s; "
        case {"mb_s": mb_s}:
            return f"{mb_s:,.1f} MB/s, p50 {one['p50_us']:,.0f} us, p99 {one['p99_us']:,.0f} us; "
    return ""


def _rates(step: Step, one: Mapping[str, Any]) -> dict[str, float]:
    """Return the files/s or MB/s of a phase; empty for a step of one client."""
    from serverdyno.plan.protocols.scenario import OfClients, Streams  # noqa: PLC0415

    if not isinstance(step, OfClients):
        return {}
    elapsed_s = max(one["elapsed_s"], 1e-9)
    if isinstance(step, Streams):
        return {"mb_s": one["bytes"] / 1e6 / elapsed_s}
    return {"files_s": one["entries"] / elapsed_s}
