"""Open load: whether a server kept up with what came, and how much of a response time is the generator's own.

In a closed loop a server that is slow gets fewer requests, and what the generator hides is throughput. In an open one
the rate is given, so nothing of it can be hidden; what the generator may add to is the response time. So the hidden
speed of open load is that of response times: a server without the generator's part g of them answers 1 / (1 - g) - 1
faster. How busy the server's CPUs are bounds throughput and not that.

A server that does not keep up answers what it can, and the rest waits: response times then grow with the length of the
mix.
"""

from __future__ import annotations

BEHIND_SHARE = 0.01
"""Of the requests that came in the window, by which those that ended in it are fewer."""
KEPT_UP_WITHIN = 3.0
"""Standard deviations of the difference by which a server that keeps up may end with more under way than it began with:
that of a Poisson number of requests. A rule of thumb; it widens the share for windows of few requests."""


def kept_up(arrived: int, ended: int, dropped: int, connections: int) -> bool:
    """Return whether what came in the window ended in it, up to what was under way at its borders.

    `ended`: successes and failures; `dropped`: turned away since too many waited, which is not keeping up.
    """
    tolerated: float = BEHIND_SHARE * arrived + min(connections, KEPT_UP_WITHIN * arrived**0.5)
    return dropped == 0 and arrived - ended <= tolerated


def own_share(
    ready_work_s: float | None,
    run_delay: float,
    response_s: float,
    error_p99: float | None,
    response_p99: float | None,
) -> float | None:
    """Return the share of response times that is the generator's own, at most; None: not measured.

    Of the mean, ready work over the sum of all response times (`response_s`), and the share of the window in which the
    generator's threads waited for a CPU; of the tail, the 99th percentile of the scheduling error over that of the
    response time. The larger of the two.
    """
    if ready_work_s is None or response_s <= 0:
        return None
    shares = [ready_work_s / response_s + run_delay]
    if error_p99 is not None and response_p99:
        shares.append(error_p99 / response_p99)
    return min(1.0, max(shares))
