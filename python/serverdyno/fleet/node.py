"""A node of a fleet on Dask distributed, run by `dyno node`.

It answers only requests from the holder of the controller's certificate.

It serves one controller at a time. If the controller is silent for too long, the node ends the load and is free for
another. `worker.py` performs the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
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

from distributed.comm import connect
from distributed.comm.addressing import unparse_host_port

from serverdyno.errors import DynoError
from serverdyno.fleet import dask_settings, link, scheduler
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.answering import FleetServer, Handler
from serverdyno.fleet.facts import node_facts
from serverdyno.fleet.folder import CONTROLLER, SCHEDULER, NodeFolder
from serverdyno.fleet.lease import LEASE_S
from serverdyno.fleet.packing import MOST_REQUEST_BYTES, packed, unpacked
from serverdyno.fleet.pipe import refusal
from serverdyno.fleet.plain_comm import PlainComm
from serverdyno.fleet.silence import LISTENER_LOOK_S, Lateness, Silence
from serverdyno.fleet.worker import Worker
from serverdyno.probes import abandoned

JOIN_S = 20.0
AGAIN_S = 2.0
"""Pause after an attempt to join that was refused or failed."""
LOOK_S = 0.5
"""Time between two attempts to reach a scheduler that is not running."""
BEGINNINGS = frozenset({"open", "serve"})
"""Requests with which a controller begins. All other requests follow one of these."""


class FleetNode(FleetServer):
    """A member of a fleet, which answers the controller's requests."""

    def __init__(
        self,
        name: str,
        scratch: Path,
        refused: dask_settings.RefusedConnections,
        end: asyncio.Event,
        say: Callable[[str], None],
    ) -> None:
        handlers: dict[str, Handler] = {
            "dyno": self.dyno,
            "dyno_ping": self.dyno_ping,
            "dyno_facts": self.dyno_facts,
        }
        super().__init__(handlers | {"dyno_end": self.dyno_end, "dyno_release": self.dyno_release}, scratch)
        self.name = name
        self._end, self._say = end, say
        self._refused = refused
        self._place = Worker()
        # A thread that performs one request after another, in the order of arrival. Dask's own thread stays
        # free for pings.
        self._requests = ThreadPoolExecutor(1, "requests")
        self._controller: str | None = None
        self._silence = Silence(LEASE_S, time.monotonic())
        self._lateness = Lateness(time.monotonic())

    async def dyno(self, request: bytes, controller: str) -> dict[str, Any]:
        """Answer one packed request; `pipe.py` defines the requests."""
        heard_ns = self._place.clock()
        if self._is_in_use() and controller != self._controller:
            return {"refused": "it is in use by another controller"}
        try:
            asked, _ = unpacked(request, MOST_REQUEST_BYTES)
        except ValueError as error:
            return self._answer(heard_ns, refusal(ValueError(f"{self.name} can't read a request: {error}")))
        if asked["do"] == "clock":
            # Answer immediately: waiting behind another request would increase the error of the clock's offset.
            return self._answer(heard_ns, {"told": None})
        if controller != self._controller:
            if asked["do"] not in BEGINNINGS:
                return {"refused": f"it dropped this controller after {LEASE_S:g} s without a message"}
            if self._controller is not None:
                await self.abandon()
            self._controller = controller
        self._silence.heard(time.monotonic())
        if asked["do"] == "stop":
            self._place.hurry()
        loop = asyncio.get_running_loop()
        answer, blob = await loop.run_in_executor(self._requests, self._place.perform, asked)
        if asked["do"] == "serve" and "told" in answer:
            # Tell the person who runs the node which controller's load its machine consents to.
            url, server = answer["told"]["access"]["url"], asked["with"]["server"]
            self._say(f"{self.name} runs {server} at {url}, and consents to load from {controller}")
        return self._answer(heard_ns, answer, blob)

    def _answer(self, heard_ns: int, answer: dict[str, Any], blob: bytes | None = None) -> dict[str, Any]:
        """Return an answer with the node's lateness in s, and with the times of the request's arrival and answer.

        The times are in ns of the node's monotonic clock. The controller treats an answer as a sign of life, as it
        does a ping.
        """
        late_s = self._lateness.lately_s(time.monotonic())
        told = packed(answer, blob)
        return {"answer": told, "late_s": late_s, "heard_ns": heard_ns, "said_ns": self._place.clock()}

    async def dyno_ping(self, controller: str | None = None) -> dict[str, float]:
        """Return the recent delay of the node's checks, in s. `controller` renews its lease."""
        now_s = time.monotonic()
        if controller is not None and controller == self._controller:
            self._silence.heard(now_s)
        return {"late_s": self._lateness.lately_s(now_s)}

    async def dyno_facts(self) -> dict[str, str]:
        facts = await asyncio.to_thread(node_facts)
        told = facts | {"refused_connections": self._refused.count, "in_use": self._controller is not None}
        return {"facts": json.dumps(told)}

    async def dyno_release(self, controller: str) -> dict[str, str]:
        """End the work of this controller, and release the node for another one."""
        if controller == self._controller:
            await self.abandon()
        return {}

    async def dyno_end(self) -> dict[str, str]:
        self._end.set()
        return {}

    async def watch(self) -> None:
        """End the load of a controller that has been silent for too long."""
        self._lateness = Lateness(time.monotonic())  # the time of joining does not count as lateness
        while True:
            await asyncio.sleep(LISTENER_LOOK_S)
            now_s = time.monotonic()
            if self._lateness.look(now_s) > LISTENER_LOOK_S:
                self._silence.stood_still(now_s)
            self._silence.look()
            if self._controller is not None and not self._is_in_use():
                await self.abandon()

    async def abandon(self) -> None:
        """End all work, after the current request."""
        self._controller = None
        self._place.hurry()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._requests, self._place.abandon)

    def _is_in_use(self) -> bool:
        return self._controller is not None and not self._silence.is_over(time.monotonic())


def run(folder: NodeFolder, say: Callable[[str], None]) -> None:
    """Run a node until SIGINT or SIGTERM. It joins the scheduler, and joins again after the scheduler was restarted.

    Raises DynoError if the node's certificate can't be used, or if the scheduler refuses it at the first attempt.
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
        again_s = LOOK_S
        try:
            abandoned.sweep_once()
            await asyncio.to_thread(link.check, folder.at, folder.path)
            await _join(folder, refused, end, say)
        except link.NobodyThere:
            pass  # the scheduler may be started later
        except (DynoError, OSError, TimeoutError) as error:
            say(f"not joined: {error}")
            again_s = AGAIN_S
        if not folder.path.exists():
            say(f"{folder.path} was removed: this node no longer belongs to a fleet")
            return
        if not end.is_set():
            await asyncio.wait([asyncio.ensure_future(end.wait())], timeout=again_s)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a directory for Dask. Its owner file lets a later process remove the directory if this node is killed."""
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
    """Join, and remain a member until the scheduler ends or `end` is set."""
    with _scratch() as scratch:
        async with FleetNode(folder.name, scratch, refused, end, say) as node:
            peers = frozenset({CONTROLLER})
            listening = dask_settings.listening(folder.path, peers, MOST_REQUEST_BYTES, refused)
            here = unparse_host_port(_own_address(folder.at), 0)
            await node.listen(dask_settings.address_of(here), **listening)
            membership = await _membership(folder, unparse_host_port(node.host, node.port))
            say(f"{folder.name} has joined the fleet at {folder.at} as {node.address}")
            ends = [asyncio.ensure_future(one) for one in (_until_gone(membership), end.wait(), node.watch())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
            membership.abort()
            await node.abandon()
            say(
                f"{folder.name} has left"
                if end.is_set()
                else f"{folder.name} lost its connection to the scheduler"
            )


async def _membership(folder: NodeFolder, at: str) -> PlainComm:
    """Join, and return the connection that keeps this node a member. Raises DynoError or OSError."""
    connecting = dask_settings.connecting(folder.path, SCHEDULER, scheduler.MOST_BYTES)
    async with asyncio.timeout(JOIN_S):
        comm: PlainComm = await connect(dask_settings.address_of(folder.at), **connecting)
        try:
            await comm.write({"op": "dyno_join", "name": folder.name, "at": at})
            told = await comm.read()
            if "joined" not in told:
                raise DynoError(str(told.get("refused", "the scheduler's answer is malformed")))
        except BaseException:
            comm.abort()
            raise
    return comm


async def _until_gone(membership: PlainComm) -> None:
    """Wait until the scheduler closes the connection, which carries no more messages."""
    with contextlib.suppress(OSError):
        await membership.read()


def _own_address(at: str) -> str:
    """Return the address of this machine from which the scheduler is reached. No packet is sent."""
    family, _, _, _, there = socket.getaddrinfo(*host_and_port(at), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])
