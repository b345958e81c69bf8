"""`dyno suites` and `dyno suite show NAME`."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: dyno suite show webbench-2.0-static"


def register(app: typer.Typer) -> None:
    app.command("suites", epilog="Example: dyno suites")(list_suites)
    one = typer.Typer(help="Show a suite.", epilog=EXAMPLE, no_args_is_help=True)
    one.command("show", epilog=EXAMPLE)(show)
    app.add_typer(one, name="suite")


def list_suites() -> None:
    """List the loads that come with Serverdyno."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.plan import suites  # noqa: PLC0415
    from serverdyno.plan.expand import levels  # noqa: PLC0415
    from serverdyno.units import format_duration_s  # noqa: PLC0415

    table = Table("suite", "levels", "clients", "one run takes", "what it is", box=None, header_style="bold")
    for name in suites.names():
        suite = suites.load(name)
        planned = levels(suite)
        clients = f"{min(level.clients for level in planned)} to {max(level.clients for level in planned)}"
        takes = format_duration_s(sum(level.length_s for level in planned))
        takes = "until it is done" if suite.ends_when_done else takes
        table.add_row(name, str(len(planned)), clients, takes, suite.title)
    out = standard_output()
    out.print(table)
    say(
        out,
        (
            'To see one: dyno suite show NAME. To use one: suite = "NAME" in a plan. A good first suite is '
            "quick-web."
        ),
    )


def show(
    name: Annotated[str, typer.Argument(help="Name of a suite; `dyno suites` lists the names.")],
) -> None:
    """Show the parameters of a suite, and how well each is known."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.plan import suites  # noqa: PLC0415
    from serverdyno.plan.expand import levels  # noqa: PLC0415

    suite, console = suites.load(name), standard_output()
    console.print(suite.title, style="bold")
    console.print(f"Source: {suite.source}", highlight=False)
    console.print(suite.description.strip(), highlight=False)
    parameters = Table("parameter", "value", "source", box=None, header_style="bold")
    for key, value in suite.parameters().items():
        parameters.add_row(key, str(value), suite.certainty.get(key, ""))
    console.print(parameters)
    named = [level.name if level.step else f"{level.clients} x {level.threads}" for level in levels(suite)]
    console.print("levels: " + ", ".join(named), highlight=False)
