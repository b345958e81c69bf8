"""Begins an experiment: a checked plan becomes a folder with everything decided in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from serverdyno import __version__
from serverdyno.fleet.placement import place
from serverdyno.plan import expand
from serverdyno.plan.model import Configuration, Plan, Suite
from serverdyno.plan.order import order
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead


def default_folder(name: str) -> Path:
    """`experiments/<name>-<date>-<time>`, which nobody has yet."""
    return Path("experiments") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def create_experiment(folder: Path, plan_text: str, plan: Plan, suite: Suite) -> Experiment:
    """The folder of a new experiment, open for writing. Raises UserError where there is something already.

    CPUs that the plan leaves open are chosen here, so that all runs, also after a resume, have the same.
    """
    configurations = [_placed(plan, configuration) for configuration in expand.configurations(plan)]
    generator_cpus = place(plan.generator, configurations[0]).generator
    plan = plan.model_copy(
        update={"generator": plan.generator.model_copy(update={"cpus": list(generator_cpus)})}
    )
    head = ExperimentHead(
        tool_version=__version__,
        created=datetime.now(UTC),
        seed=plan.seed,
        scale=plan.scale,
        plan=plan,
        suite=suite,
        configurations=configurations,
        mixes=expand.mixes(suite, plan.scale),
        order=order(configurations, plan.repetitions, plan.order, plan.seed),
    )
    return Experiment.create(folder, plan_text, head)


def _placed(plan: Plan, configuration: Configuration) -> Configuration:
    if configuration.url is not None:
        return configuration  # The user's own server runs where the user has put it.
    return replace(configuration, cpus=place(plan.generator, configuration).server)
