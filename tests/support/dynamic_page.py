"""Load levels of the dynamic workload."""

from __future__ import annotations

import json
from typing import Any

from benches.levels import document, http_target

from serverdyno import _native
from serverdyno.plan.protocols.http import HTTP, HttpSettings
from support.dyno_process import PATIENCE_S

BOTH = {"tls": "ecdsa-p256", "also_clear": True}


SHORT = {"clients": 2, "length_s": 1.0, "ramp_up_s": 0.0, "ramp_down_s": 0.0, "timeout_s": 20.0}


def loaded(
    server: Any,
    *,
    keep_alive: bool = True,
    shares: dict[str, float],
    speaks: dict[str, Any] | None = None,
    **level: Any,
) -> dict[str, Any]:
    """Run one level of the dynamic workload to its end."""
    section = HTTP.target_section(server.access(), HttpSettings())
    target = http_target(**section)
    workload = {"name": "webbench-dynamic", "dynamic_share": 0.5, **shares}
    client = {"version": "1.1", "keep_alive": keep_alive} | (speaks or {})
    text = json.dumps(document(target, workload, client, **(SHORT | {"seed": 1} | level)))
    load = _native.prepare(text, target).start()
    assert load.wait(PATIENCE_S), "the level does not end"
    return load.result()


def counts(result: dict[str, Any]) -> dict[str, int]:
    """Return the successes by kind of request: `static`, `dynamic`, and both over TLS."""
    found: dict[str, int] = {}
    for row in result["by_operation"]:
        kind = "dynamic" if row["operation"].startswith("GET dynamic") else "static"
        name = kind + (" over TLS" if row["operation"].endswith(" over TLS") else "")
        found[name] = found.get(name, 0) + row["count"]
    return found
