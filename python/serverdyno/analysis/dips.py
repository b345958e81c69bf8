"""Find dips, drops and collapses of a curve: sudden losses of throughput, as opposed to noise or a smooth decline.

The analysis uses logarithms, so that a loss is a share. Each of three statistics is divided by an estimate of the
noise:

* **short dip**: how far a level lies below the lower of its two neighbours;
* **wide dip**: how far a level lies below both the highest level before it and the highest after it (its prominence
  as a valley; the lower of the two counts);
* **drop**: how far all later levels lie below the one before them: a lasting fall. Dips are filled in first, and the
  smooth decline (the median fall from level to level after the peak) is subtracted. A drop that leaves less than half
  of the throughput is a *collapse*.

A finding must pass two thresholds. It must be large enough to matter: 5 % for a dip, 10 % beyond the trend for a drop
(our choice). And its statistic must exceed a computed critical value: among 20,000 simulated curves, flat with normal
noise and with the same levels, repetitions and loads, 5 % exceed it, divided evenly among the three statistics
(Bonferroni). Flat is the worst case: if a curve rises or falls, noise alone makes fewer valleys.

**The noise** is the standard deviation of the log throughput after removal of the means of each run and each level
(runs as blocks, as in `peak`), divided by the square root of the number of runs. With fewer than three repetitions
nothing is judged: the noise of a single run is unknown, and that of two is hardly known.

**False positives, measured**: the share of 2,000 curves over the 16 levels of 1 to 60 clients with any finding, with
thresholds of 5 % and 10 %, for 3 and 5 repetitions. The bound holds for normal noise that is equal at all levels:

====================================  =============  =============
curve and noise                       noise of 3 %   noise of 10 %
====================================  =============  =============
flat, normal                          2.4 %, 2.1 %   4.1 %, 3.9 %
peak, then -2 % per level, normal     0.2 %, 0.1 %   4.1 %, 4.3 %
rising to saturation, normal          0 %, 0 %       0.9 %, 0.7 %
flat, heavy tails (Student's t, 3)    4.0 %, 2.6 %   6.5 %, 6.6 %
flat, thrice the noise in one half    8.3 %, 7.4 %   13 %, 13 %
====================================  =============  =============
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.contrast import SEED
from serverdyno.analysis.curve import Throughput

FALSE_POSITIVE_RATE = 0.05
"""Largest share of flat curves with normal noise that have a finding."""
LEAST_DIP = 0.05
LEAST_DROP = 0.10
COLLAPSE = 0.50
"""Smallest losses that count, as shares of the throughput."""
FEWEST_LEVELS = 4
FEWEST_REPETITIONS = 3
_SIMULATED = 20_000

_Curves = NDArray[np.float64]  # curves x levels, as logarithms


class FallKind(StrEnum):
    DIP = "dip"
    DROP = "drop"
    COLLAPSE = "collapse"


@dataclass(frozen=True, slots=True)
class ThroughputFall:
    """A fall, by indices of levels: `first` to `last` are below the previous throughput, and `deepest` is the lowest.

    A dip ends before `last` + 1, where throughput has recovered; a drop lasts to the last level. `lost` is the missing
    share of the throughput: for a dip, at its deepest level against the lower of its shoulders; for a drop, at the
    best level after it against the level before it. `times_critical` is the statistic divided by its critical value,
    above 1.
    """

    kind: FallKind
    first: int
    deepest: int
    last: int
    lost: float
    times_critical: float


@dataclass(frozen=True, slots=True)
class Dips:
    """The falls of a curve. `findings` is None if the noise can't be judged; an empty result means none found.

    `noise` is the relative noise of a mean, as used in the tests. `repetitions` counts runs that finished every level.
    """

    findings: tuple[ThroughputFall, ...] | None
    noise: float | None
    repetitions: int


@dataclass(frozen=True, slots=True)
class _Critical:
    """Critical values, in units of the noise estimate."""

    short_dip: float
    wide_dip: float
    drop: float


def dips(loads: Sequence[float], throughput: Throughput) -> Dips:
    """Return the falls of a curve of repetitions x levels (NaN: not finished) at `loads` (clients or connections)."""
    finished = np.flatnonzero(~np.isnan(throughput).all(axis=0))
    runs = throughput[:, finished]
    runs = runs[~np.isnan(runs).any(axis=1)]
    if len(runs) < FEWEST_REPETITIONS or finished.size < FEWEST_LEVELS or (runs <= 0).any():
        return Dips(None, None, len(runs))
    load = np.asarray(loads, dtype=np.float64)[finished]
    logs = np.log(runs)
    curve, noise = logs.mean(axis=0), _noise(logs)
    critical = _critical(finished.size, len(runs))
    found = _dips(curve, noise, critical)
    found += _drops(_filled(curve, load, found), noise, critical)
    in_order = sorted(found, key=lambda each: each.first)
    return Dips(tuple(_in_all_levels(each, finished) for each in in_order), noise, len(runs))


def _in_all_levels(found: ThroughputFall, finished: NDArray[np.intp]) -> ThroughputFall:
    first, deepest, last = (int(finished[index]) for index in (found.first, found.deepest, found.last))
    return ThroughputFall(found.kind, first, deepest, last, found.lost, found.times_critical)


def _dips(curve: NDArray[np.float64], noise: float, critical: _Critical) -> list[ThroughputFall]:
    """Return every significant valley, the deepest first. A valley inside an earlier one is part of it."""
    found: list[ThroughputFall] = []
    depths = {"short": _short_depths(curve[None])[0], "wide": _wide_depths(curve[None])[0]}
    for deepest in np.argsort(-depths["wide"], kind="stable"):
        if any(each.first <= deepest <= each.last for each in found):
            continue
        times = max(
            _times(depths["short"][deepest], noise, critical.short_dip),
            _times(depths["wide"][deepest], noise, critical.wide_dip),
        )
        lost = float(-np.expm1(-depths["wide"][deepest]))
        if times > 1 and lost >= LEAST_DIP:
            shoulder = curve[deepest] + depths["wide"][deepest]
            first, last = _valley(curve, int(deepest), float(shoulder))
            found.append(ThroughputFall(FallKind.DIP, first, int(deepest), last, lost, times))
    return found


def _valley(curve: NDArray[np.float64], deepest: int, shoulder: float) -> tuple[int, int]:
    """Return the first and the last level around the deepest one that are more than halfway below the shoulder."""
    below = curve < (curve[deepest] + shoulder) / 2
    first = last = deepest
    while first > 0 and below[first - 1]:
        first -= 1
    while last < len(curve) - 1 and below[last + 1]:
        last += 1
    return first, last


def _filled(
    curve: NDArray[np.float64], load: NDArray[np.float64], found: Sequence[ThroughputFall]
) -> NDArray[np.float64]:
    inside = np.zeros(len(curve), dtype=bool)
    for each in found:
        inside[each.first : each.last + 1] = True
    return np.asarray(np.interp(load, load[~inside], curve[~inside]))


def _drops(curve: NDArray[np.float64], noise: float, critical: _Critical) -> list[ThroughputFall]:
    falls = _falls(curve[None])[0]
    found = []
    for before in np.flatnonzero(falls > 0):
        excess = float(falls[before] - _trend(curve))
        times = _times(excess, noise, critical.drop)
        lost = float(-np.expm1(-falls[before]))
        if times > 1 and -np.expm1(-excess) >= LEAST_DROP:
            kind = FallKind.COLLAPSE if lost >= COLLAPSE else FallKind.DROP
            deepest = before + 1 + int(curve[before + 1 :].argmin())
            found.append(ThroughputFall(kind, int(before) + 1, int(deepest), len(curve) - 1, lost, times))
    return found


def _times(depth: float, noise: float, critical: float) -> float:
    if depth <= 0:
        return 0.0
    return float(depth / (noise * critical)) if noise > 0 else float("inf")


def _trend(curve: NDArray[np.float64]) -> float:
    """Return the median fall from level to level after the peak; 0 for fewer than three steps or for a rise."""
    falls = -np.diff(curve[curve.argmax() :])
    return max(0.0, float(np.median(falls))) if len(falls) >= 3 else 0.0


def _short_depths(curves: _Curves) -> _Curves:
    depths = np.full(curves.shape, -np.inf)
    depths[:, 1:-1] = np.minimum(curves[:, :-2], curves[:, 2:]) - curves[:, 1:-1]
    return depths


def _wide_depths(curves: _Curves) -> _Curves:
    before = np.maximum.accumulate(curves, axis=1)
    after = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.minimum(before, after) - curves)


def _falls(curves: _Curves) -> _Curves:
    """Return the fall from each level except the last to the highest level after it."""
    after = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(curves[:, :-1] - after[:, 1:])


def _noise(logs: NDArray[np.float64]) -> float:
    repetitions, levels = logs.shape
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    variance = (residuals**2).sum() / ((repetitions - 1) * (levels - 1))
    return float(np.sqrt(variance / repetitions))


@lru_cache(maxsize=64)
def _critical(levels: int, repetitions: int) -> _Critical:
    random = np.random.default_rng(SEED)
    curves = random.normal(size=(_SIMULATED, levels))
    degrees = (repetitions - 1) * (levels - 1)
    noise = np.sqrt(random.chisquare(degrees, _SIMULATED) / degrees)

    def exceeded(depths: _Curves) -> float:
        return float(np.quantile(depths.max(axis=1) / noise, 1 - FALSE_POSITIVE_RATE / 3))

    return _Critical(
        exceeded(_short_depths(curves)), exceeded(_wide_depths(curves)), exceeded(_falls(curves))
    )
