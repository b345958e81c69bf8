"""The document that tells the data plane what a mix is; `crates/engine/src/spec.rs` defines and checks it.

Not for: the secrets and the load file, which travel beside it and stand in no record.
"""

from __future__ import annotations

import secrets
from typing import Any

from serverdyno.fleet.task import Task
from serverdyno.plan.model import Mix, Suite
from serverdyno.protocols.files import FILES
from serverdyno.protocols.http import HTTP

VERSION = 1
NONCE_BITS = 64


def mix_document(mix: Mix, task: Task, seed: int) -> dict[str, Any]:
    """Return the document of one mix, under a nonce of its own."""
    suite, generator = task.suite, task.generator
    sections = {"http": _web_sections, "smb": _files_sections}[task.target.protocol](suite, mix)
    return {
        "version": VERSION,
        "protocol": task.target.protocol,
        "target": task.target.section,
        **sections,
        "clients": mix.clients,
        "threads": mix.threads,
        "arrival": _arrival(mix, suite),
        "max_rate_per_s": task.bounds.max_rate_per_s if task.bounds else None,
        "window": {"length_s": mix.length_s, "ramp_up_s": mix.ramp_up_s, "ramp_down_s": mix.ramp_down_s},
        "delay_s": mix.delay_s,
        "timeout_s": suite.timeout_s,
        "leave_after_errors": suite.leave_after_errors,
        "verify_share": generator.verify_share,
        "seed": seed,
        "nonce": secrets.randbits(NONCE_BITS),
        "engine": {"threads": generator.threads, "cpus": list(task.cpus)},
    }


def _arrival(mix: Mix, suite: Suite) -> dict[str, Any]:
    pace = suite.settings(FILES).operations_per_client_s
    if pace is None:
        return {"kind": "closed", "think_time_s": mix.think_time_s}
    return {"kind": "paced", "interval_s": 1 / pace}


def _web_sections(suite: Suite, mix: Mix) -> dict[str, Any]:
    del mix
    return {"workload": {"name": suite.workload}, "client": suite.settings(HTTP).model_dump()}


def _files_sections(suite: Suite, mix: Mix) -> dict[str, Any]:
    files = suite.settings(FILES)
    workload: dict[str, Any] = {"name": suite.workload}
    if suite.workload == "diskmix":
        workload |= files.model_dump(include={"workspace_bytes", "legacy_seed_reads", "true_offsets"})
    client = files.model_dump(include={"cache", "redirector", "dormant_files", "dormant_s"})
    return {
        "workload": workload,
        "client": client | {"keep_workspace": files.save_workspace and not mix.last},
    }
