"""Scaling over processors (or any other resource that is added one by one): the gain of each.

**The table** gives, for each number of processors, the throughput as a multiple of the smallest number's, the share of
ideal scaling, and whether scaling was negative: less throughput than with fewer (as in eTesting Labs 2001, figures 7
and 8, where a second processor made a server slower).

**The law** is the Universal Scalability Law, X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)). lambda is the
throughput of one processor, sigma the share of contention (serialised work), and kappa the share of coherency (exchange
between each pair of processors); none is below 0 (N. J. Gunther, Guerrilla Capacity Planning, Springer 2007, chapters 4
to 6; A General Theory of Computational Scalability Based on Rational Functions, 2008, arXiv:0808.1431). It is fitted to
the throughput by least squares, as Gunther and the R package `usl` do; lambda is free, so that a bad measurement of one
processor doesn't spoil all others. If kappa is above 0, the throughput has its maximum at sqrt((1 - sigma) / kappa).

**The intervals** are profile intervals: all values at which the best fit of the other parameters has a sum of squares
that exceeds the least one by at most the factor 1 + t^2 / df (D. M. Bates, D. G. Watts, Nonlinear Regression Analysis
and Its Applications, Wiley 1988, chapter 6). Unlike intervals from a standard error, they stay within the bounds and
can be asymmetric or open (None). They cover noise around the law, but not a wrong law.

**Trust.** A law with three parameters fits nearly anything. With fewer than six counts it isn't fitted. A fit is *poor*
if it explains less than 90 % of the variation (R squared), or misses by more than 5 % of the mean throughput (root mean
square of the residuals). A poor fit predicts nothing. A maximum beyond twice the largest measured count is not
reported. These limits are our choice.
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
"""Largest count that is predicted, as a multiple of the largest one measured."""
_PRECISION = 1e-5  # relative precision of the ends of an interval
_MOST_STEPS = 20  # doublings in the search for the end of an interval

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """The figures of one count. `speed_up` is relative to the smallest count.

    `efficiency` is `speed_up` / (count / smallest count). `change` is the relative change of the throughput from the
    previous count; None for the first. `negative`: `change` is below 0.
    """

    count: int
    throughput: float
    speed_up: float
    efficiency: float
    change: float | None
    negative: bool


class Trouble(StrEnum):
    TOO_FEW = f"fewer than {FEWEST_COUNTS} numbers of CPUs"
    POOR = "the Universal Scalability Law (Gunther 2007) does not describe these figures"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval. An end is None if the data do not bound it."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Law:
    """A fit of the Universal Scalability Law. `trouble` is None if the fit can be used.

    `lam`, `sigma` and `kappa` are its parameters (`lambda` is a Python keyword). `r_squared` is 1 - residual / total
    sum of squares; None if all figures are equal. `relative_error` is the root mean square of the residuals / mean
    figure. `peak_count` is the count of highest throughput. It is None if the data allow no maximum (the interval of
    kappa contains 0), if it lies too far beyond the data, or if there is trouble.
    """

    lam: Interval
    sigma: Interval
    kappa: Interval
    r_squared: float | None
    relative_error: float
    peak_count: Interval | None
    trouble: Trouble | None


def speed_ups(throughput: Mapping[int, float]) -> tuple[Step, ...]:
    """Return the table of throughput by count. Raises ValueError for counts below 1 or throughputs not above 0."""
    if any(count < 1 for count in throughput) or any(not value > 0 for value in throughput.values()):
        raise ValueError("counts must be at least 1, and throughputs above 0")
    counts = sorted(throughput)
    steps = []
    for place, count in enumerate(counts):
        value, smallest = throughput[count], throughput[counts[0]]
        change = value / throughput[counts[place - 1]] - 1 if place else None
        steps.append(
            Step(
                count=count,
                throughput=value,
                speed_up=value / smallest,
                efficiency=(value / smallest) / (count / counts[0]),
                change=change,
                negative=change is not None and change < 0,
            )
        )
    return tuple(steps)


def fit_law(counts: Sequence[float], throughput: Sequence[float]) -> Law | Trouble:
    """Return the law fitted to the throughput at each count; a count may occur several times.

    With fewer than six distinct counts, the result is `TOO_FEW`.

    Raises ValueError for counts below 1 or throughputs not above 0.
    """
    n, x = np.asarray(counts, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    if n.shape != x.shape or (n < 1).any() or not (x > 0).all():
        raise ValueError("counts must be at least 1, throughputs above 0, with one throughput per count")
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
    """The fit of throughputs, scaled so that the largest is 1, with all parameters free or with some held fixed.

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
        # Below this, sums of squares are rounding errors: the fit is exact.
        self._exact = least < 1e-16 * len(x)

    def interval(self, place: int) -> Interval:
        """Return the fitted value of one parameter with its profile interval."""
        value = float(self.best[place])
        if self._exact:
            return Interval(value, value, value)
        beyond = self._beyond(place)
        at_bound = value <= 0 or beyond(0.0) <= 0
        low = 0.0 if at_bound else _border(beyond, 0.0, value, _PRECISION * value)
        return Interval(value, low, _upper(value, max(value, 1e-6), beyond))

    def peak_count(self) -> Interval | None:
        """Return the count of highest throughput; None if the data do not show that there is a maximum."""
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
        """Return a function of one parameter's value: the excess of the sum of squares over the limit."""
        return lambda held: self._squares(self._fit({place: held})) - self._allowed

    def _squares(self, parameters: _Floats) -> float:
        lam, sigma, kappa = parameters
        return float(((self._x - lam * self._n / _slowing(self._n, sigma, kappa)) ** 2).sum())

    def _fit(self, held: Mapping[int, float]) -> _Floats:
        """Return the least-squares fit. Also try each bound, which a search from inside approaches only slowly."""
        free = [place for place in (1, 2) if place not in held]
        on_bounds = [chosen for count in range(len(free) + 1) for chosen in combinations(free, count)]
        fits = [self._fit_inside({**held, **dict.fromkeys(bound, 0.0)}) for bound in on_bounds]
        squares = [self._squares(fit) for fit in fits]
        least = min(squares) * (1 + 1e-9) + 1e-18
        # Among fits that differ only by rounding, take the one with the most parameters at their bound.
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
            # Given the other parameters, linear regression through the origin yields the best lambda.
            parameters[0] = held.get(0, float(shape @ self._x / (shape @ shape)))
            return parameters

        return self._searched(whole, np.array([self._start[-2:][place - 1] for place in free]))

    def _fit_with_peak(self, count: float) -> _Floats:
        """Return the best law whose throughput is highest at `count`; kappa then follows from sigma."""

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
    """Return the end of an interval, between a value outside it and the fitted value.

    It is the fitted value itself if the fit is so close that a rounding error puts that value outside.
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
