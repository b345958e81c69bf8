"""`dyno selftest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno selftest"
UNFIT = 1
PLAN = """# Made by: dyno selftest
name = "selftest"
title = "One server against itself"
suite = "selftest"
repetitions = {repetitions}

[[servers]]
name = "first"
server = "{server}"

[[servers]]
name = "second"
server = "{server}"
"""


def register(app: typer.Typer) -> None:
    app.command("selftest", epilog=EXAMPLE)(selftest)


def selftest(
    server: Annotated[str, typer.Option(help="A web server that `dyno servers` lists.")] = "reference",
    repetitions: Annotated[int, typer.Option(help="Number of runs per side; each run takes 15 s.")] = 6,
    scale: Annotated[float | None, typer.Option(help="The same as in `dyno run`.")] = None,
    into: Annotated[Path | None, typer.Option(help="Folder of the experiment.")] = None,
) -> None:
    """Measure a server against itself: the smallest difference that this machine can show.

    Runs two identical configurations of one server, interleaved, for about four minutes. Later experiments on this
    machine show the noise floor that it finds. If the machine is not fit, exits with 1 and stores nothing.
    """
    from serverdyno import report  # noqa: PLC0415
    from serverdyno.cli import carry_out  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.plan.load import parse_plan  # noqa: PLC0415
    from serverdyno.plan.suites import load  # noqa: PLC0415
    from serverdyno.probes import noise_floor  # noqa: PLC0415
    from serverdyno.report.selftest import judge  # noqa: PLC0415
    from serverdyno.run.create import create_experiment  # noqa: PLC0415
    from serverdyno.servers.registry import settings_types  # noqa: PLC0415

    noise_floor.prepare()
    text = PLAN.format(repetitions=repetitions, server=server)
    plan = parse_plan(text, "dyno selftest", settings_types(), scale)
    suite = load(plan.suite_names[0])
    with create_experiment(into, text, plan, [suite]) as experiment:
        carry_out.carry_out_and_report(experiment)
        judged = judge(report.build(experiment))
    out = standard_output()
    say(
        out,
        f"noise floor: {judged.floor_percent:.2g} %; identical runs scatter by {judged.scatter_percent:.2g} "
        "%",
    )
    if not judged.unfit:
        kept = noise_floor.Selftest(
            made=noise_floor.now(),
            load=f"{suite.name} x {plan.scale:g} on {server}",
            percent=judged.floor_percent,
            scatter_percent=judged.scatter_percent,
            operations_s=judged.operations_s,
        )
        say(out, f"kept in {noise_floor.keep(kept)}")
    for remark in judged.remarks:
        say(out, f"note: {remark}")
    for reason in judged.unfit:
        say(out, f"not fit: {reason}")
    if judged.unfit:
        say(out, "this machine is not fit to compare servers; the result was not stored")
        raise typer.Exit(UNFIT)
    say(out, "this machine is fit to compare servers")
