"""Begins an experiment: a checked plan becomes a folder with everything decided in it."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from serverdyno import __version__
from serverdyno.fleet.placement import Placement, of_processors, place
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, GeneratorPlan, Plan, Suite
from serverdyno.plan.order import order
from serverdyno.servers.registry import settings_types
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead


def default_folder(name: str) -> Path:
    """`experiments/<name>-<date>-<time>`, the time being UTC; with a number after it where that is taken."""
    first = Path("experiments") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    taken = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(folder for folder in chain([first], taken) if not folder.exists())


def placed(plan: Plan) -> tuple[list[Configuration], GeneratorPlan]:
    """Return the configurations and the generator of a plan with the CPUs that they have on this machine.

    Raises UserError where there are fewer CPUs than generator threads.
    """
    configurations = expand.configurations(plan, settings_types())
    if plan.generator.fleet is not None or plan.testbed is not None:
        # The nodes choose their CPUs themselves, and servers have all of this machine.
        here = tuple(sorted(os.sched_getaffinity(0)))
        return [
            found
            if found.url is not None or found.node is not None
            else replace(found, cpus=found.cpus or here)
            for found in configurations
        ], plan.generator
    placement = place(plan.generator, {cpu for named in configurations for cpu in named.cpus})
    return [
        # The user's own server runs where the user has put it.
        configuration
        if configuration.url is not None
        else replace(configuration, cpus=_cpus(configuration, placement))
        for configuration in configurations
    ], plan.generator.model_copy(update={"cpus": list(placement.generator)})


def _cpus(configuration: Configuration, placement: Placement) -> tuple[int, ...]:
    """Those that the plan names or leaves, or as many of them as `processors` says. Raises UserError."""
    count = configuration.settings.get("processors")
    if count is None:
        return configuration.cpus or placement.server
    if configuration.cpus:
        return of_processors(count, configuration.cpus, ())
    free = () if placement.shared else placement.server
    return of_processors(count, free, (*placement.server, *placement.generator))


def create_experiment(folder: Path, plan_text: str, plan: Plan, suite: Suite) -> Experiment:
    """The folder of a new experiment, open for writing. Raises UserError where there is something already.

    CPUs that the plan leaves open are chosen here, so that all runs, also after a resume, have the same.
    """
    configurations, generator = placed(plan)
    head = ExperimentHead(
        tool_version=__version__,
        created=datetime.now(UTC),
        seed=plan.seed,
        scale=plan.scale,
        plan=plan.model_copy(update={"generator": generator, "repetitions": plan.begins_with}),
        suite=suite.with_settings(suite.work, suite.work.with_noted_inputs(suite.settings(suite.work))),
        configurations=configurations,
        mixes=expand.mixes(suite, plan.scale),
        order=order(configurations, plan.begins_with, plan.order, plan.seed),
    )
    return Experiment.create(folder, plan_text, head)
