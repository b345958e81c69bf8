"""Check the user's own servers without load, before the measurement.

All problems are reported at once, each with its configuration. Web servers must also serve a few documents of the
suite. The preflight of each run checks whether a file server supports the workload.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from serverdyno import _native, interrupts, wording
from serverdyno.errors import DynoError, GoneError, ServerError, UserError
from serverdyno.fleet import local
from serverdyno.fleet.document import NONCE_BITS
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.fleet.preflight import FINAL, MOST_ATTEMPTS, PAUSE_S, pause, preflight
from serverdyno.plan import protocols
from serverdyno.plan.model import Configuration, Level
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.protocols.files import CLIENTS_DIRECTORY
from serverdyno.plan.protocols.look import look_s
from serverdyno.plan.spoken import protocol_of
from serverdyno.run.progress import Progress
from serverdyno.run.site import HERE
from serverdyno.run.under_test import opened, served
from serverdyno.servers import waiting
from serverdyno.servers.base import Access
from serverdyno.store.head import ExperimentHead
from serverdyno.units import MIB, format_duration_s

AT_ONCE = 8  # servers checked concurrently, because one that does not answer takes up to the timeout
LOOK_S = 0.05  # interval between checks for a signal
SLOW_S = 30  # shortest preparation that the user is told about
TOLD_AFTER_S = 5  # wait before the user is told
Notice = tuple[str, str]
"""A notice for the user, and a remedy."""


def ask_users_servers(
    head: ExperimentHead, configurations: Sequence[Configuration], progress: Progress
) -> None:
    """Check that each server answers, grants access, consents to load, and has room.

    Raises DynoError with all problems, and reports files that an earlier load has left behind.
    """
    if not configurations:
        return
    progress.stage("checking that your servers answer")
    asked = _all_asked(head, configurations, progress)
    problems = [
        (_place(configuration), error)
        for configuration, (error, _) in zip(configurations, asked, strict=True)
        if error is not None
    ]
    if problems:
        raise _all_in_one(problems)
    for notice in dict.fromkeys(notice for _, notices in asked for notice in notices):
        progress.notice(*notice)


def _place(configuration: Configuration) -> str:
    """Return the name of a configuration, with the address or socket that replaces the host of its URL."""
    connect_to = configuration.settings.get("connect_to")
    return configuration.name if connect_to is None else f"{configuration.name} at {connect_to}"


def _all_asked(
    head: ExperimentHead, configurations: Sequence[Configuration], progress: Progress
) -> list[tuple[DynoError | None, list[Notice]]]:
    """Return the problem and notices of each configuration in order. Check several at a time, until a signal."""
    told_s = time.monotonic() + TOLD_AFTER_S
    with interrupts.held() as signals, ThreadPoolExecutor(AT_ONCE) as pool:
        questions = [pool.submit(_asked, head, configuration, signals) for configuration in configurations]
        while wait(questions, timeout=LOOK_S).not_done and not signals:
            if time.monotonic() >= told_s:
                timeout_s = max(
                    suite.timeout_s if suite.work.uses_documents else look_s(suite.timeout_s)
                    for suite in head.suites
                )
                progress.stage(
                    f"no answer from some of your servers after {TOLD_AFTER_S} s (timeout {timeout_s:g} s)"
                )
                told_s = math.inf
        if signals:
            pool.shutdown(cancel_futures=True)
            return []  # the signal is handled at the end of the block, and raises
        return [question.result() for question in questions]


def _asked(
    head: ExperimentHead, configuration: Configuration, signals: interrupts.Held
) -> tuple[DynoError | None, list[Notice]]:
    """Return the problem of a server, or notices about it. A signal ends every wait."""

    def obey() -> None:
        if signals:  # Python handles signals only in the main thread
            raise KeyboardInterrupt

    try:
        slow: list[Notice] = []
        with waiting.ended_by(obey), served(head, configuration, HERE) as server:
            for suite in head.suites:
                levels = head.of_suite(suite).levels
                with opened(head, configuration, server, levels) as setup:
                    looks = looked(setup, levels, sessions=_sessions(setup))
                    slow += _slow_preparation(server.access(), setup, levels)
                    if suite.work.uses_documents:
                        # Report a wrong document root before other servers are measured. A server that no longer
                        # answers fails its own run later.
                        with contextlib.suppress(GoneError):
                            preflight(setup, levels[0])
            return None, [
                *_used_before(protocol_of(configuration, head.suite), server.access(), looks),
                *_kept_versions(server.access(), looks),
                *slow,
            ]
    except DynoError as error:
        return error, []


def _sessions(setup: LoadSetup) -> int:
    """Return the largest number of concurrent sessions that a suite's steps open from this machine."""
    suite = setup.suite
    if setup.fleet is not None:
        return 0
    steps = suite.work.planned_steps(suite.settings(suite.work), suite.clients[0])
    return max((step.clients for step in steps), default=0)


def looked(setup: LoadSetup, levels: Sequence[Level], *, sessions: int = 0) -> list[_native.ShareLook]:
    """Return the state of each share; empty for a web server.

    Raises ServerError if a share can't be used, lacks room for the largest of `levels`, or refuses that many concurrent
    `sessions`. A server that does not report its free space is accepted. Like `preflight`, asks again after a failure
    that may be temporary.
    """
    for attempt in range(MOST_ATTEMPTS):
        if attempt:
            pause(setup.bounds, PAUSE_S)
        looks = setup.target.look(secrets.randbits(NONCE_BITS), sessions=sessions)
        faults = {look["fault"] for look in looks if look["fault"] is not None}
        if not faults or faults & FINAL:
            break
    if not looks:
        return []
    protocol = protocols.of(setup.target.protocol)
    volume = protocol.volume
    refused = [look for look in looks if look["why"] is not None]
    if refused:
        told = "; ".join(f"{volume} {look['share']}: {look['why']}" for look in refused)
        raise ServerError(f"{setup.target.url}: {told}", hint=refused[0]["advice"])
    clients, bytes_each = local.need(setup, levels)
    short = [
        f"{volume} {look['share']} needs {count} x {_mib(bytes_each)} ({_mib(count * bytes_each)}), but only "
        f"{_mib(look['free_bytes'])} are free"
        for look, count in zip(looks, clients, strict=True)
        if look["free_bytes"] is not None and look["free_bytes"] < count * bytes_each
    ]
    if short and setup.suite.ends_when_done:
        raise ServerError(
            f"{setup.target.url} has too little free space for the files: {'; '.join(short)}",
            hint=f"Free some space {'on the server' if protocol.has_host else 'there'}, or write less: a smaller -s "
            "(Bonnie) or --scale (scenarios), or a suite with fewer or smaller files.",
        )
    if short:
        raise ServerError(
            f"{setup.target.url} has too little free space for the workspaces: {'; '.join(short)}",
            hint=(
                "Free some space on the server: earlier runs may have left directories "
                f"{CLIENTS_DIRECTORY}-*. Or spread the clients over more shares, or use a suite with fewer "
                "clients."
            ),
        )
    return looks


def _mib(count: int) -> str:
    return f"{count / MIB:,.0f} MiB"


def _used_before(
    protocol: Protocol[Any], access: Access, looks: Sequence[_native.ShareLook]
) -> Iterator[Notice]:
    used = [look["share"] for look in looks if look["is_used"]]
    if not used:
        return
    base = protocol.base_directory(access.url)
    directories = f"{protocol.clients_directory}-*"
    directory = f"{base}/{directories}" if base else directories
    commands = "; ".join(protocol.remove_command(access, share, directory) for share in used)
    yield (
        f"{access.url}: {directory} already exists on {protocol.volume} {', '.join(used)}, from a load that was killed "
        "or is still running. This load uses its own directory and leaves the existing one unchanged",
        f"If no other load is running, remove it: {commands}",
    )


def _kept_versions(access: Access, looks: Sequence[_native.ShareLook]) -> Iterator[Notice]:
    for look in looks:
        if look["keeps_versions"]:
            yield (
                f"{access.url}: the bucket {look['share']} has versioning. Objects that the load replaces or "
                "deletes stay in it as old versions, also after the load",
                "Use a bucket without versioning, or one with a lifecycle rule that removes old versions.",
            )


def _slow_preparation(access: Access, setup: LoadSetup, levels: Sequence[Level]) -> Iterator[Notice]:
    took_s = local.preparation_s(setup, levels)
    if took_s < SLOW_S or setup.bounds is None:
        return
    yield (
        f"{access.url}: the limit of {setup.bounds.max_rate_per_s:g} requests/s also applies before and after the "
        f"load: the clients need about {format_duration_s(took_s)} to create their files, and time to remove them",
        "Use fewer clients, or a higher rate (--max-rate, or max_rate_per_s in bounds) if the server's owner agrees.",
    )


def _all_in_one(problems: Sequence[tuple[str, DynoError]]) -> DynoError:
    """Return one error with all problems: a UserError if all of them are, otherwise a ServerError."""
    if len(problems) == 1:
        [(name, error)] = problems
        return type(error)(f"{name}: {error}", hint=error.hint)
    lines = [f"{len(problems)} servers can't be loaded:"]
    for name, error in problems:
        lines.append(textwrap.indent(f"{name}: {error}", "  "))
        if error.hint:
            lines.append(textwrap.indent(wording.hint(error.hint), "    "))
    kind = UserError if all(isinstance(error, UserError) for _, error in problems) else ServerError
    return kind("\n".join(lines))
