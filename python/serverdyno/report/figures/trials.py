"""Compute the figures of the trials of a search for the capacity from records, and whether a trial holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serverdyno import clean, units, wording
from serverdyno._native import Histogram
from serverdyno.analysis import trust
from serverdyno.analysis.trust import Mark
from serverdyno.plan.objective import Objective, Tail
from serverdyno.plan.open_load import Law
from serverdyno.report.figures import generator
from serverdyno.report.figures.fates import is_failing
from serverdyno.report.figures.open_load import kept_up
from serverdyno.store.records import LevelRecord


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """One trial of a search.

    `tails_ms`: for each bound of the objective, the percentile of all requests, with failures ranked above every
    success; None: too many failed. `failed_share`: share of requests that failed, were dropped, or began but did not
    end. `error_share`: share of requests with an error that no slow generator causes; `first_error`: the most frequent
    one in words. `answered_s`: operations/s. `late_ms`: the 99th percentile of the scheduling error; None: unknown.
    """

    configuration: str
    repetition: int
    number: int
    rate_per_s: int
    answered_s: float
    tails_ms: tuple[float | None, ...]
    failed_share: float
    kept_up: bool
    held: bool
    late_ms: float | None
    generator_cpu_share: float
    marks: frozenset[Mark]
    error_share: float = 0.0
    first_error: str = ""


def by_generator(trials: Sequence[TrialFigures], high_per_s: float | None, objective: Objective) -> bool:
    """Return whether the generator may have caused at least half of the failed trials near the capacity."""
    failed = [each for each in trials if not each.held]
    lowest = min((each.rate_per_s for each in failed), default=0)
    near = [each for each in failed if each.rate_per_s <= max(lowest, high_per_s or 0)]
    limited = [each for each in near if _may_be_generators(each, objective)]
    return bool(limited) and 2 * len(limited) >= len(near)


def _may_be_generators(trial: TrialFigures, objective: Objective) -> bool:
    """Return whether the generator may have made a trial fail. If it hardly works, it can only have sent late."""
    if Mark.GENERATOR_LIMITED not in trial.marks or missed_by_errors(trial, objective):
        return False
    if trial.generator_cpu_share >= trust.IDLE_CPU_SHARE:
        return True
    late_ms = trial.late_ms or 0.0
    tails = zip(trial.tails_ms, objective.tails, strict=True)
    return trial.kept_up and all(ms is not None and ms - late_ms <= tail.limit_ms for ms, tail in tails)


def missed_by_errors(trial: TrialFigures, objective: Objective) -> str:
    """Return which bound the errors alone exceed: `5 % failed (status 500), ...`; empty if none."""
    share = f"{wording.share(trial.error_share)} failed ({trial.first_error})"
    if objective.failed_share is not None and trial.error_share > objective.failed_share:
        return f"{share}, but the objective allows {wording.share(objective.failed_share)}"
    highest = max(objective.tails, key=lambda tail: tail.quantile)
    if trial.error_share > 1 - highest.quantile:
        return f"{share}. They count as slower than every answer, so the bound on {highest.name} can't be met"
    return ""


def missed(trial: TrialFigures, objective: Objective, operations: str) -> str:
    """Return why a trial failed: the bound that was exceeded, and by how much."""
    if words := missed_by_errors(trial, objective):
        return words
    if not trial.answered_s:
        return f"no {operations} were answered"
    if not trial.kept_up:
        return f"only {wording.rate(trial.answered_s)} {operations}/s were answered"
    if objective.failed_share is not None and trial.failed_share > objective.failed_share:
        return f"{wording.share(trial.failed_share)} of the {operations} got no answer"
    tails = zip(trial.tails_ms, objective.tails, strict=True)
    name, ms = next((tail.name, ms) for ms, tail in tails if ms is None or ms > tail.limit_ms)
    return (
        f"{name} was {wording.significant(ms)} ms"
        if ms is not None
        else f"too many {operations} failed for a {name}"
    )


def trial_figures(record: LevelRecord, objective: Objective, fewest_cpus: int, law: Law) -> TrialFigures:
    marks = trust.generator_marks(None if is_failing([record]) else generator.hidden_speed(record, None))
    marks |= generator.noise_marks(record, fewest_cpus)
    up = kept_up(record, law)
    if not up:
        marks |= {Mark.BEHIND}
    late = record.scheduling_error_hdr
    errors = Histogram.from_bytes(late) if late else None
    ended, failed = _ends(record, objective)
    errors_seen = [row for row in record.errors if row.side != "client" and not row.fault.endswith("timeout")]
    worst = max(errors_seen, key=lambda row: row.in_window, default=None)
    return TrialFigures(
        configuration=record.configuration,
        repetition=record.repetition,
        number=record.level,
        rate_per_s=record.rate_per_s or 0,
        answered_s=record.operations / record.window_s,
        tails_ms=tuple(_tail_ms(record, tail, ended) for tail in objective.tails),
        failed_share=failed / ended if ended else 0.0,
        kept_up=up,
        held=holds(record, objective, law),
        late_ms=errors.value_at(0.99) / units.NS_PER_MS if errors and errors.count else None,
        generator_cpu_share=generator.generator_cpu_share(record),
        marks=marks,
        error_share=sum(row.in_window for row in errors_seen) / ended if ended else 0.0,
        first_error=clean.quoted(worst.example) if worst else "",
    )


def holds(record: LevelRecord, objective: Objective, law: Law) -> bool:
    """Return whether a trial meets every bound. A server that falls behind meets none: response times keep growing."""
    ended, failed = _ends(record, objective)
    if not ended or not kept_up(record, law):
        return False
    if objective.failed_share is not None and failed > objective.failed_share * ended:
        return False
    found = [_tail_ms(record, tail, ended) for tail in objective.tails]
    return all(
        ms is not None and ms <= tail.limit_ms for ms, tail in zip(found, objective.tails, strict=True)
    )


def _ends(record: LevelRecord, objective: Objective) -> tuple[int, int]:
    """Return the number of requests in the window, and the number of them that were not answered.

    If a request in flight at the end of the window took longer than a bound, all unfinished requests count as not
    answered. Otherwise a server that never answers some requests would be judged only by the answered ones.
    """
    failed = sum(row.in_window for row in record.errors) + (record.dropped_in_window or 0)
    longest_ms = (record.under_way_longest_s or 0.0) * 1000
    if longest_ms > min(tail.limit_ms for tail in objective.tails):
        failed += max(0, (record.arrivals_in_window or 0) - record.operations - failed)
    return record.operations + failed, failed


def _tail_ms(record: LevelRecord, tail: Tail, ended: int) -> float | None:
    """Return a percentile of all requests; None if too few were answered."""
    if not record.operations or tail.quantile * ended > record.operations:
        return None
    times = Histogram.from_bytes(record.response_time_hdr)
    return times.value_at(tail.quantile * ended / record.operations) / units.NS_PER_MS
