"""Scaling over processors (or any other resource that is added one by one): what each of them brought.

**The table** says of each count how many times the throughput of the smallest it has, how much of the ideal that is,
and whether scaling was negative: less throughput than with fewer (as in eTesting Labs 2001, figures 7 and 8, where
a second processor made a server slower).

**The law** is the Universal Scalability Law, X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): lambda is the
throughput of one, sigma the share of contention (what is done one at a time), kappa that of coherency (what each must
settle with each other); none is below 0 (N. J. Gunther, Guerrilla Capacity Planning, Springer 2007, chapters 4 to 6;
A General Theory of Computational Scalability Based on Rational Functions, 2008, arXiv:0808.1431). It is fitted by
least squares of the throughput itself, as Gunther and the R package `usl` do; lambda is free, so that a bad
measurement of one processor doesn't spoil all others. Where kappa is above 0, the throughput has its maximum at
sqrt((1 - sigma) / kappa).

**The intervals** are by profile: all values at which the best fit of the other parameters has a sum of squares that is
not above the least one by more than the factor 1 + t^2 / df (D. M. Bates, D. G. Watts, Nonlinear Regression Analysis
and Its Applications, Wiley 1988, chapter 6). Unlike intervals from a standard error, they keep within the bounds and
may be lopsided, or open (None). They say what noise around the law allows; they know nothing of a wrong law.

**Trust.** A law with three parameters bends to nearly anything. Below six counts it isn't fitted; it is *poor* where it
explains less than 90 % of the variation (R squared) or misses by more than 5 % of the mean throughput (root mean square
of the residuals). Then it predicts nothing. A maximum beyond twice the largest count measured is not told. These limits
are our choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from serverdyno.analysis.contrast import CONFIDENCE

FEWEST_COUNTS = 6
LEAST_R_SQUARED = 0.90
LARGEST_RELATIVE_ERROR = 0.05
FURTHEST_PREDICTION = 2.0
"""As a multiple of the largest count measured."""
_PRECISION = 1e-5  # of the ends of an interval, relative
_MOST_STEPS = 20  # of doubling, in the search for the end of an interval

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """One count. `speed_up`: throughput / that of the smallest count; `efficiency`: speed-up / (count / smallest).

    `change`: throughput / that of the count before, less 1; None of the first. `negative`: that is below 0.
    `below_best`: throughput / the best of fewer, less 1, where that is below 0; otherwise None.
    """

    count: int
    throughput: float
    speed_up: float
    efficiency: float
    change: float | None
    negative: bool
    below_best: float | None


class Trouble(StrEnum):
    """Why a fit predicts nothing."""

    TOO_FEW = f"fewer than {FEWEST_COUNTS} counts"
    POOR = "the law does not describe these figures"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval; an end is None where the figures don't bound it."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Law:
    """The Universal Scalability Law of some figures. `trouble`: None where it may be used.

    `lam`, `sigma`, `kappa`: its parameters (`lambda` is a word of Python's). `r_squared`: 1 - residual / total sum of
    squares; None where all figures are equal. `relative_error`: root mean square of the residuals / mean figure.
    `peak_count`: where the throughput is highest; None where the figures allow that it has no maximum (the interval of
    kappa holds 0), where it lies too far beyond them, or where there is trouble.
    """

    lam: Interval
    sigma: Interval
    kappa: Interval
    r_squared: float | None
    relative_error: float
    peak_count: Interval | None
    trouble: Trouble | None


def speed_ups(throughput: Mapping[int, float]) -> tuple[Step, ...]:
    """The table, from the throughput by count. Raises ValueError for counts below 1 or throughputs not above 0."""
    if any(count < 1 for count in throughput) or any(not value > 0 for value in throughput.values()):
        raise ValueError("counts are from 1, and throughputs above 0")
    counts = sorted(throughput)
    steps = []
    for place, count in enumerate(counts):
        value, smallest = throughput[count], throughput[counts[0]]
        change = value / throughput[counts[place - 1]] - 1 if place else None
        best = max((throughput[fewer] for fewer in counts[:place]), default=value)
        steps.append(
            Step(
                count=count,
                throughput=value,
                speed_up=value / smallest,
                efficiency=(value / smallest) / (count / counts[0]),
                change=change,
                negative=change is not None and change < 0,
                below_best=value / best - 1 if value < best else None,
            )
        )
    return tuple(steps)


def fit_law(counts: Sequence[float], throughput: Sequence[float]) -> Law | Trouble:
    """The law of figures at counts (from 1; a count may be repeated: repetitions). `TOO_FEW` below six counts.

    Raises ValueError for counts below 1, or throughputs not above 0.
    """
    n, x = np.asarray(counts, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    if n.shape != x.shape or (n < 1).any() or not (x > 0).all():
        raise ValueError("counts are from 1, throughputs above 0, and as many")
    if len(np.unique(n)) < FEWEST_COUNTS:
        return Trouble.TOO_FEW
    scale = float(x.max())
    profile = _Profile(n, x / scale)
    lam, sigma, kappa = profile.best
    fitted = scale * lam * n / _slowing(n, sigma, kappa)
    total = float(((x - x.mean()) ** 2).sum())
    r_squared = 1 - float(((x - fitted) ** 2).sum()) / total if total > 0 else None
    relative_error = float(np.sqrt(((x - fitted) ** 2).mean()) / x.mean())
    poor = r_squared is None or r_squared < LEAST_R_SQUARED or relative_error > LARGEST_RELATIVE_ERROR
    intervals = [profile.interval(place) for place in range(3)]
    peak = None if poor else profile.peak_count()
    return Law(
        lam=_scaled(intervals[0], scale),
        sigma=intervals[1],
        kappa=intervals[2],
        r_squared=r_squared,
        relative_error=relative_error,
        peak_count=peak if peak is not None and peak.value <= FURTHEST_PREDICTION * n.max() else None,
        trouble=Trouble.POOR if poor else None,
    )


def _slowing(n: _Floats, sigma: float, kappa: float) -> _Floats:
    return np.asarray(1 + sigma * (n - 1) + kappa * n * (n - 1))


def _scaled(interval: Interval, scale: float) -> Interval:
    low, high = (None if end is None else end * scale for end in (interval.low, interval.high))
    return Interval(interval.value * scale, low, high)


class _Profile:
    """The fit of throughputs (the largest being 1), and of the other parameters where one is held.

    Parameters are lambda, sigma, kappa, in this order.
    """

    def __init__(self, n: _Floats, x: _Floats) -> None:
        self._n, self._x = n, x
        self._start = np.array([0.1, 1e-3])
        self.best = self._start = self._fit({})
        degrees = len(x) - 3
        least = self._squares(self.best)
        quantile = float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2))
        self._allowed = least * (1 + quantile**2 / degrees)
        # Below this, sums of squares are rounding: the law is met exactly.
        self._exact = least < 1e-16 * len(x)

    def interval(self, place: int) -> Interval:
        """The values of one parameter that the figures allow."""
        value = float(self.best[place])
        if self._exact:
            return Interval(value, value, value)
        beyond = self._beyond(place)
        at_bound = value <= 0 or beyond(0.0) <= 0
        low = 0.0 if at_bound else _border(beyond, 0.0, value, _PRECISION * value)
        return Interval(value, low, _upper(value, max(value, 1e-6), beyond))

    def peak_count(self) -> Interval | None:
        """Where the throughput is highest; None where the figures allow that it has no maximum."""
        _, sigma, kappa = self.best
        if kappa <= 0 or sigma >= 1:
            return None
        value = float(np.sqrt((1 - sigma) / kappa))
        if self._exact:
            return Interval(value, value, value)

        def beyond(count: float) -> float:
            return self._squares(self._fit_with_peak(count)) - self._allowed

        high = _upper(value, value, beyond)
        if high is None or self._beyond(2)(0.0) <= 0:
            return None
        low = 1.0 if beyond(1.0) <= 0 else _border(beyond, 1.0, value, _PRECISION * value)
        return Interval(value, low, high)

    def _beyond(self, place: int) -> Callable[[float], float]:
        """How far the sum of squares is above what is allowed, where one parameter is held."""
        return lambda held: self._squares(self._fit({place: held})) - self._allowed

    def _squares(self, parameters: _Floats) -> float:
        lam, sigma, kappa = parameters
        return float(((self._x - lam * self._n / _slowing(self._n, sigma, kappa)) ** 2).sum())

    def _fit(self, held: Mapping[int, float]) -> _Floats:
        """Least squares, also on each bound: a search in the inside only creeps towards it."""
        free = [place for place in (1, 2) if place not in held]
        on_bounds = [chosen for count in range(len(free) + 1) for chosen in combinations(free, count)]
        fits = [self._fit_inside({**held, **dict.fromkeys(bound, 0.0)}) for bound in on_bounds]
        squares = [self._squares(fit) for fit in fits]
        least = min(squares) * (1 + 1e-9) + 1e-18
        # Of fits that differ by rounding only, the one with the most parameters at their bound.
        as_good = [fit for fit, of_it in zip(fits, squares, strict=True) if of_it <= least]
        return as_good[-1]

    def _fit_inside(self, held: Mapping[int, float]) -> _Floats:
        free = [place for place in (1, 2) if place not in held]

        def whole(values: _Floats) -> _Floats:
            parameters = np.empty(3)
            for place, value in held.items():
                parameters[place] = value
            parameters[free] = values
            shape = self._n / _slowing(self._n, parameters[1], parameters[2])
            # Given the others, the best lambda is linear regression through the origin.
            parameters[0] = held.get(0, float(shape @ self._x / (shape @ shape)))
            return parameters

        return self._searched(whole, np.array([self._start[-2:][place - 1] for place in free]))

    def _fit_with_peak(self, count: float) -> _Floats:
        """The best law whose throughput is highest at `count`: kappa follows from sigma."""

        def whole(values: _Floats) -> _Floats:
            sigma = min(1.0, float(values[0]))
            kappa = (1 - sigma) / count**2
            shape = self._n / _slowing(self._n, sigma, kappa)
            return np.array([float(shape @ self._x / (shape @ shape)), sigma, kappa])

        return self._searched(whole, np.array([min(0.99, self.best[1])]))

    def _searched(self, whole: Callable[[_Floats], _Floats], start: _Floats) -> _Floats:
        if not start.size:
            return whole(start)

        from scipy import optimize  # noqa: PLC0415 (slow to import, and few reports have several processors)

        def residuals(values: _Floats) -> _Floats:
            lam, sigma, kappa = whole(values)
            return np.asarray(lam * self._n / _slowing(self._n, sigma, kappa) - self._x)

        inside = np.maximum(start, 1e-4)
        found = optimize.least_squares(
            residuals, inside, bounds=(0.0, np.inf), x_scale=inside, xtol=1e-11, ftol=1e-11, gtol=1e-11
        )
        return whole(found.x)


def _border(beyond: Callable[[float], float], outside: float, value: float, precision: float) -> float:
    """Between a value that is not allowed and the fitted one. The fitted one itself, where the figures are met so
    closely that the search with the value held ends further off than is allowed: that is rounding.
    """
    if beyond(value) >= 0:
        return value
    from scipy import optimize  # noqa: PLC0415

    return float(optimize.brentq(beyond, outside, value, xtol=precision))


def _upper(value: float, step: float, beyond: Callable[[float], float]) -> float | None:
    for _ in range(_MOST_STEPS):
        if beyond(value + step) > 0:
            return _border(beyond, value + step, value, _PRECISION * step)
        step *= 2
    return None
