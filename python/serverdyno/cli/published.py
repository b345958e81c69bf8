"""`dyno published` and `dyno published show NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serverdyno.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from serverdyno.published import PublishedReport
    from serverdyno.published.pictures import Picture
    from serverdyno.report.model import Figure

EXAMPLE = "Example: dyno published show 2001-etesting-netware --html netware.html"
LEVELS = "▁▂▃▄▅▆▇█"
BAR_CELLS = 40


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="List the published reports that come with Serverdyno, or show one.",
        epilog="Example: dyno published",
        invoke_without_command=True,
    )
    group.callback()(list_reports)
    group.command("show", epilog=EXAMPLE)(show)
    app.add_typer(group, name="published")


def list_reports(context: typer.Context) -> None:
    """List the published reports that come with Serverdyno, or show one."""
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table  # noqa: PLC0415

    from serverdyno import published  # noqa: PLC0415
    from serverdyno.cli.output import standard_output  # noqa: PLC0415

    table = Table("name", "laboratory", "tool", "claims", "title", box=None, header_style="bold")
    for name in published.names():
        report = published.load(name)
        about = report.meta
        table.add_row(
            name,
            about.citation.laboratory.partition(",")[0],
            about.method.tool_words,
            str(len(report.claims)),
            about.citation.title,
        )
    standard_output().print(table)


def show(
    name: Annotated[str, typer.Argument(help="Name of a report; `dyno published` lists the names.")],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts and tables.")
    ] = None,
) -> None:
    """Show the figures of a published report, its method, and doubts about it."""
    from serverdyno import published  # noqa: PLC0415
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.published.pictures import pictures  # noqa: PLC0415

    report, console = published.load(name), standard_output()
    about = report.meta
    console.print(about.citation.title, style="bold", highlight=False)
    for line in (
        f"{about.citation.laboratory}, {about.citation.year}; commissioned by {about.citation.commissioned_by}",
        f"{about.method.tool_words}: {about.method.suite}",
        f"clients: {about.hardware.client}",
        *(
            f"server {server}: {'; '.join(facts.values())}"
            for server, facts in about.hardware.servers.items()
        ),
        "These figures come from the original tool and hardware. No figure of Serverdyno is comparable with "
        "them.",
    ):
        say(console, line)
    drawn = pictures(report)
    for picture in drawn:
        _draw(picture, console)
    console.print()
    if not drawn:
        say(console, "The report has no figures that can be drawn.")
    console.print("Doubts", style="bold")
    for doubt in about.doubts:
        say(console, f"• {doubt.place}: {doubt.doubt}")
    if html is not None:
        from serverdyno.published import pages  # noqa: PLC0415

        write_page(html, pages.report_page(report, _charts(report, drawn), page_style()))


def write_page(path: Path, page: str) -> None:
    """Write a page and report it on standard error. Raises UserError if it can't be written."""
    from rich.console import Console  # noqa: PLC0415

    from serverdyno.cli.output import say  # noqa: PLC0415

    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}", hint="Name another file.") from error
    say(Console(stderr=True), f"page: {path}")


def page_style() -> str:
    """Return the style of a report's page, which other pages share."""
    from importlib import resources  # noqa: PLC0415

    from serverdyno.report.views import palette  # noqa: PLC0415

    style = resources.files("serverdyno.report.views") / "templates" / "report.css"
    return palette.css() + style.read_text(encoding="utf-8")


def _draw(picture: Picture, console: Console) -> None:
    """Print a bar per line, or a character per point of a curve, scaled to the picture's highest value."""
    from serverdyno.cli.output import say  # noqa: PLC0415

    console.print()
    console.print(f"{picture.title} ({picture.unit})", style="bold", highlight=False)
    highest = max(line.peak[1] for line in picture.lines)
    width = max(len(line.name) for line in picture.lines)
    for line in picture.lines:
        clients, peak = line.peak
        if picture.kind == "bars":
            share = peak / highest if highest > 0 else 0.0
            drawing = "█" * max(0, round(BAR_CELLS * share))
            say(console, f"  {line.name:<{width}}  {peak:>12,.10g}  {drawing}")
        else:
            heights = (value / highest if highest > 0 else 0.0 for _, value in line.points)
            drawing = "".join(LEVELS[min(7, max(0, int(8 * height)))] for height in heights)
            say(console, f"  {line.name:<{width}}  {drawing}  {peak:,.10g} at {clients:g}")
    if picture.kind == "lines":
        first, last = picture.lines[0].points[0][0], picture.lines[0].points[-1][0]
        say(console, f"  {'':<{width}}  {first:g} to {last:g} clients; full height {highest:,.10g}")


def _charts(report: PublishedReport, drawn: list[Picture]) -> dict[str, str]:
    from serverdyno.report.views import charts, palette  # noqa: PLC0415

    return {figure.title: palette.themed(charts.svg(figure)) for figure in figures_of(report, drawn)}


def _style(picture: Picture, look: tuple[int, int]) -> int:
    """Return the style of a line or bar. Bars differ only in colour, lines of one product also in dash and shape."""
    from serverdyno.report.views.palette import COLOURS, STYLES  # noqa: PLC0415

    colour, variant = look
    rounds = STYLES // len(COLOURS)
    return colour % len(COLOURS) + (len(COLOURS) * (variant % rounds) if picture.kind == "lines" else 0)


def figures_of(report: PublishedReport, drawn: list[Picture]) -> Iterator[Figure]:
    """Yield the pictures as figures of the report's model, which can be drawn."""
    from serverdyno.report.model import Figure, Panel, Point, Series  # noqa: PLC0415

    about = report.meta
    basis = (
        f"{about.citation.laboratory}, {about.citation.year}. {about.method.tool_words}. "
        f"Server: {'; '.join(about.hardware.servers)}. Not comparable with figures of Serverdyno."
    )
    seen: dict[str, int] = {}
    for index, picture in enumerate(drawn):
        seen[picture.title] = part = seen.get(picture.title, 0) + 1
        title = f"{picture.title}, continued {part}" if part > 1 else picture.title
        series = tuple(
            Series(line.name, _style(picture, look), tuple(Point(x, y) for x, y in line.points))
            for line, look in zip(picture.lines, picture.looks, strict=True)
        )
        lines = picture.kind == "lines"
        yield Figure(
            key=f"figure-{index}",
            number=index + 1,
            title=title,
            basis=basis,
            kind=picture.kind,
            x_title="clients" if lines else picture.unit,
            panels=(Panel("", picture.unit, series),),
        )
