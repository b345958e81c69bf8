"""One short mix of a fleet for tests, whatever its nodes are."""

from __future__ import annotations

from typing import Any

from benches.mixes import document

from serverdyno import _native
from serverdyno.fleet.fleet import Fleet
from support.dyno_process import PATIENCE_S

CLIENTS, DIGESTED = 7, 20


def mix(target: _native.Target, **shape: Any) -> dict[str, Any]:
    """Of every client its first operations, many times over."""
    wanted = {"clients": CLIENTS, "length_s": 0.5, "seed": 7, "digest_operations": DIGESTED} | shape
    return document(target, {"name": "webbench-static"}, {}, **wanted)


def carried(fleet: Fleet, told: dict[str, Any]) -> dict[str, Any]:
    """The result of a mix that has to end."""
    load = fleet.start(told)
    assert load.wait(PATIENCE_S), "the mix does not end"
    return load.result()
