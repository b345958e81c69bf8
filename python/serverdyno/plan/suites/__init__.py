"""The shipped suites, one TOML file each.

Each suite of `WITH_LOADS` also exists with the loads of other suites: `webbench-4.1-dynamic-cgi-120` combines the
requests of `webbench-4.1-dynamic-cgi` with the clients and threads of `webbench-4.1-static-120`.

The suites re-create published parameters; they are not the original programs. Unpublished details of an original are
missing. Each file says how well every parameter is known.
"""

from __future__ import annotations

from importlib import resources

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import check_model, described, parse_toml, unknown_name
from serverdyno.plan.model import Suite

_SUFFIX = ".toml"
WITH_LOADS = (
    "webbench-4.1-dynamic-cgi",
    "webbench-4.1-dynamic-fastcgi",
    "webbench-4.1-dynamic-inprocess",
    "webbench-4.1-ecommerce-cgi",
    "webbench-4.1-ecommerce-inprocess",
)
_LOADS = {
    "-120": ("webbench-4.1-static-120", "120 clients"),
    "-120-10t-15t": ("webbench-4.1-static-120-10t-15t", "120 clients of 10 and 15 threads"),
}
_OF_THE_LOAD = ("clients", "threads", "threads_from")


def names() -> list[str]:
    """Return the sorted names of all shipped suites."""
    files = resources.files(__name__).iterdir()
    own = [file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)]
    return sorted([*own, *(f"{base}{ending}" for base in WITH_LOADS for ending in _LOADS)])


def load(name: str) -> Suite:
    """Return the suite of that name. Raises UserError if no such suite is shipped."""
    if name not in names():
        raise UserError(unknown_name("suite", name, names()), hint="`dyno suites` lists them.")
    for ending, (like, words) in _LOADS.items():
        if (base := name.removesuffix(ending)) in WITH_LOADS and base != name:
            return _under_load(load(base), load(like), name, words)
    return parse((resources.files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8"), name)


def _under_load(suite: Suite, like: Suite, name: str, words: str) -> Suite:
    """Return a suite with the clients and threads of another one.

    VeriTest published threads for static content only.
    """
    load_keys = {key: getattr(like, key) for key in _OF_THE_LOAD}
    known = {key: like.certainty[key] for key in _OF_THE_LOAD if key in like.certainty}
    if like.threads > 1:
        known |= {
            key: "choice: published only for static content"
            for key in ("threads", "threads_from")
            if key in known
        }
    changed = {"name": name, "title": f"{suite.title}, {words}", "certainty": suite.certainty | known}
    return suite.model_copy(update={**load_keys, **changed})


def parse(text: str, source: str) -> Suite:
    """Return the suite in a TOML text. Raises PlanError with all its problems."""
    suite, problems = check_model(Suite, parse_toml(text, source))
    if suite is not None:
        problems = suite_problems(suite)
    if suite is None or problems:
        raise PlanError(source, described(problems, text))
    return suite
