"""The common part of `run`, `resume` and `load`: run an experiment, show its table, and write its report."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from serverdyno.cli import extras
from serverdyno.cli.output import say, say_load, standard_output
from serverdyno.cli.progress import progress_for
from serverdyno.errors import DynoError, UserError, WriteError
from serverdyno.plan.spelling import in_plan, is_of_options
from serverdyno.run.experiment import carry_out, missing
from serverdyno.run.progress import Progress
from serverdyno.run.time_left import lowest_bound, time_left
from serverdyno.store.experiment import Experiment
from serverdyno.units import format_duration_s
from serverdyno.wording import listing, plural

if TYPE_CHECKING:
    from serverdyno.live.feed import Feed
    from serverdyno.plan.model import RunKey
    from serverdyno.report.model import Report
    from serverdyno.run.run import NextRate

FAILED = 1


def carry_out_and_report(
    experiment: Experiment,
    *,
    page: bool = True,
    new: bool = False,
    live: int | None = None,
    as_json: bool = False,
) -> None:
    """Run the missing levels of an experiment, show the table, and write the page unless `page` is false.

    `new`: the folder was created for this run, and is removed if a stage before the first run fails. `live` is the port
    of a local page that shows the run. `as_json`: print the report's document instead of the table. Exits with 1 if a
    run failed or measured nothing, after reporting the other runs.
    """
    console = Console(stderr=True)
    resume = f"dyno resume {shlex.quote(str(experiment.folder))}"
    say(console, f"experiment: {experiment.folder}")
    head, rest = experiment.head, missing(experiment)
    spelled = str if is_of_options(head.suite) else in_plan
    for suite in head.suites:
        say_load(console, suite, head.configurations)
    if rest:
        rate_per_s = lowest_bound(head.configurations)
        left = time_left(head.suites, list(rest.values()), head.plan.testbed, rate_per_s)
        # If a level has a number of operations, it ends after these operations, and its length is only an upper bound.
        is_bound = any(level.operations is not None for level in head.levels)
        about = "at most" if is_bound else "about"
        takes = f", {about} {format_duration_s(left.total_s())} in all" if left.load_s else ""
        say(console, f"{plural(len(rest), 'run')}{takes}")
    try:
        with ExitStack() as closing:
            with progress_for(console, spelled=spelled) as lines:
                progress, feed = closing.enter_context(_page_for(live, lines, experiment, console))
                whole = _until_precise(experiment, progress)
            written = _report(experiment, console, page=page, as_json=as_json)
            if feed is not None:
                feed.end(f"{experiment.report_page}" if written else None)
    except DynoError as error:
        # Nothing was measured, so there is nothing to resume.
        if new and experiment.discard():
            say(console, f"nothing was measured, so the experiment was removed: {experiment.folder}")
        elif isinstance(error, WriteError):
            again = f"To continue: {resume}" if missing(experiment) else _report_later(experiment)
            say(console, f"The finished load levels are kept. {again}")
        # If several servers have problems, the message already contains their hints.
        error.args = tuple(map(spelled, error.args))
        error.hint = None if error.hint is None else spelled(error.hint)
        raise
    except KeyboardInterrupt:
        say(console, f"interrupted; the finished load levels are kept. To continue: {resume}")
        raise
    if not whole:
        again = f"; to repeat them: {resume}" if missing(experiment) else ""
        say(console, f"some runs failed{again}")
        raise typer.Exit(FAILED)
    if empty := _without_result(experiment):
        none = f"no {head.suite.terms.operation} succeeded at any load level"
        say(console, f"{listing(empty)}: nothing was measured, because {none}")
        raise typer.Exit(FAILED)


def _without_result(experiment: Experiment) -> list[str]:
    """Return the configurations without a success at any load level.

    Failed steps are left out, because they fail their run.
    """
    succeeded: dict[str, int] = {}
    for level in experiment.readable_levels()[0]:
        if level.step is None:
            succeeded[level.configuration] = succeeded.get(level.configuration, 0) + level.operations
    return [name for name, count in succeeded.items() if not count]


@contextmanager
def _page_for(
    live: int | None, progress: Progress, experiment: Experiment, console: Console
) -> Iterator[tuple[Progress, Feed | None]]:
    """Serve the page of a run during the block if `live` is a port, and yield the listener to use."""
    if live is None:
        yield progress, None
        return
    extras.require("live")
    from serverdyno.live.run_page import watched  # noqa: PLC0415

    with watched(progress, experiment, live) as (feed, url):
        say(console, f"live page: {url}")
        yield feed, feed


def _report(experiment: Experiment, console: Console, *, page: bool, as_json: bool) -> bool:
    """Show the table and write the page, if the extras are installed. Return whether the page was written."""
    if lacking := extras.missing():
        say(
            console,
            f"no report: {', '.join(lacking)} not installed ({extras.hint()}). {_report_later(experiment)}",
        )
        return False
    return show_and_write(experiment, page=page, as_json=as_json) is not None and page


def _until_precise(experiment: Experiment, progress: Progress) -> bool:
    """Run all planned runs, and more if the plan requires a precision. Return True if every run is complete."""
    plan = experiment.head.plan
    if plan.until_percent is not None:
        _need_extras("until_percent can't compute precision")
    whole = carry_out(experiment, progress, _search(experiment))
    if plan.until_percent is None:
        return whole
    from serverdyno.analysis import precision  # noqa: PLC0415
    from serverdyno.report.build import half_width_percent, source_of  # noqa: PLC0415

    while whole:
        done, half = experiment.head.plan.repetitions, half_width_percent(source_of(experiment))
        reached = "not known" if half is None else f"+- {half:.2g} %"
        progress.notice(f"after {done} repetitions, the widest interval of an average is {reached}")
        if precision.is_enough(half, plan.until_percent, done, plan.most_repetitions):
            return True
        experiment.extend(precision.AT_ONCE)
        whole = carry_out(experiment, progress)
    return False


def _search(experiment: Experiment) -> NextRate | None:
    """Return the function that chooses a capacity search's next rate; None if the load levels are given."""
    if experiment.head.suite.objective is None:
        return None
    _need_extras("open.objective can't search for capacity")
    from serverdyno.report.subjects import capacity  # noqa: PLC0415

    def next_rate(run: RunKey) -> int | None:
        records = [record for record in experiment.levels() if record.run == run.number]
        return capacity.next_rate(experiment.head.suite, records)

    return next_rate


def _need_extras(what: str) -> None:
    """Raise UserError if the modules of the reports are not installed."""
    if lacking := extras.missing():
        raise UserError(f"{what} without {', '.join(lacking)}", hint=extras.hint())


def _report_later(experiment: Experiment) -> str:
    return (
        f"To write the report, here or on another machine: dyno report {shlex.quote(str(experiment.folder))}"
    )


def show_and_write(
    experiment: Experiment,
    views: Collection[str] = (),
    beside: str | None = None,
    *,
    page: bool = True,
    as_json: bool = False,
) -> Report | None:
    """Show the table and write the report into the experiment's folder.

    Return the report; None if nothing was measured.

    `views` are the additional files to write, of `report.View`. `beside` is a published report whose figures are shown
    next to these, `NAME` or `NAME:FIGURE`. If `page` is false, only the table and the command for the report are shown.
    `as_json`: only the report's document goes to standard output. Raises DynoError.
    """
    # Imported after the load, because the import takes most of a second, which would delay the start.
    from serverdyno import published, report  # noqa: PLC0415
    from serverdyno.report.views import text  # noqa: PLC0415
    from serverdyno.report.views.document import ReportDocument  # noqa: PLC0415

    out = Console(stderr=True) if as_json else standard_output()
    built = report.build(experiment, None if beside is None else published.named(beside))
    if not built.source.records:
        for problem in built.source.damaged:
            say(Console(stderr=True), problem)
        return None
    if as_json:
        typer.echo(ReportDocument.of(built).as_json(), nl=False)
    else:
        text.render(built, out)
    if not page:
        say(out, f"To write the report with charts: dyno report {shlex.quote(str(experiment.folder))}")
        return built
    written = report.write_report(built, experiment.report_folder(), [report.View(view) for view in views])
    for path in (written, *(written.with_name(view) for view in views)):
        say(out, f"report: {path}")
    return built
