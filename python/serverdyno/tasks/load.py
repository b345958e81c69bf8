"""From the file of a plan of tasks to a checked plan: every problem in one error, each with its key and its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serverdyno import published, scenarios
from serverdyno.errors import PlanError, UserError
from serverdyno.plan import protocols
from serverdyno.plan.document import Problem, check_model, described, parse_toml, read_text, unknown_name
from serverdyno.plan.load import TASKS
from serverdyno.plan.model import Configuration
from serverdyno.plan.protocols.files import FILES
from serverdyno.plan.spoken import SettingsTypes
from serverdyno.plan.validate import check_servers, goes_to_loopback
from serverdyno.scenarios.model import Scenario
from serverdyno.tasks.bonnie import BONNIE
from serverdyno.tasks.model import TaskPlan

_FILE = ".toml"


@dataclass(frozen=True, slots=True)
class LoadedTasks:
    """A checked plan and the text of its file. `tasks`: by name, in order, the scenario at scale 1; None: Bonnie."""

    plan: TaskPlan
    tasks: dict[str, Scenario | None]
    text: str


def load_tasks(path: Path, settings_types: SettingsTypes, scale: float | None = None) -> LoadedTasks:
    """Return the plan in a file. Raises PlanError with all its problems, UserError for a file that can't be read.

    `settings_types`: the settings model of every server there is, by name. `scale` replaces what the plan says.
    """
    text = read_text(path)
    data = parse_toml(text, str(path))
    if scale is not None:
        data["scale"] = scale
    plan, problems = check_model(TaskPlan, data)
    servers, of_servers = check_servers(data, settings_types)
    tasks, of_tasks = _tasks(data.get(TASKS), path.parent)
    # Bounds would let a load leave this machine; no task does.
    of_servers = [found for found in of_servers if "bounds" not in found.path]
    problems += [*of_servers, *of_tasks, *_targets(servers)]
    published_name = data.get("published")
    if isinstance(published_name, str) and published_name not in published.names():
        why = unknown_name("published report", published_name, published.names())
        problems.append(Problem(("published",), why))
    if plan is None or problems:
        raise PlanError(str(path), described(dict.fromkeys(problems), text))
    return LoadedTasks(plan, tasks, text)


def _tasks(names: Any, folder: Path) -> tuple[dict[str, Scenario | None], list[Problem]]:
    """The tasks, and what is wrong with their names."""
    found: dict[str, Scenario | None] = {}
    problems: list[Problem] = []
    for place, name in enumerate(names if isinstance(names, list) else ()):
        if not isinstance(name, str):
            continue  # the model says so
        try:
            task, scenario = _task(name, folder)
        except UserError as error:
            problems.append(Problem((TASKS, place), f"{error}"))
            continue
        if task in found:
            problems.append(Problem((TASKS, place), f"{task} is there twice"))
        found[task] = scenario
    return found, problems


def _task(name: str, folder: Path) -> tuple[str, Scenario | None]:
    """Raises UserError."""
    if name == BONNIE:
        return name, None
    if not name.endswith(_FILE) and name not in (known := scenarios.names()):
        raise UserError(unknown_name("task", name, [BONNIE, *known]))
    scenario = scenarios.load(f"{folder / name}" if name.endswith(_FILE) else name)
    return scenario.name, scenario


def _targets(servers: Mapping[int, tuple[Configuration, ...]]) -> Iterator[Problem]:
    """Servers that no task can be carried out on."""
    for place, configurations in servers.items():
        for configuration in configurations[:1]:
            spoken = None if configuration.protocol is None else protocols.of(configuration.protocol)
            if spoken is not None and spoken.work is not FILES:
                carried = " or ".join(each.title for each in protocols.carrying(FILES))
                why = f"speaks {spoken.title}, but tasks are carried out over {carried}"
                yield Problem(("servers", place, "server"), why)
            elif configuration.url is not None and not goes_to_loopback(configuration.url, None):
                why = (
                    "is not on this machine, and nothing bounds the rate of a task; a plan with bounds can measure it "
                    "by the suite quick-streams, quick-metadata or quick-files"
                )
                yield Problem(("servers", place, "url"), why)
