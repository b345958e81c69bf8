"""Checks that the directories in the settings of a user's file server belong to its shares.

The report judges flushes by the medium of these directories, so other directories could make it wrong.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from serverdyno import _native
from serverdyno.errors import DynoError
from serverdyno.fleet import group
from serverdyno.fleet.consent import open_target
from serverdyno.fleet.group import GroupLoad
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.model import Configuration
from serverdyno.plan.spoken import protocol_of
from serverdyno.run.progress import Progress
from serverdyno.run.steps import steps_of
from serverdyno.servers.base import RunningServer

DIRECTORY = "serverdyno-check-"
"""Prefix of the test directory that is briefly created through a share; unique letters follow."""


def directories_of_shares(
    configuration: Configuration, server: RunningServer, setup: LoadSetup, progress: Progress
) -> Sequence[Path]:
    """Return the directories of a server's files by share; none, with a notice, if one does not belong to its share.

    Directories of our own servers and of `file:` URLs need no check.
    """
    directories = server.data_directories()
    protocol = protocol_of(configuration, setup.suite)
    if not directories or configuration.url is None or not protocol.has_host:
        return directories
    access = protocol.with_secrets(server.access(), setup.suite.settings(protocol))
    base = protocol.base_directory(access.url)
    for share, directory in zip(access.shares or ("",), directories, strict=False):
        target = setup.target
        if len(access.shares) > 1:
            target = open_target(
                protocol, replace(access, shares=(share,)), setup.suite.settings(protocol), setup.bounds
            )
        if (why := _mismatch(setup, target, directory, base)) is not None:
            place = f"share {share}" if share else "the export"
            progress.notice(
                f"{configuration.name}: the setting directories names {directory}, which is not the local "
                f"directory of {place}: {why}. The medium of its files is therefore unknown.",
                hint="In the setting directories, name the local directory of each share, in the same order.",
            )
            return []
    return directories


def _mismatch(setup: LoadSetup, target: _native.Target, directory: Path, base: str) -> str | None:
    """Return why a directory can't belong to the target's first share; None if it does."""
    name = DIRECTORY + secrets.token_hex(6)
    here = group.in_this_process(target, ())

    def act(action: str) -> None:
        steps = steps_of(setup, iter([(f"the check of {directory}", {"do": action}, 0)]), name)
        GroupLoad(here, steps).carry_out(lambda _: None)

    try:
        act("make_base")
    except DynoError as error:
        return f"{error}"
    try:
        # The URL may name a directory below the share.
        found = any((directory / below / name).is_dir() for below in ("", base))
    except OSError as error:
        return f"it can't be read: {error.strerror}"
    finally:
        act("remove_base")
    return None if found else "a directory that dyno made through the share does not appear there"
