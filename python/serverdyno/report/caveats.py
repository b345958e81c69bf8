"""What a reader must know before any figure: what is missing, what contradicts itself, what disturbed the load.

Each is said once, however many mixes it concerns. What the figures show is in `findings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from serverdyno import clean, wording
from serverdyno.analysis.oddities import CLOCK_SHARE, RANGE_SHARE, counts_agree, vague_clock, wide_range
from serverdyno.analysis.trust import Mark
from serverdyno.plan.model import RunKey
from serverdyno.report.basis import shortening
from serverdyno.report.figures.results import Results
from serverdyno.report.model import Caveat
from serverdyno.report.parts import named
from serverdyno.report.source import Source
from serverdyno.report.subjects import cost, durability, errors, negotiated, open_load, power_cuts, tls
from serverdyno.store.note import RunNote


def caveats(source: Source, results: Results) -> tuple[Caveat, ...]:
    """What a reader must know before any figure, each with a first sentence that stands alone."""
    return tuple(_split(text) for text in _texts(source, results))


def _split(text: str) -> Caveat:
    claim, mark, more = text.partition(". ")
    return Caveat(f"{claim}.", more) if mark else Caveat(text)


def _texts(source: Source, results: Results) -> tuple[str, ...]:
    found = []
    if source.shortened:
        found.append(
            f"{shortening(source)}. The figures stand for this length only, not for the suite in full."
        )
    found += [f"Left out, since it can't be read: {problem}." for problem in source.damaged]
    found += _set_aside(source)
    if not results.mixes:
        found.append("No mix was finished: there is nothing to report but how the experiment was set up.")
    elif len(results.used) < source.planned_mixes:
        found.append(
            f"Unfinished: {len(results.used):,} of {wording.plural(source.planned_mixes, 'planned mix')} "
            "can be reported. Figures are of those alone."
        )
    found += [
        f"Left out: run {record.run}, {record.configuration}, mix {record.name} ({reason})."
        for record, reason in results.left_out
    ]
    found += [f"The records contradict themselves: {problem}." for problem in results.contradictions]
    return (
        *found,
        *durability.warnings(results.promises),
        *power_cuts.warnings(source),
        *negotiated.warnings(source),
        *tls.warnings(source),
        *_run_warnings(source),
        *cost.shared_cpus(source),
        *_vague_clocks(source),
        *cost.noise(results),
        *errors.left_early(results),
        *errors.starved(results),
        # Who takes the server away means it to stand still.
        *([] if source.cut is not None else [*errors.stalled(results), *_drifting(results)]),
        *([] if source.head.suite.objective else open_load.caveats(results)),
        *_unlike_repetitions(results),
        *_parts_of_a_pass(results),
    )


def _set_aside(source: Source) -> list[str]:
    """Damaged files, and what happened to their contents: by the kind of the file."""
    if not source.set_aside:
        return []
    names = {place.rsplit("/", 1)[-1].split(".", 1)[0] for place in source.set_aside}
    said = [f"Damaged, and set aside by a resume: {wording.listing(source.set_aside)}."]
    if any(name.startswith("mix-") for name in names):
        said.append(
            "A mix of that place that is in the figures was measured again later, out of the order of the runs."
        )
    if "run" in names:
        said.append(
            "What only that note of the run told of mixes that are whole is lost: the requests that the server "
            "counted, what sessions agreed on, what the files lay on."
        )
    return [" ".join(said)]


def _run_warnings(source: Source) -> list[str]:
    """Runs that failed, and runs of which the server counted other requests than the generator."""
    found = []
    for key in source.head.order:
        note = source.run_notes.get(key.number)
        if note is None:
            continue
        name = f"Run {key.number}, {key.configuration}"
        found += [f"{name}{said}" for said in _lost(source, key, note)]
        if note.state == "failed":
            found.append(f"{name}, failed: {clean.quoted(note.reason or 'no reason was noted')}.")
        if note.crashes:
            count = wording.plural(len(note.crashes), "crash", "crashes")
            first = clean.quoted(note.crashes[0])
            found.append(f"{name}: the server's log tells of {count} of its processes; the first: {first}")
        served, answered = note.requests_by_server_count, note.requests_answered
        if served is None or answered is None:
            continue
        if not counts_agree(served, answered, note.requests_failed or 0):
            found.append(
                f"{name}: the generator counted {answered:,} answers, the server {served:,} requests."
            )
    return found


def _lost(source: Source, key: RunKey, note: RunNote) -> Iterator[str]:
    """What a run can't tell any more, since it was killed, or carried on by a resume."""
    finished = {record.mix for record in source.records if record.run == key.number and record.void is None}
    whole = finished >= {mix.index for mix in source.head.mixes}
    counts = "the requests that the server counted and crashes in its log"
    if note.media is not None:
        counts += ", what sessions agreed on, and the disk's own fsync after the load"
    if note.state == "lost":
        yield (
            ": the note of its end is lost, since it was killed after its last mix, or the note was damaged. Its mixes "
            f"are complete. Not known: {counts}."
        )
    elif note.state == "begun" and whole:
        yield (
            f" has all its mixes, and no end: it goes on, or was killed. `dyno resume` ends it. Not known: {counts}."
        )
    elif note.from_mix > 1:
        yield (
            f" was interrupted, and carried on with mix {note.from_mix}. Known of that part alone: {counts}."
        )


def _vague_clocks(source: Source) -> list[str]:
    """Nodes whose clocks were known too badly for their windows, the worst first."""
    worst: dict[str, float] = {}
    for record in source.records:
        for row in record.nodes:
            if vague_clock(row.clock_error_s, record.window_s):
                worst[row.node] = max(row.clock_error_s, worst.get(row.node, 0.0))
    if not worst:
        return []
    which = named(
        [f"{node} ({1000 * worst[node]:.0f} ms)" for node in sorted(worst, key=lambda each: -worst[each])]
    )
    return [
        f"The clocks of some nodes were known no better than {CLOCK_SHARE:.0%} of the window: {which}. Their windows "
        "may have been apart by as much, so figures by second are doubtful."
    ]


def _drifting(results: Results) -> list[str]:
    """Points that were not steady, the largest change first."""
    points = [
        (result.name, mix, repetition, drift)
        for result in results.configurations
        for mix in result.finished
        for repetition, drift in mix.drifts.items()
    ]
    if not points:
        return []
    points.sort(key=lambda point: -abs(math.log1p(point[3])))
    which = named(
        [
            f"{name} with {mix.at} in repetition {repetition} ({wording.change(drift * 100)})"
            for name, mix, repetition, drift in points
        ]
    )
    return [
        f"The load was not steady in {wording.plural(len(points), 'test')}. The second half of the window against the "
        f"first: {which}. These points are marked D: their figures depend on the length of the test. Longer tests or a "
        "longer ramp up show at which speed the server stays."
    ]


def _unlike_repetitions(results: Results) -> list[str]:
    """Points whose repetitions lie far apart, the farthest first."""
    repeated = [
        (result.name, mix)
        for result in results.configurations
        for mix in result.finished
        if mix.throughput.n > 1 and mix.throughput.mean > 0
    ]
    apart = sorted(
        (
            (share, name, mix.at)
            for name, mix in repeated
            if (share := wide_range(mix.throughput.minimum, mix.throughput.maximum, mix.throughput.mean))
        ),
        key=lambda point: -point[0],
    )
    if not apart:
        return []
    which = named([f"{name} with {at} ({wording.share(share)})" for share, name, at in apart])
    return [
        f"Repetitions disagree by more than {wording.share(RANGE_SHARE)} in {len(apart):,} of "
        f"{wording.plural(len(repeated), 'point')}. The range as a share of the mean, largest first: {which}. Small "
        "differences can't be shown there, and more repetitions may move the means."
    ]


def _parts_of_a_pass(results: Results) -> list[str]:
    """Mixes too short for the workload: what was asked for then depends on how far a client came."""
    known = [mix for mix in results.mixes if mix.passes_a_client is not None]
    short = [mix for mix in known if Mark.PART_OF_A_PASS in mix.marks]
    if not short:
        return []
    clients = wording.listing([str(count) for count in sorted({mix.clients for mix in short})])
    return [
        "In tests marked P, clients had too little time to finish the workload; compare with care. "
        f"That is so in {len(short):,} of {wording.plural(len(known), 'point')} (of {clients} clients): a "
        "client completed "
        "less than one pass in the window, in the mean of the repetition with the fewest. A faster server gets "
        "further, so "
        "it is asked for other operations. Longer mixes compare like with like."
    ]
