"""What `run`, `resume` and `load` have in common: carry an experiment out, show its table, write its report."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from serverdyno import report
from serverdyno.cli.progress import progress_for
from serverdyno.report import text
from serverdyno.runner.experiment import carry_out
from serverdyno.store.experiment import Experiment

FAILED = 1
WIDTH = 120  # columns of a table that goes to a file or a pipe


def carry_out_and_report(experiment: Experiment) -> None:
    """Does what is left to do. Exits with 1 where a run failed; what was measured is reported all the same."""
    console = Console(stderr=True)
    try:
        with progress_for(console) as progress:
            whole = carry_out(experiment, progress)
    except KeyboardInterrupt:
        console.print(
            f"interrupted; finished mixes are kept: dyno resume {experiment.folder}", soft_wrap=True
        )
        raise
    finish(experiment)
    if not whole:
        console.print(f"some runs failed; `dyno resume {experiment.folder}` tries them again", style="bold")
        raise typer.Exit(FAILED)


def finish(experiment: Experiment) -> None:
    """The table on standard output, the report in the experiment's folder."""
    if not experiment.mixes():
        return
    out = Console(width=None if sys.stdout.isatty() else WIDTH)
    text.render(report.build(experiment), out)
    out.print(f"report: {report.write(experiment, experiment.folder)}", soft_wrap=True, highlight=False)
