"""What `run`, `resume` and `load` have in common: carry an experiment out, show its table, write its report."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import typer
from rich.console import Console

from serverdyno.cli import extras
from serverdyno.cli.output import say, standard_output
from serverdyno.cli.progress import progress_for
from serverdyno.runner.experiment import carry_out, missing
from serverdyno.store.experiment import Experiment

FAILED = 1


def carry_out_and_report(experiment: Experiment) -> None:
    """Does what is left to do. Exits with 1 where a run failed; what was measured is reported all the same."""
    console = Console(stderr=True)
    resume = f"dyno resume {shlex.quote(str(experiment.folder))}"
    say(console, f"experiment: {experiment.folder}")
    try:
        with progress_for(console) as progress:
            whole = carry_out(experiment, progress)
        if lacking := extras.missing():
            say(
                console,
                f"no report: {', '.join(lacking)} not installed ({extras.HINT}). {_report_later(experiment)}",
            )
        else:
            show_and_write(experiment)
    except KeyboardInterrupt:
        say(console, f"interrupted; finished mixes are kept. To go on: {resume}")
        raise
    if not whole:
        again = f"; to try them again: {resume}" if missing(experiment) else ""
        say(console, f"some runs failed{again}")
        raise typer.Exit(FAILED)


def _report_later(experiment: Experiment) -> str:
    return f"To make it, here or elsewhere: dyno report {shlex.quote(str(experiment.folder))}"


def show_and_write(experiment: Experiment, views: Collection[str] = (), beside: str | None = None) -> bool:
    """The table on standard output, the report in the experiment's folder; False where nothing was measured yet.

    `views`: the files to write beside the page, of `report.View`. `beside`: the name of a published report whose
    curves are to stand beside these. Raises DynoError.
    """
    # Imported once the load is over: it takes most of a second, for which nobody wants to wait at the start.
    from serverdyno import published, report  # noqa: PLC0415
    from serverdyno.report.views import text  # noqa: PLC0415

    out = standard_output()
    built = report.build(experiment, None if beside is None else published.load(beside))
    if not built.source.records:
        for problem in built.source.damaged:
            say(Console(stderr=True), problem)
        return False
    text.render(built, out)
    page = report.write_report(built, experiment.report_folder(), [report.View(view) for view in views])
    for path in (page, *(page.with_name(view) for view in views)):
        say(out, f"report: {path}")
    return True
