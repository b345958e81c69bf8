"""Assigns this machine's CPUs to the configurations of a plan and to the generator."""

from __future__ import annotations

import os
from dataclasses import replace

from serverdyno.fleet.placement import Placement, of_processors, place
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, GeneratorPlan, Plan
from serverdyno.servers.registry import settings_types


def placed(plan: Plan) -> tuple[list[Configuration], GeneratorPlan]:
    """Return the configurations and the generator of a plan with their CPUs on this machine.

    Raises UserError if there are fewer CPUs than generator threads.
    """
    configurations = expand.configurations(plan, settings_types())
    if plan.generator.fleet is not None or plan.testbed is not None:
        # Nodes choose their own CPUs, and servers on this machine may use all CPUs of this process.
        here = tuple(sorted(os.sched_getaffinity(0)))
        return [
            found
            if found.url is not None or found.node is not None
            else replace(found, cpus=found.cpus or here)
            for found in configurations
        ], plan.generator
    placement = place(plan.generator, {cpu for named in configurations for cpu in named.cpus})
    return [
        # The user chooses the CPUs of their own server.
        configuration
        if configuration.url is not None
        else replace(configuration, cpus=_cpus(configuration, placement))
        for configuration in configurations
    ], plan.generator.model_copy(update={"cpus": list(placement.generator)})


def _cpus(configuration: Configuration, placement: Placement) -> tuple[int, ...]:
    """Return the CPUs that the plan names, or all those left; with `processors`, only that many. Raises UserError."""
    count = configuration.settings.get("processors")
    if count is None:
        return configuration.cpus or placement.server
    if configuration.cpus:
        return of_processors(count, configuration.cpus, ())
    free = () if placement.shared else placement.server
    return of_processors(count, free, (*placement.server, *placement.generator))
