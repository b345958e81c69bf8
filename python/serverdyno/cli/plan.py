"""`dyno plan check PLAN`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from serverdyno import wording
from serverdyno.cli import extras

EXAMPLE = "Example: dyno plan check plans/quick-static.toml"
USUAL_SCATTER_PERCENT = 2.0
"""Standard deviation of the overall averages of equal runs, unless a selftest has measured it. A rule of thumb."""


def register(app: typer.Typer) -> None:
    plans = typer.Typer(help="Check a plan without running it.", epilog=EXAMPLE, no_args_is_help=True)
    plans.command("check", epilog=EXAMPLE)(check)
    app.add_typer(plans, name="plan")


def check(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    scale: Annotated[float | None, typer.Option(help="The same as in `dyno run`.")] = None,
    suite_file: Annotated[Path | None, typer.Option("--suite", help="The same as in `dyno run`.")] = None,
) -> None:
    """List all problems of a plan, or show its runs and how long they take.

    The exit status is 1 if the plan has no mistakes, but can't be run on this machine.
    """
    from serverdyno.cli.output import say, say_load, standard_output  # noqa: PLC0415
    from serverdyno.cli.run import check_published  # noqa: PLC0415
    from serverdyno.errors import ServerError  # noqa: PLC0415
    from serverdyno.plan.expand import as_run, levels_of  # noqa: PLC0415
    from serverdyno.plan.load import load_plan  # noqa: PLC0415
    from serverdyno.plan.order import order  # noqa: PLC0415
    from serverdyno.run.placed import placed  # noqa: PLC0415
    from serverdyno.run.refusals import check_installed, refusals_here  # noqa: PLC0415
    from serverdyno.run.remarks import remarks  # noqa: PLC0415
    from serverdyno.run.room import needed  # noqa: PLC0415
    from serverdyno.run.time_left import lowest_bound, time_left  # noqa: PLC0415
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415
    from serverdyno.units import format_duration_s  # noqa: PLC0415

    loaded = load_plan(plan, settings_types(), scale, suite_file)
    checked = loaded.plan
    check_published(checked)
    suites = [as_run(suite, checked.scale) for suite in loaded.suites]
    planned = levels_of(suites, checked.scale)
    levels, _ = placed(checked)
    runs = order(levels, checked.repetitions, checked.order, checked.seed)
    left = time_left(suites, [planned for _ in runs], checked.testbed, lowest_bound(levels))
    refusals = [
        found for suite in suites for found in refusals_here(suite, levels_of([suite], checked.scale), levels)
    ]
    try:
        check_installed(levels)
    except ServerError as error:
        refusals.insert(0, f"{error}")
    console = standard_output()
    verdict = f"no mistakes, but this machine can't run it: {wording.plural(len(refusals), 'problem')}"
    say(console, f"{plan}: {verdict if refusals else 'no problems'}")
    for refusal in refusals:
        say(console, f"  {refusal}")
    takes = f": about {format_duration_s(left.total_s())}, including {format_duration_s(left.load_s)} of load"
    runs_of_levels = f"{wording.plural(len(runs), 'run')} of {wording.plural(len(planned), 'level')}"
    say(console, f"{runs_of_levels}{takes if left.load_s else ''}")
    for each in suites:
        say_load(console, each, levels)
        if each.ends_when_done:
            room, _ = needed(each, ())
            say(
                console,
                f"suite {each.name}: its levels end when their work is done, so their length depends on the "
                f"servers; a server needs free space of {room / 1e6:,.0f} MB",
            )
    if not extras.missing() and not all(each.ends_when_done for each in suites):
        say(console, _can_tell(len(levels), checked.repetitions, checked.minimum_effect_percent))
    for run in runs:
        say(console, f"  {run.folder}")
    for remark in remarks(levels):
        say(console, f"note: {remark}")
    if any(level.url is not None for level in levels):
        say(console, "note: your own servers were not checked; dyno run checks them before the load")
    say(console, f"to run it: dyno run {shlex.quote(str(plan))}")
    if refusals:
        raise typer.Exit(1)


def _can_tell(configurations: int, repetitions: int, minimum_percent: float) -> str:
    """Return which differences a plan can detect, given the scatter of equal runs on this machine."""
    from serverdyno.analysis.sensitivity import design_finds_percent  # noqa: PLC0415
    from serverdyno.analysis.threshold import margin_of  # noqa: PLC0415
    from serverdyno.probes import noise_floor  # noqa: PLC0415

    known = noise_floor.load()
    scatter = USUAL_SCATTER_PERCENT if known is None else known.scatter_percent
    whose = (
        "which is typical; `dyno selftest` measures the scatter of this machine"
        if known is None
        else "as in the last self-test"
    )
    found = design_finds_percent(configurations, repetitions, scatter / 100, margin_of(minimum_percent))
    words = wording.plural(repetitions, "repetition")
    if configurations < 2:
        return f"{words}: only one configuration, so there is no comparison"
    if found is None:
        return f"{words}: can't prove any difference, not even a large one; use 3 or more repetitions"
    scattered = f"if identical runs scatter by {scatter:.2g} %, {whose}"
    return f"{words}: detects differences above about {found:.2g} % (4 of 5 times, {scattered})"
