"""Expand a plan into its configurations and a suite into its levels. Both must have been checked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from serverdyno.plan.axis import axis_of
from serverdyno.plan.model import Configuration, Level, Plan, ServerPlan, Suite
from serverdyno.plan.spoken import SettingsTypes, protocol_of_server


def configurations(plan: Plan, settings_types: SettingsTypes) -> list[Configuration]:
    """Return a configuration for each combination of factor levels of each server, in the order of the document.

    The last factor varies fastest. `settings_types` contains the settings model of every known server, by name.
    """
    return [each for server in plan.servers for each in configurations_of(server, settings_types)]


def configurations_of(server: ServerPlan, settings_types: SettingsTypes) -> list[Configuration]:
    """Return a configuration for each combination of factor levels of one server; see `configurations`."""
    return [
        Configuration(
            name=configuration_name(server, levels),
            server=server.server,
            settings={**server.settings, **levels},
            cpus=tuple(server.cpus),
            url=server.url,
            bounds=server.bounds,
            protocol=protocol_of_server(server, settings_types),
            node=server.node,
            back_nodes=tuple(server.back_nodes),
            address=server.address,
        )
        for levels in combinations(server)
    ]


def levels_by_configuration(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the level of each factor, by configuration name. The inner mapping is empty if there are no factors."""
    return {
        configuration_name(server, levels): levels
        for server in plan.servers
        for levels in combinations(server)
    }


def combinations(server: ServerPlan) -> Iterator[dict[str, Any]]:
    """Yield every combination of factor levels; one empty combination if there are no factors."""
    for levels in itertools.product(*server.factors.values()):
        yield dict(zip(server.factors, levels, strict=True))


def configuration_name(server: ServerPlan, levels: dict[str, Any]) -> str:
    """Return a name such as `apache-access-log-off-mpm-event`.

    The name contains only characters of [a-z0-9.-], because it names folders and is printed in charts.
    """
    parts = [
        server.name or server.server,
        *(f"{factor}-{_spoken(level)}" for factor, level in levels.items()),
    ]
    return "-".join(filter(None, map(_normalised, parts)))


def levels(suite: Suite, scale: float = 1.0) -> list[Level]:
    """Return the levels of a suite, with its length, both ramps and the start delay multiplied by `scale`.

    All these times are scaled by the same factor, so that the measured share of a level stays the same. Clients,
    threads, rate and think time are the load and do not change. Levels that end when their work is done have no ramps,
    and their length is only an upper bound; `with_scaled_work` scales their work.
    """
    if steps := suite.work.planned_steps(suite.settings(suite.work), suite.clients[0]):
        return [
            Level(
                index=index,
                name=f"{each.step}, {each.state}" if each.state else each.step,
                clients=each.clients,
                threads=1,
                length_s=suite.length_s,
                ramp_up_s=0.0,
                ramp_down_s=0.0,
                delay_s=0.0,
                think_time_s=0.0,
                last=index == len(steps),
                suite=suite.name,
                step=each.step,
                state=each.state,
                figure=each.figure,
            )
            for index, each in enumerate(steps, start=1)
        ]
    loads = _loads(suite)
    return [
        Level(
            suite=suite.name,
            index=index,
            name=_name(suite, index, clients if rate is None else rate),
            clients=clients,
            threads=threads_at(suite, clients),
            length_s=_scaled(suite.length_s, scale),
            ramp_up_s=_scaled(suite.ramp_up_s, scale),
            ramp_down_s=_scaled(suite.ramp_down_s, scale),
            delay_s=_delay_s(suite, scale),
            think_time_s=suite.think_time_s,
            last=index == len(loads),
            rate_per_s=rate,
            operations=suite.operations,
        )
        for index, (clients, rate) in enumerate(loads, start=1)
    ]


def levels_of(suites: Sequence[Suite], scale: float = 1.0) -> list[Level]:
    """Return the levels of several suites, one suite after the other, numbered from 1."""
    found = [level for suite in suites for level in levels(suite, scale)]
    return [replace(level, index=index) for index, level in enumerate(found, start=1)]


def with_scaled_work(suite: Suite, scale: float) -> Suite:
    """Return the suite with its work multiplied by `scale`, if its levels end when their work is done."""
    return suite.with_settings(suite.work, suite.work.scaled(suite.settings(suite.work), scale))


def as_run(suite: Suite, scale: float) -> Suite:
    """Return the suite with its work scaled, and a digest of every file from which its load is generated."""
    return with_scaled_work(suite, scale).with_noted_inputs()


def _delay_s(suite: Suite, scale: float) -> float:
    """Return the suite's start delay; if it has none, return the time over which clients with a think time start.

    Clients with a think time start at different times, so that they do not stay in step.
    """
    if suite.delay_s or suite.open is not None:
        return _scaled(suite.delay_s, scale)
    spread_s = suite.work.start_spread_s(suite.settings(suite.work), suite.think_time_s)
    return min(spread_s, _scaled(suite.length_s, scale))


def trial(planned: Level, rate_per_s: int) -> Level:
    return replace(planned, rate_per_s=rate_per_s)


def rates_of_peak(percents: Sequence[int], peak_s: float) -> list[int]:
    """Return percentages of a peak in whole requests/s, rounded to three digits, the precision of the peak."""
    return [max(1, int(float(f"{peak_s * percent / 100:.3g}"))) for percent in percents]


def _name(suite: Suite, index: int, load: int) -> str:
    if suite.open is not None and suite.open.percent_of_peak:
        return f"{load}_percent"
    return f"trial_{index}" if suite.objective is not None else axis_of(suite.axis).level_name(load)


def _loads(suite: Suite) -> list[tuple[int, int | None]]:
    """Return the number of clients of each level, and the rate of open load. A search begins with the lowest rate."""
    if suite.open is None:
        return [(clients, None) for clients in suite.clients]
    if suite.open.percent_of_peak:
        # Placeholders until the peaks are measured.
        return [(suite.clients[-1], percent) for percent in suite.open.percent_of_peak]
    if suite.open.objective is not None:
        return [(suite.clients[-1], suite.open.rate_per_s[0])] * suite.open.most_trials
    return [(suite.clients[-1], rate) for rate in suite.open.rate_per_s]


def threads_at(suite: Suite, clients: int) -> int:
    """Return the threads per client at this number of clients."""
    reached = [step.threads for step in suite.threads_from if step.clients <= clients]
    return reached[-1] if reached else suite.threads


def suite_shortened(scale: float) -> str | None:
    """Return `shortened to 2 % of its full length` for tables and figures, or None at full length.

    The text does not say "published length", because the lengths of some suites were not published.
    """
    return None if scale == 1 else f"shortened to {scale * 100:.4g} % of its full length"


def _scaled(seconds: float, scale: float) -> float:
    # Round to whole microseconds: 300 s x 0.07 is 21 s, not 21.000000000000004 s.
    return round(seconds * scale, 6)


def _spoken(level: object) -> str:
    if isinstance(level, bool):
        return "on" if level else "off"
    return str(level)


def _normalised(part: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-")
