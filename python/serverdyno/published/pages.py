"""The HTML pages of `dyno published show` and `dyno audit`: self-contained, without scripts or network.

The functions only lay out. The caller passes drawings as SVG, and the style of reports.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from serverdyno.published import PublishedReport
from serverdyno.published.audit import Audited, ClaimVerdict


@functools.cache
def template(package: str, name: str) -> Template:
    """Return a template, cached because compiling it takes six times as long as rendering a page."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def report_page(report: PublishedReport, drawings: Mapping[str, str], style: str) -> str:
    """Return the page of one published report. `drawings` has SVG texts by title."""
    return template(__package__, "published.html.j2").render(report=report, drawings=drawings, style=style)


def part(name: Literal["method", "tables"], report: PublishedReport) -> str:
    """Return a part of that page, for another page."""
    return template(__package__, f"{name}.html.j2").render(report=report)


def audit_page(audited: Mapping[str, Sequence[Audited]], style: str) -> str:
    counts = {name: Counter(found.verdict for found in claims) for name, claims in audited.items()}
    page = template(__package__, "audit.html.j2")
    return page.render(audited=audited, counts=counts, verdicts=list(ClaimVerdict), style=style)
