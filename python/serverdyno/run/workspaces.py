"""Removes the clients' files from the user's file server, however the run ends, and reports files that remain.

Our own servers are deleted with their shares. The data plane cleans up at the end of a level.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from serverdyno import wording
from serverdyno.fleet import local
from serverdyno.fleet.document import NONCE_BITS
from serverdyno.fleet.load_setup import LoadSetup
from serverdyno.plan.model import Configuration, Level
from serverdyno.plan.protocols.base import Protocol
from serverdyno.plan.spoken import protocol_of
from serverdyno.run.progress import Progress
from serverdyno.servers.base import Access

if TYPE_CHECKING:
    from serverdyno._native import LeftOver, ShareLook


@contextmanager
def workspaces_taken_away(
    configuration: Configuration, access: Access, level: Level, setup: LoadSetup, progress: Progress
) -> Iterator[None]:
    """Remove the clients' files from the user's shares at the end of the block, or report the remaining ones.

    A second interrupt ends the removal.
    """
    protocol = protocol_of(configuration, setup.suite)
    if configuration.url is None or protocol.clients_directory is None or setup.suite.ends_when_done:
        yield
        return
    interrupted = False

    def say_so() -> None:
        if not interrupted:
            progress.stage(f"removing the clients' workspaces, {setup.removal_words()}")
        elif setup.workspaces_begun():
            # The terminal that sent the interrupt may be closed.
            with suppress(OSError):
                progress.notice(
                    f"interrupted: removing the clients' workspaces from {configuration.url}, "
                    f"{setup.removal_words()}; a second interrupt stops this and leaves the rest"
                )

    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        local.remove_workspaces(
            setup, level, say_so, lambda left: progress.notice(*what_is_left(protocol, access, left))
        )


def tell_recycled(
    configuration: Configuration, before: Sequence[ShareLook], setup: LoadSetup, progress: Progress
) -> None:
    """Report recycle bins that have grown since `before`, because workspaces moved there would fill the disk."""
    if configuration.url is None:
        return
    known = {look["share"]: look["recycled_entries"] for look in before}
    for look in setup.target.look(secrets.randbits(NONCE_BITS)):
        share, added = look["share"], look["recycled_entries"] - known.get(look["share"], 0)
        if look["recycle_bin"] is not None and added > 0:
            progress.notice(
                f"share {share}: the server moves deleted files to its recycle bin, {look['recycle_bin']}, "
                f"which has grown by {wording.plural(added, 'entry', 'entries')}. They fill the disk, and a move "
                "does not cost the same as a delete.",
                hint=f"Empty {look['recycle_bin']}, and disable the recycle bin for this share (Samba: vfs "
                "objects without recycle).",
            )


def tell_left(
    configuration: Configuration, access: Access, setup: LoadSetup, left: Sequence[str], progress: Progress
) -> None:
    """Report the paths that a suite of steps may have left on a user's server, and how to remove them."""
    if configuration.url is None:
        return
    protocol = protocol_of(configuration, setup.suite)
    base = protocol.base_directory(access.url)
    share = next(iter(access.shares), unquote(urlsplit(access.url).path))
    commands = [protocol.remove_command(access, share, f"{base}/{path}" if base else path) for path in left]
    progress.notice(
        f"files or directories that could not be removed, and remain on {access.url}: {', '.join(left)}",
        hint=f"To remove them: {'; '.join(commands)}",
    )


def what_is_left(protocol: Protocol[Any], access: Access, left: Sequence[LeftOver]) -> tuple[str, str]:
    """Return a text on the remaining directories with the reasons, and a hint on how to remove them."""

    def share_of(one: LeftOver) -> str:
        return one["share"]

    lines, commands = [], []
    for share, there in groupby(sorted(left, key=share_of), key=share_of):
        found = sorted(there, key=lambda one: one["client"])
        why = next((one["why"] for one in found if one["why"]), None)
        directories = ", ".join(one["directory"] for one in found)
        lines.append(f"  {protocol.volume} {share}: {directories}{f' ({why})' if why else ''}")
        parent = found[0]["directory"].rpartition("/")[0]
        commands.append(protocol.remove_command(access, share, parent))
    text = "\n".join([f"some workspaces could not be removed from {access.url}:", *lines])
    return (
        text,
        f"These directories contain only workspaces. To remove all workspaces of a {protocol.volume}: "
        f"{'; '.join(commands)}",
    )
