"""The scheduler of a fleet, with which nodes register: `python -m serverdyno.fleet.scheduler FOLDER`.

It keeps the list of nodes; no load passes through it. A node is a member as long as its connection lasts, under the
name in its certificate. `up.py` starts the scheduler, which runs until SIGINT or SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from distributed.core import Status

from serverdyno.fleet import dask_settings
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.answering import FleetServer
from serverdyno.fleet.folder import CONTROLLER, RUNNING, SCHEDULER, FleetFolder
from serverdyno.fleet.plain_comm import PlainComm
from serverdyno.fleet.private_file import write_private

MOST_BYTES = 1 << 16
"""Maximum size of a request, which consists of a name and an address."""


class FleetScheduler(FleetServer):
    """The server that keeps the list of a fleet's members."""

    def __init__(self, folder: FleetFolder, refused: dask_settings.RefusedConnections) -> None:
        super().__init__(
            {"dyno_join": self.join, "dyno_members": self.members, "dyno_refused": self.refused}, folder.path
        )
        self._folder, self._refused = folder, refused
        self._members: dict[str, str] = {}

    async def join(self, comm: PlainComm, name: str, at: str) -> Any:
        """Keep a node as a member as long as it stays connected. `at` is its listening address, HOST:PORT."""
        if why := self._why_not(comm.peer_name, name, at):
            return {"refused": why}
        self._members[name] = at
        try:
            await comm.write({"joined": name})
            await comm.read()  # waits until the member leaves, because it sends nothing more
        finally:
            del self._members[name]
        return Status.dont_reply

    async def members(self, comm: PlainComm) -> dict[str, Any]:
        """Return the listening address of each member, by name."""
        return _for_controller(comm) or {"members": dict(sorted(self._members.items()))}

    async def refused(self, comm: PlainComm) -> dict[str, Any]:
        """Return the number of connections that were refused so far."""
        return _for_controller(comm) or {"refused_connections": self._refused.count}

    def _why_not(self, holder: str | None, name: object, at: object) -> str | None:
        """Return why a node can't join; None if it can. `holder` is the name in its certificate."""
        if holder != name:
            return f"the certificate belongs to {holder}, so it can't be used to join as {name!r}"
        if holder not in self._folder.nodes:
            return f"{holder} is not one of this fleet's nodes: {', '.join(self._folder.nodes)}"
        if holder in self._members:
            return f"{holder} has already joined, at {self._members[holder]}"
        try:
            host_and_port(str(at))
        except ValueError as error:
            return f"{holder} gave no valid address: {error}"
        return None


def _for_controller(comm: PlainComm) -> dict[str, str] | None:
    """Return a refusal if the peer is not the controller."""
    if comm.peer_name == CONTROLLER:
        return None
    return {
        "refused": f"the certificate belongs to {comm.peer_name}, but only the {CONTROLLER} may send "
        "this request"
    }


async def serve(folder: FleetFolder) -> None:
    """Run the scheduler until SIGINT or SIGTERM. Once it listens, its process ID is in the folder."""
    refused = dask_settings.prepare()
    end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    peers = frozenset({CONTROLLER, *folder.nodes})
    async with FleetScheduler(folder, refused) as scheduler:
        listening = dask_settings.listening(folder.path / SCHEDULER, peers, MOST_BYTES, refused)
        await scheduler.listen(dask_settings.address_of(folder.at), **listening)
        running = folder.path / RUNNING
        write_private(running, f"{os.getpid()}\n".encode())
        try:
            await end.wait()
        finally:
            running.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(serve(FleetFolder.open(Path(sys.argv[1]))))
