"""What `dyno compare` says, in Markdown for a pull request and in JSON for programs. The terminal's is in `text.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter

from serverdyno import clean
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.slowdown import Slowdown
from serverdyno.report.comparison import Compared
from serverdyno.report.views import markdown
from serverdyno.report.views.document import ComparisonFigures, comparison_figures


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A comparison for programs. `verdict`: the most alarming of all comparisons with the base."""

    verdict: Verdict
    slowdown: Slowdown
    differences: tuple[str, ...]
    warnings: tuple[str, ...]
    comparisons: tuple[ComparisonFigures, ...]


def as_json(compared: Compared) -> str:
    """Return one JSON document; a figure that is not known is null."""
    document = ComparedDocument(
        verdict=compared.verdict,
        slowdown=compared.slowdown,
        differences=compared.differences,
        warnings=compared.warnings,
        comparisons=tuple(
            figures for comparison in compared.comparisons for figures in comparison_figures(comparison)
        ),
    )
    return TypeAdapter(ComparedDocument).dump_json(document, indent=1).decode()


def as_markdown(compared: Compared) -> str:
    """Return a summary for GitHub: the verdict first, then findings, the table, and what else differs."""
    return "\n".join(_lines(compared)).rstrip() + "\n"


def _lines(compared: Compared) -> Iterator[str]:
    yield f"**Verdict: {clean.markdown(f'{compared.verdict}')}** ({clean.markdown(f'{compared.slowdown}')})"
    yield ""
    for finding in compared.findings:
        yield f"- {clean.markdown(finding.claim)} *{clean.markdown(finding.evidence)}*"
    yield ""
    yield from markdown.table_lines(compared.table, str)
    for title, sentences in (
        ("What else differs", compared.differences),
        ("Read with it", compared.warnings),
    ):
        if sentences:
            yield ""
            yield f"<details><summary>{title} ({len(sentences)})</summary>"
            yield ""
            yield from (f"- {clean.markdown(sentence)}" for sentence in sentences)
            yield ""
            yield "</details>"
