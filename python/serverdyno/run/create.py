"""Creates an experiment: a folder that records all decisions for a checked plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from serverdyno import __version__
from serverdyno.plan import expand
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.order import order
from serverdyno.run.placed import placed
from serverdyno.store.experiment import Experiment, TakenError
from serverdyno.store.head import ExperimentHead


def default_folders(name: str) -> Iterator[Path]:
    """Yield `experiments/<name>-<date>-<time>` (UTC), then the same with a number appended."""
    first = Path("experiments") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    yield first
    for number in count(2):
        yield first.with_name(f"{first.name}-{number}")


def create_experiment(folder: Path | None, plan_text: str, plan: Plan, suites: Sequence[Suite]) -> Experiment:
    """Create an experiment's folder, open for writing. Raises UserError if it is not empty.

    If `folder` is None, the first default folder that does not exist is created. Two commands that start in the same
    second get different ones. CPUs that the plan leaves open are chosen here, so that all runs use the same CPUs, even
    after a resume.
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
        levels=expand.levels_of(suites, plan.scale),
        order=order(configurations, plan.begins_with, plan.order, plan.seed),
    )
    if folder is not None:
        return Experiment.create(folder, plan_text, head)
    for default in default_folders(plan.name):
        with suppress(TakenError):
            return Experiment.create(default, plan_text, head, is_new=True)
    raise AssertionError  # there is always another number
