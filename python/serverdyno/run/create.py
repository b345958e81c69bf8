"""Creates an experiment: a folder that records all decisions for a checked plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from serverdyno import __version__
from serverdyno.plan import expand
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.order import order
from serverdyno.run.placed import placed
from serverdyno.store.experiment import Experiment
from serverdyno.store.head import ExperimentHead


def default_folder(name: str) -> Path:
    """Return `experiments/<name>-<date>-<time>` (UTC), with a number appended if it exists."""
    first = Path("experiments") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    taken = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(folder for folder in chain([first], taken) if not folder.exists())


def create_experiment(folder: Path, plan_text: str, plan: Plan, suites: Sequence[Suite]) -> Experiment:
    """Create an experiment's folder, open for writing. Raises UserError if it is not empty.

    CPUs that the plan leaves open are chosen here, so that all runs use the same CPUs, also after a resume.
    """
    configurations, generator = placed(plan)
    head = ExperimentHead(
        tool_version=__version__,
        created=datetime.now(UTC),
        seed=plan.seed,
        scale=plan.scale,
        plan=plan.model_copy(update={"generator": generator, "repetitions": plan.begins_with}),
        suites=[expand.as_run(suite, plan.scale) for suite in suites],
        configurations=configurations,
        mixes=expand.levels_of(suites, plan.scale),
        order=order(configurations, plan.begins_with, plan.order, plan.seed),
    )
    return Experiment.create(folder, plan_text, head)
