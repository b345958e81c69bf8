"""The suite after a suite: the same parameters with more load, for a server whose peak was not passed.

VeriTest met curves that still rose at their last mix four times in 2003, and each time wrote the next suite by hand:
first more clients, then more threads on each (the suites `webbench-4.1-static-120`, `-4t` and `-10t-15t`). What was
measured before stays in the suite, so that one suite has the whole curve and every configuration meets all of it.

Whether an extension is called for is not decided here: that takes an experiment.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import tomli_w

from serverdyno.errors import PlanError, UserError
from serverdyno.plan.check_suite import suite_problems
from serverdyno.plan.document import check_model, sentence
from serverdyno.plan.expand import mixes
from serverdyno.plan.model import Suite

GROWTH = 2
"""The new suite goes to at least this many times the load."""
MOST_NEW_MIXES = 64
MOST_THREADS = 1000  # the model's own limit
_MOST_NAME = 63


class Growth(StrEnum):
    """What there is more of."""

    CLIENTS = "clients"
    THREADS = "threads"


def extended(suite: Suite, growth: Growth, reason: str) -> Suite:
    """The next suite. `reason`: why, as it ends the sentence "extended because ...", on one line.

    Clients: the last step is continued until twice the clients; a suite whose clients grew by a factor goes on
    with the factor. Threads: the same clients with twice the threads each. Raises UserError where the suite can't grow.
    """
    grow = _more_clients if growth is Growth.CLIENTS else _more_threads
    grown, problems = check_model(Suite, grow(suite, reason))
    if grown is not None:
        problems = suite_problems(grown)
    if grown is None or problems:
        raise PlanError(f"{suite.name} with more {growth}", [sentence(problem) for problem in problems])
    return grown


def as_toml(suite: Suite, comment: str) -> str:
    """A suite as its TOML file, with one line of comment. Raises UserError for what TOML can't say."""
    document = suite.model_dump(mode="json", exclude_defaults=True)
    if (unset := _unset(document)) is not None:
        raise UserError(
            f"{suite.name} has {unset} switched off, which a suite file can't say",
            hint="Give `dyno load` larger --clients instead.",
        )
    # What is at its default is said all the same, where it is a number of the load and its certainty is.
    said = {key: value for key, value in suite.model_dump(mode="json").items() if key in suite.certainty}
    keys = [*Suite.model_fields, *Suite.tables()]
    ordered = {key: said.get(key, document.get(key)) for key in keys if key in said or key in document}
    return f"# {comment}\n\n{tomli_w.dumps(ordered)}"


def next_clients(clients: list[int]) -> list[int]:
    """What comes after these, until twice the last of them or a little more.

    By the last step; by the last factor where the clients grew by the same factor twice and by different steps.
    """
    last = clients[-1]
    step = last - clients[-2] if len(clients) > 1 else last
    by_factor = (
        len(clients) > 2 and clients[-2] ** 2 == clients[-3] * last and clients[-2] - clients[-3] != step
    )
    more: list[int] = []
    while (more[-1] if more else last) < GROWTH * last:
        largest = more[-1] if more else last
        more.append(largest * last // clients[-2] if by_factor else largest + step)
    return more


def _more_clients(suite: Suite, reason: str) -> dict[str, Any]:
    more = next_clients(suite.clients)
    if len(more) > MOST_NEW_MIXES:
        raise UserError(
            f"twice the clients of {suite.name} in steps of {more[1] - more[0]} are {len(more)} more mixes",
            hint="Extend it with `--by threads`.",
        )
    return _changed(
        suite,
        {"clients": [*suite.clients, *more]},
        suffix=f"-to-{more[-1]}c",
        said=f"extended to {more[-1]} clients",
        reason=reason,
    )


def _more_threads(suite: Suite, reason: str) -> dict[str, Any]:
    changed: dict[str, Any] = {"threads": suite.threads * GROWTH}
    if suite.threads_from:
        changed["threads_from"] = [
            {"clients": step.clients, "threads": step.threads * GROWTH} for step in suite.threads_from
        ]
    most = max(mix.threads for mix in mixes(suite)) * GROWTH
    if most > MOST_THREADS:
        message = f"{most} threads a client, more than {MOST_THREADS}"
        raise UserError(message, hint="Extend it with `--by clients`.")
    return _changed(
        suite,
        changed,
        suffix=f"-x{most}t",
        said=f"extended to {most} threads a client",
        reason=reason,
    )


def _changed(suite: Suite, changed: dict[str, Any], *, suffix: str, said: str, reason: str) -> dict[str, Any]:
    """The suite with those parameters, under a name and with a certainty that say that they are ours."""
    kept = suite.model_dump()
    certainty = dict(suite.certainty)
    for parameter in changed:
        before = certainty.get(parameter)
        was = f"; before that, {before}" if before and "extended because" not in before else ""
        certainty[parameter] = f"choice: extended because {reason}{was}"
    note = f"Not a published suite: {suite.name}, {said}."
    # A second extension of the same kind takes the place of the first in the name.
    first_name = re.sub(re.sub(r"\d+", r"\\d+", suffix) + "$", "", suite.name)
    name = first_name[: _MOST_NAME - len(suffix)] + suffix
    return {
        **kept,
        **changed,
        "name": name,
        "title": f"{suite.title}, {said}",
        "description": f"{suite.description.strip()} {note}".strip(),
        "certainty": certainty,
    }


def _unset(table: dict[str, Any]) -> str | None:
    """The path of the first parameter without a value; TOML has no null."""
    for key, value in table.items():
        if value is None:
            return key
        if isinstance(value, dict) and (inside := _unset(value)) is not None:
            return f"{key}.{inside}"
    return None
