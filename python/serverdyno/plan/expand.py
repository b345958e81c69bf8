"""From a plan to its configurations, and from a suite to its mixes. Assumes that both were checked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from serverdyno.plan.axis import axis_of
from serverdyno.plan.model import Configuration, Mix, Plan, ServerPlan, Suite
from serverdyno.plan.spoken import SettingsTypes, protocol_of_server


def configurations(plan: Plan, settings_types: SettingsTypes) -> list[Configuration]:
    """Every combination of levels of every server, as in the document; the last factor varies fastest.

    `settings_types`: the settings model of every server there is, by name.
    """
    return [each for server in plan.servers for each in configurations_of(server, settings_types)]


def configurations_of(server: ServerPlan, settings_types: SettingsTypes) -> list[Configuration]:
    """Every combination of levels of one server; otherwise as `configurations`."""
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
    """Return the level of each factor, by the name of the configuration; none where nothing varies."""
    return {
        configuration_name(server, levels): levels
        for server in plan.servers
        for levels in combinations(server)
    }


def combinations(server: ServerPlan) -> Iterator[dict[str, Any]]:
    """One level of each factor, in every way. One empty combination where nothing varies."""
    for levels in itertools.product(*server.factors.values()):
        yield dict(zip(server.factors, levels, strict=True))


def configuration_name(server: ServerPlan, levels: dict[str, Any]) -> str:
    """`apache-access-log-off-mpm-event`: [a-z0-9.-] only, since it names folders and stands in figures."""
    parts = [
        server.name or server.server,
        *(f"{factor}-{_spoken(level)}" for factor, level in levels.items()),
    ]
    return "-".join(filter(None, map(_normalised, parts)))


def mixes(suite: Suite, scale: float = 1.0) -> list[Mix]:
    """The mixes of a suite, with every time that belongs to the length multiplied by `scale`.

    Length, both ramps and the start delay are shortened alike, so that the same share of a mix is measured.
    Clients, threads, rate and think time stay: they are the load, and this is a shorter look at the same load. Levels
    that end when their work is done have no ramps, their length is a bound, and `scale` is of their work
    (`with_scaled_work`).
    """
    if steps := suite.work.planned_steps(suite.settings(suite.work), suite.clients[0]):
        return [
            Mix(
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
    levels = _levels(suite)
    return [
        Mix(
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
            last=index == len(levels),
            rate_per_s=rate,
            operations=suite.operations,
        )
        for index, (clients, rate) in enumerate(levels, start=1)
    ]


def levels_of(suites: Sequence[Suite], scale: float = 1.0) -> list[Mix]:
    """Return the levels of several suites, one suite after the other, with places from 1."""
    found = [mix for suite in suites for mix in mixes(suite, scale)]
    return [replace(mix, index=index) for index, mix in enumerate(found, start=1)]


def with_scaled_work(suite: Suite, scale: float) -> Suite:
    """Return a suite with this share of the work of its levels that end when done."""
    return suite.with_settings(suite.work, suite.work.scaled(suite.settings(suite.work), scale))


def as_run(suite: Suite, scale: float) -> Suite:
    """Return a suite with its work at the scale in force, and a digest of every file that its load is made from."""
    return with_scaled_work(suite, scale).with_noted_inputs()


def _delay_s(suite: Suite, scale: float) -> float:
    """Return the stated delay, or else the time over which clients that think start apart: they keep no common step."""
    if suite.delay_s or suite.open is not None:
        return _scaled(suite.delay_s, scale)
    spread_s = suite.work.start_spread_s(suite.settings(suite.work), suite.think_time_s)
    return min(spread_s, _scaled(suite.length_s, scale))


def trial(planned: Mix, rate_per_s: int) -> Mix:
    """A trial of a search as it is run: a planned one, at the rate that those before it call for."""
    return replace(planned, rate_per_s=rate_per_s)


def rates_of_peak(percents: Sequence[int], peak_s: float) -> list[int]:
    """Shares of a peak as whole requests/s, to three digits: more would pretend that the peak is known so well."""
    return [max(1, int(float(f"{peak_s * percent / 100:.3g}"))) for percent in percents]


def _name(suite: Suite, index: int, level: int) -> str:
    if suite.open is not None and suite.open.percent_of_peak:
        return f"{level}_percent"
    return f"trial_{index}" if suite.objective is not None else axis_of(suite.axis).mix_name(level)


def _levels(suite: Suite) -> list[tuple[int, int | None]]:
    """Clients of each mix, and the rate of an open one; of a search the lowest, since those of its trials follow."""
    if suite.open is None:
        return [(clients, None) for clients in suite.clients]
    if suite.open.percent_of_peak:
        # Stand-ins, until peaks are measured.
        return [(suite.clients[-1], percent) for percent in suite.open.percent_of_peak]
    if suite.open.objective is not None:
        return [(suite.clients[-1], suite.open.rate_per_s[0])] * suite.open.most_trials
    return [(suite.clients[-1], rate) for rate in suite.open.rate_per_s]


def threads_at(suite: Suite, clients: int) -> int:
    """Threads a client in the mix of that many clients."""
    reached = [step.threads for step in suite.threads_from if step.clients <= clients]
    return reached[-1] if reached else suite.threads


def suite_shortened(scale: float) -> str | None:
    """`shortened to 2 % of its full length`, for every table and figure; None of a suite at full length.

    It doesn't say "published length", because that of some suites was never published.
    """
    return None if scale == 1 else f"shortened to {scale * 100:.4g} % of its full length"


def _scaled(seconds: float, scale: float) -> float:
    # Whole microseconds: 300 s x 0.07 is 21 s, not 21.000000000000004 s.
    return round(seconds * scale, 6)


def _spoken(level: object) -> str:
    if isinstance(level, bool):
        return "on" if level else "off"
    return str(level)


def _normalised(part: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-")
