"""Decide when silence means that the other side is gone, rather than that one of the two is short of CPU time.

Silence counts once the listener itself has looked often enough to have heard a message, less the time by which its
own looks were late. A speaker that last reported a late look of its own is given more time. So a starved machine is
not taken for a dead one, while a process that is killed, stopped or cut off from a machine with CPU time is still
detected within seconds. `cluster.py` tests whether a machine answers at all.
"""

from __future__ import annotations

from collections import deque

LISTENER_LOOK_S = 0.5
"""Time between two looks of a listener, on both sides."""
LOOKS = 4
"""Looks of a listener before it gives up: anything that arrived while it had no CPU time is heard by then."""
LATE_FOR_S = 5.0
"""How long a late look is remembered."""
PER_LATE = 10.0
LONGEST_S = 15.0
"""The longest silence that is tolerated, however late the speaker was."""


class Silence:
    """The time since the last message. All times are seconds of one monotonic clock."""

    def __init__(self, most_s: float, now_s: float) -> None:
        """Create a silence, which is too long after both `most_s` and `LOOKS` looks of the listener."""
        self._most_s = most_s
        self.heard(now_s)

    def heard(self, now_s: float, late_s: float = 0.0) -> None:
        """Record a message. `late_s` is how late the speaker's own look was recently."""
        self._since_s, self._looks, self._late_s = now_s, 0, late_s

    def quiet_s(self, now_s: float) -> float:
        """Return the time since the last message."""
        return now_s - self._since_s

    def look(self, late_s: float = 0.0) -> None:
        """Record that the listener had CPU time, and could have heard a message.

        `late_s` is by how much it was late itself, which does not count as silence.
        """
        self._looks += 1
        self._since_s += late_s

    def stood_still(self, now_s: float) -> None:
        """Record that the listener itself stood still: its earlier looks say nothing about that time."""
        if self.quiet_s(now_s) < LONGEST_S:
            self._looks = 0

    def is_over(self, now_s: float, *, patient: bool = False) -> bool:
        """Return whether the silence is too long. `patient` gives more time to a speaker that was late."""
        most_s = self._most_s
        if patient:
            most_s = max(most_s, min(most_s + PER_LATE * self._late_s, LONGEST_S))
        return self._looks >= LOOKS and self.quiet_s(now_s) >= most_s


class Lateness:
    """How late one's own looks are. Everything else is as late."""

    def __init__(self, now_s: float) -> None:
        self._due_s = now_s + LISTENER_LOOK_S
        self._late: deque[tuple[float, float]] = deque()

    def look(self, now_s: float) -> float:
        """Record a look, which was due `LISTENER_LOOK_S` after the last one. Return how late it is, in s."""
        late_s = max(0.0, now_s - self._due_s)
        self._late.append((now_s, late_s))
        self._due_s = now_s + LISTENER_LOOK_S
        return late_s

    def lately_s(self, now_s: float) -> float:
        """Return the largest delay of the last few seconds, or that of the look which is due now."""
        while self._late and now_s - self._late[0][0] > LATE_FOR_S:
            self._late.popleft()
        return max([late_s for _, late_s in self._late] + [now_s - self._due_s, 0.0])
