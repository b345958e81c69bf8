"""When silence means that the other side is gone, and not that one of the two is short of CPU time.

Silence counts once the listener itself has looked often enough to have heard a word, less the time by which its own
looks came late. A speaker whose last word said that its own look came late gets more of it. So a starved machine is
not taken for a dead one, and a process that is killed, stopped or cut off from a machine with CPU time is still
found within seconds. Not for: whether a machine answers at all (`cluster.py`).
"""

from __future__ import annotations

from collections import deque

LISTENER_LOOK_S = 0.5
"""From one look of a listener to its next, on both sides."""
LOOKS = 4
"""So often a listener looks before it gives up: what came while it had no CPU time is heard by then."""
LATE_FOR_S = 5.0
"""For how long a late look is told."""
PER_LATE = 10.0
LONGEST_S = 15.0
"""No silence is borne longer, however late the speaker was."""


class Silence:
    """How long nothing was heard. All times are seconds of one monotonic clock."""

    def __init__(self, most_s: float, now_s: float) -> None:
        """It is too long after `most_s` and `LOOKS` looks of the listener, whichever comes last."""
        self._most_s = most_s
        self.heard(now_s)

    def heard(self, now_s: float, late_s: float = 0.0) -> None:
        """Take note of a word; `late_s`: how late the speaker's own look came lately."""
        self._since_s, self._looks, self._late_s = now_s, 0, late_s

    def quiet_s(self, now_s: float) -> float:
        """How long ago the last word was."""
        return now_s - self._since_s

    def look(self, late_s: float = 0.0) -> None:
        """Take note that the listener had CPU time, and could have heard a word.

        `late_s`: by how much it was late itself, which is no silence.
        """
        self._looks += 1
        self._since_s += late_s

    def stood_still(self, now_s: float) -> None:
        """Take note that the listener itself stood still: its earlier looks say nothing of what came meanwhile."""
        if self.quiet_s(now_s) < LONGEST_S:
            self._looks = 0

    def is_over(self, now_s: float, *, patient: bool = False) -> bool:
        """Say whether it is too long. `patient`: bear more of a speaker that was late."""
        most_s = self._most_s
        if patient:
            most_s = max(most_s, min(most_s + PER_LATE * self._late_s, LONGEST_S))
        return self._looks >= LOOKS and self.quiet_s(now_s) >= most_s


class Lateness:
    """How late one's own looks came: by so much is everything else late, too."""

    def __init__(self, now_s: float) -> None:
        self._due_s = now_s + LISTENER_LOOK_S
        self._late: deque[tuple[float, float]] = deque()

    def look(self, now_s: float) -> float:
        """Take note of a look, which was due `LISTENER_LOOK_S` after the last one; return how late it is."""
        late_s = max(0.0, now_s - self._due_s)
        self._late.append((now_s, late_s))
        self._due_s = now_s + LISTENER_LOOK_S
        return late_s

    def lately_s(self, now_s: float) -> float:
        """The latest look of the last few seconds, or the one that is overdue now."""
        while self._late and now_s - self._late[0][0] > LATE_FOR_S:
            self._late.popleft()
        return max([late_s for _, late_s in self._late] + [now_s - self._due_s, 0.0])
