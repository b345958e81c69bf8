"""`dyno workload show diskmix`: a re-created workload, and the known facts about the original."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: dyno workload show diskmix"


def register(app: typer.Typer) -> None:
    one = typer.Typer(help="Show a workload.", epilog=EXAMPLE, no_args_is_help=True)
    one.callback()(_group)
    one.command("show", epilog=EXAMPLE)(show)
    app.add_typer(one, name="workload")


def _group() -> None:
    """Look at one workload."""


def show(name: Annotated[str, typer.Argument(help="diskmix or webbench-static.")]) -> None:
    """Show the counts of a workload next to the facts from which it was re-created."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno import _native  # noqa: PLC0415
    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.errors import UserError  # noqa: PLC0415

    console = standard_output()
    if name == "webbench-static":
        table = Table("class", "files", "bytes", "weight, %", box=None, header_style="bold")
        for row in _native.tree_facts()["classes"]:
            table.add_row(row["name"], f"{row['files']:,}", f"{row['bytes']:,}", str(row["weight"]))
        console.print(table)
        return
    if name != "diskmix":
        raise UserError(f"unknown workload {name!r}; expected diskmix or webbench-static")
    lines = _native.diskmix_acceptance()
    table = Table(
        "a pass of the disk mix", "fact", "known", "ours", "tolerance", "", box=None, header_style="bold"
    )
    for line in lines:
        table.add_row(
            line["name"],
            f"{line['fact']:,.10g}",
            line["known"],
            f"{line['ours']:,.10g}",
            f"{line['tolerance']:,.4g}" if line["tolerance"] else "exact",
            "" if line["within"] else "MISSED",
        )
    console.print(table)
    missed = sum(not line["within"] for line in lines)
    console.print(f"{len(lines) - missed} of {len(lines)} lines are within their tolerance.", highlight=False)
