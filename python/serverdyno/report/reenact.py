"""A published report re-enacted: which figures of experiments stand for its figures, and which of its claims hold.

`published/reenactment.py` has the mapping. This module finds the configurations, judges the claims by the statistics
of the experiment's own report, and returns data; `views/reenactment.py` builds the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from serverdyno import clean, wording
from serverdyno.plan.model import Configuration
from serverdyno.plan.protocols.bonnie import PHASES
from serverdyno.published import PublishedReport
from serverdyno.published.model import Where
from serverdyno.published.pictures import named
from serverdyno.published.reenactment import Place, Reenactment, Shown, expanded
from serverdyno.report.build import judged
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import limits_of_average
from serverdyno.report.figures.steps import Step, bonnie_rates, compared, runs_of_bonnie
from serverdyno.report.figures.steps import settings_of as settings_of_suite
from serverdyno.report.model import Figure, Panel, Point, Series
from serverdyno.report.parts import SERIES_PER_FIGURE, key_to_marks, spread_point, style_of
from serverdyno.report.source import Source
from serverdyno.store.records import LevelRecord
from serverdyno.units import MIB

OTHER_CLIENTS = "-other-clients"
"""Ending of a suite's name if the user chose other numbers of clients."""
MOST_BARS = 24
MOST_FIGURES = 4
"""Maximum number of bars in one figure, and of our figures for one published figure."""
MOST_NAMED = 4
Found = tuple[Results, ConfigurationResult]


@dataclass(slots=True)
class Counterpart:
    """What a configuration must have to stand for a place in published tables; a place that nothing fits has `absent`.

    `servers`, `names` and `suites`: None admits any.
    """

    servers: set[str] | None = None
    names: set[str] | None = None
    suites: set[str] | None = None
    settings: dict[str, object] = field(default_factory=dict)
    absent: str = ""
    notes: list[str] = field(default_factory=list)

    def describes(self, suite: str, server: str, name: str, settings: Mapping[str, object]) -> bool:
        return (
            (self.suites is None or suite in self.suites)
            and (self.servers is None or server in self.servers)
            and (self.names is None or any(f"{name}-".startswith(f"{one}-") for one in self.names))
            and all(settings.get(key) == value for key, value in self.settings.items())
        )


@dataclass(frozen=True, slots=True)
class Reenacted:
    """One entry of the mapping with our figures. `lacking`: sentences on figures that the experiment lacks."""

    shown: Shown
    ours: tuple[Figure, ...]
    lacking: tuple[str, ...]
    notes: tuple[str, ...]


class Measured:
    """The figures of experiments, found by the places of a published report. Each comparison is within one of them."""

    def __init__(self, sources: Sequence[Source], report: PublishedReport, mapping: Reenactment) -> None:
        self.sources = [clean.everything(source) for source in sources]
        self.report, self.mapping = report, mapping
        parts = [part for source in self.sources if source.head.levels for part in source.in_time]
        self.results = [judged(part) for part in parts if part.closed_load]
        self.steps = [compared(source) for source in self.sources]
        self._today = {(each.column, str(each.value)): each for each in mapping.today}

    def counterpart(self, place: Place) -> Counterpart:
        """Return the counterpart of a place. Raises KeyError for a value without a counterpart."""
        found = Counterpart()
        entries = [self._today[column, str(value)] for column, value in place.items() if column != "figure"]
        for each in entries:
            found.absent = found.absent or each.absent
            found.servers = _both(found.servers, each.servers)
            found.names = _both(found.names, each.names)
            found.suites = _both(found.suites, each.suites)
            found.settings |= each.settings
            found.notes += [each.note] if each.note else []
        return found

    def absent(self, where: Where) -> str:
        """Return why one of the values has no counterpart; empty if each may have one."""
        entries = (
            self._today.get((column, str(value))) for one in expanded(where) for column, value in one.items()
        )
        return next((each.absent for each in entries if each is not None and each.absent), "")

    def find(self, wanted: Counterpart) -> list[Found]:
        """Return the timed configurations that fit, each with the results of its suite."""
        return [
            (results, result)
            for results in self.results
            for result in results.configurations
            if result.throughput is not None and _fits(wanted, (results, result))
        ]

    def why_not(self, wanted: Counterpart, name: str = "") -> str:
        """Return why no configuration fits. `name`: what the page calls it just before."""
        if wanted.absent:
            return wanted.absent
        here = {suite_of(results) for results in self.results}
        if wanted.suites is not None and not here & wanted.suites:
            suites = " or ".join(sorted(wanted.suites))
            return (
                f"None of these experiments ran the suite {suites}."
                if suites
                else "No single suite has all of these values."
            )
        needs = [*sorted(wanted.names or wanted.servers or ()), *map(setting_words, wanted.settings.items())]
        planned = any(
            _fits(wanted, (results, result)) for results in self.results for result in results.configurations
        )
        if planned:
            return f"No run with {', '.join(needs)} finished a load level."
        return f"None of these experiments includes {'it' if name else ', '.join(needs)}."

    def figures(self) -> list[Reenacted]:
        """Return every entry of the mapping with our figures for it."""
        return [self._reenacted(place, shown) for place, shown in enumerate(self.mapping.figures)]

    def _reenacted(self, place: int, shown: Shown) -> Reenacted:
        key = f"ours-{place + 1}"
        if shown.shows in ("steps", "bonnie"):
            ours = list(self._of_steps(key, shown))
            lacking = [] if ours else [f"None of these experiments ran a step of figure {shown.figures[0]}."]
            here = {each.server for source in self.sources for each in source.head.configurations}
            told = [
                each.note for each in self.mapping.today if ours and here & set(each.servers) and each.note
            ]
            return Reenacted(shown, tuple(ours), tuple(lacking), tuple(told))
        found: dict[tuple[int, str], Found] = {}
        without: dict[str, list[str]] = {}
        notes: dict[str, None] = {}
        places = list(shown.places())
        shared = set.intersection(*(set(one.items()) for one in places)) if places else set()
        for one in places:
            wanted = self.counterpart(one)
            if fitting := self.find(wanted):
                found |= {(id(each[0]), each[1].name): each for each in fitting}
                notes |= dict.fromkeys(wanted.notes)
            else:
                name = ", ".join(named(*pair) for pair in one.items() if pair not in shared)
                without.setdefault(self.why_not(wanted, name), []).append(name)
        drawn = list(self._timed(key, shown, list(found.values())))
        lacking = [
            f"Not measured: {_few(names)}. {why}" if any(names) else why for why, names in without.items()
        ]
        if len(drawn) > MOST_FIGURES:
            lacking.append(
                f"The experiment's own report has {len(drawn) - MOST_FIGURES:,} more figures for this one."
            )
        return Reenacted(shown, tuple(drawn[:MOST_FIGURES]), tuple(lacking), tuple(notes))

    def _timed(self, key: str, shown: Shown, found: Sequence[Found]) -> Iterator[Figure]:
        """Yield the peaks, averages or curves of configurations, a figure for each suite of each experiment."""
        curves = shown.shows == "curves"
        for number, results in enumerate(self.results):
            own = [result for each, result in found if each is results]
            series = [
                Series(result.name, style_of(results, result.name), _points(shown, result)) for result in own
            ]
            head = results.source.head
            plan = f"Plan {head.plan.name}, suite" if len(self.sources) > 1 else "Suite"
            for place, part in enumerate(_chunks(series, SERIES_PER_FIGURE if curves else MOST_BARS)):
                panel = (Panel("", results.terms.unit, part),)
                under = f"{plan} {head.suite.name}." + key_to_marks(panel)
                along = "Threads of all clients" if shown.along == "threads" else results.axis.title
                axis = along if curves else results.terms.unit
                name = f"{key}-{number}-{place}"
                yield Figure(name, 0, shown.title, under, "lines" if curves else "bars", axis, panel)

    def _of_steps(self, key: str, shown: Shown) -> Iterator[Figure]:
        unit = "seconds" if shown.shows == "steps" else "KB/s" if shown.phases != ("seeks",) else "seeks/s"
        rows = [
            row
            for steps in self.steps
            for row in (
                _rates(steps, shown) if shown.shows == "bonnie" else _times(steps, int(shown.figures[0]))
            )
        ]
        suites = wording.listing(sorted({suite for suite, _ in rows}))
        scales = sorted({source.head.scale for source in self.sources if source.shortened})
        title = shown.title
        if scales and (sizes := self._sizes(shown)):
            title += f"; here, at scale {wording.listing([f'{each:g}' for each in scales])}, {wording.listing(sizes)}"
        for place, part in enumerate(_chunks([one for _, one in rows], MOST_BARS)[:MOST_FIGURES]):
            panel = (Panel("", unit, part),)
            under = f"{suites}. Mean of the repetitions.{self._varied()}{key_to_marks(panel)}"
            yield Figure(f"{key}-{place}", 0, title, under, "bars", unit, panel)

    def _sizes(self, shown: Shown) -> list[str]:
        """Return how many bytes or files the steps of a figure processed, as recorded."""
        sizes: dict[str, None] = {}
        for step in (each for steps in self.steps for each in steps):
            of_bonnie = shown.shows == "bonnie" and step.is_of_bonnie and step.name in shown.phases
            if of_bonnie or (shown.shows == "steps" and step.figure == int(shown.figures[0])):
                for one in (record for runs in step.times.values() for record in runs.values()):
                    sizes[_size(step, one)] = None
        return list(sizes)

    def _varied(self) -> str:
        """Return the settings that distinguish the configurations of the steps, a sentence for each."""
        told = []
        for source in (each for each in self.sources if any(level.step for level in each.head.levels)):
            settings = [each.settings for each in source.head.configurations]
            shared = {
                key for key, value in settings[0].items() if all(one.get(key) == value for one in settings)
            }
            for each in source.head.configurations:
                own = [setting_words(pair) for pair in each.settings.items() if pair[0] not in shared]
                told.append(f" {each.name}: {', '.join(own) or 'the default settings'}.")
        return "".join(dict.fromkeys(told))


def _size(step: Step, record: LevelRecord) -> str:
    if step.is_of_bonnie:
        bonnie = settings_of_suite(step.suite)
        return f"a file of {bonnie.size_bytes / MIB:,.0f} MiB" if bonnie else ""
    moved = record.bytes_read + record.bytes_written
    if moved:
        return f"{moved / MIB:,.0f} MiB"
    return wording.plural(record.entries or 0, "file")


def settings_of(found: Found) -> dict[str, object]:
    return dict(configuration_of(found).settings)


def configuration_of(found: Found) -> Configuration:
    results, result = found
    return next(each for each in results.source.head.configurations if each.name == result.name)


def _fits(wanted: Counterpart, found: Found) -> bool:
    here = configuration_of(found)
    return not wanted.absent and wanted.describes(suite_of(found[0]), here.server, here.name, here.settings)


def suite_of(results: Results) -> str:
    """Return the name of the suite that was run, whatever numbers of clients the user chose."""
    return results.source.head.suite.name.removesuffix(OTHER_CLIENTS)


def _both(one: set[str] | None, other: Sequence[str]) -> set[str] | None:
    if not other:
        return one
    return set(other) if one is None else one & set(other)


def setting_words(pair: tuple[str, object]) -> str:
    name, value = pair
    text = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
    return f"{name.replace('_', ' ')} {text}"


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return "; ".join([*names[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])


def _chunks(series: Sequence[Series], size: int) -> list[tuple[Series, ...]]:
    return [tuple(series[start : start + size]) for start in range(0, len(series), size)]


def _points(shown: Shown, result: ConfigurationResult) -> tuple[Point, ...]:
    if shown.shows == "curves":
        return tuple(
            spread_point(
                level.clients * (level.threads if shown.along == "threads" else 1),
                level.throughput,
                level.marks,
            )
            for level in result.finished
        )
    assert result.throughput is not None  # `find` returns no others
    if shown.shows == "averages":
        return (spread_point(0, result.throughput.overall_average, frozenset(limits_of_average(result))),)
    return (
        spread_point(0, result.throughput.peak, frozenset() if result.peak is None else result.peak.marks),
    )


def _times(steps: Sequence[Step], figure: int) -> list[tuple[str, Series]]:
    """Return the times of the steps that stand for a figure: a bar for each kind of time and configuration."""
    rows = []
    for step in steps:
        if step.figure == figure:
            for style, (name, runs) in enumerate(step.times.items()):
                for kind, values in (
                    ("elapsed", [one.window_s for one in runs.values()]),
                    ("user", [one.generator_cpu_user_s for one in runs.values()]),
                    ("system", [one.generator_cpu_system_s for one in runs.values()]),
                ):
                    if values:
                        bar = Point(0, fmean(values), min(values), max(values))
                        rows.append((step.suite.name, Series(f"{step.label}: {kind}, {name}", style, (bar,))))
    return rows


def _rates(steps: Sequence[Step], shown: Shown) -> list[tuple[str, Series]]:
    """Return the rates of Bonnie's phases: a bar for each phase and configuration."""
    assert set(shown.phases) <= set(PHASES)  # a test checks the shipped mappings
    rows = []
    for suite in {id(step.suite): step.suite for step in steps if step.is_of_bonnie}.values():
        names = dict.fromkeys(name for step in steps for name in step.times)
        runs = {name: list(runs_of_bonnie(steps, suite, name).values()) for name in names}
        for phase in shown.phases:
            for style, (name, whole) in enumerate(runs.items()):
                if whole:
                    each = [bonnie_rates(suite, [one])[phase].per_s for one in whole]
                    bar = Point(0, bonnie_rates(suite, whole)[phase].per_s, min(each), max(each))
                    rows.append((suite.name, Series(f"{phase}, {name}", style, (bar,))))
    return rows
