"""One short load level of a fleet for tests, for any kind of nodes."""

from __future__ import annotations

from typing import Any

from benches.levels import document

from serverdyno import _native
from serverdyno.fleet.fleet import Fleet
from support.dyno_process import PATIENCE_S

CLIENTS, DIGESTED = 7, 20


def level(target: _native.Target, **shape: Any) -> dict[str, Any]:
    """Return a level in which each client repeats its first operations many times."""
    wanted = {"clients": CLIENTS, "length_s": 0.5, "seed": 7, "digest_operations": DIGESTED} | shape
    return document(target, {"name": "webbench-static"}, {}, **wanted)


def carried(fleet: Fleet, told: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a level, which must end."""
    load = fleet.start(told)
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()
