"""The page of `dyno report EXPERIMENT --as NAME`: a published report re-enacted by an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serverdyno.published import PublishedReport
    from serverdyno.published.reenactment import Reenactment
    from serverdyno.report.model import Report
    from serverdyno.store.folder import Folder


def load(name: str) -> tuple[PublishedReport, Reenactment]:
    """Return a published report and its mapping to experiments. Raises DynoError."""
    from serverdyno import published  # noqa: PLC0415
    from serverdyno.published import reenactment  # noqa: PLC0415

    report = published.load(name)
    return report, reenactment.load(report)


def write(folder: Folder, built: Sequence[Report], of: PublishedReport, mapping: Reenactment) -> None:
    """Write the page of these experiments into a report folder, and print its path. Raises DynoError."""
    from serverdyno.cli.output import say, standard_output  # noqa: PLC0415
    from serverdyno.cli.published import figures_of, page_style  # noqa: PLC0415
    from serverdyno.published.reenactment import drawn  # noqa: PLC0415
    from serverdyno.report.views import reenactment as view  # noqa: PLC0415

    pictures = drawn(of, mapping)
    figures = zip(pictures, figures_of(of, pictures), strict=True)
    page = view.page(built, mapping, list(figures), of, page_style())
    file = f"as-{of.name}.html"
    folder.write(file, page.encode())
    say(standard_output(), f"report: {folder.path / file}")
