"""Dips, drops and collapses of a curve: where throughput fails suddenly, told from noise and from a smooth decline.

Work is on logarithms, so that a loss is a share. Three statistics, each divided by an estimate of the noise:

* **short dip**: how far a mix lies below both neighbours, i.e. below the lower of them;
* **wide dip**: how far a mix lies below both the highest mix before it and the highest after it (its prominence
  as a valley; the lower of the two counts);
* **drop**: how far all later mixes lie below the one before them: a fall that is not made good. Dips are filled in
  first. What a smooth decline brings, the median fall from mix to mix after the peak, is taken off. A drop that
  leaves less than half of the throughput is a *collapse*.

A finding must pass two hurdles. It must be large enough to matter: 5 % for a dip, 10 % beyond the trend for a drop
(our choice). And its statistic must be above the critical value, which is computed: the same statistics of 20,000
simulated curves, flat with normal noise in the same mixes, repetitions and loads, exceed it in 5 % of the curves,
shared evenly among the three (Bonferroni). Flat is the worst case: where a curve rises or falls, noise alone makes
fewer valleys.

**The noise.** With repetitions: the standard deviation of the log throughput once the means of each run and each mix
are taken out (runs as blocks, as in `peak`), over the root of their number. With one repetition the noise is
unknown, and is estimated from the curve itself: each mix against the straight line between its two neighbours
(T. Gasser, L. Sroka, C. Jennen-Steinmetz, Residual Variance and Residual Pattern in Nonlinear Regression,
Biometrika 73(3), 1986, doi:10.1093/biomet/73.3.625). Beyond the peak alone, where seven such residuals are left
there, since the rise is curved; without those that touch the candidate; and of these the smallest 70 % (trimmed
squares: P. J. Rousseeuw, Least Median of Squares Regression, Journal of the American Statistical Association
79(388), 1984, doi:10.1080/01621459.1984.10477105). The simulated curves are treated alike, so trimming costs power,
not validity. Below eight mixes one repetition is not judged.

**False positives, measured**: share of 2,000 curves over the 16 mixes of 1 to 60 clients with any finding, the hurdles
of 5 % and 10 % included, of 1, 2, 3 and 5 repetitions. The bound holds for normal noise that is alike at all mixes:

====================================  ==========================  ==========================
curve and noise                       noise of 3 %                noise of 10 %
====================================  ==========================  ==========================
flat, normal                          2.7 %, 2.4 %, 2.4 %, 2.1 %  3.8 %, 3.4 %, 4.1 %, 3.9 %
peak, then -2 % a mix, normal         1.6 %, 0.9 %, 0.2 %, 0.1 %  4.8 %, 3.1 %, 4.1 %, 4.3 %
rising to saturation, normal          0 % in each                 0.3 %, 0.9 %, 0.9 %, 0.7 %
flat, heavy tails (Student's t, 3)    12 %, 4.3 %, 4.0 %, 2.6 %   16 %, 6.8 %, 6.5 %, 6.6 %
flat, thrice the noise in one half    17 %, 8.4 %, 8.3 %, 7.4 %   20 %, 12 %, 13 %, 13 %
====================================  ==========================  ==========================

So a finding in a single noisy run is a reason to repeat it, no more.
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
"""Of curves that are flat but for normal noise, at most this share has a finding."""
LEAST_DIP = 0.05
LEAST_DROP = 0.10
COLLAPSE = 0.50
"""Shares of the throughput that are lost."""
FEWEST_MIXES = 4
FEWEST_MIXES_OF_ONE = 8
_SIMULATED = 20_000
_RESIDUALS_PAST_THE_PEAK = 7
_KEPT_RESIDUALS = 0.7

_Curves = NDArray[np.float64]  # curves x mixes, of logarithms


class Kind(StrEnum):
    """What happened at a mix."""

    DIP = "dip"
    DROP = "drop"
    COLLAPSE = "collapse"


@dataclass(frozen=True, slots=True)
class Finding:
    """Indices of mixes: `first` to `last` are below what was there before; `deepest` is the lowest of them.

    A dip ends before `last` + 1, where throughput is back; a drop lasts until the last mix. `lost`: the share of
    the throughput that is missing at the deepest mix of a dip against the lower of its two shoulders, or after
    a drop, at best, against the mix before it. `times_critical`: the statistic / its critical value, above 1.
    """

    kind: Kind
    first: int
    deepest: int
    last: int
    lost: float
    times_critical: float


@dataclass(frozen=True, slots=True)
class Dips:
    """`findings`: None where the noise can't be judged, which is not the same as none found.

    `noise`: relative noise of a mean, as the rule saw it. `repetitions`: runs that finished every mix compared.
    """

    findings: tuple[Finding, ...] | None
    noise: float | None
    repetitions: int


@dataclass(frozen=True, slots=True)
class _Critical:
    """Critical values, in units of the noise estimate; `unit`: what that estimate is of noise 1, on average."""

    short_dip: float
    wide_dip: float
    drop: float
    unit: float


def dips(loads: Sequence[float], throughput: Throughput) -> Dips:
    """What the curve of repetitions x mixes (NaN: not finished) shows at `loads` (clients or connections)."""
    finished = np.flatnonzero(~np.isnan(throughput).all(axis=0))
    runs = throughput[:, finished]
    runs = runs[~np.isnan(runs).any(axis=1)]
    fewest = FEWEST_MIXES if len(runs) > 1 else FEWEST_MIXES_OF_ONE
    if not len(runs) or finished.size < fewest or (runs <= 0).any():
        return Dips(None, None, len(runs))
    load = np.asarray(loads, dtype=np.float64)[finished]
    logs = np.log(runs)
    curve = logs.mean(axis=0)
    measured = _noise_of_repetitions(logs) if len(runs) > 1 else None
    critical = _critical(tuple(load.tolist()), len(runs))
    found = _dips(curve, load, measured, critical)
    found += _drops(_filled(curve, load, found), load, measured, critical)
    noise = measured if measured is not None else float(_noise_of_one(curve[None], load, None)[0])
    return Dips(
        tuple(_in_all_mixes(each, finished) for each in sorted(found, key=lambda each: each.first)),
        noise / critical.unit,
        len(runs),
    )


def _in_all_mixes(found: Finding, finished: NDArray[np.intp]) -> Finding:
    first, deepest, last = (int(finished[index]) for index in (found.first, found.deepest, found.last))
    return Finding(found.kind, first, deepest, last, found.lost, found.times_critical)


def _dips(
    curve: NDArray[np.float64], load: NDArray[np.float64], measured: float | None, critical: _Critical
) -> list[Finding]:
    """Every valley that passes, the deepest first; a valley inside one that was found is part of it."""
    found: list[Finding] = []
    depths = {"short": _short_depths(curve[None])[0], "wide": _wide_depths(curve[None])[0]}
    for deepest in np.argsort(-depths["wide"], kind="stable"):
        if any(each.first <= deepest <= each.last for each in found):
            continue
        noise = measured
        if noise is None:
            noise = float(_noise_of_one(curve[None], load, np.array([deepest]))[0])
        times = max(
            _times(depths["short"][deepest], noise, critical.short_dip),
            _times(depths["wide"][deepest], noise, critical.wide_dip),
        )
        lost = float(-np.expm1(-depths["wide"][deepest]))
        if times > 1 and lost >= LEAST_DIP:
            shoulder = curve[deepest] + depths["wide"][deepest]
            first, last = _valley(curve, int(deepest), float(shoulder))
            found.append(Finding(Kind.DIP, first, int(deepest), last, lost, times))
    return found


def _valley(curve: NDArray[np.float64], deepest: int, shoulder: float) -> tuple[int, int]:
    """From the first to the last mix around the deepest that is more than halfway down from the shoulder."""
    below = curve < (curve[deepest] + shoulder) / 2
    first = last = deepest
    while first > 0 and below[first - 1]:
        first -= 1
    while last < len(curve) - 1 and below[last + 1]:
        last += 1
    return first, last


def _filled(
    curve: NDArray[np.float64], load: NDArray[np.float64], found: Sequence[Finding]
) -> NDArray[np.float64]:
    inside = np.zeros(len(curve), dtype=bool)
    for each in found:
        inside[each.first : each.last + 1] = True
    return np.asarray(np.interp(load, load[~inside], curve[~inside]))


def _drops(
    curve: NDArray[np.float64], load: NDArray[np.float64], measured: float | None, critical: _Critical
) -> list[Finding]:
    falls = _falls(curve[None])[0]
    found = []
    for before in np.flatnonzero(falls > 0):
        excess = float(falls[before] - _trend(curve))
        noise = measured
        if noise is None:
            noise = float(_noise_of_one(curve[None], load, np.array([before]), reach=2)[0])
        times = _times(excess, noise, critical.drop)
        lost = float(-np.expm1(-falls[before]))
        if times > 1 and -np.expm1(-excess) >= LEAST_DROP:
            kind = Kind.COLLAPSE if lost >= COLLAPSE else Kind.DROP
            deepest = before + 1 + int(curve[before + 1 :].argmin())
            found.append(Finding(kind, int(before) + 1, int(deepest), len(curve) - 1, lost, times))
    return found


def _times(depth: float, noise: float, critical: float) -> float:
    if depth <= 0:
        return 0.0
    return float(depth / (noise * critical)) if noise > 0 else float("inf")


def _trend(curve: NDArray[np.float64]) -> float:
    """The median fall from mix to mix after the peak; 0 where there are fewer than three, or it rises."""
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
    """From each mix but the last to the highest of those after it."""
    after = np.maximum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(curves[:, :-1] - after[:, 1:])


def _noise_of_repetitions(logs: NDArray[np.float64]) -> float:
    repetitions, mixes = logs.shape
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    variance = (residuals**2).sum() / ((repetitions - 1) * (mixes - 1))
    return float(np.sqrt(variance / repetitions))


def _noise_of_one(
    curves: _Curves, load: NDArray[np.float64], candidate: NDArray[np.intp] | None, reach: int = 1
) -> NDArray[np.float64]:
    """Of each curve, in units that `_Critical.unit` explains. Residual i belongs to mix i + 1.

    `candidate`: of each curve the mix that is judged; the residuals of mixes from one before it to `reach` after
    it are left out.
    """
    to_left = (load[2:] - load[1:-1]) / (load[2:] - load[:-2])
    line = to_left * curves[:, :-2] + (1 - to_left) * curves[:, 2:]
    squares = (curves[:, 1:-1] - line) ** 2 / (1 + to_left**2 + (1 - to_left) ** 2)
    mixes = np.arange(1, curves.shape[1] - 1)
    used = mixes > curves.argmax(axis=1)[:, None]
    used |= used.sum(axis=1, keepdims=True) < _RESIDUALS_PAST_THE_PEAK
    if candidate is not None:
        used &= (mixes < candidate[:, None] - 1) | (mixes > candidate[:, None] + reach)
    kept = np.ceil(_KEPT_RESIDUALS * used.sum(axis=1))
    ascending = np.sort(np.where(used, squares, np.inf), axis=1)
    smallest = np.where(np.arange(len(mixes)) < kept[:, None], ascending, 0.0)
    return np.asarray(np.sqrt(smallest.sum(axis=1) / kept))


@lru_cache(maxsize=64)
def _critical(load: tuple[float, ...], repetitions: int) -> _Critical:
    random = np.random.default_rng(SEED)
    curves = random.normal(size=(_SIMULATED, len(load)))
    short, wide, falls = _short_depths(curves), _wide_depths(curves), _falls(curves)
    if repetitions > 1:
        degrees = (repetitions - 1) * (len(load) - 1)
        of_dip = of_drop = np.sqrt(random.chisquare(degrees, _SIMULATED) / degrees)
        unit = 1.0
    else:
        places = np.asarray(load)
        of_dip = _noise_of_one(curves, places, wide.argmax(axis=1))
        of_drop = _noise_of_one(curves, places, falls.argmax(axis=1), reach=2)
        unit = float(_noise_of_one(curves, places, None).mean())

    def exceeded(depths: _Curves, noise: NDArray[np.float64]) -> float:
        return float(np.quantile(depths.max(axis=1) / noise, 1 - FALSE_POSITIVE_RATE / 3))

    return _Critical(exceeded(short, of_dip), exceeded(wide, of_dip), exceeded(falls, of_drop), unit)
