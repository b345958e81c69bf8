"""All measurements of one execution of the benchmarks, and the figures and targets computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benches import bonnie, http2, startup, tls
from benches.accuracy import LIMIT, Comparison
from benches.bonnie import BonnieCase
from benches.files import SESSION_CASE, FileCase
from benches.ratios import Bound, Spread, spread
from benches.rounds import Effort, Run
from benches.speed import Case, ReadFigure, cases


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one subject over the rounds, with its target, if any."""

    case: str
    subject: str
    figure: str
    spread: Spread
    target: Bound | None = None

    @property
    def verdict(self) -> str:
        """The verdict in words; empty without a target."""
        return self.target.verdict(self.spread).value if self.target else ""


@dataclass(slots=True)
class Results:
    """All measurements in order. `left_out` lists the parts that could not be measured, with the reasons."""

    effort: Effort
    command: str
    took_s: float = 0.0
    runs: list[Run] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    starts: list[startup.Start] = field(default_factory=list)
    file_cases: list[FileCase] = field(default_factory=list)
    against: Path | None = None
    """Another checkout to compare with."""
    build_cases: list[Case | FileCase | BonnieCase] = field(default_factory=list)

    def kept(self, case: str) -> list[Run]:
        """Return the runs of a case that count."""
        return [run for run in self.runs if run.case == case and run.kept]

    def cases(self) -> list[Case | FileCase | BonnieCase]:
        """Return the benchmarks against peers and other builds that ran."""
        web = [*cases(), *tls.cases(), *http2.cases()]
        every: list[Case | FileCase | BonnieCase] = [*web, *self.file_cases, *bonnie.CASES, *self.build_cases]
        return [case for case in every if self.kept(case.name)]

    def rows(self) -> list[Row]:
        """Return every figure, as in `summary.csv`."""
        return [*self.figures(), *self.targets()]

    def targets(self) -> list[Row]:
        """Return every figure that has a target."""
        return [
            *self.ratios(),
            *self.session_errors(),
            *self.count_errors(),
            *self.time_errors(),
            *self.start_costs(),
        ]

    def figures(self) -> Iterator[Row]:
        """Yield the figures of each tool in each benchmark."""
        for case in self.cases():
            yield from self._by_tool(case.name, case.figures)

    def _by_tool(self, case: str, figures: Mapping[str, ReadFigure]) -> Iterator[Row]:
        runs = self.kept(case)
        for tool in dict.fromkeys(run.tool for run in runs):
            for name, figure in figures.items():
                values = [value for run in runs if run.tool == tool and (value := figure(run)) is not None]
                if values:
                    yield Row(case, tool, name, spread(values))

    def ratios(self) -> Iterator[Row]:
        """Yield the ratios of ours to the peers, round by round."""
        for case in self.cases():
            for goal in case.goals:
                if found := goal.ratios(self.kept(case.name), case.figures):
                    yield Row(case.name, goal.subject, goal.figure, found, goal.bound)

    def session_errors(self) -> Iterator[Row]:
        """Yield the failed operations of the cases with many sessions."""
        runs = self.kept(SESSION_CASE)
        for tool in dict.fromkeys(run.tool for run in runs):
            errors = [float(run.errors) for run in runs if run.tool == tool]
            yield Row(SESSION_CASE, tool, "errors", spread(errors), Bound(0, at_least=False))

    def count_errors(self) -> Iterator[Row]:
        """Yield the differences between our count of requests and the server's."""
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
        """Yield the largest relative difference of our percentiles from those on the wire."""
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

    def start_costs(self) -> Iterator[Row]:
        """Yield CPU time and memory of the start of each command."""
        for name in dict.fromkeys(start.command for start in self.starts):
            own = [start for start in self.starts if start.command == name]
            cpu_s, peak_mb = spread([each.cpu_s for each in own]), spread([each.peak_mb for each in own])
            yield Row("start", name, "CPU time, s", cpu_s, startup.TARGETS[name])
            yield Row("start", name, "peak memory, MB", peak_mb, startup.MEMORY)
