"""Load a plan file into a checked plan. One error reports every problem, each with its key and line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from serverdyno.errors import PlanError, UserError
from serverdyno.plan import suites
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import Problem, check_model, described, parse_toml, read_text, sentence
from serverdyno.plan.expand import levels_of
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.protocols.access import ANYBODY, SYSTEM
from serverdyno.plan.protocols.options import read
from serverdyno.plan.spoken import SettingsTypes
from serverdyno.plan.testbed import Testbed
from serverdyno.plan.validate import check_plan, precision_problem, size_problem

_SCALE_OPTION = "--scale"
_OTHER_CLIENTS = "-other-clients"
"""Suffix of a suite's name after `--clients` replaced its clients."""
_MOST_NAME = 63


FILES = ("trust", "certificate", "key")
"""Settings of a user's server that name a file."""
SUITE_FILE = ".toml"
"""Suffix that distinguishes the file of a plan's suite from the name of a shipped suite."""


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A checked plan, its suites in order, and the text of its file."""

    plan: Plan
    suites: tuple[Suite, ...]
    text: str


def load_plan(
    path: Path,
    settings_types: SettingsTypes,
    scale: float | None = None,
    suite_file: Path | None = None,
    clients: str | None = None,
) -> LoadedPlan:
    """Return the plan in a file. Raises PlanError with all its problems, or UserError if the file can't be read.

    `settings_types` contains the settings model of every known server, by name. `scale`, `suite_file` and `clients`
    (`1,2,4`) replace the values of the plan and its suites. Paths of suites and of servers' certificates are relative
    to the plan's folder; `suite_file` may also be the name of a shipped suite.
    """
    text = read_text(path)
    data = parse_toml(text, str(path))
    named = [data["suite"]] if "suite" in data else data.get("suites")
    known: list[Suite | str] = [
        _named(name, path.parent)
        for name in (named if isinstance(named, list) else ())
        if isinstance(name, str)
    ]
    if suite_file is not None:
        name = str(suite_file)
        known = [name if name in suites.names() else suites.parse(read_text(suite_file), name)]
    if clients is not None:
        known = [
            with_clients(each if isinstance(each, Suite) else suites.load(each), clients) for each in known
        ]
    plan = parse_plan(text, str(path), settings_types, scale, known)
    plan, problems = _with_whole_paths(plan, path.parent, settings_types)
    if problems:
        raise PlanError(str(path), described(problems, text))
    if plan.generator.fleet is not None:
        plan = with_fleet(plan, path.parent / plan.generator.fleet)
    return LoadedPlan(
        plan, tuple(each if isinstance(each, Suite) else suites.load(each) for each in known), text
    )


def _with_whole_paths(plan: Plan, folder: Path, settings_types: SettingsTypes) -> tuple[Plan, list[Problem]]:
    """Return the plan with absolute paths of files in users' server settings, and a problem for each missing file."""
    problems: list[Problem] = []
    servers = []
    for index, server in enumerate(plan.servers):
        is_external = getattr(settings_types[server.server], "is_external", False)
        own = {key: server.settings[key] for key in FILES if is_external and key in server.settings}
        found = {
            key: str((folder / Path(file).expanduser()).absolute())
            for key, file in own.items()
            if file not in (SYSTEM, ANYBODY)
        }
        problems += [
            Problem(("servers", index, "settings", key), f"{file} does not exist")
            for key, file in found.items()
            if not Path(file).exists()
        ]
        servers.append(server.model_copy(update={"settings": server.settings | found}))
    return plan.model_copy(update={"servers": servers}), problems


def _named(name: str, folder: Path) -> Suite | str:
    """Return the suite in the file if the name is a path, otherwise the name. Raises UserError or PlanError."""
    if not name.endswith(SUITE_FILE):
        if name not in suites.names() and (folder / f"{name}{SUITE_FILE}").is_file():
            raise UserError(
                f'no suite "{name}" is shipped, but there is {folder / name}{SUITE_FILE}',
                hint=f'For your own file, give its whole name: "{name}{SUITE_FILE}".',
            )
        return name
    return suites.parse(read_text(folder / name), f"{folder / name}")


def with_clients(suite: Suite, option: str) -> Suite:
    """Return a suite whose clients are replaced by an option's `1,2,4`. Its name, title and certainty state this.

    Steps of `threads_from` above the last number of clients are removed. Raises UserError if the option is not a list
    of numbers of clients, and PlanError if the suite does not allow them.
    """
    clients, wrong = read(option, "clients", Suite.model_fields["clients"])
    if wrong is not None:
        raise UserError(f"--clients: {wrong}")
    before = suite.certainty.get("clients", "its source was not given")
    own = ", ".join(map(str, suite.clients))
    changed = {
        "name": suite.name.removesuffix(_OTHER_CLIENTS)[: _MOST_NAME - len(_OTHER_CLIENTS)] + _OTHER_CLIENTS,
        "title": f"{suite.title}, with the clients of --clients",
        "clients": clients,
        "threads_from": [step for step in suite.threads_from if step.clients <= max(clients)],
        "certainty": {**suite.certainty, "clients": f"choice: --clients, instead of {own} ({before})"},
    }
    made, problems = check_model(Suite, suite.model_dump() | changed)
    if made is not None:
        problems = suite_problems(made)
    if made is None or problems:
        raise PlanError(f"{suite.name} with --clients {option}", [sentence(problem) for problem in problems])
    return made


def with_fleet(plan: Plan, folder: Path) -> Plan:
    """Return a plan whose load is generated by the fleet in a folder.

    Raises UserError if the plan sets CPUs or processes.
    """
    if plan.generator.processes > 1 or plan.generator.cpus:
        raise UserError(
            "--fleet: the plan must not set generator.processes or generator.cpus, which apply to this "
            "machine"
        )
    generator = plan.generator.model_copy(update={"fleet": str(folder.resolve())})
    return plan.model_copy(update={"generator": generator})


def with_testbed(plan: Plan, testbed: Testbed, settings_types: SettingsTypes, known: Sequence[Suite]) -> Plan:
    """Return a plan whose load is generated by a testbed. Raises UserError if the plan does not allow it."""
    made = plan.model_copy(update={"testbed": testbed})
    _, problems = check_plan(made.model_dump(exclude_defaults=True), settings_types, known=known)
    if own := [found for found in problems if found.path[:1] == ("testbed",)]:
        raise UserError("--testbed: " + "; ".join(found.message for found in own))
    return made


def until_precise(plan: Plan, percent: str, known: Sequence[Suite]) -> Plan:
    """Return a plan that adds repetitions until an option's precision (`2%`) is reached.

    Raises UserError if the option is not a percentage, or if the plan or a suite does not allow it.
    """
    if message := next(filter(None, map(precision_problem, known)), None):
        raise UserError(f"--until: {message}")
    try:
        wanted = float(percent.strip().removesuffix("%"))
    except ValueError:
        wanted = math.nan
    if not 0 < wanted <= 100:
        raise UserError(f"--until: {percent!r} is not a percentage such as 2%")
    if plan.order == "sequential":
        raise UserError("--until can't add repetitions to a plan with the order sequential")
    made = plan.model_copy(update={"until_percent": wanted})
    levels = len(levels_of(known, plan.scale))
    if (too_many := size_problem(dict(enumerate(plan.servers)), made.ends_with, levels)) is not None:
        raise UserError(f"--until: {too_many.message}")
    return made


def parse_plan(
    text: str,
    source: str,
    settings_types: SettingsTypes,
    scale: float | None = None,
    known: Sequence[Suite | str] = (),
) -> Plan:
    """Return the plan in a text.

    `source` names the text in error messages; `known` contains its suites or their names. For the other arguments and
    the errors, see `load_plan`.
    """
    data = parse_toml(text, source)
    if scale is not None:
        data["scale"] = scale
    names = [each.name if isinstance(each, Suite) else each for each in known]
    if names and "suite" not in data and len(names) == len(data.get("suites", ())):
        data["suites"] = names
    elif names and not {"suite", "suites"} <= data.keys():
        data = {**{key: value for key, value in data.items() if key != "suites"}, "suite": names[0]}
    plan, problems = check_plan(
        data, settings_types, known=[each for each in known if isinstance(each, Suite)]
    )
    if scale is not None:
        # Report a problem with the option under the option's name instead of the file's key.
        problems = [
            replace(found, path=(_SCALE_OPTION,)) if found.path == ("scale",) else found for found in problems
        ]
    if plan is None or problems:
        raise PlanError(source, described(problems, text))
    return plan
