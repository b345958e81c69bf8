"""The table of the shape of curves: the peak with its uncertainty, overload, dips.

Where a configuration's runs can't carry a statement, the table says so with a dash.
"""

from __future__ import annotations

from serverdyno import wording
from serverdyno.analysis.dips import FallKind, ThroughputFall
from serverdyno.protocols.work import Terms
from serverdyno.report.figures.results import ConfigurationResult, Results
from serverdyno.report.model import Cell, Column, Table
from serverdyno.report.words.curves import clients_of


def table(results: Results, basis: str) -> Table:
    """One row a configuration."""
    unit = results.terms.unit
    columns = (
        Column("Configuration", numeric=False),
        Column("Highest mean", unit),
        Column("Peak", f"{unit}, by cross-validation"),
        Column("Peak's 95 % interval", unit),
        Column("At clients"),
        Column("The peak may be at", "clients"),
        Column("95 % of the peak", "from clients"),
        Column("Kept at the highest load", "of the highest mean"),
        Column("Its 95 % interval"),
        Column("Dips and drops", numeric=False),
        Column("n", "whole runs"),
    )
    notes = (
        "Cross-validation: each half of the runs is read where the other half peaks, since noise lifts the highest "
        "of several means. Intervals: t intervals on logarithms, from two runs on.",
        "The peak may be at: the true peak is at one of these load levels in 95 of 100 experiments (subset "
        "selection, Gupta "
        "1965).",
        "Dips and drops: by a rule that finds any in 5 % of curves that are flat but for normal noise. "
        f"{wording.NOTHING} can't be judged: too few mixes or repetitions, or a mix without throughput.",
    )
    rows = tuple(_row(result, results.terms) for result in results.configurations)
    return Table("shape", 0, "Peak, overload and dips", basis, columns, rows, notes)


def _row(result: ConfigurationResult, terms: Terms) -> tuple[Cell, ...]:
    shape = result.shape
    peak, retained, nothing = shape.peak, shape.retained, Cell(wording.NOTHING)
    of_peak = [nothing] * 5
    if peak is not None:
        of_peak = [
            Cell(terms.written(peak.highest_mean)),
            Cell(terms.written(peak.value)),
            Cell(
                wording.NOTHING if peak.low is None or peak.high is None else terms.span(peak.low, peak.high)
            ),
            Cell(clients_of(result, [peak.mix])),
            Cell(wording.NOTHING if peak.candidates is None else clients_of(result, peak.candidates)),
        ]
    return (
        Cell(result.name),
        *of_peak,
        Cell(wording.NOTHING if shape.near_peak is None else clients_of(result, [shape.near_peak])),
        Cell(wording.share(retained.share if retained else None)),
        Cell(wording.share_span(retained.low, retained.high) if retained else wording.NOTHING),
        Cell(_falls_in_short(result)),
        Cell(f"{peak.repetitions if peak else 0}"),
    )


def _falls_in_short(result: ConfigurationResult) -> str:
    found = result.shape.dips.findings
    if found is None:
        return wording.NOTHING
    return "; ".join(_in_short(result, fall) for fall in found) or "none found"


def _in_short(result: ConfigurationResult, fall: ThroughputFall) -> str:
    where = "at" if fall.kind is FallKind.DIP else "from"
    place = fall.deepest if fall.kind is FallKind.DIP else fall.first
    return f"{fall.kind} {where} {clients_of(result, [place])}: {wording.change(-100 * fall.lost)}"
