"""Caveats that a reader must know before any figure: missing data, contradictions and disturbances.

This module defines their order. A caveat on one subject is in that subject's module.
"""

from __future__ import annotations

from collections import Counter

from serverdyno import wording
from serverdyno.analysis.oddities import RANGE_SHARE, wide_range
from serverdyno.analysis.trust import FAILED_SHARE, Mark
from serverdyno.report.basis import shortening
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Caveat
from serverdyno.report.parts import named
from serverdyno.report.subjects import (
    connections,
    cost,
    durability,
    errors,
    negotiated,
    nodes,
    open_load,
    power_cuts,
    runs,
    timeline,
    tls,
)


def caveats(results: Results) -> tuple[Caveat, ...]:
    """Return the caveats; the first sentence of each can stand alone."""
    return tuple(_split(text) for text in _texts(results))


def _split(text: str) -> Caveat:
    claim, mark, more = text.partition(". ")
    return Caveat(f"{claim}.", more) if mark else Caveat(text)


def _texts(results: Results) -> tuple[str, ...]:
    source, found = results.source, []
    if source.shortened and source.head.levels:
        found.append(f"{shortening(source)}. The figures apply only to this length, not to the full suite.")
    found += [f"The report leaves out a file that can't be read: {problem}." for problem in source.damaged]
    found += runs.set_aside(source)
    if not results.levels and source.head.levels:
        found.append("No load level was finished, so the report contains only the setup of the experiment.")
    elif len(results.used) < source.planned_levels:
        found.append(
            f"Unfinished: {len(results.used):,} of "
            f"{wording.plural(source.planned_levels, 'planned load level')} can be "
            "reported. The figures cover only these."
        )
    found += [
        f"The figures leave out run {record.run}, {record.configuration}, load level {record.name}: {reason}."
        for record, reason in results.left_out
    ]
    found += [f"The records are inconsistent: {problem}." for problem in results.contradictions]
    return (
        *found,
        *([] if source.cut is not None else [*errors.failing(results), *errors.away(results)]),
        *errors.empty(results),
        *durability.warnings(results.promises),
        *power_cuts.warnings(source),
        *negotiated.warnings(source),
        *tls.warnings(source),
        *connections.warnings(source),
        *runs.warnings(source),
        *cost.shared_cpus(source),
        *nodes.vague_clocks(source),
        *cost.noise(results),
        *errors.left_early(results),
        *errors.starved(results),
        # In an outage experiment, the server stops on purpose.
        *([] if source.cut is not None else [*errors.stalled(results), *timeline.drifting(results)]),
        *([] if source.head.suite.objective else open_load.caveats(results)),
        *_unlike_repetitions(results),
        *_parts_of_a_pass(results),
        *_replaced(results),
    )


def _replaced(results: Results) -> list[str]:
    """Return warnings on operations that a workload replaced by others."""
    suite, found = results.source.head.suite, []
    for result in results.configurations:
        done: Counter[str] = Counter()
        for level in result.finished:
            # If many operations fail, the shares of the successful ones mean nothing.
            done.update(level.operations if level.failed_share <= FAILED_SHARE else {})
        if words := suite.work.replaced(suite.settings(suite.work), done):
            found.append(f"{result.name}: {words}")
    return found


def _unlike_repetitions(results: Results) -> list[str]:
    repeated = [level for level in results.levels if level.throughput.n > 1 and level.throughput.mean > 0]
    apart = sorted(
        (
            (share, level)
            for level in repeated
            if (
                share := wide_range(level.throughput.minimum, level.throughput.maximum, level.throughput.mean)
            )
        ),
        key=lambda point: -point[0],
    )
    if not apart:
        return []
    which = named(
        [f"{level.configuration} with {level.at} ({wording.share(share)})" for share, level in apart]
    )
    return [
        f"Repetitions disagree by more than {wording.share(RANGE_SHARE)} in {len(apart):,} of "
        f"{wording.plural(len(repeated), 'load level')}. Their range as a share of the mean, largest first: "
        f"{which}. There, the experiment can't show small differences, and more repetitions may change the "
        "means."
    ]


def _parts_of_a_pass(results: Results) -> list[str]:
    """Return a warning on levels too short for one pass, where a client's progress determines its operations."""
    known = [level for level in results.levels if level.passes_a_client is not None]
    short = [level for level in known if Mark.PART_OF_A_PASS in level.marks]
    if not short:
        return []
    clients = wording.listing([str(count) for count in sorted({level.clients for level in short})])
    return [
        f"Clients had too little time to finish the workload at {len(short):,} of "
        f"{wording.plural(len(known), 'load level')}, marked P (with {clients} clients). In the repetition "
        "with the fewest passes, a client completed less than one pass on average. A faster server gets "
        "further in the workload, so it receives different operations. Longer load levels make the work "
        "comparable."
    ]
