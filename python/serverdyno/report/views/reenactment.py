"""The page of a re-enacted report: published figures above ours, and the claims that hold today.

The page is self-contained and has no scripts, like the ordinary report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment, PackageLoader, StrictUndefined

from serverdyno import wording
from serverdyno.published.model import Claim
from serverdyno.published.reenactment import Today
from serverdyno.report.model import Figure, Report
from serverdyno.report.reenact import Experiment, Reenacted, setting_words
from serverdyno.report.reenact_claims import Answered, Holds, answers
from serverdyno.report.views import charts
from serverdyno.report.views.palette import themed

Drawn = tuple[Figure, str]
"""A figure and its SVG."""
NO_NUMBERS = "Published as a chart without numbers, so it can't be drawn here."


@dataclass(frozen=True, slots=True)
class Entry:
    """One heading of the page. `published` and `ours`: drawings. `see`: the entry that has the rest."""

    key: str
    label: str
    title: str
    published: tuple[Drawn, ...]
    ours: tuple[Drawn, ...]
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    see: Entry | None = None

    @property
    def has_ours(self) -> bool:
        return bool(self.ours) or (self.see is not None and self.see.has_ours)


def page(
    built: Report, experiment: Experiment, published: Sequence[tuple[Sequence[str], Figure]], style: str
) -> str:
    """Return the page. `published` has the published figures to draw, each with the numbers that it has there."""
    entries = _entries(experiment, published)
    judged = answers(experiment)
    about, head = experiment.report.meta, built.source.head
    environment = Environment(
        loader=PackageLoader("serverdyno.report.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("reenactment.html.j2").render(
        name=experiment.report.name,
        meta=about,
        style=style,
        particulars=[
            ("Published", f"{about.citation.laboratory}, {about.citation.year}"),
            ("This experiment", f"{head.plan.name}, {head.created:%Y-%m-%d}, Serverdyno {head.tool_version}"),
        ],
        verdict=_verdict(judged),
        summary=_summary(experiment, entries, judged),
        warnings=built.warnings,
        judged=[each for each in judged if each.found],
        unjudged=_by_reason(judged),
        today=[_row(each) for each in experiment.mapping.today],
        entries=entries,
    )


def _verdict(judged: Sequence[Answered]) -> str:
    counts = Counter(each.holds for each in judged if each.found)
    if not counts:
        return "This experiment can't judge any of the published claims."
    told = ", ".join(f"{counts[holds]:,} {holds.value}" for holds in Holds if counts[holds])
    return (
        f"Of {wording.plural(len(judged), 'published claim')}, {counts.total():,} could be compared: {told}."
    )


def _summary(
    experiment: Experiment, entries: Sequence[Entry], judged: Sequence[Answered]
) -> list[tuple[str, str]]:
    figures = [len(shown.figures) for shown in experiment.mapping.figures]
    ours = sum(count for entry, count in zip(entries, figures, strict=True) if entry.has_ours)
    never = sum(len(shown.figures) for shown in experiment.mapping.figures if shown.why)
    others = sum(not each.found for each in judged)
    return [
        (
            "Figures",
            f"{ours:,} of {sum(figures):,} published figures have one of ours below them. {never:,} are no "
            "measurements that can be repeated.",
        ),
        ("Claims", f"{others:,} claims have nothing to compare in this experiment; the reasons are below."),
        ("Suites", wording.listing([suite.name for suite in experiment.source.head.suites])),
    ]


def _by_reason(judged: Sequence[Answered]) -> dict[str, list[Claim]]:
    """Return the claims that nothing was compared for, by the first reason, the most frequent first."""
    found: dict[str, list[Claim]] = {}
    for each in judged:
        if not each.found:
            found.setdefault(each.why[0] if each.why else "", []).append(each.claim)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _row(today: Today) -> tuple[str, str, str]:
    parts = [*today.servers, *today.names, *map(setting_words, today.settings.items())]
    counterpart = ", ".join(parts) or ("none" if today.absent else " or ".join(today.suites))
    return f"{today.column.replace('_', ' ')} {today.value}", counterpart, today.absent or today.note


def _entries(experiment: Experiment, published: Sequence[tuple[Sequence[str], Figure]]) -> list[Entry]:
    entries: list[Entry] = []
    drawn: dict[int, Entry] = {}
    by_figure: dict[str, Entry] = {}
    for place, each in enumerate(experiment.figures()):
        shown = each.shown
        here = [at for at, (numbers, _) in enumerate(published) if set(numbers) & set(shown.figures)]
        new = [published[at][1] for at in here if at not in drawn]
        entry = Entry(
            key=f"entry-{place + 1}",
            label=_label(shown.figures),
            title=shown.title,
            published=tuple((figure, _svg(figure)) for figure in new),
            ours=tuple(
                (replace(figure, title=f"Ours: {figure.title}"), _svg(figure)) for figure in each.ours
            ),
            lines=_lines(each, drawable=bool(here)),
            notes=each.notes,
            see=by_figure[shown.same_as]
            if shown.same_as
            else next((drawn[at] for at in here if at in drawn), None),
        )
        entries.append(entry)
        by_figure |= dict.fromkeys(shown.figures, entry)
        drawn = dict.fromkeys(here, entry) | drawn
    return entries


def _lines(each: Reenacted, *, drawable: bool) -> tuple[str, ...]:
    if each.shown.why:
        return (each.shown.why,)
    if each.shown.same_as:
        return () if drawable else (NO_NUMBERS,)
    return (*(() if drawable else (NO_NUMBERS,)), *each.lacking)


def _label(figures: Sequence[str]) -> str:
    numbers = [int(each) for each in figures if each.isdigit()]
    if len(numbers) < len(figures):
        return wording.listing(figures)
    return f"Figure{'s' if len(numbers) > 1 else ''} {wording.numbers(numbers)}"


def _svg(figure: Figure) -> str:
    return themed(charts.svg(figure))
