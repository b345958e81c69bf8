"""Heads and records of experiments with every field set."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from serverdyno.plan.model import Configuration, Level, Plan, RunKey, ServerPlan
from serverdyno.plan.order import order
from serverdyno.plan.suites import load
from serverdyno.store.head import ExperimentHead
from serverdyno.store.records import (
    ClientRow,
    ErrorRow,
    LevelRecord,
    NodeRow,
    OperationRow,
    SecondRow,
)
from support.synthetic_experiment import histogram

PLAN_TEXT = '# the plan, with its comments\nname = "p"\n'


CONFIGURATIONS = [
    Configuration(name, "nginx", {"workers": 2, "access_log": False}, (1,), None, None) for name in ("a", "b")
]


TIMES = histogram([1_000_000, 2_000_000, 3_000_000])


LEVELS = [Level(index, f"{index}_client", index, 1, 6.0, 0.6, 0.6, 0.0, 0.0) for index in (1, 2, 3)]


NODE = NodeRow(
    node="node a",
    clients=1,
    operations=1,
    operations_total=1,
    bytes_in=1,
    bytes_out=1,
    errors=0,
    generator_threads=1,
    generator_cpu_s=0.1,
    generator_busiest_cpu_s=0.1,
    ready_work_s=0.0,
    outstanding_s=1.0,
    run_delay_s=None,
    others_cpu_s=None,
    steal_cpu_s=None,
    cpus=None,
    clock_offset_s=0.0,
    clock_error_s=0.001,
    start_late_s=0.0,
)


def make_head(repetitions: int = 2) -> ExperimentHead:
    return ExperimentHead(
        tool_version="0.1.0",
        created=datetime(2026, 11, 20, 12, tzinfo=UTC),
        seed=7,
        scale=0.5,
        plan=Plan(name="p", title="t", suite="quick-static", servers=[ServerPlan(server="nginx")]),
        suites=[load("webbench-4.1-static-120-10t-15t")],
        configurations=CONFIGURATIONS,
        levels=LEVELS,
        order=order(CONFIGURATIONS, repetitions, "interleaved", seed=7),
    )


def make_record(run: RunKey, level: int, *, stopped: bool = False, **changes: Any) -> LevelRecord:
    record = LevelRecord(
        run=run.number,
        configuration=run.configuration,
        repetition=run.repetition,
        level=level,
        name=f"{level}_client",
        clients=level,
        threads=1,
        clients_participating=level,
        length_s=6.0,
        ramp_up_s=0.6,
        ramp_down_s=0.6,
        window_s=4.8,
        started_unix_s=1.7e9 + run.number,
        stopped=stopped,
        operations=2**40 + level,
        operations_total=2**41,
        bytes_read=2**50,
        bytes_written=2**49,
        bytes_in=2**50 + 1,
        bytes_out=5,
        response_time_hdr=TIMES,
        connect_time_hdr=b"",
        generator_threads=1,
        generator_cpu_user_s=0.1,
        generator_cpu_system_s=0.2,
        loop_lag_hdr=TIMES,
        connections=9,
        reconnects=0,
        source_addresses=1,
        server_cpu_s=None,
        server_rss_bytes=None,
        others_cpu_s=0.5,
        steal_cpu_s=None,
        by_operation=[
            OperationRow("GET 223.gif", 3, 669, 0, 0, TIMES),
            OperationRow("GET 404.htm", 0, 0, 0, 1, b""),
        ],
        by_client=[ClientRow(0, 3, 700, 669, 0, 0, None), ClientRow(1, 0, 0, 0, 0, 1, 0.25)],
        by_second=[SecondRow(0, 1, 223, 0)],
        errors=[ErrorRow("server", "timeout", 2, 1, "no answer in 30 s: \u00fc")],
    )
    return dataclasses.replace(record, **changes)
