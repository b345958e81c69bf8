"""Experiments with file servers and chosen figures: records as the store returns them.

Like `synthetic_experiment` for web servers, it is deterministic, and its counts are consistent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np

from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, GeneratorPlan, Level, Plan, RunKey, ServerPlan, Suite
from serverdyno.plan.order import order as order_of
from serverdyno.report.source import Source
from serverdyno.store.head import ExperimentHead
from serverdyno.store.note import RunNote
from serverdyno.store.records import (
    CallRow,
    ClientRow,
    ErrorRow,
    LevelRecord,
    OperationRow,
    RequestRow,
    SecondRow,
    SyncRow,
)
from support.synthetic_experiment import histogram

OPERATIONS = {"open": 0.2, "read": 0.4, "write": 0.3, "flush": 0.05, "close": 0.05}
READ_BYTES, WRITTEN_BYTES = 16_384, 8_192
OPERATIONS_A_PASS = 500

SUITE = Suite(
    name="quick-files",
    title="Quick disk mix",
    source="Serverdyno",
    workload="diskmix",
    clients=[1, 2, 4, 8, 16],
    length_s=5,
    ramp_up_s=0.5,
    ramp_down_s=0.5,
    certainty={"clients": "choice: ours"},
)


UNSIGNED: dict[str, Any] = {
    "dialect": "3.1.1",
    "signing": None,
    "encryption": None,
    "guest": False,
    "max_read_bytes": 2**20,
    "max_write_bytes": 2**20,
    "leases": True,
    "directory_leases": False,
    "clients": sum(SUITE.clients),
}
CLIENT_CACHE: dict[str, Any] = {
    "asks_for": "leases",
    "redirector": "plain",
    "most_bytes": 8 * 2**20,
    "page_bytes": 4096,
    "read_run_bytes": 2**20,
    "write_run_bytes": 2**20,
    "read_ahead_bytes": 2**20,
    "most_deferred": 45,
    "deferred_age_s": 10.0,
}


@dataclass(frozen=True)
class FileShape:
    """A server that moves `mbit_s` at `knee` clients and loses `fall` of it by the last level.

    `syncs_a_flush` None: not counted. `sessions`: negotiated parameters, as in a run's note. `settings`: the
    configuration's settings.
    """

    mbit_s: float
    knee: int = 4
    fall: float = 0.1
    noise: float = 0.01
    syncs_a_flush: float | None = 1.0
    sessions: tuple[dict[str, Any], ...] = (UNSIGNED,)
    settings: tuple[tuple[str, Any], ...] = ()
    layers: tuple[tuple[str, str], ...] = (("ext4", "rw,relatime"),)
    write_cache: str | None = "write back"
    unfollowed: str = ""
    at_once: bool | None = False
    witnesses: tuple[int, int] | None = None
    preloaded: tuple[str, ...] = ()
    disk_after_ms: float = 4.4


def experiment(shapes: Mapping[str, FileShape], *, repetitions: int = 3) -> Source:
    """Return a finished experiment of those servers."""
    suite = SUITE
    levels = expand.levels(suite, 1.0)
    plan = Plan(
        name="two-samba",
        title="Samba with strict sync and without",
        suites=[suite.name],
        repetitions=repetitions,
        generator=GeneratorPlan(cpus=[0]),
        servers=[ServerPlan(server="samba", name=name) for name in shapes],
    )
    configurations = [
        Configuration(name, "samba", dict(shape.settings), (1,), None, None) for name, shape in shapes.items()
    ]
    keys = order_of(configurations, repetitions, "interleaved", 1)
    head = ExperimentHead(
        tool_version="0.1.0",
        created=datetime(2026, 1, 15, 10, 0, tzinfo=UTC),
        seed=1,
        suites=[suite],
        scale=1.0,
        order=keys,
        configurations=configurations,
        levels=levels,
        plan=plan,
    )
    records = [
        _record(
            key, level, _mbit_s(shape, level.clients, levels[-1].clients), shape.noise, shape.syncs_a_flush
        )
        for key in keys
        for level in levels
        for shape in [shapes[key.configuration]]
    ]
    notes = {key.number: _note(shapes[key.configuration]) for key in keys}
    return Source(head=head, records=records, disclosure=DISCLOSURE, run_notes=notes)


def _note(shape: FileShape) -> RunNote:
    known = shape.syncs_a_flush is not None
    noted = {
        "state": "done",
        "sessions": list(shape.sessions),
        "client_cache": CLIENT_CACHE,
        "disk_fsync_ms": {"count": 50.0, "p50": 4.2, "p99": 9.0, "max": 11.0},
        "disk_fsync_after_ms": {"count": 50.0, "p50": shape.disk_after_ms, "p99": 9.0, "max": 11.0},
        "syncs_unknown_because": None if known else "counting needs root",
        "media": [_layers(shape)] if shape.layers else [],
        "synchronous": [shape.at_once],
        "preloaded": list(shape.preloaded),
        "syncs_by_kernel": shape.witnesses[0] if shape.witnesses else None,
        "syncs_by_server": shape.witnesses[1] if shape.witnesses else None,
    }
    return RunNote.model_validate(noted)


def _layers(shape: FileShape) -> list[dict[str, Any]]:
    """Return the layers below the volume: all but the last are on a loop device, and an overlay on none."""
    found = [_layer(*layer, "loop0", "write back") for layer in shape.layers[:-1]]
    last = _layer(*shape.layers[-1], "vda1", shape.write_cache)
    return [*found, {**last, "unfollowed": shape.unfollowed}]


def _layer(file_system: str, options: str, device: str, write_cache: str | None) -> dict[str, Any]:
    devices = [] if file_system == "overlay" else [{"name": device, "write_cache": write_cache}]
    return {"file_system": file_system, "options": options.split(","), "device": device, "devices": devices}


def _mbit_s(shape: FileShape, clients: int, most: int) -> float:
    if clients <= shape.knee:
        return shape.mbit_s * clients / shape.knee * (1.6 - 0.6 * clients / shape.knee)
    return shape.mbit_s * (1 - shape.fall * (clients - shape.knee) / (most - shape.knee))


@cache
def _record(
    key: RunKey, level: Level, mbit_s: float, noise: float, syncs_a_flush: float | None
) -> LevelRecord:
    random = np.random.default_rng([key.number, level.index])
    moved = mbit_s * math.exp(random.normal(0, noise)) * 1e6 / 8 * level.window_s
    a_hundred = 40 * READ_BYTES + 30 * WRITTEN_BYTES
    each = int(moved / a_hundred * 100 / level.clients)
    clients = [_client(place, each + (place % 3)) for place in range(level.clients)]
    by_operation = _operations(random, clients, level)
    operations = sum(row.count for row, _ in by_operation)
    flushes = next(row.count for row, _ in by_operation if row.operation == "flush")
    known = syncs_a_flush is not None
    syncs = [SyncRow("fsync", round(flushes * (syncs_a_flush or 0.0)))] if known else []
    return LevelRecord(
        run=key.number,
        configuration=key.configuration,
        repetition=key.repetition,
        level=level.index,
        name=level.name,
        clients=level.clients,
        threads=level.threads,
        clients_participating=level.clients,
        length_s=level.length_s,
        ramp_up_s=level.ramp_up_s,
        ramp_down_s=level.ramp_down_s,
        window_s=level.window_s,
        started_unix_s=1_768_000_000.0 + 1000 * key.number + 10 * level.index,
        stopped=False,
        operations=operations,
        operations_total=operations,
        bytes_read=sum(row.bytes_read or 0 for row in clients),
        bytes_written=sum(row.bytes_written for row in clients),
        bytes_in=sum(row.bytes_in for row in clients),
        bytes_out=sum(row.bytes_written for row in clients) + 100 * operations,
        response_time_hdr=histogram([value for _, values in by_operation for value in values]),
        connect_time_hdr=histogram([1_500_000] * level.clients),
        generator_threads=1,
        generator_cpu_user_s=operations * 8e-6,
        generator_cpu_system_s=operations * 9e-6,
        loop_lag_hdr=histogram(np.full(max(1, operations), 20_000)),
        connections=level.clients,
        reconnects=0,
        source_addresses=1,
        server_cpu_s=operations * 60e-6,
        server_rss_bytes=30 * 2**20,
        others_cpu_s=0.01 * level.window_s,
        steal_cpu_s=0.005 * level.window_s,
        passes=operations // OPERATIONS_A_PASS,
        bytes_checked=sum(row.bytes_read or 0 for row in clients),
        by_operation=[row for row, _ in by_operation],
        by_client=clients,
        by_second=[
            SecondRow(second, operations // 5 + (second < operations % 5), 0, 0) for second in range(5)
        ],
        calls=[
            CallRow("create", operations // 5, operations // 50, 0, 0),
            CallRow("read", operations // 10, 0, 0, 0),
        ],
        requests=[RequestRow("CREATE", operations // 5), RequestRow("READ", operations // 10)],
        syncs_known=known,
        syncs=syncs,
    )


def _client(place: int, operations: int) -> ClientRow:
    read, written = _share(operations, "read") * READ_BYTES, _share(operations, "write") * WRITTEN_BYTES
    return ClientRow(place, operations, read + 90 * operations, read, written, 0, None)


def _share(operations: int, name: str) -> int:
    """Return the operations of one class among a client's; opens get the rounding remainder."""
    if name == "open":
        return operations - sum(_share(operations, other) for other in OPERATIONS if other != "open")
    return int(operations * OPERATIONS[name])


def _operations(
    random: np.random.Generator, clients: Sequence[ClientRow], level: Level
) -> list[tuple[OperationRow, list[int]]]:
    mean_ns = level.clients * level.window_s * 1e9 / max(1, sum(row.operations for row in clients))
    rows = []
    for name in OPERATIONS:
        count = sum(_share(row.operations, name) for row in clients)
        slow = 4.0 if name == "flush" else 0.85
        values = np.maximum(1, random.gamma(2.0, slow * mean_ns / 2, count)).astype(int).tolist()
        read = count * READ_BYTES if name == "read" else 0
        written = count * WRITTEN_BYTES if name == "write" else 0
        rows.append((OperationRow(name, count, read, written, 0, histogram(values)), values))
    return rows


def without_clients(record: LevelRecord, left: int) -> LevelRecord:
    """Return the record with the first `left` clients gone a second into the level, each with an error."""
    clients = [
        replace(row, left_at_s=1.0, errors=1) if row.client < left else row for row in record.by_client
    ]
    errors = [*record.errors, ErrorRow("server", "smb_status", left, left, "STATUS_ACCESS_DENIED")]
    return replace(record, by_client=clients, errors=errors, clients_participating=record.clients - left)


DISCLOSURE: dict[str, Any] = {
    "host": {"cpu": {"model": "AMD EPYC 7R13", "logical": 2}, "system": {"kernel": "6.1.0-18-amd64"}},
    "servers": {
        "samba-strict": {
            "server": "samba",
            "version": "4.17.12-Debian",
            "command": ["/usr/sbin/smbd", "--foreground"],
            "files": {"smb.conf": "[global]\nstrict sync = yes\n" * 3},
        }
    },
}
