"""Builds the record of a level from the counts of the data plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from serverdyno.counted import Counted
from serverdyno.fleet.fleet import NodeFigures
from serverdyno.plan.model import Level, RunKey
from serverdyno.store.records import LevelRecord, NodeRow, SyncRow


def level_record(
    run: RunKey, level: Level, result: Counted, syncs: Mapping[str, int] | None, **seen: Any
) -> LevelRecord:
    """Return the record of a level. `syncs`: the server's sync system calls in the window; None if unknown.

    `seen`: the record's columns that the machines observed.
    """
    figures = _figures(result)
    figures["started_unix_s"] = result.started_unix_s or 0.0
    return LevelRecord(
        **figures,
        run=run.number,
        configuration=run.configuration,
        repetition=run.repetition,
        suite=level.suite,
        level=level.index,
        name=level.name,
        step=level.step,
        state=None if level.step is None else level.state,
        figure=level.figure,
        clients=level.clients,
        threads=level.threads,
        length_s=level.length_s if level.operations is None else min(level.length_s, result.window_s),
        ramp_up_s=level.ramp_up_s,
        ramp_down_s=level.ramp_down_s,
        rate_per_s=level.rate_per_s,
        syncs_known=syncs is not None,
        syncs=[SyncRow(name, count) for name, count in (syncs or {}).items()],
        **seen,
    )


def node_row(figures: NodeFigures) -> NodeRow:
    result = figures.result
    kept = {each.name for each in fields(NodeRow)}
    return NodeRow(
        **{name: value for name, value in _figures(result).items() if name in kept - {"errors"}},
        node=figures.node,
        clients=result.clients_planned,
        errors=sum(error.count for error in result.errors),
        generator_cpu_s=result.generator_cpu_user_s + result.generator_cpu_system_s,
        others_cpu_s=figures.others_cpu_s,
        steal_cpu_s=figures.steal_cpu_s,
        cpus=figures.cpus,
        clock_offset_s=figures.clock.offset_s,
        clock_error_s=figures.clock.error_s,
    )


def _figures(result: Counted) -> dict[str, Any]:
    return {each.name: getattr(result, each.name) for each in fields(result)}
