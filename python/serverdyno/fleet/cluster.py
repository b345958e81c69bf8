"""The backend of many machines: nodes that have met at a Dask scheduler, as the controller holds them.

A node that ends, stands still or can't be reached any more is lost within `SILENT_S` and a look; one that is short of
CPU time is waited for (`silence.py`). Not for: who must be there (`membership.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import psutil
from distributed import Client

from serverdyno.errors import DynoError
from serverdyno.fleet import dask_settings, facts, link
from serverdyno.fleet.address import host_and_port
from serverdyno.fleet.contract import Exchange
from serverdyno.fleet.folder import CONTROLLER, FleetFolder
from serverdyno.fleet.packing import MOST_ANSWER_BYTES, packed, unpacked
from serverdyno.fleet.pipe import told_or_raised
from serverdyno.fleet.silence import LISTENER_LOOK_S, Silence
from serverdyno.probes.noise import process_cpu_s

Told = TypeVar("Told")

MIX_LOOK_S = 1.2
"""The longest from one word of a node on a mix to the next: a mix of 2 s takes two, and no ping."""
PING_S = 1.5
"""From the last word of a node to a ping: longer than a look at a mix takes, so that the answers are words enough."""
DOOR_S = 0.75
SILENT_S = 3.0
"""A node that answers no ping for so long is lost, if it had CPU time."""
FACTS_S = 9.0
AT_ONCE = 16
"""Nodes that are asked what they are at the same time: each takes a TLS handshake first."""
END_S = 5.0
AGAIN_S = 0.1
CHECK_MEMBERS_S = 0.5
"""From one look at who has joined the fleet to the next."""
ENDED = "it has ended"
UNREACHED = "its machine does not answer: it is down, or its link is cut"
STANDS_STILL = "its machine is there, and it stands still: it was stopped (SIGSTOP), or has no CPU time"
"""Why a node may be silent."""


class DaskNode:
    """One node, as the controller holds it."""

    look_s = MIX_LOOK_S

    def __init__(self, cluster: Cluster, name: str, address: str, told: dict[str, Any]) -> None:
        """`told`: see `facts.node_facts`."""
        self.name, self.address, self.facts = f"node {name}", address, told
        self.short_name = name
        self.lost = False
        self._cluster = cluster
        self._rpc = cluster.client.rpc(address)
        self._why, self._cpu_s, self._pid = "", 0.0, facts.pid_seen_from_here(told)
        self._request: Future[bytes] | None = None
        self._exchange: Exchange | None = None
        self._heard = Silence(SILENT_S, time.monotonic())
        self._gone = cluster.run(_event())
        self._watching = cluster.begin(self._watch())

    @property
    def host(self) -> str:
        """The address by which the fleet knows it."""
        return host_and_port(self.address.rpartition("/")[2])[0]

    @property
    def on_this_clock(self) -> bool:
        """Two time namespaces of one machine have clocks of their own."""
        here, there = facts.place(), self.facts["place"]
        return bool(here["boot"] == there["boot"] and here["time"] == there["time"] != "unknown")

    @property
    def exchange(self) -> Exchange:
        """The last one."""
        assert self._exchange is not None, "a request comes first"
        return self._exchange

    @property
    def on_this_machine(self) -> bool:
        """Whether the kernel is the same one."""
        return bool(facts.place()["boot"] == self.facts["place"]["boot"])

    def ask(self, do: str, **arguments: object) -> None:
        """Send a request; `answer` gives what it came to."""
        if self.lost:
            raise self._loss()
        self._request = self._cluster.begin(self._call(packed({"do": do, "with": arguments})))

    def answered(self, timeout_s: float) -> bool:
        """Wait so long for the answer; true once there is one, or the node is lost."""
        assert self._request is not None, "a request comes first"
        return bool(wait([self._request], timeout_s).done)

    def answer(self) -> Any:
        """Wait for the answer. Raises what the node refused with, or DynoError where it is lost."""
        assert self._request is not None, "a request comes first"
        try:
            answer = self._request.result()
        except (OSError, RuntimeError, asyncio.CancelledError) as error:
            self._lose(self._cluster.run(self._silence()))
            raise self._loss() from error
        if not answer:
            raise self._loss()
        try:
            words, blob = unpacked(answer, MOST_ANSWER_BYTES)
        except ValueError as error:
            raise DynoError(f"the answer of {self.name} can't be read: it is {error}") from error
        return told_or_raised(words, blob)

    def cpu_s(self) -> float:
        """Of its process, where it runs on this machine; else it uses nothing here."""
        if self._pid is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._cpu_s = max(self._cpu_s, process_cpu_s(self._pid))
        return self._cpu_s

    def end(self) -> None:
        """Let it go: it ends what it has under way, also where this does not reach it."""
        self._watching.cancel()
        if not self.lost:
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                self._cluster.run(self._release())

    async def _release(self) -> None:
        await asyncio.wait_for(self._rpc.dyno_release(controller=self._cluster.controller), SILENT_S)

    async def _call(self, request: bytes) -> bytes:
        """The answer; nothing where the node is lost meanwhile."""
        sent_ns = time.monotonic_ns()
        call = asyncio.ensure_future(self._rpc.dyno(request=request, controller=self._cluster.controller))
        gone = asyncio.ensure_future(self._gone.wait())
        await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not call.done():
            call.cancel()
            return b""
        came_ns = time.monotonic_ns()
        answer, late_s, heard_ns, said_ns = call.result()
        self._exchange = Exchange(sent_ns, heard_ns, said_ns, came_ns)
        self._heard.heard(time.monotonic(), late_s)
        return bytes(answer)

    async def _watch(self) -> None:
        """Ping it whenever nothing else is heard of it, until it is lost. An answer that comes late counts as one."""
        ping: asyncio.Future[Any] | None = None
        try:
            while not self.lost:
                if ping is None and (quiet_s := self._heard.quiet_s(time.monotonic())) < PING_S:
                    await asyncio.sleep(PING_S - quiet_s)
                    continue
                ping = ping or asyncio.ensure_future(self._rpc.dyno_ping(controller=self._cluster.controller))
                await asyncio.wait({ping}, timeout=LISTENER_LOOK_S)
                self._heard.look()
                if ping.done() and ping.exception() is None:
                    self._heard.heard(time.monotonic(), ping.result())
                    ping = None
                    continue
                if ping.done():
                    ping = None
                    await asyncio.sleep(AGAIN_S)
                await self._doubt()
        finally:
            if ping is not None:
                ping.cancel()

    async def _doubt(self) -> None:
        """Give it up where it has ended, or is silent for too long."""
        why = await self._silence()
        if why == UNREACHED:
            self._heard.look()  # the wait at the door was one, and a long one
        now_s = time.monotonic()
        if why == ENDED or self._heard.is_over(now_s, patient=why == STANDS_STILL):
            self._lose(why)

    async def _silence(self) -> str:
        """Why it doesn't answer, as far as that can be told from here."""
        at = host_and_port(self.address.rpartition("/")[2])
        try:
            _, door = await asyncio.wait_for(asyncio.open_connection(*at), DOOR_S)
        except ConnectionRefusedError:
            return ENDED
        except (OSError, TimeoutError):
            return UNREACHED
        door.close()
        return STANDS_STILL

    def _lose(self, why: str) -> None:
        if not self.lost:
            self.lost, self._why = True, why
            self._cluster.client.loop.asyncio_loop.call_soon_threadsafe(self._gone.set)

    def _loss(self) -> DynoError:
        scheduler = (
            ""
            if self._cluster.has_scheduler()
            else (
                f". The fleet's scheduler at {self._cluster.folder.at} is gone, too: its nodes left with it"
            )
        )
        return DynoError(
            f"{self.name} is lost: {self._why}{scheduler}",
            hint="Once it is back (dyno fleet status), dyno resume does what is missing.",
        )


async def _event() -> asyncio.Event:
    return asyncio.Event()


class Cluster:
    """A connection to a fleet's scheduler and to its nodes."""

    def __init__(self, folder: FleetFolder, client: Client) -> None:
        self.folder, self.client = folder, client
        self.controller = f"{socket.gethostname()}-{secrets.token_hex(4)}"

    def begin(self, work: Coroutine[Any, Any, Told]) -> Future[Told]:
        """Begin something on the thread of the connection."""
        return asyncio.run_coroutine_threadsafe(work, self.client.loop.asyncio_loop)

    def run(self, work: Coroutine[Any, Any, Told]) -> Told:
        """The same, to its end."""
        return self.begin(work).result()

    def has_scheduler(self) -> bool:
        """Whether anybody listens where it should be."""
        try:
            socket.create_connection(host_and_port(self.folder.at), DOOR_S).close()
        except OSError:
            return False
        return True

    def members(self) -> dict[str, str]:
        """Name of each node that is there -> its address. Of two with one name neither."""
        found: dict[str, list[str]] = {}
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for address, worker in workers.items():
            found.setdefault(str(worker["name"]), []).append(address)
        return {name: at[0] for name, at in sorted(found.items()) if len(at) == 1}

    def refused_connections(self) -> int:
        """How many the scheduler has refused since it began."""

        async def ask() -> str:
            return str(await self.client.scheduler.dyno_refused())

        return int(json.loads(self.run(ask())))

    def end_nodes(self) -> list[str]:
        """Ask every node that is there to end; their names."""
        members = self.members()

        async def ask(address: str) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(self.client.rpc(address).dyno_end(), SILENT_S)

        async def ask_all() -> None:
            await asyncio.gather(*(ask(address) for address in members.values()))

        self.run(ask_all())
        return list(members)

    def facts(self, members: dict[str, str], patience_s: float = FACTS_S) -> dict[str, dict[str, Any] | None]:
        """What each says of itself; None of one that doesn't answer in time: it reads its files for that."""
        until_s = time.monotonic() + patience_s
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(address: str) -> dict[str, Any] | None:
            async with turns:
                asked = self.client.rpc(address).dyno_facts()
                try:
                    return dict(json.loads(await asyncio.wait_for(asked, until_s - time.monotonic())))
                except (OSError, TimeoutError):
                    return None

        async def ask_all() -> list[dict[str, Any] | None]:
            return list(await asyncio.gather(*(ask(address) for address in members.values())))

        return dict(zip(members, self.run(ask_all()), strict=True))


@contextmanager
def connected(folder: FleetFolder) -> Iterator[Cluster]:
    """A connection for as long as the block lasts. Raises DynoError where there is no scheduler, or it refuses us."""
    link.check(folder.at, folder.path / CONTROLLER)
    dask_settings.prepare()
    security = dask_settings.security(folder.path / CONTROLLER)
    try:
        client = Client(
            folder.address, security=security, set_as_default=False, timeout=dask_settings.CONNECT_S
        )
    except OSError as error:
        raise DynoError(f"the fleet's scheduler at {folder.at} can't be used: {error}") from error
    try:
        yield Cluster(folder, client)
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(END_S)


def wait_for(cluster: Cluster, names: Sequence[str], patience_s: float) -> dict[str, str]:
    """Those of `names` that are there, as soon as all are, or after `patience_s`."""
    until = time.monotonic() + patience_s
    while True:
        there = cluster.members()
        if all(name in there for name in names) or time.monotonic() >= until:
            return {name: there[name] for name in names if name in there}
        time.sleep(min(CHECK_MEMBERS_S, patience_s))
