"""Experiments with noise of a known kind, and how often comparisons of them claim a difference.

`python -m tests.support.simulations` prints tables of docs/simulations.md. Nothing is measured: throughputs are drawn
with a fixed seed, and judged by the functions of reports.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.across import BetweenTimes
from serverdyno.analysis.comparability import Conditions
from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Margins, Metric, Runs, Verdict, improvement
from serverdyno.analysis.levels import at_levels
from serverdyno.analysis.pairs import Side, compared
from serverdyno.analysis.precision import half_percent
from serverdyno.plan.model import EQUIVALENCE_PERCENT, FEWEST_UNTIL, Order

LEVELS = 16
NOISE = 0.02
"""Relative standard deviation of the noise that all levels of a run share, and of each level's own."""
IN_ALL = NOISE / math.sqrt(2)
"""The same for a level that varies by 2 % in total."""
DRIFT = 0.10
"""Relative drift from the first run of an experiment to the last."""
CORRELATION = 0.7
"""Correlation of the noise of consecutive runs."""
ODD = 0.7
"""Speed of the odd run relative to the others."""
BETWEEN_TIMES = 0.02
"""Relative standard deviation of the shift that all runs of an experiment share."""
SELFTESTS = 3
MARGINS = Margins(0.0, EQUIVALENCE_PERCENT)
CLAIMS = frozenset({Verdict.FASTER, Verdict.SLOWER})

Experiment = NDArray[np.float64]  # configurations x repetitions x levels


class Noise(StrEnum):
    """The sources of variation between equal runs."""

    NORMAL = "normal"
    HEAVY_TAILS = "heavy tails (Student's t, 3)"
    DRIFT = "normal, and a drift of 10 %"
    AUTOCORRELATED = "autocorrelated runs (0.7)"


@dataclass(frozen=True)
class Design:
    """An experiment; `factors` are the true throughputs of its configurations over that of the first.

    `spreads`: noise of each configuration, relative to the usual one; empty: 1 each. `own`, `shared`: noise of a single
    level, and of all levels of a run. `odd`: one random run of the experiment has 70 % of its speed. `below_plateau`:
    the factors apply only below the plateau, so that all peaks are equal.
    """

    repetitions: int
    factors: tuple[float, ...] = (1.0, 1.0)
    noise: Noise = Noise.NORMAL
    spreads: tuple[float, ...] = ()
    order: Order = "interleaved"
    shared: float = NOISE
    own: float = NOISE
    odd: bool = False
    below_plateau: bool = False


def curve() -> NDArray[np.float64]:
    """Return a rise to a plateau of eleven equal levels: the worst case for reading a peak."""
    return np.asarray(np.minimum(1.0, np.linspace(0.3, 2.4, LEVELS)) * 10_000)


def experiments(design: Design, count: int, seed: int) -> NDArray[np.float64]:
    """Return `count` experiments in the order A B C, C B A, A B C ...; a random order is drawn for each."""
    random = np.random.default_rng(seed)
    configurations, repetitions = len(design.factors), design.repetitions
    runs = configurations * repetitions
    places = np.arange(runs).reshape(repetitions, configurations)
    if design.order == "interleaved":
        places[1::2] = places[1::2, ::-1]
    order = np.broadcast_to(places, (count, repetitions, configurations))
    if design.order == "random":
        order = random.permuted(order, axis=2)
    order = order.transpose(0, 2, 1)
    of_run = _shared(random, design.noise, (count, runs))
    spreads = np.asarray(design.spreads or [1.0] * configurations)[:, None]
    logs = (
        design.shared * spreads * np.take_along_axis(of_run, order.reshape(count, -1), 1).reshape(order.shape)
    )
    if design.noise is Noise.DRIFT:
        logs = logs + DRIFT * order / (runs - 1)
    if design.odd:
        logs.reshape(count, -1)[np.arange(count), random.integers(0, runs, count)] += math.log(ODD)
    of_level = _drawn(random, design.noise, (*order.shape, LEVELS)) * spreads[..., None]
    factors = np.asarray(design.factors)[:, None, None]
    if design.below_plateau:
        factors = np.where(curve() < curve().max(), factors, 1.0)
    return np.asarray(curve() * factors * np.exp(logs[..., None] + design.own * of_level))


def _drawn(random: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if noise is Noise.HEAVY_TAILS:
        return np.asarray(random.standard_t(3, shape) / np.sqrt(3))
    return random.normal(size=shape)


def _shared(random: np.random.Generator, noise: Noise, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return the noise that the levels of each run share, in the order of the runs."""
    drawn = _drawn(random, noise, shape)
    if noise is Noise.AUTOCORRELATED:
        for place in range(1, shape[1]):
            drawn[:, place] = (
                CORRELATION * drawn[:, place - 1] + np.sqrt(1 - CORRELATION**2) * drawn[:, place]
            )
    return drawn


def runs_of(rows: NDArray[np.float64]) -> Runs:
    """Return repetitions x levels as the runs of a configuration."""
    return Runs(tuple(range(1, len(rows) + 1)), rows)


def verdicts(experiment: Experiment) -> Mapping[tuple[int, int, Metric], Verdict]:
    """Return a report's verdict on every pair of configurations, for each figure."""
    pairs = list(combinations(range(len(experiment)), 2))
    found = compare([runs_of(rows) for rows in experiment], pairs, paired=True, margins=MARGINS)
    return {
        (*pair, each.figure): each.verdict for pair, row in zip(pairs, found, strict=True) for each in row
    }


@dataclass(frozen=True)
class Claims:
    """Shares of experiments or of pairs.

    `false`: those that claim a nonexistent difference, or one in the wrong direction; `average`, `peak`: pairs that
    differ and are found to differ.
    """

    false: float
    average: float
    peak: float


def claims(design: Design, count: int, seed: int = 1) -> Claims:
    """Return how often experiments of this design make false claims, and how often they find true differences."""
    false = 0
    true: dict[Metric, list[bool]] = {figure: [] for figure in Metric}
    for experiment in experiments(design, count, seed):
        wrong = False
        for (base, other, figure), verdict in verdicts(experiment).items():
            ratio = design.factors[other] / design.factors[base]
            if design.below_plateau and figure is Metric.PEAK:
                ratio = 1.0
            right = Verdict.FASTER if ratio > 1 else Verdict.SLOWER
            if ratio != 1:
                true[figure].append(verdict is right)
            wrong |= verdict in CLAIMS and (ratio == 1 or verdict is not right)
        false += wrong
    shares = {figure: float(np.mean(found)) if found else float("nan") for figure, found in true.items()}
    return Claims(false / count, shares[Metric.OVERALL_AVERAGE], shares[Metric.PEAK])


def across_times(repetitions: int, count: int, seed: int = 1) -> float:
    """Return how often equal experiments at different times differ by verdict, after three other self-tests."""
    random = np.random.default_rng(seed)
    false = 0
    for experiment in experiments(Design(repetitions), count, seed):
        shifts = BETWEEN_TIMES * random.normal(size=2 + SELFTESTS)
        pair = zip("ab", experiment, shifts[:2], strict=True)
        sides = [_side(name, rows * math.exp(shift)) for name, rows, shift in pair]
        known = BetweenTimes(math.expm1(float(shifts[2:].std(ddof=1))) * 100, SELFTESTS)
        [comparison] = compared([(sides[0], sides[1])], paired=False, between=known.error)
        false += any(found.verdict in CLAIMS for found in comparison.improvements)
    return false / count


def _side(name: str, rows: NDArray[np.float64]) -> Side:
    conditions = Conditions(name, left_share=0.0, failed_share=0.0, slowed=0.0, operations={"GET": 1000})
    return Side(name, runs_of(rows), (), frozenset(), None, lambda _: conditions)


def at_equal_load(design: Design, count: int, seed: int = 1) -> float:
    """Return how often a difference between equal configurations is claimed at any load level."""
    false = 0
    for experiment in experiments(design, count, seed):
        sides = [_side(f"{place}", rows) for place, rows in enumerate(experiment)]
        found = at_levels(list(combinations(sides, 2)), paired=True)
        false += any(level.proven for of_pair in found for level in of_pair)
    return false / count


def coverage(percent: float, count: int, most: int = 30, seed: int = 1) -> tuple[float, float]:
    """Return how often the interval contains the truth, and the mean number of repetitions.

    Two equal servers are repeated until the interval is narrow.
    """
    covered, taken = 0, 0
    for experiment in experiments(Design(most), count, seed):
        for repetitions in range(FEWEST_UNTIL, most + 1, 2):
            base, other = (runs_of(rows[:repetitions]) for rows in experiment)
            found = improvement(base, other, Metric.OVERALL_AVERAGE, paired=True)
            assert found.low_percent is not None and found.high_percent is not None
            if half_percent(found.low_percent, found.high_percent) <= percent or repetitions + 2 > most:
                covered += found.low_percent <= 0 <= found.high_percent
                taken += repetitions
                break
    return covered / count, taken / count


REPETITIONS = (3, 4, 6, 10)


def false_claims(count: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the rows of equal servers: a name, and a share for each number of repetitions."""
    equal: dict[str, Design] = {
        f"{servers} equal, {noise}": Design(3, (1.0,) * servers, noise)
        for servers in (2, 4)
        for noise in Noise
    }
    equal[f"8 equal, {Noise.AUTOCORRELATED}"] = Design(3, (1.0,) * 8, Noise.AUTOCORRELATED)
    autocorrelated = f"4 equal, {Noise.AUTOCORRELATED}"
    equal[f'{autocorrelated}, order = "random"'] = replace(equal[autocorrelated], order="random")
    equal["2 equal, one run of all at 70 %"] = Design(3, odd=True)
    equal["2 equal, one three times as noisy"] = Design(3, spreads=(3.0, 1.0))
    equal["equal peaks, one 20 % slower below the plateau"] = Design(3, (1.0, 0.8), below_plateau=True)
    for name, design in equal.items():
        yield name, [claims(replace(design, repetitions=n), count).false for n in REPETITIONS]
    yield "2 equal, at any of 16 load levels", [at_equal_load(Design(n), count) for n in REPETITIONS]
    yield "2 equal, two experiments, three self-tests", [across_times(n, count) for n in REPETITIONS]


def found_claims(count: int) -> Iterator[tuple[str, list[Claims]]]:
    """Yield the rows of servers that differ."""
    less = replace(Design(3, (1.0, 0.95)), shared=IN_ALL, own=IN_ALL)
    unequal = {
        "2, one 5 % slower, CV 2 %": less,
        "the same, one run of all at 70 %, CV 2 %": replace(less, odd=True),
        "2, one 5 % slower, 2 % + 2 %": Design(3, (1.0, 0.95)),
        "the same, one run of all at 70 %, 2 % + 2 %": Design(3, (1.0, 0.95), odd=True),
        "2, one 10 % slower, 2 % + 2 %": Design(3, (1.0, 0.9)),
        "4, one 10 % slower, 2 % + 2 %": Design(3, (1.0, 1.0, 1.0, 0.9)),
    }
    for name, design in unequal.items():
        yield name, [claims(replace(design, repetitions=n), count) for n in REPETITIONS]


def tables(count: int) -> Iterator[str]:
    heads = " | ".join(f"n = {n}" for n in REPETITIONS)
    yield f"| false claims, % of {count:,} experiments | {heads} |"
    yield "|---|" + "---:|" * len(REPETITIONS)
    for name, shares in false_claims(count):
        yield f"| {name} | " + " | ".join(map(_percent, shares)) + " |"
    yield ""
    yield f"| found (average, peak), % of {count:,} experiments | {heads} |"
    yield "|---|" + "---:|" * len(REPETITIONS)
    for name, found in found_claims(count):
        cells = [f"{_percent(each.average)}, {_percent(each.peak)}" for each in found]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    yield "| `--until` | interval holds the truth, % | repetitions, in the mean |"
    yield "|---|---:|---:|"
    for percent in (1.0, 2.0, 3.0):
        share, taken = coverage(percent, count)
        yield f"| {percent:g}% | {_percent(share)} | {taken:.0f} |"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.1 or share in (0, 0.05) else f"{100 * share:.1f}"


if __name__ == "__main__":
    for line in tables(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        print(line, flush=True)
