"""A file job without a leader: each gate opens once all clients have reached it."""

from __future__ import annotations

import json
from typing import Any

from serverdyno import _native
from serverdyno.servers import waiting

TICK_S = 0.05


def carried_out_alone(
    target: _native.Target, task: dict[str, object], most_s: float, *, timeout_s: float | None = None
) -> list[dict[str, Any]]:
    """Return the counts of each level. Raises AnswerError. `timeout_s`: timeout of each call; None: `most_s`."""
    job = {
        "task": task,
        "most_ns": int(most_s * 1e9),
        "timeout_ns": int((timeout_s or most_s) * 1e9),
        "max_rate_per_s": None,
        "nonce": 7,
        "is_led": False,
    }
    running = _native.Job.start(target, json.dumps(job))
    while not running.wait_for_end(TICK_S):
        waiting.look()
    return [level for level in _native.merge_levels([running.tallies()]) if level is not None]
