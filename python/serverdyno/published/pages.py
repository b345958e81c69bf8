"""The HTML pages of `dyno published show` and `dyno audit`: self-contained, without scripts or network.

The functions only lay out. The caller passes drawings as SVG, and the style of reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from serverdyno.published import PublishedReport
from serverdyno.published.audit import Audited, ClaimVerdict


def _render(template: str, **content: object) -> str:
    environment = Environment(
        loader=PackageLoader("serverdyno.published"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**content)


def report_page(report: PublishedReport, drawings: Mapping[str, str], style: str) -> str:
    """Return the page of one published report. `drawings` has SVG texts by title."""
    tables = list(report.tables)
    return _render("published.html.j2", report=report, drawings=drawings, tables=tables, style=style)


def audit_page(audited: Mapping[str, Sequence[Audited]], style: str) -> str:
    counts = {name: Counter(found.verdict for found in claims) for name, claims in audited.items()}
    return _render("audit.html.j2", audited=audited, counts=counts, verdicts=list(ClaimVerdict), style=style)
