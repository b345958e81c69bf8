"""What outages cost the clients: until when they were without their server, and what they lost.

Figures follow from the columns of outages of the records. Not for: how a server is taken away (`runner/outage.py`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from serverdyno.analysis.comparability import Conditions
from serverdyno.analysis.contrast import Contrast
from serverdyno.analysis.improvement import Verdict
from serverdyno.analysis.levels import AtLevel
from serverdyno.analysis.pairs import Pair, Side
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.figures.sides import side
from serverdyno.report.source import Source
from serverdyno.report.subjects.times_compared import TimesCompared, compared, side_of_times
from serverdyno.store.records import MixRecord

RESOLUTION_S = 0.1
"""The longest time between two tries of a client whose server is away (NFS; SMB 0.05 s): no smaller difference is
claimed."""
WRONG_READS = frozenset({"wrong_content", "stale_content"})
"""Faults of operations by which a client was given other bytes than the file has."""


@dataclass(frozen=True, slots=True)
class OutageFigures:
    """The outages of one configuration: of one load level or of all, with their repetitions together.

    `back_s`: how long each client that came back was without its server, from when that was taken away, sorted;
    `clients`: all of them. `went_on`: clients that kept what they had open. `failed`: operations. `handles_asked` to
    outlive a connection, of them those `handles_granted` and `handles_regained`. `blocks_read_back` after the mixes, of
    them those `blocks_lost` (acknowledged and flushed) and `blocks_wrong`; `unflushed_lost`: acknowledged and not
    flushed; None: not known. `wrong_reads`: operations in the mixes that were given other bytes than the file has.
    """

    name: str
    outages: int
    clients: int
    back_s: tuple[float, ...]
    went_on: int
    failed: int
    handles_asked: int
    handles_granted: int
    handles_regained: int
    blocks_read_back: int | None
    blocks_lost: int | None
    blocks_wrong: int | None
    unflushed_lost: int | None
    wrong_reads: int

    @property
    def never_back(self) -> int:
        """Clients that were not served again before the end of their mix."""
        return self.clients - len(self.back_s)

    @property
    def median_s(self) -> float | None:
        """Of all clients, those that were never back having waited longest; None where half of them were not."""
        return _of_all_clients(self.back_s, self.clients, 0.5)

    @property
    def p99_s(self) -> float | None:
        """The same within which 99 % of all clients were back; None where fewer were."""
        return _of_all_clients(self.back_s, self.clients, 0.99)

    @property
    def slowest_s(self) -> float | None:
        """Of the last client; None where one never was back."""
        return None if self.never_back or not self.back_s else self.back_s[-1]

    @property
    def data_wrong(self) -> int:
        """Blocks and reads by which it was found out that the server lost or changed what it had promised to keep."""
        return (self.blocks_lost or 0) + (self.blocks_wrong or 0) + self.wrong_reads


def outages(results: Results) -> tuple[OutageFigures, ...]:
    """Return the outages of each configuration that had one, all its load levels together, in the plan's order."""
    by_name = {result.name: results.records(result.name) for result in results.configurations}
    return tuple(figures(name, records) for name, records in by_name.items() if any(map(_cut, records)))


def by_level(results: Results) -> tuple[tuple[int, OutageFigures], ...]:
    """Return the same of each load level, after the clients of that level."""
    found = []
    for result in results.configurations:
        for mix in result.finished:
            records = results.records(result.name, mix.mix)
            if any(map(_cut, records)):
                found.append((mix.clients, figures(result.name, records)))
    return tuple(found)


def figures(name: str, records: Sequence[MixRecord]) -> OutageFigures:
    """Return the outages of these records together."""
    cut = [record for record in records if _cut(record)]

    def total(column: str) -> int | None:
        known = [count for record in cut if (count := getattr(record, column)) is not None]
        return sum(known) if known else None

    return OutageFigures(
        name=name,
        outages=len(cut),
        clients=sum(record.clients for record in cut),
        back_s=tuple(sorted(moment for record in cut for moment in back_s(record))),
        went_on=sum(map(went_on, cut)),
        failed=sum(record.failures for record in cut),
        handles_asked=total("handles_asked") or 0,
        handles_granted=total("handles_granted") or 0,
        handles_regained=total("handles_regained") or 0,
        blocks_read_back=total("blocks_read_back"),
        blocks_lost=total("blocks_lost"),
        blocks_wrong=total("blocks_wrong"),
        unflushed_lost=total("unflushed_lost"),
        wrong_reads=sum(row.count for record in cut for row in record.errors if row.fault in WRONG_READS),
    )


def _cut(record: MixRecord) -> bool:
    return record.cut_at_s is not None


def back_s(record: MixRecord) -> list[float]:
    """Return how long each client that came back was without its server, s, from when that was taken away."""
    if record.cut_at_s is None:
        return []
    first: dict[int, float] = {}
    for outage in record.outages:
        if outage.back_s >= record.cut_at_s:
            first[outage.client] = min(outage.back_s, first.get(outage.client, outage.back_s))
    return [moment - record.cut_at_s for moment in first.values()]


def went_on(record: MixRecord) -> int:
    """Return how many clients lost nothing that they had open in any outage."""
    lost = {outage.client for outage in record.outages if outage.session_lost}
    return len({outage.client for outage in record.outages} - lost)


def _of_all_clients(back: Sequence[float], clients: int, share: float) -> float | None:
    """Return the time within which that share of the clients was back; the middle of two for the median."""
    times = [*back, *[math.inf] * (clients - len(back))]
    if not times:
        return None
    found = statistics.median(times) if share == 0.5 else times[max(0, math.ceil(share * len(times)) - 1)]
    return found if math.isfinite(found) else None


def at_equal_load(source: Source, results: Results) -> tuple[TimesCompared, ...]:
    """Compare the median time of each pair of configurations, level by level, the earlier of the plan as the base."""
    found = [outage_side(result, results) for result in results.configurations]
    return compared_outages(
        list(combinations(found, 2)),
        paired=source.paired,
        minimum_percent=source.head.plan.minimum_effect_percent,
    )


def outage_side(result: ConfigurationResult, results: Results, name: str = "") -> Side:
    """Return a configuration with 1 / the median time of each mix. Failed operations are what an outage is, and how a
    server treats a flush stands next to it.
    """
    whole = side(result, None, name)

    def conditions(places: Collection[int]) -> Conditions:
        found = whole.conditions(places)
        return replace(found, failed_share=0.0, operations={}, hidden_speed=None)

    of_times = side_of_times(whole, result, results, lambda record: figures(result.name, [record]).median_s)
    return replace(of_times, limits=(), conditions=conditions)


def compared_outages(
    pairs: Sequence[Pair], *, paired: bool, minimum_percent: float, between: Contrast | None = None
) -> tuple[TimesCompared, ...]:
    """Compare the second of each pair with the first; what is below the resolution of the times is not claimed."""
    found = compared(pairs, paired=paired, minimum_percent=minimum_percent, between=between)
    return tuple(replace(pair, found=tuple(map(_resolved, pair.found))) for pair in found)


def _resolved(level: AtLevel) -> AtLevel:
    if level.proven and abs(1 / level.other - 1 / level.base) < RESOLUTION_S:
        return replace(level, verdict=Verdict.NO_DIFFERENCE_SHOWN)
    return level
