"""Searches for the capacity of servers whose capacity is known, and how close they come to it.

`python -m tests.support.searches` prints a table of docs/simulations.md. Nothing is measured: whether a trial holds is
drawn with a fixed seed, and goes through the rules that `dyno load` and plans use.
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
    """Return what a search finds, and its trials. `held`: whether a trial at a rate holds."""
    trials: list[Trial] = []
    while (rate := rules.next_rate(within, trials)) is not None:
        trials.append(Trial(rate, held(rate)))
    return rules.estimate(within, trials), trials


def queue(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
    """M/M/1 with p99 <= 50 ms at `capacity_s`; the p99 of a trial scatters by a fifth."""
    most_s = capacity_s + math.log(100) / 0.05

    def held(rate: int) -> bool:
        p99_s = math.log(100) / (most_s - rate) if rate < most_s else math.inf
        return bool(p99_s * math.exp(random.normal(0, 0.2)) <= 0.05)

    return held


def power(exponent: float, scatter: float, chance: float = 0.0) -> Server:
    """p99 grows with a power of the rate and scatters; so large a share of the trials fails whatever their rate."""

    def server(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
        def held(rate: int) -> bool:
            p99 = (rate / capacity_s) ** exponent * math.exp(random.normal(0, scatter))
            return bool(p99 <= 1 and random.random() >= chance)

        return held

    return server


def disturbed(capacity_s: float, random: np.random.Generator) -> Callable[[int], bool]:
    """Exact, but one trial in twenty fails whatever its rate."""
    return lambda rate: rate <= capacity_s and bool(random.random() > 0.05)


SERVERS: dict[str, Server] = {
    "M/M/1, p99 of a trial scatters by 20 %": queue,
    "p99 grows with rate^8, scatters by 20 %, one trial in twenty fails by chance": power(8, 0.2, 0.05),
    "p99 grows with rate^3, scatters by 40 %": power(3, 0.4),
    "p99 grows with the rate, scatters by 20 %": power(1, 0.2),
}


@dataclass(frozen=True)
class Searches:
    """What many searches came to. `off`: of each, the distance from the truth as a share, growing; `covered`: intervals
    that hold the truth; `trials`: of each; `highest`: the highest rate that was tried, over the capacity.
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
    """The table as Markdown, a line at a time."""
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
