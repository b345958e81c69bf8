"""The document that describes a level to the data plane; `crates/engine/src/spec.rs` defines and checks it.

Secrets and the load file are sent separately, and no record contains them.
"""

from __future__ import annotations

import secrets
from typing import Any

from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan import protocols
from serverdyno.plan.model import Level, Suite

VERSION = 1
NONCE_BITS = 64


def level_document(level: Level, setup: LoadSetup, seed: int) -> dict[str, Any]:
    """Return the document of one level, with a new nonce."""
    suite, generator = setup.suite, setup.generator
    protocol, work, settings = protocols.of(setup.target.protocol), suite.work, suite.settings(suite.work)
    return {
        "version": VERSION,
        "protocol": protocol.name,
        "target": setup.target.section,
        "workload": work.workload_section(suite.workload, settings),
        "client": {
            **protocol.client_section(suite.settings(protocol)),
            **work.client_section(settings, last_level=level.last),
        },
        "clients": level.clients,
        "threads": level.threads,
        "arrival": _arrival(level, suite),
        "max_rate_per_s": setup.bounds.max_rate_per_s if setup.bounds else None,
        "operations": level.operations,
        "window": {
            "length_s": level.length_s,
            "ramp_up_s": level.ramp_up_s,
            "ramp_down_s": level.ramp_down_s,
        },
        "delay_s": level.delay_s,
        "timeout_s": suite.timeout_s,
        "leave_after_errors": suite.leave_after_errors,
        "verify_share": generator.verify_share,
        "seed": seed,
        "nonce": secrets.randbits(NONCE_BITS),
        "engine": {"threads": generator.threads, "cpus": list(setup.cpus)},
    }


def _arrival(level: Level, suite: Suite) -> dict[str, Any]:
    if level.rate_per_s is not None and suite.open is not None:
        return {
            "kind": "open",
            "rate_per_s": level.rate_per_s,
            "law": suite.open.law,
            "queue": suite.open.queue,
        }
    pace = suite.work.operations_per_client_s(suite.settings(suite.work))
    if pace is None:
        return {"kind": "closed", "think_time_s": level.think_time_s}
    return {"kind": "paced", "interval_s": 1 / pace}
