"""`dyno audit NAME|all`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from serverdyno.published.audit import Audited

EXAMPLE = "Example: dyno audit 2001-etesting-netware"
ALL = "all"


def register(app: typer.Typer) -> None:
    app.command("audit", epilog=EXAMPLE)(audit)


def audit(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|all", help="Name of a report (see `dyno published`). Default: all reports."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only a JSON list with one object per claim.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with all claims.")
    ] = None,
) -> None:
    """Check every claim of a published report against the report's own tables."""
    import json  # noqa: PLC0415

    from serverdyno import published  # noqa: PLC0415
    from serverdyno.cli.output import standard_output  # noqa: PLC0415
    from serverdyno.published import pages  # noqa: PLC0415
    from serverdyno.published.audit import audit as audit_report  # noqa: PLC0415

    names = published.names() if name == ALL else [name]
    audited = {each: audit_report(published.load(each)) for each in names}
    if html is not None:
        from serverdyno.cli.published import page_style, write_page  # noqa: PLC0415

        write_page(html, pages.audit_page(audited, page_style()))
    if as_json:
        typer.echo(json.dumps([found.as_json() for claims in audited.values() for found in claims], indent=1))
    else:
        _print(audited, standard_output())


def _print(audited: Mapping[str, Sequence[Audited]], console: Console) -> None:
    """Print the counts by verdict, and each claim that contradicts the tables, has another base, or was not checked."""
    from rich.table import Table  # noqa: PLC0415

    from serverdyno.cli.output import say  # noqa: PLC0415
    from serverdyno.published.audit import ClaimVerdict  # noqa: PLC0415

    counts = Table(box=None, header_style="bold")
    counts.add_column("report")
    for head in (*(verdict.words for verdict in ClaimVerdict), "claims"):
        counts.add_column(head, justify="right")
    for name, claims in audited.items():
        count = Counter(found.verdict for found in claims)
        counts.add_row(name, *(str(count[verdict]) for verdict in ClaimVerdict), str(len(claims)))
    console.print(counts)
    for name, claims in audited.items():
        for verdict in (
            ClaimVerdict.CONTRADICTS,
            ClaimVerdict.OTHER_BASE,
            ClaimVerdict.NOT_CHECKED,
        ):
            found = [one for one in claims if one.verdict is verdict]
            if not found:
                continue
            console.print()
            console.print(f"{name}: {verdict.words}", style="bold", highlight=False)
            for one in found:
                say(console, f"• {one.claim.place}: {one.claim.says}: {one.claim.claimed} {one.claim.unit}")
                say(console, f"  {one.reason}  [{one.claim.id}]")
    console.print()
    say(console, "--json and --html also list the claims that follow from the figures.")
