"""The page of a re-enacted report: published figures above ours, and the claims that hold today.

The page is self-contained and has no scripts, like the experiment's own report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from serverdyno import wording
from serverdyno.published import PublishedReport, pages
from serverdyno.published.audit import Audited, ClaimVerdict, audit
from serverdyno.published.model import Claim
from serverdyno.published.pages import template
from serverdyno.published.pictures import Picture, named
from serverdyno.published.reenactment import Reenactment, Today
from serverdyno.report.model import Figure, Report
from serverdyno.report.reenact import Measured, setting_words
from serverdyno.report.reenact_claims import Answered, Holds, answers
from serverdyno.report.source import Source
from serverdyno.report.views import charts
from serverdyno.report.views.palette import themed
from serverdyno.units import format_duration_s

Drawn = tuple[Figure, str]
"""A figure and its SVG."""
NO_NUMBERS = "The report prints no numbers with this chart. Its tables, below, may state some of them."
TOO_LARGE = "Our figure is left out, because the page would be too large. The experiment's own report has it."
MOST_BYTES = 900_000
"""Maximum size of our drawings in a page, in bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One heading of the page. `published` and `ours`: drawings. `see`: the entry that has the rest.

    `lines` are above our drawings, `lacking` and `notes` below.
    """

    key: str
    label: str
    title: str
    published: tuple[Drawn, ...]
    ours: tuple[Drawn, ...]
    lines: tuple[str, ...]
    lacking: tuple[str, ...]
    notes: tuple[str, ...]
    see: Entry | None = None

    @property
    def has_ours(self) -> bool:
        return bool(self.ours) or (self.see is not None and self.see.has_ours)


def page(
    built: Sequence[Report],
    mapping: Reenactment,
    published: Sequence[tuple[Picture, Figure]],
    of: PublishedReport,
    style: str,
) -> str:
    """Return the page of one or several experiments. `published` has the published figures to draw."""
    measured = Measured([each.source for each in built], of, mapping)
    entries = _entries(measured, published)
    judged = _distinct(answers(measured))
    audited = audit(of)
    return template(__package__, "reenactment.html.j2").render(
        name=of.name,
        meta=of.meta,
        style=style,
        verdict=_verdict(judged),
        summary=_summary(measured, entries, judged, audited),
        contradicted=[each for each in audited if each.verdict is ClaimVerdict.CONTRADICTS],
        experiments=[(each, extent(each.source), _machines(each)) for each in built],
        judged=[each for each in judged if each.found],
        unjudged=_by_reason(judged),
        today=[_row(each) for each in mapping.today],
        entries=entries,
        method=pages.part("method", of),
        tables=pages.part("tables", of),
    )


def extent(source: Source) -> str:
    """Return when an experiment ran, its size, and how many of its operations failed."""
    head, records = source.head, source.records
    load_s = sum(each.window_s if each.step else each.length_s for each in records)
    lengths_s = [each.length_s for each in head.levels if not each.step]
    each_of = f" of {min(lengths_s):.3g} s each" if lengths_s and min(lengths_s) == max(lengths_s) else ""
    return (
        f"{head.created:%Y-%m-%d}, scale {head.scale:g}: {wording.plural(len(head.order), 'run')} of "
        f"{wording.plural(len(head.levels), 'level')}{each_of}, {format_duration_s(load_s)} of load in all, "
        f"{wording.plural(sum(each.failures for each in records), 'error')}. Serverdyno {head.tool_version}."
    )


def _verdict(judged: Sequence[Answered]) -> str:
    counts = Counter(each.holds for each in judged if each.found)
    if not counts:
        return "None of the published claims can be judged."
    told = ", ".join(f"{counts[holds]:,} {holds.value}" for holds in Holds if counts[holds])
    return (
        f"Of {wording.plural(len(judged), 'published claim')}, {counts.total():,} could be compared: {told}."
    )


def _distinct(judged: Sequence[Answered]) -> list[Answered]:
    """Return each claim once, with all places at which the report makes it."""
    found: dict[tuple[object, ...], list[Answered]] = {}
    for each in judged:
        found.setdefault(each.meaning, []).append(each)
    return [
        replace(
            first,
            claim=first.claim.model_copy(
                update={"place": "; ".join(dict.fromkeys(each.claim.place for each in (first, *others)))}
            ),
        )
        for first, *others in found.values()
    ]


def _machines(built: Report) -> list[tuple[str, str]]:
    """Return the disclosed machine, generators and servers of an experiment, as labels and texts."""
    bed = next(each.testbed for each in built.testbed.figures if each.testbed is not None)
    label, *facts = bed.machine
    rows = [(label, ", ".join(facts)), *((box.title, ", ".join(box.lines)) for box in bed.generators)]
    servers = [f"{each.server.title}: {', '.join((*each.server.lines, each.network))}" for each in bed.links]
    rows.append(("Servers", "; ".join(servers)))
    return [row for row in rows if row[1]]


def _summary(
    measured: Measured,
    entries: Sequence[Entry],
    judged: Sequence[Answered],
    audited: Sequence[Audited],
) -> list[tuple[str, str]]:
    figures = [len(shown.figures) for shown in measured.mapping.figures]
    ours = sum(count for entry, count in zip(entries, figures, strict=True) if entry.has_ours)
    never = sum(len(shown.figures) for shown in measured.mapping.figures if shown.why)
    others = sum(not each.found for each in judged)
    return [
        (
            "Figures",
            f"{ours:,} of {sum(figures):,} published figures have one of ours below them. {never:,} published "
            "figures are not measurements that can be repeated.",
        ),
        ("Claims", f"These experiments can't test {others:,} claims; the reasons are below."),
        ("Their tables", _audited(measured.report, audited)),
    ]


def _audited(report: PublishedReport, audited: Sequence[Audited]) -> str:
    counts = Counter(each.verdict for each in audited)
    told = "; ".join(f"{verdict.words}: {counts[verdict]:,}" for verdict in ClaimVerdict if counts[verdict])
    listed = " Those that contradict the tables are listed below." if counts[ClaimVerdict.CONTRADICTS] else ""
    return f"The report's claims, checked against its own tables (dyno audit {report.name}): {told}.{listed}"


def _by_reason(judged: Sequence[Answered]) -> dict[str, list[Claim]]:
    """Return the claims without a comparison, grouped by the first reason, the most frequent reason first."""
    found: dict[str, list[Claim]] = {}
    for each in judged:
        if not each.found:
            found.setdefault(each.why[0] if each.why else "", []).append(each.claim)
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _row(today: Today) -> tuple[str, str, str]:
    parts = [*today.servers, *today.names, *map(setting_words, today.settings.items())]
    counterpart = ", ".join(parts) or ("none" if today.absent else " or ".join(today.suites))
    return named(today.column, today.value), counterpart, today.absent or today.note


def _entries(measured: Measured, published: Sequence[tuple[Picture, Figure]]) -> list[Entry]:
    found = measured.figures()
    alike: dict[str, set[str]] = {}
    for each in found:
        alike.setdefault(each.shown.same_as or each.shown.figures[0], set()).update(each.shown.figures)
    entries: list[Entry] = []
    drawn: dict[int, Entry] = {}
    by_figure: dict[str, Entry] = {}
    left = MOST_BYTES
    for place, each in enumerate(found):
        shown = each.shown
        wanted = set(shown.figures) | alike.get(shown.figures[0], set())
        here = [
            at
            for at, (picture, _) in enumerate(published)
            if (set(shown.figures) if picture.numbers_of else wanted) & set(picture.figures)
        ]
        here.sort(key=lambda at: published[at][0].unit == "percent")
        ours = [
            (replace(figure, title=f"Ours, in place of: {figure.title}"), _svg(figure))
            for figure in each.ours
        ]
        size = sum(len(svg) for _, svg in ours)
        left -= size
        see = by_figure.get(shown.same_as) or next((drawn[at] for at in here if at in drawn), None)
        entry = Entry(
            key=f"entry-{place + 1}",
            label=_label(shown.figures),
            title=shown.title,
            published=tuple((published[at][1], _svg(published[at][1])) for at in here if at not in drawn),
            ours=tuple(ours) if left >= 0 else (),
            lines=(shown.why,) if shown.why else () if here or see else (NO_NUMBERS,),
            lacking=each.lacking if left >= 0 else (*each.lacking, TOO_LARGE),
            notes=each.notes,
            see=see,
        )
        left += size if left < 0 else 0
        entries.append(entry)
        by_figure |= dict.fromkeys(shown.figures, entry)
        drawn = dict.fromkeys(here, entry) | drawn
    return entries


def _label(figures: Sequence[str]) -> str:
    numbers = [int(each) for each in figures if each.isdigit()]
    if len(numbers) < len(figures):
        return wording.listing(figures)
    return f"Figure{'s' if len(numbers) > 1 else ''} {wording.numbers(numbers)}"


def _svg(figure: Figure) -> str:
    return themed(charts.svg(figure))
