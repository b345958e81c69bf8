"""Reasons why this machine can't run a checked plan, as far as known without a server and without load.

`plan/validate.py` finds problems of the plan, and `ask.py` problems of the user's servers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from serverdyno import wording
from serverdyno.errors import DynoError, ServerError
from serverdyno.plan.model import Configuration, Level, Suite
from serverdyno.plan.protocols.posix import POSIX, directory_of, directory_problem
from serverdyno.plan.spoken import protocols_of
from serverdyno.run.room import check_room, needed
from serverdyno.servers.registry import create, driver_type
from serverdyno.units import MIB


def check_installed(configurations: Sequence[Configuration]) -> None:
    """Raise ServerError with every missing server program that a run would need."""
    absent = {
        configuration.server: driver_type(configuration.server).debian_package
        for configuration in configurations
        if configuration.node is None and driver_type(configuration.server).installed() is None
    }
    if absent:
        packages = " ".join(package for package in absent.values() if package)
        raise ServerError(
            f"not installed here: {', '.join(absent)}",
            hint=f"apt-get install {packages}" if packages else "`dyno servers` says how to install them.",
        )


def refusals_here(
    suite: Suite, levels: Sequence[Level], configurations: Sequence[Configuration]
) -> Iterator[str]:
    """Yield the reasons: missing room, passwords, files or directories.

    Raises UserError for a user's server that can never be reached.
    """
    for configuration in configurations:
        if configuration.url is None:
            continue
        driver = create(
            configuration.server,
            dict(configuration.settings),
            documents=Path(os.devnull),
            url=configuration.url,
        )
        try:
            driver.ready()
        except DynoError as error:
            yield f"{configuration.name}: {error}"
        place = configuration.settings.get("connect_to") or ""
        if place.startswith("/") and not Path(place).is_socket():
            wrong = "is not a Unix socket" if Path(place).exists() else "does not exist"
            yield f"{configuration.name}: connect_to: {place} {wrong}"
        scheme = configuration.url.partition(":")[0]
        if scheme in POSIX.schemes:
            unusable = directory_problem(configuration.url) or _lack_of_room(suite, levels, configuration.url)
            if unusable is not None:
                yield f"{configuration.name}: {unusable}"
    for protocol in protocols_of(configurations, suite):
        try:
            protocol.client_section(suite.settings(protocol))
        except DynoError as error:
            yield f"{error}"
    try:
        check_room(suite, levels, configurations)
    except DynoError as error:
        yield f"{error}"


def _lack_of_room(suite: Suite, levels: Sequence[Level], url: str) -> str | None:
    """Return why the files of the largest level do not fit into the directory of a URL; None if they do."""
    needed_bytes, clients = needed(suite, levels)
    free_bytes = shutil.disk_usage(directory_of(url)).free
    if free_bytes >= needed_bytes:
        return None
    return (
        f"{directory_of(url)} has too little free space: the files of {wording.plural(clients, 'client')} need "
        f"{needed_bytes / MIB:,.0f} MiB, but only {free_bytes / MIB:,.0f} MiB are free"
    )
