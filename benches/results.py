"""Everything that one execution of the benches measured, and what follows from it: figures with spread, targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benches import bonnie, fleet, growth, http2, local, open_load, tls
from benches.accuracy import LIMIT, Comparison
from benches.amounts import Amount
from benches.bonnie import BonnieCase
from benches.files import SESSION_CASE, FileCase
from benches.fleet import FleetCase, NodesCase
from benches.local import LocalCase
from benches.promises import Waiting
from benches.ratios import Bound, Spread, spread
from benches.rounds import Effort, Run
from benches.speed import FIGURES, Case, ReadFigure, cases


def _detail(name: str, per: str) -> ReadFigure:
    def figure(run: Run) -> float | None:
        value: Any = run.details.get(name)
        divisor: Any = run.connections if per == "connections" else run.details[per]
        return None if value is None else value / divisor

    return figure


# Once every connection is open.
GROWTH_FIGURES: dict[str, ReadFigure] = {
    "requests/s": FIGURES["requests/s"],
    "generator CPU, us/request": _detail("cpu_in_window_us", "requests_in_window"),
    "generator memory, bytes/connection": _detail("rss_growth_bytes", "connections"),
    "server memory, bytes/connection": _detail("server_rss_growth_bytes", "connections"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one subject, over the rounds; with a target or without."""

    case: str
    subject: str
    figure: str
    spread: Spread
    target: Bound | None = None

    @property
    def verdict(self) -> str:
        """In words; nothing without a target."""
        return self.target.verdict(self.spread).value if self.target else ""


@dataclass(slots=True)
class Results:
    """What was measured, in the order of measuring. `left_out`: what could not be, and why."""

    effort: Effort
    command: str
    took_s: float = 0.0
    runs: list[Run] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    amounts: list[Amount] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    file_cases: list[FileCase] = field(default_factory=list)
    build_cases: list[Case] = field(default_factory=list)

    def kept(self, case: str) -> list[Run]:
        """The runs of a case that count."""
        return [run for run in self.runs if run.case == case and run.kept]

    def cases(self) -> list[Case | FileCase | FleetCase | BonnieCase | LocalCase]:
        """The comparisons with peers and other builds that were carried out."""
        web = [*cases(), *tls.cases(), *http2.cases(), *open_load.cases(), *self.build_cases]
        every: list[Case | FileCase | FleetCase | BonnieCase | LocalCase] = [
            *web,
            FleetCase(),
            NodesCase(),
            *self.file_cases,
            *bonnie.CASES,
            *local.CASES,
        ]
        return [case for case in every if self.kept(case.name)]

    def rows(self) -> list[Row]:
        """Every figure: what `summary.csv` holds."""
        return [*self.figures(), *self.growth(), *self.amount_rows(), *self.targets()]

    def targets(self) -> list[Row]:
        """Every figure that has a target."""
        return [
            *self.ratios(),
            *self.lateness(),
            *self.outside_the_engine(),
            *(row for row in self.amount_rows() if row.target),
            *self.session_errors(),
            *self.growth_errors(),
            *self.count_errors(),
            *self.time_errors(),
            *self.waiting(),
        ]

    def figures(self) -> Iterator[Row]:
        """Of each tool in each comparison."""
        for case in self.cases():
            yield from self._by_tool(case.name, case.figures)

    def growth(self) -> Iterator[Row]:
        """At each number of connections."""
        for each in growth.EVERY:
            yield from self._by_tool(each.name, GROWTH_FIGURES)

    def _by_tool(self, case: str, figures: Mapping[str, ReadFigure]) -> Iterator[Row]:
        runs = self.kept(case)
        for tool in dict.fromkeys(run.tool for run in runs):
            for name, figure in figures.items():
                values = [value for run in runs if run.tool == tool and (value := figure(run)) is not None]
                if values:
                    yield Row(case, tool, name, spread(values))

    def ratios(self) -> Iterator[Row]:
        """Ours to the peers', round by round."""
        for case in self.cases():
            for goal in case.goals:
                if found := goal.ratios(self.kept(case.name), case.figures):
                    yield Row(case.name, goal.subject, goal.figure, found, goal.bound)

    def lateness(self) -> Iterator[Row]:
        """How late requests of open load left."""
        for case in open_load.cases():
            if found := open_load.lateness(case, self.kept(case.name)):
                yield Row(case.name, "dyno", open_load.LATE, found, open_load.LIMIT)

    def outside_the_engine(self) -> Iterator[Row]:
        """What a node of a fleet uses besides its engine."""
        runs = [run for run in self.kept(FleetCase().name) if run.tool == fleet.TOOL]
        if values := [value for run in runs if (value := fleet.outside_the_engine(run)) is not None]:
            yield Row(FleetCase().name, fleet.TOOL, fleet.OUTSIDE, spread(values), fleet.OUTSIDE_LIMIT)

    def amount_rows(self) -> Iterator[Row]:
        """Figures that are measured once."""
        for amount in self.amounts:
            yield Row(amount.name, "dyno", amount.figure, spread([amount.value]), amount.limit)

    def session_errors(self) -> Iterator[Row]:
        """Operations that failed where there were more sessions."""
        runs = self.kept(SESSION_CASE)
        for tool in dict.fromkeys(run.tool for run in runs):
            errors = [float(run.errors) for run in runs if run.tool == tool]
            yield Row(SESSION_CASE, tool, "errors", spread(errors), Bound(0, at_least=False))

    def growth_errors(self) -> Iterator[Row]:
        """Requests that failed where there were more connections."""
        for each in growth.EVERY:
            if errors := [float(run.errors) for run in self.kept(each.name)]:
                yield Row(each.name, "dyno", "errors", spread(errors), Bound(0, at_least=False))

    def count_errors(self) -> Iterator[Row]:
        """By how many requests our count differs from the server's."""
        for case in dict.fromkeys(run.case for run in self.runs if run.case.startswith("count-")):
            differences = [
                float(abs(run.requests - run.server_requests))
                for run in self.kept(case)
                if run.server_requests is not None
            ]
            none = Bound(0, at_least=False)
            yield Row(
                case, "dyno", "difference from the server's own count, requests", spread(differences), none
            )

    def time_errors(self) -> Iterator[Row]:
        """The share by which the worst of our percentiles differs from that of the wire."""
        worst: dict[str, dict[int, float]] = {}
        for found in self.comparisons:
            rounds = worst.setdefault(found.case, {})
            rounds[found.round] = max(abs(found.error), rounds.get(found.round, 0.0))
        for case, errors in worst.items():
            yield Row(
                case,
                "dyno",
                "greatest difference of a percentile from the wire",
                spread([*errors.values()]),
                LIMIT,
            )

    def waiting(self) -> Iterator[Row]:
        """For the tool itself; the target is one of the median."""
        for wait in self.waits:
            yield Row(wait.name, "dyno", "seconds, median", spread([spread(wait.seconds).median]), wait.limit)
