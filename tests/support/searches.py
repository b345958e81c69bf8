"""Searches for a known capacity, and how close they come to it.

`python -m tests.support.searches` prints a table of docs/simulations.md. Nothing is measured: the results of trials are
drawn with a fixed seed, and judged by the rules of `dyno load` and plans.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from serverdyno.analysis import capacity as rules
from serverdyno.analysis.capacity import Estimate, Range, Trial

WITHIN = Range(lowest_per_s=100, highest_per_s=200_000, precision_percent=10.0, most_trials=30)
Server = Callable[[float, np.random.Generator], Callable[[int], bool]]


def searched(within: Range, held: Callable[[int], bool]) -> tuple[Estimate, list[Trial]]:
    """Return the result of a search and its trials; `held` returns whether a trial at a rate holds."""
    trials: list[Trial] = []
    while (rate := rules.next_rate(within, trials)) is not None:
        trials.append(Trial(rate, held(rate)))
    return rules.estimate(within, trials), trials


def queue(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
    """Return an M/M/1 queue with p99 <= 50 ms at `capacity_s`, where the p99 of a trial scatters by a fifth."""
    most_s = capacity_s + math.log(100) / 0.05

    def held(rate: int) -> bool:
        p99_s = math.log(100) / (most_s - rate) if rate < most_s else math.inf
        return bool(p99_s * math.exp(random.normal(0, 0.2)) <= 0.05)

    return held


def power(exponent: float, scatter: float, chance: float = 0.0) -> Server:
    """Return a server whose p99 scatters around a power of the rate; a share `chance` of its trials always fails."""

    def server(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
        def held(rate: int) -> bool:
            p99 = (rate / capacity_s) ** exponent * math.exp(random.normal(0, scatter))
            return bool(p99 <= 1 and random.random() >= chance)

        return held

    return server


def disturbed(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
    """Return an exact server, with one failed trial in twenty at any rate."""
    return lambda rate: rate <= capacity_s and bool(random.random() > 0.05)


SERVERS: dict[str, Server] = {
    "M/M/1, p99 of a trial scatters by 20 %": queue,
    "p99 grows with rate^8, scatters by 20 %, one trial in twenty fails by chance": power(8, 0.2, 0.05),
    "p99 grows with rate^3, scatters by 40 %": power(3, 0.4),
    "p99 grows with the rate, scatters by 20 %": power(1, 0.2),
}


@dataclass(frozen=True)
class Searches:
    """The outcome of many searches.

    `off`: distance of each from the truth as a share, sorted; `covered`: intervals with the truth; `trials`: number of
    each; `highest`: the highest rate tried, over the capacity.
    """

    off: list[float]
    covered: int
    trials: list[int]
    highest: float


def searches(server: Server, count: int, seed: int = 1) -> Searches:
    """Search for capacities from 500/s to 50,000/s."""
    random = np.random.default_rng(seed)
    off, covered, trials, highest = [], 0, [], 0.0
    for capacity_s in np.exp(random.uniform(math.log(500), math.log(50_000), count)):
        found, tried = searched(WITHIN, server(float(capacity_s), random))
        off.append(math.expm1(abs(math.log(found.rate_per_s / capacity_s))))
        covered += (found.low_per_s or 0) <= capacity_s <= (found.high_per_s or math.inf)
        trials.append(len(tried))
        highest = max(highest, *(trial.rate_per_s / capacity_s for trial in tried))
    return Searches(sorted(off), covered, trials, highest)


def table(count: int) -> Iterator[str]:
    yield "| server | within | interval covers | trials |"
    yield "|---|---|---|---|"
    for name, server in SERVERS.items():
        found = searches(server, count)
        within = 100 * float(np.quantile(found.off, 0.95))
        covers = f"{100 * found.covered / count:.0f} %"
        yield f"| {name} | {within:.2g} % | {covers} | {np.mean(found.trials):.0f} |"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        print(line, flush=True)
