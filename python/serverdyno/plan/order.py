"""The order in which configurations run, chosen so that drift over time does not favour one of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from serverdyno.plan.model import Configuration, Order, RunKey


def order(
    configurations: Sequence[Configuration], repetitions: int, policy: Order, seed: int
) -> list[RunKey]:
    """Return the runs: every configuration once in every repetition.

    `interleaved` is A B C, C B A, A B C ...: over each pair of repetitions every configuration has the same mean
    position, so that linear drift cancels out. `sequential` is A A, B B, C C and gives no protection against drift.
    `random` shuffles each repetition, in the same way for the same seed.
    """
    names = [configuration.name for configuration in configurations]
    pairs: list[tuple[str, int]]
    if policy == "sequential":
        pairs = [(name, repetition) for name in names for repetition in range(1, repetitions + 1)]
    else:
        shuffler = random.Random(seed)
        pairs = []
        for repetition in range(1, repetitions + 1):
            if policy == "random":
                block = shuffler.sample(names, k=len(names))
            else:
                block = names if repetition % 2 else names[::-1]
            pairs += [(name, repetition) for name in block]
    return [RunKey(number, name, repetition) for number, (name, repetition) in enumerate(pairs, start=1)]
