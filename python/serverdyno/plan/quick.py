"""The plan behind `dyno load`: one URL that the user runs, and a suite made from a few options."""

from __future__ import annotations

import re
import shlex
from typing import Any, TypeVar

from pydantic import ValidationError

from serverdyno.errors import UserError
from serverdyno.plan.check_suite import check_suite
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.validate import is_loopback, url_problem

M = TypeVar("M", Plan, Suite)
RAMP_SHARE = 0.1
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(s|m|)")


def quick_plan(
    url: str,
    *,
    clients: str,
    length: str,
    repetitions: int,
    http_version: str,
    keep_alive: bool,
    max_rate_per_s: float | None,
) -> tuple[Plan, Suite, str]:
    """The plan, its suite, and the command as the plan's text. Raises UserError with every mistaken option."""
    problems = []
    if problem := url_problem(url):
        problems.append(f"URL: {problem}")
    elif not is_loopback(url) and max_rate_per_s is None:
        problems.append("--max-rate: needed, because the target is not on this machine")
    counts = _counts(clients, problems)
    length_s = _seconds(length, problems)
    if problems:
        raise UserError("\n".join(problems), hint="dyno load --help shows an example.")
    suite = _suite(counts, length_s, http_version, keep_alive)
    check_suite(suite, 1.0, "dyno load")
    server: dict[str, Any] = {"server": "external", "name": "target", "url": url}
    if max_rate_per_s is not None:
        server["bounds"] = {
            "max_clients": max(counts),
            "max_rate_per_s": max_rate_per_s,
            "max_length_s": length_s,
        }
    plan = _checked(
        Plan,
        {
            "name": "load",
            "title": f"Load on {url}",
            "suite": "load",
            "repetitions": repetitions,
            "servers": [server],
        },
    )
    command = shlex.join(["dyno", "load", url, "--clients", clients, "--length", length])
    return plan, suite, f"# Made by: {command}\n"


def _suite(clients: list[int], length_s: float, http_version: str, keep_alive: bool) -> Suite:
    ramp_s = length_s * RAMP_SHARE
    return _checked(
        Suite,
        {
            "name": "load",
            "title": "One URL, more and more clients",
            "source": "the options of `dyno load`",
            "workload": "url",
            "clients": clients,
            "length_s": length_s,
            "ramp_up_s": ramp_s,
            "ramp_down_s": ramp_s,
            "leave_after_errors": None,
            "http": {"version": http_version, "keep_alive": keep_alive},
        },
    )


def _checked(model: type[M], data: dict[str, Any]) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()]
        raise UserError("\n".join(problems), hint="dyno load --help shows an example.") from None


def _counts(text: str, problems: list[str]) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        problems.append(f"--clients: {text!r} is not a list of numbers like 1,4,8,16")
        return []
    counts = [int(part) for part in parts]
    if counts != sorted(set(counts)):
        problems.append("--clients: the numbers must grow, so that the table is a curve")
    return counts


def _seconds(text: str, problems: list[str]) -> float:
    """`10s`, `2m` or `10`."""
    match = _LENGTH.fullmatch(text.strip())
    if match is None or float(match[1]) < 1:
        problems.append(f"--length: {text!r} is not a length of a second or more, like 10s or 2m")
        return 0.0
    return float(match[1]) * (60 if match[2] == "m" else 1)
