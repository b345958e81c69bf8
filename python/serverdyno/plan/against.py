"""Merge two plans into one experiment whose runs are interleaved, so that conditions are the same for both.

Only the servers may differ: their programs, settings and CPUs. The load and the design must be equal.
"""

from __future__ import annotations

from serverdyno.errors import UserError
from serverdyno.plan.load import LoadedPlan
from serverdyno.plan.model import ServerPlan
from serverdyno.plan.spoken import SettingsTypes
from serverdyno.plan.validate import check_plan

BEFORE, AFTER = "before", "after"
OF_THE_USER = {"name", "title", "servers"}


def against(loaded: LoadedPlan, base: LoadedPlan, settings_types: SettingsTypes) -> LoadedPlan:
    """Return a plan with the servers of both plans. The servers of `base`, the baseline, come first.

    Raises UserError if the plans differ in anything but their servers, or if they have too many servers together.
    """
    plan = loaded.plan
    own, other = (_all_but_servers(each) for each in (loaded, base))
    if unlike := [
        f"  {key}: {own[key]}, against {other.get(key)}" for key in own if own[key] != other.get(key)
    ]:
        raise UserError(
            "the two plans can't run in one experiment, because they differ in more than their servers:\n"
            + "\n".join(unlike),
            hint="Make these equal in both plans.",
        )
    servers = [
        *(_named(server, BEFORE) for server in base.plan.servers),
        *(_named(server, AFTER) for server in plan.servers),
    ]
    merged = plan.model_copy(update={"servers": servers, "title": f"{plan.title}, against {base.plan.title}"})
    _, problems = check_plan(merged.model_dump(exclude_defaults=True), settings_types, known=loaded.suites)
    if problems:
        raise UserError("the two plans together: " + "; ".join(found.message for found in problems))
    return LoadedPlan(merged, loaded.suites, _texts(loaded.text, base.text))


def _all_but_servers(loaded: LoadedPlan) -> dict[str, object]:
    return {
        **loaded.plan.model_dump(exclude=OF_THE_USER),
        **{
            f"{suite.name}'s {key}": value
            for suite in loaded.suites
            for key, value in suite.parameters().items()
        },
    }


def _texts(plan: str, base: str) -> str:
    """Return the text of `plan`, followed by `base` as a comment."""
    commented = "".join(f"# {line}\n" for line in base.splitlines())
    return f"{plan}\n# Run against this plan, interleaved with it:\n{commented}"


def _named(server: ServerPlan, which: str) -> ServerPlan:
    return server.model_copy(update={"name": f"{which}-{server.name or server.server}"})
