"""`dyno powercut EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: dyno powercut experiments/demo-samba-strict-sync-20261122-101500 --cuts 5"


def register(app: typer.Typer) -> None:
    app.command("powercut", epilog=EXAMPLE)(powercut)


def powercut(
    experiment: Annotated[Path, typer.Argument(help="Folder of an experiment with file or object servers.")],
    cuts: Annotated[int, typer.Option(min=1, max=1000, help="Number of power cuts per configuration.")] = 5,
    configuration: Annotated[
        list[str] | None, typer.Option(help="Only this configuration; may be repeated. Default: all.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**32, help="Seed for the times of the cuts and the contents of the files."),
    ] = 1,
) -> None:
    """Cut a server's power while clients flush files or put objects, and count what is lost. Takes minutes.

    Each configuration's server runs in a virtual machine (qemu, without KVM). Its disk loses everything that was not
    flushed. The report of the experiment then shows the verdict.
    """
    from functools import partial  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli import extras  # noqa: PLC0415
    from serverdyno.cli.carry_out import show_and_write  # noqa: PLC0415
    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415
    from serverdyno.run.powercut import guests, rounds  # noqa: PLC0415
    from serverdyno.store.experiment import Experiment  # noqa: PLC0415

    extras.require("report")
    console = Console(stderr=True)
    with Experiment.open(experiment, writable=True) as opened:
        known = {each.name: each for each in opened.head.configurations}
        if unknown := [name for name in configuration or () if name not in known]:
            raise UserError(
                f"no configuration {', '.join(unknown)} in {experiment}",
                hint=f"There are: {', '.join(known)}.",
            )
        chosen = [known[name] for name in configuration or known]
        for each in chosen:
            guests.way_of(each.server)
        for each in chosen:
            say(console, f"{each.name}: {cuts} power cuts, with one boot of the guest each")
            kept = rounds.cut_power(each, opened.head.suite, cuts, seed, partial(say, console))
            opened.write_power_cuts(kept)
            say(console, f"{each.name}: {rounds.verdict(kept)}, {kept.took_s:.0f} s")
        show_and_write(opened)
