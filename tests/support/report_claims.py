"""A report's key findings as claims, in the language used to audit published reports.

Each claim has the text as printed and the rule that computes it from the records. `published.audit` recomputes it,
independently of the code that built the report. The language covers highest means, their levels, the throughput kept
beyond them, and improvements of complete experiments. Two kinds of improvements are left out: a peak for which
cross-validation read a run at a level other than that of the highest mean, because it is not a ratio of means; and an
improvement that excludes an outlying repetition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from serverdyno import wording
from serverdyno.analysis.improvement import Improvement, Metric
from serverdyno.analysis.pairs import Comparison
from serverdyno.plan.protocols.work import stayed
from serverdyno.published.model import Claim
from serverdyno.published.tables import Tables, of_columns
from serverdyno.report.figures.results import ConfigurationResult
from serverdyno.report.model import Report
from serverdyno.store.records import LevelRecord

TABLE = "levels"


def claims(report: Report) -> tuple[Claim, ...]:
    """Return the key findings that can be recomputed; none for an experiment without figures."""
    column = report.results.terms.column
    found = [
        claim
        for place, result in enumerate(report.results.configurations)
        for claim in _of_peak(f"peak-{place + 1}", result, report, column)
    ]
    if len(report.results.used) == report.source.planned_levels:
        by_name = {result.name: result for result in report.results.configurations}
        for place, comparison in enumerate(report.comparisons):
            sides = [by_name[comparison.base], by_name[comparison.other]]
            found += _of_comparison(f"comparison-{place + 1}", comparison, sides, column)
    return tuple(found)


def tables(records: Sequence[LevelRecord]) -> Tables:
    """Return the tables for the audit: one row per run and level of records that were not cut short."""
    whole = [record for record in records if record.void is None and record.window_s > 0]
    return Tables(
        [
            of_columns(
                TABLE,
                {
                    "configuration": [record.configuration for record in whole],
                    "repetition": [record.repetition for record in whole],
                    "level": [record.level for record in whole],
                    "clients": [record.clients for record in whole],
                    "requests_s": [record.operations_s for record in whole],
                    "operations_s": [record.operations_s for record in whole],
                    "mbit_s": [_moved_bits(record) / 1e6 / record.window_s for record in whole],
                },
            )
        ]
    )


def _moved_bits(record: LevelRecord) -> int:
    """Return the bits moved by clients that stayed until the window closed."""
    return 8 * sum(
        (row.bytes_read or 0) + row.bytes_written for row in record.by_client if stayed(row, record)
    )


def _of_peak(identity: str, result: ConfigurationResult, report: Report, column: str) -> Iterator[Claim]:
    summary, peak, terms = result.throughput, result.peak, report.results.terms
    if summary is None or peak is None or summary.peak.mean == 0:
        return
    highest = _cells("highest", column, result.name)
    place = f"Key findings, peak of {result.name}"
    height = (terms.written(summary.peak.mean), "")
    yield _claim(f"{identity}.height", place, f"Highest mean in {terms.unit}", height, highest)
    position = highest | {"kind": "position_of_highest", "at": "clients", "averaged_by": ["clients"]}
    clients = (f"{peak.clients:,}", "")
    yield _claim(f"{identity}.place", place, "Clients at the highest mean", clients, position)
    last = result.levels[-1]
    if last is not None and summary.share_of_peak_kept is not None and summary.share_of_peak_kept < 1:
        at_last = _cells("highest", column, result.name)
        at_last["where"] |= {"level": last.index}
        kept = {"kind": "ratio", "of": at_last, "to": highest}
        hundred = {"kind": "stated", "value": 100, "place": "per cent"}
        share = (_number(wording.share(summary.share_of_peak_kept)), "percent")
        rule = {"kind": "product", "of": [kept, hundred]}
        yield _claim(f"{identity}.kept", place, "Kept at the highest load", share, rule)


def _of_comparison(
    identity: str, comparison: Comparison, sides: Sequence[ConfigurationResult], column: str
) -> Iterator[Claim]:
    for found in comparison.improvements:
        if found.percent is None or not _of_means(found, sides):
            continue
        kind = "highest" if found.figure is Metric.PEAK else "mean"
        base, other = (_cells(kind, column, side.name) for side in sides)
        # A negative improvement is a decline, printed without its sign.
        rule = (
            {"kind": "percent_improvement", "of": other, "over": base}
            if found.percent >= 0
            else {"kind": "percent_decline", "from": base, "to": other}
        )
        says = f"{comparison.other} against {comparison.base} in {found.figure.value}"
        place = f"Key findings, {says}"
        key = f"{identity}.{found.figure.name.lower().replace('_', '-')}"
        yield _claim(key, place, says, (_number(wording.change(found.percent)), "percent"), rule)


def _of_means(found: Improvement, sides: Sequence[ConfigurationResult]) -> bool:
    if found.odd is not None or found.figure is not Metric.PEAK:
        return found.odd is None
    peaks = [side.shape.peak for side in sides]
    return all(
        peak is not None and (peak.value is None or math.isclose(peak.value, peak.highest_mean, rel_tol=1e-9))
        for peak in peaks
    )


def _cells(kind: str, column: str, configuration: str) -> dict[str, Any]:
    """Return the rule's cells: the means over the repetitions of each level."""
    where = {"configuration": configuration}
    return {"kind": kind, "table": TABLE, "column": column, "where": where, "averaged_by": ["level"]}


def _number(text: str) -> str:
    """Return the printed number without its sign and the per cent sign."""
    return text.lstrip("+−").rstrip("%").strip()  # noqa: RUF001  a minus sign, as typeset


def _claim(identity: str, place: str, says: str, printed: tuple[str, str], rule: dict[str, Any]) -> Claim:
    """Return a claim. `printed`: the value as in the text, with its unit if the language knows it."""
    claimed, unit = printed
    return Claim.model_validate(
        {"id": identity, "place": place, "says": says, "claimed": claimed, "unit": unit, "rule": rule}
    )
