"""A node of a fleet on Dask distributed: `dyno node`. One process, without a nanny that would start another in its
place.

It answers requests of one controller at a time, for as long as it hears from it; after that it ends the load by itself.
Not for: what a request does (`worker.py`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Worker as DaskWorker

from serverdyno.errors import DynoError
from serverdyno.fleet import dask_settings, link
from serverdyno.fleet.facts import node_facts
from serverdyno.fleet.folder import NodeFolder, host_and_port
from serverdyno.fleet.lease import LEASE_S
from serverdyno.fleet.pipe import refusal
from serverdyno.fleet.worker import Worker
from serverdyno.servers import abandoned

LEASE_LOOK_S = 0.5
JOIN_S = 20.0
AGAIN_S = 2.0


class FleetNode(DaskWorker):  # type: ignore[misc]  # without types of its own here
    """A member of Dask's cluster that takes no tasks, and answers ours."""

    def __init__(
        self, *arguments: Any, refused: dask_settings.RefusedConnections, end: asyncio.Event, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._end = end
        self.handlers |= {"dyno": self.dyno, "dyno_ping": self.dyno_ping, "dyno_facts": self.dyno_facts}
        self.handlers |= {"dyno_end": self.dyno_end, "dyno_release": self.dyno_release}
        self._refused = refused
        self._place = Worker()
        # One after another, in the order in which they come; Dask's own thread stays free for pings.
        self._requests = ThreadPoolExecutor(1, "requests")
        self._controller: str | None = None
        self._heard_s = 0.0

    async def dyno(self, request: str, controller: str) -> dict[str, Any]:
        """Answer one request, as `pipe.py` has it."""
        if not self._is_let_to(controller):
            answer, blob = refusal(RuntimeError(f"{self.name} is in use by another controller")), None
        else:
            asked = json.loads(request)
            if asked["do"] == "clock":
                # At once, and not behind another request: what passes here is error.
                return {"answer": json.dumps({"told": self._place.clock()}), "blob": None}
            loop = asyncio.get_running_loop()
            answer, blob = await loop.run_in_executor(self._requests, self._place.perform, asked)
        return {"answer": json.dumps(answer), "blob": blob}

    async def dyno_ping(self, controller: str | None = None) -> str:
        """Say that it is there; `controller` wants to keep it."""
        if controller is not None and controller == self._controller:
            self._heard_s = time.monotonic()
        return "there"

    async def dyno_facts(self) -> str:
        """Say what it is."""
        facts = await asyncio.to_thread(node_facts)
        return json.dumps(facts | {"refused_connections": self._refused.count, "in_use": self._is_in_use()})

    async def dyno_release(self, controller: str) -> None:
        """Be free for another controller; what this one has left under way ends."""
        if controller == self._controller:
            await self.abandon()

    async def dyno_end(self) -> None:
        """End this node."""
        self._end.set()

    async def watch(self) -> None:
        """End the load of a controller that is not heard of any more."""
        while True:
            await asyncio.sleep(LEASE_LOOK_S)
            if self._controller is not None and not self._is_in_use():
                await self.abandon()

    async def abandon(self) -> None:
        """End everything that is under way, behind the request that is being answered."""
        self._controller = None
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._requests, self._place.abandon)

    def _is_in_use(self) -> bool:
        return self._controller is not None and time.monotonic() - self._heard_s < LEASE_S

    def _is_let_to(self, controller: str) -> bool:
        if self._is_in_use() and controller != self._controller:
            return False
        self._controller, self._heard_s = controller, time.monotonic()
        return True


def run(folder: NodeFolder, say: Callable[[str], None]) -> None:
    """Be a node until SIGINT or SIGTERM: join, and join again when the scheduler has gone. Raises DynoError where its
    certificate can't be used or the scheduler refuses it at first.
    """
    refused = dask_settings.prepare()
    try:
        link.check(folder.at, folder.path)
    except link.NobodyThere as error:
        say(f"{error}; waiting for it")
    asyncio.run(_stay(folder, refused, say))


async def _stay(
    folder: NodeFolder, refused: dask_settings.RefusedConnections, say: Callable[[str], None]
) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end.set)
    while not end.is_set():
        try:
            abandoned.sweep_once()
            await asyncio.to_thread(link.check, folder.at, folder.path)
            await _join(folder, refused, end, say)
        except link.NobodyThere:
            pass  # it may come
        except (DynoError, OSError, TimeoutError) as error:
            say(f"not joined: {error}")
        if not end.is_set():
            await asyncio.wait([asyncio.ensure_future(end.wait())], timeout=AGAIN_S)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A directory for Dask, marked, so that it is swept where this node is killed."""
    directory = Path(tempfile.gettempdir()) / f"serverdyno-node-{secrets.token_hex(8)}"
    directory.mkdir(mode=0o700)
    try:
        abandoned.mark(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _join(
    folder: NodeFolder,
    refused: dask_settings.RefusedConnections,
    end: asyncio.Event,
    say: Callable[[str], None],
) -> None:
    """Be a member until the scheduler goes or `end` is set."""
    with _scratch() as scratch:
        node = FleetNode(
            folder.address,
            refused=refused,
            end=end,
            name=folder.name,
            host=_own_address(folder.at),
            nthreads=1,
            memory_limit=0,
            dashboard=False,
            security=dask_settings.security(folder.path),
            local_directory=str(scratch),
            death_timeout=JOIN_S,
        )
        async with node:
            say(f"{folder.name} has joined the fleet at {folder.at}, as {node.address}")
            ends = [asyncio.ensure_future(one) for one in (node.finished(), end.wait(), node.watch())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
            await node.abandon()
            say(f"{folder.name} has left" if end.is_set() else f"{folder.name} has lost the scheduler")


def _own_address(at: str) -> str:
    """The address of this machine from which the scheduler is reached. No packet is sent."""
    family, _, _, _, there = socket.getaddrinfo(*host_and_port(at), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])
