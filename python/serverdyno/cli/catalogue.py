"""`dyno list [FOLDER]` and `dyno show EXPERIMENT`: describe experiments, using only their records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serverdyno.store.experiment import Experiment

DEEPEST = 4
"""Greatest depth of nested folders that is searched."""


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: dyno list experiments")(list_experiments)
    app.command("show", epilog="Example: dyno show experiments/quick-web-20261122-101500")(show)


def list_experiments(
    folder: Annotated[Path, typer.Argument(help="Folder to search, including its subfolders.")] = Path(
        "experiments"
    ),
) -> None:
    """List the experiments below a folder, newest first, with plan, servers, state and peak."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno import clean  # noqa: PLC0415
    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.errors import DynoError, UserError  # noqa: PLC0415

    if not folder.is_dir():
        raise UserError(
            f"no such folder: {folder}",
            hint="`dyno run` and `dyno load` create the folder experiments. For another one: dyno list FOLDER.",
        )
    rows = []
    for found in experiments_below(folder):
        try:
            row = _row(found)
        except DynoError as error:
            row = ["", "", "", f"can't be read: {error}", ""]
        rows.append([*row, f"{found}"])
    table = Table(
        "date (UTC)", "plan", "servers", "state", "highest", "folder", box=None, header_style="bold"
    )
    for row in sorted(rows, reverse=True):
        table.add_row(*(clean.line(cell) for cell in row))
    standard_output().print(table if rows else f"no experiment in or below {folder}", markup=False)


def show(
    experiment: Annotated[Path, typer.Argument(help="Folder of an experiment, finished or not.")],
) -> None:
    """Show an experiment: its plan and suite, the state of each run, and the path of its report."""
    from serverdyno.cli.output import say, say_load, standard_output  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    opened, out = Experiment.open(experiment), standard_output()
    head = opened.head
    say(out, head.plan.title)
    say(
        out,
        f"plan {head.plan.name}, created {head.created:%Y-%m-%d %H:%M %Z} with Serverdyno "
        f"{head.tool_version}",
    )
    for suite in head.suites:
        say_load(out, suite, head.configurations)
        levels = head.of_suite(suite).levels
        if suite.ends_when_done:
            say(out, f"{len(levels)} levels that end when their work is done; scale {head.scale:g}")
            continue
        loads = ", ".join(f"{level.clients} x {level.threads}" for level in levels)
        say(out, f"load levels (clients x threads): {loads}; {levels[0].length_s:g} s per level")
    _, state, highest = _told(opened)
    say(out, f"state: {state}; highest throughput: {highest or 'not measured'}")
    finished, notes = opened.finished(), opened.run_notes()
    for run in head.order:
        done = sum((run.number, level.index) in finished for level in head.levels)
        note = notes.get(run.number)
        reason = f": {note.reason}" if note is not None and note.reason else ""
        say(
            out,
            f"  {run.folder}  {done} of {len(head.levels)} levels, {note.state if note else 'not begun'}{reason}",
        )
    page = opened.report_page
    say(out, f"report: {page}" if page.is_file() else f"no report yet; to write it: dyno report {experiment}")


def experiments_below(folder: Path, deepest: int = DEEPEST) -> Iterator[Path]:
    """Yield the folders of experiments: `folder` itself, or those below it. Links are not followed."""
    if (folder / "experiment.json").is_file():
        yield folder
    elif deepest:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.is_symlink():
                yield from experiments_below(child, deepest - 1)


def _row(folder: Path) -> list[str]:
    """Return date, plan, servers, state and the highest value. Raises DynoError."""
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    opened = Experiment.open(folder)
    return [f"{opened.head.created:%Y-%m-%d %H:%M}", opened.head.plan.name, *_told(opened)]


def _told(opened: Experiment) -> tuple[str, str, str]:
    """Return the servers, the state, and the highest mean throughput with its level, as in the report."""
    head = opened.head
    servers = ", ".join(dict.fromkeys(configuration.name for configuration in head.configurations))
    records = [record for record in opened.levels() if record.void is None]
    planned = len(head.order) * len(head.levels)
    failed = sum(note.state == "failed" for note in opened.run_notes().values())
    state = "complete" if len(records) == planned else f"{len(records)} of {planned} levels"
    state += f", {failed} failed" if failed else ""
    # Suites may use different units, so only the first timed suite gives the highest value.
    timed = next((suite for suite in head.suites if not suite.ends_when_done), head.suite)
    of_first = {level.index for level in head.of_suite(timed).levels if level.step is None}
    records = [record for record in records if record.level in of_first]
    if not records:
        return servers, state, ""
    terms = timed.terms
    levels: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for record in records:
        levels[record.configuration, record.level, record.clients].append(terms.throughput(record))
    (name, _, clients), values = max(levels.items(), key=lambda level: fmean(level[1]))
    return servers, state, f"{terms.written(fmean(values))} {terms.unit}, {name}, {clients} clients"
