"""Check that a suite makes sense beyond the type of each field: that its times fit together and its load grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from serverdyno.errors import PlanError
from serverdyno.plan.document import Problem, sentence
from serverdyno.plan.expand import levels
from serverdyno.plan.model import MAX_CLIENTS, OF_LEVELS_IN_TIME, Bounds, Level, Suite
from serverdyno.plan.protocols.bonnie import MOST_SESSIONS

# A shorter window shows momentary noise of the machine instead of the server's speed.
MIN_WINDOW_S = 1.0


def check_suite(suite: Suite, scale: float, source: str) -> None:
    """Check a suite at its full length, then scaled. Raises PlanError with every problem."""
    problems = suite_problems(suite)
    if not problems:
        problems = scale_problems(suite, scale)
    if problems:
        raise PlanError(source, [sentence(problem) for problem in problems])


def suite_problems(suite: Suite) -> list[Problem]:
    return [
        *_time_problems(suite),
        *_load_problems(suite),
        *_open_problems(suite),
        *_operations_problems(suite),
        *_work_problems(suite),
        *_step_problems(suite),
    ]


def scale_problems(suite: Suite, scale: float) -> list[Problem]:
    """Return a problem if scaling makes the window too short. Levels that end when done have no window."""
    window_s = levels(suite, scale)[0].window_s
    if window_s >= MIN_WINDOW_S or suite.ends_when_done:
        return []
    full_window_s = suite.length_s - suite.ramp_up_s - suite.ramp_down_s
    least = MIN_WINDOW_S / full_window_s
    advice = f"use at least {least:.4f}" if least <= 1 else "the suite itself is too short"
    return [Problem(("scale",), f"leaves a window of {window_s:g} s, less than {MIN_WINDOW_S:g} s; {advice}")]


def rate_problem(suite: Suite, bounds: Bounds) -> str | None:
    """Return why the rate limit is too low for the offered rates; None if it is high enough."""
    if suite.open is None or not suite.open.rate_per_s:
        return None
    requests = suite.work.requests_per_operation(suite.settings(suite.work))
    rate = max(suite.open.rate_per_s)
    if rate * requests <= bounds.max_rate_per_s:
        return None
    each = (
        "" if requests == 1 else f" {suite.terms.operations}/s with {requests:.3g} requests each on average"
    )
    return f"{bounds.max_rate_per_s:g} is below the highest rate, {rate}{each}"


def bounds_problems(
    path: tuple[str | int, ...], bounds: Bounds, planned: Sequence[Level], suites: Sequence[Suite]
) -> Iterator[Problem]:
    """Yield a problem for each bound that the planned levels of the suites exceed."""
    clients = max(level.clients for level in planned)
    if clients > bounds.max_clients:
        message = f"{bounds.max_clients}, but the suite has up to {clients} clients"
        yield Problem((*path, "max_clients"), message)
    # Levels that end when their work is done are not checked: they are stopped at this bound.
    length_s = max(level.planned_s for level in planned)
    if length_s > bounds.max_length_s:
        yield Problem((*path, "max_length_s"), f"{bounds.max_length_s:g} s, but a level takes {length_s:g} s")
    for message in filter(None, (rate_problem(suite, bounds) for suite in suites)):
        yield Problem((*path, "max_rate_per_s"), message)


def _time_problems(suite: Suite) -> list[Problem]:
    ramps_s = suite.ramp_up_s + suite.ramp_down_s
    window_s = suite.length_s - ramps_s
    if window_s <= 0:
        message = (
            f"{suite.length_s:g} s includes both ramps, which together take {ramps_s:g} s: nothing is left "
            "to measure"
        )
        return [Problem(("length_s",), message)]
    problems = []
    if suite.delay_s > suite.ramp_up_s:
        message = f"clients may start up to {suite.delay_s:g} s late, but the ramp up lasts only {suite.ramp_up_s:g} s"
        problems.append(
            Problem(("delay_s",), f"{message}: the window would begin with fewer clients than planned")
        )
    if suite.think_time_s >= window_s:
        message = f"{suite.think_time_s:g} s is not shorter than the window of {window_s:g} s"
        problems.append(Problem(("think_time_s",), message))
    pace = suite.work.operations_per_client_s(suite.settings(suite.work))
    if suite.think_time_s > 0 and pace is not None:
        message = (
            f"clients have a pace of {pace:g} operations/s (operations_per_client_s), which already sets "
            "the time of each operation: remove one of the two"
        )
        problems.append(Problem(("think_time_s",), message))
    return problems


def _step_problems(suite: Suite) -> list[Problem]:
    """Return the problems with settings of a suite whose levels end when their work is done."""
    if not suite.ends_when_done:
        return []
    found = [
        Problem((key,), "has no effect on levels that end when their work is done")
        for key in OF_LEVELS_IN_TIME
        if getattr(suite, key) != Suite.model_fields[key].default
    ]
    if suite.workload == "scenario" and suite.clients != [1]:
        found.append(Problem(("clients",), "must be 1, because the steps define their own clients"))
    elif len(suite.clients) != 1:
        found.append(Problem(("clients",), "must be a single number"))
    if (most := max(level.clients for level in levels(suite))) > MOST_SESSIONS:
        message = f"a level would have {most:,} sessions, each with a thread; the limit is {MOST_SESSIONS:,}"
        found.append(Problem(("clients",), message))
    return found


def _operations_problems(suite: Suite) -> list[Problem]:
    """Return the problems with settings that conflict with `operations`, which ends a level after that number."""
    if suite.operations is None:
        return []
    most = max(level.clients * level.threads for level in levels(suite))
    each = "one per connection" if suite.threads == 1 else "one for each concurrent request"
    wrong = {
        "only allowed for web servers, because clients of file servers complete whole "
        "passes": not suite.work.uses_documents,
        "not allowed with open load, because the rate and the length determine the number of "
        "operations": suite.open is not None,
        "not allowed with ramps, because every operation counts": bool(suite.ramp_up_s or suite.ramp_down_s),
        f"must be at least {most:,}, {each}": suite.operations < most,
    }
    return [Problem(("operations",), message) for message, found in wrong.items() if found]


def _work_problems(suite: Suite) -> list[Problem]:
    """Return the problems that the kind of work finds in the suite's settings."""
    one_thread = suite.threads == 1 and not suite.threads_from
    settings = suite.settings(suite.work)
    paced = suite.work.operations_per_client_s(settings) is not None
    at_once = suite.think_time_s == 0 and suite.open is None and not paced
    found = suite.work.problems(settings, suite.workload, one_thread=one_thread, at_once=at_once)
    return [Problem(path, message) for path, message in found]


def _open_problems(suite: Suite) -> list[Problem]:
    """Return the problems with settings of open load."""
    if suite.open is None:
        return [Problem(("axis",), "rate requires a suite with [open]")] if suite.axis == "rate" else []
    problems = [
        Problem(
            ("open", key, index),
            f"{after}{unit} after {before}{unit}: the load must grow from level to level",
        )
        for key, unit, rates in (
            ("rate_per_s", "/s", suite.open.rate_per_s),
            ("percent_of_peak", " %", suite.open.percent_of_peak),
        )
        for index, (before, after) in enumerate(pairwise(rates), start=1)
        if after <= before
    ]
    if suite.open.objective is not None and len(suite.open.rate_per_s) != 2:
        message = "with an objective, must be two numbers: the lowest and the highest rate to try"
        problems.append(Problem(("open", "rate_per_s"), message))
    for holds, key, message in (
        (suite.axis == "rate", "axis", "clients: a suite with [open] increases its rate, not its clients"),
        (
            len(suite.clients) == 1,
            "clients",
            "with a rate, must be a single number: the connections at every level",
        ),
        (
            suite.think_time_s == 0,
            "think_time_s",
            "open load has no think time",
        ),
        (
            suite.delay_s == 0,
            "delay_s",
            "open load has no delay, because operations are due from the start",
        ),
        (
            suite.work.takes_open_load(suite.workload),
            "open",
            f"not possible with {suite.workload}, because the next operation of its clients depends on the "
            "last answer",
        ),
    ):
        if not holds:
            problems.append(Problem((key,), message))
    return problems


def _load_problems(suite: Suite) -> list[Problem]:
    problems = [
        Problem(("clients", index), f"{after} clients after {before}: the load must grow from level to level")
        for index, (before, after) in enumerate(pairwise(suite.clients), start=1)
        if after <= before
    ]
    problems += [
        Problem(
            ("threads_from", index, "clients"),
            f"{after.clients} clients after {before.clients}: each step must begin at a higher number of clients",
        )
        for index, (before, after) in enumerate(pairwise(suite.threads_from), start=1)
        if after.clients <= before.clients
    ]
    problems += [
        Problem(
            ("threads_from", index, "clients"), f"never applies: no level has {step.clients} clients or more"
        )
        for index, step in enumerate(suite.threads_from)
        if step.clients > max(suite.clients)
    ]
    most = max(level.clients * level.threads for level in levels(suite))
    if most > MAX_CLIENTS:
        problems.append(
            Problem(("threads",), f"a level would have {most:,} connections; the limit is {MAX_CLIENTS:,}")
        )
    return problems
