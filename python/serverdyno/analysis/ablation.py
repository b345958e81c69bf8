"""Tunings one by one and together: what each brought, and whether they add up.

As VeriTest tuned Samba in 2003 (File Server Performance Comparison, appendix C): a baseline, one change at a time, all
together. Each row is an `improvement` over the baseline, with the verdicts corrected for their number by `holm`.
Changes that were piled up one on another have two rows each: against the baseline, and against the step before.

**Interaction**: whether all together bring what the single changes promise. Effects of independent changes multiply,
so it is log(all / base) less the sum of log(single / base): one contrast (see `contrast`) over the same resampled
runs, of which the baseline is a part as many times as it was used. Above 0 the changes help each other, below 0 they
compete for the same gain. In a design with one factor at a time that is all that can be said of interactions; which
two changes interact takes a factorial design (G. E. P. Box, J. S. Hunter, W. G. Hunter, Statistics for Experimenters,
2nd edition, Wiley 2005, chapter 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from serverdyno.analysis.contrast import log_contrast
from serverdyno.analysis.holm import adjusted_verdicts
from serverdyno.analysis.improvement import Figure, Improvement, Runs, Verdict, improvement, sample_of


class Role(StrEnum):
    """What a row compares."""

    ONE_CHANGE = "one change, against the baseline"
    CUMULATIVE = "this change and those before it, against the baseline"
    STEP = "this change, against those before it"
    ALL_TOGETHER = "all changes together, against the baseline"


class Interplay(StrEnum):
    """What may be said of all changes together against the single ones."""

    MORE_THAN_SINGLY = "together they bring more than singly"
    LESS_THAN_SINGLY = "together they bring less than singly"
    NONE_SHOWN = "no interaction shown"
    TOO_FEW_REPETITIONS = "too few repetitions to tell"


@dataclass(frozen=True, slots=True)
class Effect:
    """One row. `verdict`: corrected for all rows; that in `found` is of the comparison alone."""

    name: str
    role: Role
    found: Improvement
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Interaction:
    """All together against what the single changes promise.

    `promised_percent`: of the single effects, multiplied; `together_percent`: as measured; `percent`: the second
    over the first, less 1. `low_percent`, `high_percent`: its 95 % interval, None below three repetitions.
    """

    promised_percent: float
    together_percent: float
    percent: float
    low_percent: float | None
    high_percent: float | None
    interplay: Interplay


@dataclass(frozen=True, slots=True)
class Ablation:
    """`effects` in the order given: single changes, then what was piled up, then all together.

    `interaction`: None without runs of all together, below two single changes, where fewer than one repetition finished
    the same mixes of every configuration, or where a figure is zero.
    """

    figure: Figure
    effects: tuple[Effect, ...]
    interaction: Interaction | None


@dataclass(frozen=True, slots=True)
class Tunings:
    """The runs of an ablation. `piled_up`: in the order in which the changes were added."""

    baseline: Runs
    single: Mapping[str, Runs]
    piled_up: Sequence[tuple[str, Runs]] = ()
    together: Runs | None = None


def ablation(
    tunings: Tunings, figure: Figure, *, paired: bool, minimum_percent: float = 0.0, together: str = "all"
) -> Ablation:
    """The effects of tunings on a figure. `together`: the name of the row of all together."""
    pairs = [(name, Role.ONE_CHANGE, tunings.baseline, runs) for name, runs in tunings.single.items()]
    before = tunings.baseline
    for name, runs in tunings.piled_up:
        pairs.append((name, Role.CUMULATIVE, tunings.baseline, runs))
        if before is not tunings.baseline:  # the first step is both
            pairs.append((name, Role.STEP, before, runs))
        before = runs
    if tunings.together is not None:
        pairs.append((together, Role.ALL_TOGETHER, tunings.baseline, tunings.together))
    found = [
        improvement(base, other, figure, paired=paired, minimum_percent=minimum_percent)
        for _, _, base, other in pairs
    ]
    effects = [
        Effect(name, role, each, verdict)
        for (name, role, _, _), each, verdict in zip(pairs, found, adjusted_verdicts(found), strict=True)
    ]
    return Ablation(figure, tuple(effects), _interaction(tunings, figure, paired))


def _interaction(tunings: Tunings, figure: Figure, paired: bool) -> Interaction | None:
    if tunings.together is None or len(tunings.single) < 2:
        return None
    sides = _alike([tunings.baseline, *tunings.single.values(), tunings.together], paired)
    if any(len(side.repetitions) == 0 or not side.throughput.size for side in sides):
        return None
    # Of a single run no other can choose the mix of the peak: its highest figure is taken.
    if min(len(side.repetitions) for side in sides) == 1 and figure is Figure.PEAK:
        values = [float(side.throughput.mean(axis=0).max()) for side in sides]
    else:
        values = [sample_of(side.throughput, figure).value for side in sides]
    if min(values) <= 0:
        return None
    base, *single, together = np.log(values)
    promised = float(sum(single) - len(single) * base)
    result = Interaction(
        promised_percent=float(np.expm1(promised) * 100),
        together_percent=float(np.expm1(together - base) * 100),
        percent=float(np.expm1(together - base - promised) * 100),
        low_percent=None,
        high_percent=None,
        interplay=Interplay.TOO_FEW_REPETITIONS,
    )
    samples = [sample_of(side.throughput, figure) for side in sides]
    weights = [len(single) - 1.0, *[-1.0] * len(single), 1.0]
    contrast = log_contrast(samples, weights, paired=paired)
    if contrast is None or np.isnan(contrast.standard_error):
        return result
    low, high = contrast.interval()
    return replace(
        result,
        low_percent=float(np.expm1(low) * 100),
        high_percent=float(np.expm1(high) * 100),
        interplay=_interplay(low, high),
    )


def _interplay(low: float, high: float) -> Interplay:
    if low > 0:
        return Interplay.MORE_THAN_SINGLY
    return Interplay.LESS_THAN_SINGLY if high < 0 else Interplay.NONE_SHOWN


def _alike(sides: Sequence[Runs], paired: bool) -> list[Runs]:
    """Over the mixes that all finished, the runs that finished them; the same repetitions of all where `paired`."""
    mixes = np.logical_and.reduce([~np.isnan(side.throughput).all(axis=0) for side in sides])
    whole = [
        [
            repetition
            for repetition, row in zip(side.repetitions, side.throughput, strict=True)
            if not np.isnan(row[mixes]).any()
        ]
        for side in sides
    ]
    common = set(whole[0]).intersection(*whole[1:])
    kept = [[each for each in numbers if each in common] if paired else numbers for numbers in whole]
    return [
        Runs(tuple(numbers), side.throughput[[side.repetitions.index(each) for each in numbers]][:, mixes])
        for side, numbers in zip(sides, kept, strict=True)
    ]
