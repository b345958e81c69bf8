"""Decide whether silence means that the peer is gone, rather than short of CPU time.

The listener itself may be short of CPU time, too. So silence counts only after the listener has checked often enough to
have received a message, less the delays of its checks. A peer whose last message reported a late check gets more time.
So a machine without CPU time is not taken for a dead one. A process that was killed, stopped or disconnected is still
detected within seconds if the machines have CPU time. `cluster.py` tests whether a machine answers at all.
"""

from __future__ import annotations

from collections import deque

LISTENER_LOOK_S = 0.5
"""Time between two checks by a listener, on both sides."""
LOOKS = 4
"""Minimum number of checks before a listener gives up.

By then it has received the messages that arrived while it had no CPU time.
"""
LATE_FOR_S = 5.0
"""Time for which the delay of a check counts."""
PER_LATE = 10.0
LONGEST_S = 15.0
"""The longest silence that is tolerated, even if the peer was very late."""


class Silence:
    """Measures the time since the last message. All times are in seconds of one monotonic clock."""

    def __init__(self, most_s: float, now_s: float) -> None:
        """Create the measurement. Silence is too long after `most_s`, but not before `LOOKS` checks by the listener."""
        self._most_s = most_s
        self.heard(now_s)

    def heard(self, now_s: float, late_s: float = 0.0) -> None:
        """Record a message. `late_s` is the recent delay of the peer's own checks."""
        self._since_s, self._looks, self._late_s = now_s, 0, late_s

    def quiet_s(self, now_s: float) -> float:
        """Return the time since the last message."""
        return now_s - self._since_s

    def look(self, late_s: float = 0.0) -> None:
        """Record that the listener had CPU time, and could have received a message.

        `late_s` is the delay of this check, which does not count as silence.
        """
        self._looks += 1
        self._since_s += late_s

    def stood_still(self, now_s: float) -> None:
        """Record that the listener itself was without CPU time. Its earlier checks then don't count."""
        if self.quiet_s(now_s) < LONGEST_S:
            self._looks = 0

    def is_over(self, now_s: float, *, patient: bool = False) -> bool:
        """Return whether the silence is too long. `patient` allows more time for a peer that was late."""
        most_s = self._most_s
        if patient:
            most_s = max(most_s, min(most_s + PER_LATE * self._late_s, LONGEST_S))
        return self._looks >= LOOKS and self.quiet_s(now_s) >= most_s


class Lateness:
    """Measures the delays of this process's own checks, which show whether it gets enough CPU time."""

    def __init__(self, now_s: float) -> None:
        self._due_s = now_s + LISTENER_LOOK_S
        self._late: deque[tuple[float, float]] = deque()

    def look(self, now_s: float) -> float:
        """Record a check, which was due `LISTENER_LOOK_S` after the last one. Return its delay in s."""
        late_s = max(0.0, now_s - self._due_s)
        self._late.append((now_s, late_s))
        self._due_s = now_s + LISTENER_LOOK_S
        return late_s

    def lately_s(self, now_s: float) -> float:
        """Return the largest delay in the last `LATE_FOR_S`, including the delay of a check that is overdue now."""
        while self._late and now_s - self._late[0][0] > LATE_FOR_S:
            self._late.popleft()
        return max([late_s for _, late_s in self._late] + [now_s - self._due_s, 0.0])
