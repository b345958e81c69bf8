"""Open load: whether a server kept up, and which share of a response time is the generator's own.

In closed load a slow server gets fewer requests, so the generator can hide throughput. In open load the rate is given,
and the generator can only add to response times. So the hidden speed of open load applies to response times: without
the generator's share g, a server answers 1 / (1 - g) - 1 faster. The idle CPU time of the server bounds the hidden
throughput of closed load, but not the hidden speed of open load.

If a server does not keep up, more and more requests wait, so response times grow with the length of the level.

n connections on which a request takes the time S carry at most n / S requests/s (Little's law). If all connections are
busy, they limit a server that could answer more requests at once. But if S grows with the rate, the server is the
limit.
"""

from __future__ import annotations

import math

BEHIND_SHARE = 0.01
"""Tolerated shortfall of requests that ended in the window, as a share of the requests that arrived in it."""
KEPT_UP_WITHIN = 3.0
"""Tolerated excess of requests under way at the end over those at the beginning, and of arrivals over planned ones, in
standard deviations of a Poisson number of requests."""
LATE_BY_CHANCE = 1.52
"""Backlog that random arrivals alone cause in 1 of 100 windows, in standard deviations of a Poisson number of requests.

If n requests arrive at random in a window, a server that answers n in its length is behind by more than x n^0.5 at the
end with the probability exp(-2 x^2): the largest excess of a Brownian bridge (Smirnov).
"""

ALL_BUSY = 0.9
"""Busy share of the connections' time from which all connections count as busy."""
GROWN = 1.5
"""Factor by which requests take longer than at a lighter load if the server is the limit."""
SPREAD = 3.0
"""Spare connections, in standard deviations of the number of requests under way (a Poisson number)."""


def too_few_connections(busy: float, waited: float, service_ms: float, lighter_ms: float | None) -> bool:
    """Return whether the connections limit a server that did not keep up.

    `busy`: busy share of the connections' time; `waited`: share of the requests that waited for a connection.
    `service_ms`: time of a request on its connection; `lighter_ms`: the same time at a load that the server kept up
    with; None if not known.
    """
    grown = lighter_ms is not None and service_ms > GROWN * lighter_ms
    return busy >= ALL_BUSY and waited >= ALL_BUSY and not grown


def connections_needed(rate_per_s: float, service_ms: float) -> int:
    """Return the number of connections at which hardly any request at this rate waits for one."""
    under_way = rate_per_s * service_ms / 1000
    return math.ceil(under_way + SPREAD * math.sqrt(under_way))


def kept_up(arrived: int, ended: int, dropped: int, connections: int, planned: float | None) -> bool:
    """Return whether the requests that arrived in the window also ended in it, except those under way at its borders.

    `ended` counts successes and failures. `dropped` counts the requests refused because too many waited; a server with
    any did not keep up. `planned`: the mean number of random arrivals, because chance may bring more of them, or many
    just before the end; None: they arrive at even intervals.
    """
    under_way, by_chance = min(connections, KEPT_UP_WITHIN * arrived**0.5), 0.0
    if planned is not None:
        under_way = max(under_way, LATE_BY_CHANCE * arrived**0.5)
        by_chance = min(max(0.0, arrived - planned), KEPT_UP_WITHIN * planned**0.5)
    return dropped == 0 and arrived - ended <= BEHIND_SHARE * arrived + under_way + by_chance


def own_share(
    ready_work_s: float | None,
    run_delay: float,
    response_s: float,
    error_p99: float | None,
    response_p99: float | None,
) -> float | None:
    """Return the generator's largest possible share of response times; None if not measured.

    It is the larger of two shares. For the mean: ready work over the sum of all response times (`response_s`), plus
    the share of the window in which the generator's threads waited for a CPU. For the tail: the 99th percentile of
    the scheduling error over that of the response time.
    """
    if ready_work_s is None or response_s <= 0:
        return None
    shares = [ready_work_s / response_s + run_delay]
    if error_p99 is not None and response_p99:
        shares.append(error_p99 / response_p99)
    return min(1.0, max(shares))
