"""`dyno calibrate`."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: dyno calibrate --suite webbench-2.0-static"


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command("calibrate", epilog=EXAMPLE)(calibrate)


def calibrate(
    suite: Annotated[str, typer.Option(help="The suite that defines the load.")] = "webbench-2.0-static",
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads of the generator.")] = 1,
) -> None:
    """Measure how much load the generator can make on this machine, against the reference server."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from serverdyno import protocols, suites  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.cli.progress import progress_for  # noqa: PLC0415
    from serverdyno.fleet.placement import place  # noqa: PLC0415
    from serverdyno.plan.expand import mixes  # noqa: PLC0415
    from serverdyno.plan.model import GeneratorPlan  # noqa: PLC0415
    from serverdyno.runner.calibrate import Calibration, CalibrationServer, capacity_s  # noqa: PLC0415
    from serverdyno.units import format_count  # noqa: PLC0415

    chosen, generator = suites.load(suite), GeneratorPlan(threads=threads)
    terms = chosen.terms
    servers = [
        CalibrationServer(
            protocol,
            protocol.reference_server,
            protocol.reference_settings(chosen.settings(protocol), chosen.settings(chosen.work)),
        )
        for protocol in protocols.carrying(chosen.work)
        if protocol.reference_server is not None
    ]
    placement = place(generator)
    with progress_for(Console(stderr=True)) as progress:
        ceilings = Calibration(chosen, mixes(chosen), generator, placement).measure(servers, progress)
    table = Table(
        *(["protocol"] if len(servers) > 1 else []),
        "clients",
        "threads",
        f"{terms.operations}/s",
        f"CPU us/{terms.operation}",
        "CPU share",
        f"ceiling {terms.operations}/s",
        box=None,
        header_style="bold",
    )
    for ceiling in ceilings:
        table.add_row(
            *([ceiling.protocol] if len(servers) > 1 else []),
            str(ceiling.clients),
            str(ceiling.threads),
            format_count(ceiling.operations / ceiling.window_s),
            f"{ceiling.cpu_s / ceiling.operations * 1e6:.1f}" if ceiling.operations else "",
            f"{ceiling.cpu_s / ceiling.window_s / min(threads, ceiling.clients):.0%}",
            format_count(capacity_s(ceiling, threads)),
        )
    out = standard_output()
    out.print(table)
    say(
        out,
        f"generator on CPUs {_listed(placement.generator)}, reference server on {_listed(placement.server)}; "
        "for information only: each mix measures whether the generator limits it",
    )
    if placement.shared:
        say(out, "note: generator and server share CPUs and take time from each other.")


def _listed(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus))
