"""The check before load: a few operations by the load's client show whether the server can serve the workload.

It only stops runs that can never work: the server gives no answer, or only wrong ones. Otherwise it warns, and the
load counts the errors. `run/ask.py` checks the state of a file server's shares.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from serverdyno import _native
from serverdyno.counted import Counted, ErrorRow
from serverdyno.errors import ServerError, WorkloadError, no_answer
from serverdyno.fleet import local
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.model import Bounds, Level
from serverdyno.plan.protocols.http import BODILESS, EMPTY_HINT, HTTP
from serverdyno.plan.protocols.http_request import RequestSettings
from serverdyno.servers import waiting

PREFLIGHT_S = 0.3
MOST_ATTEMPTS = 5
PAUSE_S = 0.2
"""Pause between two attempts, unless the rate limit requires a longer one.

The pause lets a server with a rate limit recover from a burst.
"""
PATH_HINT = (
    "Correct or remove this path. If its status is right, list all right ones: --expect-status 200,404."
)
"""Hint for a path whose status is wrong. Other paths of the same host may be right."""
ENDED = {
    "connection_refused",
    "connection_reset",
    "closed_early",
    "truncated",
    "connect_timeout",
    "handshake_refused",
    "handshake_timeout",
    "response_timeout",
}
"""Faults of a server that no longer answers, or of a limit that no longer lets this machine's connections through."""
ANSWERED_BEFORE = (
    "The URL answered before this load level. The server, or a firewall, may limit the connections of one address, or "
    "may have banned this one (HAProxy: stick-table; fail2ban; iptables: connlimit): use fewer clients, kept "
    "connections or --max-rate, or make an exception for this address. Otherwise, the server may be overloaded or may "
    "have ended: look at its log."
)
WITHOUT_BODY = [204, 205, 304]
"""Statuses whose answers have no body (RFC 9110, 15.3.5, 15.3.6 and 15.4.5)."""
FINAL = {
    "connection_refused",
    "connect_timeout",
    "unreachable",
    "response_timeout",
    "handshake_timeout",
    "handshake_refused",
    "nothing_in_common",
    "malformed_record",
    "certificate_expired",
    "certificate_invalid",
    "untrusted_certificate",
    "wrong_certificate_name",
    "not_http2",
    "session_refused",
    "access_denied",
    "no_space",
}
"""Faults that another attempt would repeat. Other faults, such as a broken connection, may occur only once."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The result of the check. `server` is the name that a web server gives itself.

    `warning` contains the error and a remedy if not every answer was correct; None if all were.
    """

    results: Sequence[Counted]
    server: str | None
    warning: tuple[str, str | None] | None
    notes: Sequence[str] = ()
    """Facts for the server's disclosure."""


def preflight(setup: LoadSetup, level: Level, *, again: bool = False) -> Preflight:
    """Repeat attempts until one has no error, at most five times. Raises ServerError if the run can never work.

    `again`: an earlier check of the run succeeded.
    """
    work = setup.suite.work
    operations = work.check_operations(setup.suite.workload, setup.suite.settings(work))
    calm = _calm(setup, level)
    # A single operation may take up to the timeout of the load.
    length_s = setup.suite.timeout_s + 1 if operations == 1 else PREFLIGHT_S
    # Respect the rate limit, because the server was queried just before this check. The pause at the end precedes the
    # load.
    pause(calm.bounds, 0)
    results = [_attempt(calm, level, operations, length_s)]
    while results[-1].errors and len(results) < MOST_ATTEMPTS:
        limits_rate = any(error.fault == "slow_down" for error in results[-1].errors)
        if not limits_rate:
            _refuse_at_once(setup, results, again=again)
        pause(calm.bounds, PAUSE_S)
        if operations == 1 or limits_rate:
            # A server may refuse only the first request of each connection. So the further requests share one
            # connection, as in the load. A server that limits the rate would refuse most of another quick attempt.
            results.append(_attempt(_paced(calm), level, MOST_ATTEMPTS - 1, MOST_ATTEMPTS * length_s))
            break
        results.append(_attempt(calm, level, operations, length_s, seed=len(results)))
    worst = _worst(results)
    if worst is not None and not any(result.operations_total for result in results):
        raise _refusal(setup, results, worst, again=again)
    if results[-1].errors:
        _refuse_at_once(setup, results, again=again)
    claims = [result.server for result in results if result.server is not None]
    warning = _failing_path(setup, calm, level, length_s) or _warning(setup, results, worst)
    if warning is None and operations == 1:
        warning = _too_slow(setup, level, results[0].window_s)
    notes: list[str] = []
    if warning is None and _is_empty(setup, results):
        if _has_no_body(calm, level, length_s):
            notes.append(BODILESS)
        else:
            warning = f"{setup.target.url}: the answer is empty", EMPTY_HINT
    pause(calm.bounds, 0)
    return Preflight(results, claims[0] if claims else None, warning, notes)


def _attempt(
    setup: LoadSetup, level: Level, operations: int | None, length_s: float, seed: int = 0
) -> Counted:
    """Generate load for a short time, with one client or one client per share."""
    clients = local.clients_of_check(setup)
    if operations is None and level.rate_per_s is not None:
        # As many operations as arrive in this time.
        operations = max(clients, int(level.rate_per_s * length_s))
    short = replace(
        level,
        clients=clients,
        threads=1,
        length_s=length_s,
        ramp_up_s=0.0,
        ramp_down_s=0.0,
        delay_s=0.0,
        think_time_s=0.0,
        rate_per_s=None,
        operations=operations,
    )
    return local.run_level(short, setup, seed=seed, on_tick=lambda *_: None)


def _paced(setup: LoadSetup) -> LoadSetup:
    """Return the setup with a pause before each operation."""
    rates = [1 / PAUSE_S, *([setup.bounds.max_rate_per_s] if setup.bounds else [])]
    bounds = Bounds(max_clients=local.clients_of_check(setup), max_rate_per_s=min(rates), max_length_s=1)
    return replace(setup, bounds=bounds)


def _calm(setup: LoadSetup, level: Level) -> LoadSetup:
    """Return the setup without an outage, and limited to the load's rate if an operation is one request."""
    work = setup.suite.work
    suite = setup.suite.with_settings(work, work.undisturbed(setup.suite.settings(work)))
    rates = [setup.bounds.max_rate_per_s] if setup.bounds else []
    rates += [level.rate_per_s] if level.rate_per_s is not None and work.uses_documents else []
    bounds = Bounds(max_clients=level.clients, max_rate_per_s=min(rates), max_length_s=1) if rates else None
    return replace(setup, suite=suite, bounds=bounds)


def pause(bounds: Bounds | None, least_s: float) -> None:
    """Wait until another attempt is due: after `least_s`, or after one request at the rate limit."""
    until = time.monotonic() + max(least_s, 1 / bounds.max_rate_per_s if bounds else 0)
    while (left_s := until - time.monotonic()) > 0:
        waiting.look()
        time.sleep(min(local.TICK_S, left_s))


def _refuse_at_once(setup: LoadSetup, results: Sequence[Counted], *, again: bool) -> None:
    """Raise ServerError if another attempt would have the same result."""
    served = any(result.operations_total for result in results)
    for error in results[-1].errors:
        # Each share has its own client, so one client's success does not excuse the refusal of another.
        if error.fault == "session_refused" or (_is_final(error) and not served):
            raise _refusal(setup, results, error, again=again)
    worst = _worst(results)
    if worst is not None and _class_fails(results):
        raise _refusal(setup, results, worst, again=again)


def _is_final(error: ErrorRow) -> bool:
    return error.fault in FINAL or error.side == "client"


def _class_fails(results: Sequence[Counted]) -> bool:
    """Return whether one class of operations has failed five times and never succeeded."""
    classes: dict[str, list[int]] = {}
    for row in (row for result in results for row in result.by_operation):
        counts = classes.setdefault(row.operation, [0, 0])
        counts[0] += row.count
        counts[1] += row.errors
    return any(not done and failed >= MOST_ATTEMPTS for done, failed in classes.values())


def _worst(results: Sequence[Counted]) -> ErrorRow | None:
    """Return the most frequent error with its count in all attempts; None if there was none."""
    found: dict[str, ErrorRow] = {}
    for error in (error for result in results for error in result.errors):
        before = found.get(error.fault, replace(error, count=0))
        found[error.fault] = replace(before, count=before.count + error.count)
    return max(found.values(), key=lambda error: error.count, default=None)


def _refusal(setup: LoadSetup, results: Sequence[Counted], error: ErrorRow, *, again: bool) -> ServerError:
    url, work, workload = setup.target.url, setup.suite.work, setup.suite.workload
    # Only documents belong to the user. Other files and objects are ours, so the user's set-up can't make them wrong.
    if again and work.uses_documents and error.fault in ENDED:
        error = replace(error, advice=ANSWERED_BEFORE)
    of_workload = error.fault == "error_status" or (error.side == "check" and work.uses_documents)
    hint = work.workloads[workload] if of_workload and (work.uses_documents or error.advice is None) else ""
    hint = _advice(setup, error) or hint
    if work.uses_documents and _is_final(error):
        title = _title(setup)
        answer = _native.AnswerError(error.fault, error.side, error.example, error.advice)
        return no_answer(url, title, answer)
    if not work.uses_documents and error.advice is not None:
        return ServerError(f"{url}: {error.example}", hint=error.advice)
    return WorkloadError(
        f"{url} can't serve the workload: {error.example} ({_share(setup, results, error)})",
        hint=hint or error.advice,
    )


def _title(setup: LoadSetup) -> str:
    from serverdyno.plan import protocols  # noqa: PLC0415

    return protocols.of(setup.target.protocol).title


def _share(setup: LoadSetup, results: Sequence[Counted], error: ErrorRow) -> str:
    failed = sum(each.count for result in results for each in result.errors)
    asked = sum(result.operations_total for result in results) + failed
    return f"{error.count} of {asked} {setup.suite.terms.operations}"


def _failing_path(
    setup: LoadSetup, calm: LoadSetup, level: Level, length_s: float
) -> tuple[str, str | None] | None:
    """Request each path of a list, and return the warning for the first path that fails; None if none fails."""
    work = setup.suite.work
    for path, settings in work.paths_of_check(setup.suite.settings(work)).items():
        if calm.bounds:
            pause(calm.bounds, PAUSE_S)
        alone = replace(calm, suite=calm.suite.with_settings(work, settings))
        for error in _attempt(alone, level, 1, length_s).errors:
            advice = PATH_HINT if error.fault == "error_status" else error.advice
            return f"{setup.target.url}: {path}: {error.example}; the load counts such errors", advice
    return None


def _is_empty(setup: LoadSetup, results: Sequence[Counted]) -> bool:
    """Return whether plain GETs of one URL got answers without a body."""
    suite = setup.suite
    request = suite.settings(HTTP).request
    is_plain = suite.workload == "url" and not (request is not None and request.says_empty)
    return is_plain and not any(result.bytes_read for result in results)


def _has_no_body(calm: LoadSetup, level: Level, length_s: float) -> bool:
    """Request once more, and return whether the status is one whose answers have no body."""
    pause(calm.bounds, 0)
    http = calm.suite.settings(HTTP)
    request = (http.request or RequestSettings()).model_copy(update={"status": WITHOUT_BODY})
    suite = calm.suite.with_settings(HTTP, http.model_copy(update={"request": request}))
    return not _attempt(replace(calm, suite=suite), level, 1, length_s).errors


def _too_slow(setup: LoadSetup, level: Level, answer_s: float) -> tuple[str, str] | None:
    """Return a warning if an answer took as long as a load level; None if it was faster."""
    if answer_s < level.length_s:
        return None
    return (
        f"{setup.target.url}: an answer took {answer_s:.1f} s, but a load level lasts only {level.length_s:g} "
        "s, which is too short to count answers",
        f"Use longer load levels: --length {math.ceil(10 * answer_s)}s.",
    )


def _warning(
    setup: LoadSetup, results: Sequence[Counted], worst: ErrorRow | None
) -> tuple[str, str | None] | None:
    if worst is None:
        return None
    return (
        f"{setup.target.url}: a request failed in the check before the load: {worst.example} "
        f"({_share(setup, results, worst)}); the load counts such errors",
        _advice(setup, worst) or worst.advice,
    )


def _advice(setup: LoadSetup, error: ErrorRow) -> str | None:
    """Return a remedy in the settings of the work; None if they are not the cause."""
    work = setup.suite.work
    return work.advice(setup.suite.settings(work), error.fault, error.example, error.advice)
