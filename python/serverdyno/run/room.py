"""Refuses an experiment whose workspaces do not fit, before any server is started.

It checks only servers started on this machine: nodes have their own disks, and `ask.py` checks the user's servers. Each
run checks the free space of its shares again.
"""

from __future__ import annotations

from collections.abc import Sequence

from serverdyno import wording
from serverdyno.errors import UserError
from serverdyno.plan.model import Configuration, Level, Suite
from serverdyno.servers.registry import driver_type
from serverdyno.units import MIB


def check_room(suite: Suite, levels: Sequence[Level], configurations: Sequence[Configuration]) -> None:
    """Raise UserError with every configuration that lacks room for the files of the largest level."""
    needed_bytes, clients = needed(suite, levels)
    if not needed_bytes:
        return
    short = [
        f"{configuration.name} has {free_bytes // MIB:,} MiB"
        for configuration in configurations
        if configuration.url is None
        and configuration.node is None
        and (free_bytes := _free_bytes(configuration)) is not None
        and free_bytes < needed_bytes
    ]
    if short:
        raise UserError(
            f"too little free space: the files of {wording.plural(clients, 'client')} need "
            f"{needed_bytes // MIB:,} MiB, but {', '.join(short)}",
            hint="Use a suite with fewer clients or smaller workspaces, or give the server a larger disk "
            "(data_directory, image_mib) or more memory (capacity_mib).",
        )


def needed(suite: Suite, levels: Sequence[Level]) -> tuple[int, int]:
    """Return the bytes of all workspaces at a suite's largest level, and its number of clients.

    The bytes are 0 if the size is not known in advance.
    """
    settings = suite.settings(suite.work)
    if suite.work.load_file(settings) is not None:
        return 0, 0  # a load file has its own file sizes
    clients = suite.clients[0] if suite.ends_when_done else max(level.clients for level in levels)
    return clients * suite.work.workspace_bytes(settings), clients


def _free_bytes(configuration: Configuration) -> int | None:
    settings = driver_type(configuration.server).settings_type.model_validate(dict(configuration.settings))
    return settings.free_bytes()
