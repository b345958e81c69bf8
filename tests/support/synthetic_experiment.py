"""Experiments with chosen figures: records as the store returns them, without measurement.

The same arguments give the same bytes. Histograms are encoded here, independently of the decoder.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serverdyno.plan import expand
from serverdyno.plan.model import (
    Bounds,
    Configuration,
    GeneratorPlan,
    Level,
    Order,
    Plan,
    RunKey,
    ServerPlan,
    Suite,
)
from serverdyno.plan.order import order as order_of
from serverdyno.plan.protocols.http import HttpSettings
from serverdyno.report.source import Source
from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import ClientRow, ErrorRow, LevelRecord, OperationRow, SecondRow

CLIENTS = (1, 8, 16, 24, 32)
CLASSES = {"GET 223.gif": (223, 0.2), "GET 6040.htm": (6040, 0.5), "GET 22132.htm": (22132, 0.3)}
HEAD_BYTES = 200
V2_COOKIE = 0x1C849313


Values = NDArray[np.int64]


def histogram(values_ns: Sequence[int] | Values) -> bytes:
    """Encode values below 2^42 ns as HDR V2 with 3 significant digits (HdrHistogram, "V2 encoding")."""
    values = np.asarray(values_ns, dtype=np.int64)
    buckets = np.maximum(0, np.frexp(values)[1] - 11)
    by_index = np.bincount(buckets * 1024 + (values >> buckets))
    indices = np.flatnonzero(by_index)
    counts = by_index[indices]
    # Each count follows the number of empty buckets before it, as a negative number.
    gaps = np.append(-1, indices[:-1]) + 1 - indices
    rows = np.stack([gaps, counts], axis=1)
    payload = _zigzag(rows[rows != 0])
    head = struct.pack(">iiiiqqd", V2_COOKIE, len(payload), 0, 3, 1, 1 << 42, 1.0)
    return head + payload


def _zigzag(values: Values) -> bytes:
    """Encode by ZigZag, then seven bits per byte, the lowest first; every byte but the last has the eighth bit set."""
    rest = (values << 1) ^ (values >> 63)
    lengths = np.maximum(1, (np.frexp(rest)[1] + 6) // 7)
    places = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), dtype=np.uint8)
    for number in range(int(lengths.max(initial=0))):
        long = lengths > number
        out[places[long] + number] = (rest[long] >> 7 * number & 127) | (lengths[long] > number + 1) * 128
    return out.tobytes()


@dataclass(frozen=True)
class Shape:
    """A server that reaches `peak_s` requests/s at `knee` clients and loses `fall` of it by the last level.

    `waiting`: the share of round trips spent in or for the generator; None: not measured.
    """

    peak_s: float
    knee: int = 16
    fall: float = 0.1
    noise: float = 0.01
    server_cpu_us: float | None = 80.0
    waiting: float | None = 0.001


def throughput_s(shape: Shape, clients: int, most: int) -> float:
    """Return requests per second without noise."""
    if clients <= shape.knee:
        return shape.peak_s * clients / shape.knee * (1.6 - 0.6 * clients / shape.knee)
    return shape.peak_s * (1 - shape.fall * (clients - shape.knee) / (most - shape.knee))


def experiment(
    shapes: Mapping[str, Shape],
    *,
    clients: Sequence[int] = CLIENTS,
    repetitions: int = 3,
    scale: float = 0.02,
    order: Order = "interleaved",
    url: str | None = None,
    max_rate_per_s: float | None = None,
    generator_cpus: Sequence[int] = (0,),
) -> Source:
    """Return a finished experiment of those servers."""
    suite = Suite(
        name="webbench-4.1-static",
        title="WebBench 4.1 static suite",
        source="VeriTest, Windows Server 2003 with IIS 6.0 vs. Linux, 2003, page 18",
        workload="webbench-static",
        clients=list(clients),
        length_s=300,
        ramp_up_s=30,
        ramp_down_s=30,
        sections={"http": HttpSettings(version="1.0", keep_alive=False, receive_buffer_bytes=4096)},
        certainty={"clients": "seen", "http.version": "memory: not confirmed by any source"},
    )
    levels = expand.levels(suite, scale)
    plan = Plan(
        name="three-servers",
        title="Three web servers, static files",
        suites=[suite.name],
        scale=scale,
        repetitions=repetitions,
        order=order,
        generator=GeneratorPlan(cpus=list(generator_cpus)),
        servers=[ServerPlan(server=name.split("-")[0]) for name in shapes],
    )
    bounds = (
        None
        if max_rate_per_s is None
        else Bounds(max_clients=max(clients), max_rate_per_s=max_rate_per_s, max_length_s=300)
    )
    cpus = () if url else (1,)
    configurations = [Configuration(name, name.split("-")[0], {}, cpus, url, bounds) for name in shapes]
    keys = order_of(configurations, repetitions, order, 1)
    head = ExperimentHead(
        tool_version="0.1.0",
        created=datetime(2026, 1, 15, 10, 0, tzinfo=UTC),
        seed=1,
        suites=[suite],
        scale=scale,
        order=keys,
        configurations=configurations,
        levels=levels,
        plan=plan,
    )
    records = [
        record(key, level, shapes[key.configuration], max(clients)) for key in keys for level in levels
    ]
    return Source(head=head, records=records, disclosure=DISCLOSURE)


def open_record(key: RunKey, level: Level, slow_ns: int, late_ns: int) -> LevelRecord:
    """Return a record of a level at its rate, with each request `late_ns` late. 3 % of the responses take `slow_ns`."""
    rate = level.rate_per_s or 0
    plain = record(key, level, Shape(float(rate), knee=64, noise=0.0, fall=0.0), 64)
    quick = plain.operations * 97 // 100
    return replace(
        plain,
        rate_per_s=rate,
        arrivals=plain.operations_total,
        arrivals_in_window=plain.operations,
        dropped=0,
        dropped_in_window=0,
        waited=0,
        waiting_s=0.0,
        overdue_at_end=0,
        response_time_hdr=histogram(np.repeat([1_000_000, slow_ns], [quick, plain.operations - quick])),
        scheduling_error_hdr=histogram(np.full(plain.operations, late_ns)),
    )


@cache
def record(key: RunKey, level: Level, shape: Shape, most: int) -> LevelRecord:
    """Return one level of that server, with consistent counts and response times by Little's law."""
    random = np.random.default_rng([key.number, level.index])
    rate = throughput_s(shape, level.clients, most) * math.exp(random.normal(0, shape.noise))
    operations = int(rate * level.window_s)
    by_operation = _operations(random, operations, level.clients / rate if rate else 0.0)
    times = np.concatenate([values for _, values in by_operation])
    times_hdr = histogram(times)
    shares = [
        operations // level.clients + (place < operations % level.clients) for place in range(level.clients)
    ]
    bodies = sum(row.bytes_read for row, _ in by_operation)
    under_way_s = min(int(times.sum()) / 1e9, level.clients * level.threads * level.window_s)
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
        operations_total=int(rate) * math.ceil(level.length_s),
        bytes_read=bodies,
        bytes_written=0,
        bytes_in=bodies + HEAD_BYTES * operations,
        bytes_out=120 * operations,
        response_time_hdr=times_hdr,
        connect_time_hdr=times_hdr,
        generator_threads=1,
        # Clients wait for the generator only while it works.
        generator_cpu_user_s=max(operations * 8e-6, (shape.waiting or 0.0) * level.window_s),
        generator_cpu_system_s=operations * 9e-6,
        loop_lag_hdr=histogram(np.full(max(1, operations), 20_000)),
        connections=operations,
        reconnects=0,
        source_addresses=1,
        server_cpu_s=None if shape.server_cpu_us is None else operations * shape.server_cpu_us * 1e-6,
        server_rss_bytes=30 * 2**20,
        others_cpu_s=0.01 * level.window_s,
        steal_cpu_s=0.005 * level.window_s,
        outstanding_s=None if shape.waiting is None else under_way_s,
        ready_work_s=None if shape.waiting is None else shape.waiting * under_way_s,
        run_delay_s=None if shape.waiting is None else 0.0,
        by_operation=[row for row, _ in by_operation],
        by_client=[
            ClientRow(place, share, share * 6000, share * 5800, 0, 0, None)
            for place, share in enumerate(shares)
        ],
        by_second=[
            SecondRow(second, int(rate), int(bodies / level.window_s), 0)
            for second in range(math.ceil(level.length_s))
        ],
    )


def _operations(
    random: np.random.Generator, operations: int, mean_s: float
) -> list[tuple[OperationRow, Values]]:
    rows = []
    left = operations
    for place, (name, (size, share)) in enumerate(CLASSES.items()):
        count = left if place == len(CLASSES) - 1 else int(operations * share)
        left -= count
        values = np.maximum(1, random.gamma(2.0, mean_s * 1e9 / 2.0, count)).astype(np.int64)
        rows.append((OperationRow(name, count, count * size, 0, 0, histogram(values)), values))
    return rows


def with_error(record: LevelRecord, side: str, count: int, *, left: int = 0) -> LevelRecord:
    """Return the record with errors of one side, and the first `left` clients gone a second into the level."""
    clients = [
        replace(row, left_at_s=1.0, errors=1) if row.client < left else row for row in record.by_client
    ]
    errors = [*record.errors, ErrorRow(side, "timeout", count, count, "no answer within 30 s")]
    return replace(record, errors=errors, by_client=clients, clients_participating=record.clients - left)


def scaled(record: LevelRecord, share: float) -> LevelRecord:
    """Return the record of a level in which this share of everything was done, by each class and client."""
    by_operation = []
    for row in record.by_operation:
        count = int(row.count * share)
        times = histogram(np.full(count, 1_000_000))
        by_operation.append(replace(row, count=count, bytes_read=count * 1000, response_time_hdr=times))
    operations = sum(row.count for row in by_operation)
    parts = [
        operations // record.clients + (place < operations % record.clients)
        for place in range(record.clients)
    ]
    return replace(
        record,
        operations=operations,
        operations_total=operations,
        bytes_read=operations * 1000,
        bytes_in=operations * 1200,
        response_time_hdr=histogram(np.full(operations, 1_000_000)),
        outstanding_s=None if record.outstanding_s is None else operations / 1e3,
        ready_work_s=None if record.ready_work_s is None else 0.001 * operations / 1e3,
        by_second=[SecondRow(second, operations * (second == 0), 0, 0) for second in range(5)],
        by_operation=by_operation,
        by_client=[replace(row, operations=part) for row, part in zip(record.by_client, parts, strict=True)],
    )


def without_success(record: LevelRecord) -> LevelRecord:
    """Return the record of a level in which every client failed at once."""
    rows = [
        replace(row, count=0, bytes_read=0, response_time_hdr=histogram([])) for row in record.by_operation
    ]
    failed = replace(
        record,
        operations=0,
        operations_total=0,
        by_second=[replace(row, operations=0) for row in record.by_second],
        bytes_read=0,
        bytes_in=0,
        response_time_hdr=histogram([]),
        by_operation=rows,
        by_client=[replace(row, operations=0, bytes_in=0, bytes_read=0) for row in record.by_client],
    )
    return with_error(failed, "network", record.clients, left=record.clients)


DISCLOSURE: dict[str, Any] = {
    "host": {
        "cpu": {"model": "AMD EPYC 7R13", "logical": 2},
        "memory": {"total_bytes": 8_000_000_000},
        "system": {"kernel": "6.1.0-18-amd64"},
        "sysctls": {"net.ipv4.tcp_tw_reuse": "2", "net.core.somaxconn": "4096"},
    },
    "servers": {
        "apache": {
            "server": "apache",
            "version": "Apache/2.4.57",
            "command": ["/usr/sbin/apache2", "-f", "httpd.conf", "-DFOREGROUND"],
            "settings": {"mpm": "event", "access_log": False},
            "files": {"httpd.conf": "ServerRoot /etc/apache2\nListen 127.0.0.1:8080\n" * 30},
            "notes": [],
        }
    },
}
