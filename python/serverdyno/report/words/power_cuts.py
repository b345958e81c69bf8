"""What is said of power cuts: at the head of a report where flushed data were lost, and as a finding."""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.report.model import Finding
from serverdyno.report.source import Source
from serverdyno.store.powercut import PowerCuts


def warnings(source: Source) -> list[str]:
    """Of configurations that lost what they had acknowledged as flushed."""
    lost = [cuts for cuts in source.power_cuts if cuts.lost_files]
    if not lost:
        return []
    parts = "; ".join(f"{cuts.configuration}: {losses(cuts)}" for cuts in lost)
    return [f"Flushed data did not outlive a power cut. {parts}."]


def findings(source: Source, tables: dict[str, str]) -> list[Finding]:
    """What the power cuts of each configuration left."""
    found: Sequence[PowerCuts] = source.power_cuts
    if not found:
        return []
    parts = "; ".join(f"{cuts.configuration}: {losses(cuts)}" for cuts in found)
    evidence = "Files that were read again after the power of a guest with the same server was cut; "
    return [Finding("Power cut", f"{parts}.", f"{evidence}{tables['power-cuts']}.")]


def losses(cuts: PowerCuts) -> str:
    """`0 of 212 flushed files lost in 5 power cuts`."""
    times = wording.plural(len(cuts.cuts), "power cut")
    lost = f"{cuts.lost_files:,} of {wording.plural(cuts.flushed_files, 'flushed file')} lost"
    return f"{lost} in {cuts.cuts_with_loss:,} of {times}" if cuts.lost_files else f"{lost} in {times}"
