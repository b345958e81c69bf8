"""The result of `dyno compare` as Markdown and as JSON. `text.py` prints it to the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter

from serverdyno import clean
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.slowdown import Slowdown
from serverdyno.report.comparison import Compared
from serverdyno.report.subjects.times_compared import change_percent
from serverdyno.report.views import markdown
from serverdyno.report.views.document import ComparisonFigures, comparison_figures, copied


@dataclass(frozen=True, slots=True)
class OutageComparison:
    """Time without service of `other` against `base` at one load level: harmonic mean of the repetitions' medians.

    `percent`: other / base - 1, in %, with its interval.
    """

    base: str
    other: str
    clients: int
    base_s: float
    other_s: float
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StepComparison:
    """Speed (1 / elapsed time) of `other` against `base` in one step.

    `percent`: other / base - 1, in %, with its interval.
    """

    base: str
    other: str
    suite: str
    step: str
    state: str
    base_s: float
    other_s: float
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A comparison for programs. `verdict`: the most alarming of all comparisons with the base.

    Experiments with outages have `outages`, experiments with only steps have `steps`, and others have `comparisons`.
    """

    verdict: Verdict
    slowdown: Slowdown
    differences: tuple[str, ...]
    warnings: tuple[str, ...]
    comparisons: tuple[ComparisonFigures, ...]
    outages: tuple[OutageComparison, ...]
    steps: tuple[StepComparison, ...]


def as_json(compared: Compared) -> str:
    """Return one JSON document; unknown figures are null."""
    document = copied(
        ComparedDocument,
        compared,
        comparisons=tuple(
            figures for comparison in compared.comparisons for figures in comparison_figures(comparison)
        ),
        outages=tuple(
            OutageComparison(
                base=pair.base,
                other=pair.other,
                clients=compared.levels[level.index],
                base_s=1 / level.base,
                other_s=1 / level.other,
                percent=change_percent(level.percent),
                low_percent=change_percent(level.high_percent),
                high_percent=change_percent(level.low_percent),
                verdict=level.verdict,
            )
            for pair in compared.outages
            for level in pair.found
        ),
        steps=tuple(
            copied(
                StepComparison,
                gap.improvement,
                base=gap.base,
                other=gap.other,
                suite=step.suite.name,
                step=step.name,
                state=step.state,
                base_s=1 / gap.improvement.base,
                other_s=1 / gap.improvement.other,
            )
            for step in compared.steps
            for gap in step.gaps
        ),
    )
    return TypeAdapter(ComparedDocument).dump_json(document, indent=1).decode()


def as_markdown(compared: Compared) -> str:
    """Return a summary for GitHub: verdict, findings, table, and other differences."""
    return "\n".join(_lines(compared)).rstrip() + "\n"


def _lines(compared: Compared) -> Iterator[str]:
    yield f"**Verdict: {clean.markdown(f'{compared.verdict}')}** ({clean.markdown(f'{compared.slowdown}')})"
    yield ""
    for finding in compared.findings:
        yield f"- {clean.markdown(finding.claim)} *{clean.markdown(finding.evidence)}*"
    yield ""
    yield from markdown.table_lines(compared.table, str)
    for title, sentences in (
        ("Other differences", compared.differences),
        ("Warnings of the reports", compared.warnings),
    ):
        if sentences:
            yield ""
            yield f"<details><summary>{title} ({len(sentences)})</summary>"
            yield ""
            yield from (f"- {clean.markdown(sentence)}" for sentence in sentences)
            yield ""
            yield "</details>"
