"""The plan behind `dyno load`: one URL that the user runs, and a suite made from a few options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from serverdyno.errors import PlanError
from serverdyno.plan.check_suite import MIN_WINDOW_S, suite_problems
from serverdyno.plan.document import Problem, check_model
from serverdyno.plan.locate import KeyPath
from serverdyno.plan.model import Plan, Suite
from serverdyno.plan.quick_http import HttpOptions
from serverdyno.plan.validate import cpu_problems, goes_to_loopback, url_problem
from serverdyno.protocols.documents import DOCUMENTS, SESSION
from serverdyno.protocols.http import HTTP, STREAMS

NAME = "load"
RAMP_SHARE = 0.1  # of the length, at either end
WINDOW_SHARE = 1 - 2 * RAMP_SHARE
STAND_IN_RATES = [1]
SEARCHED_RATES = [100, 200_000]
"""Where --objective looks without --rate, in requests/s."""
STAND_IN_CLIENTS, STAND_IN_LENGTH_S = [1], MIN_WINDOW_S / WINDOW_SHARE
SESSION_OPTION = "--session"
NO_COUNTS = "is not a list of numbers like 1,4,8,16"
_COUNT = re.compile(r"\s*\d{1,9}\s*", re.ASCII)
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(s|m|)", re.ASCII)
_OPTIONS: dict[KeyPath, str] = {
    ("clients",): "--clients",
    ("open", "rate_per_s"): "--rate",
    ("open", "law"): "--arrivals",
    ("open", "objective"): "--objective",
    ("open", "most_trials"): "--trials",
    ("length_s",): "--length",
    (HTTP.section, "version"): "--http",
    (HTTP.section,): "--http, --streams, --pipeline or --keep-alive",
    (HTTP.section, "streams"): "--streams",
    (HTTP.section, "pipeline"): "--pipeline",
    ("threads",): "--streams or --pipeline",
    (HTTP.section, "request"): "--header, --data or --expect-status",
    (HTTP.section, "request", "method"): "--method",
    (HTTP.section, "request", "authorization"): "--auth",
    (HTTP.section, "request", "authorization_variable"): "--auth-variable",
    (HTTP.section, "request", "body_bytes"): "--expect-bytes",
    (HTTP.section, "tls"): "--tls-min, --tls-max or --ciphers",
    (HTTP.section, "tls", "resumption"): "--resumption",
    (DOCUMENTS.section,): "--urls",
    (DOCUMENTS.section, "steps"): SESSION_OPTION,
    ("repetitions",): "--repetitions",
    ("servers", 0, "url"): "URL",
    ("servers", 0, "bounds"): "--max-rate",
    ("servers", 0, "settings", "connect_to"): "--resolve or --unix-socket",
    ("generator", "threads"): "--threads",
    ("generator", "cpus"): "--cpus",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickOptions:
    """The options of `dyno load`, as given."""

    url: str
    clients: str
    length: str
    repetitions: int
    http_version: str
    keep_alive: bool
    streams: int | None = None
    pipeline: int | None = None
    max_rate_per_s: float | None
    threads: int = 1
    cpus: str | None = None
    rate: str | None = None
    objective: str | None = None
    most_trials: int | None = None
    arrivals: str = "poisson"
    requests: HttpOptions = field(default_factory=HttpOptions)

    @property
    def is_open(self) -> bool:
        """Whether requests come at a rate of their own."""
        return self.rate is not None or self.objective is not None

    def command(self) -> str:
        """The command line that has these options."""
        words = ["dyno", "load", self.url, "--clients", self.clients, "--length", self.length]
        if self.is_open:
            words += ["--rate", ",".join(map(str, _rates(self))), "--arrivals", self.arrivals]
        if self.objective is not None:
            words += ["--objective", self.objective]
        if self.most_trials is not None:
            words += ["--trials", str(self.most_trials)]
        words += ["--repetitions", str(self.repetitions), "--http", self.http_version]
        words += ["--keep-alive" if self.keep_alive else "--no-keep-alive"]
        if self.streams is not None:
            words += ["--streams", str(self.streams)]
        if self.pipeline is not None:
            words += ["--pipeline", str(self.pipeline)]
        if self.max_rate_per_s is not None:
            words += ["--max-rate", f"{self.max_rate_per_s:g}"]
        if self.threads != 1:
            words += ["--threads", str(self.threads)]
        if self.cpus is not None:
            words += ["--cpus", self.cpus]
        return shlex.join([*words, *self.requests.command()])


def quick_plan(options: QuickOptions) -> tuple[Plan, Suite, str]:
    """The plan, its suite, and the command as the plan's text. Raises PlanError with every mistaken option."""
    clients, length_s = counts(options.clients), _seconds(options.length)
    problems = [
        *_url_problems(options),
        *options.requests.problems(options.url),
        *_unreadable(options, clients, length_s),
    ]
    # What can't be read is stood in for, so that everything else is checked as well.
    clients, length_s = clients or STAND_IN_CLIENTS, length_s or STAND_IN_LENGTH_S
    suite, unsound = check_model(Suite, _suite(options, clients, length_s))
    plan, unsound_too = check_model(Plan, _plan(options, clients, length_s))
    problems += [*_by_option(unsound), *_by_option(unsound_too)]
    if suite is not None and not problems:
        problems += _by_option(suite_problems(suite))
    if plan is not None:
        problems += _by_option(cpu_problems(("generator", "cpus"), plan.generator.cpus))
    if suite is None or plan is None or problems:
        raise PlanError("dyno load", problems)
    return plan, suite, f"# Made by: {options.command()}\n"


def _suite(options: QuickOptions, clients: list[int], length_s: float) -> dict[str, Any]:
    return {
        "name": NAME,
        "title": _title(options),
        "source": "the options of `dyno load`",
        "workload": "url" if options.requests.session is None else SESSION,
        "clients": clients,
        "threads": (options.streams or STREAMS) if options.http_version == "2" else options.pipeline or 1,
        "length_s": length_s,
        "ramp_up_s": length_s * RAMP_SHARE,
        "ramp_down_s": length_s * RAMP_SHARE,
        "leave_after_errors": None,
        **_open(options),
        HTTP.section: {
            "version": options.http_version,
            "keep_alive": options.keep_alive,
            **({} if options.streams is None else {"streams": options.streams}),
            **({} if options.pipeline is None else {"pipeline": options.pipeline}),
            **options.requests.section(),
        },
        **({DOCUMENTS.section: documents} if (documents := options.requests.documents()) else {}),
    }


def _title(options: QuickOptions) -> str:
    what = "One URL" if options.requests.session is None else "One session"
    if options.objective is not None:
        return f"{what}, the highest rate that holds {options.objective}"
    return f"{what}, {'requests that come at a rate of their own' if options.is_open else 'more and more clients'}"


def _open(options: QuickOptions) -> dict[str, Any]:
    if not options.is_open:
        return {}
    rates = _rates(options) or (STAND_IN_RATES if options.objective is None else SEARCHED_RATES)
    found = {"rate_per_s": rates, "law": options.arrivals, "objective": options.objective}
    return {"open": found if options.most_trials is None else {**found, "most_trials": options.most_trials}}


def _rates(options: QuickOptions) -> list[int]:
    """Those that are given; of a search without any, as far as half of the bound, which delays what comes closer."""
    if options.rate is not None or options.max_rate_per_s is None:
        return SEARCHED_RATES if options.rate is None else counts(options.rate)
    highest = max(2, min(SEARCHED_RATES[1], int(options.max_rate_per_s / 2)))
    return [min(SEARCHED_RATES[0], highest - 1), highest]


def _plan(options: QuickOptions, clients: list[int], length_s: float) -> dict[str, Any]:
    server: dict[str, Any] = {"server": "external", "name": "target", "url": options.url}
    if trust := options.requests.server_settings():
        server["settings"] = trust
    if options.max_rate_per_s is not None:
        server["bounds"] = {
            "max_clients": max(1, *clients),
            "max_rate_per_s": options.max_rate_per_s,
            "max_length_s": length_s,
        }
    return {
        "name": NAME,
        "title": f"Load on {options.url}",
        "suite": NAME,
        "repetitions": options.repetitions,
        "generator": {"threads": options.threads, "cpus": counts(options.cpus or "")},
        "servers": [server],
    }


def _url_problems(options: QuickOptions) -> Iterator[str]:
    if problem := url_problem(options.url, HTTP.schemes):
        yield f"URL: {problem}"
    elif not goes_to_loopback(options.url, options.requests.connect_to()) and options.max_rate_per_s is None:
        yield "--max-rate: needed, because the target is not on this machine"


def _unreadable(options: QuickOptions, clients: list[int], length_s: float | None) -> Iterator[str]:
    if not clients:
        yield f"--clients: {options.clients!r} {NO_COUNTS}"
    elif any(after <= before for before, after in pairwise(clients)):
        yield f"--clients: {options.clients!r} does not grow from number to number, as a curve must"
    if options.is_open:
        yield from _unreadable_rate(options, clients)
    if options.most_trials is not None and options.objective is None:
        yield "--trials: only with --objective"
    if options.cpus is not None and not counts(options.cpus):
        yield f"--cpus: {options.cpus!r} is not a list of CPU numbers like 0,2"
    if length_s is None:
        yield f"--length: {options.length!r} is not a length like 10s or 2m"
    elif length_s * WINDOW_SHARE < MIN_WINDOW_S:
        yield (
            f"--length: {options.length!r} leaves {length_s * WINDOW_SHARE:g} s between the ramps, less than "
            f"{MIN_WINDOW_S:g} s; use at least {MIN_WINDOW_S / WINDOW_SHARE:g}s"
        )


def _unreadable_rate(options: QuickOptions, clients: list[int]) -> Iterator[str]:
    rates = _rates(options)
    if options.objective is not None and len(rates) != 2:
        yield f"--rate: {options.rate!r} is not the lowest and the highest rate to try, as in 100,20000"
    elif not rates:
        yield f"--rate: {options.rate!r} is not a list of whole requests a second like 1000,2000"
    elif options.max_rate_per_s is not None and options.max_rate_per_s < max(rates):
        yield f"--max-rate: {options.max_rate_per_s:g} is below the highest rate, {max(rates)}"
    if len(clients) > 1:
        yield "--clients: one number with --rate or --objective: the connections that serve what comes"


def _by_option(problems: Iterable[Problem]) -> Iterator[str]:
    """Problems of the suite and the plan, under the names of the options that they come from."""
    for problem in problems:
        depth = next(
            (depth for depth in range(len(problem.path), 0, -1) if problem.path[:depth] in _OPTIONS), 0
        )
        option = _OPTIONS.get(problem.path[:depth], ".".join(map(str, problem.path)))
        yield f"{option}: {_within(problem.path[depth:]) if option == SESSION_OPTION else ''}{problem.message}"


def _within(path: KeyPath) -> str:
    """`step 2, path: ` of a place below the list of steps."""
    if not path:
        return ""
    place, *keys = path
    step = f"step {place + 1}" if isinstance(place, int) else f"{place}"
    return f"{', '.join([step, '.'.join(map(str, keys))] if keys else [step])}: "


def counts(text: str) -> list[int]:
    """Return the numbers in `1,4,8`, or none of anything else."""
    parts = text.split(",")
    return [int(part) for part in parts] if all(map(_COUNT.fullmatch, parts)) else []


def _seconds(text: str) -> float | None:
    """`10s`, `2m` or `10`; None of anything else."""
    match = _LENGTH.fullmatch(text.strip())
    return None if match is None else float(match[1]) * (60 if match[2] == "m" else 1)
