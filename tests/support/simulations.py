"""Experiments with noise of a known kind, and how often comparisons of them claim a difference.

`python -m tests.support.simulations` prints the table of docs/methods.md. Nothing is measured: throughputs are drawn
with a fixed seed, and go through the functions that reports use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from serverdyno.analysis.comparisons import compare
from serverdyno.analysis.improvement import Metric, Runs, Verdict, improvement
from serverdyno.analysis.precision import half_percent
from serverdyno.analysis.threshold import DEFAULT_FLOOR_PERCENT
from serverdyno.plan.model import FEWEST_UNTIL, Order

MIXES = 16
RUN_NOISE = 0.02
"""Standard deviation of what all mixes of a run share, relative."""
MIX_NOISE = 0.02
"""The same of a mix alone."""
DRIFT = 0.10
"""From the first run of an experiment to the last."""
CORRELATION = 0.7
"""Between what consecutive runs share."""
CLAIMS = frozenset({Verdict.FASTER, Verdict.SLOWER})

Experiment = NDArray[np.float64]  # configurations x repetitions x mixes


class Noise(StrEnum):
    """What makes equal runs differ."""

    NORMAL = "normal"
    HEAVY_TAILS = "heavy tails (Student's t, 3)"
    DRIFT = "normal, and a drift of 10 %"
    AUTOCORRELATED = "autocorrelated runs (0.7)"


@dataclass(frozen=True)
class Design:
    """An experiment: `factors` are the true throughputs of its configurations over that of the first."""

    repetitions: int
    factors: tuple[float, ...] = (1.0, 1.0)
    noise: Noise = Noise.NORMAL
    spreads: tuple[float, ...] = ()
    """Noise of each configuration, over the usual one; empty: 1 each."""
    order: Order = "interleaved"


def curve() -> NDArray[np.float64]:
    """Rises to a plateau of eleven equal mixes: the worst case for whoever reads a peak."""
    return np.asarray(np.minimum(1.0, np.linspace(0.3, 2.4, MIXES)) * 10_000)


def experiments(design: Design, count: int, seed: int) -> Iterator[Experiment]:
    """`count` experiments. The interleaved order is A B C, C B A, A B C ...; a random one is drawn for each."""
    random = np.random.default_rng(seed)
    configurations, repetitions = len(design.factors), design.repetitions
    places = np.arange(configurations * repetitions).reshape(repetitions, configurations)
    if design.order == "interleaved":
        places[1::2] = places[1::2, ::-1]
    spreads = np.asarray(design.spreads or [1.0] * configurations)
    for _ in range(count):
        if design.order == "random":
            places = random.permuted(places, axis=1)
        of_run = _shared(random, design.noise, places.size)[places.T] * spreads[:, None]
        of_mix = _drawn(random, design.noise, (configurations, repetitions, MIXES)) * spreads[:, None, None]
        logs = RUN_NOISE * of_run[..., None] + MIX_NOISE * of_mix
        if design.noise is Noise.DRIFT:
            logs = logs + DRIFT * (places.T / (places.size - 1))[..., None]
        yield curve() * np.asarray(design.factors)[:, None, None] * np.exp(logs)


def _drawn(random: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> NDArray[np.float64]:
    if noise is Noise.HEAVY_TAILS:
        return np.asarray(random.standard_t(3, shape) / np.sqrt(3))
    return random.normal(size=shape)


def _shared(random: np.random.Generator, noise: Noise, runs: int) -> NDArray[np.float64]:
    """What the mixes of each run share, in the order of the runs."""
    drawn = _drawn(random, noise, (runs,))
    if noise is Noise.AUTOCORRELATED:
        for place in range(1, runs):
            drawn[place] = CORRELATION * drawn[place - 1] + np.sqrt(1 - CORRELATION**2) * drawn[place]
    return drawn


def verdicts(experiment: Experiment) -> Mapping[tuple[int, int, Metric], Verdict]:
    """What a report says of every pair of configurations, in each figure."""
    numbers = tuple(range(1, experiment.shape[1] + 1))
    pairs = list(combinations(range(len(experiment)), 2))
    found = compare(
        [Runs(numbers, rows) for rows in experiment], pairs, paired=True, floor_percent=DEFAULT_FLOOR_PERCENT
    )
    return {
        (*pair, each.figure): each.verdict for pair, row in zip(pairs, found, strict=True) for each in row
    }


@dataclass(frozen=True)
class Claims:
    """Shares of experiments. `false`: that claim any difference where there is none, or in the wrong direction;
    `average`, `peak`: of pairs that differ, those whose difference is claimed.
    """

    false: float
    average: float
    peak: float


def claims(design: Design, count: int, seed: int = 1) -> Claims:
    """How often experiments of this design claim what isn't, and what is."""
    false = 0
    true: dict[Metric, list[bool]] = {figure: [] for figure in Metric}
    for experiment in experiments(design, count, seed):
        wrong = False
        for (base, other, figure), verdict in verdicts(experiment).items():
            ratio = design.factors[other] / design.factors[base]
            right = Verdict.FASTER if ratio > 1 else Verdict.SLOWER
            if ratio != 1:
                true[figure].append(verdict is right)
            wrong |= verdict in CLAIMS and (ratio == 1 or verdict is not right)
        false += wrong
    shares = {figure: float(np.mean(found)) if found else float("nan") for figure, found in true.items()}
    return Claims(false / count, shares[Metric.OVERALL_AVERAGE], shares[Metric.PEAK])


def coverage(percent: float, count: int, most: int = 30, seed: int = 1) -> tuple[float, float]:
    """How often the interval holds the truth if two equal servers are repeated until it is narrow, and how many
    repetitions that takes in the mean.
    """
    covered, taken = 0, 0
    for experiment in experiments(Design(most), count, seed):
        for repetitions in range(FEWEST_UNTIL, most + 1, 2):
            numbers = tuple(range(1, repetitions + 1))
            base, other = (Runs(numbers, rows[:repetitions]) for rows in experiment)
            found = improvement(base, other, Metric.OVERALL_AVERAGE, paired=True)
            assert found.low_percent is not None and found.high_percent is not None
            half = half_percent(found.low_percent, found.high_percent)
            if half <= percent or repetitions + 2 > most:
                covered += found.low_percent <= 0 <= found.high_percent
                taken += repetitions
                break
    return covered / count, taken / count


def table(count: int) -> Iterator[str]:
    """The table as Markdown, a line at a time."""
    repetitions = (2, 3, 5, 10)
    yield f"| {count:,} experiments each, shares in % | " + " | ".join(f"n = {n}" for n in repetitions) + " |"
    yield "|---|" + "---:|" * len(repetitions)
    for noise in Noise:
        for equal in (2, 4):
            cells = [_percent(claims(Design(n, (1.0,) * equal, noise), count).false) for n in repetitions]
            yield f"| false claim, {equal} equal, {noise} | " + " | ".join(cells) + " |"
    for equal in (2, 4):
        designs = [Design(n, (1.0,) * equal, Noise.AUTOCORRELATED, order="random") for n in repetitions]
        cells = [_percent(claims(design, count).false) for design in designs]
        yield (
            f'| the same, order = "random", {equal} equal, {Noise.AUTOCORRELATED} | '
            + " | ".join(cells)
            + " |"
        )
    for factors in ((1.0, 0.95), (1.0, 0.9), (1.0, 1.0, 1.0, 0.9)):
        found = [claims(Design(n, factors), count) for n in repetitions]
        cells = [f"{_percent(each.average)}, {_percent(each.peak)}" for each in found]
        what = f"{len(factors)}, one {100 * (1 - factors[-1]):.0f} % slower"
        yield f"| found (average, peak): {what} | " + " | ".join(cells) + " |"
    yield ""
    yield "| `--until` | interval holds the truth, % | repetitions, in the mean |"
    yield "|---|---:|---:|"
    for percent in (1.0, 2.0, 3.0):
        share, taken = coverage(percent, 10 * count)
        yield f"| {percent:g}% | {_percent(share)} | {taken:.0f} |"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.1 or share in (0, 0.05) else f"{100 * share:.1f}"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        print(line, flush=True)
