"""A scenario as steps of one data plane job in its own directory, and the removal of remaining files.

The data plane defines a step's operations; `steps.py` runs the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from serverdyno.errors import UserError
from serverdyno.plan.protocols import scenario as model
from serverdyno.plan.protocols.scenario import Scenario, Step

if TYPE_CHECKING:
    from serverdyno.store.head import ExperimentHead

DIRECTORY = "serverdyno-scenario-"
"""Prefix of the directory on the server; unique letters follow."""
FILES, STREAM = "files", "stream"
"""Prefixes of the clients' directories, and of the streams' files; a dot and a number follow."""

Actions = Iterator[tuple[str, dict[str, Any], int]]
"""Steps of the data plane: name in errors, action, and number of passes (0: not a level)."""


def actions(scenario: Scenario) -> Actions:
    """Yield the creation of the scenario's own directory, then its steps, for the data plane."""
    yield "making the directory", {"do": "make_base"}, 0
    built: set[str] = set()
    copied: dict[str, str | None] = {}
    for step in scenario.steps:
        action: dict[str, Any] = step.model_dump(exclude={"name", "warm", "figure"})
        action["do"] = step.do.replace("-", "_")
        if isinstance(step, model.OnTree):
            if isinstance(step, model.Build):
                built.add(step.tree)
            action["tree"] = _tree(scenario, step.tree, built=step.tree in built)
        match step:
            case model.RemoveTree():
                built.discard(step.tree)
                action["lenient"] = False
            case model.RemoveFile():
                action["lenient"] = False
            case model.MakeFile():
                copied[step.file] = None
            case model.CopyTo():
                copied[step.file] = step.local
            case model.CopyFrom():
                action |= {"local": f"{step.file}.copy", "copied": copied[step.file]}
            case model.Metadata():
                action["name"] = FILES
            case model.Streams():
                action |= {"name": STREAM, "bytes": step.bytes // step.block_bytes * step.block_bytes}
            case _:
                pass
        # Steps of several clients have one pass.
        passes = 1 if isinstance(step, model.OfClients) else len(model.states(step))
        yield model.label(step), action, passes


def removal(scenario: Scenario, base: str) -> Actions:
    """Yield the steps that remove everything a scenario may have left."""
    built = {step.tree for step in scenario.steps if isinstance(step, model.Build)}
    trees: dict[str, dict[str, Any]] = {}
    files: dict[str, None] = {}
    for step in scenario.steps:
        match step:
            case model.MakeTree():
                trees[step.tree] = _tree(scenario, step.tree, built=step.tree in built)
            case model.MakeFile() | model.CopyTo():
                files[step.file] = None
            case model.Streams():
                files |= {f"{STREAM}.{number}": None for number in range(step.writers + step.readers)}
            case model.Metadata():
                trees |= {f"{place} {tree['name']}": tree for place, tree in _trees_of_clients(step)}
            case _:
                pass
    yield from removal_of_files(files, base)
    name = _removing(base)
    for tree in trees.values():
        yield name, {"do": "remove_tree", "tree": tree, "lenient": True}, 0
    yield name, {"do": "remove_base"}, 0


def removal_of_files(files: Iterable[str], left: str) -> Actions:
    """Yield the steps that remove files if they exist. `left`: name in errors."""
    for file in files:
        yield _removing(left), {"do": "remove_file", "file": file, "lenient": True}, 0


def _removing(left: str) -> str:
    return f"removing {left}, if it exists"


def clients(scenario: Scenario) -> int:
    """Return the largest number of clients of a step."""
    return max(map(_clients, scenario.steps))


def _clients(step: Step) -> int:
    match step:
        case model.Metadata():
            return step.clients
        case model.Streams():
            return step.writers + step.readers
        case _:
            return 1


def levels_at_once(scenario: Scenario) -> list[int]:
    """Return the sizes of groups of levels that start and end together, such as writers and readers, in order."""
    return [
        levels
        for step in scenario.steps
        for levels in (
            [len(model.states(step))] if isinstance(step, model.Streams) else [1] * len(model.states(step))
        )
    ]


def _tree(scenario: Scenario, name: str, *, built: bool) -> dict[str, Any]:
    return {"name": name, **scenario.trees[name].model_dump(), "built": built}


def _trees_of_clients(step: model.Metadata) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the trees that the clients create, in the data plane's format, each with a key for its size."""
    files = [{"name": f"{client}.", "count": step.files, "bytes": 0} for client in range(step.clients)]
    names = [(FILES, files)] if step.shared else [(f"{FILES}.{n}", [each]) for n, each in enumerate(files)]
    for name, each in names:
        yield f"{step.clients} {step.files}", {"name": name, "directories": 0, "levels": 0, "files": each}


def check_may_drop_caches(head: ExperimentHead) -> None:
    """Raise UserError if a plan drops the page cache and this user is not allowed to."""
    if head.plan.drop_caches and os.geteuid() != 0:
        raise UserError(
            "drop_caches: only root may drop the page cache",
            hint="Run dyno as root, or remove drop_caches from the plan.",
        )
