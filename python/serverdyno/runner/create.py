"""Begins an experiment: a checked plan becomes a folder with everything decided in it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from serverdyno import __version__
from serverdyno.plan import expand
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.order import order
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead


def default_folder(name: str) -> Path:
    """`experiments/<name>-<date>-<time>`, which nobody has yet."""
    return Path("experiments") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def create_experiment(folder: Path, plan_text: str, plan: Plan, suite: Suite) -> Experiment:
    """The folder of a new experiment, open for writing. Raises UserError where there is something already."""
    configurations = expand.configurations(plan)
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
