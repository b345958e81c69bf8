"""Scenarios as data: what a user does with files, step by step. The shipped ones are the TOML files beside this one.

Not for: load by many clients at once, which suites make.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.document import Problem, check_model, described, parse_toml, read_text, unknown_name
from serverdyno.scenarios.model import Scenario

_SUFFIX = ".toml"


def names() -> list[str]:
    """Return the names of the shipped scenarios, sorted."""
    files = (file.name for file in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))


def load(name_or_path: str) -> Scenario:
    """Return a shipped scenario, or that of a TOML file. Raises UserError, and PlanError with all its problems."""
    if name_or_path.endswith(_SUFFIX):
        return parse(read_text(Path(name_or_path)), name_or_path)
    if name_or_path not in names():
        raise UserError(
            unknown_name("scenario", name_or_path, names()),
            hint=f"Give one of these names, or the path of a file that ends in {_SUFFIX}.",
        )
    text = (resources.files(__name__) / f"{name_or_path}{_SUFFIX}").read_text(encoding="utf-8")
    return parse(text, name_or_path)


def parse(text: str, source: str) -> Scenario:
    """Return the scenario of a TOML text. Raises PlanError with all its problems."""
    scenario, problems = check_model(Scenario, parse_toml(text, source))
    if scenario is not None:
        problems = [Problem(path, why) for path, why in scenario.problems()]
    if scenario is None or problems:
        raise PlanError(source, described(problems, text))
    return scenario
