"""Builds the record of a level from the counts of the data plane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from serverdyno.counted import Counted
from serverdyno.fleet.fleet import NodeFigures
from serverdyno.plan.model import Mix, RunKey
from serverdyno.store.records import MixRecord, NodeRow, SyncRow


def mix_record(
    run: RunKey, mix: Mix, result: Counted, syncs: Mapping[str, int] | None, **seen: Any
) -> MixRecord:
    """Return the record of a level. `syncs`: the server's sync system calls in the window; None if unknown.

    `seen`: the record's columns that the machines observed.
    """
    figures = _figures(result)
    figures["started_unix_s"] = result.started_unix_s or 0.0
    return MixRecord(
        **figures,
        run=run.number,
        configuration=run.configuration,
        repetition=run.repetition,
        suite=mix.suite,
        mix=mix.index,
        name=mix.name,
        step=mix.step,
        state=None if mix.step is None else mix.state,
        figure=mix.figure,
        clients=mix.clients,
        threads=mix.threads,
        length_s=mix.length_s if mix.operations is None else min(mix.length_s, result.window_s),
        ramp_up_s=mix.ramp_up_s,
        ramp_down_s=mix.ramp_down_s,
        rate_per_s=mix.rate_per_s,
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
