"""An objective of open load: the bounds on response time and failed requests.

`p99<50ms` holds if 99 % of all requests got a correct answer within 50 ms. A request that failed, was dropped or got no
answer does not count as correct, so a bound on a percentile also bounds failures; `failed<0.1%` can bound them more
strictly. `<` and `<=` mean the same, because no clock can distinguish them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXPECTED = "expected bounds like p99<50ms or p99<50ms,failed<0.1%"
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,4})?)\s*<=?\s*(\d{1,9}(?:\.\d{1,9})?)\s*(us|ms|s)", re.ASCII)
_FAILED = re.compile(r"failed\s*<=?\s*(\d{1,3}(?:\.\d{1,9})?)\s*%", re.ASCII)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
LOWEST_PERCENTILE = 50.0


@dataclass(frozen=True, slots=True)
class Tail:
    """An upper bound on a percentile of the response time. `name` is the percentile as written: `p99`."""

    name: str
    quantile: float
    limit_ms: float


@dataclass(frozen=True, slots=True)
class Objective:
    """Bounds on percentiles and on the share of failures. Without the latter, only the percentiles bound failures."""

    tails: tuple[Tail, ...]
    failed_share: float | None

    @property
    def words(self) -> str:
        """The objective as text: `p99 ≤ 50 ms and failed ≤ 0.1 %`."""
        parts = [f"{tail.name} ≤ {tail.limit_ms:g} ms" for tail in self.tails]
        if self.failed_share is not None:
            parts.append(f"failed ≤ {self.failed_share * 100:g} %")
        return " and ".join(parts)


def parse_objective(text: str) -> Objective:
    """Return the objective in a text like `p99<50ms,failed<0.1%`. Raises ValueError."""
    tails: dict[str, Tail] = {}
    failed_share = None
    for part in map(str.strip, text.split(",")):
        if match := _QUANTILE.fullmatch(part):
            percent, limit_ms = float(match[1]), float(match[2]) * _MS[match[3]]
            name = f"p{percent:g}"
            if percent < LOWEST_PERCENTILE or limit_ms <= 0 or name in tails:
                raise ValueError(f'"{part}": {_why_not(percent, limit_ms)}')
            tails[name] = Tail(name, percent / 100, limit_ms)
        elif (match := _FAILED.fullmatch(part)) and failed_share is None and float(match[1]) <= 100:
            failed_share = float(match[1]) / 100
        else:
            raise ValueError(f'"{part}" is not a bound; {EXPECTED}')
    if not tails:
        raise ValueError(f"it has no bound on a response time; {EXPECTED}")
    return Objective(tuple(tails.values()), failed_share)


def _why_not(percent: float, limit_ms: float) -> str:
    if percent < LOWEST_PERCENTILE:
        return f"the percentile must be at least {LOWEST_PERCENTILE:g}"
    return "the time must be above zero" if limit_ms <= 0 else "a percentile can have only one bound"
