"""What `run`, `resume`, `report` and `plan check` do with plans of tasks, which have no load levels."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from serverdyno.tasks.experiment import TaskExperiment
    from serverdyno.tasks.load import LoadedTasks

FAILED = 1


def refuse(**options: object) -> None:
    """Raise UserError that names every option that was given and that a plan of tasks has no use for."""
    from serverdyno.errors import UserError  # noqa: PLC0415

    if given := [f"--{name.replace('_', '-')}" for name, value in options.items() if value]:
        raise UserError(
            f"{', '.join(given)}: not for a plan of tasks, which has no load levels",
            hint="`dyno run PLAN --scale S --into FOLDER` measures it.",
        )


def run(plan: Path, scale: float | None, into: Path | None) -> None:
    """Begin an experiment and carry it out."""
    from serverdyno.run.create import default_folder  # noqa: PLC0415
    from serverdyno.tasks.carry_out import head_of  # noqa: PLC0415
    from serverdyno.tasks.experiment import TaskExperiment  # noqa: PLC0415

    loaded = _loaded(plan, scale)
    folder = into or default_folder(loaded.plan.name)
    with TaskExperiment.create(folder, loaded.text, head_of(loaded)) as experiment:
        _carry_out(experiment)


def resume(folder: Path) -> None:
    """Continue an experiment. Damaged records are renamed, and their tasks done again."""
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.tasks.experiment import TaskExperiment  # noqa: PLC0415

    with TaskExperiment.open(folder, writable=True) as experiment:
        for problem in experiment.set_aside_damaged():
            say(Console(stderr=True), problem)
        _carry_out(experiment)


def show_and_write(experiment: TaskExperiment, views: Collection[str] = ()) -> bool:
    """Show the answer and its tables, then write the report; False where nothing was measured yet."""
    from rich.console import Console  # noqa: PLC0415

    from serverdyno import report  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.report import tasks  # noqa: PLC0415
    from serverdyno.report.views import text  # noqa: PLC0415

    source = tasks.source_of(experiment)
    if not source.records:
        for problem in source.damaged:
            say(Console(stderr=True), problem)
        return False
    built, out = tasks.build(source), standard_output()
    text.render(built, out)
    written = report.write_report(built, experiment.report_folder(), [report.View(view) for view in views])
    for path in (written, *(written.with_name(view) for view in views)):
        say(out, f"report: {path}")
    return True


def report(folder: Path, views: Collection[str]) -> None:
    """Write the report of an experiment. Raises UserError where there is nothing to report."""
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.tasks.experiment import TaskExperiment  # noqa: PLC0415

    with TaskExperiment.open(folder) as experiment:
        if not show_and_write(experiment, views):
            again = f"dyno resume {shlex.quote(str(folder))}"
            raise UserError(f"{folder} has no finished task yet", hint=f"To continue it: {again}")


def check(plan: Path, scale: float | None) -> None:
    """List all problems of a plan, or its runs and what they write."""
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.run.remarks import remarks  # noqa: PLC0415
    from serverdyno.servers.registry import driver_type  # noqa: PLC0415
    from serverdyno.tasks.carry_out import head_of, largest_bytes  # noqa: PLC0415
    from serverdyno.wording import plural  # noqa: PLC0415

    head, console = head_of(_loaded(plan, scale)), standard_output()
    say(console, f"{plan}: no problems")
    say(
        console,
        f"{plural(len(head.order), 'run')} of {plural(len(head.tasks), 'task')}: {', '.join(head.tasks)}. How long "
        "they take depends on the servers.",
    )
    most = max(largest_bytes(head, task) for task in head.tasks)
    say(console, f"a server needs room for {most / 1e6:,.0f} MB; runs end when their steps are done")
    for run_key in head.order:
        say(console, f"  {run_key.folder}")
    for remark in remarks(head.configurations):
        say(console, f"note: {remark}")
    for name in sorted({each.server for each in head.configurations}):
        if driver_type(name).installed() is None:
            say(console, f"note: {name} is not installed here (see: dyno servers)")
    say(console, f"to run it: dyno run {shlex.quote(str(plan))}")


def _loaded(plan: Path, scale: float | None) -> LoadedTasks:
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415
    from serverdyno.tasks.load import load_tasks  # noqa: PLC0415

    return load_tasks(plan, settings_types(), scale)


def _carry_out(experiment: TaskExperiment) -> None:
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli import extras  # noqa: PLC0415
    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.tasks.carry_out import carry_out  # noqa: PLC0415

    console = Console(stderr=True)
    again = f"dyno resume {shlex.quote(str(experiment.folder))}"
    say(console, f"experiment: {experiment.folder}")
    try:
        whole = carry_out(experiment, lambda line: say(console, line))
    except KeyboardInterrupt:
        say(console, f"interrupted; finished tasks are kept. To continue: {again}")
        raise
    if lacking := extras.missing():
        say(console, f"no report: {', '.join(lacking)} not installed ({extras.hint()})")
    else:
        show_and_write(experiment)
    if not whole:
        say(console, f"some runs failed; to repeat them: {again}")
        raise typer.Exit(FAILED)
