"""The suites that are shipped, as data: one TOML file each, beside this one.

They re-create published parameters and are not the original programs. What an original did that was never
published is not here, and each file says how well every parameter is known.
"""

from __future__ import annotations

from importlib import resources

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import check_model, described, parse_toml, unknown_name
from serverdyno.plan.model import Suite

_SUFFIX = ".toml"


def names() -> list[str]:
    """The names of all shipped suites, sorted."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX))


def load(name: str) -> Suite:
    """The suite of that name. Raises UserError for a name that is not shipped."""
    if name not in names():
        raise UserError(unknown_name("suite", name, names()), hint="`dyno suites` describes them")
    return parse((resources.files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8"), name)


def parse(text: str, source: str) -> Suite:
    """A suite from its TOML text. Raises PlanError with all its problems."""
    suite, problems = check_model(Suite, parse_toml(text, source))
    if suite is not None:
        problems = suite_problems(suite)
    if suite is None or problems:
        raise PlanError(source, described(problems, text))
    return suite
